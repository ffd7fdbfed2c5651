/* Messages: order, wildcards, probes, matched probes, cancel, match bits. */
#include "test.h"

static void ring(struct job *job)
{
    int right = (job->rank + 1) % job->size, left = (job->rank + job->size - 1) % job->size;
    size_t lengths[] = {0, 1, 8, 1000, 20000, 1 << 20};

    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        size_t len = lengths[i];
        unsigned char *out = malloc(len + 1), *in = malloc(len + 1);
        rankway_request_t requests[2];
        rankway_status_t statuses[2];
        ENSURE(out && in);
        for (size_t b = 0; b < len; b++)
            out[b] = (unsigned char)(b * 31 + (size_t)job->rank + i);
        OK(rankway_irecv(in, len, left, (int)i, job->world, &requests[0]));
        if (i % 2)
            OK(rankway_isend(out, len, right, (int)i, job->world, &requests[1]));
        else
            OK(rankway_issend(out, len, right, (int)i, job->world, &requests[1]));
        OK(rankway_waitall(2, requests, statuses));
        ENSURE(statuses[0].source == left && statuses[0].tag == (int)i);
        ENSURE(statuses[0].count == len && !statuses[0].cancelled);
        ENSURE(statuses[0].peer == (uint32_t)left);
        for (size_t b = 0; b < len; b++)
            ENSURE(in[b] == (unsigned char)(b * 31 + (size_t)left + i));
        free(out);
        free(in);
    }
    OK(rankway_comm_barrier(job->world));
}

/* Everybody sends to rank 0, which takes what comes, in each sender's order. */
static void anybody(struct job *job)
{
    enum { EACH = 50 };
    rankway_request_t request;
    rankway_status_t status;
    int flag;

    if (job->rank > 0) {
        for (int i = 0; i < EACH; i++) {
            OK(rankway_isend(&i, sizeof i, 0, job->rank, job->world, &request));
            OK(rankway_wait(&request, NULL));
        }
    } else {
        int next[64] = {0};
        for (int i = 0; i < EACH * (job->size - 1); i++) {
            int got = -1;
            if (i % 3 == 0) {
                OK(rankway_probe(RANKWAY_ANY_SOURCE, RANKWAY_ANY_TAG, job->world, &status));
                ENSURE(status.count == sizeof got);
                OK(rankway_irecv(&got, sizeof got, status.source, status.tag, job->world, &request));
            } else if (i % 3 == 1) {
                rankway_message_t message;
                do
                    OK(rankway_improbe(RANKWAY_ANY_SOURCE, RANKWAY_ANY_TAG, job->world, &flag,
                                       &message, &status));
                while (!flag);
                OK(rankway_imrecv(&got, sizeof got, message, &request));
                REFUSED(RANKWAY_ERR_HANDLE, "freed", rankway_imrecv(&got, 4, message, &request));
            } else {
                OK(rankway_irecv(&got, sizeof got, RANKWAY_ANY_SOURCE, RANKWAY_ANY_TAG, job->world,
                                 &request));
            }
            OK(rankway_wait(&request, &status));
            ENSURE(status.tag == status.source && got == next[status.source]++);
        }
        OK(rankway_iprobe(RANKWAY_ANY_SOURCE, RANKWAY_ANY_TAG, job->world, &flag, NULL));
        ENSURE(!flag);
    }
    OK(rankway_comm_barrier(job->world));
}

static void cancelled(struct job *job)
{
    rankway_request_t request;
    rankway_status_t status;
    rankway_message_t message;
    int flag, word = 3, in = 0;

    OK(rankway_irecv(&in, sizeof in, RANKWAY_ANY_SOURCE, 77, job->world, &request));
    OK(rankway_test(&request, &flag, &status));
    ENSURE(!flag && request.id != 0);
    OK(rankway_cancel(request, &flag));
    ENSURE(flag);
    OK(rankway_wait(&request, &status));
    ENSURE(status.cancelled);
    /* Too late. */
    OK(rankway_isend(&word, sizeof word, job->rank, 78, job->world, &request));
    OK(rankway_wait(&request, NULL));
    OK(rankway_irecv(&in, sizeof in, job->rank, 78, job->world, &request));
    OK(rankway_cancel(request, &flag));
    ENSURE(!flag);
    OK(rankway_wait(&request, &status));
    ENSURE(!status.cancelled && in == 3);
    OK(rankway_isend(&word, sizeof word, job->rank, 79, job->world, &request));
    OK(rankway_wait(&request, NULL));
    OK(rankway_mprobe(job->rank, 79, job->world, &message, &status));
    ENSURE(status.count == sizeof word);
    OK(rankway_imrecv(&in, sizeof in, message, &request));
    OK(rankway_request_free(&request)); /* goes on by itself */
    OK(rankway_comm_barrier(job->world));
}

