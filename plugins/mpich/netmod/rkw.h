/* The Rust half of the netmod (plugins/mpich/src), as its C half calls it, and what it
 * calls here. Both sides are compiled for each other, in one step. */
#ifndef RKW_H
#define RKW_H

#include <stddef.h>
#include <stdint.h>

#define RKW_HIDDEN __attribute__((visibility("hidden")))

/* Any sender. */
#define RKW_ANY UINT32_MAX
/* What began is over; else the answer names it. */
#define RKW_DONE 0

/* Which message: channel, match bits (source, tag), bits that need not agree, and the
 * lpid of the other side. */
typedef struct {
    uint64_t channel, bits, ignore;
    uint32_t peer;
} rkw_match_t;

/* How a message ended, or what a probe found. */
typedef struct {
    uint64_t bits, length;
    int truncated, cancelled;
} rkw_status_t;

/* A communicator's map: ranks below `affine` are first + step * rank, others are asked for. */
typedef struct {
    uint32_t affine, first, step;
    void *map;
} rkw_map_t;

/* A window that is being made. */
typedef struct {
    void *comm;
    int (*lpid_of) (void *comm, int rank);
    int rank, size;
    void *base;
    size_t bytes;
    uint32_t unit;
    int allocate;
} rkw_win_arguments_t;

/* A window: unit, bytes and their quotient are 0 where ranks differ. */
typedef struct {
    void *window;
    const void *access;         /* a rankway_access_t */
    size_t unit, max_disp, bytes;
    void *base;
} rkw_win_t;

/* The chosen netmod: what each does stands in the Rust file of its name. */
typedef struct {
    void *state;
    int (*progress) (void *state);
    int (*send) (void *state, uint64_t channel, uint64_t bits, uint32_t peer, const void *buf,
                 size_t len);
    uint64_t(*isend) (void *state, const rkw_match_t * to, const void *buf, size_t len,
                      int synchronous, void *request);
    uint64_t(*irecv) (void *state, const rkw_match_t * from, void *buf, size_t capacity,
                      void *request);
    int (*iprobe) (void *state, const rkw_match_t * from, rkw_status_t * status);
    void *(*improbe) (void *state, const rkw_match_t * from, rkw_status_t * status);
    uint64_t(*imrecv) (void *message, void *buf, size_t capacity, void *request);
    void (*cancel) (void *state, uint64_t number);
    int (*post) (void *state, uint32_t peer, int handler, const void *header, size_t header_len,
                 const void *payload, size_t len, void *request);
    void (*win_make) (void *state, const rkw_win_arguments_t * arguments, rkw_win_t * to);
    int (*win_put) (void *window, const void *buf, size_t len, uint32_t rank, ptrdiff_t disp);
    int (*win_get) (void *window, void *buf, size_t len, uint32_t rank, ptrdiff_t disp);
    int (*win_flush) (void *window, int rank, int local);
    void (*win_free) (void *window);
    int (*leave) (void *state);
    void (*close) (void *state);
} rkw_netmod_t;

void rkw_open(int rank, int size, const char *space, rkw_netmod_t * to) RKW_HIDDEN;
void rkw_map_read(int size, int (*lpid_of) (void *comm, int rank), void *comm,
                  rkw_map_t * to) RKW_HIDDEN;
uint32_t rkw_map_lpid(const void *map, int rank) RKW_HIDDEN;
void rkw_map_free(void *map) RKW_HIDDEN;

/* Of the C half (stubnm_noinline.c). */
void rkw_host_limits(int *key, int *value) RKW_HIDDEN;
int rkw_host_put(const char *key, const char *value) RKW_HIDDEN;
int rkw_host_get(int rank, const char *key, char *value, int size) RKW_HIDDEN;
int rkw_host_barrier(void) RKW_HIDDEN;
int rkw_host_node(int rank) RKW_HIDDEN;
void rkw_host_abort(int code, const char *why) RKW_HIDDEN __attribute__((noreturn));
void rkw_host_progress(void) RKW_HIDDEN;
int rkw_host_allgather(void *comm, const void *mine, size_t bytes, void *all) RKW_HIDDEN;
int rkw_host_comm_barrier(void *comm) RKW_HIDDEN;
void rkw_host_am(int handler, const void *header, const void *payload, size_t len) RKW_HIDDEN;
void rkw_host_posted(void *request) RKW_HIDDEN;
void rkw_host_ended(void *request, const rkw_status_t * status) RKW_HIDDEN;

#endif
