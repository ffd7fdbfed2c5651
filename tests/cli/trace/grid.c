// A grid of processes: rows and columns, messages along both, a window, sums of rows, and
// communicators that are never freed. Rank 1 comes late to each barrier.
#include <mpi.h>
#include <time.h>

enum { STEPS = 5, WIDE = 1000, NARROW = 50, WORDS = 8 };

static MPI_Comm along(MPI_Comm grid, int dimension, const char *name) {
  int keep[2] = {dimension == 0, dimension == 1};
  MPI_Comm comm;
  MPI_Cart_sub(grid, keep, &comm);
  MPI_Comm_set_name(comm, name);
  return comm;
}

static void leak(MPI_Comm comm) {
  MPI_Comm copy;
  MPI_Comm_dup(comm, &copy); // never freed
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank, size, dims[2] = {0, 0}, periods[2] = {1, 1};
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Dims_create(size, 2, dims);
  MPI_Comm grid;
  MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &grid);
  MPI_Comm_set_name(grid, "grid");
  MPI_Comm row = along(grid, 1, "row"), column = along(grid, 0, "column");
  int left, right, above, below, columns;
  MPI_Cart_shift(grid, 1, 1, &left, &right);
  MPI_Comm_rank(column, &above);
  MPI_Comm_size(column, &columns);
  below = (above + 1) % columns;
  above = (above + columns - 1) % columns;

  static double wide[WIDE], got[WIDE], narrow[NARROW], from[NARROW], words[WORDS];
  double *memory, sum, all;
  MPI_Win window;
  MPI_Win_allocate(sizeof words, sizeof(double), MPI_INFO_NULL, grid, &memory, &window);
  MPI_Win_fence(0, window);
  for (int step = 0; step < STEPS; step++) {
    MPI_Sendrecv(wide, WIDE, MPI_DOUBLE, right, 1, got, WIDE, MPI_DOUBLE, left, 1, grid, MPI_STATUS_IGNORE);
    MPI_Request both[2];
    MPI_Irecv(from, NARROW, MPI_DOUBLE, above, 2, column, &both[0]);
    MPI_Isend(narrow, NARROW, MPI_DOUBLE, below, 2, column, &both[1]);
    MPI_Waitall(2, both, MPI_STATUSES_IGNORE);
    MPI_Put(words, WORDS, MPI_DOUBLE, (rank + 1) % size, 0, WORDS, MPI_DOUBLE, window);
    MPI_Win_fence(0, window);
    sum = rank;
    MPI_Allreduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, row);
    struct timespec late = {0, 4000000};
    if (rank == 1) nanosleep(&late, NULL);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  for (int i = 0; i < 3; i++) leak(row);
  MPI_Win_free(&window);
  MPI_Comm_free(&row);
  MPI_Comm_free(&column);
  MPI_Comm_free(&grid);
  MPI_Finalize();
  return 0;
}
