/* Who gave up connecting to a port is not accepted in the place of who connects to it later, be it the
 * same process. */
#include "../../openmpi/tests/check.h"

int main(int argc, char **argv)
{
    char port[MPI_MAX_PORT_NAME];
    MPI_Info short_of, in_time;
    start(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Info_create(&short_of);
    MPI_Info_set(short_of, "timeout", "1");
    MPI_Info_create(&in_time);
    MPI_Info_set(in_time, "timeout", "45");
    if (rank == 0)
        MPI_Open_port(MPI_INFO_NULL, port);
    MPI_Bcast(port, MPI_MAX_PORT_NAME, MPI_CHAR, 0, world);
    for (int round = 0; round < 2; round++) {
        MPI_Comm met;
        int sent = 100 * round + rank, got = -1, code = MPI_SUCCESS, connects = size - 1;
        if (rank == 1) {
            code = MPI_Comm_connect(port, short_of, 0, MPI_COMM_SELF, &met);
            CHECK(code != MPI_SUCCESS);
        }
        /* (What it said lies at rank 0 then.) */
        MPI_Barrier(world);
        if (rank == 0)
            code = MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &met);
        else if (rank == connects)
            code = MPI_Comm_connect(port, in_time, 0, MPI_COMM_SELF, &met);
        if (rank == 0 || rank == connects) {
            CHECK(code == MPI_SUCCESS, "%d", code);
            MPI_Sendrecv(&sent, 1, MPI_INT, 0, 1, &got, 1, MPI_INT, 0, 1, met, MPI_STATUS_IGNORE);
            CHECK(got == 100 * round + (rank == 0 ? connects : 0), "%d", got);
            MPI_Comm_disconnect(&met);
        }
        MPI_Barrier(world);
    }
    if (rank == 0)
        MPI_Close_port(port);
    MPI_Info_free(&short_of);
    MPI_Info_free(&in_time);
    return finish();
}
