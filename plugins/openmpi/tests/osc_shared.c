/* Windows of MPI_Win_allocate_shared whose regions are contiguous: puts of
 * every length in every kind of epoch, units alike or not, looked at by their
 * owners. */
#include "check.h"

#ifndef LEVEL
#define LEVEL MPI_THREAD_SINGLE
#endif

enum { PART = 8192, LENGTHS = 5, EPOCHS = 6 };
static const int lengths[LENGTHS] = {1, 8, 1000, 2048, 1 << 11};
static const int units[4] = {4, 16, 2, 1};

static size_t place(int from)
{
    return (size_t) from * (PART / (size_t) size) / 16 * 16;
}

static uint64_t seed(int from, int to, int round)
{
    return (uint64_t) (from * 1000 + to * 100000 + round);
}

static void put(MPI_Win win, int to, int unit, int len, int round)
{
    static unsigned char sent[64][1 << 11];
    fill(sent[to], (size_t) len, seed(rank, to, round));
    MPI_Put(sent[to], len, MPI_BYTE, to, (MPI_Aint) place(rank) / unit, len, MPI_BYTE, win);
}

static void epoch(MPI_Win win, MPI_Group all, int kind, int differing, int len, int round)
{
#define UNIT(to) (differing ? units[(to) % 4] : 8)
    switch (kind) {
    case 0:
        MPI_Win_fence(0, win);
        for (int to = 0; to < size; to++)
            put(win, to, UNIT(to), len, round);
        MPI_Win_fence(0, win);
        break;
    case 1:
        MPI_Win_post(all, 0, win);
        MPI_Win_start(all, 0, win);
        for (int to = 0; to < size; to++)
            put(win, to, UNIT(to), len, round);
        MPI_Win_complete(win);
        MPI_Win_wait(win);
        break;
    case 2:
        for (int to = 0; to < size; to++)
            MPI_Win_lock(MPI_LOCK_SHARED, to, 0, win);
        for (int to = 0; to < size; to++)
            put(win, to, UNIT(to), len, round);
        for (int to = 0; to < size; to++)
            MPI_Win_unlock(to, win);
        break;
    case 3:
        for (int to = 0; to < size; to++) {
            MPI_Win_lock(MPI_LOCK_EXCLUSIVE, to, 0, win);
            put(win, to, UNIT(to), len, round);
            MPI_Win_unlock(to, win);
        }
        break;
    case 4:
        MPI_Win_lock_all(0, win);
        for (int to = 0; to < size; to++)
            put(win, to, UNIT(to), len, round);
        MPI_Win_flush_all(win);
        MPI_Win_unlock_all(win);
        break;
    default:
        MPI_Win_lock_all(MPI_MODE_NOCHECK, win);
        for (int to = 0; to < size; to++) {
            put(win, to, UNIT(to), len, round);
            MPI_Win_flush(to, win);
        }
        MPI_Win_unlock_all(win);
    }
    MPI_Barrier(world);
}

int main(int argc, char **argv)
{
    int lost = 0, round = 0;
    start_threads(&argc, &argv, LEVEL);
    CHECK(size <= 4);
    MPI_Group all;
    MPI_Comm_group(world, &all);
    for (int differing = 0; differing < 2; differing++) {
        unsigned char *base;
        MPI_Win win;
        MPI_Win_allocate_shared(PART, UNIT(rank), MPI_INFO_NULL, world, &base, &win);
        for (int kind = 0; kind < EPOCHS; kind++) {
            for (int l = 0; l < LENGTHS; l++, round++) {
                epoch(win, all, kind, differing, lengths[l], round);
                for (int from = 0; from < size; from++) {
                    size_t len = (size_t) lengths[l];
                    if (differs(base + place(from), len, seed(from, rank, round)) < len) {
                        fprintf(stderr, "rank %d: a put of %zu bytes from %d is lost, epoch %d, differing %d\n",
                                rank, len, from, kind, differing);
                        lost++;
                    }
                }
                MPI_Barrier(world);
            }
        }
        MPI_Win_free(&win);
    }
    MPI_Group_free(&all);
    CHECK(lost == 0, "%d puts are lost", lost);
    return finish();
}
