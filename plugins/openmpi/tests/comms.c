/* Communicators of all kinds, each with its own ranks and messages. */
#include "check.h"

static void ring(MPI_Comm comm, const char *what)
{
    int me, n, got[2];
    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &n);
    for (int step = 1; step < n; step++) {
        int to = (me + step) % n, from = (me + n - step) % n, mine[2] = {me, rank};
        MPI_Status status;
        MPI_Sendrecv(mine, 2, MPI_INT, to, step, got, 2, MPI_INT, MPI_ANY_SOURCE, step, comm,
                     &status);
        CHECK(got[0] == from && status.MPI_SOURCE == from, "%s: %d from %d", what, got[0], from);
    }
    int sum = 0, world = rank;
    MPI_Allreduce(&world, &sum, 1, MPI_INT, MPI_SUM, comm);
    MPI_Barrier(comm);
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    MPI_Comm dup, half, reversed, cart, sub, made, inter, merged, self;
    ring(MPI_COMM_WORLD, "world");
    MPI_Comm_dup(MPI_COMM_WORLD, &dup);
    ring(dup, "dup");
    /* The same ranks and tags in two communicators do not meet. */
    int a = 1, b = 2, got = 0, to = (rank + 1) % size, from = (rank + size - 1) % size;
    MPI_Request requests[2];
    MPI_Isend(&a, 1, MPI_INT, to, 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(&b, 1, MPI_INT, to, 1, dup, &requests[1]);
    MPI_Recv(&got, 1, MPI_INT, from, 1, dup, MPI_STATUS_IGNORE);
    CHECK(got == 2);
    MPI_Recv(&got, 1, MPI_INT, from, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(got == 1);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);

    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
    ring(half, "half, reversed");
    MPI_Comm_split(MPI_COMM_WORLD, 0, size - rank, &reversed);
    ring(reversed, "reversed");
    MPI_Comm_split(MPI_COMM_WORLD, 0, rank * 7919 % 13, &made);
    ring(made, "irregular");
    int dims[2] = {0, 0}, periods[2] = {1, 1}, keep[2] = {0, 1};
    MPI_Dims_create(size, 2, dims);
    MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 1, &cart);
    ring(cart, "grid");
    MPI_Cart_sub(cart, keep, &sub);
    ring(sub, "row of the grid");
    MPI_Comm_dup(MPI_COMM_SELF, &self);
    ring(self, "self");

    if (size > 1) {
        int leader = rank % 2 ? size - 1 - (size + 1) % 2 : size - 1 - size % 2;
        MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, leader, 77, &inter);
        int theirs, remote;
        MPI_Comm_remote_size(inter, &remote);
        MPI_Comm_rank(inter, &theirs);
        for (int i = 0; i < remote; i++)
            MPI_Isend(&rank, 1, MPI_INT, i, theirs, inter, &requests[0]), MPI_Request_free(&requests[0]);
        for (int i = 0; i < remote; i++) {
            MPI_Status status;
            MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, i, inter, &status);
            CHECK(got % 2 != rank % 2 && status.MPI_SOURCE == i);
        }
        MPI_Barrier(inter);
        MPI_Intercomm_merge(inter, rank % 2, &merged);
        ring(merged, "merged");
        MPI_Comm_free(&merged);
        MPI_Comm_free(&inter);
    }
    /* Many, made and freed. */
    for (int i = 0; i < 100; i++) {
        MPI_Comm one;
        MPI_Comm_split(MPI_COMM_WORLD, (rank >> i % 3) & 1, 0, &one);
        int n = 0, one_each = 1, want;
        MPI_Comm_size(one, &want);
        MPI_Allreduce(&one_each, &n, 1, MPI_INT, MPI_SUM, one);
        CHECK(n == want);
        MPI_Comm_free(&one);
    }
    MPI_Comm *all[] = {&dup, &half, &reversed, &made, &sub, &cart, &self};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        MPI_Comm_free(all[i]);
    return finish();
}
