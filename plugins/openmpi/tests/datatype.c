/* Derived datatypes: vectors, structures, lower bounds, pieces of a receive,
 * and persistent requests of them. */
#include "exchange.h"

static void vectors(int blocks, int mode)
{
    MPI_Datatype vector;
    MPI_Type_vector(blocks, 3, 7, MPI_INT, &vector);
    MPI_Type_commit(&vector);
    int span = 7 * blocks * 2 + 7;
    int *out = malloc(span * sizeof *out), *in = malloc(span * sizeof *in);
    for (int i = 0; i < span; i++) {
        out[i] = rank * 1000000 + i;
        in[i] = -1;
    }
    exchange(mode, out, 2, vector, in, 2, vector, MPI_STATUS_IGNORE);
    int extent = 7 * (blocks - 1) + 3;
    for (int i = 0; i < span; i++) {
        int at = i % extent, inside = i < 2 * extent && at % 7 < 3;
        int want = inside ? (rank ^ 1) * 1000000 + i : -1;
        CHECK(in[i] == want, "blocks %d mode %d: [%d] is %d, not %d", blocks, mode, i, in[i], want);
    }
    free(in);
    free(out);
    MPI_Type_free(&vector);
}

/* Contiguous data that begins behind (or before) the buffer's address. */
static void lower_bound(int count, MPI_Aint shift, int mode)
{
    MPI_Datatype moved;
    int length = count;
    MPI_Datatype byte = MPI_BYTE;
    MPI_Type_create_struct(1, &length, &shift, &byte, &moved);
    MPI_Type_commit(&moved);
    unsigned char *out = malloc(count + 200), *in = malloc(count + 200);
    fill(out, count + 200, rank);
    memset(in, 0xee, count + 200);
    exchange(mode, out + 100, 1, moved, in + 100, 1, moved, MPI_STATUS_IGNORE);
    unsigned char *sent = malloc(count + 200);
    fill(sent, count + 200, rank ^ 1);
    for (int i = 0; i < count + 200; i++) {
        int inside = i >= 100 + shift && i < 100 + shift + count;
        CHECK(in[i] == (inside ? sent[i] : 0xee), "shift %ld mode %d: [%d]", (long) shift, mode, i);
    }
    free(sent);
    free(in);
    free(out);
    MPI_Type_free(&moved);
}

/* A vector sent, contiguous received, and fewer elements than there is space. */
static void mixed(int blocks, int mode)
{
    MPI_Datatype vector, line;
    MPI_Type_vector(blocks, 1, 2, MPI_DOUBLE, &vector);
    MPI_Type_contiguous(blocks, MPI_DOUBLE, &line);
    MPI_Type_commit(&vector);
    MPI_Type_commit(&line);
    double *out = malloc(2 * blocks * sizeof *out), *in = malloc(2 * blocks * sizeof *in);
    for (int i = 0; i < 2 * blocks; i++) {
        out[i] = rank + i;
        in[i] = -1;
    }
    exchange(mode, out, 1, vector, in, 1, line, MPI_STATUS_IGNORE);
    for (int i = 0; i < 2 * blocks; i++)
        CHECK(in[i] == (i < blocks ? (rank ^ 1) + 2 * i : -1), "blocks %d: [%d]", blocks, i);
    MPI_Status status;
    int count;
    MPI_Sendrecv(out, blocks / 2, MPI_DOUBLE, rank ^ 1, 2, in, 1, vector, rank ^ 1, 2,
                 MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, MPI_DOUBLE, &count);
    CHECK(count == blocks / 2);
    for (int i = 0; i < blocks / 2; i++)
        CHECK(in[2 * i] == (rank ^ 1) + i);
    free(in);
    free(out);
    MPI_Type_free(&vector);
    MPI_Type_free(&line);
}

/* What a type of ints names, around the middle of some memory: a message and MPI_Pack take these,
 * in their order. */
enum { SPAN = 256, MIDDLE = SPAN / 2 };

static void names(MPI_Datatype type, int count, const int *at, const char *what, int mode)
{
    int out[SPAN], in[SPAN], packed[SPAN], bytes = 0, size;
    for (int i = 0; i < SPAN; i++)
        out[i] = 1000 * rank + i;
    memset(in, 0xff, sizeof in);
    MPI_Type_commit(&type);
    MPI_Type_size(type, &size);
    CHECK(size == 4 * count, "%s: %d bytes of %d ints", what, size, count);
    MPI_Pack(out + MIDDLE, 1, type, packed, sizeof packed, &bytes, MPI_COMM_WORLD);
    CHECK(bytes == size, "%s: %d packed", what, bytes);
    for (int i = 0; i < count; i++)
        CHECK(packed[i] == out[MIDDLE + at[i]], "%s: [%d] is %d", what, i, packed[i]);
    exchange(mode, out + MIDDLE, 1, type, in, count, MPI_INT, MPI_STATUS_IGNORE);
    for (int i = 0; i < count; i++)
        CHECK(in[i] == 1000 * (rank ^ 1) + MIDDLE + at[i], "%s, mode %d: [%d] is %d", what, mode, i, in[i]);
    MPI_Type_free(&type);
}

