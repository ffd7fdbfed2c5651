// Receives of two processes whose messages are longer than their places: one that waits, one
// of several that complete together, one of an exchange; whole ones between them.
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
  char data[16] = "0123456789", more[32];
  int rank, class;
  MPI_Request requests[3];
  MPI_Status statuses[3];
  MPI_Init(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0) {
    MPI_Send(data, 10, MPI_CHAR, 1, 1, MPI_COMM_WORLD);
    for (int tag = 2; tag < 5; tag++) MPI_Send(data, 10, MPI_CHAR, 1, tag, MPI_COMM_WORLD);
    MPI_Send(data, 10, MPI_CHAR, 1, 5, MPI_COMM_WORLD);
  } else {
    MPI_Error_class(MPI_Recv(more, 5, MPI_CHAR, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE), &class);
    printf("recv: %d\n", class == MPI_ERR_TRUNCATE);
    for (int i = 0; i < 3; i++)
      MPI_Irecv(more + 10 * i, i == 1 ? 3 : 10, MPI_CHAR, 0, i + 2, MPI_COMM_WORLD, &requests[i]);
    MPI_Error_class(MPI_Waitall(3, requests, statuses), &class);
    printf("waitall: %d\n", class == MPI_ERR_IN_STATUS);
    // (It leaves what had not come when it met the error.)
    MPI_Wait(&requests[2], MPI_STATUS_IGNORE);
    MPI_Irecv(more, 2, MPI_CHAR, 0, 5, MPI_COMM_WORLD, &requests[0]);
    MPI_Error_class(MPI_Wait(&requests[0], MPI_STATUS_IGNORE), &class);
    printf("wait: %d\n", class == MPI_ERR_TRUNCATE);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Error_class(MPI_Sendrecv(data, 10, MPI_CHAR, 1 - rank, 6, more, 5, MPI_CHAR, 1 - rank, 6, MPI_COMM_WORLD,
                               MPI_STATUS_IGNORE),
                  &class);
  printf("sendrecv %d: %d\n", rank, class == MPI_ERR_TRUNCATE);
  MPI_Finalize();
  return 0;
}
