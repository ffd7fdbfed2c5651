// Windows with datatypes of every constructor that takes counts of 64 bits (MPI 4), beside
// MPI_Pack: put from such a layout and into it, got, accumulated, and nested.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEN = 4096, KINDS = 13 };

static MPI_Datatype kind(int which, MPI_Datatype of) {
  const MPI_Count lens[] = {1, 2}, places[] = {40, 3}, far[] = {320, 24}, bounds[] = {0, 480};
  const MPI_Count whole[] = {6, 5}, part[] = {2, 3}, first[] = {3, 1};
  const int dealt[] = {MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_NONE}, grid[] = {2, 1};
  const int defaults[] = {MPI_DISTRIBUTE_DFLT_DARG, MPI_DISTRIBUTE_DFLT_DARG};
  const MPI_Datatype types[] = {of, of};
  MPI_Datatype made = MPI_DATATYPE_NULL, inner;
  switch (which) {
  case 0: MPI_Type_contiguous_c(3, of, &made); break;
  case 1: MPI_Type_vector_c(3, 2, 5, of, &made); break;
  case 2: MPI_Type_create_hvector_c(3, 2, 400, of, &made); break;
  case 3: MPI_Type_indexed_c(2, lens, places, of, &made); break;
  case 4: MPI_Type_create_hindexed_c(2, lens, far, of, &made); break;
  case 5: MPI_Type_create_indexed_block_c(2, 3, places, of, &made); break;
  case 6: MPI_Type_create_hindexed_block_c(2, 2, far, of, &made); break;
  case 7: MPI_Type_create_struct_c(2, lens, far, types, &made); break;
  case 8: MPI_Type_create_subarray_c(2, whole, part, first, MPI_ORDER_C, of, &made); break;
  case 9: MPI_Type_create_subarray_c(2, whole, part, first, MPI_ORDER_FORTRAN, of, &made); break;
  case 10: MPI_Type_create_darray_c(2, 1, 2, whole, dealt, defaults, grid, MPI_ORDER_C, of, &made); break;
  case 11: MPI_Type_create_resized_c(of, bounds[0], bounds[1], &made); break;
  default: // One of each, the inner one without.
    MPI_Type_vector(2, 1, 2, of, &inner);
    MPI_Type_create_hvector_c(2, 1, 100 * 8, inner, &made);
    MPI_Type_free(&inner);
  }
  MPI_Type_commit(&made);
  return made;
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank, ranks, wrong = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank), MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  int peer = (rank + 1) % ranks;
  double *mine, *buf = malloc(LEN * sizeof *buf), *want = malloc(LEN * sizeof *want), *got = malloc(LEN * sizeof *got);
  MPI_Win win;
  MPI_Win_allocate(LEN * sizeof *mine, sizeof *mine, MPI_INFO_NULL, MPI_COMM_WORLD, &mine, &win);
  for (int which = 0; which < KINDS; which++)
    for (int count = 1; count <= 2; count++) {
      MPI_Datatype type = kind(which, MPI_DOUBLE);
      int bytes, at = 0;
      MPI_Type_size(type, &bytes);
      int n = bytes / 8 * count;
      for (int i = 0; i < LEN; i++) buf[i] = 1000 * which + i, want[i] = -1;
      MPI_Pack(buf, count, type, want, LEN * 8, &at, MPI_COMM_WORLD);
      for (int step = 0; step < 4; step++) {
        for (int i = 0; i < LEN; i++) mine[i] = step == 3 ? 1 : -1, got[i] = -1;
        MPI_Win_fence(0, win);
        if (step == 0) MPI_Put_c(buf, count, type, peer, 0, n, MPI_DOUBLE, win);
        if (step == 1) MPI_Put(want, n, MPI_DOUBLE, peer, 0, count, type, win);
        if (step == 2) MPI_Put(buf, LEN, MPI_DOUBLE, peer, 0, LEN, MPI_DOUBLE, win);
        if (step == 3) MPI_Accumulate_c(buf, count, type, peer, 0, n, MPI_DOUBLE, MPI_SUM, win);
        MPI_Win_fence(0, win);
        if (step == 2) MPI_Get_c(got, n, MPI_DOUBLE, peer, 0, count, type, win);
        MPI_Win_fence(0, win);
        if (step == 1) at = 0, MPI_Pack(mine, count, type, got, LEN * 8, &at, MPI_COMM_WORLD);
        const double *found = step == 0 || step == 3 ? mine : got;
        for (int i = 0; i < n; i++)
          if (found[i] != want[i] + (step == 3)) {
            fprintf(stderr, "rank %d: constructor %d, %d of it, step %d: %g at %d, not %g\n", rank, which, count,
                    step, found[i], i, want[i]);
            wrong = 1;
            break;
          }
      }
      MPI_Type_free(&type);
    }
  int any;
  MPI_Allreduce(&wrong, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  if (rank == 0 && !any) puts("ok");
  MPI_Win_free(&win);
  MPI_Finalize();
  return any;
}
