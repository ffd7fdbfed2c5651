/* Rank maps from arrays: what comes out is what went in, in the form and the
 * bytes that the regular maps of Guo et al. (2017) should take; translations
 * are those of the address vector, entry by entry. */
#include "test.h"

enum { MOST = 4096 };
static int lpids[MOST];
static uint32_t seed = 12345;

static uint32_t random_below(uint32_t n)
{
    seed = seed * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)seed * n >> 32);
}

static const char *model_of(rankway_rankmap_t map)
{
    const char *model;
    OK(rankway_rankmap_model(map, &model));
    return model;
}

static void check(int n, const char *model)
{
    rankway_rankmap_t map;
    rankway_process_t process;
    uint32_t size;
    size_t bytes;
    int rank;

    OK(rankway_rankmap_from_lpids(0, n, lpids, &map));
    OK(rankway_rankmap_size(map, &size));
    OK(rankway_rankmap_bytes(map, &bytes));
    ENSURE(size == (uint32_t)n);
    if (model && strcmp(model_of(map), model) != 0)
        FAIL("%s, not %s", model_of(map), model);
    if (model && strcmp(model, "lut") != 0)
        ENSURE(bytes < 200);
    for (int i = 0; i < n; i++) {
        OK(rankway_rankmap_get(map, i, &process));
        ENSURE(process.pgid == 0 && process.lpid == (uint32_t)lpids[i]);
        OK(rankway_rankmap_rank_of(map, process, &rank));
        ENSURE(lpids[rank] == lpids[i] && rank <= i);
    }
    process.lpid = 1 << 30;
    OK(rankway_rankmap_rank_of(map, process, &rank));
    ENSURE(rank == -1);
    REFUSED(RANKWAY_ERR_RANK, "out of range", rankway_rankmap_get(map, n, &process));
    REFUSED(RANKWAY_ERR_RANK, "out of range", rankway_rankmap_get(map, -1, &process));
    OK(rankway_rankmap_free(map));
}

static void shapes(void)
{
    int n = MOST;
    for (int i = 0; i < n; i++)
        lpids[i] = i;
    check(n, "direct");
    for (int i = 0; i < n; i++)
        lpids[i] = i + 77;
    check(n, "offset");
    for (int i = 0; i < n; i++)
        lpids[i] = 3 * n - 3 * i;
    check(n, "stride");
    for (int i = 0; i < n; i++)
        lpids[i] = i / 4 * 10 + i % 4 + 1;
    check(n, "blockstride");
    for (int i = 0; i < n; i++)
        lpids[i] = (int)random_below(1 << 20);
    check(n, "lut");
    for (int round = 0; round < 200; round++) {
        n = 1 + (int)random_below(200);
        for (int i = 0; i < n; i++)
            lpids[i] = (int)(random_below(3) ? (uint32_t)i : random_below(1000));
        check(n, NULL);
    }
    check(0, NULL);
}

static void algebra(void)
{
    rankway_rankmap_t every2, every3, both;
    rankway_process_t processes[64], process;
    uint32_t size;

    OK(rankway_rankmap_affine(0, 10, 2, 100, &every2));
    OK(rankway_rankmap_affine(0, 0, 3, 30, &every3));
    OK(rankway_rankmap_compose(every2, every3, &both));
    ENSURE(strcmp(model_of(both), "stride") == 0);
    OK(rankway_rankmap_get(both, 4, &process));
    ENSURE(process.lpid == 10 + 2 * 3 * 4);
    OK(rankway_rankmap_free(every2));
    OK(rankway_rankmap_free(every3));
    OK(rankway_rankmap_free(both));
    for (uint32_t i = 0; i < 64; i++)
        processes[i] = (rankway_process_t){i % 3, 100 - i};
    OK(rankway_rankmap_from_processes(64, processes, &both));
    ENSURE(strcmp(model_of(both), "mlut") == 0);
    OK(rankway_rankmap_size(both, &size));
    for (uint32_t i = 0; i < size; i++) {
        OK(rankway_rankmap_get(both, (int)i, &process));
        ENSURE(process.pgid == i % 3 && process.lpid == 100 - i);
    }
    OK(rankway_rankmap_free(both));
}

