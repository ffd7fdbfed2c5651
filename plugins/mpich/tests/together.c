/* Rank 1 is killed, and rank 3, as one that got its error in a step before, does not come to what the
 * others do together, nor leaves before they are through: that fails in them. */
#include "../../openmpi/tests/check.h"
#include <signal.h>
#include <unistd.h>

enum { CREATE, ALLOCATE, SHARED, DYNAMIC, FREE, FREE_CREATED, SPLIT, SPLIT_TYPE, GRAPH, CALLS };
static const char *const names[] = {
    "a window", "an allocated window", "a shared window", "a dynamic window",
    "an allocated window's end", "a window's end", "a split", "a split by node", "a graph"
};

static int make(int what, MPI_Comm comm, MPI_Win * window)
{
    static char memory[64];
    void *base;
    MPI_Comm made;
    int one = 1, to = (rank + 1) % size;
    switch (what) {
        case CREATE:
            return MPI_Win_create(memory, sizeof memory, 1, MPI_INFO_NULL, comm, window);
        case ALLOCATE:
            return MPI_Win_allocate(8, 1, MPI_INFO_NULL, comm, &base, window);
        case SHARED:
            return MPI_Win_allocate_shared(8, 1, MPI_INFO_NULL, comm, &base, window);
        case DYNAMIC:
            return MPI_Win_create_dynamic(MPI_INFO_NULL, comm, window);
        case SPLIT:
            return MPI_Comm_split(comm, 0, rank, &made);
        case SPLIT_TYPE:
            return MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &made);
        case GRAPH:
            return MPI_Dist_graph_create(comm, 1, &rank, &one, &to, MPI_UNWEIGHTED, MPI_INFO_NULL,
                                         0, &made);
        default:
            return MPI_Win_free(window);
    }
}

int main(int argc, char **argv)
{
    MPI_Comm comms[CALLS];
    MPI_Win windows[CALLS];
    int well = 1;
    start(&argc, &argv);
    for (int what = 0; what < CALLS; what++) {
        MPI_Comm_dup(world, &comms[what]);
        MPI_Comm_set_errhandler(comms[what], MPI_ERRORS_RETURN);
        if (what == FREE || what == FREE_CREATED) {
            make(what == FREE ? ALLOCATE : CREATE, comms[what], &windows[what]);
            MPI_Win_set_errhandler(windows[what], MPI_ERRORS_RETURN);
        }
    }
    MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
    MPI_Barrier(world);
    if (rank == 1)
        raise(SIGKILL);
    usleep(200000);
    for (int what = 0; what < CALLS && rank != 3; what++) {
        int class, code = make(what, comms[what], &windows[what]);
        MPI_Error_class(code, &class);
        if (class == MPIX_ERR_PROC_FAILED)
            continue;
        fprintf(stderr, "rank %d: %s: class %d\n", rank, names[what], class);
        well = 0;
    }
    if (rank == 3) {
        for (int from = 0; from < 3; from += 2)
            MPI_Recv(NULL, 0, MPI_BYTE, from, 5, world, MPI_STATUS_IGNORE);
    } else {
        MPI_Send(NULL, 0, MPI_BYTE, 3, 5, world);
    }
    if (well)
        printf("survived\n");
    fflush(stdout);
    MPI_Finalize();
    return !well;
}
