/* Tagged messages: matched by Rankway. */
#ifndef RKW_MSG_H
#define RKW_MSG_H

#include "rkw_impl.h"

/* A short message in one piece goes at once and for good, mostly; without a request of its
 * own then. */
MPL_STATIC_INLINE_PREFIX int rkw_send(const void *buf, MPI_Aint count, MPI_Datatype datatype,
                                      int rank, int tag, MPIR_Comm * comm, int offset,
                                      MPIR_Request ** req_p, int synchronous)
{
    MPIR_Request *given = *req_p;
    const void *at = buf;
    size_t size;
    int contig = 1;
    if (likely(HANDLE_IS_BUILTIN(datatype))) {
        size = (size_t) count * MPIR_Datatype_get_basic_size(datatype);
    } else {
        MPI_Aint lower;
        MPIR_Datatype *type;
        MPIDI_Datatype_get_info(count, datatype, contig, size, type, lower);
        at = MPIR_get_contig_ptr(buf, lower);
    }
    if (likely(contig && !synchronous)) {
        rkw_match_t to = rkw_to(comm, rank, tag, offset);
        if (likely(rkw.send(rkw.state, to.channel, to.bits, to.peer, at, size))) {
            if (given)
                MPIR_cc_set(&given->cc, 0);
            else
                *req_p = MPIR_Request_create_complete(MPIR_REQUEST_KIND__SEND);
            return MPI_SUCCESS;
        }
    }
    return rkw_send_slowly(buf, count, datatype, rank, tag, comm, offset, synchronous, req_p);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_isend(const void *buf, MPI_Aint count,
                                                MPI_Datatype datatype, int rank, int tag,
                                                MPIR_Comm * comm, int offset,
                                                MPIDI_av_entry_t * addr, MPIR_Request ** req_p)
{
    return rkw_send(buf, count, datatype, rank, tag, comm, offset, req_p, 0);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_isend_coll(const void *buf, MPI_Aint count,
                                                 MPI_Datatype datatype, int rank, int tag,
                                                 MPIR_Comm * comm, int offset,
                                                 MPIDI_av_entry_t * addr, MPIR_Request ** req_p,
                                                 MPIR_Errflag_t * errflag)
{
    if (unlikely(*errflag == MPIR_ERR_PROC_FAILED))
        MPIR_TAG_SET_PROC_FAILURE_BIT(tag);
    else if (unlikely(*errflag != MPIR_ERR_NONE))
        MPIR_TAG_SET_ERROR_BIT(tag);
    return rkw_send(buf, count, datatype, rank, tag, comm, offset, req_p, 0);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_issend(const void *buf, MPI_Aint count,
                                                 MPI_Datatype datatype, int rank, int tag,
                                                 MPIR_Comm * comm, int offset,
                                                 MPIDI_av_entry_t * addr, MPIR_Request ** req_p)
{
    return rkw_send(buf, count, datatype, rank, tag, comm, offset, req_p, 1);
}

/* A send cannot be taken back. */
MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_cancel_send(MPIR_Request * sreq)
{
    return MPI_SUCCESS;
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_irecv(void *buf, MPI_Aint count, MPI_Datatype datatype,
                                                int rank, int tag, MPIR_Comm * comm, int offset,
                                                MPIDI_av_entry_t * addr, MPIR_Request ** req_p,
                                                MPIR_Request * partner)
{
    rkw_match_t from = rkw_from(comm, rank, tag, offset);
    return rkw_recv(buf, count, datatype, &from, comm, req_p);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_imrecv(void *buf, MPI_Aint count, MPI_Datatype datatype,
                                                 MPIR_Request * message)
{
    return rkw_mrecv(buf, count, datatype, message);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_cancel_recv(MPIR_Request * rreq)
{
    if (!MPIR_Request_is_complete(rreq))
        rkw.cancel(rkw.state, RKW_REQUEST(rreq).number);
    return MPI_SUCCESS;
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_iprobe(int source, int tag, MPIR_Comm * comm, int offset,
                                                 MPIDI_av_entry_t * addr, int *flag,
                                                 MPI_Status * status)
{
    rkw_match_t from = rkw_from(comm, source, tag, offset);
    rkw_status_t found;
    found.failed = 0;
    *flag = rkw.iprobe(rkw.state, &from, &found);
    if (unlikely(found.failed))
        return rkw_error(found.failed, __func__);
    /* (The error is not a probe's to touch.) */
    if (*flag && status != MPI_STATUS_IGNORE)
        rkw_fill(status, &found);
    return MPI_SUCCESS;
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_improbe(int source, int tag, MPIR_Comm * comm, int offset,
                                                  MPIDI_av_entry_t * addr, int *flag,
                                                  MPIR_Request ** message_p, MPI_Status * status)
{
    rkw_match_t from = rkw_from(comm, source, tag, offset);
    rkw_status_t found;
    found.failed = 0;
    void *message = rkw.improbe(rkw.state, &from, &found);
    *flag = message != NULL;
    *message_p = NULL;
    if (!message)
        return unlikely(found.failed) ? rkw_error(found.failed, __func__) : MPI_SUCCESS;
    MPIR_Request *req = MPIR_Request_create_from_pool(MPIR_REQUEST_KIND__MPROBE, 0, 2);
    MPIR_Assertp(req);
    rkw_hold(req, comm);
    RKW_REQUEST(req).message = message;
    *message_p = req;
    if (status != MPI_STATUS_IGNORE)
        rkw_fill(status, &found);
    return MPI_SUCCESS;
}

#endif
