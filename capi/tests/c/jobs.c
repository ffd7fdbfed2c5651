/* Processes of other jobs: met by what they say of themselves, spoken to, forgotten when they
 * have ended. One job stays, others come and go; the last is killed, and one of those that
 * stayed: nobody waits for either for ever. */
#include "store.h"
#include <dirent.h>
#include <signal.h>

enum { STAYS = 2, COMES = 3, ROUNDS = 6, LONGEST = 1024, LONG = 100000 };

/* What the device layers of two jobs tell each other by their own ways. */
struct between {
    atomic_int told[STAYS + COMES];
    size_t bytes[STAYS + COMES];
    unsigned char introductions[STAYS + COMES][LONGEST];
};

struct state {
    struct job job;
    /* By the number of the sender. */
    int came[64];
};

static int hear(void *argument, uint32_t source, const void *hdr, size_t hdr_bytes,
                const void *data, size_t bytes)
{
    struct state *state = argument;
    const unsigned char *d = data;

    ENSURE(source >= (uint32_t)state->job.size && source < 64);
    ENSURE(hdr_bytes == 1 && bytes == LONG);
    for (size_t i = 0; i < bytes; i += 997)
        ENSURE(d[i] == (unsigned char)(i + *(const unsigned char *)hdr));
    state->came[source]++;
    return 0;
}

static void tell(struct state *state, struct between *between, int at)
{
    rankway_context_t context = state->job.context;
    size_t bytes;

    REFUSED(RANKWAY_ERR_RANGE, "space for 3", rankway_introduction(context, between->introductions[at], 3, &bytes));
    ENSURE(bytes > 3 && bytes <= LONGEST);
    REFUSED(RANKWAY_ERR_NULL, "introduction", rankway_introduction(context, NULL, bytes, &bytes));
    OK(rankway_introduction(context, between->introductions[at], LONGEST, &between->bytes[at]));
    ENSURE(between->bytes[at] == bytes);
    atomic_store(&between->told[at], 1);
}

/* A message to each of a communicator's ranks and one from each. (Waits that sleep open
 * descriptors, which are counted.) */
static void exchange(rankway_comm_t comm)
{
    int size, mine, in[8], out, done;
    rankway_request_t requests[16];

    OK(rankway_comm_size(comm, &size));
    OK(rankway_comm_rank(comm, &mine));
    out = 40 + mine;
    for (int i = 0; i < size; i++) {
        OK(rankway_irecv(&in[i], sizeof in[i], i, 3, comm, &requests[i]));
        OK(rankway_isend(&out, sizeof out, i, 3, comm, &requests[size + i]));
    }
    for (int i = 0; i < 2 * size; i++)
        do
            OK(rankway_test(&requests[i], &done, NULL));
        while (!done);
    for (int i = 0; i < size; i++)
        ENSURE(in[i] == 40 + i);
}

/* Communicators that the device layers of both jobs name alike: between the jobs, over all of
 * both, and duplicates. */
static void name_alike(struct state *state, const uint32_t *peers, int count)
{
    rankway_context_t context = state->job.context;
    int own = state->job.size, stays = own == STAYS;
    rankway_process_t processes[STAYS + COMES];
    rankway_rankmap_t map;
    rankway_comm_t comm, second;
    uint64_t channel, other;

    for (int i = 0; i < count; i++)
        processes[i] = (rankway_process_t){0, peers[i]};
    OK(rankway_rankmap_from_processes((uint32_t)count, processes, &map));
    OK(rankway_comm_from_remote(context, map, state->job.rank, 31, &comm));
    exchange(comm);
    OK(rankway_comm_dup(comm, &second));
    OK(rankway_comm_channel(comm, &channel));
    OK(rankway_comm_channel(second, &other));
    ENSURE(channel != other);
    exchange(second);
    OK(rankway_comm_free(second));
    OK(rankway_comm_free(comm));
    OK(rankway_rankmap_free(map));
    /* Those that stay first. */
    for (int i = 0; i < own; i++)
        processes[stays ? i : count + i] = (rankway_process_t){0, (uint32_t)i};
    for (int i = 0; i < count; i++)
        processes[stays ? own + i : i] = (rankway_process_t){0, peers[i]};
    OK(rankway_rankmap_from_processes(STAYS + COMES, processes, &map));
    OK(rankway_comm_from_rankmap(context, map, 32, &comm));
    exchange(comm);
    OK(rankway_comm_dup(comm, &second));
    exchange(second);
    /* The set-up channel is of one job. */
    rankway_win_t win;
    REFUSED(RANKWAY_ERR_ARG, "another job", rankway_comm_barrier(comm));
    REFUSED(RANKWAY_ERR_ARG, "another job", rankway_win_create(&channel, sizeof channel, 1, comm, &win));
    OK(rankway_comm_free(second));
    OK(rankway_comm_free(comm));
    OK(rankway_rankmap_free(map));
}

