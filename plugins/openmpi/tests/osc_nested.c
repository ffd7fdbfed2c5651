/* Puts, gets and accumulates of random nested datatypes on either side, or both:
 * every byte that moved, and every byte that must stay as it was. */
#include "nested.h"

enum { ROUNDS = 250, SPAN = 1 << 17 };

static unsigned char *window, *want, *mine, *other;
static MPI_Win win;

/* What a rank has in its window, and in its own memory, at the round's begin. */
static void begin(uint64_t round, int integers)
{
    for (int who = 0; who < 4; who++) {
        unsigned char *place = who == 0 ? window : who == 1 ? want : who == 2 ? mine : other;
        uint64_t seed = round * 64 + (who < 2 ? rank : who == 2 ? 16 + rank : 32 + rank);
        if (!integers)
            fill(place, SPAN, seed);
        else
            for (int i = 0; i < SPAN / 4; i++)
                ((int *) place)[i] = byte_of(seed, i);
    }
}

/* A neighbour's bytes at the round's begin: of its window, or of its memory. */
static unsigned char *of(int who, int memory, uint64_t round, int integers)
{
    unsigned char *place = malloc(SPAN);
    uint64_t seed = round * 64 + (memory ? 16 : 0) + who;
    if (!integers)
        fill(place, SPAN, seed);
    else
        for (int i = 0; i < SPAN / 4; i++)
            ((int *) place)[i] = byte_of(seed, i);
    return place;
}

static void compare(const unsigned char *have, const unsigned char *expected, const char *what,
                    int round, int count, const char *text)
{
    for (int i = 0; i < SPAN; i++)
        CHECK(have[i] == expected[i], "round %d, %d of %s: %s, byte %d", round, count, text, what,
              i);
}

