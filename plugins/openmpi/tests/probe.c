/* Probes, matched probes, cancel, truncation, status fields. */
#include "check.h"

enum { SHORT = 100, LONG = 500000 };

static void probes(int len)
{
    unsigned char *buf = malloc(len + 1);
    MPI_Status status;
    int count, flag = 0;
    if (rank == 0) {
        fill(buf, len, len);
        for (int tag = 1; tag <= 3; tag++)
            MPI_Ssend(buf, len, MPI_BYTE, 1, tag, MPI_COMM_WORLD);
    } else if (rank == 1) {
        status.MPI_ERROR = 4711;
        MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        MPI_Get_count(&status, MPI_BYTE, &count);
        CHECK(count == len && status.MPI_SOURCE == 0 && status.MPI_TAG == 1);
        CHECK(status.MPI_ERROR == 4711);
        MPI_Recv(buf, len, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &status);
        CHECK(differs(buf, len, len) == (size_t) len);

        MPI_Message message;
        MPI_Mprobe(0, 2, MPI_COMM_WORLD, &message, &status);
        CHECK(status.MPI_TAG == 2);
        /* Taken: nobody else finds it. */
        MPI_Iprobe(0, 2, MPI_COMM_WORLD, &flag, &status);
        CHECK(!flag);
        memset(buf, 0, len);
        MPI_Mrecv(buf, len, MPI_BYTE, &message, &status);
        CHECK(message == MPI_MESSAGE_NULL);
        MPI_Get_count(&status, MPI_BYTE, &count);
        CHECK(count == len && differs(buf, len, len) == (size_t) len);

        MPI_Request request;
        while (!flag)
            MPI_Improbe(MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, &flag, &message, &status);
        memset(buf, 0, len);
        MPI_Imrecv(buf, len, MPI_BYTE, &message, &request);
        MPI_Wait(&request, &status);
        CHECK(status.MPI_TAG == 3 && differs(buf, len, len) == (size_t) len);
    }
    free(buf);
}

static void truncation(int len)
{
    unsigned char *buf = malloc(len);
    MPI_Errhandler old;
    MPI_Comm_get_errhandler(MPI_COMM_WORLD, &old);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (rank == 0) {
        fill(buf, len, 1);
        MPI_Send(buf, len, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
        MPI_Send(buf, len, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
    } else if (rank == 1) {
        MPI_Status status;
        int class;
        memset(buf, 0xee, len);
        int rc = MPI_Recv(buf, len / 2, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &status);
        MPI_Error_class(rc, &class);
        CHECK(class == MPI_ERR_TRUNCATE, "class %d", class);
        CHECK(buf[len / 2] == 0xee, "past the end of the receive");
        MPI_Recv(buf, len, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &status);
        CHECK(differs(buf, len, 1) == (size_t) len);
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, old);
    free(buf);
}

static void cancelling(void)
{
    MPI_Request requests[3];
    MPI_Status status;
    int flag, got[3] = {-1, -1, -1};
    for (int i = 0; i < 3; i++)
        MPI_Irecv(&got[i], 1, MPI_INT, (rank + 1) % size, 40, MPI_COMM_WORLD, &requests[i]);
    MPI_Cancel(&requests[1]);
    MPI_Wait(&requests[1], &status);
    MPI_Test_cancelled(&status, &flag);
    CHECK(flag);
    MPI_Barrier(MPI_COMM_WORLD);
    int values[2] = {10, 20}, to = (rank + size - 1) % size;
    for (int i = 0; i < 2; i++)
        MPI_Send(&values[i], 1, MPI_INT, to, 40, MPI_COMM_WORLD);
    MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
    CHECK(got[0] == 10 && got[1] == -1 && got[2] == 20, "%d %d %d", got[0], got[1], got[2]);
    /* Too late: it has its message. */
    MPI_Irecv(&got[0], 1, MPI_INT, rank, 41, MPI_COMM_WORLD, &requests[0]);
    MPI_Send(&values[0], 1, MPI_INT, rank, 41, MPI_COMM_WORLD);
    MPI_Cancel(&requests[0]);
    MPI_Wait(&requests[0], &status);
    MPI_Test_cancelled(&status, &flag);
    CHECK(!flag && got[0] == 10);
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    if (size > 1) {
        probes(SHORT);
        probes(LONG);
        truncation(SHORT);
        truncation(LONG);
        MPI_Barrier(MPI_COMM_WORLD);
        cancelling();
    }
    return finish();
}
