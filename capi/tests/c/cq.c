/* The completion queue: messages and posted active messages that carry cookies. */
#include "test.h"

enum { ROUNDS = 50, LONG = 300000, POSTS = 20 };

/* Cookies say what ended: a send, a receive, a posted message; of whom, which. */
enum kind { SEND = 1, RECV, POST };
static uint64_t cookie(enum kind kind, int peer, int which)
{
    return (uint64_t)kind << 48 | (uint64_t)(uint32_t)peer << 24 | (uint64_t)which;
}

struct state {
    struct job job;
    /* Posted messages that came from each rank, and answers to own ones. */
    int came[16], answered[16];
    unsigned char *answer;
    int posts_open;
    /* How often nothing was made. */
    int idle;
};

static unsigned char byte_of(size_t at, int seed)
{
    return (unsigned char)(at * 13 + (size_t)seed);
}

static size_t length_of(int which)
{
    return which % 3 == 0 ? 0 : which % 3 == 1 ? 40 : LONG;
}

/* Checks one and answers it with as much, from within the handler. */
static int posted(void *argument, uint32_t source, const void *hdr, size_t hdr_bytes,
                  const void *data, size_t bytes)
{
    struct state *state = argument;
    const unsigned char *d = data;
    int which, done;

    ENSURE(source < (uint32_t)state->job.size && hdr_bytes >= sizeof which);
    memcpy(&which, hdr, sizeof which);
    ENSURE(which == state->came[source]++);
    ENSURE(hdr_bytes == sizeof which + (size_t)which * 5 && bytes == length_of(which));
    for (size_t i = 0; i < bytes; i++)
        ENSURE(d[i] == byte_of(i, which + (int)source));
    OK(rankway_am_post(state->job.context, source, 6, hdr, sizeof which, state->answer, bytes,
                       cookie(POST, (int)source, 1000 + which), &done));
    state->posts_open += !done;
    return 0;
}

static int answered(void *argument, uint32_t source, const void *hdr, size_t hdr_bytes,
                    const void *data, size_t bytes)
{
    struct state *state = argument;
    int which;

    ENSURE(hdr_bytes == sizeof which);
    memcpy(&which, hdr, sizeof which);
    ENSURE(which == state->answered[source]++ && bytes == length_of(which));
    for (size_t i = 0; i < bytes; i++)
        ENSURE(((const unsigned char *)data)[i] == byte_of(i, 77));
    return 0;
}

/* Takes what has ended, in handfuls of three; returns how much. */
static int take(struct state *state, rankway_completion_t *all, int most)
{
    int count = 0, total = 0, made;

    OK(rankway_progress_made(state->job.context, &made));
    if (!made) {
        OK(rankway_cq_read(state->job.context, all, most, &count));
        ENSURE(count == 0);
        state->idle++;
        return 0;
    }
    do {
        int left = most - total < 3 ? most - total : 3;
        OK(rankway_cq_read(state->job.context, all + total, left, &count));
        total += count;
    } while (count == 3 && total < most);
    return total;
}

static void messages(struct state *state)
{
    struct job *job = &state->job;
    static uint64_t out[16][ROUNDS], in[16][ROUNDS];
    static unsigned char ended[4][16][ROUNDS];
    int open = 0;
    uint64_t id;

    for (int round = 0; round < ROUNDS; round++)
        for (int peer = 0; peer < job->size; peer++) {
            OK(rankway_cq_irecv(job->context, &in[peer][round], 8, round % 2 ? peer : -1, 5,
                                (uint64_t)peer << 32 | (uint64_t)round, 0,
                                cookie(RECV, peer, round), &id));
            open++;
        }
    for (int round = 0; round < ROUNDS; round++)
        for (int peer = 0; peer < job->size; peer++) {
            out[peer][round] = (uint64_t)(job->rank * 1000 + round);
            OK(rankway_cq_isend(job->context, &out[peer][round], 8, (uint32_t)peer, 5,
                                (uint64_t)job->rank << 32 | (uint64_t)round, round % 3 == 0,
                                cookie(SEND, peer, round), &id));
            if (id)
                open++;
        }
    while (open) {
        rankway_completion_t some[7];
        int count = take(state, some, 7);
        open -= count;
        ENSURE(open >= 0);
        for (int i = 0; i < count; i++) {
            int kind = (int)(some[i].cookie >> 48), peer = (int)(some[i].cookie >> 24 & 0xffffff);
            int round = (int)(some[i].cookie & 0xffffff);
            ENSURE((kind == SEND || kind == RECV) && peer < job->size && round < ROUNDS);
            ENSURE(!ended[kind][peer][round]++ && some[i].code == RANKWAY_SUCCESS);
            if (kind == RECV) {
                ENSURE(some[i].status.peer == (uint32_t)peer && some[i].status.count == 8);
                ENSURE(some[i].status.bits == ((uint64_t)peer << 32 | (uint64_t)round));
                ENSURE(in[peer][round] == (uint64_t)(peer * 1000 + round));
            }
        }
    }
    for (int peer = 0; peer < job->size; peer++)
        for (int round = 0; round < ROUNDS; round++)
            ENSURE(ended[RECV][peer][round]);
}

