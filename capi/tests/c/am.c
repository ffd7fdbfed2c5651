/* Active messages: short and long headers, replies, held messages, floods. */
#include "test.h"

struct state {
    struct job *job;
    int calls, answers, held, refused;
    uint64_t sum;
};

static unsigned char pattern(size_t at, int seed)
{
    return (unsigned char)(at * 7 + (size_t)seed);
}

/* Checks header and data, and answers with their lengths. */
static int question(void *argument, uint32_t source, const void *hdr, size_t hdr_bytes,
                    const void *data, size_t bytes)
{
    struct state *state = argument;
    const unsigned char *h = hdr, *d = data;
    uint64_t lengths[2] = {hdr_bytes, bytes};

    ENSURE(source < (uint32_t)state->job->size);
    for (size_t i = 0; i < hdr_bytes; i++)
        ENSURE(h[i] == pattern(i, 1));
    for (size_t i = 0; i < bytes; i++)
        ENSURE(d[i] == pattern(i, (int)source));
    state->calls++;
    /* What would wait is refused, what does not goes on. */
    REFUSED(RANKWAY_ERR_NESTED, "handler", rankway_probe(0, 99, state->job->world, NULL));
    state->refused++;
    OK(rankway_am_reply(2, lengths, sizeof lengths, NULL, 0));
    REFUSED(RANKWAY_ERR_ARG, "answered", rankway_am_reply(2, NULL, 0, NULL, 0));
    return 0;
}

static int answer(void *argument, uint32_t source, const void *hdr, size_t hdr_bytes,
                  const void *data, size_t bytes)
{
    struct state *state = argument;
    uint64_t lengths[2];

    (void)source;
    (void)data;
    ENSURE(hdr_bytes == sizeof lengths && bytes == 0);
    memcpy(lengths, hdr, sizeof lengths);
    state->sum += lengths[0] * 1000000 + lengths[1];
    state->answers++;
    return 0;
}

/* Takes every second offer only. */
static int reluctant(void *argument, uint32_t source, const void *hdr, size_t hdr_bytes,
                     const void *data, size_t bytes)
{
    struct state *state = argument;
    uint32_t number;

    (void)data;
    ENSURE(hdr_bytes == sizeof number && bytes == 8 && source < 16);
    if (state->held++ % 2 == 0)
        return 1;
    memcpy(&number, hdr, sizeof number);
    ENSURE(number == (uint32_t)state->calls);
    state->calls++;
    REFUSED(RANKWAY_ERR_ARG, "handler", rankway_am_reply(2, NULL, 0, NULL, 0));
    return 0;
}

/* Requests that a handler waits for: under way, complete, one-sided. */
struct waiting {
    rankway_win_t win;
    rankway_request_t requests[3];
    int ran;
};

/* What is refused leaves all as it was. */
static int waits(void *argument, uint32_t source, const void *hdr, size_t hdr_bytes,
                 const void *data, size_t bytes)
{
    struct waiting *waiting = argument;
    rankway_request_t before[3];
    rankway_status_t status;

    (void)source, (void)hdr, (void)hdr_bytes, (void)data, (void)bytes;
    memcpy(before, waiting->requests, sizeof before);
    REFUSED(RANKWAY_ERR_NESTED, "handler", rankway_waitall(3, waiting->requests, NULL));
    REFUSED(RANKWAY_ERR_NESTED, "handler", rankway_wait(&waiting->requests[0], NULL));
    ENSURE(memcmp(before, waiting->requests, sizeof before) == 0);
    OK(rankway_wait(&waiting->requests[1], &status)); /* does not wait */
    ENSURE(status.tag == 78 && waiting->requests[1].id == 0);
    REFUSED(RANKWAY_ERR_NESTED, "handler", rankway_win_free(waiting->win));
    waiting->ran++;
    return 0;
}

