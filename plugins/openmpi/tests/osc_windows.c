/* Windows of all four kinds: put and get of contiguous and derived types, every
 * kind of epoch, requests, attributes, queries. */
#include "check.h"

enum { SLOTS = 256 };
static long own[SLOTS];
static MPI_Aint addresses[64];
static int dynamic;

/* The displacement of a slot at a target. */
static MPI_Aint at(int target, int slot)
{
    return dynamic ? addresses[target] + slot * (MPI_Aint) sizeof(long) : slot;
}

static void attributes(MPI_Win win, long *base, MPI_Aint bytes, int flavor)
{
    void *value;
    int flag;
    MPI_Win_get_attr(win, MPI_WIN_CREATE_FLAVOR, &value, &flag);
    CHECK(flag && *(int *) value == flavor);
    MPI_Win_get_attr(win, MPI_WIN_MODEL, &value, &flag);
    CHECK(flag && *(int *) value == MPI_WIN_UNIFIED);
    if (flavor == MPI_WIN_FLAVOR_DYNAMIC)
        return;
    MPI_Win_get_attr(win, MPI_WIN_BASE, &value, &flag);
    CHECK(flag && value == base);
    MPI_Win_get_attr(win, MPI_WIN_SIZE, &value, &flag);
    CHECK(flag && *(MPI_Aint *) value == bytes);
    MPI_Win_get_attr(win, MPI_WIN_DISP_UNIT, &value, &flag);
    CHECK(flag && *(int *) value == sizeof(long));
}

