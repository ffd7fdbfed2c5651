/* Peers as the caller tells them: a device layer whose MPI has met the
 * launcher already. Here a table in shared memory between forked processes. */
#include "store.h"

enum { RANKS = 3 };

static int refuse(void *self)
{
    (void)self;
    return 42;
}

/* Keys are published once; a job begins with a clean table. */
static void clean(struct view *view)
{
    fence(view);
    if (view->rank == 0) {
        for (int at = 0; at < KEYS; at++)
            atomic_store(&view->store->entries[at].ready, 0);
        atomic_store(&view->store->keys, 0);
    }
    fence(view);
}

static struct job threaded;
static atomic_int made;

/* Operations that the target carries out, from a further context; in windows that no first one
 * has. */
static void *further(void *unused)
{
    rankway_context_t context;
    rankway_rankmap_t map;
    rankway_comm_t comm;
    rankway_win_t win;
    uint64_t memory[2] = {0, 7}, one = 1, before = 9;
    int right = (threaded.rank + 1) % RANKS;

    OK(rankway_context_open(threaded.device, 1, &context));
    OK(rankway_rankmap_affine(0, 0, 1, RANKS, &map));
    OK(rankway_comm_from_rankmap(context, map, 5, &comm));
    OK(rankway_win_create(memory, sizeof memory, 8, comm, &win));
    OK(rankway_win_lock_all(0, win));
    OK(rankway_accumulate(&one, 1, RANKWAY_UINT64, right, 0, RANKWAY_SUM, win));
    OK(rankway_fetch_and_op(&one, &before, RANKWAY_UINT64, right, 1, RANKWAY_SUM, win));
    OK(rankway_win_unlock_all(win));
    OK(rankway_comm_barrier(comm));
    ENSURE(before == 7 && memory[0] == 1 && memory[1] == 8);
    OK(rankway_win_free(win));
    OK(rankway_comm_free(comm));
    OK(rankway_rankmap_free(map));
    OK(rankway_context_close(context));
    atomic_store(&made, 1);
    return unused;
}

static int run(struct store *store, uint32_t rank)
{
    struct view view = {store, rank, RANKS, 0};
    rankway_boot_t boot = {&view, rank, RANKS, 0, put, get, fence, node, NULL};
    rankway_options_t options = RANKWAY_OPTIONS_INIT;
    rankway_info_t info;
    rankway_win_t win;
    struct job job;
    int right = ((int)rank + 1) % RANKS, left = ((int)rank + RANKS - 1) % RANKS;
    int me = (int)rank;
    void *base;

    options.boot = &boot;
    /* What is missing or makes no sense is told. */
    REFUSED(RANKWAY_ERR_ARG, "job 0", rankway_init(&options, &job.device, &job.context));
    boot.job = 0x5eed0000 + (uint64_t)getppid();
    boot.get = NULL;
    REFUSED(RANKWAY_ERR_NULL, "get", rankway_init(&options, &job.device, &job.context));
    boot.get = get;
    boot.fence = refuse;
    REFUSED(RANKWAY_ERR_BOOT, "42", rankway_init(&options, &job.device, &job.context));
    clean(&view);
    boot.fence = fence;
    join(&job, &options);
    OK(rankway_info(job.device, &info));
    ENSURE(info.rank == rank && info.size == RANKS && info.node_size == RANKS);
    ENSURE(strcmp(info.launcher, "caller") == 0);
    OK(rankway_win_allocate(sizeof(int), 1, job.world, &base, &win));
    OK(rankway_win_fence(0, win));
    OK(rankway_put(&me, sizeof me, right, 0, win));
    OK(rankway_win_fence(0, win));
    ENSURE(*(int *)base == left);
    OK(rankway_win_free(win));
    leave(&job);
    /* After the end a new job of the caller's may begin. */
    clean(&view);
    boot.job++;
    join(&job, &options);
    leave(&job);
    clean(&view);
    boot.job++;
    options.provider = "tcp";
    options.threads = RANKWAY_THREAD_MULTIPLE;
    join(&threaded, &options);
    pthread_t thread;
    ENSURE(pthread_create(&thread, NULL, further, NULL) == 0);
    while (!atomic_load(&made))
        OK(rankway_progress(threaded.context));
    ENSURE(pthread_join(thread, NULL) == 0);
    leave(&threaded);
    return 0;
}

int main(void)
{
    struct store *store = new_store();
    int bad = 0;

    alarm(100);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        pid_t pid = fork();
        ENSURE(pid >= 0);
        if (pid == 0) {
            alarm(100);
            exit(run(store, rank));
        }
    }
    for (int i = 0; i < RANKS; i++) {
        int status;
        ENSURE(wait(&status) > 0);
        bad |= status;
    }
    return bad != 0;
}
