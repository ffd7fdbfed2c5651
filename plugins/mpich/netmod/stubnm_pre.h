/* What CH4 keeps for the netmod in its own structures. */
#ifndef STUBNM_PRE_H_INCLUDED
#define STUBNM_PRE_H_INCLUDED

#include "rkw.h"

/* As many as MPICH has, said here: windows and communicators that a call finds at once. */
#define MPIR_WIN_PREALLOC 8
#define MPID_COMM_PREALLOC 8

/* The slot's configure asks for a flag in each entry of CH4's address table, which has
 * nothing else here and so takes no memory: Rankway knows who is on the node. */
#undef MPIDI_BUILD_CH4_LOCALITY_INFO

typedef struct {
    /* Names a message under way; 0 for none. */
    uint64_t number;
    /* Memory of MPICH's that it goes from, or into, if any. */
    void *packed;
    /* Of a send: from the program's own buffer for MPI_Bsend. */
    int is_buffered;
    /* Of a receive: what fits, and where it goes in pieces the buffer and its datatype, which
     * is held; else null. */
    size_t capacity;
    void *buf;
    MPI_Aint count;
    MPI_Datatype datatype;
    /* Of a matched probe. */
    void *message;
} MPIDI_STUBNM_request_t;

/* At least as long: what lies behind it is CH4's also in requests of ours. */
typedef struct {
    int handler;
    char *packed;
    char rest[sizeof(MPIDI_STUBNM_request_t)];
} MPIDI_STUBNM_am_request_t;

/* Its ranks, and by node, where all are of this job; to how many of them messages go by Rankway: none of
 * a communicator of one process, whose messages are CH4's; how many of those have their lpid by the
 * map's formula; whether a collective there has failed by a death; whether CH4 has its table for a
 * moment (rkw_wrapped_maps.h); its partitioned messages' pairs. */
typedef struct rkw_pairs rkw_pairs_t;
typedef struct {
    rkw_map_t map;
    void *nodes;
    uint32_t reached, by_formula;
    int met_death, lends;
    rkw_pairs_t *pairs;
} MPIDI_STUBNM_comm_t;

/* Its layout, once it was needed. */
typedef struct {
    void *translated;
} MPIDI_STUBNM_dt_t;

typedef struct {
    int dummy;
} MPIDI_STUBNM_op_t;

typedef rkw_win_t MPIDI_STUBNM_win_t;

/* The other side of a partitioned message, and which of those under this tag it is. */
typedef struct {
    int rank, tag;
    uint64_t pair;
} MPIDI_STUBNM_part_t;

/* Nothing: Rankway's address vector has what there is to know of a peer. */
typedef struct {
} MPIDI_STUBNM_addr_t;

#endif
