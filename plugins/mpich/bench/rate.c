/* How many puts of 8 bytes a second MPI_Put issues over a network that takes no time
 * (FI_PROVIDER=rankway_null), by the map of the window's communicator, from one process of a job
 * whose others are not there (absent.h). Guo et al. 2017, Tables V and VI.
 *
 *   rate [ROUNDS]     a line each: map, ranks, millions of puts a second, the fastest of the rounds
 */
#define _GNU_SOURCE
#include "absent.h"
#include <time.h>

enum { WORLD = 4096, MINE = 1024, PUTS = 1 << 16 };

static int rounds = 99;

static double now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double) at.tv_sec + (double) at.tv_nsec * 1e-9;
}

/* Puts to one rank after the other of a window on a communicator. */
static void measure(const char *map, MPI_Comm comm)
{
    static long memory[16];
    double least = 1e9;
    long value = 7;
    int ranks;
    MPI_Win win;
    MPI_Comm_size(comm, &ranks);
    MPI_Win_create(memory, sizeof memory, 8, MPI_INFO_NULL, comm, &win);
    MPI_Win_lock_all(MPI_MODE_NOCHECK, win);
    /* The first finds all peers. */
    for (int round = -1; round < rounds; round++) {
        double start = now();
        for (int i = 0, rank = 0; i < PUTS; i++) {
            MPI_Put(&value, 1, MPI_LONG, rank, i % 8, 1, MPI_LONG, win);
            rank = rank + 1 == ranks ? 0 : rank + 1;
        }
        double took = now() - start;
        if (round >= 0 && took < least)
            least = took;
        MPI_Win_flush_all(win);
    }
    printf("%s %d %.2f\n", map, ranks, PUTS / least / 1e6);
    fflush(stdout);
}

/* The communicator of some ranks of another; this process's rank there. */
static MPI_Comm made(MPI_Comm of, MPI_Group group)
{
    MPI_Comm comm;
    MPI_Comm_create(of, group, &comm);
    MPI_Group_rank(group, &absent_rank);
    MPI_Group_size(group, &absent_ranks);
    MPI_Group_free(&group);
    return comm;
}

static void maps(int size)
{
    MPI_Group world, group;
    (void) size;
    if (!absent_collectives()) {
        fprintf(stderr, "rate: this libmpi has no table of its symbols\n");
        _exit(1);
    }
    MPI_Init(NULL, NULL);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    measure("direct", MPI_COMM_WORLD);

    int range[1][3] = { {MINE, 2 * MINE - 1, 1} };
    MPI_Group_range_incl(world, 1, range, &group);
    measure("offset", made(MPI_COMM_WORLD, group));

    range[0][1] = 3 * MINE - 2, range[0][2] = 2;
    MPI_Group_range_incl(world, 1, range, &group);
    measure("stride", made(MPI_COMM_WORLD, group));

    static int ranks[MINE];
    for (int i = 0; i < MINE; i++)
        ranks[i] = MINE + i / 4 * 8 + i % 4;
    MPI_Group_incl(world, MINE, ranks, &group);
    measure("blockstride", made(MPI_COMM_WORLD, group));

    scatter(ranks, MINE);
    MPI_Group_incl(world, MINE, ranks, &group);
    measure("lut", made(MPI_COMM_WORLD, group));

    /* Every other rank of the one before. */
    MPI_Comm before = MPI_COMM_WORLD;
    absent_ranks = WORLD;
    for (int generation = 1; generation <= 4; generation++) {
        char name[] = "generation0";
        MPI_Comm_group(before, &group);
        int every[1][3] = { {0, absent_ranks - 2, 2} };
        MPI_Group half;
        MPI_Group_range_incl(group, 1, every, &half);
        MPI_Group_free(&group);
        before = made(before, half);
        name[10] = (char) ('0' + generation);
        measure(name, before);
    }
}

int main(int argc, char **argv)
{
    if (argc == 2)
        rounds = atoi(argv[1]);
    if (argc > 2 || rounds < 1) {
        fprintf(stderr, "rate: no arguments, or how many rounds\n");
        return 2;
    }
    return absent_others(MINE, WORLD, maps);
}
