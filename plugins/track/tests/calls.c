// Point-to-point calls of two processes, of which the test knows every event.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
  int rank, data[16] = {0}, more[16], flag = 0, index, n, indices[3];
  MPI_Status status;
  MPI_Request request[3];
  MPI_Message message;
  MPI_Comm comm;
  MPI_Init(&argc, &argv);
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_rank(comm, &rank);
  int peer = 1 - rank;
  char *buffer = malloc(4096);
  MPI_Buffer_attach(buffer, 4096);
  for (int i = 0; i < 16; i++) data[i] = 100 * rank + i;
  if (rank == 0) {
    MPI_Send(data, 1, MPI_INT, 1, 1, comm);
    MPI_Bsend(data, 2, MPI_INT, 1, 2, comm);
    MPI_Ssend(data, 3, MPI_INT, 1, 3, comm);
    MPI_Isend(data, 4, MPI_INT, 1, 4, comm, &request[0]);
    MPI_Issend(data, 5, MPI_INT, 1, 5, comm, &request[1]);
    MPI_Ibsend(data, 6, MPI_INT, 1, 6, comm, &request[2]);
    MPI_Waitall(3, request, MPI_STATUSES_IGNORE);
    for (int tag = 7; tag < 15; tag++) MPI_Send(data, tag, MPI_INT, 1, tag, comm);
    MPI_Send(data, 0, MPI_INT, MPI_PROC_NULL, 40, comm);
    MPI_Send_init(data, 15, MPI_INT, 1, 15, comm, &request[0]);
    for (int i = 0; i < 2; i++) MPI_Start(&request[0]), MPI_Wait(&request[0], MPI_STATUS_IGNORE);
    MPI_Request_free(&request[0]);
  } else {
    MPI_Recv(more, 16, MPI_INT, 0, 1, comm, &status);
    MPI_Recv(more, 16, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, MPI_STATUS_IGNORE);
    MPI_Probe(0, 3, comm, &status);
    MPI_Recv(more, 16, MPI_INT, 0, 3, comm, MPI_STATUS_IGNORE);
    MPI_Irecv(more, 16, MPI_INT, MPI_ANY_SOURCE, 4, comm, &request[0]);
    MPI_Wait(&request[0], MPI_STATUS_IGNORE);
    MPI_Mprobe(0, 5, comm, &message, MPI_STATUS_IGNORE);
    MPI_Mrecv(more, 16, MPI_INT, &message, MPI_STATUS_IGNORE);
    MPI_Mprobe(0, 6, comm, &message, &status);
    MPI_Imrecv(more, 16, MPI_INT, &message, &request[0]);
    MPI_Wait(&request[0], &status);
    MPI_Irecv(more, 16, MPI_INT, 0, MPI_ANY_TAG, comm, &request[0]);
    while (!flag) MPI_Test(&request[0], &flag, MPI_STATUS_IGNORE);
    for (int i = 0; i < 3; i++) MPI_Irecv(more, 16, MPI_INT, 0, 8 + i, comm, &request[i]);
    MPI_Waitall(3, request, MPI_STATUSES_IGNORE);
    request[0] = MPI_REQUEST_NULL;
    MPI_Irecv(more, 16, MPI_INT, 0, 11, comm, &request[1]);
    MPI_Waitany(2, request, &index, MPI_STATUS_IGNORE);
    MPI_Irecv(more, 16, MPI_INT, 0, 12, comm, &request[1]);
    for (n = 0; n < 1;) MPI_Testsome(2, request, &n, indices, MPI_STATUSES_IGNORE);
    MPI_Irecv(more, 16, MPI_INT, 0, 13, comm, &request[1]);
    MPI_Waitsome(2, request, &n, indices, MPI_STATUSES_IGNORE);
    for (flag = 0; !flag;) MPI_Iprobe(0, 14, comm, &flag, MPI_STATUS_IGNORE);
    MPI_Recv(more, 16, MPI_INT, 0, 14, comm, MPI_STATUS_IGNORE);
    MPI_Recv_init(more, 16, MPI_INT, 0, 15, comm, &request[0]);
    for (int i = 0; i < 2; i++) MPI_Startall(1, &request[0]), MPI_Waitall(1, &request[0], MPI_STATUSES_IGNORE);
    MPI_Request_free(&request[0]);
    MPI_Recv(more, 16, MPI_INT, MPI_PROC_NULL, 3, comm, MPI_STATUS_IGNORE);
  }
  MPI_Sendrecv(data, 2, MPI_INT, peer, 20, more, 16, MPI_INT, peer, 20, comm, MPI_STATUS_IGNORE);
  MPI_Sendrecv_replace(data, 3, MPI_INT, peer, 21, peer, 21, comm, &status);
  if (rank == 1) {
    MPI_Irecv(more, 16, MPI_INT, 0, 99, comm, &request[0]);
    MPI_Cancel(&request[0]);
    MPI_Wait(&request[0], &status);
  }
  MPI_Barrier(comm);
  MPI_Bcast(data, 4, MPI_INT, 1, comm);
  MPI_Allreduce(MPI_IN_PLACE, data, 3, MPI_INT, MPI_SUM, comm);
  MPI_Alltoall(data, 2, MPI_INT, more, 2, MPI_INT, comm);
  MPI_Iallreduce(data, more, 5, MPI_INT, MPI_SUM, comm, &request[0]);
  MPI_Wait(&request[0], MPI_STATUS_IGNORE);
  MPI_Win win;
  MPI_Win_create(more, sizeof more, 4, MPI_INFO_NULL, comm, &win);
  MPI_Win_fence(0, win);
  MPI_Put(data, 6, MPI_INT, peer, 0, 6, MPI_INT, win);
  MPI_Win_fence(0, win);
  MPI_Win_free(&win);
  MPI_Buffer_detach(&buffer, &n);
  printf("%d: %d %d %d\n", rank, more[0], more[5], data[2]);
  MPI_Comm_free(&comm);
  MPI_Finalize();
  return 0;
}
