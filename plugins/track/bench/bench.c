// MPI's own functions and those that record, in turn in one process: a stream of sends and a
// ping-pong of 8 bytes between two processes. Prints the best of many rounds, and the median
// of the ratios of neighbouring rounds.
#include "../../pack/tests/common.h"
#include <time.h>

#define ROUNDS 301
typedef __typeof__(&MPI_Send) Send;
typedef __typeof__(&MPI_Recv) Recv;

static int rank;
static MPI_Comm comm;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

// Nanoseconds a message of a stream that the receiver ends.
static double stream(Send send, Recv recv) {
  enum { N = 1000 };
  char data[8] = {0};
  double start = now();
  for (int i = 0; i < N; i++)
    if (rank == 0)
      send(data, 8, MPI_BYTE, 1, 1, comm);
    else
      recv(data, 8, MPI_BYTE, 0, 1, comm, MPI_STATUS_IGNORE);
  if (rank == 1)
    send(data, 0, MPI_BYTE, 0, 2, comm);
  else
    recv(data, 0, MPI_BYTE, 1, 2, comm, MPI_STATUS_IGNORE);
  return (now() - start) / N;
}

static double pingpong(Send send, Recv recv) {
  enum { N = 500 };
  char data[8] = {0};
  double start = now();
  for (int i = 0; i < N; i++)
    if (rank == 0) {
      send(data, 8, MPI_BYTE, 1, 3, comm);
      recv(data, 8, MPI_BYTE, 1, 3, comm, MPI_STATUS_IGNORE);
    } else {
      recv(data, 8, MPI_BYTE, 0, 3, comm, MPI_STATUS_IGNORE);
      send(data, 8, MPI_BYTE, 0, 3, comm);
    }
  return (now() - start) / N;
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void measure(const char *what, double (*run)(Send, Recv)) {
  static double ratios[ROUNDS];
  double best[2] = {1e300, 1e300};
  for (int i = 0; i < ROUNDS; i++) {
    double took[2];
    // Which is first changes, so that neither gains by it.
    for (int k = 0; k < 2; k++) {
      int with = (k + i) % 2;
      MPI_Barrier(comm);
      took[with] = with ? run(MPI_Send, MPI_Recv) : run(REAL(MPI_Send), REAL(MPI_Recv));
      if (took[with] < best[with]) best[with] = took[with];
    }
    ratios[i] = took[1] / took[0];
  }
  qsort(ratios, ROUNDS, sizeof *ratios, ascending);
  if (rank == 0)
    printf("%-24s without %7.1f ns, with %7.1f ns: %+5.1f %% (best), %+5.1f %% (median of ratios)\n", what, best[0],
           best[1], (best[1] / best[0] - 1) * 100, (ratios[ROUNDS / 2] - 1) * 100);
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_rank(comm, &rank);
  measure("MPI_Send, 8 bytes", stream);
  measure("ping-pong, 8 bytes", pingpong);
  MPI_Comm_free(&comm);
  MPI_Finalize();
  return 0;
}
