/* Rank 1 is killed while it waits at a port: who accepts there then meets rank 2, which connects later. */
#include "../../openmpi/tests/check.h"
#include <unistd.h>

int main(int argc, char **argv)
{
    char port[MPI_MAX_PORT_NAME];
    MPI_Comm met;
    MPI_Info in_time;
    int sent, got = -1, code;
    start(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Info_create(&in_time);
    MPI_Info_set(in_time, "timeout", "45");
    if (rank == 0)
        MPI_Open_port(MPI_INFO_NULL, port);
    MPI_Bcast(port, MPI_MAX_PORT_NAME, MPI_CHAR, 0, world);
    if (rank == 1) {
        alarm(1);
        MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &met);
        return 1;
    }
    if (rank == 0) {
        /* (What rank 1 says lies here then.) */
        MPI_Recv(NULL, 0, MPI_BYTE, 2, 0, world, MPI_STATUS_IGNORE);
        code = MPI_Comm_accept(port, in_time, 0, MPI_COMM_SELF, &met);
    } else {
        sleep(3);
        MPI_Send(NULL, 0, MPI_BYTE, 0, 0, world);
        code = MPI_Comm_connect(port, in_time, 0, MPI_COMM_SELF, &met);
    }
    MPI_Info_free(&in_time);
    if (code == MPI_SUCCESS) {
        sent = rank;
        MPI_Sendrecv(&sent, 1, MPI_INT, 0, 1, &got, 1, MPI_INT, 0, 1, met, MPI_STATUS_IGNORE);
        MPI_Comm_disconnect(&met);
    }
    if (got == 2 - rank)
        printf("survived\n");
    fflush(stdout);
    MPI_Finalize();
    return got != 2 - rank;
}
