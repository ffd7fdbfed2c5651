/* Requests and their communicator: its error handler is theirs, it goes when the last of them ends, not
 * before and not later, and what is left to receive on one that was freed takes nothing of the next.
 * Persistent collectives are tested together. */
#include "../../openmpi/tests/check.h"

enum { LONG = 1 << 20 };
static int gone, keyval;
static unsigned char out[LONG], in[LONG];

static int goes(MPI_Comm comm, int key, void *value, void *extra)
{
    (void) comm, (void) key, (void) value, (void) extra;
    gone++;
    return MPI_SUCCESS;
}

/* One that tells when it goes, and whose errors are returned, as those of `world` are not. */
static MPI_Comm made(void)
{
    MPI_Comm comm;
    MPI_Comm_dup(world, &comm);
    MPI_Comm_set_attr(comm, keyval, NULL);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    gone = 0;
    return comm;
}

static int class_of(int code)
{
    int class;
    MPI_Error_class(code, &class);
    return class;
}

/* What is longer than its receive, by each call that waits for one. */
static void errors(int next, int before)
{
    MPI_Comm comm = made();
    for (int is_long = 0; is_long < 2; is_long++) {
        MPI_Request send, receive;
        int code, done = 0, length = is_long ? LONG : 2;
        MPI_Isend(out, length, MPI_BYTE, next, 1, comm, &send);
        MPI_Irecv(in, 1, MPI_BYTE, before, 1, comm, &receive);
        code = MPI_Wait(&receive, MPI_STATUS_IGNORE);
        CHECK(class_of(code) == MPI_ERR_TRUNCATE, "%d", code);
        MPI_Wait(&send, MPI_STATUS_IGNORE);

        MPI_Issend(out, length, MPI_BYTE, next, 1, comm, &send);
        MPI_Irecv(in, 1, MPI_BYTE, MPI_ANY_SOURCE, 1, comm, &receive);
        while (!done)
            code = MPI_Test(&receive, &done, MPI_STATUS_IGNORE);
        CHECK(class_of(code) == MPI_ERR_TRUNCATE, "%d", code);
        MPI_Wait(&send, MPI_STATUS_IGNORE);

        MPI_Message message;
        MPI_Isend(out, length, MPI_BYTE, next, 1, comm, &send);
        MPI_Mprobe(before, 1, comm, &message, MPI_STATUS_IGNORE);
        MPI_Imrecv(in, 1, MPI_BYTE, &message, &receive);
        code = MPI_Wait(&receive, MPI_STATUS_IGNORE);
        CHECK(class_of(code) == MPI_ERR_TRUNCATE, "%d", code);
        MPI_Wait(&send, MPI_STATUS_IGNORE);
    }
    MPI_Comm_free(&comm);
    CHECK(gone == 1, "%d", gone);
}

/* Ended, cancelled, freed before their end, persistent: none of them keeps the communicator. */
static void ends(int next, int before)
{
    static char space[LONG + MPI_BSEND_OVERHEAD];
    MPI_Comm comm = made();
    MPI_Request requests[4];
    MPI_Message message;
    MPI_Isend(out, LONG, MPI_BYTE, next, 2, comm, &requests[0]);
    MPI_Issend(out, 1, MPI_BYTE, next, 3, comm, &requests[1]);
    MPI_Recv(in, LONG, MPI_BYTE, before, 2, comm, MPI_STATUS_IGNORE);
    MPI_Mprobe(before, 3, comm, &message, MPI_STATUS_IGNORE);
    MPI_Mrecv(in, LONG, MPI_BYTE, &message, MPI_STATUS_IGNORE);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);

    MPI_Irecv(in, 1, MPI_BYTE, before, 4, comm, &requests[0]);
    MPI_Cancel(&requests[0]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);

    MPI_Irecv(in, LONG, MPI_BYTE, before, 5, comm, &requests[0]);
    MPI_Request_free(&requests[0]);
    MPI_Send(out, LONG, MPI_BYTE, next, 5, comm);
    MPI_Barrier(comm);

    MPI_Send_init(out, LONG, MPI_BYTE, next, 6, comm, &requests[0]);
    MPI_Recv_init(in, LONG, MPI_BYTE, before, 6, comm, &requests[1]);
    MPI_Psend_init(out, 2, LONG / 2, MPI_BYTE, next, 7, comm, MPI_INFO_NULL, &requests[2]);
    MPI_Precv_init(in, 2, LONG / 2, MPI_BYTE, before, 7, comm, MPI_INFO_NULL, &requests[3]);
    for (int round = 0; round < 2; round++) {
        MPI_Startall(2, requests);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        MPI_Startall(2, requests + 2);
        MPI_Pready_range(0, 1, requests[2]);
        MPI_Waitall(2, requests + 2, MPI_STATUSES_IGNORE);
    }
    for (int i = 0; i < 4; i++)
        MPI_Request_free(&requests[i]);

    MPI_Buffer_attach(space, sizeof space);
    MPI_Irecv(in, LONG, MPI_BYTE, before, 8, comm, &requests[0]);
    MPI_Bsend(out, LONG, MPI_BYTE, next, 8, comm);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPI_Comm_free(&comm);
    CHECK(gone == 1, "%d", gone);
    void *detached;
    int bytes;
    MPI_Buffer_detach(&detached, &bytes);
}

