// Four threads of each process, each on a communicator of its own.
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>

#define THREADS 4
#define ROUNDS 200
static MPI_Comm comms[THREADS];
static int rank, sums[THREADS];

static void *run(void *which) {
  long t = (long)which;
  int peer = 1 - rank, data;
  for (int i = 0; i < ROUNDS; i++) {
    MPI_Request request;
    int mine = rank * 1000 + i;
    MPI_Irecv(&data, 1, MPI_INT, peer, i, comms[t], &request);
    MPI_Send(&mine, 1, MPI_INT, peer, i, comms[t]);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    sums[t] += data;
    if (i % 50 == 0) {
      MPI_Comm again;
      MPI_Comm_dup(comms[t], &again);
      MPI_Comm_free(&again);
    }
  }
  return NULL;
}

int main(int argc, char **argv) {
  int provided;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (provided < MPI_THREAD_MULTIPLE) MPI_Abort(MPI_COMM_WORLD, 1);
  pthread_t threads[THREADS];
  for (long t = 0; t < THREADS; t++) MPI_Comm_dup(MPI_COMM_WORLD, &comms[t]);
  for (long t = 0; t < THREADS; t++) pthread_create(&threads[t], NULL, run, (void *)t);
  for (long t = 0; t < THREADS; t++) pthread_join(threads[t], NULL), MPI_Comm_free(&comms[t]);
  int all[2];
  MPI_Gather(&sums[0], 1, MPI_INT, all, 1, MPI_INT, 0, MPI_COMM_WORLD);
  if (rank == 0) printf("%d %d\n", all[0], all[1]);
  MPI_Finalize();
  return 0;
}
