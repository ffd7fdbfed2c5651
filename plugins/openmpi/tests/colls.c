/* Collectives over messages, blocking and not, several under way. */
#include "check.h"

int main(int argc, char **argv)
{
    start(&argc, &argv);
    for (int n = 1; n <= 1 << 17; n *= 8) {
        int *one = malloc(n * sizeof *one), *all = malloc((size_t) n * size * sizeof *all);
        int *got = malloc((size_t) n * size * sizeof *got);
        for (int i = 0; i < n; i++)
            one[i] = rank + i;
        MPI_Allreduce(one, got, n, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        for (int i = 0; i < n; i++)
            CHECK(got[i] == size * (size - 1) / 2 + size * i);
        MPI_Allgather(one, n, MPI_INT, all, n, MPI_INT, MPI_COMM_WORLD);
        for (int r = 0; r < size; r++)
            for (int i = 0; i < n; i++)
                CHECK(all[(size_t) r * n + i] == r + i);
        for (int r = 0; r < size; r++)
            for (int i = 0; i < n; i++)
                all[(size_t) r * n + i] = rank * 1000 + r + i;
        MPI_Alltoall(all, n, MPI_INT, got, n, MPI_INT, MPI_COMM_WORLD);
        for (int r = 0; r < size; r++)
            for (int i = 0; i < n; i++)
                CHECK(got[(size_t) r * n + i] == r * 1000 + rank + i);
        for (int root = 0; root < size; root++) {
            for (int i = 0; i < n; i++)
                one[i] = rank == root ? root + i : -1;
            MPI_Bcast(one, n, MPI_INT, root, MPI_COMM_WORLD);
            for (int i = 0; i < n; i++)
                CHECK(one[i] == root + i);
        }
        MPI_Request requests[3];
        MPI_Ibarrier(MPI_COMM_WORLD, &requests[0]);
        MPI_Ialltoall(all, n, MPI_INT, got, n, MPI_INT, MPI_COMM_WORLD, &requests[1]);
        MPI_Ibcast(one, n, MPI_INT, 0, MPI_COMM_WORLD, &requests[2]);
        MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
        for (int r = 0; r < size; r++)
            CHECK(got[(size_t) r * n + n - 1] == r * 1000 + rank + n - 1);
        free(got);
        free(all);
        free(one);
    }
    return finish();
}