/* What is left to receive on one that was freed. */
static void freed(int next, int before)
{
    MPI_Comm first = made(), second;
    MPI_Request receives[2], send;
    int which, cancelled, got[2] = { -1, -1 };
    MPI_Status status;
    MPI_Irecv(&got[0], 1, MPI_INT, MPI_ANY_SOURCE, 9, first, &receives[0]);
    MPI_Comm_free(&first);
    MPI_Comm_dup(world, &second);
    MPI_Irecv(&got[1], 1, MPI_INT, MPI_ANY_SOURCE, 9, second, &receives[1]);
    MPI_Isend(&rank, 1, MPI_INT, next, 9, second, &send);
    MPI_Waitany(2, receives, &which, MPI_STATUS_IGNORE);
    CHECK(which == 1 && got[1] == before, "%d: %d, %d", which, got[0], got[1]);
    MPI_Wait(&send, MPI_STATUS_IGNORE);
    MPI_Cancel(&receives[0]);
    MPI_Wait(&receives[0], &status);
    MPI_Test_cancelled(&status, &cancelled);
    CHECK(cancelled && gone == 1, "%d, %d", cancelled, gone);
    MPI_Comm_free(&second);
}

/* A collective that fails keeps none of its requests, nor the communicator. */
static void collective(void)
{
    enum { MOST = 64 };
    MPI_Comm comm = made();
    static int into[2 * MOST], counts[MOST], places[MOST];
    int own[2] = { rank, rank }, code;
    for (int i = 0; i < size; i++)
        counts[i] = 1, places[i] = 2 * i;
    code = MPI_Gatherv(own, rank == 1 ? 2 : 1, MPI_INT, into, counts, places, MPI_INT, 0, comm);
    CHECK(rank != 0 || size == 1 || code != MPI_SUCCESS, "%d", code);
    MPI_Barrier(world);
    MPI_Comm_disconnect(&comm);
    CHECK(gone == 1, "%d", gone);
}

static void persistent(void)
{
    MPI_Request requests[2];
    MPI_Status statuses[2];
    int sum, done;
    MPI_Barrier_init(world, MPI_INFO_NULL, &requests[0]);
    MPI_Allreduce_init(&rank, &sum, 1, MPI_INT, MPI_SUM, world, MPI_INFO_NULL, &requests[1]);
    for (int round = 0; round < 2; round++) {
        sum = -1;
        MPI_Startall(2, requests);
        for (done = 0; !done;)
            MPI_Testall(2, requests, &done, statuses);
        CHECK(sum == size * (size - 1) / 2, "%d", sum);
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    int next = (rank + 1) % size, before = (rank + size - 1) % size;
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, goes, &keyval, NULL);
    errors(next, before);
    ends(next, before);
    freed(next, before);
    collective();
    persistent();
    MPI_Comm_free_keyval(&keyval);
    return finish();
}
