/* What CH4 calls by function, and what the Rust half calls. */
#include <mpidimpl.h>
#include "rkw_impl.h"
#include "rkw_wrapped_maps.h"
#include "rkw_wrapped.h"
#include "rkw_wrapped_types.h"
#include <stdio.h>
#include <unistd.h>

rkw_netmod_t rkw;

/* ---- what the Rust half calls ---- */

void rkw_host_limits(int *key, int *value)
{
    *key = MPIR_pmi_max_key_size();
    *value = MPIR_pmi_max_val_size();
}

int rkw_host_put(const char *key, const char *value)
{
    return MPIR_pmi_kvs_put(key, value);
}

int rkw_host_get(int rank, const char *key, char *value, int size)
{
    return MPIR_pmi_kvs_get(rank, key, value, size);
}

int rkw_host_barrier(void)
{
    return MPIR_pmi_barrier();
}

int *rkw_host_list(size_t count)
{
    int *list = MPL_malloc(count * sizeof(int), MPL_MEM_COMM);
    MPIR_Assertp(list);
    return list;
}

void rkw_host_abort(int code, const char *why)
{
    fprintf(stderr, "%s\n", why);
    MPIR_pmi_abort(code, why);
    _exit(code);
}

void rkw_host_progress(void)
{
    MPID_Progress_test(NULL);
    /* What is waited for may be for another thread of this process to do. */
    MPIDI_PROGRESS_YIELD();
}

int rkw_host_allgather(void *comm, const void *mine, size_t bytes, void *all)
{
    MPIR_Errflag_t errflag = MPIR_ERR_NONE;
    return MPIR_Allgather(mine, (MPI_Aint) bytes, MPI_BYTE, all, (MPI_Aint) bytes, MPI_BYTE, comm,
                          &errflag);
}

int rkw_host_comm_barrier(void *comm)
{
    MPIR_Errflag_t errflag = MPIR_ERR_NONE;
    return MPIR_Barrier(comm, &errflag);
}

void rkw_host_am(int handler, const void *header, const void *payload, size_t len)
{
    uint32_t attr = 0;
    MPIDIG_global.target_msg_cbs[handler] ((void *) header, len ? (void *) payload : NULL,
                                           (MPI_Aint) len, attr, NULL);
}

void rkw_host_posted(void *request)
{
    MPIR_Request *req = request;
    int handler = RKW_AM_REQUEST(req).handler;
    MPL_free(RKW_AM_REQUEST(req).packed);
    RKW_AM_REQUEST(req).packed = NULL;
    MPIDIG_global.origin_cbs[handler] (req);
}

#include "rkw_datatypes.h"

/* ---- requests ---- */

void *rkw_host_request(int complete)
{
    MPIR_Request *req = complete ? MPIR_Request_create_complete(MPIR_REQUEST_KIND__RMA) :
        MPIR_Request_create_from_pool(MPIR_REQUEST_KIND__RMA, 0, 2);
    MPIR_Assertp(req);
    return req;
}

void rkw_host_finished(void *request, int answer)
{
    MPIR_Request *req = request;
    req->status.MPI_ERROR = RKW_ANSWER(answer);
    MPIDIU_request_complete(req);
}

/* What a receive held for its end. */
static void release(MPIDI_STUBNM_request_t * of)
{
    MPL_free(of->packed);
    if (of->datatype != MPI_DATATYPE_NULL)
        MPIR_Datatype_release_if_not_builtin(of->datatype);
}

/* The end of a partitioned message's start, for which this one was made, if it was. */
static void tell_part(const MPIR_Request * req)
{
    if (req->completion_notification == NULL)
        return;
    MPIR_Request *part = MPL_container_of(req->completion_notification, MPIR_Request, cc);
    part->status = req->status;
    MPIR_cc_dec(&part->cc);
}

/* The end of a send. */
static void sent(MPIR_Request * req)
{
    if (unlikely(RKW_REQUEST(req).packed))
        MPL_free(RKW_REQUEST(req).packed);
    tell_part(req);
    MPIDIU_request_complete(req);
}

