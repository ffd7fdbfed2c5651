/* What the netmod's files share. */
#ifndef RKW_IMPL_H
#define RKW_IMPL_H

#include <mpidimpl.h>
#include "mpidch4r.h"
#include "rkw.h"

extern rkw_netmod_t rkw RKW_HIDDEN;

#define RKW_REQUEST(req) ((req)->dev.ch4.netmod.stubnm)
#define RKW_AM_REQUEST(req) ((req)->dev.ch4.am.netmod_am.stubnm)
#define RKW_PART(req) (MPIDI_PART_REQUEST(req, netmod).stubnm)
#define RKW_WIN(win) ((win)->dev.netmod.stubnm)
#define RKW_COMM(comm) ((comm)->dev.ch4.netmod.stubnm)

/* The longest header of an active message, and the longest message that CH4 sends without
 * asking the receiver. */
#define RKW_AM_HEADER 1024
#define RKW_AM_EAGER (16 * 1024)

/* Lpid of a rank. */
MPL_STATIC_INLINE_PREFIX uint32_t rkw_lpid(const MPIR_Comm * comm, int rank)
{
    const rkw_map_t *map = &RKW_COMM(comm).map;
    if (likely((uint32_t) rank < map->affine))
        return map->first + map->step * (uint32_t) rank;
    if (map->table)
        return (uint32_t) map->table[rank];
    return map->map ? rkw_map_lpid(map->map, rank) : (uint32_t) rank;
}

/* CH4's map is a table of this job's processes. */
MPL_STATIC_INLINE_PREFIX int rkw_is_table(const MPIDI_rank_map_t * map)
{
    return map->mode == MPIDI_RANK_MAP_LUT_INTRA ||
        (map->mode == MPIDI_RANK_MAP_LUT && map->avtid == 0);
}

/* It has been given back (rkw_wrapped_maps.h). */
MPL_STATIC_INLINE_PREFIX int rkw_has_no_table(const MPIR_Comm * comm)
{
    return rkw_is_table(&MPIDI_COMM(comm, map)) && !MPIDI_COMM(comm, map).irreg.lut.t;
}

/* CH4's numbers of a rank, of the remote group: its process, and the job. */
MPL_STATIC_INLINE_PREFIX int rkw_pid(MPIR_Comm * comm, int rank, int *group)
{
    int lpid = 0;
    *group = 0;
    if (rkw_has_no_table(comm))
        return (int) rkw_map_lpid(RKW_COMM(comm).map.map, rank);
    MPIDIU_comm_rank_to_pid(comm, rank, &lpid, group);
    return lpid;
}

/* What a message of this process says of its sender and its tag. */
MPL_STATIC_INLINE_PREFIX uint64_t rkw_bits(const MPIR_Comm * comm, int tag)
{
    return (uint64_t) (uint32_t) comm->rank << 32 | (uint32_t) tag;
}

MPL_STATIC_INLINE_PREFIX rkw_match_t rkw_to(const MPIR_Comm * comm, int rank, int tag, int offset)
{
    rkw_match_t to;
    to.channel = (uint64_t) (comm->context_id + offset);
    to.bits = rkw_bits(comm, tag);
    to.ignore = 0;
    to.peer = rkw_lpid(comm, rank);
    return to;
}

MPL_STATIC_INLINE_PREFIX rkw_match_t rkw_from(const MPIR_Comm * comm, int rank, int tag, int offset)
{
    rkw_match_t from;
    from.channel = (uint64_t) (comm->recvcontext_id + offset);
    from.bits = from.ignore = 0;
    if (unlikely(rank == MPI_ANY_SOURCE)) {
        from.peer = RKW_ANY;
        from.ignore = (uint64_t) UINT32_MAX << 32;
    } else {
        from.peer = rkw_lpid(comm, rank);
        from.bits = (uint64_t) (uint32_t) rank << 32;
    }
    if (unlikely(tag == MPI_ANY_TAG))
        from.ignore |= UINT32_MAX;
    else
        from.bits |= (uint32_t) tag;
    return from;
}

/* Of a message, without the error. */
MPL_STATIC_INLINE_PREFIX void rkw_fill(MPI_Status * status, const rkw_status_t * of)
{
    status->MPI_SOURCE = (int) (of->bits >> 32);
    status->MPI_TAG = (int) (uint32_t) of->bits;
    MPIR_STATUS_SET_COUNT(*status, of->length);
}

/* While a request lasts its communicator's context id is no other's, and its errors go to that one's
 * handler. */
MPL_STATIC_INLINE_PREFIX void rkw_hold(MPIR_Request * req, MPIR_Comm * comm)
{
    req->comm = comm;
    MPIR_Comm_add_ref(comm);
}

/* Out of line, in stubnm_noinline.c. */
int rkw_send_slowly(const void *buf, MPI_Aint count, MPI_Datatype datatype, int rank, int tag,
                    MPIR_Comm * comm, int offset, int synchronous,
                    MPIR_Request ** req_p) RKW_HIDDEN;
int rkw_recv(void *buf, MPI_Aint count, MPI_Datatype datatype, const rkw_match_t * from,
             MPIR_Comm * comm, MPIR_Request ** req_p) RKW_HIDDEN;
int rkw_mrecv(void *buf, MPI_Aint count, MPI_Datatype datatype, MPIR_Request * message) RKW_HIDDEN;
void rkw_part_start(MPIR_Request * part) RKW_HIDDEN;
void rkw_part_ready(MPIR_Request * part, int partitions) RKW_HIDDEN;
int rkw_error(int answer, const char *call) RKW_HIDDEN;
int rkw_operate(MPIR_Win * win, rkw_rma_t * operation, MPIR_Request ** req_p) RKW_HIDDEN;
int rkw_group(int call, MPIR_Group * group, int assert, MPIR_Win * win) RKW_HIDDEN;
int rkw_put_any(const void *buf, int count, MPI_Datatype datatype, int rank, MPI_Aint disp,
                int target_count, MPI_Datatype target_datatype, MPIR_Win * win) RKW_HIDDEN;
int rkw_get_any(void *buf, int count, MPI_Datatype datatype, int rank, MPI_Aint disp,
                int target_count, MPI_Datatype target_datatype, MPIR_Win * win) RKW_HIDDEN;
int rkw_am(int rank, MPIR_Comm * comm, int handler, const void *header, MPI_Aint header_len,
           const void *data, MPI_Aint count, MPI_Datatype datatype, MPIR_Request * sreq) RKW_HIDDEN;

#endif
