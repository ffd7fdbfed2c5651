/* Wrong arguments: every one is refused with a code and a word, none crashes,
 * and what was right before works after. */
#include "test.h"

static void nulls(struct job *job)
{
    rankway_comm_t comm;
    rankway_win_t win;
    rankway_context_t context;
    rankway_device_t device;
    rankway_request_t request = {0};
    rankway_rankmap_t map;
    rankway_lookup_t lookup;
    int flag;

    memset(&comm, 0, sizeof comm);
    memset(&win, 0, sizeof win);
    memset(&context, 0, sizeof context);
    memset(&device, 0, sizeof device);
    memset(&map, 0, sizeof map);
    REFUSED(RANKWAY_ERR_NULL, "device", rankway_init(NULL, NULL, &context));
    REFUSED(RANKWAY_ERR_NULL, "context", rankway_init(NULL, &device, NULL));
    REFUSED(RANKWAY_ERR_NULL, "comm", rankway_comm_world(job->context, NULL));
    REFUSED(RANKWAY_ERR_NULL, "rank", rankway_comm_rank(job->world, NULL));
    REFUSED(RANKWAY_ERR_NULL, "request", rankway_wait(NULL, NULL));
    REFUSED(RANKWAY_ERR_NULL, "flag", rankway_test(&request, NULL, NULL));
    REFUSED(RANKWAY_ERR_NULL, "request", rankway_isend("x", 1, 0, 0, job->world, NULL));
    REFUSED(RANKWAY_ERR_NULL, "bytes", rankway_isend(NULL, 1, 0, 0, job->world, &request));
    REFUSED(RANKWAY_ERR_NULL, "lpids", rankway_rankmap_from_lpids(0, 4, NULL, &map));
    REFUSED(RANKWAY_ERR_NULL, "ranks", rankway_comm_create(job->world, 2, NULL, &comm));
    REFUSED(RANKWAY_ERR_NULL, "body", rankway_run_local(2, NULL, NULL, &flag));

    REFUSED(RANKWAY_ERR_HANDLE, "null", rankway_progress(context));
    REFUSED(RANKWAY_ERR_HANDLE, "null", rankway_comm_rank(comm, &flag));
    REFUSED(RANKWAY_ERR_HANDLE, "null", rankway_comm_free(comm));
    REFUSED(RANKWAY_ERR_HANDLE, "null", rankway_win_free(win));
    REFUSED(RANKWAY_ERR_HANDLE, "null", rankway_win_fence(0, win));
    REFUSED(RANKWAY_ERR_HANDLE, "null", rankway_put("x", 1, 0, 0, win));
    REFUSED(RANKWAY_ERR_HANDLE, "null", rankway_wait(&request, NULL));
    REFUSED(RANKWAY_ERR_HANDLE, "null", rankway_cancel(request, &flag));
    REFUSED(RANKWAY_ERR_HANDLE, "null", rankway_finalize(device));
    REFUSED(RANKWAY_ERR_HANDLE, "null", rankway_rankmap_free(map));
    REFUSED(RANKWAY_ERR_HANDLE, "null", rankway_rankmap_lookup(map, job->context, &lookup));
}

/* Handles of another kind, from nowhere, and with bits turned over. */
static void garbage(struct job *job)
{
    rankway_comm_t comm;
    rankway_win_t win;
    int out;
    uint64_t state = 88172645463325252u;

    comm.id = job->context.id;
    REFUSED(RANKWAY_ERR_HANDLE, "context handle", rankway_comm_rank(comm, &out));
    win.id = job->world.id;
    REFUSED(RANKWAY_ERR_HANDLE, "communicator handle", rankway_win_fence(0, win));
    comm.id = job->world.id + 1; /* the next place */
    REFUSED(RANKWAY_ERR_HANDLE, "never made", rankway_comm_rank(comm, &out));
    comm.id = job->world.id + (1u << 24); /* the next generation */
    REFUSED(RANKWAY_ERR_HANDLE, "never made", rankway_comm_rank(comm, &out));
    comm.id = UINT64_MAX;
    REFUSED(RANKWAY_ERR_HANDLE, "no handle", rankway_comm_rank(comm, &out));
    for (int i = 0; i < 100000; i++) {
        int code;
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        /* Half of them with the right kind and owner, wrong behind. */
        comm.id = i % 2 ? state : (job->world.id & ~(uint64_t)0xfffffffffff) | (state >> 20);
        if (comm.id == job->world.id)
            continue;
        code = rankway_comm_rank(comm, &out);
        if (code != RANKWAY_ERR_HANDLE && code != RANKWAY_ERR_THREAD)
            FAIL("handle %llx: %d", (unsigned long long)comm.id, code);
    }
}