/* One that failed: the buffer is as it was, or as far as it came. */
static void rkw_request_failed(MPIR_Request * req, int answer)
{
    if (req->kind == MPIR_REQUEST_KIND__SEND) {
        if (!RKW_REQUEST(req).is_buffered)
            req->status.MPI_ERROR = rkw_error(answer, __func__);
        sent(req);
        return;
    }
    req->status.MPI_ERROR = rkw_error(answer, __func__);
    tell_part(req);
    release(&RKW_REQUEST(req));
    MPIDIU_request_complete(req);
}

/* Elements that the bytes of a message end within. */
static int is_broken(MPI_Aint length, MPI_Datatype datatype)
{
    MPI_Count left = length, whole;
    MPIR_Get_elements_x_impl(&left, datatype, &whole);
    return left != 0;
}

/* A send, or a receive whose status is to be filled. */
void rkw_host_ended(void *request, const rkw_status_t * status)
{
    MPIR_Request *req = request;
    MPIDI_STUBNM_request_t *of = &RKW_REQUEST(req);
    MPI_Aint length = status->length, unpacked;
    if (unlikely(status->failed)) {
        rkw_request_failed(req, status->failed);
        return;
    }
    if (req->kind == MPIR_REQUEST_KIND__SEND) {
        sent(req);
        return;
    }
    req->status.MPI_ERROR = MPI_SUCCESS;
    if (unlikely(status->cancelled)) {
        MPIR_STATUS_SET_CANCEL_BIT(req->status, TRUE);
        length = 0;
    } else {
        rkw_fill(&req->status, status);
    }
    if (unlikely(status->truncated)) {
        req->status.MPI_ERROR =
            MPIR_Err_create_code(MPI_SUCCESS, MPIR_ERR_RECOVERABLE, __func__, __LINE__,
                                 MPI_ERR_TRUNCATE, "**truncate", "**truncate %d %d %d %d",
                                 req->status.MPI_SOURCE, req->status.MPI_TAG,
                                 (int) length, (int) of->capacity);
        length = of->capacity;
    }
    MPIR_STATUS_SET_COUNT(req->status, length);
    if (unlikely(of->datatype != MPI_DATATYPE_NULL)) {
        if (of->packed && length > 0)
            MPIR_Typerep_unpack(of->packed, length, of->buf, of->count, of->datatype, 0, &unpacked);
        if (length < of->capacity && req->status.MPI_ERROR == MPI_SUCCESS &&
            (req->completion_notification || is_broken(length, of->datatype)))
            req->status.MPI_ERROR =
                MPIR_Err_create_code(MPI_SUCCESS, MPIR_ERR_RECOVERABLE, __func__, __LINE__,
                                     MPI_ERR_TYPE, "**dtypemismatch", 0);
        tell_part(req);
        release(of);
    }
    MPIDIU_request_complete(req);
}

/* ---- messages ---- */

/* The bytes of a buffer: where they are, or a packed copy that is freed by MPL_free. */
static const void *bytes_of(const void *buf, MPI_Aint count, MPI_Datatype datatype, MPI_Aint * size,
                            void **packed)
{
    int contig;
    MPI_Aint lower, done;
    MPIR_Datatype *type;
    MPIDI_Datatype_get_info(count, datatype, contig, *size, type, lower);
    *packed = NULL;
    if (contig)
        return MPIR_get_contig_ptr(buf, lower);
    *packed = MPL_malloc(*size + 1, MPL_MEM_BUFFER);
    MPIR_Assertp(*packed);
    MPIR_Typerep_pack(buf, count, datatype, 0, *packed, *size, &done);
    MPIR_Assert(done == *size);
    return *packed;
}

