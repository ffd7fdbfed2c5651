// Communicators without MPI_Init: of all processes, of the upper half, and a second session.
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

static void once(const char *tag) {
  MPI_Session session;
  MPI_Group all, half;
  MPI_Comm comm, upper, odd;
  int rank, size, sum;
  MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
  MPI_Group_from_session_pset(session, "mpi://WORLD", &all);
  MPI_Group_rank(all, &rank);
  MPI_Group_size(all, &size);
  int range[1][3] = {{size / 2, size - 1, 1}};
  MPI_Group_range_incl(all, 1, range, &half);
  // Those of the upper half meet first, where MPI can make one of a part.
#ifdef PARTS
  const int meets = rank >= size / 2;
#else
  const int meets = 0;
#endif
  if (meets) {
    MPI_Comm_create_from_group(half, "half", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &upper);
    MPI_Comm_free(&upper);
  }
  MPI_Comm_create_from_group(all, tag, MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm);
  MPI_Comm_split(comm, rank % 2, 0, &odd);
  // All but rank 0, the last one first; and the even against the odd.
  MPI_Group back;
  MPI_Comm most, sides;
  int even = 0;
  range[0][0] = size - 1, range[0][1] = 1, range[0][2] = -1;
  MPI_Group_range_incl(all, 1, range, &back);
  if (rank != 0) {
    MPI_Comm_create_group(comm, back, 5, &most);
    MPI_Comm_free(&most);
  }
  MPI_Intercomm_create(odd, 0, comm, 1 - rank % 2, 3, &sides);
  MPI_Allreduce(&rank, &even, 1, MPI_INT, MPI_SUM, odd);
  MPI_Comm_free(&sides);
  MPI_Group_free(&back);
  if (rank == 0) printf("%s: %d of %d, %d\n", tag, sum, size, even);
#ifdef PARTS
  // The two halves.
  MPI_Group rest;
  MPI_Comm between;
  int theirs = -1;
  MPI_Group_difference(all, half, &rest);
  MPI_Intercomm_create_from_groups(meets ? half : rest, 0, meets ? rest : half, 0, "halves",
                                   MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &between);
  if (rank == 0) MPI_Send(&sum, 1, MPI_INT, 0, 3, between);
  if (rank == size / 2) MPI_Recv(&theirs, 1, MPI_INT, 0, 3, between, MPI_STATUS_IGNORE);
  if (rank == size / 2) printf("%s: %d\n", tag, theirs);
  MPI_Comm_free(&between);
  MPI_Group_free(&rest);
#endif
  MPI_Comm_free(&odd);
  MPI_Comm_free(&comm);
  MPI_Group_free(&half);
  MPI_Group_free(&all);
  MPI_Session_finalize(&session);
}

int main(void) {
  once("first");
#ifdef PARTS
  // (MPICH 4.0 crashes in a second MPI_Session_init; 5.0 mixes messages of both, or hangs, once
  // in some thousand runs where they follow at once.)
  usleep(300000);
  once("second");
#endif
  return 0;
}
