// Two halves of a job meet at a port (`port`), or two processes by a socket (`join`). With
// `apart` they make communicators of which not all of the world are members.
#include <arpa/inet.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void count(const char *what, MPI_Comm comm, int high) {
  MPI_Comm all;
  int rank, size, sum;
  MPI_Intercomm_merge(comm, high, &all);
  MPI_Comm_rank(all, &rank);
  MPI_Comm_size(all, &size);
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, all);
  if (rank == 0) printf("%s: %d processes, %d\n", what, size, sum);
  MPI_Comm_free(&all);
}

// A connected socket to the other of two processes.
static int connected(int rank) {
  struct sockaddr_in at = {.sin_family = AF_INET};
  socklen_t len = sizeof at;
  int one = socket(AF_INET, SOCK_STREAM, 0), fd = one;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (rank == 0) {
    if (bind(one, (struct sockaddr *)&at, len) || listen(one, 1) || getsockname(one, (struct sockaddr *)&at, &len)) exit(3);
    MPI_Send(&at, sizeof at, MPI_BYTE, 1, 7, MPI_COMM_WORLD);
    fd = accept(one, NULL, NULL);
    close(one);
  } else {
    MPI_Recv(&at, sizeof at, MPI_BYTE, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (connect(one, (struct sockaddr *)&at, len)) exit(4);
  }
  return fd;
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  const char *how = argc > 1 ? argv[1] : "port";
  int rank, size;
  MPI_Comm half, other;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  int upper = rank >= size / 2;
  MPI_Comm_split(MPI_COMM_WORLD, upper, rank, &half);
  if (!strcmp(how, "join")) {
    int fd = connected(rank);
    MPI_Comm_join(fd, &other);
    count("join", other, rank);
    MPI_Comm_disconnect(&other);
    close(fd);
  } else if (!strcmp(how, "apart")) {
    MPI_Group world, most;
    int first = 0;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_excl(world, 1, &first, &most);
    if (rank != 0) MPI_Comm_create_group(MPI_COMM_WORLD, most, 5, &other), MPI_Comm_free(&other);
    MPI_Group_free(&most);
    MPI_Group_free(&world);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, upper ? 0 : size / 2, 3, &other);
    count("apart", other, upper);
    MPI_Comm_free(&other);
  } else {
    char address[MPI_MAX_PORT_NAME] = "";
    for (int i = 0; i < 2; i++) {
      if (!upper) {
        if (rank == 0) MPI_Open_port(MPI_INFO_NULL, address), MPI_Send(address, sizeof address, MPI_CHAR, size / 2, 7, MPI_COMM_WORLD);
        MPI_Comm_accept(address, MPI_INFO_NULL, 0, half, &other);
        if (rank == 0) MPI_Close_port(address);
      } else {
        if (rank == size / 2) MPI_Recv(address, sizeof address, MPI_CHAR, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Comm_connect(address, MPI_INFO_NULL, 0, half, &other);
      }
      count("port", other, upper);
      MPI_Comm_disconnect(&other);
    }
  }
  MPI_Comm_free(&half);
  MPI_Finalize();
  return 0;
}