static void send_to(const rkw_match_t * to, const void *buf, MPI_Aint count, MPI_Datatype datatype,
                    int synchronous, MPIR_Request * req)
{
    int contig;
    uint64_t number = RKW_NO_LAYOUT;
    RKW_REQUEST(req).packed = NULL;
    RKW_REQUEST(req).is_buffered = is_buffering;
    MPIDI_Datatype_check_contig(datatype, contig);
    if (!contig)
        number = rkw.isend_layout(rkw.state, to, buf, count, datatype, synchronous, req);
    if (number == RKW_NO_LAYOUT) {
        MPI_Aint size;
        const void *bytes = bytes_of(buf, count, datatype, &size, &RKW_REQUEST(req).packed);
        number = rkw.isend(rkw.state, to, bytes, size, synchronous, req);
    }
    if (number == RKW_DONE)
        sent(req);
}

int rkw_send_slowly(const void *buf, MPI_Aint count, MPI_Datatype datatype, int rank, int tag,
                    MPIR_Comm * comm, int offset, int synchronous, MPIR_Request ** req_p)
{
    MPIR_Request *req = *req_p;
    rkw_match_t to = rkw_to(comm, rank, tag, offset);
    if (req == NULL)
        req = MPIR_Request_create_from_pool(MPIR_REQUEST_KIND__SEND, 0, 2);
    else
        MPIR_Request_add_ref(req);
    MPIR_Assertp(req);
    /* (One of MPI_Bsend's stays until its memory is asked for: MPI_Comm_disconnect would wait.) */
    if (!is_buffering)
        rkw_hold(req, comm);
    *req_p = req;
    send_to(&to, buf, count, datatype, synchronous, req);
    int failed = MPIR_Request_is_complete(req) ? req->status.MPI_ERROR : MPI_SUCCESS;
    /* Who receives in a collective waits for it, and hears by itself of a death alone. */
    if (unlikely(failed) && offset == MPIR_CONTEXT_INTRA_COLL &&
        MPIR_ERR_GET_CLASS(failed) != MPIX_ERR_PROC_FAILED)
        MPIR_Handle_fatal_error(comm, __func__, failed);
    return MPI_SUCCESS;
}

/* Begins to receive what fits, or what was matched; a `part`, of a partitioned message, must fill the
 * buffer. */
static inline uint64_t receive(void *buf, MPI_Aint count, MPI_Datatype datatype,
                               const rkw_match_t * from, void *matched, int part,
                               MPIR_Request * req)
{
    MPIDI_STUBNM_request_t *of = &RKW_REQUEST(req);
    int contig;
    MPI_Aint size, lower;
    MPIR_Datatype *type;
    MPIDI_Datatype_get_info(count, datatype, contig, size, type, lower);
    of->number = 0;
    of->packed = NULL;
    of->capacity = size;
    of->datatype = MPI_DATATYPE_NULL;
    void *space = MPIR_get_contig_ptr(buf, lower);
    if (unlikely(!contig || part)) {
        of->datatype = datatype;
        MPIR_Datatype_add_ref_if_not_builtin(datatype);
    }
    if (unlikely(!contig)) {
        uint64_t number = from ?
            rkw.irecv_layout(rkw.state, from, buf, count, datatype, req) :
            rkw.imrecv_layout(matched, buf, count, datatype, req);
        if (number != RKW_NO_LAYOUT)
            return number;
        of->buf = buf;
        of->count = count;
        space = of->packed = MPL_malloc(size + 1, MPL_MEM_BUFFER);
        MPIR_Assertp(space);
    }
    return from ? rkw.irecv(rkw.state, from, space, size, req) :
        rkw.imrecv(matched, space, size, req);
}

/* Begins one that may be cancelled. */
static inline void begin_recv(void *buf, MPI_Aint count, MPI_Datatype datatype,
                              const rkw_match_t * from, MPIR_Request * req)
{
    uint64_t number = receive(buf, count, datatype, from, NULL, 0, req);
    /* (Of one that is over the place may be another's.) */
    if (number != RKW_DONE && number != RKW_TOLD)
        RKW_REQUEST(req).number = number;
}