static void freed(struct job *job)
{
    rankway_comm_t comm, again;
    rankway_win_t win;
    rankway_request_t request, copy;
    rankway_rankmap_t map;
    int out, lpids[] = {0, 1, 2};

    OK(rankway_comm_dup(job->world, &comm));
    OK(rankway_comm_free(comm));
    REFUSED(RANKWAY_ERR_HANDLE, "freed", rankway_comm_free(comm));
    REFUSED(RANKWAY_ERR_HANDLE, "freed", rankway_comm_size(comm, &out));
    OK(rankway_comm_dup(job->world, &again)); /* takes the place */
    ENSURE(again.id != comm.id);
    REFUSED(RANKWAY_ERR_HANDLE, "freed", rankway_comm_size(comm, &out));
    OK(rankway_comm_free(again));

    OK(rankway_win_allocate(64, 1, job->world, NULL, &win));
    OK(rankway_win_free(win));
    REFUSED(RANKWAY_ERR_HANDLE, "freed", rankway_win_free(win));
    REFUSED(RANKWAY_ERR_HANDLE, "freed", rankway_put("x", 1, 0, 0, win));
    REFUSED(RANKWAY_ERR_HANDLE, "freed", rankway_win_lock_all(0, win));

    OK(rankway_irecv(NULL, 0, job->rank, 9, job->world, &request));
    copy = request;
    OK(rankway_request_free(&request));
    ENSURE(request.id == 0);
    REFUSED(RANKWAY_ERR_HANDLE, "freed", rankway_wait(&copy, NULL));
    REFUSED(RANKWAY_ERR_HANDLE, "freed", rankway_test(&copy, &out, NULL));
    REFUSED(RANKWAY_ERR_HANDLE, "freed", rankway_cancel(copy, &out));

    OK(rankway_rankmap_from_lpids(0, 3, lpids, &map));
    OK(rankway_rankmap_free(map));
    REFUSED(RANKWAY_ERR_HANDLE, "freed", rankway_rankmap_free(map));
}