/* By match bits, as an MTL lays them out: context, source, tag. */
static void bits(struct job *job)
{
    uint32_t right = (uint32_t)(job->rank + 1) % (uint32_t)job->size;
    uint32_t left = (uint32_t)(job->rank + job->size - 1) % (uint32_t)job->size;
    uint64_t me = (uint64_t)job->rank << 32, out = 1000 + me, in = 0, tags = 0xffffffff;
    rankway_request_t send, receive;
    rankway_message_t message;
    rankway_status_t status;
    int flag;

    OK(rankway_tagged_isend(job->context, &out, 8, right, 5, me | 1, 1, &send));
    OK(rankway_tagged_irecv(job->context, &in, 8, left, 5, (uint64_t)left << 32, tags, &receive));
    OK(rankway_wait(&receive, &status));
    OK(rankway_wait(&send, NULL));
    ENSURE(status.bits == ((uint64_t)left << 32 | 1) && status.peer == left);
    ENSURE(in == 1000 + ((uint64_t)left << 32));
    OK(rankway_tagged_isend(job->context, &out, 8, right, 6, me | 2, 0, &send));
    OK(rankway_wait(&send, NULL));
    do
        OK(rankway_tagged_iprobe(job->context, -1, 6, 0, UINT64_MAX, &flag, &status));
    while (!flag);
    ENSURE(status.count == 8 && status.bits == ((uint64_t)left << 32 | 2));
    OK(rankway_tagged_improbe(job->context, left, 6, status.bits, 0, &flag, &message, &status));
    ENSURE(flag);
    OK(rankway_imrecv(&in, 8, message, &receive));
    OK(rankway_wait(&receive, NULL));
    OK(rankway_comm_barrier(job->world));
}

/* Messages of one communicator are not another's. */
static void apart(struct job *job)
{
    rankway_comm_t other;
    rankway_request_t request;
    int flag, a = 1, b = 2, in = 0;

    OK(rankway_comm_dup(job->world, &other));
    OK(rankway_isend(&a, sizeof a, job->rank, 0, job->world, &request));
    OK(rankway_wait(&request, NULL));
    OK(rankway_iprobe(job->rank, 0, other, &flag, NULL));
    ENSURE(!flag);
    OK(rankway_isend(&b, sizeof b, job->rank, 0, other, &request));
    OK(rankway_wait(&request, NULL));
    OK(rankway_irecv(&in, sizeof in, job->rank, 0, other, &request));
    OK(rankway_wait(&request, NULL));
    ENSURE(in == 2);
    OK(rankway_irecv(&in, sizeof in, job->rank, 0, job->world, &request));
    OK(rankway_wait(&request, NULL));
    ENSURE(in == 1);
    OK(rankway_comm_free(other));
}

/* Columns of a matrix of `n` rows and 3 columns, to the right, by every call; what
 * is received is contiguous, or a column again, and the rest of it is as it was. */
