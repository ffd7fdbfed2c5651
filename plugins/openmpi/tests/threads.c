/* MPI_THREAD_MULTIPLE: pairs of threads that talk at the same time, with
 * probes, collectives and long messages in between. */
#include "check.h"
#include <pthread.h>

enum { THREADS = 4, ROUNDS = 300, LONG = 60000 };
static MPI_Comm comms[THREADS];

static void *work(void *argument)
{
    int id = (int) (intptr_t) argument, other = rank ^ 1;
    unsigned char *out = malloc(LONG), *in = malloc(LONG);
    for (int i = 0; i < ROUNDS; i++) {
        int len = i % 10 == 9 ? LONG : i % 64;
        MPI_Request request;
        MPI_Status status;
        fill(out, len, id * 1000 + i + rank);
        if (i % 3 == 0) {
            MPI_Isend(out, len, MPI_BYTE, other, id, MPI_COMM_WORLD, &request);
            MPI_Recv(in, LONG, MPI_BYTE, other, id, MPI_COMM_WORLD, &status);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        } else if (i % 3 == 1) {
            MPI_Message message;
            MPI_Isend(out, len, MPI_BYTE, other, id, MPI_COMM_WORLD, &request);
            MPI_Mprobe(other, id, MPI_COMM_WORLD, &message, &status);
            MPI_Mrecv(in, LONG, MPI_BYTE, &message, &status);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        } else {
            MPI_Irecv(in, LONG, MPI_BYTE, other, id, MPI_COMM_WORLD, &request);
            MPI_Send(out, len, MPI_BYTE, other, id, MPI_COMM_WORLD);
            MPI_Wait(&request, &status);
        }
        int count;
        MPI_Get_count(&status, MPI_BYTE, &count);
        CHECK(count == len, "thread %d round %d: %d of %d", id, i, count, len);
        CHECK(differs(in, len, id * 1000 + i + other) == (size_t) len);
        if (i % 50 == 0) {
            int sum, one = 1;
            MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comms[id]);
            CHECK(sum == size);
        }
    }
    free(in);
    free(out);
    return NULL;
}

int main(int argc, char **argv)
{
    start_threads(&argc, &argv, MPI_THREAD_MULTIPLE);
    CHECK(size % 2 == 0, "an even number of ranks");
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, (void *) (intptr_t) i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++)
        MPI_Comm_free(&comms[i]);
    return finish();
}
