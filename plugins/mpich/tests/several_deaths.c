/* All but rank 0 are killed while it gets from each: each request says who of them died. */
#include "../../openmpi/tests/check.h"
#include <signal.h>
#include <unistd.h>

enum { LENGTH = 1 << 20, RANKS = 8 };
static char memory[LENGTH], got[RANKS][LENGTH];

int main(int argc, char **argv)
{
    MPI_Win window;
    MPI_Request requests[RANKS];
    int pids[RANKS], mine = getpid(), well = 1;
    start(&argc, &argv);
    CHECK(size <= RANKS);
    MPI_Gather(&mine, 1, MPI_INT, pids, 1, MPI_INT, 0, world);
    MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
    MPI_Win_create(memory, LENGTH, 1, MPI_INFO_NULL, world, &window);
    MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN);
    MPI_Win_lock_all(0, window);
    for (int to = 1; rank == 0 && to < size; to++)
        MPI_Get(got[to], 1, MPI_BYTE, to, 0, 1, MPI_BYTE, window);
    MPI_Win_flush_all(window);
    MPI_Barrier(world);
    while (rank != 0)
        pause();
    /* (They make no progress any more.) */
    usleep(200000);
    for (int to = 1; to < size; to++)
        CHECK(MPI_Rget(got[to], LENGTH, MPI_BYTE, to, 0, LENGTH, MPI_BYTE, window,
                       &requests[to]) == MPI_SUCCESS);
    for (int to = 1; to < size; to++)
        kill(pids[to], SIGKILL);
    usleep(200000);
    for (int to = 1; to < size; to++) {
        char text[MPI_MAX_ERROR_STRING], who[32];
        int length, code = MPI_Wait(&requests[to], MPI_STATUS_IGNORE);
        /* (One whose memory is mapped is not asked.) */
        if (code == MPI_SUCCESS)
            continue;
        MPI_Error_string(code, text, &length);
        snprintf(who, sizeof who, "rank %d died", to);
        if (strstr(text, who))
            continue;
        fprintf(stderr, "a get from rank %d: %s\n", to, text);
        well = 0;
    }
    if (well)
        printf("survived\n");
    fflush(stdout);
    MPI_Finalize();
    return !well;
}
