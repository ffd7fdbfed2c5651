/* The programs that osc_matrix.c plays: what they are made of, guards around
 * memory, and the oracle. */
#ifndef MATRIX_H
#define MATRIX_H

#include "check.h"
#include <pthread.h>
#include <unistd.h>

enum { RANKS = 16, TARGETS = 16, GUARD = 256, PATIENCE = 25 };
enum act { PUT, GET, ACC, GET_ACC, FETCH, SWAP, FLUSH, FLUSH_LOCAL, FLUSH_ALL };
enum { REQUEST = 1, AT_ONCE = 2, ALONE = 4, ODD = 8 };

struct step {
    enum act act;
    int to, op, flags;
    MPI_Datatype type;
    MPI_Aint at;
    size_t len, size;
    uint64_t seed;
    unsigned char *before; /* what stood at the target, where it is answered */
    /* while it is under way */
    unsigned char *origin, *result, *compare;
    MPI_Request request;
    int issued;
};
struct epoch {
    int rank, thread, targets[TARGETS], count;
    char kind[12], completion[12];
    struct step *steps;
    int n;
};
struct zero {
    int window, rank;
    size_t at, len;
};
struct phase {
    char sync[12];
    uint64_t seed;
    int held, epochs_from, epochs, zeros_from, zeros;
};
enum threads { ONE, MULTIPLE, OWN, SAME };
struct frame {
    char memory[16];
    int threads, skew;
    size_t sizes[RANKS];
    int units[RANKS];
};

static struct epoch *epochs;
static struct phase *phases;
static struct zero *zeros;
static int epoch_count, phase_count, zero_count;
static struct frame frame;
static long number, failed;
static char name[256];

/* One window and who works on it. */
struct view {
    int index, made;
    MPI_Comm comm;
    MPI_Win win;
    unsigned char *memory, *base; /* of the program's own, and the window's start */
    MPI_Aint starts[RANKS];
    unsigned char *model[RANKS];
    size_t capacity[RANKS];
};
static struct view views[2];
static pthread_barrier_t both;
static const char *volatile doing[2] = {"", ""};
static int wrong;

static void complain(int thread, const char *what, size_t at, const unsigned char *got,
                     const unsigned char *want)
{
    if (__atomic_fetch_add(&wrong, 1, __ATOMIC_SEQ_CST))
        return;
    char values[40] = "";
    if (got)
        snprintf(values, sizeof values, " is %02x, not %02x", got[at], want[at]);
    /* In one piece, beside what other ranks say. */
    char text[512];
    int len = snprintf(text, sizeof text, "FAILED case %ld (%s): rank %d, thread %d: %s: byte %zu%s\n",
                       number, name, rank, thread, what, at, values);
    if (write(2, text, (size_t) len) < 0)
        _exit(4);
}

static void late(int signal)
{
    (void) signal;
    char text[512];
    int len = snprintf(text, sizeof text, "HANGS case %ld (%s): rank %d: %s; %s\n", number, name, rank,
                       doing[0], doing[1]);
    if (write(2, text, (size_t) len) < 0)
        _exit(4);
    _exit(3);
}

static void compare(int thread, const char *what, const unsigned char *got, const unsigned char *want,
                    size_t len)
{
    if (len == 0 || !memcmp(got, want, len))
        return;
    size_t at = 0;
    while (got[at] == want[at])
        at++;
    complain(thread, what, at, got, want);
}

/* Memory with guards around, at an address that is `skew` modulo 16. */
static unsigned char *guarded(size_t len, size_t skew)
{
    unsigned char *all = malloc(len + 2 * GUARD + skew + 16);
    uintptr_t start = ((uintptr_t) all + 8 + 15) & ~(uintptr_t) 15;
    /* What was allocated stands before the guard. */
    unsigned char *at = (unsigned char *) start + GUARD + skew;
    memset(all, 0xa5, len + 2 * GUARD + skew + 16);
    memcpy(all, &len, sizeof len);
    return at;
}

