// Messages of derived types, every call and every end of them; what a program can
// see of it is printed, and is to be the same whatever stands before MPI. The sender
// and the receiver each use the type or the packed elements, in turn.
#include <mpi.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 1500, WORDS = 4 * N, LEN = 64 << 10 };
static int rank, peer;
static char *text;
static size_t used;
static MPI_Comm comm;
static MPI_Datatype wide; // 1500 pairs of doubles, 4 doubles apart: 24,000 bytes

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...) {
  va_list args;
  va_start(args, format);
  used += (size_t)vsnprintf(text + used, LEN - used, format, args);
  va_end(args);
}

static double *area(int seed) {
  double *at = malloc(WORDS * sizeof *at);
  for (int i = 0; i < WORDS; i++) at[i] = seed * 100000.0 + i;
  return at;
}

static uint64_t sum(const void *at, size_t len) {
  uint64_t hash = 14695981039346656037u;
  for (size_t i = 0; i < len; i++) hash = (hash ^ ((const unsigned char *)at)[i]) * 1099511628211u;
  return hash;
}

// All of memory, gaps too.
static void show(const char *what, const double *at, MPI_Status *status) {
  int count = -7, elements = -7, doubles = -7, cancelled = 0;
  say("%s %016llx", what, (unsigned long long)sum(at, WORDS * sizeof *at));
  if (status) {
    MPI_Get_count(status, wide, &count);
    MPI_Get_elements(status, wide, &elements);
    MPI_Get_count(status, MPI_DOUBLE, &doubles);
    MPI_Test_cancelled(status, &cancelled);
    say(" from %d tag %d count %d elements %d doubles %d cancelled %d", status->MPI_SOURCE, status->MPI_TAG,
        count, elements, doubles, cancelled);
  }
  say("\n");
}

static MPI_Datatype pairs(int n, int stride) {
  MPI_Datatype made;
  MPI_Type_vector(n, 2, stride, MPI_DOUBLE, &made);
  MPI_Type_commit(&made);
  return made;
}

