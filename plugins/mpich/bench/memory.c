/* Heap of a process of any MPICH, by the size of the job: what is asked of malloc and not freed.
 *
 *   memory                  of a real job: after the start, of a communicator of each kind, after
 *                           a message to and from every rank; the most of all ranks
 *   memory simulate SIZE    of one process of a job whose others are not there (absent.h): after
 *                           the start, and of a communicator of each kind
 *
 * A line each: what, bytes, ranks that it is of.
 */
#define _GNU_SOURCE
#include "absent.h"
#include <malloc.h>

/* So many of each kind; of absent ones, all alike, fewer. */
enum { COMMUNICATORS = 16, ABSENT = 4 };

static double heap(void)
{
    struct mallinfo2 info = mallinfo2();
    return (double) (info.uordblks + info.hblkhd);
}

static void say(const char *what, double bytes, int ranks)
{
    double most;
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Reduce(&bytes, &most, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%s %.1f %d\n", what, most, ranks);
}

static void made(const char *what, int color, int key)
{
    int rank, size = 0;
    MPI_Comm all[COMMUNICATORS];
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    double before = 0;
    /* Twice: what the first ones leave for those to come is not counted. */
    for (int round = 0; round < 2; round++) {
        MPI_Barrier(MPI_COMM_WORLD);
        before = heap();
        for (int i = 0; i < COMMUNICATORS; i++)
            if (color < 0)
                MPI_Comm_dup(MPI_COMM_WORLD, &all[i]);
            else
                MPI_Comm_split(MPI_COMM_WORLD, color, key, &all[i]);
        before = heap() - before;
        MPI_Comm_size(all[0], &size);
        for (int i = 0; i < COMMUNICATORS; i++)
            MPI_Comm_free(&all[i]);
    }
    say(what, before / COMMUNICATORS, size);
}

static int real(void)
{
    int rank, size;
    double start = heap();
    MPI_Init(NULL, NULL);
    double begun = heap() - start;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    long mine = rank, theirs = -1;
    for (int away = 1; away < size; away++) {
        MPI_Sendrecv(&mine, 1, MPI_LONG, (rank + away) % size, 1, &theirs, 1, MPI_LONG,
                     (rank + size - away) % size, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (theirs != (rank + size - away) % size)
            MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    double spoken = heap() - start;
    say("start", begun, size);
    say("spoken", spoken, size);
    made("duplicate", -1, 0);
    made("odd/even", rank % 2, rank);
    made("irregular", 0, scattered(rank));
    MPI_Finalize();
    return 0;
}

/* The communicator of a group of ranks of the world, this process's first. */
static void absent_made(const char *what, MPI_Group group)
{
    MPI_Comm all[ABSENT];
    double before = 0;
    MPI_Group_size(group, &absent_ranks);
    for (int round = 0; round < 2; round++) {
        before = heap();
        for (int i = 0; i < ABSENT; i++)
            MPI_Comm_create(MPI_COMM_WORLD, group, &all[i]);
        before = heap() - before;
        for (int i = 0; round == 0 && i < ABSENT; i++)
            MPI_Comm_free(&all[i]);
    }
    printf("%s %.1f %d\n", what, before / ABSENT, absent_ranks);
    MPI_Group_free(&group);
}

static void alone(int size)
{
    int has_collectives = absent_collectives();
    double start = heap();
    MPI_Init(NULL, NULL);
    printf("start %.1f %d\n", heap() - start, size);
    if (!has_collectives)
        return;
    MPI_Group world, group;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    int range[1][3] = { {0, size - 1, 1} };
    MPI_Group_range_incl(world, 1, range, &group);
    absent_made("duplicate", group);
    range[0][2] = 2;
    MPI_Group_range_incl(world, 1, range, &group);
    absent_made("odd/even", group);
    /* Half of them, in an order without a rule. */
    int *ranks = malloc((size_t) size * sizeof *ranks), half = size / 2;
    for (int rank = 0; rank < size; rank++)
        ranks[rank] = rank;
    scatter(ranks, size);
    MPI_Group_incl(world, half, ranks, &group);
    free(ranks);
    absent_made("irregular", group);
}

int main(int argc, char **argv)
{
    if (argc == 1)
        return real();
    if (argc == 3 && !strcmp(argv[1], "simulate") && atoi(argv[2]) > 1)
        return absent_others(0, atoi(argv[2]), alone);
    fprintf(stderr, "memory: no arguments, or: simulate SIZE\n");
    return 2;
}
