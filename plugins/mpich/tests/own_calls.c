/* MPI_Put, MPI_Get, MPI_Isend, MPI_Send and MPI_Irecv, which are not MPICH's own where they are simple:
 * by many windows and communicators (the handles of later ones are of another kind), with types of all
 * lengths; and what is wrong with their arguments is told as by their PMPI names. */
#include "../../openmpi/tests/check.h"

enum { WINDOWS = 20, BYTES = 4096 };

static MPI_Win wins[WINDOWS];
static unsigned char *memories[WINDOWS];

/* Every second one is of the program's memory. */
static void make_all(void)
{
    for (int i = 0; i < WINDOWS; i++) {
        if (i % 2) {
            memories[i] = malloc(BYTES);
            MPI_Win_create(memories[i], BYTES, 1, MPI_INFO_NULL, world, &wins[i]);
        } else {
            MPI_Win_allocate(BYTES, 1, MPI_INFO_NULL, world, &memories[i], &wins[i]);
        }
        memset(memories[i], 0, BYTES);
        MPI_Win_set_errhandler(wins[i], MPI_ERRORS_RETURN);
    }
    MPI_Barrier(world);
}

static void free_all(void)
{
    for (int i = 0; i < WINDOWS; i++) {
        MPI_Win_free(&wins[i]);
        if (i % 2)
            free(memories[i]);
    }
}

/* Where the bytes of a rank begin in everybody's memory. */
static size_t part(int of)
{
    return (size_t) of * (BYTES / (size_t) size);
}

static const struct { MPI_Datatype type; int count; size_t bytes; } shapes[] = {
    {MPI_LONG, 1, 8}, {MPI_DOUBLE, 1, 8}, {MPI_INT64_T, 1, 8}, {MPI_AINT, 1, 8}, {MPI_BYTE, 8, 8},
    {MPI_INT, 1, 4}, {MPI_INT, 3, 12}, {MPI_DOUBLE, 100, 800}, {MPI_BYTE, 1, 1}, {MPI_BYTE, 0, 0},
    {MPI_LONG_DOUBLE, 1, 16}, {MPI_2INT, 1, 8}, {MPI_SHORT, 7, 14}
};

/* Each rank to its part of the next one's memory. */
static void all_lengths(void)
{
    const int next = (rank + 1) % size, before = (rank + size - 1) % size;
    unsigned char bytes[BYTES], back[BYTES];
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++)
        for (int i = 0; i < WINDOWS; i++) {
            uint64_t seed = k << 32 | (uint64_t) i << 16;
            fill(bytes, shapes[k].bytes, seed + (uint64_t) rank);
            memset(back, 0, sizeof back);
            MPI_Win_lock_all(0, wins[i]);
            CHECK(MPI_Put(bytes, shapes[k].count, shapes[k].type, next, (MPI_Aint) part(rank), shapes[k].count,
                          shapes[k].type, wins[i]) == MPI_SUCCESS);
            MPI_Win_flush(next, wins[i]);
            CHECK(MPI_Get(back, shapes[k].count, shapes[k].type, next, (MPI_Aint) part(rank), shapes[k].count,
                          shapes[k].type, wins[i]) == MPI_SUCCESS);
            MPI_Win_unlock_all(wins[i]);
            CHECK(differs(back, shapes[k].bytes, seed + (uint64_t) rank) == shapes[k].bytes,
                  "put %zu, window %d", k, i);
            MPI_Barrier(world);
            MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, wins[i]);
            CHECK(differs(memories[i] + part(before), shapes[k].bytes, seed + (uint64_t) before) ==
                  shapes[k].bytes, "put %zu, window %d, at the target", k, i);
            MPI_Win_unlock(rank, wins[i]);
            MPI_Barrier(world);
        }
}

/* Round a ring of every communicator: the world and its reverse, their halves, duplicates of
 * all, and what is of one process. */