static void values(struct job *job)
{
    rankway_comm_t comm;
    rankway_win_t win;
    rankway_request_t request;
    rankway_rankmap_t map;
    rankway_process_t process;
    rankway_context_t context;
    rankway_status_t status;
    rankway_options_t options = RANKWAY_OPTIONS_INIT;
    rankway_device_t device;
    rankway_message_t message;
    int n = job->size, lpids[] = {0, -3}, twice[] = {0, 0}, far[] = {0, 99}, flag;
    uint64_t word = 1, old;
    uint32_t pgid;
    char byte = 0;

    OK(rankway_win_allocate(64, 8, job->world, NULL, &win));
    REFUSED(RANKWAY_ERR_EPOCH, "lock_all", rankway_put(&word, 8, 0, 0, win));
    REFUSED(RANKWAY_ERR_EPOCH, "lock_all", rankway_win_unlock_all(win));
    REFUSED(RANKWAY_ERR_RANK, "out of range", rankway_win_unlock(n, win));
    REFUSED(RANKWAY_ERR_EPOCH, "not locked", rankway_win_unlock(0, win));
    OK(rankway_win_lock_all(0, win));
    REFUSED(RANKWAY_ERR_RANK, "out of range", rankway_put(&word, 8, n, 0, win));
    REFUSED(RANKWAY_ERR_RANK, "out of range", rankway_put(&word, 8, -1, 0, win));
    REFUSED(RANKWAY_ERR_RANGE, "64 bytes", rankway_put(&word, 8, 0, 8, win));
    REFUSED(RANKWAY_ERR_RANGE, "window of rank 0", rankway_get(&old, 8, 0, SIZE_MAX / 4, win));
    REFUSED(RANKWAY_ERR_NULL, "null", rankway_put(NULL, 8, 0, 0, win));
    REFUSED(RANKWAY_ERR_NULL, "null", rankway_get(NULL, 8, 0, 0, win));
    OK(rankway_put(NULL, 0, 0, 0, win));
    REFUSED(RANKWAY_ERR_ARG, "rankway_type", rankway_accumulate(&word, 1, 77, 0, 0, 0, win));
    REFUSED(RANKWAY_ERR_ARG, "rankway_op",
            rankway_accumulate(&word, 1, RANKWAY_INT64, 0, 0, -1, win));
    REFUSED(RANKWAY_ERR_OP, "Band",
            rankway_accumulate(&word, 1, RANKWAY_DOUBLE, 0, 0, RANKWAY_BAND, win));
    REFUSED(RANKWAY_ERR_NULL, "`origin` of 24 bytes is null",
            rankway_accumulate(NULL, 3, RANKWAY_INT64, 0, 0, RANKWAY_SUM, win));
    REFUSED(RANKWAY_ERR_NULL, "8 bytes is null",
            rankway_fetch_and_op(NULL, &old, RANKWAY_INT64, 0, 0, RANKWAY_SUM, win));
    REFUSED(RANKWAY_ERR_NULL, "`result` of 8 bytes is null",
            rankway_fetch_and_op(&word, NULL, RANKWAY_INT64, 0, 0, RANKWAY_SUM, win));
    REFUSED(RANKWAY_ERR_ARG, "overlap",
            rankway_fetch_and_op(&word, &word, RANKWAY_INT64, 0, 0, RANKWAY_SUM, win));
    REFUSED(RANKWAY_ERR_NULL, "`compare` of 8 bytes is null",
            rankway_compare_and_swap(&word, NULL, &old, RANKWAY_INT64, 0, 0, win));
    REFUSED(RANKWAY_ERR_RANGE, "leave",
            rankway_accumulate(&word, SIZE_MAX / 4, RANKWAY_INT64, 0, 0, RANKWAY_SUM, win));
    REFUSED(RANKWAY_ERR_RANGE, "leave", rankway_put(&word, SIZE_MAX, 0, 1, win));
    REFUSED(RANKWAY_ERR_RANGE, "any memory",
            rankway_custom(1, &word, SIZE_MAX, NULL, 0, 0, 0, 8, win, NULL));
    REFUSED(RANKWAY_ERR_EPOCH, "unlock_all", rankway_win_fence(0, win));
    REFUSED(RANKWAY_ERR_EPOCH, "unlock_all", rankway_win_free(win));
    REFUSED(RANKWAY_ERR_ARG, "rankway_lock", rankway_win_lock(7, 0, 0, win));
    REFUSED(RANKWAY_ERR_ARG, "rankway_assert", rankway_win_fence(64, win));
    OK(rankway_put(&word, 8, job->rank, 0, win)); /* refused calls left it alone */
    OK(rankway_win_unlock_all(win));
    OK(rankway_win_free(win));
    /* Refused in all members together. */
    REFUSED(RANKWAY_ERR_ARG, "unit", rankway_win_allocate(64, job->rank ? 8 : 0, job->world, NULL, &win));
    REFUSED(RANKWAY_ERR_ARG, "unit", rankway_win_allocate(64, -8, job->world, NULL, &win));
    REFUSED(RANKWAY_ERR_NULL, "null", rankway_win_create(NULL, 64, 8, job->world, &win));
    REFUSED(job->rank ? RANKWAY_ERR_ARG : RANKWAY_ERR_RANGE, job->rank ? "unit" : "any memory",
            rankway_win_create(&word, job->rank ? 8 : SIZE_MAX, 8, job->world, &win));
    REFUSED(RANKWAY_ERR_MEMORY, "memory", rankway_win_allocate(SIZE_MAX / 2, 8, job->world, NULL, &win));
    REFUSED(RANKWAY_ERR_MEMORY, "memory", rankway_win_allocate(SIZE_MAX, 8, job->world, NULL, &win));
    OK(rankway_rankmap_affine(0, 0, 1, 1, &map));
    process = (rankway_process_t){0, 77};
    REFUSED(RANKWAY_ERR_ARG, "77", rankway_connect(job->context, process, &old));
    process = (rankway_process_t){5, 0};
    REFUSED(RANKWAY_ERR_ARG, "group 5", rankway_connect(job->context, process, &old));
    OK(rankway_rankmap_free(map));

    REFUSED(RANKWAY_ERR_RANK, "out of range", rankway_isend(&byte, 1, n, 0, job->world, &request));
    REFUSED(RANKWAY_ERR_RANK, "out of range", rankway_isend(&byte, 1, -2, 0, job->world, &request));
    REFUSED(RANKWAY_ERR_ARG, "tag", rankway_isend(&byte, 1, 0, -1, job->world, &request));
    REFUSED(RANKWAY_ERR_RANK, "out of range", rankway_irecv(&byte, 1, -7, 0, job->world, &request));
    REFUSED(RANKWAY_ERR_ARG, "length", rankway_waitall(-1, &request, NULL));
    OK(rankway_waitall(0, NULL, NULL));
    REFUSED(RANKWAY_ERR_RANK, "99",
            rankway_tagged_isend(job->context, &byte, 1, 99, 5, 0, 0, &request));
    REFUSED(RANKWAY_ERR_RANK, "99",
            rankway_tagged_irecv(job->context, &byte, 1, 99, 5, 0, 0, &request));
    REFUSED(RANKWAY_ERR_RANK, "99", rankway_tagged_iprobe(job->context, 99, 5, 0, 0, &flag, NULL));
    REFUSED(RANKWAY_ERR_NULL, "bytes",
            rankway_tagged_irecv(job->context, NULL, 1, -1, 5, 0, 0, &request));
    for (int peer = 0; peer < n; peer++) {
        const size_t wrong = (size_t)PTRDIFF_MAX + 1;
        uint32_t to = (uint32_t)peer;
        uint64_t id;
        REFUSED(RANKWAY_ERR_RANGE, "any memory",
                rankway_isend(&byte, SIZE_MAX, peer, 0, job->world, &request));
        REFUSED(RANKWAY_ERR_RANGE, "any memory",
                rankway_issend(&byte, wrong, peer, 0, job->world, &request));
        REFUSED(RANKWAY_ERR_RANGE, "any memory",
                rankway_tagged_isend(job->context, &byte, SIZE_MAX - 100, to, 5, 0, 0, &request));
        REFUSED(RANKWAY_ERR_RANGE, "any memory",
                rankway_cq_isend(job->context, &byte, wrong, to, 5, 0, 0, 55, &id));
        REFUSED(RANKWAY_ERR_RANGE, "any memory",
                rankway_irecv(&byte, SIZE_MAX, peer, 9, job->world, &request));
        REFUSED(RANKWAY_ERR_RANGE, "any memory",
                rankway_tagged_irecv(job->context, &byte, wrong, peer, 5, 0, 0, &request));
        REFUSED(RANKWAY_ERR_RANGE, "any memory",
                rankway_cq_irecv(job->context, &byte, SIZE_MAX, peer, 5, 0, 0, 66, &id));
    }
    /* A matched message stays. */
    OK(rankway_isend(&byte, 1, job->rank, 6, job->world, &request));
    OK(rankway_wait(&request, NULL));
    OK(rankway_mprobe(job->rank, 6, job->world, &message, NULL));
    REFUSED(RANKWAY_ERR_RANGE, "any memory", rankway_imrecv(&byte, SIZE_MAX, message, &request));
    OK(rankway_imrecv(&byte, 1, message, &request));
    OK(rankway_wait(&request, NULL));
    /* A message longer than its receive: who, how long. */
    OK(rankway_isend(&word, 8, job->rank, 5, job->world, &request));
    OK(rankway_wait(&request, NULL));
    OK(rankway_irecv(&byte, 1, job->rank, 5, job->world, &request));
    REFUSED(RANKWAY_ERR_TRUNCATE, "8 bytes", rankway_wait(&request, &status));
    ENSURE(request.id == 0 && status.count == 8 && status.tag == 5 && status.source == job->rank);

    REFUSED(RANKWAY_ERR_ARG, "twice", rankway_comm_create(job->world, 2, twice, &comm));
    REFUSED(RANKWAY_ERR_RANK, "99", rankway_comm_create(job->world, 2, far, &comm));
    REFUSED(RANKWAY_ERR_ARG, "length", rankway_comm_create(job->world, -4, far, &comm));
    REFUSED(RANKWAY_ERR_RANK, "out of range", rankway_comm_get_lpid(job->world, n, &process));
    REFUSED(RANKWAY_ERR_ARG, "-3", rankway_rankmap_from_lpids(0, 2, lpids, &map));
    OK(rankway_rankmap_from_lpids(0, 2, far, &map)); /* a map, but of nobody here */
    REFUSED(RANKWAY_ERR_ARG, "99", rankway_comm_from_rankmap(job->context, map, 1, &comm));
    OK(rankway_rankmap_free(map));
    OK(rankway_rankmap_from_lpids(0, 2, twice, &map));
    REFUSED(RANKWAY_ERR_ARG, "twice", rankway_comm_from_rankmap(job->context, map, 1, &comm));
    REFUSED(RANKWAY_ERR_ARG, "twice", rankway_comm_from_remote(job->context, map, 0, 1, &comm));
    OK(rankway_rankmap_free(map));
    OK(rankway_rankmap_affine(7, 0, 1, 2, &map)); /* a group that was never added */
    REFUSED(RANKWAY_ERR_ARG, "group 7", rankway_comm_from_rankmap(job->context, map, 1, &comm));
    REFUSED(RANKWAY_ERR_ARG, "group 7", rankway_group_add(job->device, map, &pgid));
    OK(rankway_rankmap_free(map));
    REFUSED(RANKWAY_ERR_ARG, "2147483647", rankway_rankmap_affine(0, 5, -3, 9, &map));

    options.abi = 9999;
    REFUSED(RANKWAY_ERR_ARG, "interface", rankway_init(&options, &device, &context));
    options.abi = RANKWAY_ABI;
    options.threads = 17;
    REFUSED(RANKWAY_ERR_ARG, "threads", rankway_init(&options, &device, &context));
    options.threads = 0;
    options.netmod = "tin cans";
    REFUSED(RANKWAY_ERR_ARG, "tin cans", rankway_init(&options, &device, &context));
    options.netmod = NULL;
    REFUSED(RANKWAY_ERR_BOOT, "is open", rankway_init(&options, &device, &context));
    REFUSED(RANKWAY_ERR_THREAD, "one thread", rankway_context_open(job->device, 1, &context));
    REFUSED(RANKWAY_ERR_ARG, "-7", rankway_context_open(job->device, -7, &context));
    OK(rankway_rank_is_local(0, job->world, &flag));
}

