/* MPI_Put and MPI_Get, which are not MPICH's own where they are simple, by many windows (the handles
 * of later ones are of another kind), with types of all lengths; and what is wrong with their
 * arguments is told as PMPI_Put and PMPI_Get tell it. */
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

/* Each rank to its part of the next one's memory. */
static void all_lengths(void)
{
    static const struct { MPI_Datatype type; int count; size_t bytes; } puts[] = {
        {MPI_LONG, 1, 8}, {MPI_DOUBLE, 1, 8}, {MPI_INT64_T, 1, 8}, {MPI_AINT, 1, 8}, {MPI_BYTE, 8, 8},
        {MPI_INT, 1, 4}, {MPI_INT, 3, 12}, {MPI_DOUBLE, 100, 800}, {MPI_BYTE, 1, 1}, {MPI_BYTE, 0, 0},
        {MPI_LONG_DOUBLE, 1, 16}, {MPI_2INT, 1, 8}, {MPI_SHORT, 7, 14}
    };
    const int next = (rank + 1) % size, before = (rank + size - 1) % size;
    unsigned char bytes[BYTES], back[BYTES];
    for (size_t k = 0; k < sizeof puts / sizeof *puts; k++)
        for (int i = 0; i < WINDOWS; i++) {
            uint64_t seed = k << 32 | (uint64_t) i << 16;
            fill(bytes, puts[k].bytes, seed + (uint64_t) rank);
            memset(back, 0, sizeof back);
            MPI_Win_lock_all(0, wins[i]);
            CHECK(MPI_Put(bytes, puts[k].count, puts[k].type, next, (MPI_Aint) part(rank), puts[k].count,
                          puts[k].type, wins[i]) == MPI_SUCCESS);
            MPI_Win_flush(next, wins[i]);
            CHECK(MPI_Get(back, puts[k].count, puts[k].type, next, (MPI_Aint) part(rank), puts[k].count,
                          puts[k].type, wins[i]) == MPI_SUCCESS);
            MPI_Win_unlock_all(wins[i]);
            CHECK(differs(back, puts[k].bytes, seed + (uint64_t) rank) == puts[k].bytes,
                  "put %zu, window %d", k, i);
            MPI_Barrier(world);
            MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, wins[i]);
            CHECK(differs(memories[i] + part(before), puts[k].bytes, seed + (uint64_t) before) ==
                  puts[k].bytes, "put %zu, window %d, at the target", k, i);
            MPI_Win_unlock(rank, wins[i]);
            MPI_Barrier(world);
        }
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

int main(int argc, char **argv)
{
    start(&argc, &argv);
    CHECK(MPI_Put != PMPI_Put && MPI_Get != PMPI_Get);
    make_all();
    all_lengths();
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
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