static void blocking(void) {
  double *out = area(1 + rank), *in = area(3), *flat = area(5 + rank);
  MPI_Status status;
  // To and from packed elements, either way.
  for (int kind = 0; kind < 4; kind++) {
    int typed_out = kind & 1, typed_in = kind >> 1;
    if (rank == 0) {
      if (typed_out) MPI_Send(out, 1, wide, 1, kind, comm);
      else MPI_Send(flat, 2 * N, MPI_DOUBLE, 1, kind, comm);
    } else {
      if (typed_in) MPI_Recv(in, 1, wide, 0, kind, comm, &status);
      else MPI_Recv(in, 2 * N, MPI_DOUBLE, 0, kind, comm, &status);
      show("blocking", in, &status);
    }
  }
  // Less than the receive takes, from anybody, after a probe, without a status.
  if (rank == 0) {
    MPI_Datatype shorter = pairs(1000, 4);
    MPI_Send(out, 1, shorter, 1, 10, comm);
    MPI_Ssend(out, 1, shorter, 1, 11, comm);
    MPI_Send(out, 333, MPI_DOUBLE, 1, 12, comm);
    MPI_Send(out, 0, wide, 1, 14, comm);
    MPI_Send(out, 1, wide, 1, 15, comm);
    MPI_Barrier(comm);
    MPI_Rsend(out, 1, wide, 1, 16, comm);
    MPI_Type_free(&shorter);
  } else {
    MPI_Recv(in, 1, wide, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &status), show("shorter", in, &status);
    MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &status), show("probed", in, &status);
    MPI_Recv(in, 1, wide, 0, 11, comm, MPI_STATUS_IGNORE), show("ignored", in, NULL);
    MPI_Recv(in, 1, wide, 0, 12, comm, &status), show("odd", in, &status);
    MPI_Recv(in, 1, wide, 0, 14, comm, &status), show("empty", in, &status);
    MPI_Message message;
    MPI_Mprobe(0, 15, comm, &message, &status), show("matched", in, &status);
    MPI_Mrecv(in, 1, wide, &message, &status), show("received", in, &status);
    MPI_Request ready;
    MPI_Irecv(in, 1, wide, 0, 16, comm, &ready);
    MPI_Barrier(comm);
    MPI_Wait(&ready, &status), show("ready", in, &status);
  }
  // Nobody, and both ways at once.
  MPI_Send(out, 1, wide, MPI_PROC_NULL, 1, comm);
  MPI_Recv(in, 1, wide, MPI_PROC_NULL, 1, comm, &status), show("nobody", in, &status);
  MPI_Sendrecv(out, 1, wide, peer, 20, in, 1, wide, peer, 20, comm, &status), show("both", in, &status);
  MPI_Sendrecv(out, 1, wide, peer, 20, in, 2 * N, MPI_DOUBLE, peer, 20, comm, MPI_STATUS_IGNORE);
  show("one", in, NULL);
  MPI_Sendrecv(out, 1, wide, rank, 21, in, 1, wide, rank, 21, comm, &status), show("self", in, &status);
  MPI_Request came;
  MPI_Irecv(in, 1, wide, peer, 22, comm, &came);
  MPI_Sendrecv(out, 1, wide, peer, 22, flat, 1, wide, MPI_PROC_NULL, 22, comm, &status);
  show("away", flat, &status);
  MPI_Wait(&came, &status), show("came", in, &status);
  // Too long: an error of the class, and the next message is whole.
  // (MPICH's waits ask the world.)
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Datatype shorter = pairs(1000, 4);
  if (rank == 0) {
    for (int i = 0; i < 2; i++) MPI_Send(out, 1, wide, 1, 30, comm);
    MPI_Send(out, 1, wide, 1, 31, comm);
    MPI_Send(out, 1, wide, 1, -5, comm) == MPI_SUCCESS ? say("a tag of -5\n") : say("no tag of -5\n");
  } else {
    double *other = area(9);
    int class, code = MPI_Recv(other, 1, shorter, 0, 30, comm, &status);
    MPI_Error_class(code, &class), say("too long: %d\n", class == MPI_ERR_TRUNCATE);
    MPI_Request request;
    MPI_Irecv(other, 1, shorter, 0, 30, comm, &request);
    code = MPI_Wait(&request, &status);
    MPI_Error_class(code, &class), say("too long: %d\n", class == MPI_ERR_TRUNCATE);
    MPI_Recv(in, 1, wide, 0, 31, comm, &status), show("after", in, &status);
    free(other);
  }
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_ARE_FATAL);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
  MPI_Type_free(&shorter);
  free(out), free(in), free(flat);
}

