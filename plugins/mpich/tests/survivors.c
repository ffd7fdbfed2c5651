/* Rank 1 of 2 or 3 is killed. What the others ask of it fails with a class and its name, whether it
 * began before or after, and collectives fail in all who are left; they go on with each other,
 * over messages and a window, and end. One that is left alone waits for nobody. */
#include <mpi.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <stdlib.h>

enum { LONG = 1 << 20, DEAD = 1 };
static int rank, faults;
static long longs[LONG / 8], sums[LONG / 8];

static void fault(const char *what, const char *why)
{
    printf("rank %d: %s: %s\n", rank, what, why);
    faults++;
}

/* It must have failed, and say who died. */
static void died(const char *what, int code)
{
    char text[MPI_MAX_ERROR_STRING];
    int len, class = MPI_SUCCESS;
    if (code == MPI_SUCCESS) {
        fault(what, "succeeded");
        return;
    }
    MPI_Error_class(code, &class);
    MPI_Error_string(code, text, &len);
    if (class != MPIX_ERR_PROC_FAILED || !strstr(text, "rank 1"))
        fault(what, text);
}

/* It must have failed by the death, which another may have told. */
static void told(const char *what, int code)
{
    char text[MPI_MAX_ERROR_STRING] = "succeeded";
    int len, class = MPI_SUCCESS;
    if (code != MPI_SUCCESS) {
        MPI_Error_class(code, &class);
        MPI_Error_string(code, text, &len);
    }
    if (class != MPIX_ERR_PROC_FAILED)
        fault(what, text);
}

static void well(const char *what, int code)
{
    char text[MPI_MAX_ERROR_STRING];
    int len;
    if (code == MPI_SUCCESS)
        return;
    MPI_Error_string(code, text, &len);
    fault(what, text);
}

/* Collectives in which all depend on all. */
static void together(MPI_Comm comm)
{
    long mine = rank, all[3] = { 0 };
    MPI_Request request;
    MPI_Comm copy;
    int code;
    told("a barrier", MPI_Barrier(comm));
    told("an allreduce", MPI_Allreduce(&mine, all, 1, MPI_LONG, MPI_SUM, comm));
    told("a long allreduce", MPI_Allreduce(MPI_IN_PLACE, longs, LONG / 8, MPI_LONG, MPI_SUM, comm));
    told("a middling allreduce", MPI_Allreduce(MPI_IN_PLACE, longs, 500, MPI_LONG, MPI_SUM, comm));
    for (int count = 1; count <= LONG / 8; count *= 512) {
        code = MPI_Reduce(longs, sums, count, MPI_LONG, MPI_SUM, 2, comm);
        if (rank == 2)
            told("a reduce", code);
    }
    told("an allgather", MPI_Allgather(&mine, 1, MPI_LONG, all, 1, MPI_LONG, comm));
    code = MPI_Exscan(&mine, all, 1, MPI_LONG, MPI_SUM, comm);
    if (rank == 2)
        told("a scan of those before", code);
    told("a copy", MPI_Comm_dup(comm, &copy));
    told("a split", MPI_Comm_split(comm, 0, 0, &copy));
    code = MPI_Ibarrier(comm, &request);
    told("a barrier that is waited for",
         code == MPI_SUCCESS ? MPI_Wait(&request, MPI_STATUS_IGNORE) : code);
}

/* Where the dead one is a neighbour of both. */
static void neighbours(MPI_Comm ring)
{
    long mine[2] = { rank, rank }, theirs[4];
    told("an exchange of neighbours",
         MPI_Neighbor_alltoall(mine, 1, MPI_LONG, theirs, 1, MPI_LONG, ring));
    told("a gather of neighbours",
         MPI_Neighbor_allgather(mine, 2, MPI_LONG, theirs, 2, MPI_LONG, ring));
}

/* The other group is dead: none of this one waits for its leader, and they go on. */
static void groups(MPI_Comm local, MPI_Comm between)
{
    MPI_Comm made;
    MPI_Group group;
    long mine = 1, all = 0;
    MPI_Comm_group(local, &group);
    told("a merge", MPI_Intercomm_merge(between, 0, &made));
    told("a copy between groups", MPI_Comm_dup(between, &made));
    told("a split between groups", MPI_Comm_split(between, 0, 0, &made));
    told("a part of an intercommunicator", MPI_Comm_create(between, group, &made));
    told("an intercommunicator",
         MPI_Intercomm_create(local, 0, MPI_COMM_WORLD, DEAD, 11, &made));
    well("what is left", MPI_Allreduce(&mine, &all, 1, MPI_LONG, MPI_SUM, local));
    if (all != 2)
        fault("what is left", "another sum");
    MPI_Group_free(&group);
}

/* Ends of a window's life. */
static void windows(MPI_Comm comm, MPI_Win window)
{
    MPI_Win another;
    long *base;
    told("a fence", MPI_Win_fence(0, window));
    told("a window's end", MPI_Win_free(&window));
    told("a window's end again", MPI_Win_free(&window));
    told("another window", MPI_Win_allocate(8, 8, MPI_INFO_NULL, comm, &base, &another));
}

