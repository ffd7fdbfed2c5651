// What programs may do and few do: requests that fail without statuses, collectives of two groups
// with arguments that are not significant, a test of a window that finds nothing, and a datatype
// of more bytes than int has.
#include <mpi.h>
#include <stdio.h>

static int fails(void *state, MPI_Status *status) {
  (void)state, (void)status;
  return MPI_ERR_OTHER;
}

static int nothing(void *state) {
  (void)state;
  return MPI_SUCCESS;
}

static int cancels(void *state, int complete) {
  (void)state, (void)complete;
  return MPI_SUCCESS;
}

// A request that fails, and a send that has arrived.
static void begin(MPI_Request *requests, int *data, int *more) {
  MPI_Request receive;
  MPI_Irecv(more, 1, MPI_INT, 0, 1, MPI_COMM_SELF, &receive);
  MPI_Grequest_start(fails, nothing, cancels, NULL, &requests[0]);
  MPI_Grequest_complete(requests[0]);
  MPI_Isend(data, 1, MPI_INT, 0, 1, MPI_COMM_SELF, &requests[1]);
  MPI_Wait(&receive, MPI_STATUS_IGNORE);
}

static void end(const char *what, int code) {
  int class;
  MPI_Error_class(code, &class);
  printf("%s: %d\n", what, class == MPI_ERR_IN_STATUS);
}

int main(int argc, char **argv) {
  int rank, flag = 0, n, indices[2], data[4] = {1, 2, 3, 4}, more[4] = {0}, counts[2] = {1, 1}, places[2] = {0, 1};
  MPI_Request requests[2];
  MPI_Init(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);

  begin(requests, data, more);
  end("waitall", MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
  begin(requests, data, more);
  end("waitsome", MPI_Waitsome(2, requests, &n, indices, MPI_STATUSES_IGNORE));
  begin(requests, data, more);
  end("testall", MPI_Testall(2, requests, &flag, MPI_STATUSES_IGNORE));
  begin(requests, data, more);
  end("testsome", MPI_Testsome(2, requests, &n, indices, MPI_STATUSES_IGNORE));

  // Rank 0 has the root.
  MPI_Comm other;
  MPI_Intercomm_create(MPI_COMM_SELF, 0, MPI_COMM_WORLD, 1 - rank, 2, &other);
  if (rank == 0) {
    MPI_Gather(NULL, 1, MPI_DATATYPE_NULL, more, 2, MPI_INT, MPI_ROOT, other);
    MPI_Gatherv(NULL, 1, MPI_DATATYPE_NULL, more, counts, places, MPI_INT, MPI_ROOT, other);
    // (MPICH refuses NULL.)
    MPI_Reduce(data, more, 3, MPI_INT, MPI_SUM, MPI_ROOT, other);
    MPI_Scatter(data, 1, MPI_INT, NULL, 1, MPI_DATATYPE_NULL, MPI_ROOT, other);
  } else {
    MPI_Gather(data, 2, MPI_INT, NULL, 1, MPI_DATATYPE_NULL, 0, other);
    MPI_Gatherv(data, 1, MPI_INT, NULL, NULL, NULL, MPI_DATATYPE_NULL, 0, other);
    MPI_Reduce(data, NULL, 3, MPI_INT, MPI_SUM, 0, other);
    MPI_Scatter(NULL, 1, MPI_DATATYPE_NULL, more, 1, MPI_INT, 0, other);
  }
  MPI_Comm_free(&other);
  printf("%d: %d %d %d\n", rank, more[0], more[1], more[2]);

  MPI_Win win;
  MPI_Group all, group;
  MPI_Comm_group(MPI_COMM_WORLD, &all);
  MPI_Group_incl(all, 1, (int[]){1 - rank}, &group);
  MPI_Win_create(more, sizeof more, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
  if (rank == 0) {
    MPI_Win_post(group, 0, win);
    MPI_Win_test(win, &flag);
    printf("test: %d\n", flag);
    MPI_Send(NULL, 0, MPI_INT, 1, 3, MPI_COMM_WORLD);
    while (!flag) MPI_Win_test(win, &flag);
  } else {
    MPI_Recv(NULL, 0, MPI_INT, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Win_start(group, 0, win);
    MPI_Win_complete(win);
  }
  MPI_Win_free(&win);
  MPI_Group_free(&group);
  MPI_Group_free(&all);

  MPI_Datatype large;
  MPI_Type_contiguous(1 << 30, MPI_INT, &large);
  MPI_Type_commit(&large);
  MPI_Bcast(data, 1, large, 0, MPI_COMM_SELF);
  MPI_Type_free(&large);
  MPI_Finalize();
  return 0;
}
