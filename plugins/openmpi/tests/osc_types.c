/* Accumulates of predefined types against MPI_Reduce_local, and derived types
 * against MPI_Pack and MPI_Unpack. */
#include "check.h"

enum { COUNT = 7, BYTES = 1 << 14 };
static uint64_t seed = 42;

static unsigned draw(unsigned below)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned) (seed >> 33) % below;
}

/* Numbers that are whole in every type, and 0 or 1 for logical ones. */
static void numbers(void *to, MPI_Datatype type, int who)
{
    memset(to, 0, 64 * COUNT);
    for (int i = 0; i < COUNT; i++) {
        int n = (who * 5 + i * 3) % 7 + 1;
#define AS(mpi, c) if (type == mpi) ((c *) to)[i] = (c) n
        AS(MPI_CHAR, char); AS(MPI_SIGNED_CHAR, signed char); AS(MPI_UNSIGNED_CHAR, unsigned char);
        AS(MPI_SHORT, short); AS(MPI_UNSIGNED_SHORT, unsigned short); AS(MPI_INT, int);
        AS(MPI_UNSIGNED, unsigned); AS(MPI_LONG, long); AS(MPI_UNSIGNED_LONG, unsigned long);
        AS(MPI_LONG_LONG, long long); AS(MPI_UNSIGNED_LONG_LONG, unsigned long long);
        AS(MPI_FLOAT, float); AS(MPI_DOUBLE, double); AS(MPI_LONG_DOUBLE, long double);
        AS(MPI_C_BOOL, _Bool); AS(MPI_BYTE, unsigned char); AS(MPI_INT8_T, int8_t);
        AS(MPI_UINT16_T, uint16_t); AS(MPI_INT32_T, int32_t); AS(MPI_UINT64_T, uint64_t);
        AS(MPI_AINT, MPI_Aint); AS(MPI_OFFSET, MPI_Offset); AS(MPI_COUNT, MPI_Count);
        AS(MPI_C_FLOAT_COMPLEX, float _Complex); AS(MPI_C_DOUBLE_COMPLEX, double _Complex);
        AS(MPI_C_LONG_DOUBLE_COMPLEX, long double _Complex);
#define PAIR(mpi, c) if (type == mpi) { struct { c n; int i; } *p = to; p[i].n = (c) n; p[i].i = who; }
        PAIR(MPI_FLOAT_INT, float) PAIR(MPI_DOUBLE_INT, double) PAIR(MPI_LONG_INT, long)
        PAIR(MPI_2INT, int) PAIR(MPI_SHORT_INT, short) PAIR(MPI_LONG_DOUBLE_INT, long double)
    }
}

/* Everybody to rank 0, in an order that does not matter: the sum of all. */
static void reduce(MPI_Win win, char *base, MPI_Datatype type, MPI_Op op, int fetch)
{
    MPI_Aint lb, extent;
    char mine[64 * COUNT], want[64 * COUNT], other[64 * COUNT], old[64 * COUNT];
    MPI_Type_get_extent(type, &lb, &extent);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win);
    numbers(base, type, size);
    MPI_Win_unlock(rank, win);
    MPI_Win_fence(0, win);
    numbers(mine, type, rank);
    memset(old, 0, sizeof old);
    if (fetch)
        MPI_Get_accumulate(mine, COUNT, type, old, COUNT, type, 0, 0, COUNT, type, op, win);
    else
        MPI_Accumulate(mine, COUNT, type, 0, 0, COUNT, type, op, win);
    MPI_Win_fence(0, win);
    if (rank == 0) {
        char name[MPI_MAX_OBJECT_NAME];
        int len;
        MPI_Type_get_name(type, name, &len);
        numbers(want, type, size);
        for (int r = 0; r < size; r++) {
            numbers(other, type, r);
            MPI_Reduce_local(other, want, COUNT, type, op);
        }
        /* Gaps and padding of long doubles hold anything. */
        char packed[2][64 * COUNT];
        int at[2] = {0, 0};
        MPI_Pack(want, COUNT, type, packed[0], sizeof packed[0], &at[0], world);
        MPI_Pack(base, COUNT, type, packed[1], sizeof packed[1], &at[1], world);
        int whole = at[0] / COUNT, step = whole;
        if (type == MPI_LONG_DOUBLE || type == MPI_LONG_DOUBLE_INT)
            whole = 10;
        if (type == MPI_C_LONG_DOUBLE_COMPLEX)
            whole = 10, step = 16;
        for (int i = 0; i < at[0]; i += step)
            CHECK(!memcmp(packed[0] + i, packed[1] + i, whole), "%s, %d bytes in", name, i);
    }
    MPI_Win_fence(0, win);
}

