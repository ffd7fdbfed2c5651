/* A job that does not come to its end: with windows, puts and messages under way rank 1
 * calls MPI_Abort ("abort"), is killed ("kill"), or all wait for ever once rank 0 has said
 * "ready" ("wait"); or one is that makes a file while it starts, else rank 1 ("start"). tests/run
 * looks for what is left behind. ("well": it ends at once.) */
#include <fcntl.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LONGS = 4096 };
static int dies;

static void say_ready(void)
{
    puts("ready");
    fflush(stdout);
}

/* In the place of the C library's. */
int mkstemp(char *name)
{
    for (unsigned left = (unsigned) getpid(), at = strlen(name) - 6; name[at]; left /= 10)
        name[at++] = (char) ('0' + left % 10);
    int made = open(name, O_CREAT | O_EXCL | O_RDWR, 0600);
    if (dies && made >= 0) {
        say_ready();
        raise(SIGKILL);
    }
    return made;
}

int main(int argc, char **argv)
{
    static long own[LONGS], value[LONGS];
    const char *end = argc > 1 ? argv[1] : "wait";
    long *base;
    int rank, ranks;
    MPI_Win created, allocated;
    MPI_Request request;
    dies = !strcmp(end, "start");
    MPI_Init(&argc, &argv);
    if (!strcmp(end, "well"))
        return MPI_Finalize();
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int next = (rank + 1) % ranks;
    MPI_Win_create(own, sizeof own, sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &created);
    MPI_Win_allocate(sizeof own, sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &base, &allocated);
    MPI_Win_lock_all(0, created);
    MPI_Win_lock_all(0, allocated);
    MPI_Put(value, LONGS, MPI_LONG, next, 0, LONGS, MPI_LONG, created);
    MPI_Put(value, LONGS, MPI_LONG, next, 0, LONGS, MPI_LONG, allocated);
    MPI_Win_flush(next, created);
    MPI_Isend(value, LONGS, MPI_LONG, next, 1, MPI_COMM_WORLD, &request);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        say_ready();
    if (rank == 1 && !strcmp(end, "abort"))
        MPI_Abort(MPI_COMM_WORLD, 7);
    if (rank == 1 && (dies || !strcmp(end, "kill")))
        raise(SIGKILL);
    MPI_Recv(value, 1, MPI_LONG, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return 0;
}
