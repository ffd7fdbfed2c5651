/* Messages of random nested datatypes: every byte received, and every byte that
 * must stay as it was. Types are made and freed all the time, so addresses of
 * datatypes come back with other types behind them. */
#include "exchange.h"
#include "nested.h"

enum { ROUNDS = 1500, SPAN = 1 << 18 };

/* Bytes and a place in them that a type's origin is at, so that it fits. */
typedef struct {
    unsigned char *bytes, *origin;
    size_t len;
} Memory;

static Memory memory_for(const Nested *all, uint64_t seed)
{
    Memory it = {.len = all->high - all->low + 64};
    it.bytes = malloc(it.len);
    it.origin = it.bytes + 32 - all->low;
    fill(it.bytes, it.len, seed);
    return it;
}

/* One random type, sent as itself or as bytes, received the other way or as
 * itself. Returns false if Open MPI takes other bytes for it. */
static int transfer(int round)
{
    /* Both sides of a pair draw the same. */
    state_of_random = 7 + round * 1000003u + rank / 2 * 77;
    Nested it = nested_type(MPI_DATATYPE_NULL, SPAN / 8);
    int large = between(0, 15) == 0;
    int count = between(1, large && it.elements < 100 ? 400 : 4), mode = between(0, 3);
    if (it.extent * count > SPAN)
        count = 1;
    int as = between(0, 2), extra = between(0, 2), bottom = between(0, 3) == 0;
    Nested all = nested_times(&it, count);
    uint64_t seed = (uint64_t) round << 8;
    Memory from = memory_for(&all, seed + rank), sent = memory_for(&all, seed + (rank ^ 1));
    /* One element more than comes has space, but for one received at once. */
    Nested space = nested_times(&it, count + extra);
    Memory to = memory_for(&space, seed + 100), want = memory_for(&space, seed + 100);
    unsigned char *line = malloc(all.bytes + 8), *packed = malloc(all.bytes + 8);
    int agrees = nested_agrees(&it, count, &all, from.origin), received = 0;
    if (!nested_is_disjoint(&space))
        as = 0;
    if (agrees) {
        MPI_Status status;
        MPI_Datatype absolute = MPI_DATATYPE_NULL;
        nested_pack(&all, sent.origin, packed);
        const void *out = as == 1 ? line : from.origin;
        MPI_Datatype type = as == 1 ? MPI_BYTE : it.type;
        int outs = as == 1 ? (int) all.bytes : count;
        if (as == 1)
            nested_pack(&all, from.origin, line);
        else if (bottom) {
            absolute = nested_absolute(&it, count, from.origin);
            type = absolute;
            out = MPI_BOTTOM;
            outs = 1;
        }
        if (as == 0) {
            memset(line, 0xee, all.bytes + 8);
            exchange(mode, out, outs, type, line, all.bytes + 8, MPI_BYTE, &status);
            CHECK(memcmp(line, packed, all.bytes) == 0, "round %d, %d of %s: sent", round, count,
                  it.text);
            for (int i = 0; i < 8; i++)
                CHECK(line[all.bytes + i] == 0xee, "round %d", round);
        } else {
            exchange(mode, out, outs, type, to.origin, count + extra, it.type, &status);
            nested_unpack(&space, packed, all.bytes, want.origin);
            CHECK(memcmp(to.bytes, want.bytes, to.len) == 0, "round %d, %d of %s: received%s",
                  round, count, it.text, as == 1 ? " bytes" : "");
        }
        MPI_Get_count(&status, MPI_BYTE, &received);
        CHECK(received == all.bytes, "round %d: %d bytes", round, received);
        if (absolute != MPI_DATATYPE_NULL)
            MPI_Type_free(&absolute);
    }
    free(line);
    free(packed);
    free(from.bytes);
    free(sent.bytes);
    free(to.bytes);
    free(want.bytes);
    nested_free(&all);
    nested_free(&space);
    nested_free(&it);
    return agrees;
}

/* A type that is freed while a message of it is under way, and others made at
 * once in its place. */
static void freed_under_way(int round)
{
    enum { LEN = 20000 };
    int other = rank ^ 1, strides[4] = {2, 3, 5, 7};
    int *from = malloc(8 * LEN * sizeof *from), *to = malloc(8 * LEN * sizeof *to);
    MPI_Request requests[8];
    for (int i = 0; i < 8 * LEN; i++) {
        from[i] = rank << 24 | i;
        to[i] = -1;
    }
    for (int k = 0; k < 4; k++) {
        MPI_Datatype out, in;
        MPI_Type_vector(LEN / 8, 1, strides[k], MPI_INT, &out);
        MPI_Type_commit(&out);
        MPI_Isend(from + k, 1, out, other, k, MPI_COMM_WORLD, &requests[k]);
        MPI_Type_free(&out);
        MPI_Type_vector(LEN / 8, 1, 8, MPI_INT, &in);
        MPI_Type_commit(&in);
        MPI_Irecv(to + k, 1, in, other, k, MPI_COMM_WORLD, &requests[4 + k]);
        MPI_Type_free(&in);
    }
    MPI_Waitall(8, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < LEN; i++) {
        int k = i % 8, want = k < 4 ? other << 24 | (k + i / 8 * strides[k]) : -1;
        CHECK(to[i] == want, "round %d: [%d] is %x, not %x", round, i, to[i], want);
    }
    free(from);
    free(to);
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    CHECK(size % 2 == 0, "an even number of ranks");
    int played = 0;
    for (int round = 0; round < ROUNDS; round++) {
        played += transfer(round);
        if (round % 50 == 0)
            freed_under_way(round);
    }
    CHECK(played > ROUNDS * 9 / 10, "Open MPI's MPI_Pack goes with the type map in %d only", played);
    return finish();
}