/* Meets all of the other job, and exchanges a message and a long active one with each. */
static void speak(struct state *state, struct between *between, int first, int count)
{
    rankway_context_t context = state->job.context;
    rankway_completion_t done[4];
    uint32_t peers[8];
    int in[8], out = 7000 + state->job.rank, open = 0, heard, flag, some;
    unsigned char header = (unsigned char)state->job.rank, *data = malloc(LONG);
    uint64_t id;

    for (size_t i = 0; i < LONG; i++)
        data[i] = (unsigned char)(i + header);
    for (int i = 0; i < count; i++) {
        while (!atomic_load(&between->told[first + i]))
            OK(rankway_progress(context));
        /* One that was cut anywhere is none. */
        for (size_t bytes = 0; bytes < between->bytes[first + i]; bytes++)
            ENSURE(rankway_meet(context, between->introductions[first + i], bytes, &peers[i]) != RANKWAY_SUCCESS);
        OK(rankway_meet(context, between->introductions[first + i], between->bytes[first + i], &peers[i]));
        ENSURE(peers[i] >= (uint32_t)state->job.size && peers[i] == peers[0] + (uint32_t)i);
    }
    for (int i = 0; i < count; i++) {
        OK(rankway_cq_irecv(context, &in[i], sizeof in[i], peers[i], 1, (uint64_t)i, 0, 1 + (uint64_t)i, &id));
        OK(rankway_cq_isend(context, &out, sizeof out, peers[i], 1,
                            (uint64_t)state->job.rank, 0, 100, &id));
        open += 1 + (id != 0);
        OK(rankway_am_post(context, peers[i], 2, &header, 1, data, LONG, 200, &flag));
        open += !flag;
    }
    do {
        OK(rankway_progress(context));
        OK(rankway_cq_read(context, done, 4, &some));
        for (int i = 0; i < some; i++)
            if (done[i].code != RANKWAY_SUCCESS)
                FAIL("cookie %d: %s", (int)done[i].cookie, rankway_error_message());
        open -= some;
        heard = 1;
        for (int i = 0; i < count; i++)
            heard &= state->came[peers[i]] > 0;
    } while (open || !heard);
    for (int i = 0; i < count; i++)
        if (in[i] != 7000 + i || state->came[peers[i]] != 1)
            FAIL("%d of %d has %d from %d, %d came", state->job.rank, state->job.size, in[i], i,
                 state->came[peers[i]]);
    name_alike(state, peers, count);
    /* They are there. (Those of one that leaves now may have ended.) */
    if (state->job.size == COMES) {
        OK(rankway_forget(context, peers[0], &flag));
        ENSURE(flag == 0);
    }
    OK(rankway_forget(context, 0, &flag));
    ENSURE(flag == 0);
    free(data);
}

/* Waits until a job has ended, and its numbers are free. */
static void forget(struct state *state)
{
    uint32_t first = (uint32_t)state->job.size, peer = first;
    int flag = 0;

    while (!flag) {
        OK(rankway_progress(state->job.context));
        OK(rankway_forget(state->job.context, peer, &flag));
    }
    memset(state->came, 0, sizeof state->came);
    /* Nobody has them now. */
    int value = 1;
    uint64_t id;
    REFUSED(RANKWAY_ERR_RANK, "range",
            rankway_cq_isend(state->job.context, &value, sizeof value, first, 1, 5, 0, 1, &id));
    REFUSED(RANKWAY_ERR_RANK, "rank 2",
            rankway_cq_irecv(state->job.context, &value, sizeof value, first, 1, 5, 0, 1, &id));
}

