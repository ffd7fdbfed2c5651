/* A rank is killed that leads neither of two groups: what makes communicators of both, or of a graph,
 * fails in all the others, who do not wait for each other. */
#include "../../openmpi/tests/check.h"
#include <signal.h>
#include <unistd.h>

static MPI_Comm half, both;
static int group;

static int fails(const char *what, int code)
{
    int class;
    MPI_Error_class(code, &class);
    if (class == MPIX_ERR_PROC_FAILED)
        return 1;
    fprintf(stderr, "rank %d: %s: class %d\n", rank, what, class);
    return 0;
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
    group = rank >= size / 2;
    MPI_Comm_split(world, group, rank, &half);
    MPI_Comm_set_errhandler(half, MPI_ERRORS_RETURN);
    MPI_Intercomm_create(half, 0, world, group ? 0 : size / 2, 4, &both);
    MPI_Comm_set_errhandler(both, MPI_ERRORS_RETURN);
    MPI_Barrier(world);
    if (rank == 1)
        raise(SIGKILL);
    usleep(200000);

    MPI_Comm made;
    MPI_Group mine;
    int one = 1, to = (rank + 1) % size, well = 1;
    MPI_Comm_group(both, &mine);
    well &= fails("dup", MPI_Comm_dup(both, &made));
    well &= fails("split", MPI_Comm_split(both, 0, rank, &made));
    well &= fails("merge", MPI_Intercomm_merge(both, group, &made));
    well &= fails("create", MPI_Comm_create(both, mine, &made));
    well &= fails("intercomm", MPI_Intercomm_create(half, 0, world, group ? 0 : size / 2, 9, &made));
    int dims[2] = { 2, size / 2 }, periods[2] = { 1, 1 };
    well &= fails("cart", MPI_Cart_create(world, 2, dims, periods, 1, &made));
    MPI_Group all;
    MPI_Comm_group(world, &all);
    well &= fails("create, of one", MPI_Comm_create(world, all, &made));
    MPI_Group_free(&all);
    well &= fails("graph", MPI_Dist_graph_create(world, 1, &rank, &one, &to, MPI_UNWEIGHTED,
                                                 MPI_INFO_NULL, 0, &made));
    MPI_Group_free(&mine);
    if (well)
        printf("survived\n");
    fflush(stdout);
    MPI_Finalize();
    return !well;
}
