// Two processes spawn two more, talk over the intercommunicator and merge with it.
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm inter, all;
  int rank, size, sum;
  MPI_Comm_get_parent(&inter);
  int is_child = inter != MPI_COMM_NULL;
  if (!is_child) MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 2, MPI_INFO_NULL, 1, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE);
  MPI_Intercomm_merge(inter, is_child, &all);
  MPI_Comm_rank(all, &rank);
  MPI_Comm_size(all, &size);
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, all);
  if (rank == 0) printf("%d processes, %d\n", size, sum);
  MPI_Comm_free(&all);
  MPI_Comm_disconnect(&inter);
  MPI_Finalize();
  return 0;
}
