/* Matching: wildcards, order, floods past the credit, messages to oneself,
 * sends that must wait. */
#include "check.h"

static void flood(void)
{
    /* More than a peer may have lying unread, received last to first by tag. */
    enum { MANY = 3000, LEN = 1500 };
    unsigned char *all = malloc((size_t) MANY * LEN);
    MPI_Request *requests = malloc(MANY * sizeof *requests);
    if (rank == 0) {
        for (int i = 0; i < MANY; i++) {
            fill(all + (size_t) i * LEN, LEN, i);
            MPI_Isend(all + (size_t) i * LEN, LEN, MPI_BYTE, 1, i, MPI_COMM_WORLD, &requests[i]);
        }
        MPI_Waitall(MANY, requests, MPI_STATUSES_IGNORE);
    } else if (rank == 1) {
        for (int i = MANY - 1; i >= 0; i--) {
            unsigned char *at = all + (size_t) i * LEN;
            MPI_Recv(at, LEN, MPI_BYTE, 0, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            CHECK(differs(at, LEN, i) == LEN, "message %d", i);
        }
    }
    free(requests);
    free(all);
}

static void wildcards(void)
{
    enum { EACH = 200 };
    if (rank == 0) {
        int next[64] = {0};
        for (int i = 0; i < EACH * (size - 1); i++) {
            int got[2];
            MPI_Status status;
            MPI_Recv(got, 2, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
            int from = status.MPI_SOURCE;
            CHECK(got[0] == from && got[1] == next[from], "from %d: %d", from, got[1]);
            CHECK(status.MPI_TAG == got[1] % 7);
            next[from]++;
        }
    } else {
        for (int i = 0; i < EACH; i++) {
            int what[2] = {rank, i};
            MPI_Send(what, 2, MPI_INT, 0, i % 7, MPI_COMM_WORLD);
        }
    }
}

/* A receive of any tag posted before a collective does not take its messages. */
static void negative_tags(void)
{
    MPI_Request request;
    int got = -1, sum, one = 1;
    MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &request);
    for (int i = 0; i < 20; i++) {
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        CHECK(sum == size);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    int to = (rank + 1) % size, tag = 5;
    MPI_Send(&rank, 1, MPI_INT, to, tag, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(got == (rank + size - 1) % size);
}

static void oneself(void)
{
    static unsigned char out[200000], in[200000];
    MPI_Request requests[2];
    fill(out, sizeof out, rank);
    MPI_Isend(out, sizeof out, MPI_BYTE, rank, 3, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(in, sizeof in, MPI_BYTE, MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    CHECK(differs(in, sizeof in, rank) == sizeof in);
    memset(in, 0, sizeof in);
    MPI_Irecv(in, sizeof in, MPI_BYTE, 0, 4, MPI_COMM_SELF, &requests[0]);
    MPI_Cancel(&requests[0]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPI_Sendrecv(out, 10, MPI_BYTE, 0, 9, in, 10, MPI_BYTE, 0, 9, MPI_COMM_SELF, MPI_STATUS_IGNORE);
    CHECK(differs(in, 10, rank) == 10);
}

/* A synchronous send does not end before its receive. */
static void synchronous(void)
{
    MPI_Request request;
    int flag = 0, value = rank;
    if (rank == 0) {
        MPI_Issend(&value, 1, MPI_INT, 1, 8, MPI_COMM_WORLD, &request);
        for (int i = 0; i < 2000 && !flag; i++)
            MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
        CHECK(!flag);
        MPI_Send(NULL, 0, MPI_INT, 1, 9, MPI_COMM_WORLD);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else if (rank == 1) {
        MPI_Recv(NULL, 0, MPI_INT, 0, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Recv(&value, 1, MPI_INT, 0, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK(value == 0);
    }
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    if (size > 1) {
        flood();
        wildcards();
        MPI_Barrier(MPI_COMM_WORLD);
        negative_tags();
        synchronous();
    }
    oneself();
    return finish();
}
