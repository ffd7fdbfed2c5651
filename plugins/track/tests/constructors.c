// Every constructor of communicators, windows and files, on any number of processes.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int rank, size;

static void show(const char *what, MPI_Comm comm) {
  int mine = -1, n = 0;
  if (comm != MPI_COMM_NULL) MPI_Comm_rank(comm, &mine), MPI_Comm_size(comm, &n);
  int all[2] = {mine, n}, *sum = rank == 0 ? malloc(sizeof all * size) : NULL;
  MPI_Gather(all, 2, MPI_INT, sum, 2, MPI_INT, 0, MPI_COMM_WORLD);
  if (rank == 0) {
    printf("%s:", what);
    for (int i = 0; i < size; i++) printf(" %d/%d", sum[2 * i], sum[2 * i + 1]);
    printf("\n");
    free(sum);
  }
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm world = MPI_COMM_WORLD, dup, dup2, idup, split, none, sub, cart, row, graph, dist, near, group_comm,
           node, inter, inter_dup, merged, deep;

  MPI_Comm_dup(world, &dup);
  show("dup", dup);
  MPI_Comm_dup_with_info(dup, MPI_INFO_NULL, &dup2);
  show("dup_with_info", dup2);
  MPI_Request request;
  MPI_Comm_idup(world, &idup, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  show("idup", idup);
  MPI_Comm_split(world, rank % 2, -rank, &split);
  show("split", split);
  MPI_Comm_split(world, rank == 0 ? MPI_UNDEFINED : 7, rank, &none);
  show("undefined", none);
  MPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  show("split_type", node);
  MPI_Comm_split(split, 1, 0, &deep);
  show("deep", deep);

  MPI_Group all, half, rest;
  MPI_Comm_group(world, &all);
  int range[1][3] = {{size / 2, size - 1, 1}};
  MPI_Group_range_incl(all, 1, range, &half);
  MPI_Group_difference(all, half, &rest);
  // Two at once, then one for the members alone.
  MPI_Comm_create(world, rank >= size / 2 ? half : rest, &sub);
  show("create", sub);
  group_comm = MPI_COMM_NULL;
  if (rank >= size / 2) MPI_Comm_create_group(world, half, 5, &group_comm);
  show("create_group", group_comm);
  MPI_Comm again = MPI_COMM_NULL;
  if (rank < size / 2) MPI_Comm_create_group(world, rest, 5, &again);
  show("create_group of others", again);
  MPI_Comm counted;
  MPI_Comm_dup(world, &counted);
  show("dup of all", counted);
  MPI_Group_free(&half);
  MPI_Group_free(&rest);
  MPI_Group_free(&all);

  int dims[2] = {2, size / 2}, periods[2] = {0, 1}, keep[2] = {0, 1};
  MPI_Cart_create(world, 2, dims, periods, 1, &cart);
  show("cart", cart);
  row = MPI_COMM_NULL;
  if (cart != MPI_COMM_NULL) MPI_Cart_sub(cart, keep, &row);
  show("cart_sub", row);
  int index[2] = {1, 2}, edges[2] = {1, 0};
  MPI_Graph_create(world, 2, index, edges, 0, &graph);
  show("graph", graph);
  int next = (rank + 1) % size, before = (rank + size - 1) % size, one = 1;
  MPI_Dist_graph_create(world, 1, &rank, &one, &next, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &dist);
  show("dist_graph", dist);
  MPI_Dist_graph_create_adjacent(world, 1, &before, MPI_UNWEIGHTED, 1, &next, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &near);
  show("dist_graph_adjacent", near);

  MPI_Intercomm_create(split, 0, world, (size - 1) % 2 == rank % 2 ? size - 2 : size - 1, 9, &inter);
  show("intercomm", inter);
  MPI_Comm_dup(inter, &inter_dup);
  show("dup of it", inter_dup);
  MPI_Comm inter_split;
  MPI_Comm_split(inter, 3, rank, &inter_split);
  show("split of it", inter_split);
  MPI_Intercomm_merge(inter_dup, rank % 2, &merged);
  show("merge", merged);
  MPI_Comm_set_name(merged, "merged again");

  MPI_Win win[4];
  int *base, here = 0;
  // One half after the other: Open MPI 4.1 names the memory of both by the id that they share.
  for (int turn = 0; turn < 2; turn++) {
    if (rank % 2 == turn) MPI_Win_create(&here, sizeof here, 1, MPI_INFO_NULL, split, &win[0]);
    MPI_Barrier(world);
  }
  MPI_Win_allocate(sizeof here, 1, MPI_INFO_NULL, dup, &base, &win[1]);
  MPI_Win_allocate_shared(sizeof here, 1, MPI_INFO_NULL, node, &base, &win[2]);
  MPI_Win_create_dynamic(MPI_INFO_NULL, world, &win[3]);
  for (int i = 0; i < 4; i++) MPI_Win_free(&win[i]);
  MPI_File file;
  int code = MPI_File_open(dup, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file);
  if (code == MPI_SUCCESS) {
    MPI_File_write_at_all(file, rank * 4, &rank, 1, MPI_INT, MPI_STATUS_IGNORE);
    MPI_File_close(&file);
  }

  // Handles are used again at once.
  for (int i = 0; i < 20; i++) {
    MPI_Comm one_more;
    MPI_Comm_dup(i % 2 ? world : split, &one_more);
    MPI_Barrier(one_more);
    MPI_Comm_free(&one_more);
  }
  MPI_Comm own;
  MPI_Comm_dup(MPI_COMM_SELF, &own);
  MPI_Comm_free(&own);

  MPI_Comm *freed[] = {&dup2, &idup, &split, &none, &sub, &cart, &row, &graph, &dist, &near, &group_comm, &again,
                       &counted, &node, &inter, &inter_dup, &inter_split, &merged, &deep};
  for (unsigned i = 0; i < sizeof freed / sizeof *freed; i++)
    if (*freed[i] != MPI_COMM_NULL) MPI_Comm_free(freed[i]);
  MPI_Comm_disconnect(&dup);
  MPI_Finalize();
  return 0;
}
