/* Several threads make windows at the same time, each on a communicator of its
 * own, over memory of the program's and of the library's. */
#include "check.h"
#include <pthread.h>

enum { THREADS = 3, ROUNDS = 40 };
static MPI_Comm comms[THREADS];

static void *work(void *argument)
{
    int me = (int) (intptr_t) argument, to = (rank + 1) % size, from = (rank + size - 1) % size;
    for (int i = 0; i < ROUNDS; i++) {
        MPI_Win win;
        long memory[8] = {0}, *base = memory, value = me * 100000 + i * 100 + rank;
        if (i % 4 == 3)
            MPI_Win_allocate(sizeof memory, sizeof(long), MPI_INFO_NULL, comms[me], &base, &win);
        else
            MPI_Win_create(memory, sizeof memory, sizeof(long), MPI_INFO_NULL, comms[me], &win);
        MPI_Win_fence(0, win);
        MPI_Put(&value, 1, MPI_LONG, to, i % 8, 1, MPI_LONG, win);
        MPI_Win_fence(0, win);
        CHECK(base[i % 8] == me * 100000 + i * 100 + from, "%ld", base[i % 8]);
        MPI_Win_free(&win);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];
    start_threads(&argc, &argv, MPI_THREAD_MULTIPLE);
    for (int i = 0; i < THREADS; i++)
        MPI_Comm_dup(world, &comms[i]);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, (void *) (intptr_t) ((i + rank) % THREADS));
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++)
        MPI_Comm_free(&comms[i]);
    return finish();
}
