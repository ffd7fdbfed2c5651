/* What CH4 calls by function, and what the Rust half calls. */
#include <mpidimpl.h>
#include "rkw_impl.h"
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

int rkw_host_node(int rank)
{
    return MPIR_Process.node_map[rank];
}

void rkw_host_abort(int code, const char *why)
{
    fprintf(stderr, "%s\n", why);
    fflush(stderr);
    /* Hydra drops output that it has not forwarded when it ends a job. */
    usleep(200000);
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

/* A send, or a receive whose status is to be filled. */
void rkw_host_ended(void *request, const rkw_status_t * status)
{
    MPIR_Request *req = request;
    MPIDI_STUBNM_request_t *of = &RKW_REQUEST(req);
    MPI_Aint length = status->length, unpacked;
    if (req->kind == MPIR_REQUEST_KIND__SEND) {
        MPL_free(of->packed);
        MPIDIU_request_complete(req);
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
                                 (int) of->capacity, (int) length);
        length = of->capacity;
    }
    MPIR_STATUS_SET_COUNT(req->status, length);
    if (of->packed) {
        if (length > 0)
            MPIR_Typerep_unpack(of->packed, length, of->buf, of->count, of->datatype, 0, &unpacked);
        MPL_free(of->packed);
        MPIR_Datatype_release_if_not_builtin(of->datatype);
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

int rkw_send_slowly(const void *buf, MPI_Aint count, MPI_Datatype datatype, const rkw_match_t * to,
                    int synchronous, MPIR_Request ** req_p)
{
    MPIR_Request *req = *req_p;
    MPI_Aint size;
    void *packed;
    const void *bytes = bytes_of(buf, count, datatype, &size, &packed);
    if (req == NULL)
        req = MPIR_Request_create_from_pool(MPIR_REQUEST_KIND__SEND, 0, 2);
    else
        MPIR_Request_add_ref(req);
    MPIR_Assertp(req);
    RKW_REQUEST(req).packed = packed;
    *req_p = req;
    if (rkw.isend(rkw.state, to, bytes, size, synchronous, req) == RKW_DONE) {
        MPL_free(packed);
        MPIDIU_request_complete(req);
    }
    return MPI_SUCCESS;
}

/* Where a receive goes: into the buffer, or into memory that is unpacked at the end. */
static void *space_of(void *buf, MPI_Aint count, MPI_Datatype datatype,
                      MPIDI_STUBNM_request_t * of)
{
    int contig;
    MPI_Aint size, lower;
    MPIR_Datatype *type;
    MPIDI_Datatype_get_info(count, datatype, contig, size, type, lower);
    of->number = 0;
    of->packed = NULL;
    of->capacity = size;
    if (likely(contig))
        return MPIR_get_contig_ptr(buf, lower);
    of->packed = MPL_malloc(size + 1, MPL_MEM_BUFFER);
    MPIR_Assertp(of->packed);
    of->buf = buf;
    of->count = count;
    of->datatype = datatype;
    MPIR_Datatype_add_ref_if_not_builtin(datatype);
    return of->packed;
}

int rkw_recv(void *buf, MPI_Aint count, MPI_Datatype datatype, const rkw_match_t * from,
             MPIR_Request ** req_p)
{
    MPIR_Request *req = *req_p;
    if (req == NULL)
        req = MPIR_Request_create_from_pool(MPIR_REQUEST_KIND__RECV, 0, 2);
    else
        MPIR_Request_add_ref(req);
    MPIR_Assertp(req);
    MPIDI_STUBNM_request_t *of = &RKW_REQUEST(req);
    void *space = space_of(buf, count, datatype, of);
    *req_p = req;
    uint64_t number = rkw.irecv(rkw.state, from, space, of->capacity, req);
    /* (Of one that is over the place may be another's.) */
    if (number != RKW_DONE)
        of->number = number;
    return MPI_SUCCESS;
}

int rkw_mrecv(void *buf, MPI_Aint count, MPI_Datatype datatype, MPIR_Request * message)
{
    MPIDI_STUBNM_request_t *of = &RKW_REQUEST(message);
    void *matched = of->message;
    void *space = space_of(buf, count, datatype, of);
    rkw.imrecv(matched, space, of->capacity, message);
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
    if (rkw.post(rkw.state, rkw_lpid(comm, rank), handler, header, header_len, bytes, size, sreq))
        rkw_host_posted(sreq);
    return MPI_SUCCESS;
}

/* ---- start and end ---- */

int MPIDI_STUBNM_init_local(int *tag_bits)
{
    *tag_bits = MPIR_TAG_BITS_DEFAULT;
    return MPI_SUCCESS;
}

int MPIDI_STUBNM_init_world(void)
{
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
    while (!rkw.leave(rkw.state))
        ;
    int mpi_errno = MPIR_pmi_barrier();
    rkw.close(rkw.state);
    rkw.state = NULL;
    return mpi_errno;
}

/* ---- communicators ---- */

static int lpid_of(void *comm, int rank)
{
    int lpid = 0, group = 0;
    MPIDIU_comm_rank_to_pid(comm, rank, &lpid, &group);
    return lpid;
}

/* CH4's map is read once. */
int MPIDI_STUBNM_mpi_comm_commit_pre_hook(MPIR_Comm * comm)
{
    rkw_map_t *map = &RKW_COMM(comm).map;
    memset(map, 0, sizeof *map);
    if (MPIDI_COMM(comm, map).mode != MPIDI_RANK_MAP_NONE)
        rkw_map_read(MPIDI_COMM(comm, map).size, lpid_of, comm, map);
    return MPI_SUCCESS;
}

int MPIDI_STUBNM_mpi_comm_commit_post_hook(MPIR_Comm * comm)
{
    return MPI_SUCCESS;
}

int MPIDI_STUBNM_mpi_comm_free_hook(MPIR_Comm * comm)
{
    rkw_map_free(RKW_COMM(comm).map.map);
    RKW_COMM(comm).map.map = NULL;
    return MPI_SUCCESS;
}

int MPIDI_STUBNM_comm_set_hints(MPIR_Comm * comm_ptr, MPIR_Info * info)
{
    return MPI_SUCCESS;
}

/* ---- other jobs: not yet ---- */

static int other_jobs(const char *what)
{
    return MPIR_Err_create_code(MPI_SUCCESS, MPIR_ERR_RECOVERABLE, what, __LINE__, MPI_ERR_OTHER,
                                "**notimpl", 0);
}

int MPIDI_STUBNM_get_local_upids(MPIR_Comm * comm, int **local_upid_size, char **local_upids)
{
    return other_jobs(__func__);
}

int MPIDI_STUBNM_upids_to_gpids(int size, int *remote_upid_size, char *remote_upids,
                                uint64_t * remote_gpids)
{
    return other_jobs(__func__);
}

int MPIDI_STUBNM_dynamic_send(uint64_t remote_gpid, int tag, const void *buf, int size, int timeout)
{
    return other_jobs(__func__);
}

int MPIDI_STUBNM_dynamic_recv(int tag, void *buf, int size, int timeout)
{
    return other_jobs(__func__);
}

/* ---- windows ---- */

/* The base of a window whose memory is to be Rankway's, until it is made. */
static char to_be_allocated;

int MPIDI_STUBNM_mpi_win_create_hook(MPIR_Win * win)
{
    int allocate = win->base == &to_be_allocated;
    rkw_win_arguments_t arguments = {
        .comm = win->comm_ptr,.lpid_of = lpid_of,
        .rank = win->comm_ptr->rank,.size = win->comm_ptr->local_size,
        .base = win->base,.bytes = win->size,.unit = win->disp_unit,.allocate = allocate
    };
    rkw.win_make(rkw.state, &arguments, &RKW_WIN(win));
    if (allocate)
        win->base = RKW_WIN(win).base;
    return MPI_SUCCESS;
}

/* CH4 takes it for memory of the program's, as it is not CH4's to free. */
int MPIDI_STUBNM_mpi_win_allocate(MPI_Aint size, int disp_unit, MPIR_Info * info, MPIR_Comm * comm,
                                  void *baseptr, MPIR_Win ** win_p)
{
    int mpi_errno =
        MPIDIG_mpi_win_create(&to_be_allocated, size, disp_unit, info, comm, win_p);
    if (mpi_errno == MPI_SUCCESS) {
        (*win_p)->create_flavor = MPI_WIN_FLAVOR_ALLOCATE;
        *(void **) baseptr = (*win_p)->base;
    }
    return mpi_errno;
}

int MPIDI_STUBNM_mpi_win_free(MPIR_Win ** win_p)
{
    if ((*win_p)->create_flavor == MPI_WIN_FLAVOR_ALLOCATE)
        (*win_p)->create_flavor = MPI_WIN_FLAVOR_CREATE;
    return MPIDIG_mpi_win_free(win_p);
}

/* Behind the barrier of all members. */
int MPIDI_STUBNM_mpi_win_free_hook(MPIR_Win * win)
{
    if (RKW_WIN(win).window)
        rkw.win_free(RKW_WIN(win).window);
    RKW_WIN(win).window = NULL;
    return MPI_SUCCESS;
}

/* Of these CH4 does everything. */
static int without(MPIR_Win * win)
{
    memset(&RKW_WIN(win), 0, sizeof(rkw_win_t));
    return MPI_SUCCESS;
}

int MPIDI_STUBNM_mpi_win_allocate_hook(MPIR_Win * win)
{
    return without(win);
}

int MPIDI_STUBNM_mpi_win_allocate_shared_hook(MPIR_Win * win)
{
    return without(win);
}

int MPIDI_STUBNM_mpi_win_create_dynamic_hook(MPIR_Win * win)
{
    return without(win);
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

static int out_of_range(void)
{
    return MPIR_Err_create_code(MPI_SUCCESS, MPIR_ERR_RECOVERABLE, __func__, __LINE__,
                                MPI_ERR_RMA_RANGE, "**rmarange", 0);
}

int rkw_put_any(const void *buf, int count, MPI_Datatype datatype, int rank, MPI_Aint disp,
                int target_count, MPI_Datatype target_datatype, MPIR_Win * win)
{
    int mpi_errno = MPI_SUCCESS;
    MPI_Aint lower, shift;
    size_t len = one_block(count, datatype, target_count, target_datatype, &lower, &shift);
    if (len == 0 || !RKW_WIN(win).window)
        return MPIDIG_mpi_put(buf, count, datatype, rank, disp, target_count, target_datatype, win);
    MPIDIG_RMA_OP_CHECK_SYNC(rank, win);
    if (rkw.win_put(RKW_WIN(win).window, MPIR_get_contig_ptr(buf, lower), len, rank, disp))
        mpi_errno = out_of_range();
  fn_fail:
    return mpi_errno;
}

int rkw_get_any(void *buf, int count, MPI_Datatype datatype, int rank, MPI_Aint disp,
                int target_count, MPI_Datatype target_datatype, MPIR_Win * win)
{
    int mpi_errno = MPI_SUCCESS;
    MPI_Aint lower, shift;
    size_t len = one_block(count, datatype, target_count, target_datatype, &lower, &shift);
    if (len == 0 || !RKW_WIN(win).window)
        return MPIDIG_mpi_get(buf, count, datatype, rank, disp, target_count, target_datatype, win);
    MPIDIG_RMA_OP_CHECK_SYNC(rank, win);
    if (rkw.win_get(RKW_WIN(win).window, MPIR_get_contig_ptr(buf, lower), len, rank, disp))
        mpi_errno = out_of_range();
  fn_fail:
    return mpi_errno;
}

/* ---- what is CH4's own ---- */

int MPIDI_STUBNM_mpi_win_attach_hook(MPIR_Win * win, void *base, MPI_Aint size)
{
    return MPI_SUCCESS;
}

int MPIDI_STUBNM_mpi_win_detach_hook(MPIR_Win * win, const void *base)
{
    return MPI_SUCCESS;
}

int MPIDI_STUBNM_mpi_psend_init(const void *buf, int partitions, MPI_Aint count,
                                MPI_Datatype datatype, int rank, int tag, MPIR_Comm * comm,
                                MPIR_Info * info, MPIDI_av_entry_t * av, MPIR_Request ** req_p)
{
    return MPIDIG_mpi_psend_init(buf, partitions, count, datatype, rank, tag, comm, info, req_p);
}

int MPIDI_STUBNM_mpi_precv_init(void *buf, int partitions, MPI_Aint count, MPI_Datatype datatype,
                                int rank, int tag, MPIR_Comm * comm, MPIR_Info * info,
                                MPIDI_av_entry_t * av, MPIR_Request ** req_p)
{
    return MPIDIG_mpi_precv_init(buf, partitions, count, datatype, rank, tag, comm, info, req_p);
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
    return MPIDIG_mpi_win_set_info(win, info);
}

int MPIDI_STUBNM_mpi_win_get_info(MPIR_Win * win, MPIR_Info ** info_p)
{
    return MPIDIG_mpi_win_get_info(win, info_p);
}

int MPIDI_STUBNM_mpi_win_create(void *base, MPI_Aint length, int disp_unit, MPIR_Info * info,
                                MPIR_Comm * comm_ptr, MPIR_Win ** win_p)
{
    return MPIDIG_mpi_win_create(base, length, disp_unit, info, comm_ptr, win_p);
}

int MPIDI_STUBNM_mpi_win_attach(MPIR_Win * win, void *base, MPI_Aint size)
{
    return MPIDIG_mpi_win_attach(win, base, size);
}

int MPIDI_STUBNM_mpi_win_allocate_shared(MPI_Aint size, int disp_unit, MPIR_Info * info,
                                         MPIR_Comm * comm_ptr, void **baseptr_p, MPIR_Win ** win_p)
{
    return MPIDIG_mpi_win_allocate_shared(size, disp_unit, info, comm_ptr, baseptr_p, win_p);
}

int MPIDI_STUBNM_mpi_win_detach(MPIR_Win * win, const void *base)
{
    return MPIDIG_mpi_win_detach(win, base);
}

int MPIDI_STUBNM_mpi_win_create_dynamic(MPIR_Info * info, MPIR_Comm * comm, MPIR_Win ** win_p)
{
    return MPIDIG_mpi_win_create_dynamic(info, comm, win_p);
}

int MPIDI_STUBNM_mpi_type_commit_hook(MPIR_Datatype * datatype_p)
{
    return MPI_SUCCESS;
}

int MPIDI_STUBNM_mpi_type_free_hook(MPIR_Datatype * datatype_p)
{
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
