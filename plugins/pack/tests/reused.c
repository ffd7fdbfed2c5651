// Threads whose requests MPI uses again at once, in other threads, and for
// operations of other kinds: each receive has what was sent to it, all of it.
#include <mpi.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 4, TURNS = 300, N = 4000 };
static int rank, peer;

static void fill(int *at, int seed) {
  for (int i = 0; i < 3 * N; i++) at[i] = i % 3 ? -1 : seed + i;
}

// One way to complete two requests, of the receive and the send.
static void complete(MPI_Request *both, int how) {
  int index, flag = 0, n = 0, indices[2];
  MPI_Status statuses[2];
  switch (how) {
  case 0: MPI_Waitall(2, both, MPI_STATUSES_IGNORE); break;
  case 1: MPI_Waitall(2, both, statuses); break;
  case 2: MPI_Wait(&both[0], MPI_STATUS_IGNORE), MPI_Wait(&both[1], &statuses[0]); break;
  case 3:
    for (int i = 0; i < 2; i++) MPI_Waitany(2, both, &index, MPI_STATUS_IGNORE);
    break;
  case 4:
    while (!flag) MPI_Testall(2, both, &flag, MPI_STATUSES_IGNORE);
    break;
  case 5:
    for (int left = 2; left; left -= n) MPI_Waitsome(2, both, &n, indices, statuses);
    break;
  default:
    while (!flag) MPI_Request_get_status(both[0], &flag, MPI_STATUS_IGNORE);
    for (flag = 0; !flag;) MPI_Test(&both[0], &flag, &statuses[0]);
    MPI_Wait(&both[1], MPI_STATUS_IGNORE);
  }
}

static void *thread(void *number) {
  int me = (int)(intptr_t)number;
  intptr_t wrong = 0;
  int *in = malloc(3 * N * sizeof *in), *out = malloc(3 * N * sizeof *out);
  for (int turn = 0; turn < TURNS; turn++) {
    MPI_Datatype column;
    MPI_Type_vector(N, 1, 3, MPI_INT, &column);
    MPI_Type_commit(&column);
    fill(out, turn * 10 + me + 100000 * rank);
    for (int i = 0; i < 3 * N; i++) in[i] = -1;
    MPI_Request both[2];
    MPI_Irecv(in, 1, column, peer, me, MPI_COMM_WORLD, &both[0]);
    MPI_Isend(out, 1, column, peer, me, MPI_COMM_WORLD, &both[1]);
    complete(both, turn % 7);
    int before = turn * 10 + me + 100000 * peer;
    for (int i = 0; i < 3 * N && wrong < 1000; i++) wrong += in[i] != (i % 3 ? -1 : before + i);
    // What is MPI's own alone: a receive that is given up, and words both ways.
    MPI_Status status;
    int cancelled = 0, word = turn, other = -1;
    if (turn % 2 == 0) {
      MPI_Irecv(in, N, MPI_INT, peer, 100 + me, MPI_COMM_WORLD, &both[0]);
      MPI_Cancel(&both[0]);
      MPI_Wait(&both[0], &status);
      MPI_Test_cancelled(&status, &cancelled);
      wrong += !cancelled;
    } else {
      MPI_Irecv(&other, 1, MPI_INT, peer, 200 + me, MPI_COMM_WORLD, &both[0]);
      MPI_Isend(&word, 1, MPI_INT, peer, 200 + me, MPI_COMM_WORLD, &both[1]);
      MPI_Waitall(2, both, MPI_STATUSES_IGNORE);
      wrong += other != turn;
    }
    MPI_Type_free(&column);
  }
  free(in), free(out);
  return (void *)wrong;
}

int main(int argc, char **argv) {
  int level, wrong = 0, all;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  peer = 1 - rank;
  pthread_t threads[THREADS];
  int n = level == MPI_THREAD_MULTIPLE ? THREADS : 1;
  for (intptr_t i = 0; i < n; i++) pthread_create(&threads[i], NULL, thread, (void *)i);
  for (int i = 0; i < n; i++) {
    void *bad;
    pthread_join(threads[i], &bad);
    wrong += (int)(intptr_t)bad;
  }
  MPI_Reduce(&wrong, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0) printf("%d threads, %d wrong\n", n, all);
  MPI_Finalize();
  return 0;
}
