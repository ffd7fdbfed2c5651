/* Messages that nobody receives: more than the receiver would have told of by then, fewer than it
 * must let come. All ranks end. */
#include "check.h"

enum { COUNT = 200, LEN = 3000 };

int main(int argc, char **argv)
{
    static char bytes[LEN];
    start(&argc, &argv);
    for (int i = 0; i < COUNT; i++) {
        MPI_Request send;
        MPI_Isend(bytes, LEN, MPI_CHAR, (rank + 1) % size, i, world, &send);
        MPI_Request_free(&send);
    }
    return finish();
}
