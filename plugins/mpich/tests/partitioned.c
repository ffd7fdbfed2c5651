/* Partitioned messages between all ranks and with oneself: pairs under one tag that are started in
 * another order than they were made in, rounds, lengths, datatypes, communicators that come again,
 * one that is shorter than its receive, and those without a partition. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAIRS = 3, ROUNDS = 4, PARTS = 6 };
static int rank, ranks, faults;

static void fault(const char *what, long is, long should)
{
    printf("rank %d: %s: %ld, not %ld\n", rank, what, is, should);
    faults++;
}

static long value(int from, int to, int pair, int round, int i)
{
    return ((((long) from * 100 + to) * 10 + pair) * 10 + round) * 1000000 + i;
}

/* In parts, or every second of a buffer. */
static MPI_Datatype spread;

/* Between this process and `other`, so many longs a part. */
static void pairs_with(int other, int count, MPI_Datatype type, MPI_Comm comm)
{
    int all = count * PARTS, step = type == spread ? 2 : 1, me;
    MPI_Request requests[2 * PAIRS];
    MPI_Status statuses[2 * PAIRS];
    long *out[PAIRS], *in[PAIRS];
    MPI_Comm_rank(comm, &me);
    for (int pair = 0; pair < PAIRS; pair++) {
        out[pair] = malloc((all * step + 1) * sizeof(long));
        in[pair] = malloc((all * step + 1) * sizeof(long));
        MPI_Psend_init(out[pair], PARTS, count, type, other, 7, comm, MPI_INFO_NULL,
                       &requests[pair]);
        MPI_Precv_init(in[pair], PARTS, count, type, other, 7, comm, MPI_INFO_NULL,
                       &requests[PAIRS + pair]);
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (int pair = 0; pair < PAIRS; pair++) {
            memset(in[pair], 0, (all * step + 1) * sizeof(long));
            for (int i = 0; i < all; i++)
                out[pair][i * step] = value(me, other, pair, round, i);
        }
        /* (What is made last begins first, here alone; who is lower begins to receive late.) */
        for (int i = 0; i < 2 * PAIRS; i++)
            MPI_Start(&requests[me < other ? i : 2 * PAIRS - 1 - i]);
        for (int i = 0; i < PAIRS; i++) {
            int pair = me < other ? i : PAIRS - 1 - i;
            int some[] = { 5, 1, 3 };
            MPI_Pready_list(3, some, requests[pair]);
            MPI_Pready(0, requests[pair]);
            MPI_Pready(4, requests[pair]);
            MPI_Pready_range(2, 2, requests[pair]);
        }
        int flag = 0;
        while (!flag)
            MPI_Parrived(requests[2 * PAIRS - 1], PARTS - 1, &flag);
        MPI_Waitall(2 * PAIRS, requests, statuses);
        for (int pair = 0; pair < PAIRS; pair++) {
            MPI_Status *status = &statuses[PAIRS + pair];
            int got;
            MPI_Get_count(status, MPI_LONG, &got);
            if (got != all)
                fault("a count", got, all);
            if (status->MPI_SOURCE != other || status->MPI_TAG != 7)
                fault("a source and tag", status->MPI_SOURCE, other);
            for (int i = 0; i < all * step; i++) {
                long should = i % step ? 0 : value(other, me, pair, round, i / step);
                if (in[pair][i] != should)
                    return fault("an element", in[pair][i], should);
            }
        }
    }
    for (int i = 0; i < 2 * PAIRS; i++)
        MPI_Request_free(&requests[i]);
    for (int pair = 0; pair < PAIRS; pair++) {
        free(out[pair]);
        free(in[pair]);
    }
}