/* Blocks of ranks, given by their numbers and rank by rank. */
static void blocks(void)
{
    rankway_rankmap_t map, same;
    rankway_process_t process;
    size_t bytes, others;

    for (int round = 0; round < 300; round++) {
        int32_t step = (int32_t)random_below(9) - 4, pitch = (int32_t)random_below(40) - 20;
        uint32_t block = 1 + random_below(7), n = random_below(60), base = 1300;
        OK(rankway_rankmap_blockstride(4, base, step, block, pitch, n, &map));
        for (uint32_t rank = 0; rank < n; rank++) {
            lpids[rank] = (int)base + (int)(rank % block) * step + (int)(rank / block) * pitch;
            OK(rankway_rankmap_get(map, (int)rank, &process));
            ENSURE(process.pgid == 4 && process.lpid == (uint32_t)lpids[rank]);
        }
        OK(rankway_rankmap_from_lpids(4, (int)n, lpids, &same));
        ENSURE(strcmp(model_of(map), model_of(same)) == 0);
        OK(rankway_rankmap_bytes(map, &bytes));
        OK(rankway_rankmap_bytes(same, &others));
        ENSURE(bytes == others);
        OK(rankway_rankmap_free(map));
        OK(rankway_rankmap_free(same));
    }
    OK(rankway_rankmap_blockstride(0, 0, 1, 16, 64, 1u << 24, &map));
    ENSURE(strcmp(model_of(map), "blockstride") == 0);
    OK(rankway_rankmap_bytes(map, &bytes));
    ENSURE(bytes < 100);
    OK(rankway_rankmap_free(map));
    REFUSED(RANKWAY_ERR_ARG, "blocks of 0", rankway_rankmap_blockstride(0, 0, 1, 0, 1, 9, &map));
    REFUSED(RANKWAY_ERR_ARG, "rank 3 maps to lpid -1", rankway_rankmap_blockstride(0, 2, -1, 4, 4, 9, &map));
    REFUSED(RANKWAY_ERR_ARG, "rank 8 ", rankway_rankmap_blockstride(0, 30, 1, 4, -20, 9, &map));
    REFUSED(RANKWAY_ERR_ARG, "lpid", rankway_rankmap_blockstride(0, 0, 1, 4, 2000000000, 9, &map));
    REFUSED(RANKWAY_ERR_ARG, "lpid", rankway_rankmap_blockstride(0, 0, 2000000000, 4, 1, 9, &map));
    REFUSED(RANKWAY_ERR_ARG, "rank 1 ", rankway_rankmap_blockstride(0, 0, -32766, 2, 0, INT32_MAX, &map));
    REFUSED(RANKWAY_ERR_ARG, "rank 12 ", rankway_rankmap_blockstride(0, 30, 1, 4, -14, INT32_MAX, &map));
    REFUSED(RANKWAY_ERR_ARG, "2147483647 ranks", rankway_rankmap_blockstride(0, 0, 0, 100, 1, UINT32_MAX, &map));
    REFUSED(RANKWAY_ERR_NULL, "map", rankway_rankmap_blockstride(0, 0, 1, 4, 4, 9, NULL));
}

/* Translations inline and through the body's function, of each kind. */
static int translate(void *unused)
{
    struct job job;
    rankway_rankmap_t members, map;
    rankway_lookup_t lookup;
    uint32_t pgid;
    enum { RANKS = 64 };

    (void)unused;
    join(&job, NULL);
    /* A group of many lpids that are all this job's processes in turn. */
    for (int i = 0; i < 4 * RANKS; i++)
        lpids[i] = i % job.size;
    OK(rankway_rankmap_from_lpids(0, 4 * RANKS, lpids, &members));
    OK(rankway_group_add(job.device, members, &pgid));
    ENSURE(pgid == 1);
    for (int kind = 0; kind < 6; kind++) {
        rankway_process_t processes[RANKS];
        for (uint32_t i = 0; i < RANKS; i++) {
            uint32_t lpid[] = {i,     i + 9,           2 * (RANKS - i),
                               i / 4 * 8 + i % 4, random_below(4 * RANKS), random_below(RANKS)};
            processes[i].lpid = lpid[kind];
            processes[i].pgid = pgid;
        }
        if (kind == 5) /* two groups */
            for (int i = 0; i < RANKS; i++)
                if (i % 3 == 0)
                    processes[i] = (rankway_process_t){0, (uint32_t)(i % job.size)};
        OK(rankway_rankmap_from_processes(RANKS, processes, &map));
        OK(rankway_rankmap_lookup(map, job.context, &lookup));
        ENSURE((lookup.kind == 0) == (kind < 3));
        for (int i = 0; i < RANKS; i++) {
            uint64_t entry, address;
            OK(rankway_connect(job.context, processes[i], &entry));
            ENSURE(entry != 0 && rankway_lookup_entry(&lookup, (size_t)i) == entry);
            if (kind < 3)
                ENSURE(rankway_lookup_affine(&lookup, (size_t)i) == entry);
            ENSURE(rankway_entry_network(entry, &address) != rankway_entry_local(entry, &address));
        }
        OK(rankway_rankmap_free(map));
    }
    OK(rankway_rankmap_free(members));
    OK(rankway_comm_lookup(job.world, &lookup));
    for (int i = 0; i < job.size; i++) {
        uint64_t entry;
        OK(rankway_comm_connect(job.world, i, &entry));
        ENSURE(rankway_lookup_entry(&lookup, (size_t)i) == entry);
    }
    leave(&job);
    return 0;
}

int main(void)
{
    shapes();
    algebra();
    blocks();
    return ranks(2, translate);
}
