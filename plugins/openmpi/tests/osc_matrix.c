/* Plays programs that others wrote (tests/matrix): windows, epochs and steps
 * of every rank and thread, one line each, and compares every byte of all
 * memory with what one process alone would have made of it.
 *   osc_matrix FILE [NOTE]   NOTE: a file for the number of the case under way */
#include "matrix.h"
#include <fcntl.h>
#include <signal.h>

/* ---- windows ---- */

static void make(struct view *v)
{
    MPI_Aint bytes = (MPI_Aint) frame.sizes[rank];
    int unit = frame.units[rank];
    MPI_Info info = MPI_INFO_NULL;
    v->memory = NULL;
    if (!strcmp(frame.memory, "created") || !strcmp(frame.memory, "dynamic"))
        v->base = v->memory = guarded(frame.sizes[rank], (size_t) frame.skew);
    if (!strcmp(frame.memory, "created")) {
        MPI_Win_create(v->base, bytes, unit, info, v->comm, &v->win);
    } else if (!strcmp(frame.memory, "allocated")) {
        MPI_Win_allocate(bytes, unit, info, v->comm, &v->base, &v->win);
    } else if (!strcmp(frame.memory, "shared")) {
        MPI_Win_allocate_shared(bytes, unit, info, v->comm, &v->base, &v->win);
    } else if (!strcmp(frame.memory, "apart")) {
        MPI_Info_create(&info);
        MPI_Info_set(info, "alloc_shared_noncontig", "true");
        MPI_Win_allocate_shared(bytes, unit, info, v->comm, &v->base, &v->win);
        MPI_Info_free(&info);
    } else {
        MPI_Win_create_dynamic(info, v->comm, &v->win);
        if (bytes)
            MPI_Win_attach(v->win, v->base, bytes);
        MPI_Aint start;
        MPI_Get_address(v->base, &start);
        MPI_Allgather(&start, 1, MPI_AINT, v->starts, 1, MPI_AINT, v->comm);
    }
    v->made = 1;
}

static void give_back(struct view *v, const struct frame *old)
{
    if (!v->made)
        return;
    MPI_Barrier(v->comm);
    if (!strcmp(old->memory, "dynamic") && old->sizes[rank])
        MPI_Win_detach(v->win, v->base);
    MPI_Win_free(&v->win);
    if (v->memory)
        free(allocation(v->memory, (size_t) old->skew));
    v->made = 0;
}

/* ---- steps ---- */

static MPI_Aint place(const struct view *v, const struct step *s)
{
    if (!strcmp(frame.memory, "dynamic"))
        return MPI_Aint_add(v->starts[s->to], s->at);
    return s->at / frame.units[s->to];
}

