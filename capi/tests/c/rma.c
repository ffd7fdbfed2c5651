/* One-sided operations: bytes arrive where they should, through every kind of
 * window, epoch and communicator, checked and unchecked. */
#include "test.h"

enum { WORDS = 64 };

/* A word that says who put it where. */
static uint64_t word_of(int from, int to, int at)
{
    return 0x0101010101010101u * (uint64_t)(17 * from + 5 * to + at + 1);
}

static void unchecked(struct job *job, rankway_win_t win, const rankway_access_t *access,
                      const uint64_t *from, size_t len, int rank, size_t disp)
{
    ptrdiff_t code;
    while ((code = rankway_put_unchecked(access, from, len, (uint32_t)rank, disp)) == RANKWAY_AGAIN)
        OK(rankway_progress(job->context));
    if (code == RANKWAY_FAILED)
        OK(rankway_win_error(win));
    ENSURE(code == 0);
}

/* Every rank puts into every rank's window, by both puts, of several lengths. */
static void all_to_all(struct job *job, rankway_comm_t comm, rankway_win_t win, uint64_t *mine)
{
    const rankway_access_t *access;
    int me, n, k = 5;
    uint64_t from[WORDS], back[WORDS];

    OK(rankway_comm_rank(comm, &me));
    OK(rankway_comm_size(comm, &n));
    OK(rankway_win_access(win, &access));
    ENSURE(access->ranks == (uint32_t)n && access->unit == 8);
    OK(rankway_win_lock_all(0, win));
    for (int to = 0; to < n; to++) {
        for (int at = 0; at < k; at++)
            from[at] = word_of(me, to, at);
        OK(rankway_put(from, 8, to, (size_t)(me * k), win));
        OK(rankway_put(from + 1, 16, to, (size_t)(me * k + 1), win));
        unchecked(job, win, access, from + 3, 8, to, (size_t)(me * k + 3));
        unchecked(job, win, access, from + 4, 5, to, (size_t)(me * k + 4));
        unchecked(job, win, access, from, 0, to, 0);
        OK(rankway_win_flush(to, win));
    }
    OK(rankway_win_unlock_all(win));
    OK(rankway_comm_barrier(comm));
    for (int of = 0; of < n; of++) {
        for (int at = 0; at < k; at++) {
            uint64_t want = word_of(of, me, at);
            ENSURE(memcmp(&mine[of * k + at], &want, at == 4 ? 5 : 8) == 0);
        }
    }
    OK(rankway_win_lock_all(0, win));
    OK(rankway_get(back, sizeof back, (me + 1) % n, 0, win));
    OK(rankway_win_flush_all(win));
    OK(rankway_win_unlock_all(win));
    for (int at = 0; at < 4; at++)
        ENSURE(back[me * k + at] == word_of(me, (me + 1) % n, at));
    OK(rankway_comm_barrier(comm));
}

static void windows(struct job *job, rankway_comm_t comm)
{
    rankway_win_t win;
    void *base;
    size_t bytes;
    uint64_t memory[WORDS] = {0};

    OK(rankway_win_allocate(sizeof memory, 8, comm, &base, &win));
    all_to_all(job, comm, win, base);
    OK(rankway_win_local(win, &base, &bytes));
    ENSURE(bytes == sizeof memory);
    OK(rankway_win_free(win));
    OK(rankway_win_create(memory, sizeof memory, 8, comm, &win));
    all_to_all(job, comm, win, memory);
    OK(rankway_win_free(win));
}