static void all_communicators(void)
{
    enum { MADE = 24 };
    MPI_Comm comms[MADE + 2] = {MPI_COMM_WORLD, MPI_COMM_SELF};
    for (int i = 2; i < MADE + 2; i++)
        switch (i % 4) {
        case 0: MPI_Comm_dup(comms[i - 2], &comms[i]); break;
        case 1: MPI_Comm_split(comms[0], 0, (rank * 7 + i) % size * -1, &comms[i]); break;
        case 2: MPI_Comm_split(comms[0], rank % 2, rank, &comms[i]); break;
        default: MPI_Comm_split(comms[0], rank, 0, &comms[i]);
        }
    unsigned char bytes[BYTES], in[BYTES];
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++)
        for (int i = 0; i < MADE + 2; i++)
            for (int how = 0; how < 4; how++) {
                int me, ranks;
                MPI_Comm_rank(comms[i], &me);
                MPI_Comm_size(comms[i], &ranks);
                const int next = (me + 1) % ranks, before = (me + ranks - 1) % ranks;
                const uint64_t seed = k << 32 | (uint64_t) (i * 4 + how) << 16;
                MPI_Request requests[2];
                MPI_Status status[2];
                fill(bytes, shapes[k].bytes, seed + (uint64_t) me);
                memset(in, 0, sizeof in);
                MPI_Irecv(in, shapes[k].count, shapes[k].type, how % 2 ? MPI_ANY_SOURCE : before,
                          how / 2 ? MPI_ANY_TAG : i, comms[i], &requests[0]);
                if (how == 3) {
                    MPI_Send(bytes, shapes[k].count, shapes[k].type, next, i, comms[i]);
                    requests[1] = MPI_REQUEST_NULL;
                } else {
                    MPI_Isend(bytes, shapes[k].count, shapes[k].type, next, i, comms[i], &requests[1]);
                }
                MPI_Waitall(2, requests, status);
                int length;
                MPI_Get_count(&status[0], MPI_BYTE, &length);
                CHECK(differs(in, shapes[k].bytes, seed + (uint64_t) before) == shapes[k].bytes,
                      "message %zu, communicator %d, %d", k, i, how);
                CHECK(status[0].MPI_SOURCE == before && status[0].MPI_TAG == i &&
                      length == (int) shapes[k].bytes);
            }
    for (int i = 2; i < MADE + 2; i++)
        MPI_Comm_free(&comms[i]);
}

static int class_of(int code)
{
    int class;
    MPI_Error_class(code, &class);
    return class;
}

/* `open`: whether an epoch is. */
static void wrong_arguments(MPI_Win win, int open)
{
    long value[2] = {0, 0};
    const MPI_Aint last = BYTES - 8;
    const struct {
        void *buf;
        int count;
        MPI_Datatype type;
        int to;
        MPI_Aint disp;
        int there;
        MPI_Datatype type_there;
        int class;
    } all[] = {
        {value, 1, MPI_LONG, 0, last, 1, MPI_LONG, MPI_SUCCESS},
        {value, 1, MPI_LONG, MPI_PROC_NULL, 0, 1, MPI_LONG, MPI_SUCCESS},
        {value, 1, MPI_LONG, size, 0, 1, MPI_LONG, MPI_ERR_RANK},
        {value, 1, MPI_LONG, -7, 0, 1, MPI_LONG, MPI_ERR_RANK},
        {value, 1, MPI_LONG, 0, last + 1, 1, MPI_LONG, MPI_ERR_RMA_RANGE},
        {value, 2, MPI_LONG, 0, last, 2, MPI_LONG, MPI_ERR_RMA_RANGE},
        {value, 1, MPI_LONG, 0, -1, 1, MPI_LONG, MPI_ERR_DISP},
        {value, 1, MPI_LONG, 0, INTPTR_MAX, 1, MPI_LONG, MPI_ERR_RMA_RANGE},
        {value, 2, MPI_INT, 0, INTPTR_MAX - 3, 2, MPI_INT, MPI_ERR_RMA_RANGE},
        {NULL, 1, MPI_LONG, 0, 0, 1, MPI_LONG, MPI_ERR_BUFFER},
        {NULL, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_ERR_BUFFER},
        {value, -1, MPI_LONG, 0, 0, -1, MPI_LONG, MPI_ERR_COUNT},
        {value, 1, MPI_LONG, 0, 0, -1, MPI_LONG, MPI_ERR_COUNT},
        {value, 1, MPI_DATATYPE_NULL, 0, 0, 1, MPI_DATATYPE_NULL, MPI_ERR_TYPE},
        {value, 1, (MPI_Datatype) MPI_COMM_WORLD, 0, 0, 1, (MPI_Datatype) MPI_COMM_WORLD, MPI_ERR_TYPE},
        {value, 1, (MPI_Datatype) MPI_SUM, 0, 0, 1, (MPI_Datatype) MPI_SUM, MPI_ERR_TYPE},
    };
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        int class = all[k].class;
        /* (What MPICH looks at itself comes first.) */
        if (!open && (class == MPI_ERR_RMA_RANGE || (class == MPI_SUCCESS && all[k].to >= 0)))
            class = MPI_ERR_RMA_SYNC;
#define CALLED(call) class_of(call(all[k].buf, all[k].count, all[k].type, all[k].to, all[k].disp,           \
                                   all[k].there, all[k].type_there, win))
        int put = CALLED(MPI_Put), put_real = CALLED(PMPI_Put), get = CALLED(MPI_Get),
            get_real = CALLED(PMPI_Get);
        CHECK(put == class && put_real == class && get == class && get_real == class,
              "arguments %zu, %s: %d, %d, %d, %d for %d", k, open ? "open" : "closed", put, put_real, get,
              get_real, class);
    }
}