int rkw_recv(void *buf, MPI_Aint count, MPI_Datatype datatype, const rkw_match_t * from,
             MPIR_Comm * comm, MPIR_Request ** req_p)
{
    MPIR_Request *req = *req_p;
    rkw_match_t of_all;
    if (unlikely(threads_together))
        from = from_all(from, &of_all);
    if (req == NULL)
        req = MPIR_Request_create_from_pool(MPIR_REQUEST_KIND__RECV, 0, 2);
    else
        MPIR_Request_add_ref(req);
    MPIR_Assertp(req);
    rkw_hold(req, comm);
    *req_p = req;
    begin_recv(buf, count, datatype, from, req);
    if (unlikely(threads_together))
        wait_no_more(req);
    return MPI_SUCCESS;
}

int rkw_mrecv(void *buf, MPI_Aint count, MPI_Datatype datatype, MPIR_Request * message)
{
    receive(buf, count, datatype, NULL, RKW_REQUEST(message).message, 0, message);
    return MPI_SUCCESS;
}

int rkw_am(int rank, MPIR_Comm * comm, int handler, const void *header, MPI_Aint header_len,
           const void *data, MPI_Aint count, MPI_Datatype datatype, MPIR_Request * sreq)
{
    MPI_Aint size;
    void *packed;
    const void *bytes = bytes_of(data, count, datatype, &size, &packed);
    RKW_AM_REQUEST(sreq).handler = handler;
    RKW_AM_REQUEST(sreq).packed = packed;
    int posted = rkw.post(rkw.state, rkw_lpid(comm, rank), handler, header, header_len, bytes, size,
                          sreq);
    if (posted < 0) {
        MPL_free(packed);
        RKW_AM_REQUEST(sreq).packed = NULL;
        return rkw_error(-posted, __func__);
    }
    if (posted)
        rkw_host_posted(sreq);
    return MPI_SUCCESS;
}

/* Of the remote group. */
static int lpid_of(void *comm, int rank)
{
    int group;
    return rkw_pid(comm, rank, &group);
}

#include "rkw_other_jobs.h"
#include "rkw_partitioned.h"

/* ---- start and end ---- */

int MPIDI_STUBNM_init_local(int *tag_bits)
{
    *tag_bits = MPIR_TAG_BITS_DEFAULT;
    MPIR_Assert(RKW_MARKS >> (*tag_bits - MPIR_TAG_ERROR_BITS) == (1 << MPIR_TAG_ERROR_BITS) - 1);
    /* Without the bit of collectives. */
    MPIR_Assert(RKW_TAGS == 1u << (*tag_bits - MPIR_TAG_ERROR_BITS - 1));
    list_elements();
    rkw_nodes_read(MPIR_Process.size, MPIR_Process.node_map);
    return MPI_SUCCESS;
}

int MPIDI_STUBNM_init_world(void)
{
    /* Whoever asks for them directly has done so. */
    MPL_free(MPIR_Process.node_map);
    MPL_free(MPIR_Process.node_root_map);
    MPIR_Process.node_map = MPIR_Process.node_root_map = NULL;
    rkw_open(MPIR_Process.rank, MPIR_Process.size, MPIR_pmi_job_id(), &rkw);
    return MPI_SUCCESS;
}

int MPIDI_STUBNM_post_init(void)
{
    return MPI_SUCCESS;
}

/* Whoever leaves must have been heard. */
int MPIDI_STUBNM_mpi_finalize_hook(void)
{
    if (!rkw.state)
        return MPI_SUCCESS;
    int left, mpi_errno = MPI_SUCCESS;
    while ((left = rkw.leave(rkw.state)) == RKW_NOT_YET)
        ;
    if (left != RKW_SOME_LEFT)
        mpi_errno = MPIR_pmi_barrier();
    /* (Of windows that the program has not freed.) */
    for (int i = 0; i < MPIR_Win_mem.direct_size; i++)
        RKW_WIN(&MPIR_Win_direct[i]).count = 0;
    rkw.close(rkw.state);
    rkw.state = NULL;
    others_avtid = 0;
    return mpi_errno;
}