static void issue(struct view *v, struct step *s)
{
    static const char *const acts[] = {"put", "get", "accumulate", "get_accumulate", "fetch_and_op",
                                       "compare_and_swap", "flush", "flush_local", "flush_all"};
    doing[v->index] = acts[s->act];
    MPI_Win win = v->win;
    if (s->act == FLUSH)
        MPI_Win_flush(s->to, win);
    if (s->act == FLUSH_LOCAL)
        MPI_Win_flush_local(s->to, win);
    if (s->act == FLUSH_ALL)
        MPI_Win_flush_all(win);
    if (s->act >= FLUSH)
        return;
    size_t skew = s->flags & ODD ? 1 : 0;
    s->origin = guarded(s->len, skew);
    s->result = guarded(s->len, skew);
    s->compare = guarded(s->len, skew);
    s->issued = 1;
    s->request = MPI_REQUEST_NULL;
    operand(s, s->origin);
    if (s->act == SWAP) {
        memcpy(s->compare, s->before, s->len);
        s->compare[0] ^= !hits(s);
    }
    MPI_Aint at = place(v, s);
    MPI_Op op = op_of(s->op);
    MPI_Datatype type = s->act <= GET ? MPI_BYTE : s->type;
    int n = (int) (s->act <= GET ? s->len : s->len / s->size), to = s->to, r = s->flags & REQUEST;
    MPI_Request *q = &s->request;
    switch (s->act) {
    case PUT:
        r ? MPI_Rput(s->origin, n, type, to, at, n, type, win, q)
          : MPI_Put(s->origin, n, type, to, at, n, type, win);
        break;
    case GET:
        r ? MPI_Rget(s->result, n, type, to, at, n, type, win, q)
          : MPI_Get(s->result, n, type, to, at, n, type, win);
        break;
    case ACC:
        r ? MPI_Raccumulate(s->origin, n, type, to, at, n, type, op, win, q)
          : MPI_Accumulate(s->origin, n, type, to, at, n, type, op, win);
        break;
    case GET_ACC:
        r ? MPI_Rget_accumulate(s->origin, n, type, s->result, n, type, to, at, n, type, op, win, q)
          : MPI_Get_accumulate(s->origin, n, type, s->result, n, type, to, at, n, type, op, win);
        break;
    case FETCH:
        MPI_Fetch_and_op(s->origin, s->result, type, to, at, op, win);
        break;
    default:
        MPI_Compare_and_swap(s->origin, s->compare, s->result, type, to, at, win);
    }
    if (s->flags & AT_ONCE && s->request != MPI_REQUEST_NULL)
        MPI_Wait(&s->request, MPI_STATUS_IGNORE);
}

/* Looks at the buffers of a step that is complete, and spoils them. */
static void collect(struct step *s, int thread)
{
    if (!s->issued)
        return;
    size_t skew = s->flags & ODD ? 1 : 0;
    unsigned char *sent = malloc(s->len + 1);
    operand(s, sent);
    compare(thread, "what was sent", s->origin, sent, s->len);
    if (s->before && s->flags & ALONE)
        compare(thread, "what came back", s->result, s->before, s->len);
    intact(thread, "around what was sent", s->origin, s->len, skew);
    intact(thread, "around what came back", s->result, s->len, skew);
    memset(s->origin, 0x11, s->len);
    memset(s->result, 0x11, s->len);
    free(sent);
    free(allocation(s->origin, skew));
    free(allocation(s->result, skew));
    free(allocation(s->compare, skew));
    s->issued = 0;
}

static void complete(struct view *v, struct epoch *e)
{
    doing[v->index] = e->completion;
    int all = !strcmp(e->completion, "Flush"), local = !strcmp(e->completion, "FlushLocal");
    int requests = !strcmp(e->completion, "Request");
    for (int i = 0; i < e->count && (all || local); i++)
        all ? MPI_Win_flush(e->targets[i], v->win) : MPI_Win_flush_local(e->targets[i], v->win);
    if (!strcmp(e->completion, "FlushAll"))
        MPI_Win_flush_all(v->win);
    for (int k = 0; k < e->n && requests; k++)
        if (e->steps[k].issued && e->steps[k].flags & REQUEST) {
            MPI_Wait(&e->steps[k].request, MPI_STATUS_IGNORE);
            collect(&e->steps[k], e->thread);
        }
    if (requests || !strcmp(e->completion, "End"))
        return;
    for (int k = 0; k < e->n; k++) {
        /* Complete by the flush; the requests still want their end. */
        if (e->steps[k].issued && e->steps[k].request != MPI_REQUEST_NULL)
            MPI_Wait(&e->steps[k].request, MPI_STATUS_IGNORE);
        collect(&e->steps[k], e->thread);
    }
}

/* Epochs that a process opens once, whichever of its threads work in it. */
static int joined(const struct epoch *e)
{
    return !strcmp(e->kind, "Fence") || !strcmp(e->kind, "Start") || !strcmp(e->kind, "LockAll");
}

static MPI_Group group_of(struct view *v, int *ranks, int n)
{
    MPI_Group all, some;
    MPI_Comm_group(v->comm, &all);
    MPI_Group_incl(all, n, ranks, &some);
    MPI_Group_free(&all);
    return some;
}