/* Each rank adds to rank 0's words, and swaps its way to a token. */
static void elements(struct job *job)
{
    rankway_win_t win;
    rankway_request_t request;
    int64_t one = 1, old, zero = 0, me = job->rank + 1;
    double half = 0.5;
    void *base;
    int64_t *mine;
    int turn = 0;

    OK(rankway_win_allocate(64, 8, job->world, &base, &win));
    mine = base;
    OK(rankway_win_lock_all(0, win));
    for (int i = 0; i < 100; i++) {
        OK(rankway_fetch_and_op(&one, &old, RANKWAY_INT64, 0, 0, RANKWAY_SUM, win));
        OK(rankway_win_flush(0, win));
        ENSURE(old >= 0 && old < 100 * job->size);
        OK(rankway_accumulate(&half, 1, RANKWAY_DOUBLE, 0, 1, RANKWAY_SUM, win));
    }
    /* A lock: nobody else counts while a rank holds it. */
    for (int i = 0; i < 20; i++) {
        int64_t count;
        do {
            OK(rankway_compare_and_swap(&me, &zero, &old, RANKWAY_INT64, 0, 2, win));
            OK(rankway_win_flush(0, win));
            OK(rankway_progress(job->context));
        } while (old != 0);
        OK(rankway_get(&count, 8, 0, 3, win));
        OK(rankway_win_flush(0, win));
        count++;
        OK(rankway_put(&count, 8, 0, 3, win));
        OK(rankway_win_flush(0, win));
        OK(rankway_accumulate(&zero, 1, RANKWAY_INT64, 0, 2, RANKWAY_REPLACE, win));
        OK(rankway_win_flush(0, win));
    }
    OK(rankway_win_flush_all(win));
    OK(rankway_comm_barrier(job->world));
    OK(rankway_get_accumulate(NULL, &old, 1, RANKWAY_INT64, 0, 0, RANKWAY_NO_OP, win));
    OK(rankway_win_flush(0, win));
    ENSURE(old == 100 * job->size);
    OK(rankway_rget_accumulate(NULL, &old, 1, RANKWAY_INT64, 0, 3, RANKWAY_NO_OP, win, &request));
    while (!turn)
        OK(rankway_test(&request, &turn, NULL));
    ENSURE(request.id == 0 && old == 20 * job->size);
    OK(rankway_win_unlock_all(win));
    OK(rankway_comm_barrier(job->world));
    if (job->rank == 0) {
        double sum;
        memcpy(&sum, &mine[1], sizeof sum);
        ENSURE(sum == 50.0 * job->size);
    }
    OK(rankway_win_free(win));
}

/* MPI_DOUBLE_INT, and MPI_MAXLOC of it as an operation of this program's own. */
struct double_int {
    double value;
    int index;
};
enum { MAXLOC = 7, PAIRS = 3 };

static struct double_int larger(struct double_int a, struct double_int b)
{
    return b.value > a.value || (b.value == a.value && b.index < a.index) ? b : a;
}

static int maxloc(uint64_t code, void *at, size_t span, const void *operand, size_t operand_bytes,
                  void *result, size_t result_bytes)
{
    struct double_int here, other;
    if (code != MAXLOC || span != operand_bytes || (result_bytes != 0 && result_bytes != span))
        return 1;
    if (result_bytes != 0)
        memcpy(result, at, span);
    for (size_t i = 0; i < span; i += sizeof here) {
        memcpy(&here, (char *)at + i, sizeof here);
        memcpy(&other, (const char *)operand + i, sizeof other);
        here = larger(here, other);
        memcpy((char *)at + i, &here, sizeof here);
    }
    return 0;
}

static int another(uint64_t code, void *at, size_t span, const void *operand, size_t operand_bytes,
                   void *result, size_t result_bytes)
{
    (void)code, (void)at, (void)span, (void)operand, (void)operand_bytes, (void)result;
    return (int)result_bytes;
}

/* What a rank says in a round of a pair: each value by two ranks. */
static struct double_int said(int rank, int round, int pair)
{
    struct double_int it;
    memset(&it, 0, sizeof it); /* no byte of it is left to chance */
    it.value = (rank / 2 + 3 * round + 5 * pair) % 17;
    it.index = rank;
    return it;
}

