/* Every length around the limits of packets, both ways, blocking and not, with
 * all send modes: each byte is looked at. */
#include "check.h"

enum { MODES = 4 };

static void put(int mode, unsigned char *buf, int len, int to, int tag)
{
    MPI_Request request = MPI_REQUEST_NULL;
    switch (mode) {
    case 0: MPI_Send(buf, len, MPI_BYTE, to, tag, MPI_COMM_WORLD); break;
    case 1: MPI_Ssend(buf, len, MPI_BYTE, to, tag, MPI_COMM_WORLD); break;
    case 2: MPI_Isend(buf, len, MPI_BYTE, to, tag, MPI_COMM_WORLD, &request); break;
    case 3: MPI_Issend(buf, len, MPI_BYTE, to, tag, MPI_COMM_WORLD, &request); break;
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    int other = rank ^ 1;
    unsigned char *buf = malloc((8 << 20) + 1);
    for (int mode = 0; other < size && mode < MODES; mode++) {
        for (int len = 0; len <= 8 << 20; len = len < 4 ? len + 1 : len * 2) {
            for (int more = -1; more <= 1; more++) {
                int n = len + more;
                if (n < 0 || n > 8 << 20)
                    continue;
                for (int sender = 0; sender < 2; sender++) {
                    if ((rank & 1) == sender) {
                        fill(buf, n, n + rank);
                        put(mode, buf, n, other, n & 1023);
                    } else {
                        MPI_Status status;
                        int count;
                        memset(buf, 0xee, n + 1);
                        MPI_Recv(buf, n + 1, MPI_BYTE, other, n & 1023, MPI_COMM_WORLD, &status);
                        MPI_Get_count(&status, MPI_BYTE, &count);
                        CHECK(count == n, "%d of %d", count, n);
                        CHECK(status.MPI_SOURCE == other && status.MPI_TAG == (n & 1023));
                        CHECK(differs(buf, n, n + other) == (size_t) n);
                        CHECK(buf[n] == 0xee);
                    }
                }
            }
        }
    }
    free(buf);
    return finish();
}