/* Opens and ends an epoch; for joined ones with the targets of all threads. */
static void open_epoch(struct view *v, struct epoch *e, struct epoch *other)
{
    doing[v->index] = "opening an epoch";
    if (!strcmp(e->kind, "LockAll"))
        MPI_Win_lock_all(0, v->win);
    else if (!strcmp(e->kind, "Start")) {
        int targets[2 * TARGETS], n = 0;
        for (int i = 0; i < size; i++) {
            int in = 0;
            for (int k = 0; k < e->count; k++)
                in |= e->targets[k] == i;
            for (int k = 0; other && k < other->count; k++)
                in |= other->targets[k] == i;
            if (in)
                targets[n++] = i;
        }
        MPI_Group group = group_of(v, targets, n);
        MPI_Win_start(group, 0, v->win);
        MPI_Group_free(&group);
    } else if (!joined(e))
        for (int i = 0; i < e->count; i++)
            MPI_Win_lock(!strcmp(e->kind, "Shared") ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE,
                         e->targets[i], 0, v->win);
}

static void end_epoch(struct view *v, struct epoch *e, const struct phase *p)
{
    doing[v->index] = "ending an epoch";
    if (!strcmp(e->kind, "Fence"))
        MPI_Win_fence(p->seed % 2 ? MPI_MODE_NOSUCCEED : 0, v->win);
    else if (!strcmp(e->kind, "Start"))
        MPI_Win_complete(v->win);
    else if (!strcmp(e->kind, "LockAll"))
        MPI_Win_unlock_all(v->win);
    else
        for (int i = 0; i < e->count; i++)
            MPI_Win_unlock(e->targets[i], v->win);
}

static void meet(int pair)
{
    if (pair)
        pthread_barrier_wait(&both);
}

/* One thread's epochs in a phase. `pair`: another works on the same window. */
static void work(struct view *v, const struct phase *p, int thread, int pair)
{
    int lead = !pair || thread == 0;
    for (int i = 0; i < p->epochs; i++) {
        struct epoch *e = &epochs[p->epochs_from + i], *other = NULL;
        if (e->rank != rank || e->thread != thread)
            continue;
        int once = pair && joined(e);
        for (int k = 0; once && k < p->epochs; k++) {
            struct epoch *o = &epochs[p->epochs_from + k];
            if (o->rank == rank && o->thread != thread)
                other = o;
        }
        if (!once || lead)
            open_epoch(v, e, other);
        meet(once);
        for (int k = 0; k < e->n; k++)
            issue(v, &e->steps[k]);
        complete(v, e);
        if (p->held) {
            meet(pair);
            if (lead) {
                doing[v->index] = "barrier behind the flush";
                MPI_Barrier(v->comm);
                look(v, thread, "after the flush");
                MPI_Barrier(v->comm);
            }
            meet(pair);
        }
        meet(once);
        if (!once || lead)
            end_epoch(v, e, p);
        meet(once);
        for (int k = 0; k < e->n; k++) {
            if (e->steps[k].issued && e->steps[k].request != MPI_REQUEST_NULL)
                MPI_Wait(&e->steps[k].request, MPI_STATUS_IGNORE);
            collect(&e->steps[k], thread);
        }
    }
}

struct second {
    struct view *v;
    const struct phase *p;
};

static void *second(void *argument)
{
    struct second *s = argument;
    work(s->v, s->p, 1, 1);
    return NULL;
}