/* ---- communicators ---- */

/* CH4's map is read once. */
int MPIDI_STUBNM_mpi_comm_commit_pre_hook(MPIR_Comm * comm)
{
    memset(&RKW_COMM(comm), 0, sizeof RKW_COMM(comm));
    rkw_map_t *map = &RKW_COMM(comm).map;
    int mode = MPIDI_COMM(comm, map).mode;
    if (rkw_is_table(&MPIDI_COMM(comm, map)))
        keep_ranks(comm);
    else if (mode != MPIDI_RANK_MAP_NONE)
        rkw_map_read(MPIDI_COMM(comm, map).size, lpid_of, comm, map);
    if (mode != MPIDI_RANK_MAP_NONE && !MPIDI_is_self_comm(comm)) {
        RKW_COMM(comm).reached = comm->remote_size;
        RKW_COMM(comm).by_formula = map->affine;
    }
    return MPI_SUCCESS;
}

int MPIDI_STUBNM_mpi_comm_commit_post_hook(MPIR_Comm * comm)
{
    return MPI_SUCCESS;
}

int MPIDI_STUBNM_mpi_comm_free_hook(MPIR_Comm * comm)
{
    rkw_map_free(RKW_COMM(comm).map.map);
    rkw_nodes_free(RKW_COMM(comm).nodes);
    forget_pairs(comm);
    memset(&RKW_COMM(comm), 0, sizeof RKW_COMM(comm));
    return MPI_SUCCESS;
}

int MPIDI_STUBNM_comm_set_hints(MPIR_Comm * comm_ptr, MPIR_Info * info)
{
    return MPI_SUCCESS;
}

/* ---- windows ---- */

int rkw_error(int answer, const char *call)
{
    static const int classes[] = {
        MPI_SUCCESS, MPI_ERR_RMA_RANGE, MPI_ERR_RANK, MPI_ERR_RMA_SYNC, MPI_ERR_TYPE, MPI_ERR_OP,
        MPI_ERR_TRUNCATE, MPI_ERR_ARG, MPI_ERR_BUFFER, MPI_ERR_WIN, MPI_ERR_NO_MEM,
        MPI_ERR_RMA_ATTACH, MPI_ERR_RMA_SHARED, MPI_ERR_GROUP, MPI_ERR_PORT,
        MPIX_ERR_PROC_FAILED, MPI_ERR_OTHER
    };
    if (answer < 0)
        return -answer;
    return MPIR_Err_create_code(MPI_SUCCESS, MPIR_ERR_RECOVERABLE, call, __LINE__,
                                classes[answer], "**other", "%s", rkw_why());
}

#include "rkw_windows.h"

int rkw_group(int call, MPIR_Group * group, int assert, MPIR_Win * win)
{
    uint32_t *lpids = MPL_malloc((group->size + 1) * sizeof *lpids, MPL_MEM_RMA);
    MPIR_Assertp(lpids);
    for (int i = 0; i < group->size; i++)
        lpids[i] = (uint32_t) group->lrank_to_lpid[i].lpid;
    int answer = rkw.win_group(RKW_WIN(win).window, call, lpids, group->size, assert);
    MPL_free(lpids);
    return RKW_ANSWER(answer);
}

int rkw_operate(MPIR_Win * win, rkw_rma_t * operation, MPIR_Request ** req_p)
{
    operation->op &= 0xff;
    operation->request = (void **) req_p;
    int answer = rkw.win_operate(RKW_WIN(win).window, operation);
    return RKW_ANSWER(answer);
}

/* One block each way, of the same length; 0 of others. `*shift` is where the block of the
 * target begins. */
static size_t one_block(int count, MPI_Datatype datatype, int target_count,
                        MPI_Datatype target_datatype, MPI_Aint * lower, MPI_Aint * shift)
{
    int here, there;
    size_t bytes, target_bytes;
    MPIDI_Datatype_check_contig_size_lb(datatype, count, here, bytes, *lower);
    MPIDI_Datatype_check_contig_size_lb(target_datatype, target_count, there, target_bytes, *shift);
    return here && there && bytes == target_bytes && *shift == 0 ? bytes : 0;
}

