/* Rank 0 ends while it spawns two processes, before they have met it: they say so, and wait for nobody, nor
 * does the other rank. */
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    char *arguments[] = { "child", NULL };
    int rank, class;
    MPI_Comm children;
    if (argc > 1)
        sleep(2);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (rank == 0)
        alarm(1);
    int code = MPI_Comm_spawn(argv[0], arguments, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children,
                              MPI_ERRCODES_IGNORE);
    MPI_Error_class(code, &class);
    if (argc == 1 && class == MPIX_ERR_PROC_FAILED)
        puts("survived");
    fflush(stdout);
    MPI_Finalize();
    return 0;
}