/* All phases of one window. */
static void play(struct view *v)
{
    int thread = v->index;
    for (int i = 0; i < phase_count; i++) {
        struct phase *p = &phases[i];
        before(v, p);
        outcome(v, p);
        doing[v->index] = "barrier before the phase";
        MPI_Barrier(v->comm);
        if (!strcmp(p->sync, "Fence"))
            MPI_Win_fence(MPI_MODE_NOPRECEDE, v->win);
        int origins[RANKS], n = 0, group = !strcmp(p->sync, "Group");
        if (group) {
            for (int r = 0; r < size; r++) {
                int works = 0;
                for (int k = 0; k < p->epochs; k++) {
                    struct epoch *e = &epochs[p->epochs_from + k];
                    for (int t = 0; t < e->count && e->rank == r; t++)
                        works |= e->targets[t] == rank && window_of(e->thread) == v->index;
                }
                if (works)
                    origins[n++] = r;
            }
            MPI_Group from = group_of(v, origins, n);
            MPI_Win_post(from, 0, v->win);
            MPI_Group_free(&from);
        }
        if (frame.threads == SAME) {
            struct second s = {v, p};
            pthread_t other;
            CHECK(!pthread_create(&other, NULL, second, &s));
            work(v, p, 0, 1);
            pthread_join(other, NULL);
        } else {
            work(v, p, thread, 0);
        }
        doing[v->index] = "the end of the phase";
        if (group)
            MPI_Win_wait(v->win);
        MPI_Barrier(v->comm);
        look(v, thread, "after the epoch");
        if (beside())
            MPI_Barrier(v->comm);
    }
}

static struct frame last;
static int changed;

/* Everything of one window: with two threads, at the same time as the other. */
static void *whole(void *argument)
{
    struct view *v = argument;
    if (changed) {
        doing[v->index] = "freeing a window";
        give_back(v, &last);
        doing[v->index] = "making a window";
        make(v);
    }
    play(v);
    return NULL;
}

static void run(int note)
{
    char text[32];
    if (note >= 0 && pwrite(note, text, (size_t) snprintf(text, sizeof text, "%20ld", number), 0) < 0)
        perror("note");
    alarm(PATIENCE);
    changed = memcmp(&frame, &last, sizeof frame) != 0;
    wrong = 0;
    if (changed && frame.threads != OWN)
        give_back(&views[1], &last);
    pthread_t other;
    if (frame.threads == OWN)
        CHECK(!pthread_create(&other, NULL, whole, &views[1]));
    whole(&views[0]);
    if (frame.threads == OWN)
        pthread_join(other, NULL);
    last = frame;
    failed += wrong != 0;
}

/* ---- reading ---- */

static void *more(void *array, int count, size_t each)
{
    if (count & (count - 1))
        return array;
    array = realloc(array, (count ? 2 * (size_t) count : 1) * each);
    memset((char *) array + (size_t) count * each, 0, (count ? (size_t) count : 1) * each);
    return array;
}

static int named(const char *text, const char *const *names, int n)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(text, names[i]))
            return i;
    CHECK(0, "%s", text);
}

static void read_epoch(char *line)
{
    epochs = more(epochs, epoch_count, sizeof *epochs);
    struct epoch *e = &epochs[epoch_count++];
    memset(e, 0, sizeof *e);
    int used;
    CHECK(sscanf(line, "epoch %d %d %11s %11s%n", &e->rank, &e->thread, e->kind, e->completion, &used)
          == 4);
    for (char *at = line + used; *at && *at != '\n';)
        e->targets[e->count++] = (int) strtol(at, &at, 10);
    phases[phase_count - 1].epochs++;
}

static void read_step(const char *line)
{
    static const char *const acts[] = {"Put", "Get", "Accumulate", "GetAccumulate", "FetchAndOp",
                                       "CompareAndSwap", "Flush", "FlushLocal", "FlushAll"};
    struct epoch *e = &epochs[epoch_count - 1];
    e->steps = more(e->steps, e->n, sizeof *e->steps);
    struct step *s = &e->steps[e->n++];
    memset(s, 0, sizeof *s);
    char act[20], type[8], op[12];
    unsigned long long seed;
    CHECK(sscanf(line, "step %19s %d %ld %zu %7s %11s %llu %d", act, &s->to, &s->at, &s->len, type, op,
                 &seed, &s->flags) == 8, "%s", line);
    s->seed = seed;
    s->act = (enum act) named(act, acts, 9);
    s->type = type_of(type, &s->size);
    s->op = named(op, op_names, 9);
}

