/* Collectives that know nodes, where MPICH takes one machine for several (MPIR_CVAR_NUM_CLIQUES):
 * over communicators whose ranks lie on them in every order, from every root. */
#include "../../openmpi/tests/check.h"
#include <string.h>

static void collectives(MPI_Comm comm)
{
    int mine, members;
    MPI_Comm_rank(comm, &mine);
    MPI_Comm_size(comm, &members);
    for (int root = 0; root < members; root++) {
        int value = mine == root ? 1000 + root : -1, sum = -1;
        MPI_Bcast(&value, 1, MPI_INT, root, comm);
        CHECK(value == 1000 + root);
        value = mine + root;
        MPI_Reduce(&value, &sum, 1, MPI_INT, MPI_SUM, root, comm);
        CHECK(mine != root || sum == members * (members - 1) / 2 + members * root);
        MPI_Request requests[2];
        int started = mine == root ? 2000 + root : -1, added = -1;
        MPI_Ibcast(&started, 1, MPI_INT, root, comm, &requests[0]);
        MPI_Ireduce(&value, &added, 1, MPI_INT, MPI_SUM, root, comm, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        CHECK(started == 2000 + root && (mine != root || added == sum));
    }
    int value = mine + 1, upto = -1;
    MPI_Scan(&value, &upto, 1, MPI_INT, MPI_SUM, comm);
    CHECK(upto == (mine + 1) * (mine + 2) / 2);
    MPI_Request request;
    upto = -1;
    MPI_Iscan(&value, &upto, 1, MPI_INT, MPI_SUM, comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(upto == (mine + 1) * (mine + 2) / 2);
    MPI_Allreduce(&value, &upto, 1, MPI_INT, MPI_SUM, comm);
    CHECK(upto == members * (members + 1) / 2);
    MPI_Barrier(comm);
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    const char *number = getenv("MPIR_CVAR_NUM_CLIQUES"), *blocks = getenv("MPIR_CVAR_CLIQUES_BY_BLOCK");
    int nodes = number ? atoi(number) : 1, is_dealt = !blocks || strcmp(blocks, "1");

    MPI_Comm node;
    int here;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_size(node, &here);
    /* The first ones have one more. */
    int rest = size % nodes, is_more = is_dealt ? rank % nodes < rest : rank < (size / nodes + 1) * rest;
    CHECK(here == size / nodes + is_more);
    collectives(node);
    MPI_Comm_free(&node);

    /* As the world, from the last to the first, even ones and odd ones, in pairs, without a
     * rule, all but the first, and one that is made of another. */
    int colors[] = { 0, 0, rank % 2, rank / 2, 0, rank > 0 };
    int keys[] = { rank, -rank, rank, rank, rank * 37 % 11, rank };
    for (size_t i = 0; i < sizeof colors / sizeof *colors; i++) {
        MPI_Comm all, half;
        MPI_Comm_split(MPI_COMM_WORLD, colors[i], keys[i], &all);
        collectives(all);
        int mine;
        MPI_Comm_rank(all, &mine);
        MPI_Comm_split(all, mine % 3 == 0, -mine, &half);
        collectives(half);
        MPI_Comm_free(&half);
        MPI_Comm_free(&all);
    }
    return finish();
}
