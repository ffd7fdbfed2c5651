/* Endings: a peer that dies is named; a second device, and one after the end,
 * are refused; a program that closes nothing still ends. */
#include "test.h"
#include <glob.h>
#include <signal.h>
#include <sys/wait.h>

/* Rank 1 is killed while the others wait for it, each in its own way. */
static int death(void *unused)
{
    struct job job;
    rankway_win_t win;
    rankway_request_t request;
    rankway_comm_t comm;
    uint64_t word = 0;

    (void)unused;
    join(&job, NULL);
    OK(rankway_win_allocate(64, 8, job.world, NULL, &win));
    OK(rankway_comm_barrier(job.world));
    if (job.rank == 1) {
        usleep(20000);
        kill(getpid(), SIGKILL);
    }
    OK(rankway_irecv(&word, 8, 1, 0, job.world, &request));
    REFUSED(RANKWAY_ERR_PEER_DIED, "rank 1", rankway_wait(&request, NULL));
    ENSURE(rankway_error_peer() == 1);
    REFUSED(RANKWAY_ERR_PEER_DIED, "rank 1", rankway_comm_barrier(job.world));
    REFUSED(RANKWAY_ERR_PEER_DIED, "rank 1", rankway_win_fence(0, win));
    REFUSED(RANKWAY_ERR_PEER_DIED, "rank 1", rankway_win_free(win));
    REFUSED(RANKWAY_ERR_HANDLE, "freed", rankway_win_free(win));
    /* The two that are left go on. */
    OK(rankway_comm_create(job.world, 2, (int[]){0, 2}, &comm));
    OK(rankway_comm_barrier(comm));
    OK(rankway_comm_free(comm));
    OK(rankway_comm_free(job.world));
    OK(rankway_context_close(job.context));
    OK(rankway_finalize(job.device));
    return 0;
}

static int twice(void *unused)
{
    struct job job;
    rankway_device_t device;
    rankway_context_t context;
    rankway_options_t options = RANKWAY_OPTIONS_INIT;

    (void)unused;
    options.threads = RANKWAY_THREAD_MULTIPLE;
    options.provider = "tin cans";
    REFUSED(RANKWAY_ERR_PROVIDER, "tin cans", rankway_init(&options, &device, &context));
    options.provider = NULL; /* one that failed leaves another its turn */
    join(&job, &options);
    REFUSED(RANKWAY_ERR_BOOT, "device of this process is open",
            rankway_init(NULL, &device, &context));
    leave(&job);
    REFUSED(RANKWAY_ERR_BOOT, "after rankway_finalize", rankway_init(NULL, &device, &context));
    REFUSED(RANKWAY_ERR_HANDLE, "freed", rankway_context_open(job.device, 1, &context));
    return 0;
}

static void *leaves_all(void *argument)
{
    struct job *job = argument;
    rankway_context_t context;
    rankway_comm_t comm;
    rankway_rankmap_t map;

    OK(rankway_context_open(job->device, -1, &context));
    OK(rankway_rankmap_affine(0, 0, 1, 1, &map));
    OK(rankway_comm_from_rankmap(context, map, 1, &comm));
    return NULL;
}

/* A job of one that frees nothing, and whose thread does not either. */
static int careless(void)
{
    static struct job job;
    static uint64_t word;
    rankway_options_t options = RANKWAY_OPTIONS_INIT;
    rankway_win_t win;
    rankway_request_t request;
    pthread_t thread;

    options.threads = RANKWAY_THREAD_MULTIPLE;
    join(&job, &options);
    ENSURE(pthread_create(&thread, NULL, leaves_all, &job) == 0);
    ENSURE(pthread_join(thread, NULL) == 0);
    OK(rankway_win_allocate(64, 8, job.world, NULL, &win));
    OK(rankway_win_lock_all(0, win));
    OK(rankway_put(&word, 8, 0, 0, win));
    OK(rankway_irecv(&word, 8, 0, 0, job.world, &request));
    REFUSED(RANKWAY_ERR_BUSY, "2 contexts", rankway_finalize(job.device));
    return 0;
}

int main(void)
{
    int code, status;
    pid_t pid;
    char names[64];
    glob_t found;

    alarm(100);
    REFUSED(RANKWAY_ERR_ARG, "0 ranks", rankway_run_local(0, twice, NULL, &code));
    REFUSED(RANKWAY_ERR_ARG, "-1 ranks", rankway_run_local(-1, twice, NULL, &code));
    OK(rankway_run_local(3, death, NULL, &code));
    ENSURE(code == 128 + SIGKILL);
    OK(rankway_run_local(2, twice, NULL, &code));
    ENSURE(code == 0);
    pid = fork();
    ENSURE(pid >= 0);
    if (pid == 0)
        exit(careless());
    ENSURE(waitpid(pid, &status, 0) == pid);
    ENSURE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    /* It left no names of libfabric's, which begin with its number. */
    snprintf(names, sizeof names, "/dev/shm/%d:*", (int)pid);
    ENSURE(glob(names, 0, NULL, &found) == GLOB_NOMATCH);
    return 0;
}
