/* The Rust half of the netmod (plugins/mpich/src), as its C half calls it, and what it
 * calls here. Both sides are compiled for each other, in one step. */
#ifndef RKW_H
#define RKW_H

#include <stddef.h>
#include <stdint.h>

#define RKW_HIDDEN __attribute__((visibility("hidden")))

/* Bits of a tag that no receive looks at: a collective that fails tells the others by them. */
#define RKW_MARKS (3 << 29)

/* Tags are below it. */
#define RKW_TAGS (1u << 28)

/* Any sender. */
#define RKW_ANY UINT32_MAX
/* What began is over, or its end is told otherwise, or nothing began since no layout says the
 * datatype; else the answer names it. */
#define RKW_DONE 0
#define RKW_TOLD UINT64_MAX
#define RKW_NO_LAYOUT (UINT64_MAX - 1)

/* Which message: channel, match bits (source, tag), bits that need not agree, and the
 * lpid of the other side. */
typedef struct {
    uint64_t channel, bits, ignore;
    uint32_t peer;
} rkw_match_t;

/* How a message ended, or what a probe found. An answer, of one that failed: rkw_why says
 * more, until something else fails. */
typedef struct {
    uint64_t bits, length;
    int truncated, cancelled, failed;
} rkw_status_t;

/* A communicator's map: ranks below `affine` are first + step * rank, others stand in CH4's
 * table, or are asked for. Processes of other jobs have lpids from the job's size on. */
typedef struct {
    uint32_t affine, first, step;
    const int *table;
    void *map;
} rkw_map_t;

/* Ranks of a communicator, in memory of MPICH's, and which of them the caller is, or -1. */
typedef struct {
    int *ranks, size, mine;
} rkw_ranks_t;

/* How a window comes by its memory. */
enum rkw_flavor { RKW_CREATE, RKW_ALLOCATE, RKW_SHARED, RKW_SHARED_APART, RKW_DYNAMIC };

/* A window that is being made. */
typedef struct {
    void *comm;
    const rkw_map_t *map;
    int rank, size;
    void *base;
    size_t bytes;
    uint32_t unit;
    int flavor;
} rkw_win_arguments_t;

/* A window. Operations may go to `count` ranks from `first` on without a further look at the
 * epoch. Unit is 0 where ranks differ. Where every rank's memory is mapped here, it begins at
 * start + stride * rank, and displacements below `words` have 8 bytes; else a provider reaches
 * `bytes` of it, displacements up to `max_disp`, and of a job of one thread 8 bytes from those
 * below `reached` on, by an address that is a formula of the rank, or below `indexed`. */
typedef struct {
    void *window;
    uint32_t first, count, passive;
    const void *access;         /* a rankway_access_t */
    size_t unit, words, reached, max_disp, bytes;
    void *base;
    char *start;
    ptrdiff_t stride;
    size_t indexed;             /* C's own, behind what Rust writes */
} rkw_win_t;

/* So many of a datatype, by MPICH's handle. */
typedef struct {
    int count, datatype;
} rkw_side_t;

/* An operation on a window: the origin's buffer and its side, where a get's bytes or a
 * fetch's results go, and the target's side. */
enum rkw_what { RKW_PUT, RKW_GET, RKW_ACCUMULATE, RKW_FETCH, RKW_SWAP };
typedef struct {
    int what, op;
    uint32_t rank;
    ptrdiff_t disp;
    const void *origin;
    void *result;
    const void *compare;
    rkw_side_t here, back, there;
    void **request;             /* where one goes, or null */
} rkw_rma_t;

/* What leave answers: again, done, done though not all are there. */
enum rkw_left { RKW_NOT_YET, RKW_ALL_LEFT, RKW_SOME_LEFT };

/* Calls of epochs. */
enum rkw_epoch { RKW_LOCK_ALL, RKW_UNLOCK_ALL, RKW_UNLOCK, RKW_FLUSH, RKW_FLUSH_LOCAL,
    RKW_FLUSH_ALL, RKW_FLUSH_LOCAL_ALL, RKW_COMPLETE, RKW_WAIT, RKW_START, RKW_POST
};

/* What calls of windows answer; rkw_why says more. Below 0: a code of MPICH's own, negated. */
enum rkw_answer { RKW_OK, RKW_RANGE, RKW_RANK, RKW_SYNC, RKW_TYPE, RKW_OP, RKW_TRUNCATED,
    RKW_ARGUMENT, RKW_BUFFER, RKW_WINDOW, RKW_MEMORY, RKW_ATTACH, RKW_NOT_SHARED, RKW_GROUP,
    RKW_PORT, RKW_DIED, RKW_FAILED
};

/* A datatype: leaf, or made of what its contents say; element is Rankway's, or -1. */
typedef struct {
    int64_t size, extent, lb, true_lb, true_ub;
    int leaf, element, combiner;
    int64_t ints, aints, counts, kinds;
    const int32_t *integers;
    const int64_t *addresses, *large;
    const int *types;
} rkw_type_t;