static void elements(MPI_Win win, char *base)
{
    MPI_Datatype whole[] = {MPI_CHAR, MPI_SIGNED_CHAR, MPI_UNSIGNED_CHAR, MPI_SHORT,
        MPI_UNSIGNED_SHORT, MPI_INT, MPI_UNSIGNED, MPI_LONG, MPI_UNSIGNED_LONG, MPI_LONG_LONG,
        MPI_UNSIGNED_LONG_LONG, MPI_INT8_T, MPI_UINT16_T, MPI_INT32_T, MPI_UINT64_T, MPI_AINT,
        MPI_OFFSET, MPI_COUNT};
    MPI_Op on_whole[] = {MPI_SUM, MPI_PROD, MPI_MIN, MPI_MAX, MPI_BAND, MPI_BOR, MPI_BXOR,
        MPI_LAND, MPI_LOR, MPI_LXOR};
    for (unsigned t = 1; t < sizeof whole / sizeof *whole; t++)
        for (unsigned o = 0; o < 10; o += 1 + (t + o) % 3)
            reduce(win, base, whole[t], on_whole[o], (t + o) % 2);
    MPI_Datatype real[] = {MPI_FLOAT, MPI_DOUBLE, MPI_LONG_DOUBLE};
    for (int t = 0; t < 3; t++)
        for (int o = 0; o < 4; o++)
            reduce(win, base, real[t], on_whole[o], o % 2);
    MPI_Datatype complex[] = {MPI_C_FLOAT_COMPLEX, MPI_C_DOUBLE_COMPLEX, MPI_C_LONG_DOUBLE_COMPLEX};
    for (int t = 0; t < 3; t++)
        for (int o = 0; o < 2; o++)
            reduce(win, base, complex[t], on_whole[o], o);
    MPI_Datatype pairs[] = {MPI_FLOAT_INT, MPI_DOUBLE_INT, MPI_LONG_INT, MPI_2INT, MPI_SHORT_INT,
        MPI_LONG_DOUBLE_INT};
    for (int t = 0; t < 6; t++) {
        reduce(win, base, pairs[t], MPI_MINLOC, 0);
        reduce(win, base, pairs[t], MPI_MAXLOC, 1);
    }
    reduce(win, base, MPI_C_BOOL, MPI_LXOR, 0);
    reduce(win, base, MPI_BYTE, MPI_BXOR, 1);
}

static MPI_Datatype random_type(int depth, MPI_Datatype of)
{
    MPI_Datatype inner, out;
    if (depth == 0) {
        MPI_Type_dup(of, &out);
        return out;
    }
    inner = random_type(depth - 1, of);
    MPI_Aint lb, extent;
    MPI_Type_get_extent(inner, &lb, &extent);
    switch (draw(5)) {
    case 0:
        MPI_Type_contiguous(1 + draw(3), inner, &out);
        break;
    case 1:
        MPI_Type_vector(1 + draw(3), 1 + draw(2), 2 + draw(2), inner, &out);
        break;
    case 2: {
        int places[3] = {4, 0, 2}, lengths[3] = {1, 1 + draw(2), 1};
        MPI_Type_indexed(2 + draw(2), lengths, places, inner, &out);
        break;
    }
    case 3:
        MPI_Type_create_resized(inner, lb, extent + 4 * draw(3), &out);
        break;
    default: {
        int lengths[2] = {1, 1};
        MPI_Aint places[2] = {3 * extent, 0};
        MPI_Datatype types[2] = {inner, inner};
        MPI_Type_create_struct(2, lengths, places, types, &out);
    }
    }
    MPI_Type_free(&inner);
    return out;
}