/* Lengths of active messages, to this process and to another. */
static void lengths(struct job *job)
{
    rankway_context_t context = job->context;
    rankway_comm_t world = job->world;
    size_t limit;
    char *hdr;
    int done;

    for (int peer = 0; peer < job->size; peer++) {
        OK(rankway_am_limit(peer, world, &limit));
        hdr = calloc(1, limit);
        REFUSED(RANKWAY_ERR_RANGE, "at most", rankway_am_send(peer, world, 9, hdr, 16, hdr, SIZE_MAX));
        REFUSED(RANKWAY_ERR_RANGE, "at most", rankway_am_send(peer, world, 9, hdr, SIZE_MAX, hdr, 1));
        REFUSED(RANKWAY_ERR_RANGE, "at most", rankway_am_send(peer, world, 9, hdr, 16, hdr, limit - 15));
        REFUSED(RANKWAY_ERR_RANGE, "with 1 bytes of header", rankway_am_send(peer, world, 9, hdr, 1, hdr, limit + 1));
        REFUSED(RANKWAY_ERR_RANGE, "at most 12 and", rankway_am_send(peer, world, 9, hdr, 12, hdr, limit + 1));
        REFUSED(RANKWAY_ERR_RANGE, "any memory", rankway_am_send(peer, world, 9, hdr, 0, hdr, SIZE_MAX));
        REFUSED(RANKWAY_ERR_RANGE, "any memory",
                rankway_am_post(context, (uint32_t)peer, 9, hdr, 0, hdr, SIZE_MAX, 1, &done));
        REFUSED(RANKWAY_ERR_RANGE, "any memory",
                rankway_am_post(context, (uint32_t)peer, 9, hdr, SIZE_MAX, hdr, 0, 1, &done));
        REFUSED(RANKWAY_ERR_RANGE, "header",
                rankway_am_post(context, (uint32_t)peer, 9, hdr, limit - 3, hdr, 0, 1, &done));
        OK(rankway_am_post(context, (uint32_t)peer, 9, hdr, limit - 4, hdr, 0, 1, &done));
        ENSURE(done == 1);
        free(hdr);
    }
}

