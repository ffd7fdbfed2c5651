/* RANKWAY_NETMOD is obeyed: UCX is there once a message was sent, or is not. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    int rank, ranks, got = -1, loaded = 0;
    char line[4096];
    const char *netmod = getenv("RANKWAY_NETMOD");
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % ranks, 0, &got, 1, MPI_INT,
                 (rank + ranks - 1) % ranks, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps))
        loaded |= strstr(line, "libucp") != NULL;
    int wanted = netmod && !strcmp(netmod, "ucx");
    int wrong = !maps || loaded != wanted || got != (rank + ranks - 1) % ranks, any;
    if (wrong)
        printf("rank %d: libucp is %sthere, netmod %s\n", rank, loaded ? "" : "not ",
               netmod ? netmod : "not named");
    MPI_Allreduce(&wrong, &any, 1, MPI_INT, MPI_LOR, MPI_COMM_WORLD);
    if (rank == 0 && !any)
        puts("ok");
    MPI_Finalize();
    return any;
}