static void pairs(struct job *job)
{
    rankway_win_t win;
    rankway_request_t request;
    void *base;
    size_t limit;
    struct double_int mine[PAIRS], before[PAIRS], *there;
    int right = (job->rank + 1) % job->size;
    char *long_one, most[100];

    OK(rankway_win_allocate(sizeof mine, 1, job->world, &base, &win));
    memset(base, 0, sizeof mine);
    there = base;
    for (int pair = 0; pair < PAIRS; pair++)
        there[pair].value = -1;
    OK(rankway_win_lock_all(0, win));
    REFUSED(RANKWAY_ERR_PEER, "registered no operator",
            rankway_custom(MAXLOC, mine, sizeof mine, NULL, 0, job->rank, 0, sizeof mine, win, NULL));
    REFUSED(RANKWAY_ERR_NULL, "operator", rankway_register_operator(job->context, NULL));
    OK(rankway_register_operator(job->context, maxloc));
    OK(rankway_register_operator(job->context, maxloc));
    REFUSED(RANKWAY_ERR_ARG, "another operator", rankway_register_operator(job->context, another));
    OK(rankway_comm_barrier(job->world));
    for (int round = 0; round < 10; round++) {
        for (int to = 0; to < job->size; to++) {
            for (int pair = 0; pair < PAIRS; pair++)
                mine[pair] = said(job->rank, round, pair);
            if (round % 2)
                OK(rankway_custom(MAXLOC, mine, sizeof mine, NULL, 0, to, 0, sizeof mine, win,
                                  NULL));
            else
                OK(rankway_custom(MAXLOC, mine, sizeof mine, before, sizeof before, to, 0,
                                  sizeof mine, win, &request));
            memset(mine, 0, sizeof mine); /* it is free on return */
            if (round % 2)
                OK(rankway_win_flush(to, win));
            else
                OK(rankway_wait(&request, NULL));
            /* What was there is of somebody, or of nobody before the first. */
            for (int pair = 0; round % 2 == 0 && pair < PAIRS; pair++)
                ENSURE((before[pair].value == -1 && round == 0) ||
                       (before[pair].index < job->size && before[pair].value >= 0));
        }
    }
    REFUSED(RANKWAY_ERR_PEER, "its operator refused",
            rankway_custom(8, mine, 8, NULL, 0, job->rank, 0, 8, win, NULL));
    if (right != job->rank) {
        OK(rankway_custom(8, mine, 8, before, 8, right, 0, 8, win, &request));
        REFUSED(RANKWAY_ERR_PEER, "its operator refused", rankway_wait(&request, NULL));
        /* Without a request the flush tells, once. */
        OK(rankway_custom(8, mine, 8, before, 8, right, 0, 8, win, NULL));
        REFUSED(RANKWAY_ERR_PEER, "its operator refused", rankway_win_flush(right, win));
        OK(rankway_win_flush(right, win));
    }
    REFUSED(RANKWAY_ERR_RANGE, "displacements",
            rankway_custom(MAXLOC, mine, sizeof mine, NULL, 0, right, 8, sizeof mine, win, NULL));
    REFUSED(RANKWAY_ERR_NULL, "null",
            rankway_custom(MAXLOC, NULL, 8, NULL, 0, right, 0, 8, win, NULL));
    REFUSED(RANKWAY_ERR_RANK, "rank",
            rankway_custom(MAXLOC, mine, 8, NULL, 0, job->size, 0, 8, win, NULL));
    OK(rankway_custom_limit(right, win, &limit));
    ENSURE(limit >= 1024);
    long_one = calloc(1, limit + 1);
    ENSURE(long_one != NULL);
    snprintf(most, sizeof most, "%zu bytes of operand and 0 of result: at most %zu of", limit + 1, limit);
    REFUSED(RANKWAY_ERR_ARG, most,
            rankway_custom(MAXLOC, long_one, limit + 1, NULL, 0, right, 0, 8, win, NULL));
    snprintf(most, sizeof most, "8 bytes of operand and %zu of result: at most %zu of", limit + 1, limit);
    REFUSED(RANKWAY_ERR_ARG, most,
            rankway_custom(MAXLOC, mine, 8, long_one, limit + 1, right, 0, 8, win, NULL));
    free(long_one);
    OK(rankway_win_unlock_all(win));
    OK(rankway_comm_barrier(job->world));
    for (int pair = 0; pair < PAIRS; pair++) {
        struct double_int most = said(0, 0, pair);
        for (int round = 0; round < 10; round++)
            for (int rank = 0; rank < job->size; rank++)
                most = larger(most, said(rank, round, pair));
        ENSURE(there[pair].value == most.value && there[pair].index == most.index);
    }
    OK(rankway_win_free(win));
}

static void epochs(struct job *job)
{
    rankway_win_t win;
    rankway_request_t requests[2];
    int n = job->size, right = (job->rank + 1) % n, left = (job->rank + n - 1) % n, done = 0;
    uint64_t word = (uint64_t)job->rank + 1, back = 0;
    void *base;
    volatile uint64_t *mine;

    OK(rankway_win_allocate(64, 8, job->world, &base, &win));
    mine = base;
    OK(rankway_win_fence(RANKWAY_MODE_NOPRECEDE, win));
    OK(rankway_put(&word, 8, right, 0, win));
    OK(rankway_win_fence(RANKWAY_MODE_NOSUCCEED, win));
    ENSURE(mine[0] == (uint64_t)left + 1);

    OK(rankway_win_post(1, &left, 0, win));
    OK(rankway_win_start(1, &right, 0, win));
    OK(rankway_put(&word, 8, right, 1, win));
    OK(rankway_win_complete(win));
    while (!done)
        OK(rankway_win_test(win, &done));
    ENSURE(mine[1] == (uint64_t)left + 1);
    OK(rankway_win_post(1, &left, 0, win));
    OK(rankway_win_start(1, &right, 0, win));
    OK(rankway_win_complete(win));
    OK(rankway_win_wait(win));

    OK(rankway_win_lock(RANKWAY_LOCK_EXCLUSIVE, right, 0, win));
    OK(rankway_put(&word, 8, right, 2, win));
    OK(rankway_win_flush_local(right, win));
    OK(rankway_win_unlock(right, win));
    OK(rankway_comm_barrier(job->world));
    ENSURE(mine[2] == (uint64_t)left + 1);

    OK(rankway_win_lock_all(RANKWAY_MODE_NOCHECK, win));
    OK(rankway_rput(&word, 8, right, 3, win, &requests[0]));
    OK(rankway_rget(&back, 8, right, 2, win, &requests[1]));
    OK(rankway_waitall(2, requests, NULL));
    ENSURE(back == word && requests[0].id == 0 && requests[1].id == 0);
    OK(rankway_win_flush_local_all(win));
    OK(rankway_win_flush_all(win));
    OK(rankway_win_sync(win));
    OK(rankway_win_unlock_all(win));
    OK(rankway_comm_barrier(job->world));
    ENSURE(mine[3] == (uint64_t)left + 1);
    OK(rankway_win_free(win));
}