static unsigned char *allocation(unsigned char *at, size_t skew)
{
    uintptr_t start = (uintptr_t) at - GUARD - skew;
    /* malloc's addresses are multiples of 16: 8 + 15 rounds up to 16 behind. */
    return (unsigned char *) (start - 16);
}

static void intact(int thread, const char *what, unsigned char *at, size_t len, size_t skew)
{
    unsigned char *from = at - GUARD - skew + 8;
    while (from < at && *from == 0xa5)
        from++;
    if (from < at)
        complain(thread, what, (size_t) (at - from), NULL, NULL);
    for (size_t i = 0; i < GUARD - 16; i++)
        if (at[len + i] != 0xa5) {
            complain(thread, what, len + i, NULL, NULL);
            return;
        }
}

/* ---- the oracle ---- */

static const char *const type_names[] = {"I8", "U8", "I16", "U16", "I32", "U32", "I64", "U64", "F32",
                                         "F64", "C32", "C64"};
static MPI_Datatype type_of(const char *text, size_t *size)
{
    MPI_Datatype types[] = {MPI_INT8_T, MPI_UINT8_T, MPI_INT16_T, MPI_UINT16_T, MPI_INT32_T,
        MPI_UINT32_T, MPI_INT64_T, MPI_UINT64_T, MPI_FLOAT, MPI_DOUBLE, MPI_C_FLOAT_COMPLEX,
        MPI_C_DOUBLE_COMPLEX};
    size_t sizes[] = {1, 1, 2, 2, 4, 4, 8, 8, 4, 8, 8, 16};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (!strcmp(text, type_names[i])) {
            *size = sizes[i];
            return types[i];
        }
    CHECK(0, "type %s", text);
}

static const char *const op_names[] = {"Sum", "Prod", "Min", "Max", "Band", "Bor", "Bxor", "Replace",
                                       "NoOp"};
enum { REPLACE = 7, NO_OP = 8 };
static MPI_Op op_of(int op)
{
    MPI_Op ops[] = {MPI_SUM, MPI_PROD, MPI_MIN, MPI_MAX, MPI_BAND, MPI_BOR, MPI_BXOR, MPI_REPLACE,
        MPI_NO_OP};
    return ops[op];
}

/* The bytes a step sends: any for a put, else small whole numbers. */
static void operand(const struct step *s, unsigned char *to)
{
    if (s->act == PUT) {
        fill(to, s->len, s->seed);
        return;
    }
    int complex = s->type == MPI_C_FLOAT_COMPLEX || s->type == MPI_C_DOUBLE_COMPLEX;
    size_t part = complex ? s->size / 2 : s->size;
    for (size_t i = 0; i < s->len / part; i++) {
        int n = byte_of(s->seed, i) % 100 - 50;
        unsigned char *at = to + i * part;
        float f = (float) n;
        double d = n;
        int64_t w = n;
        if (s->type == MPI_FLOAT || s->type == MPI_C_FLOAT_COMPLEX)
            memcpy(at, &f, 4);
        else if (s->type == MPI_DOUBLE || s->type == MPI_C_DOUBLE_COMPLEX)
            memcpy(at, &d, 8);
        else
            memcpy(at, &w, part);
    }
}

static int hits(const struct step *s)
{
    return s->seed % 4 != 0;
}

/* Short integers, which Open MPI's vectors add with saturation. */
static void wrapping(const struct step *s, unsigned char *place)
{
    unsigned char *b = malloc(s->len);
    operand(s, b);
    for (size_t i = 0; i < s->len; i += s->size) {
        uint16_t x = 0, y = 0;
        memcpy(&x, place + i, s->size);
        memcpy(&y, b + i, s->size);
        x = (uint16_t) (op_names[s->op][0] == 'S' ? x + y : (unsigned) x * y);
        memcpy(place + i, &x, s->size);
    }
    free(b);
}

