// Calls of two processes of which the test knows every event: counts that are larger than int
// has (where MPI or what stands before it has those), neighbours that do not block, and MPI 4's
// persistent collectives and messages in parts.
#include <mpi.h>
#include <stdio.h>
#include <string.h>

#if MPI_VERSION < 4
#define WEAK __attribute__((weak))
extern int MPI_Send_c(const void *, MPI_Count, MPI_Datatype, int, int, MPI_Comm) WEAK;
extern int MPI_Recv_c(void *, MPI_Count, MPI_Datatype, int, int, MPI_Comm, MPI_Status *) WEAK;
extern int MPI_Gatherv_c(const void *, MPI_Count, MPI_Datatype, void *, const MPI_Count *, const MPI_Aint *,
                         MPI_Datatype, int, MPI_Comm) WEAK;
extern int MPI_Alltoallv_c(const void *, const MPI_Count *, const MPI_Aint *, MPI_Datatype, void *, const MPI_Count *,
                           const MPI_Aint *, MPI_Datatype, MPI_Comm) WEAK;
extern int MPI_Ialltoallv_c(const void *, const MPI_Count *, const MPI_Aint *, MPI_Datatype, void *, const MPI_Count *,
                            const MPI_Aint *, MPI_Datatype, MPI_Comm, MPI_Request *) WEAK;
extern int MPI_Type_indexed_c(MPI_Count, const MPI_Count *, const MPI_Count *, MPI_Datatype, MPI_Datatype *) WEAK;
#endif
// The one where it is there, else the other.
#define EITHER(name, large, small) ((name##_c) ? name##_c large : name small)

static void show(const char *what, int rank, const int *data, int n) {
  char line[200];
  int at = snprintf(line, sizeof line, "%s %d:", what, rank);
  for (int i = 0; i < n; i++) at += snprintf(line + at, sizeof line - at, " %d", data[i]);
  puts(line);
}

int main(int argc, char **argv) {
  int rank, data[16], more[16];
  MPI_Request request;
  MPI_Comm comm, ring;
  MPI_Datatype type;
  MPI_Init(&argc, &argv);
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_rank(comm, &rank);
  for (int i = 0; i < 16; i++) data[i] = 100 * (rank + 1) + i;
  memset(more, 0, sizeof more);

  if (rank == 0)
    EITHER(MPI_Send, (data, (MPI_Count)3, MPI_INT, 1, 1, comm), (data, 3, MPI_INT, 1, 1, comm));
  else
    EITHER(MPI_Recv, (more, (MPI_Count)16, MPI_INT, 0, 1, comm, MPI_STATUS_IGNORE),
           (more, 16, MPI_INT, 0, 1, comm, MPI_STATUS_IGNORE));
  show("send", rank, more, 4);

  // To process j go j + 1, from the end.
  MPI_Count counts_c[2] = {1, 2}, own_c[2] = {rank + 1, rank + 1};
  MPI_Aint places_c[2] = {2, 0}, into_c[2] = {0, 4};
  int counts[2] = {1, 2}, own[2] = {rank + 1, rank + 1}, places[2] = {2, 0}, into[2] = {0, 4};
  EITHER(MPI_Alltoallv, (data, counts_c, places_c, MPI_INT, more, own_c, into_c, MPI_INT, comm),
         (data, counts, places, MPI_INT, more, own, into, MPI_INT, comm));
  show("alltoallv", rank, more, 8);
  memset(more, 0, sizeof more);
  for (int i = 0; i < 3; i++) {
    EITHER(MPI_Ialltoallv, (data, counts_c, places_c, MPI_INT, more, own_c, into_c, MPI_INT, comm, &request),
           (data, counts, places, MPI_INT, more, own, into, MPI_INT, comm, &request));
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
  show("ialltoallv", rank, more, 8);
  memset(more, 0, sizeof more);
  EITHER(MPI_Gatherv, (data, (MPI_Count)rank + 1, MPI_INT, more, counts_c, into_c, MPI_INT, 1, comm),
         (data, rank + 1, MPI_INT, more, counts, into, MPI_INT, 1, comm));
  show("gatherv", rank, more, 8);
  EITHER(MPI_Type_indexed, (2, counts_c, (MPI_Count[]){2, 5}, MPI_INT, &type), (2, counts, (int[]){2, 5}, MPI_INT, &type));
  MPI_Type_commit(&type);
  memset(more, 0, sizeof more);
  MPI_Sendrecv(data, 1, type, 1 - rank, 2, more, 3, MPI_INT, 1 - rank, 2, comm, MPI_STATUS_IGNORE);
  show("indexed", rank, more, 4);
  MPI_Type_free(&type);

  // Both neighbours are the other process.
  int two = 2, yes = 1;
  MPI_Cart_create(comm, 1, &two, &yes, 0, &ring);
  int ones[2] = {1, 1}, at[2] = {0, 1};
  MPI_Aint bytes[2] = {0, 4};
  MPI_Datatype types[2] = {MPI_INT, MPI_INT};
  memset(more, 0, sizeof more);
  MPI_Ineighbor_allgather(data, 1, MPI_INT, more, 1, MPI_INT, ring, &request), MPI_Wait(&request, MPI_STATUS_IGNORE);
  show("allgather", rank, more, 2);
  MPI_Ineighbor_allgatherv(data, 1, MPI_INT, more, ones, at, MPI_INT, ring, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Ineighbor_alltoall(data, 2, MPI_INT, more, 2, MPI_INT, ring, &request), MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Ineighbor_alltoallv(data, ones, at, MPI_INT, more, ones, at, MPI_INT, ring, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Ineighbor_alltoallw(data, ones, bytes, types, more, ones, bytes, types, ring, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Comm_free(&ring);

#if MPI_VERSION >= 4
  MPI_Bcast_init(data, 4, MPI_INT, 1, comm, MPI_INFO_NULL, &request);
  for (int i = 0; i < 2; i++) MPI_Start(&request), MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Request_free(&request);
  show("bcast", rank, data, 4);
  MPI_Isendrecv(data, 1, MPI_INT, 1 - rank, 20, more, 16, MPI_INT, 1 - rank, 20, comm, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  memset(more, 0, sizeof more);
  if (rank == 0) {
    MPI_Psend_init(data, 2, 3, MPI_INT, 1, 9, comm, MPI_INFO_NULL, &request);
    MPI_Start(&request);
    MPI_Pready(1, request);
    MPI_Pready_range(0, 0, request);
  } else {
    int flag = 0;
    MPI_Precv_init(more, 2, 3, MPI_INT, 0, 9, comm, MPI_INFO_NULL, &request);
    MPI_Start(&request);
    while (!flag) MPI_Parrived(request, 1, &flag);
  }
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Request_free(&request);
  show("parts", rank, more, 6);
#endif
  MPI_Comm_free(&comm);
  MPI_Finalize();
  return 0;
}