/* Every third word of a row goes into a column, backwards, and comes back; so do
 * operations on them. */
static void typed(struct job *job)
{
    enum { N = 16 };
    rankway_win_t win;
    rankway_type_t word, third, column;
    rankway_request_t request;
    int right = (job->rank + 1) % job->size, left = (job->rank + job->size - 1) % job->size;
    uint64_t from[3 * N], back[3 * N], *memory = calloc(N * N, 8);

    OK(rankway_type_basic(RANKWAY_UINT64, &word));
    OK(rankway_type_resized(word, 0, 24, &third));
    OK(rankway_type_vector(N, 1, -N, word, &column));
    for (int i = 0; i < 3 * N; i++)
        from[i] = word_of(job->rank, right, i), back[i] = 7;
    OK(rankway_win_create(memory, 8 * N * N, 8, job->world, &win));
    OK(rankway_win_lock_all(0, win));
    size_t last = N * (N - 1);
    OK(rankway_put_typed(from, N, third, right, last + 1, 1, column, win, NULL));
    OK(rankway_win_flush(right, win));
    OK(rankway_put_typed(from, N, third, right, last + 2, 1, column, win, &request));
    OK(rankway_wait(&request, NULL));
    OK(rankway_win_flush(right, win));
    OK(rankway_get_typed(back, N, third, right, last + 2, 1, column, win, &request));
    OK(rankway_wait(&request, NULL));
    for (int i = 0; i < N; i++)
        ENSURE(back[3 * i] == from[3 * i] && back[3 * i + 1] == 7);
    OK(rankway_accumulate_typed(from, N, third, right, last + 1, 1, column, RANKWAY_SUM, win, NULL));
    OK(rankway_win_flush(right, win));
    OK(rankway_get_accumulate_typed(from, N, third, back, N, third, right, last + 1, 1, column,
                                    RANKWAY_BXOR, win, &request));
    OK(rankway_wait(&request, NULL));
    for (int i = 0; i < N; i++)
        ENSURE(back[3 * i] == 2 * from[3 * i] && back[3 * i + 1] == 7);
    OK(rankway_get_accumulate_typed(NULL, 0, word, back, N, third, right, last + 1, 1, column,
                                    RANKWAY_NO_OP, win, NULL));
    OK(rankway_win_flush(right, win));
    for (int i = 0; i < N; i++)
        ENSURE(back[3 * i] == ((2 * from[3 * i]) ^ from[3 * i]));
    REFUSED(RANKWAY_ERR_ARG, "bytes",
            rankway_put_typed(from, N - 1, third, right, last, 1, column, win, NULL));
    REFUSED(RANKWAY_ERR_RANGE, "displacements 240 to 255 fit",
            rankway_put_typed(from, N, third, right, last - 1, 1, column, win, NULL));
    REFUSED(RANKWAY_ERR_HANDLE, "datatype",
            rankway_put_typed(from, N, third, right, last, 1, (rankway_type_t){0}, win, NULL));
    REFUSED(RANKWAY_ERR_NULL, "`origin`",
            rankway_put_typed(NULL, N, third, right, last, 1, column, win, NULL));
    REFUSED(RANKWAY_ERR_NULL, "`result`",
            rankway_get_accumulate_typed(from, N, third, NULL, N, third, right, last + 1, 1, column,
                                         RANKWAY_SUM, win, NULL));
    OK(rankway_win_unlock_all(win));
    OK(rankway_win_free(win));
    OK(rankway_type_free(word));
    OK(rankway_type_free(third));
    OK(rankway_type_free(column));
    for (int i = 0; i < N; i++) {
        uint64_t sent = word_of(left, job->rank, 3 * (N - 1 - i));
        ENSURE(memory[N * i] == 0 && memory[N * i + 3] == 0);
        ENSURE(memory[N * i + 1] == ((2 * sent) ^ sent));
        ENSURE(memory[N * i + 2] == sent);
    }
    free(memory);
}

