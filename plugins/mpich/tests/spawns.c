/* One process spawns another again and again, as often as its argument says (40): what it
 * holds after half of them, in descriptors and in memory of malloc's, it holds at the end. (Tables
 * grow for some tens of them.) */
#include <fcntl.h>
#include <malloc.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int descriptors(void)
{
    int count = 0;
    for (int fd = 0; fd < 4096; fd++)
        count += fcntl(fd, F_GETFD) != -1;
    return count;
}

int main(int argc, char **argv)
{
    enum { VALUE = 7, SLACK = 16 * 1024 };
    MPI_Comm parent, child;
    int value = 0, times = argc > 1 ? atoi(argv[1]) : 40, wrong = 0, open = 0;
    size_t used = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) {
        MPI_Recv(&value, 1, MPI_INT, 0, 0, parent, MPI_STATUS_IGNORE);
        value++;
        MPI_Send(&value, 1, MPI_INT, 0, 0, parent);
        MPI_Comm_disconnect(&parent);
        MPI_Finalize();
        return 0;
    }
    for (int i = 0; i < times && !wrong; i++) {
        value = VALUE + i;
        MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &child,
                       MPI_ERRCODES_IGNORE);
        MPI_Send(&value, 1, MPI_INT, 0, 0, child);
        MPI_Recv(&value, 1, MPI_INT, 0, 0, child, MPI_STATUS_IGNORE);
        MPI_Comm_disconnect(&child);
        wrong = value != VALUE + i + 1;
        if (i == times / 2) {
            open = descriptors();
            used = mallinfo2().uordblks;
        }
        if (i % 100 == 99) {
            printf("%d: %d descriptors, %zu bytes\n", i + 1, descriptors(), mallinfo2().uordblks);
            fflush(stdout);
        }
    }
    size_t now = mallinfo2().uordblks;
    if (wrong || descriptors() > open + 4 || now > used + SLACK) {
        printf("%d spawns: %s, %d descriptors (%d before), %zu bytes (%zu before)\n", times,
               wrong ? "a wrong value" : "values right", descriptors(), open, now, used);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    puts("ok");
    MPI_Finalize();
    return 0;
}