/* The other of two. */
static void alone(void)
{
    MPI_Request early;
    MPI_Message message;
    long got;
    MPI_Irecv(&got, 1, MPI_LONG, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &early);
    MPI_Send(&got, 1, MPI_LONG, DEAD, 9, MPI_COMM_WORLD);
    /* (The first of all errors: two of one origin met in it.) */
    told("a broadcast", MPI_Bcast(&got, 1, MPI_LONG, DEAD, MPI_COMM_WORLD));
    told("a receive from any that was waiting", MPI_Wait(&early, MPI_STATUS_IGNORE));
    told("a receive from any",
         MPI_Recv(&got, 1, MPI_LONG, MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    told("a probe of any", MPI_Probe(MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    told("a matched probe of any",
         MPI_Mprobe(MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE));
}

/* One that is left alone still meets others: a child, which connects as at any port. */
static void meet(char *self)
{
    MPI_Comm child;
    long got = 0;
    well("a spawn", MPI_Comm_spawn(self, (char *[]) { "child", NULL }, 1, MPI_INFO_NULL, 0,
                                   MPI_COMM_SELF, &child, MPI_ERRCODES_IGNORE));
    if (faults)
        return;
    well("a child's word", MPI_Recv(&got, 1, MPI_LONG, 0, 0, child, MPI_STATUS_IGNORE));
    well("a child's end", MPI_Comm_disconnect(&child));
    if (got != 7)
        fault("a child's word", "another");
}

static int be_child(void)
{
    MPI_Comm parent;
    long said = 7;
    MPI_Comm_get_parent(&parent);
    MPI_Send(&said, 1, MPI_LONG, 0, 0, parent);
    MPI_Comm_disconnect(&parent);
    MPI_Finalize();
    return 0;
}

static int survived(void)
{
    MPI_Finalize();
    if (!faults)
        puts("survived");
    return faults != 0;
}

int main(int argc, char **argv)
{
    MPI_Win window, fenced, dynamic, met;
    MPI_Request early, late, barrier, any, parts[2];
    MPI_Message message;
    int flag = 0, code, ranks;
    MPI_Comm before_it, after_it, meets_it, any_of, copy, ring, local, between;
    long *base, *at, value = 5, got = 0, before = 0;
    bool is_alone = false, are_alone;
    char *data = calloc(1, LONG), *into = calloc(1, LONG);
    void *kept;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc > 1)
        return be_child();
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    if (ranks == 2) {
        if (rank == DEAD) {
            MPI_Recv(&got, 1, MPI_LONG, 0, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            raise(SIGKILL);
        }
        alone();
        meet(argv[0]);
        return survived();
    }
    MPI_Win_allocate(2 * sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &base, &window);
    MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN);
    MPI_Win_allocate(8, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &at, &fenced);
    MPI_Win_set_errhandler(fenced, MPI_ERRORS_RETURN);
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &dynamic);
    MPI_Win_set_errhandler(dynamic, MPI_ERRORS_RETURN);
    MPI_Comm_dup(MPI_COMM_WORLD, &before_it);
    MPI_Comm_dup(MPI_COMM_WORLD, &after_it);
    MPI_Comm_dup(MPI_COMM_WORLD, &meets_it);
    MPI_Comm_dup(MPI_COMM_WORLD, &any_of);
    MPI_Cart_create(MPI_COMM_WORLD, 1, &ranks, &(int) { 1 }, 0, &ring);
    MPI_Comm_split(MPI_COMM_WORLD, rank == DEAD, 0, &local);
    MPI_Intercomm_create(local, 0, MPI_COMM_WORLD, rank == DEAD ? 0 : DEAD, 10, &between);
    int other = 2 - rank, space = LONG + MPI_BSEND_OVERHEAD;
    MPI_Buffer_attach(malloc(space), space);
    base[0] = base[1] = 0;
    MPI_Win_lock_all(0, window);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == DEAD) {
        MPI_Recv(&got, 1, MPI_LONG, 0, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Recv(&got, 1, MPI_LONG, 2, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        /* The first steps of a window that is being made: a copy, and what CH4 asks of all. */
        MPI_Comm_dup(meets_it, &copy);
        MPI_Allreduce(&is_alone, &are_alone, 1, MPI_C_BOOL, MPI_LAND, meets_it);
        raise(SIGKILL);
    }
    MPI_Irecv(&before, 1, MPI_LONG, DEAD, 0, MPI_COMM_WORLD, &early);
    MPI_Psend_init(data, 2, LONG / 2, MPI_CHAR, DEAD, 6, MPI_COMM_WORLD, MPI_INFO_NULL, &parts[0]);
    MPI_Precv_init(into, 2, LONG / 2, MPI_CHAR, DEAD, 6, MPI_COMM_WORLD, MPI_INFO_NULL, &parts[1]);
    MPI_Startall(2, parts);
    MPI_Pready_range(0, 1, parts[0]);
    MPI_Bsend(data, LONG, MPI_CHAR, DEAD, 12, MPI_COMM_WORLD);
    MPI_Irecv(&before, 1, MPI_LONG, MPI_ANY_SOURCE, 0, any_of, &any);
    MPI_Send(&value, 1, MPI_LONG, DEAD, 9, MPI_COMM_WORLD);

    /* It may be under way when the other dies. */
    well("a barrier's start", MPI_Ibarrier(before_it, &barrier));
    told("a window that met the death",
         MPI_Win_allocate(8, 8, MPI_INFO_NULL, meets_it, &at, &met));
    told("a barrier that met the death", MPI_Wait(&barrier, MPI_STATUS_IGNORE));
    died("a receive that was waiting", MPI_Wait(&early, MPI_STATUS_IGNORE));
    for (int again = 0; again < 2; again++) {
        died("a partitioned send", MPI_Wait(&parts[0], MPI_STATUS_IGNORE));
        died("a partitioned receive", MPI_Wait(&parts[1], MPI_STATUS_IGNORE));
        if (again == 0 && MPI_Startall(2, parts) == MPI_SUCCESS)
            MPI_Pready_range(0, 1, parts[0]);
    }
    MPI_Request_free(&parts[0]);
    MPI_Request_free(&parts[1]);
    died("a receive", MPI_Recv(&got, 1, MPI_LONG, DEAD, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    died("a long send", MPI_Send(data, LONG, MPI_CHAR, DEAD, 2, MPI_COMM_WORLD));
    died("a synchronous send", MPI_Ssend(&value, 1, MPI_LONG, DEAD, 2, MPI_COMM_WORLD));
    code = MPI_Isend(data, LONG, MPI_CHAR, DEAD, 2, MPI_COMM_WORLD, &late);
    died("a long send's wait", code == MPI_SUCCESS ? MPI_Wait(&late, MPI_STATUS_IGNORE) : code);
    died("a probe", MPI_Probe(DEAD, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    died("a matched probe", MPI_Mprobe(DEAD, 3, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE));
    well("a probe of the living",
         MPI_Iprobe(other, 99, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));

    /* Once in each communicator. */
    died("a receive from any that was waiting", MPI_Wait(&any, MPI_STATUS_IGNORE));
    died("a probe of any",
         MPI_Probe(MPI_ANY_SOURCE, 77, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    for (int i = 0; i < 2; i++) {
        MPI_Comm comm = i ? any_of : MPI_COMM_WORLD;
        well("a probe of any that are left",
             MPI_Iprobe(MPI_ANY_SOURCE, 99, comm, &flag, MPI_STATUS_IGNORE));
        well("a receive from any that are left",
             MPI_Sendrecv(&value, 1, MPI_LONG, other, 8, &got, 1, MPI_LONG, MPI_ANY_SOURCE, 8, comm,
                          MPI_STATUS_IGNORE));
    }

    double start = MPI_Wtime();
    do {
        code = MPI_Put(&value, 1, MPI_LONG, DEAD, 0, 1, MPI_LONG, window);
        if (code == MPI_SUCCESS)
            code = MPI_Win_flush(DEAD, window);
    } while (code == MPI_SUCCESS && MPI_Wtime() < start + 5);
    died("a put's flush", code);
    start = MPI_Wtime();
    do {
        code = MPI_Fetch_and_op(&value, &got, MPI_LONG, DEAD, 0, MPI_SUM, window);
        if (code == MPI_SUCCESS)
            code = MPI_Win_flush(DEAD, window);
    } while (code == MPI_SUCCESS && MPI_Wtime() < start + 5);
    died("a fetch's flush", code);

    /* (It was done with the call.) */
    well("a buffered send's end", MPI_Buffer_detach(&kept, &space));
    free(kept);
    together(after_it);
    groups(local, between);
    neighbours(ring);
    windows(after_it, fenced);
    windows(after_it, dynamic);
    for (int i = 0; i < 3; i++) {
        well("an exchange",
             MPI_Sendrecv(data, LONG >> 9 * i, MPI_CHAR, other, 4, into, LONG >> 9 * i, MPI_CHAR,
                          other, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    }
    value = 70 + rank;
    well("a put", MPI_Put(&value, 1, MPI_LONG, other, 1, 1, MPI_LONG, window));
    well("its flush", MPI_Win_flush(other, window));
    well("a receive of the living",
         MPI_Sendrecv(&value, 1, MPI_LONG, other, 5, &got, 1, MPI_LONG, other, 5, MPI_COMM_WORLD,
                      MPI_STATUS_IGNORE));
    MPI_Win_sync(window);
    if (got != 70 + other || base[1] != 70 + other)
        fault("values", "wrong");
    return survived();
}