static int round_of(int round)
{
    state_of_random = 91 + round * 7919u;
    int accumulate = between(0, 2) == 0, get = between(0, 1), random_sides = between(0, 2);
    int with_request = between(0, 1), bottom = between(0, 2) == 0, passive = between(0, 1);
    Nested it = nested_type(accumulate ? MPI_INT : MPI_DATATYPE_NULL, SPAN / 8);
    int count = between(1, it.elements < 40 && between(0, 7) == 0 ? 60 : 4);
    Nested all = nested_times(&it, count);
    if (all.high - all.low > SPAN / 4) {
        nested_free(&all);
        count = 1;
        all = nested_times(&it, count);
    }
    int disjoint = nested_is_disjoint(&all);
    /* Who is written must be written once: sides are the origin's and the target's. */
    int here = random_sides != 1, there = random_sides != 0;
    if (!disjoint && get)
        here = 0, there = 1;
    if (!disjoint && !get)
        here = 1, there = 0;
    if (!disjoint && accumulate)
        get = 0, here = 1, there = 0;
    MPI_Datatype line = accumulate ? MPI_INT : MPI_BYTE;
    int lines = all.bytes / (accumulate ? 4 : 1);
    /* Where a type's origin is, so that it fits behind it. */
    MPI_Aint place = all.low > 32 ? 0 : 32 - all.low;
    if (all.bytes > SPAN - 64 || place + all.high > SPAN ||
        !nested_agrees(&it, count, &all, mine + place)) {
        nested_free(&all);
        nested_free(&it);
        return 0;
    }
    MPI_Aint disp = there ? place : 32;
    begin(round, accumulate);
    MPI_Barrier(world);
    if (passive)
        MPI_Win_lock_all(0, win);
    else
        MPI_Win_fence(0, win);

    int to = (rank + 1) % size, from = (rank + size - 1) % size;
    unsigned char *origin = mine + (here ? place : 32), *buffer = origin;
    MPI_Datatype type = here ? it.type : line, absolute = MPI_DATATYPE_NULL;
    MPI_Datatype target = there ? it.type : line;
    int n = here ? count : lines, targets = there ? count : lines;
    if (here && bottom && !accumulate) {
        type = absolute = nested_absolute(&it, count, origin);
        buffer = MPI_BOTTOM;
        n = 1;
    }
    MPI_Request request = MPI_REQUEST_NULL;
    unsigned char *result = other + (there ? place : 32);
    if (accumulate && get && with_request && passive)
        MPI_Rget_accumulate(buffer, n, type, result, targets, target, to, disp, targets, target,
                            MPI_SUM, win, &request);
    else if (accumulate && get)
        MPI_Get_accumulate(buffer, n, type, result, targets, target, to, disp, targets, target,
                           MPI_SUM, win);
    else if (accumulate)
        MPI_Accumulate(buffer, n, type, to, disp, targets, target, MPI_SUM, win);
    else if (get && with_request && passive)
        MPI_Rget(buffer, n, type, to, disp, targets, target, win, &request);
    else if (get)
        MPI_Get(buffer, n, type, to, disp, targets, target, win);
    else if (with_request && passive)
        MPI_Rput(buffer, n, type, to, disp, targets, target, win, &request);
    else
        MPI_Put(buffer, n, type, to, disp, targets, target, win);
    if (request != MPI_REQUEST_NULL)
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (absolute != MPI_DATATYPE_NULL)
        MPI_Type_free(&absolute);
    if (passive)
        MPI_Win_unlock_all(win);
    else
        MPI_Win_fence(0, win);
    MPI_Barrier(world);
    if (passive) {
        MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
        MPI_Win_unlock(rank, win);
    }

    /* The same by hand. */
    unsigned char *packed = malloc(all.bytes), *old = malloc(all.bytes);
    Nested one = {.type = MPI_DATATYPE_NULL, .elements = 1, .bytes = all.bytes};
    Element whole = {0, all.bytes};
    one.map = &whole;
    const Nested *ours = here ? &all : &one, *theirs = there ? &all : &one;
    if (get) {
        unsigned char *target_window = of(to, 0, round, accumulate);
        unsigned char *memory = of(rank, 1, round, accumulate);
        nested_pack(theirs, target_window + disp, old);
        if (accumulate) {
            unsigned char *results = malloc(SPAN);
            uint64_t seed = (uint64_t) round * 64 + 32 + rank;
            for (int i = 0; i < SPAN / 4; i++)
                ((int *) results)[i] = byte_of(seed, i);
            nested_unpack(theirs, old, all.bytes, results + (result - other));
            compare(other, results, "fetched", round, count, it.text);
            free(results);
        } else {
            nested_unpack(ours, old, all.bytes, memory + (origin - mine));
        }
        compare(mine, memory, "got", round, count, it.text);
        free(memory);
        free(target_window);
    }
    if (accumulate || !get) {
        unsigned char *memory = of(from, 1, round, accumulate);
        nested_pack(ours, memory + (origin - mine), packed);
        if (accumulate) {
            nested_pack(theirs, want + disp, old);
            for (int i = 0; i < lines; i++) {
                int a, b;
                memcpy(&a, packed + 4 * i, 4);
                memcpy(&b, old + 4 * i, 4);
                a += b;
                memcpy(packed + 4 * i, &a, 4);
            }
        }
        nested_unpack(theirs, packed, all.bytes, want + disp);
        free(memory);
    }
    compare(window, want, "at the target", round, count, it.text);
    free(packed);
    free(old);
    nested_free(&all);
    nested_free(&it);
    return 1;
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    CHECK(size <= 16);
    want = malloc(SPAN);
    mine = malloc(SPAN);
    other = malloc(SPAN);
    int played = 0;
    for (int kind = 0; kind < 2; kind++) {
        if (kind == 0) {
            window = malloc(SPAN);
            MPI_Win_create(window, SPAN, 1, MPI_INFO_NULL, world, &win);
        } else {
            MPI_Win_allocate(SPAN, 1, MPI_INFO_NULL, world, &window, &win);
        }
        for (int round = 0; round < ROUNDS; round++)
            played += round_of(kind * ROUNDS + round);
        MPI_Win_free(&win);
        if (kind == 0)
            free(window);
    }
    CHECK(played > ROUNDS * 2 * 8 / 10, "only %d rounds had a type that fits", played);
    free(want);
    free(mine);
    free(other);
    return finish();
}
