/* Communicators without a formula, whose table MPICH's CH4 gives back, as RANKWAY_MAP_STRATEGY has
 * it: messages, groups and windows there, and communicators that are made of such ones. */
#include "../../openmpi/tests/check.h"

/* World ranks of a communicator's members, by its group and by what each says. */
static void members_are(MPI_Comm comm, const int *expected, int members, const char *what)
{
    int mine, count, said[64], ranks[64], found[64];
    MPI_Group world, group;
    MPI_Comm_rank(comm, &mine);
    MPI_Comm_size(comm, &count);
    CHECK(count == members, "%s has %d members, not %d", what, count, members);
    for (int at = 0; at < members; at++)
        ranks[at] = at;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Comm_group(comm, &group);
    MPI_Group_translate_ranks(group, members, ranks, world, found);
    MPI_Group_free(&group);
    MPI_Group_free(&world);
    MPI_Allgather(&rank, 1, MPI_INT, said, 1, MPI_INT, comm);
    for (int at = 0; at < members; at++) {
        CHECK(found[at] == expected[at], "%s: its group has %d at %d, not %d", what, found[at], at, expected[at]);
        CHECK(said[at] == expected[at], "%s: %d answers at %d, not %d", what, said[at], at, expected[at]);
    }
    /* To each and from each. */
    for (int away = 1; away < members; away++) {
        int to = (mine + away) % members, from = (mine + members - away) % members, got = -1;
        MPI_Sendrecv(&rank, 1, MPI_INT, to, away, &got, 1, MPI_INT, from, away, comm, MPI_STATUS_IGNORE);
        CHECK(got == expected[from], "%s: %d came from %d, not %d", what, got, from, expected[from]);
    }
}

static void window_on(MPI_Comm comm, const int *expected, int members, const char *what)
{
    int mine, *memory;
    MPI_Win win;
    MPI_Comm_rank(comm, &mine);
    MPI_Win_allocate(members * (MPI_Aint) sizeof(int), sizeof(int), MPI_INFO_NULL, comm, &memory, &win);
    MPI_Win_fence(0, win);
    for (int to = 0; to < members; to++)
        MPI_Put(&rank, 1, MPI_INT, to, mine, 1, MPI_INT, win);
    MPI_Win_fence(0, win);
    for (int from = 0; from < members; from++)
        CHECK(memory[from] == expected[from], "%s: %d was put by %d, not %d", what, memory[from], from, expected[from]);
    MPI_Win_free(&win);
}

static void all_of(MPI_Comm comm, const int *expected, int members, const char *what)
{
    members_are(comm, expected, members, what);
    window_on(comm, expected, members, what);
}

int main(int argc, char **argv)
{
    int expected[64], some[64];
    setenv("RANKWAY_MAP_STRATEGY", "space", 0);
    start(&argc, &argv);
    CHECK(size == 8, "this takes 8 ranks, not %d", size);

    /* 3 6 0 7 1 4 2 5: no formula. */
    static const int order[] = { 3, 6, 0, 7, 1, 4, 2, 5 };
    int key = 0, mine, count;
    while (order[key] != rank)
        key++;
    MPI_Comm mixed, other;
    MPI_Comm_split(MPI_COMM_WORLD, 0, key, &mixed);
    all_of(mixed, order, 8, "a split");

    /* Of the same members, whose map they share; each outlives the other. */
    for (int round = 0; round < 2; round++) {
        MPI_Comm twice;
        MPI_Comm_dup(mixed, &other);
        MPI_Comm_dup(other, &twice);
        if (round == 0)
            MPI_Comm_free(&other);
        all_of(twice, order, 8, "a duplicate");
        MPI_Comm_free(&twice);
        if (round == 1) {
            all_of(other, order, 8, "a duplicate's first");
            MPI_Comm_free(&other);
        }
    }
    MPI_Request made;
    MPI_Comm_idup(mixed, &other, &made);
    MPI_Wait(&made, MPI_STATUS_IGNORE);
    all_of(other, order, 8, "an idle duplicate");
    MPI_Comm_free(&other);

    /* The rest from 3 on, every second, some in no order, and all by the world's ranks again. */
    MPI_Comm_rank(mixed, &mine);
    MPI_Comm_split(mixed, mine < 3, mine, &other);
    all_of(other, mine < 3 ? order : order + 3, mine < 3 ? 3 : 5, "a part");
    MPI_Comm_free(&other);
    for (int at = 0; at < 4; at++)
        some[at] = order[2 * at + mine % 2];
    MPI_Comm_split(mixed, mine % 2, mine, &other);
    all_of(other, some, 4, "every second");
    MPI_Comm_free(&other);
    static const int chosen[] = { 7, 2, 4, 1, 0 };
    MPI_Group group, few;
    MPI_Comm_group(mixed, &group);
    MPI_Group_incl(group, 5, chosen, &few);
    MPI_Comm_create(mixed, few, &other);
    for (int at = 0; at < 5; at++)
        some[at] = order[chosen[at]];
    if (other != MPI_COMM_NULL) {
        all_of(other, some, 5, "some");
        MPI_Comm_free(&other);
        MPI_Comm_create_group(mixed, few, 3, &other);
        all_of(other, some, 5, "some by their group alone");
        MPI_Comm_free(&other);
    }
    MPI_Group_free(&few);
    MPI_Group_free(&group);
    MPI_Comm_split(mixed, 0, rank, &other);
    for (int at = 0; at < 8; at++)
        expected[at] = at;
    all_of(other, expected, 8, "the world's order");
    MPI_Comm_free(&other);

    /* Two groups of it that meet, and become one in either order. */
    MPI_Comm half, between;
    MPI_Comm_split(mixed, mine < 3, -mine, &half);
    MPI_Intercomm_create(half, 0, mixed, mine < 3 ? 7 : 2, 5, &between);
    int lower[] = { order[2], order[1], order[0] };
    int upper[] = { order[7], order[6], order[5], order[4], order[3] };
    int theirs = mine < 3 ? 5 : 3, got[64];
    MPI_Comm_remote_size(between, &count);
    CHECK(count == theirs, "%d on the other side, not %d", count, theirs);
    MPI_Allgather(&rank, 1, MPI_INT, got, 1, MPI_INT, between);
    for (int at = 0; at < theirs; at++)
        CHECK(got[at] == (mine < 3 ? upper : lower)[at], "%d at %d of the other side", got[at], at);
    for (int high = 0; high < 2; high++) {
        MPI_Comm merged, copy;
        MPI_Comm_dup(between, &copy);
        MPI_Intercomm_merge(copy, (mine < 3) == high, &merged);
        for (int at = 0; at < 8; at++)
            expected[at] = high ? (at < 5 ? upper[at] : lower[at - 5]) : (at < 3 ? lower[at] : upper[at - 3]);
        all_of(merged, expected, 8, "one of two groups");
        MPI_Comm_free(&merged);
        MPI_Comm_free(&copy);
    }
    MPI_Comm_free(&between);
    all_of(half, mine < 3 ? lower : upper, mine < 3 ? 3 : 5, "a half that has met the other");
    MPI_Comm_free(&half);
    all_of(mixed, order, 8, "the split, at last");
    MPI_Comm_compare(mixed, MPI_COMM_WORLD, &count);
    CHECK(count == MPI_SIMILAR, "it compares as %d", count);
    MPI_Comm_free(&mixed);
    return finish();
}