static int descriptors(void)
{
    DIR *all = opendir("/proc/self/fd");
    int count = 0;
    ENSURE(all);
    while (readdir(all))
        count++;
    closedir(all);
    return count;
}

static void begin(struct state *state, struct view *view, rankway_boot_t *boot)
{
    rankway_options_t options = RANKWAY_OPTIONS_INIT;

    options.boot = boot;
    options.netmod = getenv("TEST_NETMOD");
    options.provider = getenv("TEST_PROVIDER");
    boot->self = view;
    join(&state->job, &options);
    OK(rankway_am_register(state->job.context, 2, hear, state));
}

/* Makes progress until an operation has ended: how. */
static int ended(struct state *state, uint64_t cookie)
{
    rankway_completion_t done;
    int some = 0;

    while (!some) {
        OK(rankway_progress(state->job.context));
        OK(rankway_cq_read(state->job.context, &done, 1, &some));
    }
    ENSURE(done.cookie == cookie);
    return done.code;
}

/* Whether the next that ends does so because a peer died, and says whose. */
static int died(struct state *state, uint64_t cookie, const char *who)
{
    return ended(state, cookie) == RANKWAY_ERR_PEER_DIED && strstr(rankway_error_message(), who) != NULL;
}

/* What nobody receives of the one that dies: short, long, and long and matched. */
enum { UNREAD = 7, UNREAD_LONG, UNREAD_MATCHED };

/* Is killed once the one that stays has its first message, and has seen the others. */
static int dies(struct store *store, struct between *between, uint64_t id)
{
    static struct state state;
    struct view view = {store, 0, 1, 0};
    rankway_boot_t boot = {NULL, 0, 1, id, put, get, fence, node, NULL};
    uint32_t peer;
    uint64_t request;
    int value = 5;
    static unsigned char data[LONG];

    begin(&state, &view, &boot);
    tell(&state, between, STAYS);
    while (!atomic_load(&between->told[0]))
        OK(rankway_progress(state.job.context));
    OK(rankway_meet(state.job.context, between->introductions[0], between->bytes[0], &peer));
    for (int bits = UNREAD; bits <= UNREAD_MATCHED; bits++)
        OK(rankway_cq_isend(state.job.context, data, bits == UNREAD ? 8 : LONG, peer, 1, (uint64_t)bits, 0, 100, &request));
    OK(rankway_cq_isend(state.job.context, &value, sizeof value, peer, 1, 1, 0, 100, &request));
    while (!atomic_load(&between->told[1]))
        OK(rankway_progress(state.job.context));
    return raise(SIGKILL);
}

/* A message that one of another job is killed before it sends. */
static void outlive(struct state *state, struct between *between)
{
    rankway_context_t context = state->job.context;
    uint32_t peer;
    uint64_t id;
    int value = 0, flag = 0;
    rankway_message_t matched;
    rankway_request_t request;
    static unsigned char data[LONG];

    tell(state, between, 0);
    while (!atomic_load(&between->told[STAYS]))
        OK(rankway_progress(context));
    OK(rankway_meet(context, between->introductions[STAYS], between->bytes[STAYS], &peer));
    ENSURE(peer == STAYS);
    OK(rankway_cq_irecv(context, &value, sizeof value, peer, 1, 1, 0, 1, &id));
    ENSURE(ended(state, 1) == RANKWAY_SUCCESS && value == 5);
    for (uint64_t bits = UNREAD; bits < UNREAD_MATCHED; bits++)
        for (flag = 0; !flag;)
            OK(rankway_tagged_iprobe(context, peer, 1, bits, 0, &flag, NULL));
    for (flag = 0; !flag;)
        OK(rankway_tagged_improbe(context, peer, 1, UNREAD_MATCHED, 0, &flag, &matched, NULL));
    atomic_store(&between->told[1], 1);
    OK(rankway_cq_irecv(context, &value, sizeof value, peer, 1, 2, 0, 2, &id));
    ENSURE(died(state, 2, "rank 2 died"));
    forget(state);
    /* Its number may be another's: nothing of it is that one's. */
    OK(rankway_tagged_iprobe(context, -1, 1, 0, UINT64_MAX, &flag, NULL));
    ENSURE(!flag);
    OK(rankway_imrecv(data, LONG, matched, &request));
    REFUSED(RANKWAY_ERR_PEER_DIED, "rank 2 died", rankway_wait(&request, NULL));
}