static void apply(struct step *s, unsigned char *memory, int mine)
{
    if (s->act >= FLUSH || s->len == 0)
        return;
    unsigned char *place = memory + s->at;
    if (mine && s->act != PUT && s->act != ACC) {
        s->before = malloc(s->len);
        memcpy(s->before, place, s->len);
    }
    if (s->act == GET || (s->act == SWAP && !hits(s)) || (s->act != SWAP && s->op == NO_OP))
        return;
    if (s->act == PUT || s->act == SWAP || s->op == REPLACE) {
        operand(s, place);
        return;
    }
    if (s->size <= 2 && (!strcmp(op_names[s->op], "Sum") || !strcmp(op_names[s->op], "Prod"))) {
        wrapping(s, place);
        return;
    }
    /* MPI's own arithmetic, on memory that is aligned. */
    unsigned char *a = malloc(s->len), *b = malloc(s->len);
    memcpy(a, place, s->len);
    operand(s, b);
    MPI_Reduce_local(b, a, (int) (s->len / s->size), s->type, op_of(s->op));
    memcpy(place, a, s->len);
    free(a);
    free(b);
}

static void fill_before(unsigned char *to, size_t len, uint64_t seed, int window, int of)
{
    enum { PERIOD = 4099 };
    seed = seed << 8 ^ (uint64_t) (of << 1 | window);
    fill(to, len < PERIOD ? len : PERIOD, seed);
    for (size_t done = PERIOD; done < len;) {
        size_t more = len - done < done ? len - done : done;
        if (more > PERIOD)
            more -= more % PERIOD;
        memcpy(to + done, to, more);
        done += more;
    }
}

/* Whether this program's memory of a rank is looked at here. */
static int beside(void)
{
    return !strcmp(frame.memory, "shared") || !strcmp(frame.memory, "apart");
}

static int window_of(int thread)
{
    return frame.threads == OWN ? thread : 0;
}

/* All memory of a window before a phase; this process's own is set to it. */
static void before(struct view *v, const struct phase *p)
{
    for (int r = 0; r < size; r++) {
        if (v->capacity[r] < frame.sizes[r]) {
            v->model[r] = realloc(v->model[r], frame.sizes[r]);
            v->capacity[r] = frame.sizes[r];
        }
        fill_before(v->model[r], frame.sizes[r], p->seed, v->index, r);
    }
    for (int i = 0; i < p->zeros; i++) {
        struct zero *z = &zeros[p->zeros_from + i];
        if (z->window == v->index)
            memset(v->model[z->rank] + z->at, 0, z->len);
    }
    if (frame.sizes[rank])
        memcpy(v->base, v->model[rank], frame.sizes[rank]);
}

/* What the phase makes of it, as far as it is looked at here. */
static void outcome(struct view *v, const struct phase *p)
{
    for (int i = 0; i < p->epochs; i++) {
        struct epoch *e = &epochs[p->epochs_from + i];
        if (window_of(e->thread) != v->index)
            continue;
        for (int k = 0; k < e->n; k++) {
            struct step *s = &e->steps[k];
            if (e->rank == rank || s->to == rank || beside())
                apply(s, v->model[s->to], e->rank == rank);
        }
    }
}

static void look(struct view *v, int thread, const char *when)
{
    compare(thread, when, v->base, v->model[rank], frame.sizes[rank]);
    if (beside()) {
        int next = (rank + 1) % size, unit;
        MPI_Aint bytes;
        unsigned char *base;
        MPI_Win_shared_query(v->win, next, &bytes, &unit, &base);
        if ((size_t) bytes != frame.sizes[next])
            complain(thread, "shared_query", (size_t) bytes, NULL, NULL);
        compare(thread, "the memory of the next rank", base, v->model[next], frame.sizes[next]);
    }
    if (v->memory)
        intact(thread, "around the window", v->memory, frame.sizes[rank], (size_t) frame.skew);
}

#endif
