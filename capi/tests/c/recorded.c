/* Calls in an order that is known; with RANKWAY_TRACE set they are recorded, and
 * ci/check/c.sh compares what stands in the traces with capi/tests/recorded.csv. */
#include "test.h"

enum { LONG = 65536 };

static void messages(struct job *job, rankway_comm_t comm)
{
    int left = (job->rank + 2) % 3, right = (job->rank + 1) % 3, flag;
    char out[40], in[64] = {0};
    static char long_out[LONG], long_in[LONG];
    rankway_request_t requests[2];
    rankway_status_t status;

    memset(out, job->rank + 1, sizeof out);
    OK(rankway_irecv(in, sizeof in, left, 3, comm, &requests[0]));
    OK(rankway_isend(out, sizeof out, right, 3, comm, &requests[1]));
    OK(rankway_wait(&requests[1], NULL));
    OK(rankway_wait(&requests[0], &status));
    ENSURE(status.count == 40 && in[0] == left + 1);
    if (job->rank == 0) {
        memset(long_out, 7, LONG);
        OK(rankway_issend(long_out, LONG, 2, 4, job->world, &requests[0]));
        OK(rankway_wait(&requests[0], NULL));
    } else if (job->rank == 2) {
        OK(rankway_probe(RANKWAY_ANY_SOURCE, 4, job->world, &status));
        OK(rankway_irecv(long_in, LONG, RANKWAY_ANY_SOURCE, RANKWAY_ANY_TAG, job->world, requests));
        OK(rankway_wait(&requests[0], &status));
        ENSURE(status.count == LONG && long_in[LONG - 1] == 7);
    }
    OK(rankway_iprobe(RANKWAY_ANY_SOURCE, 99, job->world, &flag, NULL));
    ENSURE(!flag);
}

static void operations(struct job *job, rankway_comm_t comm)
{
    int right = (job->rank + 1) % 3;
    static uint64_t memory[LONG / 8 + 64], theirs[LONG / 8];
    static uint64_t ours[LONG / 8];
    uint64_t one = 1, old = 9;
    const rankway_access_t *access;
    rankway_win_t win;

    ours[0] = 100 + (uint64_t)job->rank;
    OK(rankway_win_create(memory, sizeof memory, 8, comm, &win));
    OK(rankway_win_lock_all(0, win));
    OK(rankway_win_access(win, &access));
    OK(rankway_put(ours, 8, right, 0, win));
    ENSURE(rankway_put_unchecked(access, ours, 8, (uint32_t)right, 1) == 0);
    OK(rankway_put(ours, LONG, right, 64, win));
    OK(rankway_win_flush(right, win));
    OK(rankway_get(theirs, LONG, right, 64, win));
    OK(rankway_win_flush_all(win));
    ENSURE(theirs[0] == ours[0]);
    OK(rankway_accumulate(&one, 1, RANKWAY_UINT64, right, 2, RANKWAY_SUM, win));
    OK(rankway_get_accumulate(&one, &old, 1, RANKWAY_UINT64, right, 2, RANKWAY_SUM, win));
    OK(rankway_win_unlock_all(win));
    ENSURE(old == 1);
    OK(rankway_win_fence(0, win));
    OK(rankway_win_fence(0, win));
    OK(rankway_win_free(win));
    ENSURE(memory[1] == 100 + (uint64_t)((job->rank + 2) % 3));
}

/* A put through a map without a formula, which has a function of its own. */
static void irregular(struct job *job)
{
    static uint64_t memory[4], ours;
    const rankway_access_t *access;
    rankway_comm_t mixed;
    rankway_win_t win;
    int rank;

    OK(rankway_comm_split(job->world, 0, job->rank == 2 ? 2 : 1 - job->rank, &mixed));
    OK(rankway_comm_rank(mixed, &rank));
    OK(rankway_win_create(memory, sizeof memory, 8, mixed, &win));
    OK(rankway_win_lock_all(0, win));
    OK(rankway_win_access(win, &access));
    ours = 200 + (uint64_t)rank;
    ENSURE(rankway_put_unchecked(access, &ours, 8, (uint32_t)((rank + 1) % 3), 1) == 0);
    OK(rankway_win_unlock_all(win));
    OK(rankway_win_fence(0, win));
    OK(rankway_win_fence(0, win));
    ENSURE(memory[1] == 200 + (uint64_t)((rank + 2) % 3));
    OK(rankway_win_free(win));
    OK(rankway_comm_free(mixed));
}

static int body(void *unused)
{
    struct job job;
    rankway_options_t options = RANKWAY_OPTIONS_INIT;
    rankway_comm_t same, some;

    (void)unused;
    options.provider = getenv("TEST_PROVIDER");
    options.netmod = getenv("TEST_NETMOD");
    join(&job, &options);
    OK(rankway_comm_dup(job.world, &same));
    OK(rankway_comm_split(job.world, job.rank == 1 ? -1 : 0, -job.rank, &some));
    messages(&job, same);
    operations(&job, same);
    irregular(&job);
    if (job.rank != 1)
        OK(rankway_comm_barrier(some));
    if (job.rank != 1)
        OK(rankway_comm_free(some));
    OK(rankway_comm_free(same));
    leave(&job);
    return 0;
}

int main(void)
{
    return ranks(3, body);
}
