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
    leave(&job);
    return 0;
}

int main(void)
{
    return ranks(3, body);
}
