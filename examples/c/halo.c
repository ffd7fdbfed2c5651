/* A 1D halo exchange: heat along a rod that is cut into as many parts as there
 * are ranks. Each step puts the outermost cells into the neighbours' halos and
 * fences; the sum of the heat is checked against what one process computes.
 *
 *   cc -O2 halo.c $(pkg-config --cflags --libs rankway) -o halo
 *   ./halo [ranks]             forks them itself (4)
 *   mpirun -n 4 ./halo         Open MPI, PRRTE; mpiexec.hydra -n 4 ./halo: MPICH */
#include <rankway.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CELLS = 1000, STEPS = 200, ROOT = 0, HEAT = 7 };

static void check(int code)
{
    if (code == RANKWAY_SUCCESS)
        return;
    fprintf(stderr, "halo: %s (%s)\n", rankway_error_message(), rankway_strerror(code));
    exit(1);
}

/* The rod at the start, by the number of the cell. */
static double initial(long cell)
{
    return (double)(cell % 17) - 8.0;
}

/* One step over cells 1 to n, whose neighbours are at 0 and n + 1. */
static void step(const double *from, double *to, long n)
{
    for (long i = 1; i <= n; i++)
        to[i] = from[i] + 0.25 * (from[i - 1] - 2.0 * from[i] + from[i + 1]);
}

/* What comes out, computed by one process: every cell of one rank's part. */
static void compare(const double *mine, int rank, int size)
{
    long all = (long)CELLS * size;
    double *a = calloc((size_t)all + 2, sizeof *a), *b = calloc((size_t)all + 2, sizeof *b);
    if (!a || !b)
        exit(1);
    for (long i = 1; i <= all; i++)
        a[i] = initial(i - 1);
    for (int s = 0; s < STEPS; s++) {
        double *swap = a;
        step(a, b, all);
        a = b;
        b = swap;
    }
    if (memcmp(mine + 1, a + 1 + (long)CELLS * rank, CELLS * sizeof *a) != 0) {
        fprintf(stderr, "halo: rank %d computed something else\n", rank);
        exit(1);
    }
    free(a);
    free(b);
}

static int simulate(void *unused)
{
    rankway_device_t device;
    rankway_context_t context;
    rankway_comm_t world;
    rankway_win_t win;
    rankway_request_t request;
    void *base;
    int rank, size;

    (void)unused;
    check(rankway_init(NULL, &device, &context));
    check(rankway_comm_world(context, &world));
    check(rankway_comm_rank(world, &rank));
    check(rankway_comm_size(world, &size));

    /* Two rods of CELLS and a halo at both ends, one read and one written. */
    size_t row = CELLS + 2;
    check(rankway_win_allocate(2 * row * sizeof(double), sizeof(double), world, &base, &win));
    double *rods = base;
    for (long i = 1; i <= CELLS; i++)
        rods[i] = initial((long)rank * CELLS + i - 1);
    check(rankway_win_fence(0, win));
    for (int s = 0; s < STEPS; s++) {
        size_t old = s % 2 ? row : 0;
        if (rank > 0)
            check(rankway_put(rods + old + 1, sizeof(double), rank - 1, old + CELLS + 1, win));
        if (rank + 1 < size)
            check(rankway_put(rods + old + CELLS, sizeof(double), rank + 1, old, win));
        check(rankway_win_fence(0, win));
        step(rods + old, rods + (row - old), CELLS);
    }
    double *end = rods + (STEPS % 2 ? row : 0);
    compare(end, rank, size);

    /* The sum of all parts, by messages. */
    double sum = 0.0;
    for (long i = 1; i <= CELLS; i++)
        sum += end[i];
    if (rank != ROOT) {
        check(rankway_isend(&sum, sizeof sum, ROOT, HEAT, world, &request));
        check(rankway_wait(&request, NULL));
    } else {
        for (int others = 1; others < size; others++) {
            double part;
            check(rankway_irecv(&part, sizeof part, RANKWAY_ANY_SOURCE, HEAT, world, &request));
            check(rankway_wait(&request, NULL));
            sum += part;
        }
        printf("%d ranks, %d cells each, %d steps: heat %.6f\n", size, CELLS, STEPS, sum);
    }
    check(rankway_win_free(win));
    check(rankway_comm_barrier(world));
    check(rankway_comm_free(world));
    check(rankway_context_close(context));
    check(rankway_finalize(device));
    return 0;
}

int main(int count, char **words)
{
    int code = 0;
    long ranks = 4;
    if (rankway_launched())
        return simulate(NULL);
    if (count > 1) {
        char *end;
        ranks = strtol(words[1], &end, 10);
        if (*end != '\0' || end == words[1] || ranks < 1 || ranks > 1024 || count > 2) {
            fprintf(stderr, "usage: halo [ranks], 1 to 1024\n");
            return 2;
        }
    }
    check(rankway_run_local((int)ranks, simulate, NULL, &code));
    return code;
}