/* One of another length than its receive is told, and what follows is whole. */
static void unequal(MPI_Comm comm)
{
    int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    for (int sent = 1; sent <= 3; sent++) {
        MPI_Request requests[2];
        long out[3] = { 1, 2, 3 }, in[2];
        MPI_Psend_init(out, 1, sent, MPI_LONG, next, 8, comm, MPI_INFO_NULL, &requests[0]);
        MPI_Precv_init(in, 1, 2, MPI_LONG, before, 8, comm, MPI_INFO_NULL, &requests[1]);
        for (int round = 0; round < 2; round++) {
            MPI_Startall(2, requests);
            MPI_Pready(0, requests[0]);
            int code = MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
            if ((code == MPI_SUCCESS) != (sent == 2))
                fault("a message of another length", code, sent);
            if (MPI_Wait(&requests[0], MPI_STATUS_IGNORE) != MPI_SUCCESS)
                fault("its send", 0, sent);
        }
        MPI_Request_free(&requests[0]);
        MPI_Request_free(&requests[1]);
    }
}

/* Nobody: done at once, with nothing received. */
static void nobody(void)
{
    MPI_Request requests[2];
    MPI_Status statuses[2];
    long one = 1, got = 2;
    int count;
    MPI_Psend_init(&one, 1, 1, MPI_LONG, MPI_PROC_NULL, 8, MPI_COMM_WORLD, MPI_INFO_NULL,
                   &requests[0]);
    MPI_Precv_init(&got, 1, 1, MPI_LONG, MPI_PROC_NULL, 8, MPI_COMM_WORLD, MPI_INFO_NULL,
                   &requests[1]);
    for (int round = 0; round < 2; round++) {
        MPI_Startall(2, requests);
        MPI_Pready(0, requests[0]);
        MPI_Waitall(2, requests, statuses);
        MPI_Get_count(&statuses[1], MPI_LONG, &count);
        if (got != 2 || count != 0 || statuses[1].MPI_SOURCE != MPI_PROC_NULL)
            fault("of nobody", got, 2);
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
}

/* As many partitions, down to none, which MPICH takes of no elements; all are tested at once. */
static void tested(MPI_Comm comm)
{
    int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    for (int parts = 2; parts >= 0; parts--) {
        MPI_Request requests[2];
        MPI_Status statuses[2];
        long out[2] = { rank, rank }, in[2] = { -1, -1 };
        MPI_Psend_init(out, parts, parts > 0, MPI_LONG, next, 9, comm, MPI_INFO_NULL, &requests[0]);
        MPI_Precv_init(in, parts, parts > 0, MPI_LONG, before, 9, comm, MPI_INFO_NULL, &requests[1]);
        for (int round = 0; round < 2; round++) {
            int done = 0, got;
            MPI_Startall(2, requests);
            for (int part = 0; part < parts; part++)
                MPI_Pready(part, requests[0]);
            while (!done)
                if (MPI_Testall(2, requests, &done, statuses) != MPI_SUCCESS)
                    return fault("a test of partitions", 1, 0);
            MPI_Get_count(&statuses[1], MPI_LONG, &got);
            if (got != parts)
                fault("a count of partitions", got, parts);
            for (int part = 0; part < 2; part++)
                if (in[part] != (part < parts ? before : -1))
                    fault("a partition", in[part], before);
        }
        MPI_Request_free(&requests[0]);
        MPI_Request_free(&requests[1]);
    }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Type_create_resized(MPI_LONG, 0, 2 * sizeof(long), &spread);
    MPI_Type_commit(&spread);
    pairs_with(0, 5, MPI_LONG, MPI_COMM_SELF);
    nobody();
    for (int again = 0; again < 3; again++) {
        MPI_Comm comm;
        MPI_Request unmatched;
        long one = 1;
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
        for (int distance = 0; distance < ranks; distance++) {
            int other = (2 * ranks + distance - rank) % ranks;
            pairs_with(other, 0, MPI_LONG, comm);
            pairs_with(other, 1, MPI_LONG, comm);
            pairs_with(other, 700, spread, comm);
            pairs_with(other, 20000, MPI_LONG, comm);
        }
        unequal(comm);
        tested(comm);
        /* (Nobody receives it; it is never started.) */
        MPI_Psend_init(&one, 1, 1, MPI_LONG, 0, 7, comm, MPI_INFO_NULL, &unmatched);
        MPI_Request_free(&unmatched);
        MPI_Comm_free(&comm);
    }
    MPI_Type_free(&spread);
    MPI_Finalize();
    if (!faults && rank == 0)
        puts("ok");
    return faults != 0;
}
