/* One message each way between the ranks of a pair, by every kind of call. */
#ifndef EXCHANGE_H
#define EXCHANGE_H

#include "check.h"

static inline void exchange(int mode, const void *from, int count, MPI_Datatype out, void *to,
                            int to_count, MPI_Datatype in, MPI_Status *status)
{
    int other = rank ^ 1;
    MPI_Request requests[2];
    MPI_Message message;
    switch (mode) {
    case 0:
        MPI_Sendrecv(from, count, out, other, 1, to, to_count, in, other, 1, MPI_COMM_WORLD,
                     status);
        break;
    case 1:
        MPI_Irecv(to, to_count, in, other, 1, MPI_COMM_WORLD, &requests[0]);
        MPI_Issend(from, count, out, other, 1, MPI_COMM_WORLD, &requests[1]);
        MPI_Wait(&requests[0], status);
        MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
        break;
    case 2:
        MPI_Recv_init(to, to_count, in, other, 1, MPI_COMM_WORLD, &requests[0]);
        MPI_Send_init(from, count, out, other, 1, MPI_COMM_WORLD, &requests[1]);
        for (int i = 0; i < 3; i++) {
            MPI_Startall(2, requests);
            MPI_Wait(&requests[0], status);
            MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
        }
        MPI_Request_free(&requests[0]);
        MPI_Request_free(&requests[1]);
        break;
    case 3:
        MPI_Isend(from, count, out, other, 1, MPI_COMM_WORLD, &requests[0]);
        MPI_Mprobe(other, 1, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
        MPI_Mrecv(to, to_count, in, &message, status);
        MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
        break;
    }
}

#endif
