/* Rank 1 is killed: the others end with its name and do not hang (tests/run
 * looks for both). */
#include "check.h"
#include <signal.h>

int main(int argc, char **argv)
{
    int value;
    start(&argc, &argv);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1)
        raise(SIGKILL);
    MPI_Recv(&value, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return finish();
}