static void wrong_messages(MPI_Comm comm)
{
    long value = 0;
    MPI_Request request, *none = NULL;
    const int ours = 0;
    int *most, found;
    MPI_Comm_get_attr(comm, MPI_TAG_UB, &most, &found);
    CHECK(found);
    const struct {
        void *buf;
        int count;
        MPI_Datatype type;
        int to, tag;
        MPI_Comm comm;
        MPI_Request *request;
        int class;
    } all[] = {
        {&value, 1, MPI_LONG, 99, 0, comm, &request, MPI_ERR_RANK},
        {&value, 1, MPI_LONG, -7, 0, comm, &request, MPI_ERR_RANK},
        {&value, 1, MPI_LONG, ours, -7, comm, &request, MPI_ERR_TAG},
        {&value, 1, MPI_LONG, ours, *most + 1, comm, &request, MPI_ERR_TAG},
        {&value, 1, MPI_LONG, ours, 1 << 29, comm, &request, MPI_ERR_TAG},
        {&value, 1, MPI_LONG, ours, INT32_MAX, comm, &request, MPI_ERR_TAG},
        {NULL, 1, MPI_LONG, ours, 0, comm, &request, MPI_ERR_BUFFER},
        {&value, -1, MPI_LONG, ours, 0, comm, &request, MPI_ERR_COUNT},
        {&value, 1, MPI_DATATYPE_NULL, ours, 0, comm, &request, MPI_ERR_TYPE},
        {&value, 1, (MPI_Datatype) MPI_COMM_WORLD, ours, 0, comm, &request, MPI_ERR_TYPE},
        {&value, 1, MPI_LONG, ours, 0, MPI_COMM_NULL, &request, MPI_ERR_COMM},
        {&value, 1, MPI_LONG, ours, 0, (MPI_Comm) MPI_LONG, &request, MPI_ERR_COMM},
        {&value, 1, MPI_LONG, ours, 0, comm, none, MPI_ERR_ARG},
    };
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
#define SAID(call) class_of(call(all[k].buf, all[k].count, all[k].type, all[k].to, all[k].tag, all[k].comm,  \
                                 all[k].request))
        CHECK(SAID(MPI_Isend) == all[k].class && SAID(PMPI_Isend) == all[k].class, "message %zu: %d", k,
              SAID(MPI_Isend));
        CHECK(SAID(MPI_Irecv) == all[k].class && SAID(PMPI_Irecv) == all[k].class, "message %zu: %d", k,
              SAID(MPI_Irecv));
        if (all[k].request)
            CHECK(class_of(MPI_Send(all[k].buf, all[k].count, all[k].type, all[k].to, all[k].tag,
                                    all[k].comm)) == all[k].class);
    }
    MPI_Isend(&value, 1, MPI_LONG, MPI_PROC_NULL, 0, comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Irecv(&value, 1, MPI_LONG, MPI_PROC_NULL, 0, comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(MPI_Send(&value, 1, MPI_LONG, MPI_PROC_NULL, 0, comm) == MPI_SUCCESS);
}

/* What is said of a message that its receive has no space for. (To oneself it is MPICH's own text.) */
static void a_message_that_is_cut(void)
{
    char out[40] = "", in[10], text[MPI_MAX_ERROR_STRING];
    int length;
    if (rank == 1)
        MPI_Send(out, sizeof out, MPI_CHAR, 0, 7, MPI_COMM_WORLD);
    if (rank != 0)
        return;
    int error = MPI_Recv(in, sizeof in, MPI_CHAR, 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(class_of(error) == MPI_ERR_TRUNCATE);
    MPI_Error_string(error, text, &length);
    CHECK(strstr(text, "40 bytes received but buffer size is 10"), "%s", text);
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    CHECK(MPI_Put != PMPI_Put && MPI_Get != PMPI_Get);
    CHECK(MPI_Isend != PMPI_Isend && MPI_Send != PMPI_Send && MPI_Irecv != PMPI_Irecv);
    all_communicators();
    make_all();
    all_lengths();
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    wrong_messages(MPI_COMM_WORLD);
    wrong_messages(MPI_COMM_SELF);
    a_message_that_is_cut();
    for (int i = 0; i < WINDOWS; i++) {
        wrong_arguments(wins[i], 0);
        MPI_Win_lock_all(0, wins[i]);
        wrong_arguments(wins[i], 1);
        MPI_Win_unlock_all(wins[i]);
        wrong_arguments(wins[i], 0);
    }
    long value = 0;
    for (int wrong = 0; wrong < 3; wrong++) {
        MPI_Win none = wrong == 0 ? MPI_WIN_NULL : wrong == 1 ? (MPI_Win) MPI_COMM_WORLD : (MPI_Win) 0xe3fff000;
        CHECK(class_of(MPI_Put(&value, 1, MPI_LONG, 0, 0, 1, MPI_LONG, none)) == MPI_ERR_WIN, "%d", wrong);
        CHECK(class_of(MPI_Get(&value, 1, MPI_LONG, 0, 0, 1, MPI_LONG, none)) == MPI_ERR_WIN, "%d", wrong);
    }
    MPI_Barrier(world);
    free_all();
    /* Their places are taken again. */
    make_all();
    wrong_arguments(wins[WINDOWS - 1], 0);
    wrong_arguments(wins[0], 0);
    free_all();
    return finish();
}