/* What is in use is not freed. */
static void busy(struct job *job)
{
    rankway_win_t win;
    rankway_request_t request;
    char *memory = malloc(1 << 20), *from = calloc(1, 1 << 20);

    REFUSED(RANKWAY_ERR_BUSY, "communicators", rankway_context_close(job->context));
    REFUSED(RANKWAY_ERR_BUSY, "contexts", rankway_finalize(job->device));
    OK(rankway_win_create(memory, 1 << 20, 1, job->world, &win));
    OK(rankway_win_lock_all(0, win));
    OK(rankway_rput(from, 1 << 20, (job->rank + 1) % job->size, 0, win, &request));
    OK(rankway_win_unlock_all(win));
    REFUSED(RANKWAY_ERR_BUSY, "requests", rankway_win_free(win));
    OK(rankway_wait(&request, NULL));
    OK(rankway_win_free(win));
    OK(rankway_irecv(memory, 1, job->rank, 3, job->world, &request));
    REFUSED(RANKWAY_ERR_BUSY, "requests", rankway_context_close(job->context));
    OK(rankway_request_free(&request));
    free(memory);
    free(from);
}

struct other {
    struct job *job;
    rankway_win_t win;
    rankway_request_t request;
};

static void *other_thread(void *argument)
{
    struct other *other = argument;
    struct job *job = other->job;
    rankway_comm_t comm;
    int out;

    ENSURE(rankway_error_message()[0] == 0);
    REFUSED(RANKWAY_ERR_THREAD, "another thread", rankway_progress(job->context));
    REFUSED(RANKWAY_ERR_THREAD, "another thread", rankway_comm_rank(job->world, &out));
    REFUSED(RANKWAY_ERR_THREAD, "another thread", rankway_comm_dup(job->world, &comm));
    REFUSED(RANKWAY_ERR_THREAD, "another thread", rankway_win_free(other->win));
    REFUSED(RANKWAY_ERR_THREAD, "another thread", rankway_put("x", 1, 0, 0, other->win));
    REFUSED(RANKWAY_ERR_THREAD, "another thread", rankway_wait(&other->request, NULL));
    REFUSED(RANKWAY_ERR_THREAD, "another thread", rankway_context_close(job->context));
    return NULL;
}