/* As long as their extent, with gaps; without an extent. */
static void deceptive(int mode)
{
    MPI_Datatype moved, still, made;
    MPI_Type_create_resized(MPI_INT, 4, 4, &moved);
    MPI_Type_create_resized(MPI_INT, 0, 0, &still);
    MPI_Type_create_struct(2, (int[]){3, 1}, (MPI_Aint[]){-24, -8}, (MPI_Datatype[]){moved, MPI_INT}, &made);
    names(made, 4, (int[]){-6, -5, -4, -2}, "a gap that bounds hide", mode);
    MPI_Type_create_struct(3, (int[]){2, 2, 1}, (MPI_Aint[]){0, 4, 16},
                           (MPI_Datatype[]){MPI_INT, MPI_INT, MPI_INT}, &made);
    /* (Of what overlaps nothing may be received, but sent.) */
    names(made, 5, (int[]){0, 1, 1, 2, 4}, "a gap that an overlap makes up for", mode);
    MPI_Type_indexed(2, (int[]){3, 1}, (int[]){7, -7}, still, &made);
    names(made, 4, (int[]){0, 0, 0, 0}, "ints at one place", mode);
    MPI_Type_free(&still);
    MPI_Type_contiguous(0, MPI_INT, &still);
    MPI_Type_indexed(2, (int[]){3, 1}, (int[]){7, -7}, still, &made);
    names(made, 0, (int[]){0}, "nothing, by indices", mode);
    MPI_Type_free(&still);
    MPI_Type_free(&moved);
}

/* Distributed arrays: elements whose places all belong to the process. */
static void distributed(int mode)
{
    enum { MOST = 3, ALL = 5 * 5 * 5 };
    const int kinds[] = { MPI_DISTRIBUTE_NONE, MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC };
    srand(1);
    for (int round = 0; round < 200; round++) {
        int whole[MOST], kind[MOST], argument[MOST], block[MOST], procs[MOST], place[MOST];
        int dimensions = 1 + rand() % MOST, processes = 1, elements = 1, count = 0, at[ALL];
        int order = rand() % 2 ? MPI_ORDER_C : MPI_ORDER_FORTRAN;
        for (int d = 0; d < dimensions; d++) {
            whole[d] = 1 + rand() % 5;
            kind[d] = kinds[rand() % 3];
            procs[d] = kind[d] == MPI_DISTRIBUTE_NONE ? 1 : 1 + rand() % 3;
            int even = (whole[d] + procs[d] - 1) / procs[d];
            int cyclic = kind[d] == MPI_DISTRIBUTE_CYCLIC;
            argument[d] = block[d] = cyclic ? 1 + rand() % 3 : even + rand() % 2;
            if (kind[d] == MPI_DISTRIBUTE_NONE || rand() % 2) {
                argument[d] = MPI_DISTRIBUTE_DFLT_DARG;
                block[d] = cyclic ? 1 : even;
            }
            processes *= procs[d];
            elements *= whole[d];
        }
        int process = rand() % processes, before = processes;
        for (int d = 0, left = process; d < dimensions; d++) {
            before /= procs[d];
            place[d] = left / before;
            left %= before;
        }
        for (int i = 0; i < elements; i++) {
            int mine = 1;
            for (int k = 0, left = i; k < dimensions; k++) {
                int d = order == MPI_ORDER_C ? dimensions - 1 - k : k;
                mine = mine && left % whole[d] / block[d] % procs[d] == place[d];
                left /= whole[d];
            }
            if (mine)
                at[count++] = i;
        }
        MPI_Datatype made;
        MPI_Type_create_darray(processes, process, dimensions, whole, kind, argument, procs, order,
                               MPI_INT, &made);
        names(made, count, at, "a distributed array", mode);
    }
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    CHECK(size % 2 == 0, "an even number of ranks");
    for (int mode = 0; mode < 3; mode++) {
        for (int blocks = 1; blocks <= 40000; blocks = blocks * 5 + 1) {
            vectors(blocks, mode);
            mixed(blocks, mode);
        }
        for (int count = 1; count <= 100000; count *= 10)
            for (MPI_Aint shift = -64; shift <= 64; shift += 32)
                lower_bound(count, shift, mode);
        /* Nothing at all. */
        exchange(mode, NULL, 0, MPI_INT, NULL, 0, MPI_INT, MPI_STATUS_IGNORE);
        deceptive(mode);
        distributed(mode);
    }
    return finish();
}
