/* Locks exclude each other, on memory of the window's own and of the program's:
 * counters that are read and written, not added to; several ranks locked at a
 * time; shared locks beside each other. And elements by whichever path. */
#include "check.h"

enum { TURNS = 100 };

static void counters(MPI_Win win, long *base)
{
    base[0] = base[1] = 0;
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win);
    MPI_Win_unlock(rank, win);
    MPI_Barrier(world);
    for (int turn = 0; turn < TURNS; turn++) {
        int to = (rank + turn) % size;
        long was, now;
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, to, 0, win);
        MPI_Get(&was, 1, MPI_LONG, to, 0, 1, MPI_LONG, win);
        MPI_Win_flush(to, win);
        now = was + 1;
        MPI_Put(&now, 1, MPI_LONG, to, 0, 1, MPI_LONG, win);
        MPI_Win_unlock(to, win);

        /* All at a time, out of order. */
        for (int i = 0; i < size; i++)
            MPI_Win_lock(MPI_LOCK_SHARED, (to + i) % size, 0, win);
        long one = 1;
        for (int i = 0; i < size; i++)
            MPI_Accumulate(&one, 1, MPI_LONG, i, 1, 1, MPI_LONG, MPI_SUM, win);
        for (int i = 0; i < size; i++)
            MPI_Win_unlock((rank + i) % size, win);

        MPI_Win_lock_all(0, win);
        MPI_Get(&was, 1, MPI_LONG, to, 1, 1, MPI_LONG, win);
        MPI_Win_unlock_all(win);
        CHECK(was > turn, "%ld after turn %d", was, turn);
    }
    MPI_Barrier(world);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win);
    CHECK(base[0] == TURNS, "%ld", base[0]);
    CHECK(base[1] == (long) TURNS * size, "%ld", base[1]);
    MPI_Win_unlock(rank, win);
    MPI_Barrier(world);
}

/* One pair of type and operation after another: each is recognised, none taken
 * for the one before. */
static void pairs(MPI_Win win, long *base)
{
    int to = (rank + 1) % size;
    MPI_Datatype two, copy;
    MPI_Type_contiguous(2, MPI_INT, &two);
    MPI_Type_commit(&two);
    MPI_Type_dup(MPI_INT, &copy);
    memset(base, 0, 8 * sizeof(long));
    MPI_Win_fence(0, win);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    MPI_Win_lock_all(0, win);
    for (int round = 0; round < 3; round++) {
        long l = 3, was = -1;
        int i[2] = {5, 7}, had[2] = {-1, -1};
        double d = 0.5;
        short s[4] = {1, 2, 3, 4};
        MPI_Accumulate(&l, 1, MPI_LONG, to, 0, 1, MPI_LONG, MPI_SUM, win);
        MPI_Accumulate(&l, 1, MPI_LONG, to, 1, 1, MPI_LONG, MPI_REPLACE, win);
        MPI_Accumulate(&d, 1, MPI_DOUBLE, to, 2, 1, MPI_DOUBLE, MPI_SUM, win);
        MPI_Accumulate(i, 1, two, to, 3, 2, MPI_INT, MPI_SUM, win);
        MPI_Accumulate(i, 2, copy, to, 4, 2, MPI_INT, MPI_SUM, win);
        MPI_Accumulate(s, 4, MPI_SHORT, to, 5, 4, MPI_SHORT, MPI_MAX, win);
        MPI_Get_accumulate(i, 2, MPI_INT, had, 2, MPI_INT, to, 3, 2, MPI_INT, MPI_NO_OP, win);
        MPI_Fetch_and_op(&l, &was, MPI_LONG, to, 0, MPI_SUM, win);
        MPI_Win_flush(to, win);
        CHECK(was == 3 + 6 * round, "%ld in round %d", was, round);
        CHECK(had[0] == 5 * (round + 1) && had[1] == 7 * (round + 1), "%d %d", had[0], had[1]);
        MPI_Get_accumulate(NULL, 0, MPI_INT, &was, 1, MPI_LONG, to, 1, 1, MPI_LONG, MPI_NO_OP, win);
        MPI_Get_accumulate(i, 2, MPI_INT, had, 2, MPI_INT, to, 6, 2, MPI_INT, MPI_SUM, win);
        MPI_Win_flush(to, win);
        CHECK(was == 3, "%ld", was);
        CHECK(had[0] == 5 * round && had[1] == 7 * round, "%d %d", had[0], had[1]);
    }
    MPI_Win_unlock_all(win);
    MPI_Barrier(world);
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
    int *ints = (int *) (base + 3);
    short *shorts = (short *) (base + 5);
    double sum;
    memcpy(&sum, base + 2, sizeof sum);
    CHECK(base[0] == 18 && base[1] == 3 && sum == 1.5);
    CHECK(ints[0] == 15 && ints[1] == 21 && ints[2] == 15 && ints[3] == 21);
    CHECK(shorts[0] == 1 && shorts[3] == 4);
    MPI_Win_unlock(rank, win);
    MPI_Type_free(&two);
    MPI_Type_free(&copy);
    MPI_Barrier(world);
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    MPI_Win win;
    long *base;
    MPI_Win_allocate(8 * sizeof(long), sizeof(long), MPI_INFO_NULL, world, &base, &win);
    counters(win, base);
    pairs(win, base);
    MPI_Win_free(&win);

    static long own[8];
    MPI_Win_create(own, sizeof own, sizeof(long), MPI_INFO_NULL, world, &win);
    counters(win, own);
    pairs(win, own);
    MPI_Win_free(&win);
    return finish();
}
