/* Communicators between two groups; and what is promised of a window. */
#include "test.h"

static int heard;

static int hear(void *argument, uint32_t source, const void *hdr, size_t hdr_bytes,
                const void *data, size_t bytes)
{
    struct job *job = argument;

    (void)data;
    ENSURE(source % 2 != (uint32_t)job->rank % 2 && hdr_bytes == 4 && bytes == 0);
    ENSURE(memcmp(hdr, "here", 4) == 0);
    heard++;
    return 0;
}

/* Even ranks and odd ones: each speaks to all of the others, by their ranks there. */
static void between(struct job *job)
{
    int mine = job->rank / 2, side = job->rank % 2, others = (job->size + side) / 2, size, rank;
    rankway_comm_t comm, twin, none;
    rankway_rankmap_t remote, own;
    rankway_request_t requests[8];
    rankway_status_t status;
    rankway_win_t win;
    void *base;
    int in[4], out[4], sum = 0;

    OK(rankway_rankmap_affine(0, (uint32_t)!side, 2, (uint32_t)others, &remote));
    OK(rankway_rankmap_affine(0, (uint32_t)side, 2, (uint32_t)(job->size + 1 - side) / 2, &own));
    REFUSED(RANKWAY_ERR_RANK, "other group",
            rankway_comm_from_remote(job->context, own, mine, 7, &none));
    REFUSED(RANKWAY_ERR_RANK, "-1", rankway_comm_from_remote(job->context, remote, -1, 7, &none));
    OK(rankway_comm_from_remote(job->context, remote, mine, 7, &comm));
    OK(rankway_comm_rank(comm, &rank));
    OK(rankway_comm_size(comm, &size));
    ENSURE(rank == mine && size == others);
    OK(rankway_comm_dup(comm, &twin));

    for (int i = 0; i < others; i++) {
        /* Two alike on the two communicators: each keeps its own. */
        out[i] = job->rank * 100 + i;
        OK(rankway_irecv(&in[i], sizeof in[i], i, 3, comm, &requests[i]));
        OK(rankway_isend(&out[i], sizeof out[i], i, 3, comm, &requests[4 + i]));
    }
    for (int i = 0; i < others; i++) {
        OK(rankway_wait(&requests[i], &status));
        ENSURE(status.source == i && status.tag == 3 && status.count == sizeof in[i]);
        ENSURE(status.peer == (uint32_t)(2 * i + !side));
        ENSURE(in[i] == (2 * i + !side) * 100 + mine);
        OK(rankway_wait(&requests[4 + i], NULL));
    }
    for (int i = 0; i < others; i++)
        OK(rankway_isend(&out[i], sizeof out[i], i, 4, twin, &requests[4 + i]));
    for (int i = 0; i < others; i++) {
        OK(rankway_irecv(&in[0], sizeof in[0], RANKWAY_ANY_SOURCE, RANKWAY_ANY_TAG, twin, &requests[0]));
        OK(rankway_wait(&requests[0], &status));
        ENSURE(status.tag == 4 && status.source < others);
        ENSURE(in[0] == (2 * status.source + !side) * 100 + mine);
        sum += status.source;
        OK(rankway_wait(&requests[4 + i], NULL));
    }
    ENSURE(sum == others * (others - 1) / 2);
    for (int i = 0; i < others; i++)
        OK(rankway_am_send(i, comm, 9, "here", 4, NULL, 0));
    while (heard < others)
        OK(rankway_progress(job->context));

    REFUSED(RANKWAY_ERR_RANK, "range", rankway_isend(out, 4, others, 3, comm, requests));
    REFUSED(RANKWAY_ERR_ARG, "two", rankway_comm_barrier(comm));
    REFUSED(RANKWAY_ERR_ARG, "two", rankway_comm_split(comm, 0, 0, &none));
    REFUSED(RANKWAY_ERR_ARG, "two", rankway_win_allocate(8, 1, comm, &base, &win));
    REFUSED(RANKWAY_ERR_ARG, "two", rankway_win_allocate_shared(8, 1, twin, &base, &win));
    REFUSED(RANKWAY_ERR_ARG, "two", rankway_win_create(out, 8, 1, comm, &win));
    REFUSED(RANKWAY_ERR_ARG, "two", rankway_win_create_dynamic(comm, &win));
    OK(rankway_comm_free(twin));
    OK(rankway_comm_free(comm));
    OK(rankway_rankmap_free(remote));
    OK(rankway_rankmap_free(own));
}

/* Sums that need no order come out the same. */
static void hints(struct job *job)
{
    rankway_win_t win;
    void *base;
    int64_t one = 1;
    int known;

    OK(rankway_win_allocate(8, 8, job->world, &base, &win));
    OK(rankway_win_set_hint(win, "accumulate_ordering", "none", &known));
    ENSURE(known == 1);
    OK(rankway_win_set_hint(win, "accumulate_ops", "same_op", NULL));
    OK(rankway_win_set_hint(win, "no_locks", "true", &known));
    ENSURE(known == 0);
    REFUSED(RANKWAY_ERR_ARG, "accumulate_ops", rankway_win_set_hint(win, "accumulate_ops", "any", &known));
    REFUSED(RANKWAY_ERR_NULL, "key", rankway_win_set_hint(win, NULL, "none", NULL));
    REFUSED(RANKWAY_ERR_NULL, "value", rankway_win_set_hint(win, "accumulate_ops", NULL, NULL));
    OK(rankway_win_fence(0, win));
    for (int i = 0; i < 100; i++)
        OK(rankway_accumulate(&one, 1, RANKWAY_INT64, RANKWAY_SUM, 0, 0, win));
    OK(rankway_win_fence(0, win));
    ENSURE(job->rank != 0 || *(int64_t *)base == 100 * job->size);
    OK(rankway_win_free(win));
}

static int body(void *unused)
{
    struct job job;
    rankway_options_t options = RANKWAY_OPTIONS_INIT;

    (void)unused;
    options.netmod = getenv("TEST_NETMOD");
    options.provider = getenv("TEST_PROVIDER");
    join(&job, &options);
    ENSURE(job.size <= 8);
    OK(rankway_am_register(job.context, 9, hear, &job));
    between(&job);
    hints(&job);
    leave(&job);
    return 0;
}

int main(void)
{
    return ranks(5, body);
}
