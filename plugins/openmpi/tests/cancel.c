/* Sends that are cancelled when they are done: they go through, and nothing
 * else is taken back. (Under valgrind: nothing is read that was not written.) */
#include "check.h"

int main(int argc, char **argv)
{
    start(&argc, &argv);
    int to = (rank + 1) % size, from = (rank + size - 1) % size;
    /* The first of a pair may take longer: not by a request of MPI's. */
    for (int turn = 0; turn < 4; turn++) {
        int word = turn;
        if (turn % 2 == rank % 2)
            MPI_Send(&word, 1, MPI_INT, to, 9999, MPI_COMM_WORLD);
        else
            MPI_Recv(&word, 1, MPI_INT, from, 9999, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    for (int round = 0; round < 200; round++) {
        int sent = rank * 1000 + round, got = -1, flag;
        MPI_Request send, receive;
        MPI_Status status;
        MPI_Irecv(&got, 1, MPI_INT, from, round, MPI_COMM_WORLD, &receive);
        MPI_Isend(&sent, 1, MPI_INT, to, round, MPI_COMM_WORLD, &send);
        MPI_Cancel(&send);
        MPI_Wait(&send, &status);
        MPI_Test_cancelled(&status, &flag);
        CHECK(!flag);
        MPI_Wait(&receive, &status);
        MPI_Test_cancelled(&status, &flag);
        CHECK(!flag && got == from * 1000 + round, "%d", got);
    }
    return finish();
}