/* One that is taken back, one whose message is too long, one that finds its message here. */
static void odd_ones(struct state *state)
{
    struct job *job = &state->job;
    rankway_completion_t one;
    uint64_t value = 9, id, sent;
    int flag;

    OK(rankway_cq_irecv(job->context, &value, 8, -1, 6, 1, 0, 41, &id));
    OK(rankway_cq_cancel(job->context, id, &flag));
    ENSURE(flag == 1);
    OK(rankway_cq_cancel(job->context, id, &flag));
    ENSURE(flag == 0);
    while (take(state, &one, 1) == 0)
        ;
    ENSURE(one.cookie == 41 && one.code == RANKWAY_SUCCESS && one.status.cancelled);
    OK(rankway_cq_cancel(job->context, id, NULL));

    OK(rankway_cq_isend(job->context, &value, 8, (uint32_t)job->rank, 6, 2, 0, 42, &sent));
    OK(rankway_cq_irecv(job->context, &value, 4, job->rank, 6, 2, 0, 43, &id));
    while (take(state, &one, 1) == 0)
        ;
    if (one.cookie == 42) {
        while (take(state, &one, 1) == 0)
            ;
        sent = 0;
    }
    ENSURE(one.cookie == 43 && one.code == RANKWAY_ERR_TRUNCATE && one.status.count == 8 &&
           one.status.peer == (uint32_t)job->rank);
    ENSURE(strstr(rankway_error_message(), "8 bytes"));
    ENSURE(sent == 0 || take(state, &one, 1) == 1);
    int before = state->idle;
    while (state->idle == before)
        if (take(state, &one, 1) != 0)
            FAIL("cookie %d, code %d came, too", (int)one.cookie, one.code);

    REFUSED(RANKWAY_ERR_ARG, "cookie", rankway_cq_isend(job->context, &value, 8, 0, 6, 2, 0, 0, &id));
    REFUSED(RANKWAY_ERR_ARG, "cookie", rankway_cq_irecv(job->context, &value, 8, 0, 6, 2, 0, 0, &id));
    REFUSED(RANKWAY_ERR_NULL, "id", rankway_cq_isend(job->context, &value, 8, 0, 6, 2, 0, 1, NULL));
    REFUSED(RANKWAY_ERR_NULL, "null", rankway_cq_irecv(job->context, NULL, 8, 0, 6, 2, 0, 1, &id));
    REFUSED(RANKWAY_ERR_RANK, "4000000", rankway_cq_isend(job->context, &value, 8, 4000000, 6, 2, 0, 1, &id));
    REFUSED(RANKWAY_ERR_RANK, "4000000", rankway_cq_irecv(job->context, &value, 8, 4000000, 6, 2, 0, 1, &id));
    REFUSED(RANKWAY_ERR_NULL, "completions", rankway_cq_read(job->context, NULL, 1, &flag));
    REFUSED(RANKWAY_ERR_ARG, "-1", rankway_cq_read(job->context, &one, -1, &flag));
    REFUSED(RANKWAY_ERR_NULL, "count", rankway_cq_read(job->context, &one, 1, NULL));
    REFUSED(RANKWAY_ERR_NULL, "made", rankway_progress_made(job->context, NULL));
    OK(rankway_cq_read(job->context, NULL, 0, &flag));
    ENSURE(flag == 0);
}

