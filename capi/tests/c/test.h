/* What the C tests share: calls that must succeed, calls that must be refused. */
#ifndef TEST_H
#define TEST_H
#include <rankway.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FAIL(...)                                            \
    do {                                                     \
        fprintf(stderr, "%s:%d: ", __FILE__, __LINE__);      \
        fprintf(stderr, __VA_ARGS__);                        \
        fputc('\n', stderr);                                 \
        exit(1);                                             \
    } while (0)

/* A condition that must hold. */
#define ENSURE(what)               \
    do {                           \
        if (!(what))               \
            FAIL("not so: %s", #what); \
    } while (0)

/* A call that must succeed. */
#define OK(call)                                                                        \
    do {                                                                                \
        int code_ = (call);                                                             \
        if (code_ != RANKWAY_SUCCESS)                                                   \
            FAIL("%s: %s (%s)", #call, rankway_error_message(), rankway_strerror(code_)); \
    } while (0)

/* A call that must be refused with a code, and say a word about it. */
#define REFUSED(code, word, call)                                                            \
    do {                                                                                     \
        int code_ = (call);                                                                  \
        if (code_ != (code))                                                                 \
            FAIL("%s answered %d (%s), not %s", #call, code_, rankway_strerror(code_), #code); \
        if (!strstr(rankway_error_message(), word))                                          \
            FAIL("%s said \"%s\", without \"%s\"", #call, rankway_error_message(), word);    \
    } while (0)

struct job {
    rankway_device_t device;
    rankway_context_t context;
    rankway_comm_t world;
    int rank, size;
};

static inline void join(struct job *job, const rankway_options_t *options)
{
    OK(rankway_init(options, &job->device, &job->context));
    OK(rankway_comm_world(job->context, &job->world));
    OK(rankway_comm_rank(job->world, &job->rank));
    OK(rankway_comm_size(job->world, &job->size));
}

static inline void leave(struct job *job)
{
    OK(rankway_comm_barrier(job->world));
    OK(rankway_comm_free(job->world));
    OK(rankway_context_close(job->context));
    OK(rankway_finalize(job->device));
}

/* Runs a test in so many ranks, bounded. */
static inline int ranks(int n, int (*body)(void *))
{
    int code = 1;
    alarm(100);
    if (rankway_launched())
        return body(NULL);
    OK(rankway_run_local(n, body, NULL, &code));
    return code;
}
#endif