static void exercise(MPI_Win win, long *base)
{
    int to = (rank + 1) % size, from = (rank + size - 1) % size;
    for (int i = 0; i < SLOTS; i++)
        base[i] = -1;
    MPI_Win_fence(MPI_MODE_NOPRECEDE, win);
    long value = 1000 + rank, got = 0, old;
    MPI_Put(&value, 1, MPI_LONG, to, at(to, 3), 1, MPI_LONG, win);
    MPI_Win_fence(0, win);
    CHECK(base[3] == 1000 + from);
    MPI_Get(&got, 1, MPI_LONG, to, at(to, 3), 1, MPI_LONG, win);
    MPI_Win_fence(0, win);
    CHECK(got == 1000 + rank);

    /* A vector here, scattered blocks there, one in front of the displacement. */
    MPI_Datatype vector, indexed;
    int lengths[3] = {1, 2, 1}, places[3] = {9, -4, 20};
    MPI_Type_vector(4, 1, 2, MPI_LONG, &vector);
    MPI_Type_commit(&vector);
    MPI_Type_indexed(3, lengths, places, MPI_LONG, &indexed);
    MPI_Type_commit(&indexed);
    long from_here[8], back[8] = {0};
    for (int i = 0; i < 8; i++)
        from_here[i] = rank * 100 + i;
    MPI_Put(from_here, 1, vector, to, at(to, 14), 1, indexed, win);
    MPI_Win_fence(0, win);
    CHECK(base[23] == from * 100 && base[10] == from * 100 + 2);
    CHECK(base[11] == from * 100 + 4 && base[34] == from * 100 + 6);
    CHECK(base[9] == -1 && base[12] == -1 && base[22] == -1);
    MPI_Get(back, 1, vector, to, at(to, 14), 1, indexed, win);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    for (int i = 0; i < 8; i++)
        CHECK(back[i] == (i % 2 ? 0 : rank * 100 + i));
    MPI_Type_free(&vector);
    MPI_Type_free(&indexed);

    /* Everybody counts at rank 0: by atomics, then under a lock. */
    if (rank == 0) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
        base[100] = base[101] = 0;
        MPI_Win_unlock(0, win);
    }
    MPI_Barrier(world);
    MPI_Win_lock_all(0, win);
    long one = 1;
    for (int i = 0; i < 50; i++)
        MPI_Fetch_and_op(&one, &old, MPI_LONG, 0, at(0, 100), MPI_SUM, win);
    MPI_Win_flush(0, win);
    for (int i = 0; i < 10;) {
        long expected = i ? old : 0, next;
        MPI_Get(&expected, 1, MPI_LONG, 0, at(0, 100), 1, MPI_LONG, win);
        MPI_Win_flush(0, win);
        next = expected + 1;
        MPI_Compare_and_swap(&next, &expected, &old, MPI_LONG, 0, at(0, 100), win);
        MPI_Win_flush(0, win);
        i += old == expected;
    }
    MPI_Win_unlock_all(win);
    for (int i = 0; i < 10; i++) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
        MPI_Get(&got, 1, MPI_LONG, 0, at(0, 101), 1, MPI_LONG, win);
        MPI_Win_flush(0, win);
        got++;
        MPI_Put(&got, 1, MPI_LONG, 0, at(0, 101), 1, MPI_LONG, win);
        MPI_Win_unlock(0, win);
    }
    MPI_Barrier(world);
    if (rank == 0) {
        MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
        CHECK(base[100] == 60 * size, "%ld", base[100]);
        CHECK(base[101] == 10 * size, "%ld", base[101]);
        MPI_Win_unlock(0, win);
    }
    MPI_Barrier(world);

    MPI_Group all, next, previous;
    MPI_Comm_group(world, &all);
    MPI_Group_incl(all, 1, &to, &next);
    MPI_Group_incl(all, 1, &from, &previous);
    for (int round = 0; round < 3; round++) {
        MPI_Win_post(previous, 0, win);
        MPI_Win_start(next, 0, win);
        value = 7000 + 100 * round + rank;
        MPI_Put(&value, 1, MPI_LONG, to, at(to, 120), 1, MPI_LONG, win);
        MPI_Win_complete(win);
        if (round == 1) {
            for (int done = 0; !done;)
                MPI_Win_test(win, &done);
        } else {
            MPI_Win_wait(win);
        }
        CHECK(base[120] == 7000 + 100 * round + from);
    }
    MPI_Group_free(&all);
    MPI_Group_free(&next);
    MPI_Group_free(&previous);

    MPI_Request requests[4];
    long fetched = 0, eight = 8;
    MPI_Barrier(world);
    MPI_Win_lock_all(MPI_MODE_NOCHECK, win);
    value = 8000 + rank;
    MPI_Rput(&value, 1, MPI_LONG, to, at(to, 121), 1, MPI_LONG, win, &requests[0]);
    MPI_Rget(&got, 1, MPI_LONG, to, at(to, 120), 1, MPI_LONG, win, &requests[1]);
    MPI_Raccumulate(&eight, 1, MPI_LONG, to, at(to, 122), 1, MPI_LONG, MPI_SUM, win, &requests[2]);
    MPI_Rget_accumulate(&eight, 1, MPI_LONG, &fetched, 1, MPI_LONG, to, at(to, 123), 1, MPI_LONG,
                        MPI_REPLACE, win, &requests[3]);
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    CHECK(got == 7200 + rank && fetched == -1);
    MPI_Win_unlock_all(win);
    MPI_Barrier(world);
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
    CHECK(base[121] == 8000 + from && base[122] == 7 && base[123] == 8);
    MPI_Win_unlock(rank, win);
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    MPI_Aint bytes = sizeof own;
    for (int kind = 0; kind < 4; kind++) {
        MPI_Win win;
        long *base = own;
        dynamic = kind == 3;
        /* (No memory is shared between jobs.) */
        if (kind == 2 && world != MPI_COMM_WORLD)
            continue;
        int flavors[4] = {MPI_WIN_FLAVOR_ALLOCATE, MPI_WIN_FLAVOR_CREATE, MPI_WIN_FLAVOR_SHARED,
                          MPI_WIN_FLAVOR_DYNAMIC};
        if (kind == 0)
            MPI_Win_allocate(bytes, sizeof(long), MPI_INFO_NULL, world, &base, &win);
        else if (kind == 1)
            MPI_Win_create(own, bytes, sizeof(long), MPI_INFO_NULL, world, &win);
        else if (kind == 2)
            MPI_Win_allocate_shared(bytes, sizeof(long), MPI_INFO_NULL, world, &base, &win);
        else {
            MPI_Win_create_dynamic(MPI_INFO_NULL, world, &win);
            MPI_Win_attach(win, own, bytes);
        }
        MPI_Aint address;
        MPI_Get_address(own, &address);
        MPI_Allgather(&address, 1, MPI_AINT, addresses, 1, MPI_AINT, world);
        attributes(win, base, bytes, flavors[kind]);
        exercise(win, base);
        if (kind == 2) {
            for (int r = 0; r < size; r++) {
                MPI_Aint theirs;
                int unit;
                long *part;
                MPI_Win_shared_query(win, r, &theirs, &unit, &part);
                CHECK(theirs == bytes && unit == sizeof(long));
                CHECK(part[120] == 7200 + (r + size - 1) % size);
            }
        }
        if (kind == 3) {
            MPI_Barrier(world);
            MPI_Win_detach(win, own);
        }
        MPI_Win_free(&win);
    }

    /* Sizes and units of their own. */
    MPI_Win win;
    int *base;
    MPI_Aint mine = (rank + 1) * 64;
    MPI_Win_allocate(mine, 1 << rank % 3, MPI_INFO_NULL, world, &base, &win);
    MPI_Win_fence(0, win);
    for (int r = 0; r < size; r++) {
        int value = 10 * r + rank, unit = 1 << r % 3;
        if (rank < 16)
            MPI_Put(&value, 1, MPI_INT, r, rank * 4 / unit, 1, MPI_INT, win);
    }
    MPI_Win_fence(0, win);
    for (int r = 0; r < size && r < 16; r++)
        CHECK(base[r] == 10 * rank + r);
    MPI_Win_free(&win);
    return finish();
}