static void posts(struct state *state)
{
    struct job *job = &state->job;
    unsigned char header[sizeof(int) + POSTS * 5], *data[POSTS];
    int done, all = 1;

    memset(header, 3, sizeof header);
    for (int which = 0; which < POSTS; which++) {
        data[which] = malloc(LONG);
        for (size_t i = 0; i < LONG; i++)
            data[which][i] = byte_of(i, which + job->rank);
        memcpy(header, &which, sizeof which);
        for (int peer = 0; peer < job->size; peer++) {
            OK(rankway_am_post(job->context, (uint32_t)peer, 5, header,
                               sizeof which + (size_t)which * 5, data[which], length_of(which),
                               cookie(POST, peer, which), &done));
            state->posts_open += !done;
        }
    }
    while (all || state->posts_open) {
        rankway_completion_t some[5];
        int count = take(state, some, 5);
        for (int i = 0; i < count; i++)
            ENSURE(some[i].cookie >> 48 == POST && some[i].code == RANKWAY_SUCCESS);
        state->posts_open -= count;
        all = 0;
        for (int peer = 0; peer < job->size; peer++)
            all |= state->came[peer] < POSTS || state->answered[peer] < POSTS;
    }
    ENSURE(state->posts_open == 0);
    REFUSED(RANKWAY_ERR_RANGE, "header",
            rankway_am_post(job->context, (uint32_t)(job->rank + 1) % (uint32_t)job->size, 5,
                            data[0], LONG, NULL, 0, 1, &done));
    REFUSED(RANKWAY_ERR_ARG, "cookie", rankway_am_post(job->context, 0, 5, NULL, 0, NULL, 0, 0, &done));
    REFUSED(RANKWAY_ERR_ARG, "65536", rankway_am_post(job->context, 0, 65536, NULL, 0, NULL, 0, 1, &done));
    REFUSED(RANKWAY_ERR_RANK, "4000000", rankway_am_post(job->context, 4000000, 5, NULL, 0, NULL, 0, 1, &done));
    for (int which = 0; which < POSTS; which++)
        free(data[which]);
}

/* Where ranks are, from one of them. */
static void nodes(struct state *state)
{
    struct job *job = &state->job;
    uint32_t node, node_rank, seen = 0;

    for (int rank = 0; rank < job->size; rank++) {
        OK(rankway_comm_node_of(rank, job->world, &node, &node_rank));
        /* (All are on this machine.) */
        ENSURE(node == 0 && node_rank == (uint32_t)rank);
        seen |= 1u << node_rank;
    }
    ENSURE(seen == (1u << job->size) - 1);
    REFUSED(RANKWAY_ERR_RANK, "range", rankway_comm_node_of(job->size, job->world, &node, &node_rank));
    REFUSED(RANKWAY_ERR_NULL, "node_rank", rankway_comm_node_of(0, job->world, &node, NULL));
}

static int body(void *unused)
{
    static struct state state;
    rankway_options_t options = RANKWAY_OPTIONS_INIT;

    (void)unused;
    options.netmod = getenv("TEST_NETMOD");
    options.provider = getenv("TEST_PROVIDER");
    join(&state.job, &options);
    ENSURE(state.job.size <= 16);
    state.answer = malloc(LONG);
    for (size_t i = 0; i < LONG; i++)
        state.answer[i] = byte_of(i, 77);
    OK(rankway_am_register(state.job.context, 5, posted, &state));
    OK(rankway_am_register(state.job.context, 6, answered, &state));
    messages(&state);
    odd_ones(&state);
    /* (What is posted is answered at once, and the answers end in the same queue.) */
    OK(rankway_comm_barrier(state.job.world));
    posts(&state);
    nodes(&state);
    leave(&state.job);
    free(state.answer);
    return 0;
}

int main(void)
{
    return ranks(3, body);
}