static void columns(struct job *job, uint64_t n)
{
    int right = (job->rank + 1) % job->size, left = (job->rank + job->size - 1) % job->size;
    size_t cells = 3 * (size_t)n;
    double *out = malloc(cells * sizeof *out), *in = malloc(cells * sizeof *in);
    rankway_type_t element, column;
    rankway_request_t requests[2];
    rankway_status_t status;
    rankway_message_t message;

    ENSURE(out && in);
    for (size_t i = 0; i < cells; i++)
        out[i] = (double)i + 0.5 * job->rank;
    for (int call = 0; call < 5; call++) {
        int packed = call == 1;
        OK(rankway_type_basic(RANKWAY_DOUBLE, &element));
        OK(rankway_type_vector(n, 1, 3, element, &column));
        for (size_t i = 0; i < cells; i++)
            in[i] = -1;
        /* A datatype may go before what was begun with it. */
        if (call == 0) {
            OK(rankway_irecv_type(in + 1, 1, column, left, 3, job->world, &requests[0]));
            OK(rankway_isend_type(out + 2, 1, column, right, 3, job->world, &requests[1]));
        } else if (call == 1) {
            OK(rankway_irecv_type(in, n, element, left, 3, job->world, &requests[0]));
            OK(rankway_issend_type(out + 2, 1, column, right, 3, job->world, &requests[1]));
        } else if (call == 2) {
            OK(rankway_isend_type(out + 2, 1, column, right, 3, job->world, &requests[1]));
            OK(rankway_mprobe(left, 3, job->world, &message, &status));
            ENSURE(status.count == 8 * n);
            OK(rankway_imrecv_type(in + 1, 1, column, message, &requests[0]));
        } else {
            int synchronous = call == 4;
            OK(rankway_tagged_irecv_type(job->context, in + 1, 1, column, left, 77, 5, 0,
                                         &requests[0]));
            OK(rankway_tagged_isend_type(job->context, out + 2, 1, column, (uint32_t)right, 77, 5,
                                         synchronous, &requests[1]));
        }
        OK(rankway_type_free(column));
        OK(rankway_type_free(element));
        OK(rankway_wait(&requests[0], &status));
        OK(rankway_wait(&requests[1], NULL));
        ENSURE(status.count == 8 * n && status.peer == (uint32_t)left);
        for (size_t i = 0; i < cells; i++) {
            size_t row = packed ? i : i / 3;
            int hit = packed ? i < n : i % 3 == 1;
            ENSURE(in[i] == (hit ? (double)(3 * row + 2) + 0.5 * left : -1));
        }
    }
    free(out);
    free(in);
    OK(rankway_comm_barrier(job->world));
}

/* Datatypes that are gone, no memory, and too little of it. */
static void refused(struct job *job)
{
    double out[8] = {0}, in[8] = {0};
    rankway_type_t element, column, gone;
    rankway_request_t requests[2];
    rankway_status_t status;

    OK(rankway_type_basic(RANKWAY_DOUBLE, &element));
    OK(rankway_type_vector(4, 1, 2, element, &column));
    gone = column;
    ENSURE(rankway_isend_type(NULL, 1, column, 0, 0, job->world, &requests[0]) == RANKWAY_ERR_NULL);
    OK(rankway_irecv_type(in, 3, element, job->rank, 0, job->world, &requests[0]));
    OK(rankway_isend_type(out, 1, column, job->rank, 0, job->world, &requests[1]));
    ENSURE(rankway_wait(&requests[0], &status) == RANKWAY_ERR_TRUNCATE && status.count == 32 &&
           status.peer == (uint32_t)job->rank);
    OK(rankway_wait(&requests[1], NULL));
    OK(rankway_type_free(column));
    OK(rankway_type_free(element));
    ENSURE(rankway_isend_type(out, 1, gone, 0, 0, job->world, &requests[0]) ==
           RANKWAY_ERR_HANDLE);
    ENSURE(rankway_irecv_type(in, 1, gone, 0, 0, job->world, &requests[0]) == RANKWAY_ERR_HANDLE);
}

static int body(void *unused)
{
    struct job job;
    rankway_options_t options = RANKWAY_OPTIONS_INIT;

    (void)unused;
    options.provider = getenv("TEST_PROVIDER");
    options.netmod = getenv("TEST_NETMOD");
    join(&job, &options);
    ring(&job);
    anybody(&job);
    cancelled(&job);
    bits(&job);
    apart(&job);
    columns(&job, 5);
    columns(&job, 1500);
    columns(&job, 100000);
    refused(&job);
    leave(&job);
    return 0;
}

int main(void)
{
    return ranks(3, body);
}