int rkw_put_any(const void *buf, int count, MPI_Datatype datatype, int rank, MPI_Aint disp,
                int target_count, MPI_Datatype target_datatype, MPIR_Win * win)
{
    MPI_Aint lower, shift;
    size_t len = one_block(count, datatype, target_count, target_datatype, &lower, &shift);
    if (len == 0)
        return MPIDI_NM_mpi_rput(buf, count, datatype, rank, disp, target_count, target_datatype,
                                 win, NULL, 0, NULL);
    int answer =
        rkw.win_put(RKW_WIN(win).window, MPIR_get_contig_ptr(buf, lower), len, rank, disp);
    return RKW_ANSWER(answer);
}

int rkw_get_any(void *buf, int count, MPI_Datatype datatype, int rank, MPI_Aint disp,
                int target_count, MPI_Datatype target_datatype, MPIR_Win * win)
{
    MPI_Aint lower, shift;
    size_t len = one_block(count, datatype, target_count, target_datatype, &lower, &shift);
    if (len == 0)
        return MPIDI_NM_mpi_rget(buf, count, datatype, rank, disp, target_count, target_datatype,
                                 win, NULL, 0, NULL);
    int answer =
        rkw.win_get(RKW_WIN(win).window, MPIR_get_contig_ptr(buf, lower), len, rank, disp);
    return RKW_ANSWER(answer);
}

#include "rkw_calls.h"

/* ---- what is CH4's own ---- */

int MPIDI_STUBNM_mpi_win_allocate_hook(MPIR_Win * win)
{
    return MPI_SUCCESS;
}

int MPIDI_STUBNM_mpi_win_allocate_shared_hook(MPIR_Win * win)
{
    return MPI_SUCCESS;
}

int MPIDI_STUBNM_mpi_win_free_hook(MPIR_Win * win)
{
    return MPI_SUCCESS;
}

int MPIDI_STUBNM_mpi_win_attach_hook(MPIR_Win * win, void *base, MPI_Aint size)
{
    return MPI_SUCCESS;
}

int MPIDI_STUBNM_mpi_win_detach_hook(MPIR_Win * win, const void *base)
{
    return MPI_SUCCESS;
}

void *MPIDI_STUBNM_mpi_alloc_mem(MPI_Aint size, MPIR_Info * info)
{
    return MPIDIG_mpi_alloc_mem(size, info);
}

int MPIDI_STUBNM_mpi_free_mem(void *ptr)
{
    return MPIDIG_mpi_free_mem(ptr);
}

int MPIDI_STUBNM_mpi_win_set_info(MPIR_Win * win, MPIR_Info * info)
{
    int mpi_errno = MPIDIG_mpi_win_set_info(win, info);
    tell_memory(win);
    return mpi_errno;
}

int MPIDI_STUBNM_mpi_win_get_info(MPIR_Win * win, MPIR_Info ** info_p)
{
    return MPIDIG_mpi_win_get_info(win, info_p);
}

int MPIDI_STUBNM_mpi_type_commit_hook(MPIR_Datatype * datatype_p)
{
    datatype_p->dev.netmod.stubnm.translated = NULL;
    return MPI_SUCCESS;
}

int MPIDI_STUBNM_mpi_type_free_hook(MPIR_Datatype * datatype_p)
{
    if (datatype_p->is_committed)
        rkw_type_drop(datatype_p->dev.netmod.stubnm.translated);
    return MPI_SUCCESS;
}

int MPIDI_STUBNM_mpi_op_commit_hook(MPIR_Op * op_p)
{
    return MPI_SUCCESS;
}

int MPIDI_STUBNM_mpi_op_free_hook(MPIR_Op * op_p)
{
    return MPI_SUCCESS;
}