static void wrong_thread(struct job *job)
{
    struct other other;
    pthread_t thread;
    char byte;

    other.job = job;
    OK(rankway_win_allocate(64, 8, job->world, NULL, &other.win));
    OK(rankway_irecv(&byte, 1, job->rank, 3, job->world, &other.request));
    ENSURE(pthread_create(&thread, NULL, other_thread, &other) == 0);
    ENSURE(pthread_join(thread, NULL) == 0);
    OK(rankway_request_free(&other.request));
    OK(rankway_win_free(other.win));
}

static void words(void)
{
    for (int code = -3; code < 30; code++)
        ENSURE(rankway_strerror(code) && rankway_strerror(code)[0]);
    ENSURE(strcmp(rankway_strerror(RANKWAY_SUCCESS), "success") == 0);
    ENSURE(rankway_error_peer() == -1);
}

static int body(void *unused)
{
    struct job job;

    (void)unused;
    join(&job, NULL);
    nulls(&job);
    garbage(&job);
    freed(&job);
    values(&job);
    lengths(&job);
    busy(&job);
    wrong_thread(&job);
    words();
    leave(&job);
    REFUSED(RANKWAY_ERR_HANDLE, "freed", rankway_progress(job.context));
    REFUSED(RANKWAY_ERR_HANDLE, "freed", rankway_finalize(job.device));
    return 0;
}

/* A setting that nothing is done with. */
static void settings(const char *name, const char *value)
{
    rankway_device_t device;
    rankway_context_t context;

    ENSURE(setenv(name, value, 1) == 0);
    REFUSED(RANKWAY_ERR_BOOT, name, rankway_init(NULL, &device, &context));
    ENSURE(unsetenv(name) == 0);
}

int main(void)
{
    settings("RANKWAY_TIMEOUT", "soon");
    settings("RANKWAY_MAP_STRATEGY", "nonsense");
    return ranks(2, body);
}