// Six receives, alternately typed and not, of one tag: in the order in which they
// were begun.
static void under_way(int how) {
  enum { M = 6 };
  MPI_Request requests[M];
  MPI_Status statuses[M];
  double *areas[M];
  int left = M, n, flag = 0, index, indices[M];
  for (int i = 0; i < M; i++) areas[i] = area(10 * how + i + 100 * rank);
  if (rank == 0) {
    // The type is given up before the sends are over.
    MPI_Datatype own = pairs(N, 4);
    for (int i = 0; i < M; i++) {
      if (i == 1) MPI_Issend(areas[i], 1, own, 1, 40, comm, &requests[i]);
      else MPI_Isend(areas[i], i == 2 ? 2 * N : 1, i == 2 ? MPI_DOUBLE : own, 1, 40, comm, &requests[i]);
    }
    MPI_Type_free(&own);
    // Another of the same handle, while they go on.
    own = pairs(700, 5);
    if (how == 7) {
      for (int i = 0; i < M; i++) MPI_Request_free(&requests[i]);
      for (int i = 0; i < M; i++) say("freed %d\n", requests[i] == MPI_REQUEST_NULL);
    }
    MPI_Waitall(M, requests, MPI_STATUSES_IGNORE);
    // Another one is behind them.
    MPI_Sendrecv(areas[0], 1, own, 1, 41, areas[1], 1, own, 1, 41, comm, MPI_STATUS_IGNORE);
    show("own", areas[1], NULL);
    MPI_Type_free(&own);
    goto end;
  }
  MPI_Datatype own = pairs(N, 4);
  for (int i = 0; i < M; i++)
    MPI_Irecv(areas[i], i % 2 ? 2 * N : 1, i % 2 ? MPI_DOUBLE : own, i == 4 ? MPI_ANY_SOURCE : 0, 40, comm,
              &requests[i]);
  MPI_Type_free(&own);
  switch (how) {
  case 0: MPI_Waitall(M, requests, statuses); break;
  case 1: MPI_Waitall(M, requests, MPI_STATUSES_IGNORE); break;
  case 2:
    while (!flag) MPI_Testall(M, requests, &flag, statuses);
    break;
  case 3:
    for (; left; left--) {
      MPI_Status status;
      MPI_Waitany(M, requests, &index, &status), statuses[index] = status;
    }
    break;
  case 4:
    while (left) {
      MPI_Status status;
      MPI_Testany(M, requests, &index, &flag, &status);
      if (flag && index != MPI_UNDEFINED) statuses[index] = status, left--;
    }
    break;
  case 5:
  case 6:
    while (left) {
      MPI_Status some[M];
      if (how == 5) MPI_Waitsome(M, requests, &n, indices, some);
      else MPI_Testsome(M, requests, &n, indices, some);
      for (int i = 0; i < n; i++) statuses[indices[i]] = some[i], left--;
    }
    break;
  case 7:
    for (int i = 0; i < M; i++) MPI_Wait(&requests[i], &statuses[i]);
    break;
  case 8:
    for (int i = 0; i < M; i++)
      for (flag = 0; !flag;) MPI_Test(&requests[i], &flag, &statuses[i]);
    break;
  default:
    for (int i = 0; i < M; i++) {
      for (flag = 0; !flag;) MPI_Request_get_status(requests[i], &flag, &statuses[i]);
      // It is there already, and what the program changes then stays.
      show("told", areas[i], &statuses[i]);
      areas[i][0] = -1;
      MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
    }
  }
  for (int i = 0; i < M; i++) {
    show("under way", areas[i], how == 1 ? NULL : &statuses[i]);
    say("null %d\n", requests[i] == MPI_REQUEST_NULL);
  }
  own = pairs(700, 5);
  MPI_Sendrecv(areas[0], 1, own, 0, 41, areas[1], 1, own, 0, 41, comm, MPI_STATUS_IGNORE);
  show("own", areas[1], NULL);
  MPI_Type_free(&own);
end:
  for (int i = 0; i < M; i++) free(areas[i]);
}

static void cancelled(void) {
  double *in = area(70 + rank), *out = area(80 + rank), *other = area(85);
  MPI_Request requests[2];
  MPI_Status status;
  MPI_Irecv(in, 1, wide, peer, 50, comm, &requests[0]);
  MPI_Irecv(in, 1, wide, peer, 51, comm, &requests[1]);
  MPI_Cancel(&requests[0]);
  MPI_Wait(&requests[0], &status);
  int was = 0;
  MPI_Test_cancelled(&status, &was), say("cancelled %d\n", was);
  MPI_Sendrecv(out, 1, wide, peer, 51, out, 0, wide, MPI_PROC_NULL, 51, comm, MPI_STATUS_IGNORE);
  MPI_Wait(&requests[1], &status), show("other", in, &status);
  // Given up while it waits, then cancelled by nobody: a message comes for it.
  MPI_Irecv(in, 1, wide, peer, 52, comm, &requests[0]);
  MPI_Request_free(&requests[0]);
  MPI_Send(out, 1, wide, peer, 52, comm);
  MPI_Barrier(comm);
  MPI_Request again;
  for (int i = 0; i < 20; i++) {
    MPI_Isend(out, 1, wide, peer, 53, comm, &again);
    MPI_Recv(other, 1, wide, peer, 53, comm, MPI_STATUS_IGNORE);
    MPI_Wait(&again, MPI_STATUS_IGNORE);
  }
  free(out), free(other);
  // `in` stays: MPI may have it until the end.
}

