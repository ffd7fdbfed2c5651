/* Rank 1 is killed: the others end with its name, or find that nobody is left, and do not hang
 * (tests/run looks for both), in a receive from it, from any rank ("any"), or where they change
 * its memory that is mapped, flushed there ("stores") or here ("local"). */
#include "check.h"
#include <signal.h>
#include <string.h>

int main(int argc, char **argv)
{
    int value = 1, before, *base, source = 1;
    MPI_Win win;
    start(&argc, &argv);
    const char *mode = argc > 1 ? argv[1] : "";
    int local = !strcmp(mode, "local"), stores = local || !strcmp(mode, "stores");
    if (stores) {
        MPI_Win_allocate(sizeof value, sizeof value, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
        MPI_Win_lock_all(0, win);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1)
        raise(SIGKILL);
    if (stores) {
        double begun = MPI_Wtime();
        while (MPI_Wtime() < begun + 20) {
            MPI_Fetch_and_op(&value, &before, MPI_INT, 1, 0, MPI_SUM, win);
            if (local)
                MPI_Win_flush_local(1, win);
            else
                MPI_Win_flush(1, win);
        }
        return finish();
    }
    if (!strcmp(mode, "any"))
        source = MPI_ANY_SOURCE;
    MPI_Recv(&value, 1, MPI_INT, source, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return finish();
}
