/* Groups: every operation against lists, and communicators of groups. */
#include "test.h"

enum { WORLD = 48, ROUNDS = 400 };
static uint32_t seed = 2017;

static int below(int n)
{
    seed = seed * 1664525u + 1013904223u;
    return (int)((uint64_t)seed * (uint32_t)n >> 32);
}

struct set {
    int n, lpid[2 * WORLD];
};

static int rank_in(const struct set *set, int lpid)
{
    for (int i = 0; i < set->n; i++)
        if (set->lpid[i] == lpid)
            return i;
    return -1;
}

static void add(struct set *set, int lpid)
{
    set->lpid[set->n++] = lpid;
}

/* Some of the world: a range, every so many, or shuffled. */
static struct set some(void)
{
    struct set set = {0, {0}};
    int kind = below(3), first = below(WORLD), step = 1 + below(4);
    if (kind < 2) {
        for (int lpid = first; lpid < WORLD; lpid += kind ? step : 1)
            add(&set, lpid);
        return set;
    }
    for (int tries = below(WORLD); tries > 0; tries--) {
        int lpid = below(WORLD);
        if (rank_in(&set, lpid) < 0)
            add(&set, lpid);
    }
    return set;
}

static rankway_rankmap_t group_of(const struct set *set)
{
    rankway_rankmap_t group;
    OK(rankway_rankmap_from_lpids(0, set->n, set->lpid, &group));
    return group;
}

/* A group is this list, and is freed. */
static void is(rankway_rankmap_t group, const struct set *set)
{
    rankway_rankmap_t same = group_of(set);
    rankway_process_t process;
    uint32_t size;
    int result;
    OK(rankway_rankmap_size(group, &size));
    ENSURE(size == (uint32_t)set->n);
    for (int i = 0; i < set->n; i++) {
        OK(rankway_rankmap_get(group, i, &process));
        ENSURE(process.pgid == 0 && process.lpid == (uint32_t)set->lpid[i]);
    }
    OK(rankway_group_compare(group, same, &result));
    ENSURE(result == RANKWAY_IDENT);
    OK(rankway_rankmap_free(same));
    OK(rankway_rankmap_free(group));
}

/* Ranks of a set: by a list, and by ranges that name the same. */
static void parts(const struct set *set)
{
    rankway_rankmap_t group = group_of(set), made;
    struct set in = {0, {0}}, out = {0, {0}};
    int ranks[WORLD], n = 0, named[WORLD] = {0}, ranges[2][3], some_ranges = 0;

    for (int tries = below(20); tries > 0 && set->n > 0; tries--) {
        int rank = below(set->n);
        if (!named[rank]) {
            named[rank] = 1;
            add(&in, set->lpid[rank]);
            ranks[n++] = rank;
        }
    }
    for (int rank = 0; rank < set->n; rank++)
        if (!named[rank])
            add(&out, set->lpid[rank]);
    OK(rankway_group_incl(group, n, ranks, &made));
    is(made, &in);
    OK(rankway_group_excl(group, n, ranks, &made));
    is(made, &out);

    /* The second half backwards, then some of the first. */
    in.n = out.n = 0;
    memset(named, 0, sizeof named);
    for (int half = 1; half >= 0; half--) {
        int first = half ? set->n - 1 : 0, last = half ? set->n / 2 : set->n / 2 - 1;
        int stride = (1 + below(3)) * (half ? -1 : 1);
        if (half ? first < last : last < first)
            continue;
        ranges[some_ranges][0] = first;
        ranges[some_ranges][1] = last;
        ranges[some_ranges++][2] = stride;
        for (int rank = first; half ? rank >= last : rank <= last; rank += stride) {
            named[rank] = 1;
            add(&in, set->lpid[rank]);
        }
    }
    for (int rank = 0; rank < set->n; rank++)
        if (!named[rank])
            add(&out, set->lpid[rank]);
    OK(rankway_group_range_incl(group, some_ranges, (const int(*)[3])ranges, &made));
    is(made, &in);
    OK(rankway_group_range_excl(group, some_ranges, (const int(*)[3])ranges, &made));
    is(made, &out);
    OK(rankway_rankmap_free(group));
}

static void two(const struct set *one, const struct set *other)
{
    rankway_rankmap_t group1 = group_of(one), group2 = group_of(other), made;
    struct set both = *one, common = {0, {0}}, rest = {0, {0}};
    int all[WORLD], there[WORLD], result;

    for (int i = 0; i < one->n; i++) {
        add(rank_in(other, one->lpid[i]) < 0 ? &rest : &common, one->lpid[i]);
        all[i] = i;
    }
    for (int i = 0; i < other->n; i++)
        if (rank_in(one, other->lpid[i]) < 0)
            add(&both, other->lpid[i]);
    OK(rankway_group_union(group1, group2, &made));
    is(made, &both);
    OK(rankway_group_intersection(group1, group2, &made));
    is(made, &common);
    OK(rankway_group_difference(group1, group2, &made));
    is(made, &rest);
    OK(rankway_group_translate_ranks(group1, one->n, all, group2, there));
    for (int i = 0; i < one->n; i++) {
        int rank = rank_in(other, one->lpid[i]);
        ENSURE(there[i] == (rank < 0 ? RANKWAY_UNDEFINED : rank));
    }
    OK(rankway_group_compare(group1, group2, &result));
    int members = one->n == other->n && rest.n == 0;
    int order = members && memcmp(one->lpid, other->lpid, sizeof(int) * (size_t)one->n) == 0;
    ENSURE(result == (order ? RANKWAY_IDENT : members ? RANKWAY_SIMILAR : RANKWAY_UNEQUAL));
    OK(rankway_rankmap_free(group1));
    OK(rankway_rankmap_free(group2));
}