// A persistent request and a buffered send are MPI's own.
static void left(void) {
  double *in = area(90), *out = area(91 + rank);
  MPI_Request requests[2];
  MPI_Status statuses[2];
  MPI_Send_init(out, 1, wide, peer, 60, comm, &requests[0]);
  MPI_Recv_init(in, 1, wide, peer, 60, comm, &requests[1]);
  for (int i = 0; i < 3; i++) {
    out[0] = i;
    MPI_Startall(2, requests);
    MPI_Waitall(2, requests, statuses), show("persistent", in, &statuses[1]);
  }
  MPI_Request_free(&requests[0]), MPI_Request_free(&requests[1]);
  int size = 0;
  MPI_Pack_size(1, wide, comm, &size), say("pack size %d\n", size);
  char *buffer = malloc((size_t)size + MPI_BSEND_OVERHEAD);
  MPI_Buffer_attach(buffer, size + MPI_BSEND_OVERHEAD);
  MPI_Bsend(out, 1, wide, peer, 61, comm);
  MPI_Recv(in, 1, wide, peer, 61, comm, &statuses[0]), show("buffered", in, &statuses[0]);
  MPI_Buffer_detach(&buffer, &size);
  MPI_Sendrecv_replace(out, 1, wide, peer, 62, peer, 62, comm, &statuses[0]);
  show("replaced", out, &statuses[0]);
  free(buffer), free(in), free(out);
}

// Absolute addresses, and a type of structures.
static void absolute(void) {
  double *in = area(95), *out = area(96 + rank);
  MPI_Datatype made;
  MPI_Aint at;
  MPI_Status status;
  MPI_Request request;
  for (int i = 0; i < 2; i++) {
    MPI_Get_address(i ? in : out, &at);
    int one = 1;
    MPI_Type_create_struct(1, &one, &at, &wide, &made);
    MPI_Type_commit(&made);
    if (i) MPI_Recv(MPI_BOTTOM, 1, made, peer, 70, comm, &status), show("bottom", in, &status);
    else MPI_Isend(MPI_BOTTOM, 1, made, peer, 70, comm, &request);
    MPI_Type_free(&made);
  }
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  free(in), free(out);
}

static void *thread(void *number) {
  int me = (int)(intptr_t)number;
  uint64_t *hash = malloc(sizeof *hash);
  *hash = 0;
  double *in = area(200), *out = area(300 + 10 * rank + me);
  for (int i = 0; i < 60; i++) {
    // Each its own types, made and freed all the time.
    MPI_Datatype own = pairs(600 + 50 * me + i, 3 + (i + me) % 3);
    MPI_Request requests[2];
    MPI_Irecv(in, 1, own, peer, 1000 + me, comm, &requests[0]);
    MPI_Isend(out, 1, own, peer, 1000 + me, comm, &requests[1]);
    if (i % 3 == 0) MPI_Type_free(&own);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    *hash = *hash * 31 + sum(in, WORDS * sizeof *in);
    if (i % 3) MPI_Type_free(&own);
  }
  free(in), free(out);
  return hash;
}

static void threads(void) {
  pthread_t all[4];
  for (intptr_t i = 0; i < 4; i++) pthread_create(&all[i], NULL, thread, (void *)i);
  for (int i = 0; i < 4; i++) {
    uint64_t *hash;
    pthread_join(all[i], (void **)&hash);
    say("thread %d: %016llx\n", i, (unsigned long long)*hash);
    free(hash);
  }
}

int main(int argc, char **argv) {
  int level;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  peer = 1 - rank;
  text = malloc(LEN);
  wide = pairs(N, 4);
  for (int round = 0; round < 2; round++) {
    if (round == 0) {
      MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    } else {
      // The peer is rank 0 of the other group.
      MPI_Comm_free(&comm);
      MPI_Intercomm_create(MPI_COMM_SELF, 0, MPI_COMM_WORLD, peer, 1, &comm);
    }
    if (round == 0) {
      blocking();
      for (int how = 0; how < 10; how++) under_way(how);
      cancelled();
      left();
      absolute();
      if (level == MPI_THREAD_MULTIPLE) threads();
    } else {
      double *in = area(400), *out = area(401 + rank);
      MPI_Status status;
      MPI_Request request;
      MPI_Isend(out, 1, wide, 0, 5, comm, &request);
      MPI_Recv(in, 1, wide, MPI_ANY_SOURCE, 5, comm, &status), show("intercommunicator", in, &status);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
      free(in), free(out);
    }
  }
  MPI_Comm_free(&comm);
  MPI_Type_free(&wide);
  if (rank == 0) {
    char *other = malloc(LEN);
    printf("rank 0:\n%s", text);
    MPI_Recv(other, LEN, MPI_CHAR, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    printf("rank 1:\n%s", other);
  } else {
    MPI_Send(text, (int)used + 1, MPI_CHAR, 0, 0, MPI_COMM_WORLD);
  }
  MPI_Finalize();
  return 0;
}