static void waits_within(struct job *job, int left, int right)
{
    struct waiting waiting = {0};
    rankway_request_t sends[2];
    int word = job->rank, in[2] = {-1, -1}, flag = 0;

    OK(rankway_am_register(job->context, 5, waits, &waiting));
    OK(rankway_win_allocate(sizeof word, 1, job->world, NULL, &waiting.win));
    OK(rankway_win_lock_all(0, waiting.win));
    OK(rankway_isend(&word, sizeof word, right, 78, job->world, &sends[0]));
    while (!flag)
        OK(rankway_iprobe(left, 78, job->world, &flag, NULL));
    OK(rankway_irecv(&in[0], sizeof word, left, 77, job->world, &waiting.requests[0]));
    OK(rankway_irecv(&in[1], sizeof word, left, 78, job->world, &waiting.requests[1]));
    OK(rankway_rput(&word, sizeof word, right, 0, waiting.win, &waiting.requests[2]));
    OK(rankway_comm_barrier(job->world)); /* all have begun theirs */
    OK(rankway_am_send(right, job->world, 5, NULL, 0, NULL, 0));
    while (!waiting.ran)
        OK(rankway_progress(job->context));
    OK(rankway_comm_barrier(job->world)); /* all were refused */
    OK(rankway_isend(&word, sizeof word, right, 77, job->world, &sends[1]));
    OK(rankway_waitall(3, waiting.requests, NULL));
    OK(rankway_waitall(2, sends, NULL));
    ENSURE(in[0] == left && in[1] == left);
    OK(rankway_win_unlock_all(waiting.win));
    OK(rankway_win_free(waiting.win));
}

static int body(void *unused)
{
    struct job job;
    struct state questions = {0}, floods = {0};
    int right, left, flag;
    size_t limit, hdrs[] = {0, 1, 12, 13, 64, 300}, most = 0;
    uint64_t want = 0;
    unsigned char *hdr, *data;
    rankway_options_t options = RANKWAY_OPTIONS_INIT;

    (void)unused;
    options.netmod = getenv("TEST_NETMOD");
    options.provider = getenv("TEST_PROVIDER");
    join(&job, &options);
    right = (job.rank + 1) % job.size;
    left = (job.rank + job.size - 1) % job.size;
    questions.job = floods.job = &job;
    OK(rankway_am_register(job.context, 1, question, &questions));
    OK(rankway_am_register(job.context, 2, answer, &questions));
    OK(rankway_am_register(job.context, 3, reluctant, &floods));
    REFUSED(RANKWAY_ERR_ARG, "registered", rankway_am_register(job.context, 3, reluctant, NULL));
    REFUSED(RANKWAY_ERR_NULL, "handler", rankway_am_register(job.context, 4, NULL, NULL));
    REFUSED(RANKWAY_ERR_ARG, "65536", rankway_am_register(job.context, 65536, answer, NULL));
    REFUSED(RANKWAY_ERR_RANK, "range", rankway_am_send(job.size, job.world, 1, NULL, 0, NULL, 0));
    REFUSED(RANKWAY_ERR_NULL, "null", rankway_am_send(right, job.world, 1, NULL, 5, NULL, 0));
    REFUSED(RANKWAY_ERR_ARG, "no handler", rankway_am_reply(2, NULL, 0, NULL, 0));

    OK(rankway_am_limit(right, job.world, &limit));
    ENSURE(limit >= 1024);
    hdr = malloc(300);
    data = malloc(limit + 1);
    for (size_t i = 0; i < 300; i++)
        hdr[i] = pattern(i, 1);
    for (size_t i = 0; i <= limit; i++)
        data[i] = pattern(i, job.rank);
    for (size_t i = 0; i < 6; i++) {
        size_t capacity = hdrs[i] > 12 ? limit - hdrs[i] : limit, sizes[] = {0, 8, capacity};
        for (size_t k = 0; k < 3; k++) {
            OK(rankway_am_request(right, job.world, 1, hdr, hdrs[i], data, sizes[k]));
            want += hdrs[i] * 1000000 + sizes[k];
            most++;
        }
    }
    REFUSED(RANKWAY_ERR_RANGE, "at most",
            rankway_am_send(right, job.world, 1, hdr, 0, data, limit + 1));
    while (questions.answers < (int)most || questions.calls < (int)most)
        OK(rankway_progress(job.context));
    ENSURE(questions.sum == want && questions.refused == (int)most);

    for (uint32_t i = 0; i < 2000; i++) {
        if (i % 2) {
            OK(rankway_am_send(left, job.world, 3, &i, sizeof i, &want, 8));
        } else {
            do {
                OK(rankway_am_try_send(left, job.world, 3, &i, sizeof i, &want, 8, &flag));
                OK(rankway_progress(job.context));
            } while (!flag);
        }
    }
    while (floods.calls < 2000)
        OK(rankway_progress(job.context));
    free(hdr);
    free(data);
    waits_within(&job, left, right);
    leave(&job);
    return 0;
}

int main(void)
{
    return ranks(2, body);
}