/* The chosen netmod: what each does stands in the Rust file of its name. */
typedef struct {
    void *state;
    int (*progress) (void *state);
    int (*send) (void *state, uint64_t channel, uint64_t bits, uint32_t peer, const void *buf,
                 size_t len);
    uint64_t(*isend) (void *state, const rkw_match_t * to, const void *buf, size_t len,
                      int synchronous, void *request);
    uint64_t(*isend_layout) (void *state, const rkw_match_t * to, const void *buf, int64_t count,
                             int datatype, int synchronous, void *request);
    uint64_t(*irecv) (void *state, const rkw_match_t * from, void *buf, size_t capacity,
                      void *request);
    uint64_t(*irecv_layout) (void *state, const rkw_match_t * from, void *buf, int64_t count,
                             int datatype, void *request);
    int (*iprobe) (void *state, const rkw_match_t * from, rkw_status_t * status);
    void *(*improbe) (void *state, const rkw_match_t * from, rkw_status_t * status);
    uint64_t(*imrecv) (void *message, void *buf, size_t capacity, void *request);
    uint64_t(*imrecv_layout) (void *message, void *buf, int64_t count, int datatype,
                              void *request);
    void (*cancel) (void *state, uint64_t number);
    int (*dead_sender) (void *state, uint64_t channel, uint32_t awaited);
    int (*dead_member) (void *state, uint64_t channel);
    int (*post) (void *state, uint32_t peer, int handler, const void *header, size_t header_len,
                 const void *payload, size_t len, void *request);
    int (*win_make) (void *state, const rkw_win_arguments_t * arguments, rkw_win_t * to);
    int (*win_free) (void *window);
    int (*win_attach) (void *window, void *start, ptrdiff_t bytes);
    int (*win_shared_query) (void *window, int rank, ptrdiff_t * size, int *unit, void **base);
    int (*win_put) (void *window, const void *buf, size_t len, uint32_t rank, ptrdiff_t disp);
    int (*win_get) (void *window, void *buf, size_t len, uint32_t rank, ptrdiff_t disp);
    int (*win_operate) (void *window, const rkw_rma_t * operation);
    int (*win_lock) (void *window, int kind, int rank, int assert);
    int (*win_epoch) (void *window, int call, int rank, int assert);
    int (*win_fence) (void *window, int assert);
    int (*win_group) (void *window, int call, const uint32_t * lpids, size_t count, int assert);
    int (*win_test) (void *window, int *flag);
    int (*gather) (void *state, const uint32_t * peers, size_t count, int brief, int *lengths);
    void (*introductions) (void *state, void *to);
    int (*meet) (void *state, const void *introduction, size_t len, uint32_t * number);
    int (*has_ended) (const void *introduction, size_t len);
    int (*leave) (void *state);
    void (*close) (void *state);
} rkw_netmod_t;

void rkw_open(int rank, int size, const char *space, rkw_netmod_t * to) RKW_HIDDEN;
void rkw_map_read(int size, int (*lpid_of) (void *comm, int rank), void *comm,
                  rkw_map_t * to) RKW_HIDDEN;
uint32_t rkw_map_lpid(const void *map, int rank) RKW_HIDDEN;
/* The map that CH4's table is, where it takes less memory; else null. */
void *rkw_map_pack(int size, const int *table) RKW_HIDDEN;
void rkw_map_write(const void *map, int *table) RKW_HIDDEN;
void *rkw_map_share(const void *map) RKW_HIDDEN;
void rkw_map_free(void *map) RKW_HIDDEN;
void rkw_nodes_read(int size, const int *table) RKW_HIDDEN;
int rkw_node(uint32_t lpid) RKW_HIDDEN;
void *rkw_nodes_make(const rkw_map_t * map, int size, int rank, rkw_ranks_t * local,
                     rkw_ranks_t * firsts) RKW_HIDDEN;
int rkw_nodes_local(const void *nodes, int rank) RKW_HIDDEN;
int rkw_nodes_first(const void *nodes, uint32_t lpid) RKW_HIDDEN;
int rkw_nodes_consecutive(const void *nodes) RKW_HIDDEN;
void rkw_nodes_free(void *nodes) RKW_HIDDEN;
const char *rkw_why(void) RKW_HIDDEN;
void rkw_type_drop(void *translated) RKW_HIDDEN;

/* Of the C half (stubnm_noinline.c). */
void rkw_host_limits(int *key, int *value) RKW_HIDDEN;
int rkw_host_put(const char *key, const char *value) RKW_HIDDEN;
int rkw_host_get(int rank, const char *key, char *value, int size) RKW_HIDDEN;
int rkw_host_barrier(void) RKW_HIDDEN;
int *rkw_host_list(size_t count) RKW_HIDDEN;
void rkw_host_abort(int code, const char *why) RKW_HIDDEN __attribute__((noreturn));
void rkw_host_progress(void) RKW_HIDDEN;
int rkw_host_allgather(void *comm, const void *mine, size_t bytes, void *all) RKW_HIDDEN;
int rkw_host_comm_barrier(void *comm) RKW_HIDDEN;
/* Has rkw_seen called for each process that sends on a channel; 0 where none is known. */
int rkw_host_senders(uint64_t channel, void *seeing) RKW_HIDDEN;
void rkw_seen(void *seeing, uint32_t lpid) RKW_HIDDEN;
void rkw_host_am(int handler, const void *header, const void *payload, size_t len) RKW_HIDDEN;
void rkw_host_posted(void *request) RKW_HIDDEN;
void rkw_host_ended(void *request, const rkw_status_t * status) RKW_HIDDEN;
int rkw_host_element(int datatype) RKW_HIDDEN;
void rkw_host_type(int datatype, rkw_type_t * to) RKW_HIDDEN;
void **rkw_host_type_place(int datatype) RKW_HIDDEN;
int rkw_host_op_is_for(int op, int datatype) RKW_HIDDEN;
int rkw_host_reduce(int op, int datatype, void *from, void *at, int64_t count) RKW_HIDDEN;
void *rkw_host_request(int complete) RKW_HIDDEN;
void rkw_host_finished(void *request, int answer) RKW_HIDDEN;

#endif
