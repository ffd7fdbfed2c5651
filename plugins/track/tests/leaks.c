// Leaks on purpose: communicators, a window, groups, datatypes and requests.
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm comm, freed;
  for (int i = 0; i < 5; i++) MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  for (int i = 0; i < 3; i++) MPI_Comm_dup(MPI_COMM_WORLD, &freed), MPI_Comm_free(&freed);
  MPI_Group group;
  MPI_Comm_group(MPI_COMM_WORLD, &group);
  MPI_Comm_group(MPI_COMM_WORLD, &group);
  MPI_Group_free(&group);
  MPI_Datatype type;
  MPI_Type_contiguous(3, MPI_INT, &type);
  MPI_Type_commit(&type);
  MPI_Type_vector(3, 1, 2, MPI_INT, &type);
  MPI_Type_free(&type);
  MPI_Request request;
  int data = 0;
  MPI_Send_init(&data, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, &request);
  printf("leaked\n");
  fflush(stdout);
  if (argc > 1 && (!strcmp(argv[1], "exhaust") || !strcmp(argv[1], "fatal"))) {
    if (!strcmp(argv[1], "exhaust")) MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int code = MPI_SUCCESS, n = 0;
    for (; code == MPI_SUCCESS && n < 100000; n++) code = MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    printf("failed: %d\n", code != MPI_SUCCESS);
    fflush(stdout);
  }
  if (argc > 1 && !strcmp(argv[1], "exit")) exit(0);
  if (argc > 1 && (!strcmp(argv[1], "busy") || !strcmp(argv[1], "limited"))) {
    struct rlimit limit = {200 << 10, RLIM_INFINITY};
    if (!strcmp(argv[1], "limited")) setrlimit(RLIMIT_FSIZE, &limit);
    MPI_Comm before;
    MPI_Comm_dup(MPI_COMM_SELF, &before);
    for (int i = 0; i < 50000; i++)
      MPI_Sendrecv(&i, 1, MPI_INT, 0, 1, &data, 1, MPI_INT, 0, 1, MPI_COMM_SELF, MPI_STATUS_IGNORE);
    // Freed when the disk is full.
    MPI_Comm_free(&before);
  }
  if (argc > 1 && (!strcmp(argv[1], "die") || !strcmp(argv[1], "term"))) {
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Barrier(MPI_COMM_WORLD);
    // What the others have recorded is in their files a tenth of a second later.
    if (rank == 1 && !strcmp(argv[1], "die")) sleep(1), abort();
    if (rank == 1) kill(getpid(), SIGTERM);
    for (;;) MPI_Recv(&data, 1, MPI_INT, 1, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  MPI_Finalize();
  return 0;
}
