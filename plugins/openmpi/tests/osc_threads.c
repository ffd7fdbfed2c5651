/* Several threads: each fences a window of its own, whatever the others wait
 * for, and all count in one that they share. */
#include "check.h"
#include <pthread.h>

enum { THREADS = 3, ROUNDS = 30 };
static MPI_Comm comms[THREADS];
static MPI_Win shared;

static void *work(void *argument)
{
    int me = (int) (intptr_t) argument, to = (rank + 1) % size, from = (rank + size - 1) % size;
    MPI_Win win;
    long *base, one = 1, old;
    MPI_Win_allocate(8 * sizeof(long), sizeof(long), MPI_INFO_NULL, comms[me], &base, &win);
    MPI_Win_fence(0, win);
    for (int i = 0; i < ROUNDS; i++) {
        long value = me * 100000 + i * 100 + rank;
        MPI_Put(&value, 1, MPI_LONG, to, i % 8, 1, MPI_LONG, win);
        MPI_Win_fence(0, win);
        CHECK(base[i % 8] == me * 100000 + i * 100 + from);
        MPI_Fetch_and_op(&one, &old, MPI_LONG, 0, 0, MPI_SUM, shared);
        MPI_Win_flush(0, shared);
        MPI_Win_fence(0, win);
    }
    MPI_Win_free(&win);
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];
    long *base;
    start_threads(&argc, &argv, MPI_THREAD_MULTIPLE);
    for (int i = 0; i < THREADS; i++)
        MPI_Comm_dup(world, &comms[i]);
    MPI_Win_allocate(sizeof(long), sizeof(long), MPI_INFO_NULL, world, &base, &shared);
    *base = 0;
    MPI_Barrier(world);
    MPI_Win_lock_all(0, shared);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, (void *) (intptr_t) ((i + rank) % THREADS));
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    MPI_Win_unlock_all(shared);
    MPI_Barrier(world);
    if (rank == 0)
        CHECK(*base == (long) size * THREADS * ROUNDS, "%ld", *base);
    MPI_Win_free(&shared);
    for (int i = 0; i < THREADS; i++)
        MPI_Comm_free(&comms[i]);
    return finish();
}
