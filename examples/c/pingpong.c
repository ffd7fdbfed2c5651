/* A put ping-pong between ranks 0 and 1.
 *
 *   cc -O2 pingpong.c $(pkg-config --cflags --libs rankway) -o pingpong
 *   ./pingpong                      forks two ranks itself
 *   mpirun -n 2 ./pingpong          Open MPI, PRRTE (PMIx)
 *   mpiexec.hydra -n 2 ./pingpong   MPICH's Hydra (PMI-1)
 *
 * Rank 0 puts a number into the window of rank 1, which answers with the next
 * one, and so on. The puts are the unchecked ones of a device layer, inline. */
#include <rankway.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* The fastest of several runs counts: two that are started take a while to get a processor
 * each. */
enum { ROUNDS = 200, RUNS = 20 };

/* Ends the process where a call did not succeed. */
static void check(int code)
{
    if (code == RANKWAY_SUCCESS)
        return;
    fprintf(stderr, "pingpong: %s (%s)\n", rankway_error_message(), rankway_strerror(code));
    exit(1);
}

/* Puts a word: one that the provider did not take goes by the call that waits for space. */
static void put(rankway_win_t win, const rankway_access_t *access, const uint64_t *word,
                uint32_t rank)
{
    if (rankway_put_unchecked(access, word, sizeof *word, rank, 0) != 0)
        check(rankway_put(word, sizeof *word, (int)rank, 0, win));
    check(rankway_win_flush((int)rank, win));
}

static void await(rankway_context_t context, const volatile uint64_t *at, uint64_t word)
{
    while (*at != word)
        check(rankway_progress(context));
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int play(void *unused)
{
    rankway_device_t device;
    rankway_context_t context;
    rankway_comm_t world;
    rankway_win_t win;
    const rankway_access_t *access;
    void *memory;
    int rank, size;

    (void)unused;
    check(rankway_init(NULL, &device, &context));
    check(rankway_comm_world(context, &world));
    check(rankway_comm_rank(world, &rank));
    check(rankway_comm_size(world, &size));
    /* A zeroed word for each rank; displacements count words. */
    check(rankway_win_allocate(sizeof(uint64_t), sizeof(uint64_t), world, &memory, &win));
    check(rankway_win_access(win, &access));
    check(rankway_win_lock_all(0, win));
    if (rank < 2 && size > 1) {
        double start = now(), fastest = 1e9;
        for (uint64_t word = 1; word <= RUNS * ROUNDS; word++) {
            uint64_t turn = 2 * word - (rank == 0);
            if (rank == 1)
                await(context, memory, turn - 1);
            put(win, access, &turn, (uint32_t)!rank);
            if (rank == 0)
                await(context, memory, turn + 1);
            if (word % ROUNDS == 0) {
                double end = now();
                fastest = end - start < fastest ? end - start : fastest;
                start = end;
            }
        }
        if (rank == 0)
            printf("%d rounds, %.2f us each way in the fastest %d\n", RUNS * ROUNDS,
                   fastest / ROUNDS / 2 * 1e6, ROUNDS);
    }
    check(rankway_win_unlock_all(win));
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
    if (count > 1) {
        fprintf(stderr, "pingpong: takes no arguments, not '%s'\n", words[1]);
        return 2;
    }
    if (rankway_launched())
        return play(NULL);
    check(rankway_run_local(2, play, NULL, &code));
    return code;
}
