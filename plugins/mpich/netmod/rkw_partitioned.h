/* Partitioned messages: functions of stubnm_noinline.c's, which includes this once. Each start is a
 * tagged message of all partitions, on a channel that its two requests alone have. */
#ifndef RKW_PARTITIONED_H
#define RKW_PARTITIONED_H

#include "rkw_impl.h"
#include "uthash.h"

/* Behind CH4's contexts and the jobs' own, below the number of the pair. */
#define PARTITIONED (UINT64_C(4) << 32)
#define PAIR_SHIFT 40

/* How many requests were made to a rank (or of one) under a tag: the first here is matched by the first
 * there, and so on, as MPI has it. */
struct rkw_pairs {
    struct {
        int rank, tag, kind;
    } key;
    uint64_t made;
    UT_hash_handle hh;
};

static uint64_t next_pair(MPIR_Comm * comm, int rank, int tag, MPIR_Request_kind_t kind)
{
    rkw_pairs_t **all = &RKW_COMM(comm).pairs, *of;
    rkw_pairs_t one = {.key = {rank, tag, kind} };
    HASH_FIND(hh, *all, &one.key, sizeof one.key, of);
    if (of == NULL) {
        of = MPL_malloc(sizeof *of, MPL_MEM_COMM);
        MPIR_Assertp(of);
        *of = one;
        HASH_ADD(hh, *all, key, sizeof of->key, of, MPL_MEM_COMM);
    }
    return of->made++;
}

static void forget_pairs(MPIR_Comm * comm)
{
    rkw_pairs_t *of, *next;
    HASH_ITER(hh, RKW_COMM(comm).pairs, of, next) {
        HASH_DEL(RKW_COMM(comm).pairs, of);
        MPL_free(of);
    }
}

static int part_init(void *buf, int partitions, MPI_Aint count, MPI_Datatype datatype, int rank,
                     int tag, MPIR_Comm * comm, MPIR_Request_kind_t kind, MPIR_Request ** req_p)
{
    MPID_THREAD_CS_ENTER(VCI, MPIDI_VCI(0).lock);
    MPIR_Request *req;
    MPIDI_CH4_REQUEST_CREATE(req, kind, 0, 1);
    MPIR_Assertp(req);
    MPIR_Comm_add_ref(comm);
    req->comm = comm;
    MPIR_Datatype_add_ref_if_not_builtin(datatype);
    MPIDI_PART_REQUEST(req, buffer) = buf;
    MPIDI_PART_REQUEST(req, count) = count;
    MPIDI_PART_REQUEST(req, datatype) = datatype;
    MPIDI_STUBNM_part_t *of = &RKW_PART(req);
    of->rank = rank;
    of->tag = tag;
    of->pair = next_pair(comm, rank, tag, kind);
    req->u.part.partitions = partitions;
    MPIR_Part_request_inactivate(req);
    /* (One that is not started is complete.) */
    MPIR_cc_set(req->cc_ptr, 0);
    *req_p = req;
    MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(0).lock);
    return MPI_SUCCESS;
}

int MPIDI_STUBNM_mpi_psend_init(const void *buf, int partitions, MPI_Aint count,
                                MPI_Datatype datatype, int rank, int tag, MPIR_Comm * comm,
                                MPIR_Info * info, MPIDI_av_entry_t * av, MPIR_Request ** req_p)
{
    return part_init((void *) buf, partitions, count, datatype, rank, tag, comm,
                     MPIR_REQUEST_KIND__PART_SEND, req_p);
}

int MPIDI_STUBNM_mpi_precv_init(void *buf, int partitions, MPI_Aint count, MPI_Datatype datatype,
                                int rank, int tag, MPIR_Comm * comm, MPIR_Info * info,
                                MPIDI_av_entry_t * av, MPIR_Request ** req_p)
{
    return part_init(buf, partitions, count, datatype, rank, tag, comm,
                     MPIR_REQUEST_KIND__PART_RECV, req_p);
}

/* The message of this start, whose end is its own (tell_part). */
static void exchange(MPIR_Request * part)
{
    const MPIDI_STUBNM_part_t *of = &RKW_PART(part);
    if (of->rank == MPI_PROC_NULL) {
        MPIR_Status_set_procnull(&part->status);
        MPIR_cc_set(part->cc_ptr, 0);
        return;
    }
    int is_send = part->kind == MPIR_REQUEST_KIND__PART_SEND;
    void *buf = MPIDI_PART_REQUEST(part, buffer);
    MPI_Aint count = MPIDI_PART_REQUEST(part, count) * part->u.part.partitions;
    MPI_Datatype datatype = MPIDI_PART_REQUEST(part, datatype);
    MPIR_Request *req =
        MPIR_Request_create_from_pool(is_send ? MPIR_REQUEST_KIND__SEND : MPIR_REQUEST_KIND__RECV,
                                      0, 1);
    MPIR_Assertp(req);
    req->completion_notification = &part->cc;
    MPIR_Comm *comm = part->comm;
    rkw_match_t match = is_send ? rkw_to(comm, of->rank, of->tag, 0) :
        rkw_from(comm, of->rank, of->tag, 0);
    match.channel |= PARTITIONED | of->pair << PAIR_SHIFT;
    if (is_send)
        send_to(&match, buf, count, datatype, 0, req);
    else
        receive(buf, count, datatype, &match, NULL, 1, req);
}

void rkw_part_start(MPIR_Request * part)
{
    MPID_THREAD_CS_ENTER(VCI, MPIDI_VCI(0).lock);
    MPIR_cc_set(part->cc_ptr, 1);
    part->status.MPI_ERROR = MPI_SUCCESS;
    /* (Of no partitions none gets ready.) */
    if (part->kind == MPIR_REQUEST_KIND__PART_SEND && part->u.part.partitions > 0)
        MPIR_cc_set(&MPIDIG_PART_REQUEST(part, u.send).ready_cntr, part->u.part.partitions);
    else
        exchange(part);
    MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(0).lock);
}

void rkw_part_ready(MPIR_Request * part, int partitions)
{
    int are_missing = 1;
    for (int i = 0; i < partitions; i++)
        MPIR_cc_decr(&MPIDIG_PART_REQUEST(part, u.send).ready_cntr, &are_missing);
    if (!are_missing) {
        MPID_THREAD_CS_ENTER(VCI, MPIDI_VCI(0).lock);
        exchange(part);
        MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(0).lock);
    }
}

#endif
