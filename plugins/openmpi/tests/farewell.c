/* Children that do not disconnect and end while their parents work: MPI_Finalize of those, in
 * which Open MPI takes leave of them, is an end like any other. */
#include "check.h"
#include <unistd.h>

int main(int argc, char **argv)
{
    start(&argc, &argv);
    MPI_Comm parent, others, merged;
    MPI_Comm_get_parent(&parent);
    others = parent;
    if (parent == MPI_COMM_NULL)
        MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &others,
                       MPI_ERRCODES_IGNORE);
    MPI_Intercomm_merge(others, parent != MPI_COMM_NULL, &merged);
    int me, n, from = -1;
    MPI_Comm_rank(merged, &me);
    MPI_Comm_size(merged, &n);
    MPI_Sendrecv(&me, 1, MPI_INT, (me + 1) % n, 0, &from, 1, MPI_INT, (me + n - 1) % n, 0, merged,
                 MPI_STATUS_IGNORE);
    CHECK(from == (me + n - 1) % n, "%d", from);
    if (parent != MPI_COMM_NULL) {
        MPI_Finalize();
        return 0;
    }
    usleep(300000);
    return finish();
}
