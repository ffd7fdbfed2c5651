/* Random nested datatypes, each with the list of every element it takes, made
 * beside it from the standard's words: what is sent is compared with that. */
#ifndef NESTED_H
#define NESTED_H

#include "check.h"

typedef struct {
    MPI_Aint at;
    int len;
} Element;

/* A datatype and its type map. */
typedef struct {
    MPI_Datatype type;
    MPI_Aint lb, extent;
    Element *map;
    int elements;
    /* Of the type map. */
    MPI_Aint low, high;
    MPI_Aint bytes;
    char text[512];
} Nested;

static uint64_t state_of_random;

static inline uint64_t draw(void)
{
    uint64_t z = state_of_random += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* One of low..=high. */
static inline int between(int low, int high)
{
    return low + (int) (draw() % (uint64_t) (high - low + 1));
}

static inline void nested_push(Nested *to, const Nested *of, MPI_Aint at)
{
    to->map = realloc(to->map, (to->elements + of->elements) * sizeof *to->map + 1);
    for (int i = 0; i < of->elements; i++)
        to->map[to->elements++] = (Element){of->map[i].at + at, of->map[i].len};
}

static inline void nested_free(Nested *it)
{
    free(it->map);
    if (it->type != MPI_DATATYPE_NULL) {
        int integers, addresses, types, combiner;
        MPI_Type_get_envelope(it->type, &integers, &addresses, &types, &combiner);
        if (combiner != MPI_COMBINER_NAMED)
            MPI_Type_free(&it->type);
    }
    *it = (Nested){.type = MPI_DATATYPE_NULL};
}

/* Bounds, as Open MPI has them; those of the type map. */
static inline void nested_finish(Nested *it)
{
    MPI_Type_get_extent(it->type, &it->lb, &it->extent);
    it->low = it->high = it->bytes = 0;
    for (int i = 0; i < it->elements; i++) {
        MPI_Aint from = it->map[i].at, to = from + it->map[i].len;
        it->low = i == 0 || from < it->low ? from : it->low;
        it->high = i == 0 || to > it->high ? to : it->high;
        it->bytes += it->map[i].len;
    }
}

/* Returns true if no byte is covered twice. */
static inline int nested_is_disjoint(const Nested *it)
{
    char *covered = calloc(1, it->high - it->low + 1);
    int disjoint = 1;
    for (int i = 0; i < it->elements; i++)
        for (int k = 0; k < it->map[i].len; k++)
            disjoint &= !covered[it->map[i].at - it->low + k]++;
    free(covered);
    return disjoint;
}

/* `count` of them, an extent apart. */
static inline Nested nested_times(const Nested *of, int count)
{
    Nested all = {.type = MPI_DATATYPE_NULL};
    for (int i = 0; i < count; i++)
        nested_push(&all, of, i * of->extent);
    for (int i = 0; i < all.elements; i++) {
        MPI_Aint from = all.map[i].at, to = from + all.map[i].len;
        all.low = i == 0 || from < all.low ? from : all.low;
        all.high = i == 0 || to > all.high ? to : all.high;
        all.bytes += all.map[i].len;
    }
    return all;
}

static inline void nested_pack(const Nested *it, const unsigned char *memory, unsigned char *out)
{
    for (int i = 0; i < it->elements; i++) {
        memcpy(out, memory + it->map[i].at, it->map[i].len);
        out += it->map[i].len;
    }
}

static inline void nested_unpack(const Nested *it, const unsigned char *in, MPI_Aint bytes,
                                 unsigned char *memory)
{
    for (int i = 0; i < it->elements && bytes > 0; i++) {
        MPI_Aint len = bytes < it->map[i].len ? bytes : it->map[i].len;
        memcpy(memory + it->map[i].at, in, len);
        in += len;
        bytes -= len;
    }
}

static inline Nested nested_basic(MPI_Datatype only)
{
    MPI_Datatype all[] = {MPI_CHAR, MPI_SHORT, MPI_INT, MPI_DOUBLE, MPI_FLOAT, MPI_LONG_LONG,
                          MPI_C_DOUBLE_COMPLEX, MPI_BYTE, MPI_LONG_DOUBLE};
    Nested it = {.type = only};
    if (only == MPI_DATATYPE_NULL && between(0, 9) == 0) {
        /* A pair, which has a gap. */
        it.type = MPI_SHORT_INT;
        it.map = malloc(2 * sizeof *it.map);
        it.map[it.elements++] = (Element){0, sizeof(short)};
        it.map[it.elements++] = (Element){sizeof(int), sizeof(int)};
    } else {
        int len;
        if (only == MPI_DATATYPE_NULL)
            it.type = all[between(0, sizeof all / sizeof *all - 1)];
        MPI_Type_size(it.type, &len);
        it.map = malloc(sizeof *it.map);
        it.map[it.elements++] = (Element){0, len};
    }
    nested_finish(&it);
    snprintf(it.text, sizeof it.text, "%s", it.type == only ? "x" : "basic");
    return it;
}

/* Elements of an array, in the order of memory, of which `mine` says which are
 * covered along each dimension. */
static inline void nested_array(Nested *it, const Nested *of, int dims, const int *sizes, int order,
                                char mine[3][64])
{
    int total = 1;
    for (int d = 0; d < dims; d++)
        total *= sizes[d];
    for (int at = 0; at < total; at++) {
        int rest = at, covered = 1;
        for (int k = 0; k < dims; k++) {
            int d = order == MPI_ORDER_C ? dims - 1 - k : k;
            covered &= mine[d][rest % sizes[d]];
            rest /= sizes[d];
        }
        if (covered)
            nested_push(it, of, at * of->extent);
    }
}

/* A type of up to `depth` constructors over basic types, or over `only`. */
static inline Nested nested_draw(int depth, MPI_Datatype only)
{
    if (depth == 0)
        return nested_basic(only);
    Nested of = nested_draw(depth - 1, only);
    Nested it = {.type = MPI_DATATYPE_NULL};
    /* Rows of elements and not bytes, where elements must stay aligned. */
    int unit = 1, what = between(0, 9), count = between(1, 5), block = between(1, 4);
    int lens[6], places[6];
    MPI_Aint bytes[6];
    char name[64] = "";
    if (only != MPI_DATATYPE_NULL)
        MPI_Type_size(only, &unit);
    if (of.elements * count * block > 4000)
        count = block = 1;
    /* Open MPI refuses to deal elements of no bytes. */
    if (of.elements == 0 && what == 9)
        what = 0;
    switch (what) {
    case 0:
        count = between(1, 7);
        MPI_Type_contiguous(count, of.type, &it.type);
        for (int i = 0; i < count; i++)
            nested_push(&it, &of, i * of.extent);
        snprintf(name, sizeof name, "contiguous(%d)", count);
        break;
    case 1: {
        int stride = between(-6, 6);
        MPI_Type_vector(count, block, stride, of.type, &it.type);
        for (int i = 0; i < count; i++)
            for (int k = 0; k < block; k++)
                nested_push(&it, &of, (i * stride + k) * of.extent);
        snprintf(name, sizeof name, "vector(%d, %d, %d)", count, block, stride);
        break;
    }
    case 2: {
        MPI_Aint stride = between(-50, 120) * unit;
        MPI_Type_create_hvector(count, block, stride, of.type, &it.type);
        for (int i = 0; i < count; i++)
            for (int k = 0; k < block; k++)
                nested_push(&it, &of, i * stride + k * of.extent);
        snprintf(name, sizeof name, "hvector(%d, %d, %ld)", count, block, (long) stride);
        break;
    }
    case 3:
    case 4:
    case 5:
    case 6:
        for (int i = 0; i < count; i++) {
            lens[i] = what == 5 ? block : between(0, block);
            places[i] = between(-8, 12);
            bytes[i] = between(-100, 200) * unit;
            MPI_Aint at = what == 4 || what == 6 ? bytes[i] : places[i] * of.extent;
            if (what == 6)
                lens[i] = block;
            for (int k = 0; k < lens[i]; k++)
                nested_push(&it, &of, at + k * of.extent);
        }
        if (what == 3)
            MPI_Type_indexed(count, lens, places, of.type, &it.type);
        else if (what == 4)
            MPI_Type_create_hindexed(count, lens, bytes, of.type, &it.type);
        else if (what == 5)
            MPI_Type_create_indexed_block(count, block, places, of.type, &it.type);
        else
            MPI_Type_create_hindexed_block(count, block, bytes, of.type, &it.type);
        snprintf(name, sizeof name, "indexed%d(%d)", what - 3, count);
        break;
    case 7: {
        /* Members of different types. */
        Nested other = nested_draw(between(0, depth - 1), only);
        MPI_Datatype types[6];
        for (int i = 0; i < count; i++) {
            const Nested *member = i % 2 ? &other : &of;
            types[i] = member->type;
            lens[i] = member->elements > 1000 ? 1 : between(0, 2);
            bytes[i] = between(-60, 300) * unit;
            for (int k = 0; k < lens[i]; k++)
                nested_push(&it, member, bytes[i] + k * member->extent);
        }
        MPI_Type_create_struct(count, lens, bytes, types, &it.type);
        nested_free(&other);
        snprintf(name, sizeof name, "struct(%d)", count);
        break;
    }
    case 8: {
        int dims = between(1, 3), sizes[3], parts[3], starts[3];
        int order = between(0, 1) ? MPI_ORDER_C : MPI_ORDER_FORTRAN;
        char mine[3][64] = {{0}};
        for (int d = 0; d < dims; d++) {
            sizes[d] = between(1, of.elements > 200 ? 2 : 6);
            parts[d] = between(1, sizes[d]);
            starts[d] = between(0, sizes[d] - parts[d]);
            memset(mine[d] + starts[d], 1, parts[d]);
        }
        MPI_Type_create_subarray(dims, sizes, parts, starts, order, of.type, &it.type);
        nested_array(&it, &of, dims, sizes, order, mine);
        snprintf(name, sizeof name, "subarray(%d)", dims);
        break;
    }
    case 9: {
        int dims = between(1, 3), sizes[3], dealt[3], args[3], grid[3], me = 0, processes = 1;
        int order = between(0, 1) ? MPI_ORDER_C : MPI_ORDER_FORTRAN, coordinates[3];
        char mine[3][64] = {{0}};
        for (int d = 0; d < dims; d++) {
            sizes[d] = between(1, of.elements > 200 ? 3 : 8);
            int kind = between(0, 2);
            dealt[d] = kind == 0   ? MPI_DISTRIBUTE_NONE
                       : kind == 1 ? MPI_DISTRIBUTE_BLOCK
                                   : MPI_DISTRIBUTE_CYCLIC;
            grid[d] = kind == 0 ? 1 : between(1, sizes[d] < 3 ? sizes[d] : 3);
            coordinates[d] = between(0, grid[d] - 1);
            int even = (sizes[d] + grid[d] - 1) / grid[d];
            int chunk = kind == 0 ? sizes[d] : kind == 1 ? even : between(1, 3);
            args[d] = kind == 2 ? chunk : MPI_DISTRIBUTE_DFLT_DARG;
            for (int i = 0; i < sizes[d]; i++)
                mine[d][i] = i / chunk % grid[d] == coordinates[d];
            processes *= grid[d];
            me = me * grid[d] + coordinates[d];
        }
        MPI_Type_create_darray(processes, me, dims, sizes, dealt, args, grid, order, of.type,
                               &it.type);
        nested_array(&it, &of, dims, sizes, order, mine);
        snprintf(name, sizeof name, "darray(%d)", dims);
        break;
    }
    }
    if (between(0, 3) == 0) {
        MPI_Datatype resized;
        MPI_Aint lb = between(-20, 20) * unit, extent = between(1, 400) * unit;
        MPI_Type_create_resized(it.type, lb, extent, &resized);
        MPI_Type_free(&it.type);
        it.type = resized;
    }
    nested_finish(&it);
    snprintf(it.text, sizeof it.text, "%s[%ld, %ld) of %.400s", name, (long) it.lb,
             (long) (it.lb + it.extent), of.text);
    nested_free(&of);
    return it;
}

/* A committed type that takes a few bytes at least, in no more than `span` of them. */
static inline Nested nested_type(MPI_Datatype only, MPI_Aint span)
{
    for (;;) {
        Nested it = nested_draw(between(1, 4), only);
        if (it.elements > 0 && it.high - it.low <= span) {
            MPI_Type_commit(&it.type);
            return it;
        }
        nested_free(&it);
    }
}

/* The same with absolute addresses, for MPI_BOTTOM. */
static inline MPI_Datatype nested_absolute(const Nested *it, int count, void *origin)
{
    MPI_Aint at;
    MPI_Datatype absolute, type = it->type;
    MPI_Get_address(origin, &at);
    MPI_Type_create_struct(1, &count, &at, &type, &absolute);
    MPI_Type_commit(&absolute);
    return absolute;
}

/* Returns true if Open MPI's own MPI_Pack takes these bytes too: there are types
 * of which it does not. */
static inline int nested_agrees(const Nested *it, int count, const Nested *all, void *origin)
{
    unsigned char *want = malloc(all->bytes + 1), *have = malloc(all->bytes + 1);
    int position = 0;
    nested_pack(all, origin, want);
    MPI_Pack(origin, count, it->type, have, all->bytes, &position, MPI_COMM_SELF);
    int agrees = position == all->bytes && memcmp(want, have, all->bytes) == 0;
    free(want);
    free(have);
    return agrees;
}

#endif
