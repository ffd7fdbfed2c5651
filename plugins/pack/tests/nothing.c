// Receives of no elements of a derived type: of an empty message, and of one that is
// too long, which is an error and changes no memory.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MODES = 4, GUARD = 512 };

int main(int argc, char **argv) {
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Datatype pair;
  MPI_Type_vector(2, 1, 2, MPI_INT, &pair);
  MPI_Type_commit(&pair);
  int lengths[] = {0, 1, 2000, 20000};
  for (int k = 0; k < 4; k++)
    for (int mode = 0; mode < MODES; mode++) {
      size_t bytes = (size_t)lengths[k] * 12 + 2 * GUARD;
      char *memory = malloc(bytes);
      memset(memory, 7 + (rank == 0), bytes);
      if (rank == 0) {
        MPI_Send(memory, lengths[k], pair, 1, 0, MPI_COMM_WORLD);
      } else {
        MPI_Request request;
        MPI_Status status;
        int code = 0, class = 0, count = -1, written = 0;
        char *at = memory + GUARD;
        if (mode == 0) code = MPI_Recv(at, 0, pair, 0, 0, MPI_COMM_WORLD, &status);
        if (mode == 1) {
          MPI_Irecv(at, 0, pair, 0, 0, MPI_COMM_WORLD, &request);
          code = MPI_Wait(&request, &status);
        }
        if (mode == 2) {
          MPI_Probe(0, 0, MPI_COMM_WORLD, &status);
          code = MPI_Recv(at, 0, pair, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        if (mode == 3)
          code = MPI_Sendrecv(NULL, 0, MPI_INT, MPI_PROC_NULL, 0, at, 0, pair, 0, 0, MPI_COMM_WORLD, &status);
        MPI_Error_class(code, &class);
        if (!code) MPI_Get_count(&status, pair, &count);
        for (size_t i = 0; i < bytes; i++) written += memory[i] != 7;
        printf("%d elements, mode %d: truncated %d, count %d, %d bytes written\n", lengths[k], mode,
               class == MPI_ERR_TRUNCATE, count, written);
        // Of nobody.
        code = MPI_Recv(at, 0, pair, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &status);
        printf("nobody: %d from %d\n", code, status.MPI_SOURCE == MPI_PROC_NULL);
      }
      free(memory);
      MPI_Barrier(MPI_COMM_WORLD);
    }
  MPI_Type_free(&pair);
  MPI_Finalize();
  return 0;
}