static void wrong(void)
{
    struct set set = {4, {9, 8, 7, 6}};
    rankway_rankmap_t group = group_of(&set), twice, made;
    int result, ranks[] = {1, 3, 1, 4, -1}, ranges[2][3] = {{0, 3, 0}, {0, 4, 4}};

    REFUSED(RANKWAY_ERR_ARG, "again", rankway_group_incl(group, 3, ranks, &made));
    REFUSED(RANKWAY_ERR_RANK, "has 4 ranks", rankway_group_excl(group, 2, ranks + 2, &made));
    REFUSED(RANKWAY_ERR_RANK, "rank -1", rankway_group_excl(group, 1, ranks + 4, &made));
    REFUSED(RANKWAY_ERR_ARG, "length of -1", rankway_group_incl(group, -1, ranks, &made));
    REFUSED(RANKWAY_ERR_NULL, "ranks", rankway_group_incl(group, 1, NULL, &made));
    REFUSED(RANKWAY_ERR_NULL, "newgroup", rankway_group_incl(group, 1, ranks, NULL));
    REFUSED(RANKWAY_ERR_ARG, "stride 0",
            rankway_group_range_incl(group, 1, (const int(*)[3])ranges, &made));
    REFUSED(RANKWAY_ERR_RANK, "rank 4",
            rankway_group_range_excl(group, 1, (const int(*)[3])ranges + 1, &made));
    REFUSED(RANKWAY_ERR_RANK, "has 4 ranks",
            rankway_group_translate_ranks(group, 1, ranks + 3, group, &result));
    REFUSED(RANKWAY_ERR_NULL, "ranks2",
            rankway_group_translate_ranks(group, 1, ranks, group, NULL));
    REFUSED(RANKWAY_ERR_HANDLE, "",
            rankway_group_union(group, (rankway_rankmap_t){0}, &made));
    /* A map that has a process twice is no group. */
    set.lpid[3] = 9;
    twice = group_of(&set);
    REFUSED(RANKWAY_ERR_ARG, "", rankway_group_union(twice, group, &made));
    OK(rankway_rankmap_free(twice));
    OK(rankway_rankmap_free(group));
}

/* Communicators of groups speak, in the groups' order. */
static int speak(void *unused)
{
    struct job job;
    rankway_rankmap_t world, group, others, alone;
    rankway_comm_t comm, none;
    int backwards[] = {3, 1, 0}, lone[] = {2}, rank, size, got = -1;

    (void)unused;
    join(&job, NULL);
    ENSURE(job.size == 4);
    OK(rankway_comm_group(job.world, &world));
    OK(rankway_group_incl(world, 3, backwards, &group));
    OK(rankway_group_difference(world, group, &others));
    OK(rankway_group_incl(world, 1, lone, &alone));
    is(others, &(struct set){1, {2}});
    OK(rankway_comm_create_group(job.world, job.rank == 2 ? alone : group, &comm));
    OK(rankway_comm_rank(comm, &rank));
    OK(rankway_comm_size(comm, &size));
    ENSURE(size == (job.rank == 2 ? 1 : 3) && (job.rank == 2 || backwards[rank] == job.rank));
    for (int to = 0; to < size; to++) {
        rankway_request_t request[2];
        int said = 100 * job.rank + to;
        OK(rankway_irecv(&got, sizeof got, to, 5, comm, &request[0]));
        OK(rankway_isend(&said, sizeof said, to, 5, comm, &request[1]));
        OK(rankway_wait(&request[1], NULL));
        OK(rankway_wait(&request[0], NULL));
        ENSURE(got == 100 * (job.rank == 2 ? 2 : backwards[to]) + rank);
    }
    /* Who is not in it gets none. */
    OK(rankway_comm_create_group(job.world, group, &none));
    ENSURE((none.id == 0) == (job.rank == 2));
    if (job.rank != 2)
        OK(rankway_comm_free(none));
    /* Nor need who is not in it call at all: the parent is as it was for all. */
    for (int time = 0; time < 2; time++) {
        if (job.rank != 2) {
            OK(rankway_comm_create_group(job.world, group, &none));
            OK(rankway_comm_barrier(none));
            OK(rankway_comm_free(none));
        }
        OK(rankway_comm_barrier(job.world));
    }
    OK(rankway_comm_free(comm));
    OK(rankway_rankmap_free(world));
    OK(rankway_rankmap_free(alone));
    OK(rankway_rankmap_free(group));
    leave(&job);
    return 0;
}

int main(void)
{
    if (!rankway_launched()) {
        for (int round = 0; round < ROUNDS; round++) {
            struct set one = some(), other = below(8) ? some() : one;
            if (below(8) == 0 && other.n > 1) { /* the same in another order */
                other = one;
                int last = other.lpid[other.n - 1];
                other.lpid[other.n - 1] = other.lpid[0];
                other.lpid[0] = last;
            }
            parts(&one);
            two(&one, &other);
        }
        wrong();
    }
    return ranks(4, speak);
}