static void forget(void)
{
    for (int i = 0; i < epoch_count; i++) {
        for (int k = 0; k < epochs[i].n; k++)
            free(epochs[i].steps[k].before);
        free(epochs[i].steps);
    }
    free(epochs);
    free(phases);
    free(zeros);
    epochs = NULL, phases = NULL, zeros = NULL;
    epoch_count = phase_count = zero_count = 0;
}

static void read_window(char *line)
{
    memset(&frame, 0, sizeof frame);
    int used;
    CHECK(sscanf(line, "window %15s %d %d%n", frame.memory, &frame.threads, &frame.skew, &used) == 3);
    char *at = line + used;
    for (int r = 0; r < size; r++)
        frame.sizes[r] = strtoul(at, &at, 10);
    for (int r = 0; r < size; r++)
        frame.units[r] = (int) strtol(at, &at, 10);
}

static void read_phase(const char *line)
{
    phases = more(phases, phase_count, sizeof *phases);
    struct phase *p = &phases[phase_count++];
    memset(p, 0, sizeof *p);
    unsigned long long seed;
    CHECK(sscanf(line, "phase %11s %llu %d", p->sync, &seed, &p->held) == 3);
    p->seed = seed;
    p->epochs_from = epoch_count;
    p->zeros_from = zero_count;
}

static void read_zero(const char *line)
{
    zeros = more(zeros, zero_count, sizeof *zeros);
    struct zero *z = &zeros[zero_count++];
    CHECK(sscanf(line, "zero %d %d %zu %zu", &z->window, &z->rank, &z->at, &z->len) == 4);
    phases[phase_count - 1].zeros++;
}

int main(int argc, char **argv)
{
    FILE *in = argc > 1 ? fopen(argv[1], "r") : NULL;
    char line[1024];
    /* The first line says whether threads are asked for. */
    int several = 0, cases = 0;
    if (!in || !fgets(line, sizeof line, in) || sscanf(line, "threads %d", &several) != 1) {
        fprintf(stderr, "usage: osc_matrix FILE [NOTE], FILE from: make test-matrix\n");
        return 2;
    }
    start_threads(&argc, &argv, several ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE);
    CHECK(size <= RANKS);
    signal(SIGALRM, late);
    pthread_barrier_init(&both, NULL, 2);
    for (int i = 0; i < 2; i++) {
        views[i].index = i;
        MPI_Comm_dup(world, &views[i].comm);
    }
    int note = argc > 2 && rank == 0 ? open(argv[2], O_WRONLY) : -1;
    while (fgets(line, sizeof line, in)) {
        if (!strncmp(line, "step", 4))
            read_step(line);
        else if (!strncmp(line, "epoch", 5))
            read_epoch(line);
        else if (!strncmp(line, "window", 6))
            read_window(line);
        else if (!strncmp(line, "phase", 5))
            read_phase(line);
        else if (!strncmp(line, "zero", 4))
            read_zero(line);
        else if (!strncmp(line, "case", 4))
            CHECK(sscanf(line, "case %ld %255[^\n]", &number, name) == 2);
        else if (!strncmp(line, "end", 3)) {
            run(note);
            forget();
            cases++;
        }
    }
    give_back(&views[0], &last);
    give_back(&views[1], &last);
    alarm(0);
    long all = 0;
    MPI_Allreduce(&failed, &all, 1, MPI_LONG, MPI_SUM, world);
    if (rank == 0 && all == 0)
        printf("completed %d\n", cases);
    fflush(stdout);
    if (all)
        printf("completed, wrong\n");
    MPI_Comm_free(&views[0].comm);
    MPI_Comm_free(&views[1].comm);
    return finish_as(all != 0);
}
