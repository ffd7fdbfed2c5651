/* Threads: a context for each, and one context for several that take turns. */
#include "test.h"

enum { THREADS = 3, ROUNDS = 200 };

struct seat {
    struct job *job;
    int index;
};

/* Each thread of rank 0 talks to the thread of rank 1 with the same index. */
static void *own_context(void *argument)
{
    struct seat *seat = argument;
    struct job *job = seat->job;
    rankway_context_t context;
    rankway_comm_t comm;
    rankway_rankmap_t map;
    rankway_request_t request;
    rankway_status_t status;
    int other = 1 - job->rank, index;

    OK(rankway_context_open(job->device, seat->index, &context));
    OK(rankway_context_index(context, &index));
    ENSURE(index == seat->index);
    /* Communicators are of a context; what is sent arrives on its twin. */
    OK(rankway_rankmap_affine(0, 0, 1, 2, &map));
    OK(rankway_comm_from_rankmap(context, map, (uint64_t)seat->index, &comm));
    OK(rankway_rankmap_free(map));
    REFUSED(RANKWAY_ERR_THREAD, "another thread", rankway_comm_rank(job->world, &index));
    for (int i = 0; i < ROUNDS; i++) {
        int word = i * 10 + seat->index, in = -1;
        OK(rankway_isend(&word, sizeof word, other, i, comm, &request));
        OK(rankway_wait(&request, NULL));
        OK(rankway_irecv(&in, sizeof in, other, i, comm, &request));
        OK(rankway_wait(&request, &status));
        ENSURE(in == word);
    }
    OK(rankway_comm_free(comm));
    OK(rankway_context_close(context));
    return NULL;
}

static int multiple(void *unused)
{
    struct job job;
    rankway_options_t options = RANKWAY_OPTIONS_INIT;
    pthread_t threads[THREADS];
    struct seat seats[THREADS];
    rankway_request_t request;
    int flag;

    (void)unused;
    options.threads = RANKWAY_THREAD_MULTIPLE;
    join(&job, &options);
    for (int i = 0; i < THREADS; i++) {
        seats[i] = (struct seat){&job, i + 1};
        ENSURE(pthread_create(&threads[i], NULL, own_context, &seats[i]) == 0);
    }
    /* The first context tells peers where the others are, until all are done:
     * each rank sends the other a word when its threads have ended. */
    for (int i = 0; i < THREADS;) {
        OK(rankway_progress(job.context));
        if (pthread_tryjoin_np(threads[i], NULL) == 0)
            i++;
    }
    OK(rankway_isend(NULL, 0, 1 - job.rank, 0, job.world, &request));
    OK(rankway_wait(&request, NULL));
    do
        OK(rankway_iprobe(1 - job.rank, 0, job.world, &flag, NULL));
    while (!flag);
    leave(&job);
    return 0;
}

static struct job turns;
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;

static void *by_turns(void *argument)
{
    int index = *(int *)argument;
    rankway_win_t win;
    rankway_request_t request;

    for (int i = 0; i < ROUNDS; i++) {
        int word = i, in = -1, tag = index * ROUNDS + i, flag = 0;
        pthread_mutex_lock(&turn);
        OK(rankway_isend(&word, sizeof word, turns.rank, tag, turns.world, &request));
        OK(rankway_wait(&request, NULL));
        OK(rankway_irecv(&in, sizeof in, turns.rank, tag, turns.world, &request));
        pthread_mutex_unlock(&turn);
        while (!flag) {
            pthread_mutex_lock(&turn);
            OK(rankway_test(&request, &flag, NULL));
            pthread_mutex_unlock(&turn);
        }
        ENSURE(in == i);
    }
    pthread_mutex_lock(&turn);
    OK(rankway_win_create(&index, 0, 1, turns.world, &win));
    OK(rankway_win_free(win));
    pthread_mutex_unlock(&turn);
    return NULL;
}

/* Two at once: both are served, or refused with a code. */
static void *at_once(void *refused)
{
    for (int i = 0; i < 20000; i++) {
        int size, code = rankway_comm_size(turns.world, &size);
        if (code == RANKWAY_ERR_THREAD)
            (*(int *)refused)++;
        else
            ENSURE(code == RANKWAY_SUCCESS && size == turns.size);
    }
    return NULL;
}

static int serialized(void *unused)
{
    rankway_options_t options = RANKWAY_OPTIONS_INIT;
    pthread_t threads[THREADS];
    int numbers[THREADS];

    (void)unused;
    options.threads = RANKWAY_THREAD_SERIALIZED;
    join(&turns, &options);
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        ENSURE(pthread_create(&threads[i], NULL, by_turns, &numbers[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++)
        ENSURE(pthread_join(threads[i], NULL) == 0);
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = 0;
        ENSURE(pthread_create(&threads[i], NULL, at_once, &numbers[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++)
        ENSURE(pthread_join(threads[i], NULL) == 0);
    leave(&turns);
    return 0;
}

int main(void)
{
    int code = ranks(2, multiple);
    return code ? code : ranks(1, serialized);
}