/* A random type to the right, and the same bytes back by another. */
static void derived(MPI_Win win, char *base)
{
    static char here[BYTES], back[BYTES], want[BYTES], packed[BYTES];
    for (int round = 0; round < 40; round++) {
        seed = 1000 + round;
        MPI_Datatype type = random_type(1 + round % 3, MPI_INT);
        MPI_Type_commit(&type);
        MPI_Aint lb, extent;
        int bytes, at = 0, to = (rank + 1) % size, from = (rank + size - 1) % size;
        MPI_Type_size(type, &bytes);
        MPI_Type_get_true_extent(type, &lb, &extent);
        MPI_Aint whole_lb, whole;
        MPI_Type_get_extent(type, &whole_lb, &whole);
        int count = round % 2 ? 1 : 3;
        if (count * (whole > extent ? whole : extent) + 64 > BYTES)
            count = 1;
        if (count * whole + extent + 64 > BYTES) {
            MPI_Type_free(&type);
            continue;
        }
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win);
        memset(base, 0x55, BYTES);
        MPI_Win_unlock(rank, win);
        MPI_Barrier(world);
        fill((unsigned char *) here, BYTES, rank * 100 + round);
        MPI_Win_fence(0, win);
        int ints = count * bytes / 4;
        if (round % 4 < 2)
            MPI_Put(here, ints, MPI_INT, to, 8, count, type, win);
        else
            MPI_Accumulate(here, ints, MPI_INT, to, 8, count, type, MPI_REPLACE, win);
        MPI_Win_fence(0, win);
        memset(want, 0x55, BYTES);
        fill((unsigned char *) packed, BYTES, from * 100 + round);
        MPI_Unpack(packed, count * bytes, &at, want + 8, count, type, world);
        CHECK(!memcmp(base, want, BYTES), "round %d", round);
        memset(back, 0x33, BYTES);
        if (round % 4 % 3 == 0)
            MPI_Get(back, count, type, to, 8, count, type, win);
        else
            MPI_Get_accumulate(NULL, 0, MPI_INT, back, count, type, to, 8, count, type, MPI_NO_OP,
                               win);
        MPI_Win_fence(0, win);
        memset(want, 0x33, BYTES);
        at = 0;
        MPI_Unpack(here, count * bytes, &at, want, count, type, world);
        CHECK(!memcmp(back, want, BYTES), "round %d, back", round);
        MPI_Type_free(&type);
    }
    /* Thousands of short blocks: a matrix column by column. */
    enum { N = 48 };
    MPI_Datatype column, columns;
    MPI_Type_vector(N, 1, N, MPI_INT, &column);
    MPI_Type_create_hvector(N, 1, sizeof(int), column, &columns);
    MPI_Type_commit(&columns);
    int *matrix = (int *) here, *turned = (int *) back, to = (rank + 1) % size;
    for (int i = 0; i < N * N; i++)
        matrix[i] = rank << 16 | i;
    MPI_Win_fence(0, win);
    MPI_Put(matrix, N * N, MPI_INT, to, 0, 1, columns, win);
    MPI_Win_fence(0, win);
    for (int i = 0; i < N * N; i++)
        CHECK(((int *) base)[i % N * N + i / N] == ((rank + size - 1) % size << 16 | i));
    MPI_Get(turned, N * N, MPI_INT, to, 0, 1, columns, win);
    MPI_Win_fence(0, win);
    CHECK(!memcmp(matrix, turned, N * N * sizeof(int)));
    MPI_Type_free(&column);
    MPI_Type_free(&columns);
}

int main(int argc, char **argv)
{
    static _Alignas(16) char own[BYTES];
    start(&argc, &argv);
    for (int kind = 0; kind < 2; kind++) {
        MPI_Win win;
        char *base = own;
        if (kind == 0)
            MPI_Win_allocate(BYTES, 1, MPI_INFO_NULL, world, &base, &win);
        else
            MPI_Win_create(own, BYTES, 1, MPI_INFO_NULL, world, &win);
        elements(win, base);
        derived(win, base);
        MPI_Win_free(&win);
    }
    return finish();
}
