/* What the tests share: loud checks and bytes that tell where they are from. */
#ifndef CHECK_H
#define CHECK_H

#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(what, ...)                                                                           \
    do {                                                                                           \
        if (!(what)) {                                                                             \
            fprintf(stderr, "%s:%d: rank %d: not so: %s:", __FILE__, __LINE__, rank, #what);      \
            fprintf(stderr, " " __VA_ARGS__);                                                      \
            fputc('\n', stderr);                                                                   \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                          \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

static int rank, size;
/* All ranks of the test: the job's, or, where JOBS is 2, those of this job and of one of as many
 * children. */
static MPI_Comm world, other_job = MPI_COMM_NULL;

static inline unsigned char byte_of(uint64_t seed, size_t at)
{
    uint64_t z = (seed + 1) * 0x9e3779b97f4a7c15u ^ at * 0xbf58476d1ce4e5b9u;
    return (unsigned char) ((z ^ z >> 31) * 0x94d049bb133111ebu >> 56);
}

static inline void fill(unsigned char *bytes, size_t len, uint64_t seed)
{
    for (size_t i = 0; i < len; i++)
        bytes[i] = byte_of(seed, i);
}

/* The first byte that is not as filled; len if all are. */
static inline size_t differs(const unsigned char *bytes, size_t len, uint64_t seed)
{
    size_t i = 0;
    while (i < len && bytes[i] == byte_of(seed, i))
        i++;
    return i;
}

/* MPI is there: meets the other ranks. */
static inline void join_jobs(char **argv)
{
    MPI_Comm parent;
    MPI_Comm_get_parent(&parent);
    world = MPI_COMM_WORLD;
    if (getenv("JOBS") && !strcmp(getenv("JOBS"), "2")) {
        MPI_Comm_size(world, &size);
        if (parent == MPI_COMM_NULL)
            MPI_Comm_spawn(argv[0], argv + 1, size, MPI_INFO_NULL, 0, world, &other_job,
                           MPI_ERRCODES_IGNORE);
        else
            other_job = parent;
        MPI_Intercomm_merge(other_job, parent != MPI_COMM_NULL, &world);
    }
    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &size);
}

static inline void start(int *argc, char ***argv)
{
    MPI_Init(argc, argv);
    join_jobs(*argv);
}

static inline void start_threads(int *argc, char ***argv, int level)
{
    int given;
    MPI_Init_thread(argc, argv, level, &given);
    join_jobs(*argv);
    CHECK(given >= level);
}

static inline int finish_as(int wrong)
{
    MPI_Barrier(world);
    if (other_job != MPI_COMM_NULL) {
        MPI_Comm_free(&world);
        MPI_Comm_disconnect(&other_job);
    }
    MPI_Finalize();
    if (rank == 0 && !wrong)
        puts("ok");
    return wrong;
}

static inline int finish(void)
{
    return finish_as(0);
}

#endif