static int comes(struct store *store, struct between *between, uint32_t rank, uint64_t id)
{
    static struct state state;
    struct view view = {store, rank, COMES, 0};
    rankway_boot_t boot = {NULL, rank, COMES, id, put, get, fence, node, NULL};

    begin(&state, &view, &boot);
    tell(&state, between, STAYS + (int)rank);
    speak(&state, between, 0, STAYS);
    leave(&state.job);
    return 0;
}

static int stays(struct store *store, struct between **between, uint32_t rank, uint64_t job)
{
    static struct state state;
    struct view view = {store, rank, STAYS, 0};
    rankway_boot_t boot = {NULL, rank, STAYS, job, put, get, fence, node, NULL};
    unsigned char garbage[40] = {1, 2, 3};
    uint32_t peer;
    uint64_t id;
    int before = 0, open;

    begin(&state, &view, &boot);
    REFUSED(RANKWAY_ERR_ARG, "none", rankway_meet(state.job.context, garbage, sizeof garbage, &peer));
    REFUSED(RANKWAY_ERR_ARG, "none", rankway_meet(state.job.context, garbage, 0, &peer));
    REFUSED(RANKWAY_ERR_NULL, "introduction", rankway_meet(state.job.context, NULL, 9, &peer));
    for (int round = 0; round < ROUNDS; round++) {
        tell(&state, between[round], (int)rank);
        OK(rankway_meet(state.job.context, between[round]->introductions[rank], between[round]->bytes[rank], &peer));
        ENSURE(peer == rank);
        speak(&state, between[round], STAYS, COMES);
        forget(&state);
        /* (A network library closes its sockets when it finds that the other end has.) */
        for (int tries = 0; (open = descriptors()) > before && round >= 2 && tries < 5000; tries++) {
            OK(rankway_progress(state.job.context));
            usleep(1000);
        }
        ENSURE(round < 2 || open <= before);
        before = open;
    }
    if (rank == 0)
        outlive(&state, between[ROUNDS]);
    OK(rankway_comm_barrier(state.job.world));
    if (rank != 0)
        return raise(SIGKILL);
    /* Of a member that nothing was sent to. */
    OK(rankway_cq_irecv(state.job.context, &open, sizeof open, 1, 1, 1, 0, 3, &id));
    ENSURE(died(&state, 3, "rank 1 died"));
    return 0;
}

static int is_killed(int status)
{
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

int main(void)
{
    struct between *between[ROUNDS + 1];
    struct store *store = new_store();
    uint64_t id = 0x10b50000 + (uint64_t)getpid() * 100;
    int status, bad = 0;
    pid_t stay[STAYS];

    alarm(100);
    for (int round = 0; round <= ROUNDS; round++) {
        between[round] = mmap(NULL, sizeof **between, PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        ENSURE(between[round] != MAP_FAILED);
    }
    for (uint32_t rank = 0; rank < STAYS; rank++) {
        stay[rank] = fork();
        ENSURE(stay[rank] >= 0);
        if (stay[rank] == 0) {
            alarm(100);
            exit(stays(store, between, rank, id));
        }
    }
    for (int round = 0; round < ROUNDS; round++) {
        struct store *other = new_store();
        pid_t all[COMES];
        for (uint32_t rank = 0; rank < COMES; rank++) {
            all[rank] = fork();
            ENSURE(all[rank] >= 0);
            if (all[rank] == 0) {
                alarm(100);
                exit(comes(other, between[round], rank, id + 1 + (uint64_t)round));
            }
        }
        for (int i = 0; i < COMES; i++) {
            ENSURE(waitpid(all[i], &status, 0) == all[i]);
            bad |= status;
        }
    }
    struct store *last = new_store();
    pid_t killed = fork();
    ENSURE(killed >= 0);
    if (killed == 0) {
        alarm(100);
        exit(dies(last, between[ROUNDS], id + 1 + ROUNDS));
    }
    ENSURE(waitpid(killed, &status, 0) == killed);
    bad |= !is_killed(status);
    for (int i = 0; i < STAYS; i++) {
        ENSURE(waitpid(stay[i], &status, 0) == stay[i]);
        bad |= i == 0 ? status : !is_killed(status);
    }
    return bad != 0;
}