static void shared(struct job *job)
{
    rankway_win_t win;
    void *base;
    size_t bytes;
    int unit;

    OK(rankway_win_allocate_shared(8, 8, job->world, &base, &win));
    OK(rankway_win_fence(0, win));
    memcpy(base, &(uint64_t){(uint64_t)job->rank}, 8);
    OK(rankway_win_fence(0, win));
    for (int rank = 0; rank < job->size; rank++) {
        uint64_t word;
        OK(rankway_win_shared_query(win, rank, &bytes, &unit, &base));
        ENSURE(bytes == 8 && unit == 8);
        memcpy(&word, base, 8);
        ENSURE(word == (uint64_t)rank);
    }
    OK(rankway_win_free(win));
}

static void dynamic(struct job *job)
{
    rankway_win_t win;
    rankway_request_t request;
    uint64_t word = 0, mine = 0, address = (uint64_t)(uintptr_t)&word;
    int right = (job->rank + 1) % job->size, left = (job->rank + job->size - 1) % job->size;
    uint64_t there;

    OK(rankway_win_create_dynamic(job->world, &win));
    REFUSED(RANKWAY_ERR_RANGE, "any memory", rankway_win_attach(win, &word, SIZE_MAX));
    OK(rankway_win_attach(win, &word, sizeof word));
    OK(rankway_isend(&address, 8, left, 1, job->world, &request));
    OK(rankway_wait(&request, NULL));
    OK(rankway_irecv(&there, 8, right, 1, job->world, &request));
    OK(rankway_wait(&request, NULL));
    mine = (uint64_t)job->rank + 40;
    OK(rankway_win_lock_all(0, win));
    OK(rankway_put(&mine, 8, right, (size_t)there, win));
    OK(rankway_get(&mine, 8, right, 8, win));
    REFUSED(RANKWAY_ERR_RANGE, "attach it there", rankway_win_flush(right, win));
    REFUSED(RANKWAY_ERR_RANGE, "leave the address space",
            rankway_put(&mine, 8, right, SIZE_MAX - 3, win));
    OK(rankway_win_unlock_all(win));
    OK(rankway_comm_barrier(job->world));
    ENSURE(word == (uint64_t)left + 40);
    OK(rankway_win_detach(win, &word));
    OK(rankway_win_free(win));
}

static int body(void *unused)
{
    struct job job;
    rankway_comm_t comm;
    rankway_rankmap_t map;
    const char *provider = getenv("TEST_PROVIDER");
    rankway_options_t options = RANKWAY_OPTIONS_INIT;
    int backwards[8], lpids[8], flag;

    (void)unused;
    options.provider = provider;
    options.netmod = getenv("TEST_NETMOD");
    join(&job, &options);
    ENSURE(job.size <= 8);
    windows(&job, job.world);
    OK(rankway_comm_dup(job.world, &comm));
    windows(&job, comm);
    OK(rankway_comm_free(comm));
    /* Ranks in reverse, by a list, by a split, and by an array of lpids. */
    for (int i = 0; i < job.size; i++)
        lpids[i] = backwards[i] = job.size - 1 - i;
    OK(rankway_comm_create(job.world, job.size, backwards, &comm));
    windows(&job, comm);
    OK(rankway_comm_free(comm));
    OK(rankway_comm_split(job.world, job.rank % 2, -job.rank, &comm));
    windows(&job, comm);
    OK(rankway_comm_free(comm));
    OK(rankway_comm_split(job.world, -1, 0, &comm));
    ENSURE(comm.id == 0);
    lpids[0] = backwards[job.size / 2]; /* no stride any more */
    lpids[job.size / 2] = backwards[0];
    OK(rankway_rankmap_from_lpids(0, job.size, lpids, &map));
    OK(rankway_comm_from_rankmap(job.context, map, 4711, &comm));
    OK(rankway_rankmap_free(map));
    windows(&job, comm);
    OK(rankway_comm_free(comm));
    elements(&job);
    pairs(&job);
    epochs(&job);
    typed(&job);
    OK(rankway_rank_is_local(0, job.world, &flag));
    if (flag)
        shared(&job);
    dynamic(&job);
    leave(&job);
    return 0;
}

int main(void)
{
    return ranks(4, body);
}
