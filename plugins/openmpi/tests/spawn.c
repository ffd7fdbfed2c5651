/* Dynamic processes: two generations of children, of two and of one, merged, over short and
 * long messages both ways; connect and accept between two halves, and two alone. */
#include "check.h"

static void talk(MPI_Comm comm, int len)
{
    int me, n;
    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &n);
    unsigned char *out = malloc(len), *in = malloc(len);
    for (int step = 1; step < n; step++) {
        int to = (me + step) % n, from = (me + n - step) % n;
        fill(out, len, me * 100 + to);
        memset(in, 0, len);
        MPI_Sendrecv(out, len, MPI_BYTE, to, step, in, len, MPI_BYTE, MPI_ANY_SOURCE, step, comm,
                     MPI_STATUS_IGNORE);
        CHECK(differs(in, len, from * 100 + me) == (size_t) len, "%d from %d", len, from);
    }
    int sum = 0;
    MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, comm);
    CHECK(sum == n * (n - 1) / 2);
    free(in);
    free(out);
}

static void merge_and_talk(MPI_Comm inter, int high)
{
    MPI_Comm merged;
    MPI_Intercomm_merge(inter, high, &merged);
    for (int len = 1; len <= 1 << 20; len *= 32)
        talk(merged, len);
    MPI_Comm_free(&merged);
}

/* Ranks 0 and 1 lead. */
static void connect_with(MPI_Comm half)
{
    MPI_Comm inter;
    char port[MPI_MAX_PORT_NAME] = "";
    if (rank == 0) {
        MPI_Open_port(MPI_INFO_NULL, port);
        MPI_Send(port, MPI_MAX_PORT_NAME, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
    } else if (rank == 1) {
        MPI_Recv(port, MPI_MAX_PORT_NAME, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    if (rank % 2 == 0)
        MPI_Comm_accept(port, MPI_INFO_NULL, 0, half, &inter);
    else
        MPI_Comm_connect(port, MPI_INFO_NULL, 0, half, &inter);
    merge_and_talk(inter, rank % 2);
    MPI_Comm_disconnect(&inter);
    if (rank == 0)
        MPI_Close_port(port);
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    MPI_Comm parent, children, half;
    MPI_Comm_get_parent(&parent);
    if (parent == MPI_COMM_NULL) {
        for (int generation = 0; generation < 2; generation++) {
            MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 2 - generation, MPI_INFO_NULL, 0, MPI_COMM_WORLD,
                           &children, MPI_ERRCODES_IGNORE);
            merge_and_talk(children, 0);
            MPI_Comm_disconnect(&children);
        }
        MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &half);
        connect_with(half);
        MPI_Comm_free(&half);
        if (rank < 2)
            connect_with(MPI_COMM_SELF);
        return finish();
    }
    merge_and_talk(parent, 1);
    MPI_Comm_disconnect(&parent);
    MPI_Finalize();
    return 0;
}
