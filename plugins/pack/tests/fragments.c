// Long messages of derived types of many kinds of elements, received by calls that the
// library takes and by those that are MPI's own: all of it is there.
#include <complex.h>
#include <mpi.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct particle { char kind; double x[3]; char tag[2]; int id; };
struct cell { double x[3]; int left, right; float weight[2]; };
enum { MODES = 4 };
static int rank;

static MPI_Datatype resized(MPI_Datatype of, MPI_Aint extent) {
  MPI_Datatype made;
  MPI_Type_create_resized(of, 0, extent, &made);
  MPI_Type_free(&of);
  MPI_Type_commit(&made);
  return made;
}

// One element of `n`: a struct, or three basic ones with gaps.
static MPI_Datatype made(int kind) {
  MPI_Datatype all[] = {MPI_CHAR, MPI_SHORT, MPI_INT, MPI_DOUBLE, MPI_C_DOUBLE_COMPLEX, MPI_C_LONG_DOUBLE_COMPLEX};
  MPI_Datatype type;
  if (kind >= 2 && kind < 8) {
    int size, lengths[] = {1, 2}, at[] = {0, 2};
    MPI_Type_size(all[kind - 2], &size);
    MPI_Type_indexed(2, lengths, at, all[kind - 2], &type);
    return resized(type, 5 * size);
  }
  if (kind == 0) {
    int lengths[] = {1, 3, 2, 1};
    MPI_Aint at[] = {offsetof(struct particle, kind), offsetof(struct particle, x), offsetof(struct particle, tag),
                     offsetof(struct particle, id)};
    MPI_Datatype types[] = {MPI_CHAR, MPI_DOUBLE, MPI_CHAR, MPI_INT};
    MPI_Type_create_struct(4, lengths, at, types, &type);
    return resized(type, sizeof(struct particle));
  }
  if (kind == 8) {
    int lengths[] = {3, 1};
    MPI_Aint at[] = {0, 16};
    MPI_Datatype types[] = {MPI_SHORT, MPI_C_LONG_DOUBLE_COMPLEX};
    MPI_Type_create_struct(2, lengths, at, types, &type);
    return resized(type, 64);
  }
  int lengths[] = {3, 1, 2};
  MPI_Aint at[] = {offsetof(struct cell, x), offsetof(struct cell, right), offsetof(struct cell, weight)};
  MPI_Datatype types[] = {MPI_DOUBLE, MPI_INT, MPI_FLOAT};
  MPI_Type_create_struct(3, lengths, at, types, &type);
  return resized(type, sizeof(struct cell));
}

static void exchange(int kind, int bytes, int mode) {
  MPI_Datatype type = made(kind);
  MPI_Aint lb, extent;
  int size, position = 0, code = 0, count = 0;
  MPI_Type_size(type, &size);
  MPI_Type_get_extent(type, &lb, &extent);
  int n = bytes / size, len = n * size;
  char *memory = calloc((size_t)n + 1, (size_t)extent), *flat = malloc((size_t)len);
  for (int i = 0; i < len; i++) flat[i] = (char)(i * 7 + i / 251);
  MPI_Status status;
  if (rank == 0) {
    MPI_Unpack(flat, len, &position, memory, n, type, MPI_COMM_SELF);
    MPI_Send(memory, n, type, 1, mode, MPI_COMM_WORLD);
  } else {
    MPI_Request request;
    MPI_Message message;
    if (mode == 0) code = MPI_Recv(memory, n, type, 0, mode, MPI_COMM_WORLD, &status);
    if (mode == 1) {
      MPI_Irecv(memory, n, type, 0, mode, MPI_COMM_WORLD, &request);
      code = MPI_Wait(&request, &status);
    }
    if (mode == 2) {
      MPI_Recv_init(memory, n, type, 0, mode, MPI_COMM_WORLD, &request);
      MPI_Start(&request);
      code = MPI_Wait(&request, &status);
      MPI_Request_free(&request);
    }
    if (mode == 3) {
      MPI_Mprobe(0, mode, MPI_COMM_WORLD, &message, &status);
      code = MPI_Mrecv(memory, n, type, &message, &status);
    }
    MPI_Get_count(&status, type, &count);
    char *came = calloc(1, (size_t)len);
    MPI_Pack(memory, n, type, came, len, &position, MPI_COMM_SELF);
    int wrong = 0;
    // (Of a long double 10 bytes count.)
    for (int i = 0; i < len; i++)
      wrong += came[i] != flat[i] && (kind < 7 || (kind == 7 ? i % 16 : i % 38 < 6 ? 0 : (i % 38 - 6) % 16) < 10);
    printf("kind %d, %d bytes, mode %d: code %d, %d of %d, %d wrong\n", kind, len, mode, code, count, n, wrong);
    free(came);
  }
  free(memory), free(flat);
  MPI_Type_free(&type);
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  int lengths[] = {3000, 9000, 17000, 32000, 70000, 500000};
  for (int kind = 0; kind < 9; kind++)
    for (int i = 0; i < 6; i++)
      for (int mode = 0; mode < MODES; mode++) exchange(kind, lengths[i], mode);
  MPI_Finalize();
  return 0;
}
