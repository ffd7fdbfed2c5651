/* A rank dies that holds a lock of another's memory: who waits for the lock is told, by name. */
#include "check.h"
#include <signal.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int value = 1, *base;
    MPI_Win win;
    start(&argc, &argv);
    MPI_Win_allocate(sizeof value, sizeof value, MPI_INFO_NULL, world, &base, &win);
    int last = rank == size - 1;
    if (last) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
        MPI_Put(&value, 1, MPI_INT, 0, 0, 1, MPI_INT, win);
        MPI_Win_flush(0, win);
    }
    MPI_Barrier(world);
    if (last) {
        usleep(200000);
        raise(SIGKILL);
    }
    /* Of the first ranks one waits for its own memory, and one for the other's. */
    MPI_Win_lock(rank == 0 ? MPI_LOCK_EXCLUSIVE : MPI_LOCK_SHARED, 0, 0, win);
    fprintf(stderr, "rank %d has the lock of the dead\n", rank);
    return 1;
}
