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

static inline void start(int *argc, char ***argv)
{
    MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
}

static inline int finish(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    if (rank == 0)
        puts("ok");
    return 0;
}

#endif
