/* MPI's own functions, where a call is simple: MPI_Put and MPI_Get of 8 bytes that are a store, a load,
 * or a call of the provider; puts of other basic types that are a call of the provider; sends of a
 * basic type that go at once, and receives of one. MPICH's are weak symbols, which these take the
 * place of; what is not that simple, and what is wrong, goes on to them by their PMPI names. A
 * store or a load needs nobody's lock: what is open to a thread stays so, whatever the others open.
 * Behind them what goes wrong in MPICH's before its own functions are called.
 * (Part of stubnm_noinline.c.)
 *
 * Arguments that only a call of MPICH's needs, after one of ours was tried, are kept in volatiles, or
 * are volatile where they lie on the stack: registers would be saved and restored for them in every
 * call. */

/* Whether there is a buffer: MPICH's own look tells of one that is null, if it is built to look. */
#ifdef HAVE_ERROR_CHECKING
#define RKW_GIVEN(buf) likely(buf)
#else
#define RKW_GIVEN(buf) 1
#endif

/* ---- windows ---- */

/* The window of a handle, of the first thousand; null of others. One that was freed is open to no
 * rank, as is any before MPI's start and behind its end. */
MPL_STATIC_INLINE_PREFIX const rkw_win_t *window_of(MPI_Win handle)
{
    unsigned at = (unsigned) handle ^ (HANDLE_KIND_DIRECT << HANDLE_KIND_SHIFT |
                                       MPIR_WIN << HANDLE_MPI_KIND_SHIFT);
    if (likely(at < MPIR_WIN_PREALLOC))
        return &RKW_WIN(&MPIR_Win_direct[at]);
    __asm__("" : "+r"(at));     /* (else `handle` has a register, too) */
    at ^= (HANDLE_KIND_DIRECT ^ HANDLE_KIND_INDIRECT) << HANDLE_KIND_SHIFT;
    if (at < HANDLE_NUM_INDICES && MPIR_Win_mem.indirect_size > 0)
        return &RKW_WIN((MPIR_Win *) MPIR_Win_mem.indirect[0] + at);
    return NULL;
}

/* A put that MPI_Put itself does not do. */
static __attribute__((noinline)) int put_any(const void *origin, RKW_OF_PROGRAM, MPI_Win win)
{
    const rkw_win_t *of = window_of(win);
    if (of && origin && HANDLE_GET_MPI_KIND(datatype) == MPIR_DATATYPE &&
        (rkw_store(of, origin, count, datatype, rank, disp, target_count, target_datatype) ||
         (!MPIR_ThreadInfo.isThreaded &&
          rkw_inject(of, origin, count, datatype, rank, disp, target_count, target_datatype))))
        return MPI_SUCCESS;
    return PMPI_Put(origin, count, datatype, rank, disp, target_count, target_datatype, win);
}

/* One of 8 bytes that is a call of the provider. */
MPL_STATIC_INLINE_PREFIX int put_word(const rkw_win_t *of, const void *origin, int rank, MPI_Aint disp,
                                      volatile MPI_Datatype * datatype, volatile MPI_Win * win)
{
    const void *volatile put = origin;
    volatile int to = rank;
    volatile MPI_Aint at = disp;
    if (likely(!rankway_put_unchecked(of->access, origin, 8, rank, disp * of->unit)))
        return MPI_SUCCESS;
    return PMPI_Put(put, 1, *datatype, to, at, 1, *datatype, *win);
}

int MPI_Put(const void *origin, int count, MPI_Datatype datatype, int rank, MPI_Aint disp,
            int target_count, volatile MPI_Datatype target_datatype, volatile MPI_Win win)
{
    const rkw_win_t *of = window_of(win);
    if (likely(of) && RKW_GIVEN(origin) &&
        likely(rkw_is_word(count, datatype, target_count, target_datatype)) &&
        rkw_open_to(of, rank)) {
        if (likely((size_t) disp < of->reached)) {
            const rankway_access_t *access = of->access;
            if (access->path || access->longest < 8)
                __builtin_unreachable();        /* (limit_words) */
            return put_word(of, origin, rank, disp, &target_datatype, &win);
        }
        if ((size_t) disp < of->words) {
            memcpy(rkw_mapped(of, rank, disp), origin, 8);
            return MPI_SUCCESS;
        }
        if (likely((size_t) disp < of->indexed))
            return put_word(of, origin, rank, disp, &target_datatype, &win);
    }
    return put_any(origin, count, datatype, rank, disp, target_count, target_datatype, win);
}

static __attribute__((noinline)) int get_any(void *origin, RKW_OF_PROGRAM, MPI_Win win)
{
    const rkw_win_t *of = window_of(win);
    if (of && origin && HANDLE_GET_MPI_KIND(datatype) == MPIR_DATATYPE &&
        rkw_load(of, origin, count, datatype, rank, disp, target_count, target_datatype))
        return MPI_SUCCESS;
    return PMPI_Get(origin, count, datatype, rank, disp, target_count, target_datatype, win);
}

int MPI_Get(void *origin, RKW_OF_PROGRAM, MPI_Win win)
{
    const rkw_win_t *of = window_of(win);
    if (likely(of) && RKW_GIVEN(origin) &&
        likely(rkw_is_word(count, datatype, target_count, target_datatype)) &&
        rkw_open_to(of, rank) && likely((size_t) disp < of->words)) {
        memcpy(origin, rkw_mapped(of, rank, disp), 8);
        return MPI_SUCCESS;
    }
    return get_any(origin, count, datatype, rank, disp, target_count, target_datatype, win);
}

/* MPICH's attaches no bytes by doing nothing, and so would refuse to detach them. (Of no address it does
 * nothing in either call.) */
int MPI_Win_attach(MPI_Win handle, void *base, MPI_Aint size)
{
    int mpi_errno = PMPI_Win_attach(handle, base, size);
    if (unlikely(size == 0) && base && mpi_errno == MPI_SUCCESS) {
        MPIR_Win *win;
        MPID_THREAD_CS_ENTER(GLOBAL, MPIR_THREAD_GLOBAL_ALLFUNC_MUTEX);
        MPIR_Win_get_ptr(handle, win);
        mpi_errno = MPID_Win_attach(win, base, size);
        if (mpi_errno != MPI_SUCCESS)
            mpi_errno = MPIR_Err_return_win(win, __func__, mpi_errno);
        MPID_THREAD_CS_EXIT(GLOBAL, MPIR_THREAD_GLOBAL_ALLFUNC_MUTEX);
    }
    return mpi_errno;
}

/* ---- messages ---- */

/* The communicator of a handle: MPI's own, or of the first few; null of others. */
MPL_STATIC_INLINE_PREFIX MPIR_Comm *comm_of(MPI_Comm handle)
{
    unsigned at = (unsigned) handle ^ (HANDLE_KIND_BUILTIN << HANDLE_KIND_SHIFT |
                                       MPIR_COMM << HANDLE_MPI_KIND_SHIFT);
    if (likely(at < MPIR_COMM_N_BUILTIN))
        return &MPIR_Comm_builtin[at];
    at ^= (HANDLE_KIND_BUILTIN ^ HANDLE_KIND_DIRECT) << HANDLE_KIND_SHIFT;
    return at < MPID_COMM_PREALLOC ? &MPIR_Comm_direct[at] : NULL;
}

/* The bytes of so many of a basic type; 0 where there are none, or the type is another. */
MPL_STATIC_INLINE_PREFIX size_t bytes_of_basic(int count, MPI_Datatype datatype)
{
    const unsigned basic = HANDLE_KIND_BUILTIN << 4 | MPIR_DATATYPE;
    if (unlikely(count <= 0) || unlikely((unsigned) datatype >> HANDLE_MPI_KIND_SHIFT != basic))
        return 0;
    return (size_t) (uint32_t) count * (uint32_t) MPIR_Datatype_get_basic_size(datatype);
}

/* Sends what may go by rkw.send, and whether it went: all that MPICH checks, in a program of one thread.
 * (No rank of a communicator that was freed is `reached`, nor of one before MPI's start.) */
MPL_STATIC_INLINE_PREFIX int send_now(const MPIR_Comm * of, const void *buf, int count,
                                      MPI_Datatype datatype, int dest, int tag)
{
    const rkw_map_t *map = &RKW_COMM(of).map;
    uint32_t peer;
    if (likely((uint32_t) dest < RKW_COMM(of).by_formula))
        peer = map->first + map->step * (uint32_t) dest;
    else if ((uint32_t) dest < RKW_COMM(of).reached && map->table)
        peer = (uint32_t) map->table[(uint32_t) dest];
    else
        return 0;
    RKW_APART;
    if (unlikely((unsigned) tag >= RKW_TAGS))
        return 0;
    RKW_APART;
    if (!RKW_GIVEN(buf) || unlikely(MPIR_ThreadInfo.isThreaded))
        return 0;
    RKW_APART;
    size_t len = bytes_of_basic(count, datatype);
    if (unlikely(!len))
        return 0;
    return rkw.send(rkw.state, of->context_id + MPIR_CONTEXT_INTRA_PT2PT, rkw_bits(of, tag), peer,
                    buf, len);
}

int MPI_Isend(const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
              MPI_Request * volatile request)
{
    const MPIR_Comm *of = comm_of(comm);
    const void *volatile kept_buf = buf;
    volatile int kept_count = count, kept_dest = dest, kept_tag = tag;
    volatile MPI_Datatype type = datatype;
    volatile MPI_Comm in = comm;
    if (likely(of) && likely(request) && likely(send_now(of, buf, count, datatype, dest, tag))) {
        *request = MPIR_Request_create_complete(MPIR_REQUEST_KIND__SEND)->handle;
        return MPI_SUCCESS;
    }
    return PMPI_Isend(kept_buf, kept_count, type, kept_dest, kept_tag, in, request);
}

int MPI_Send(const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm)
{
    const MPIR_Comm *of = comm_of(comm);
    const void *volatile kept_buf = buf;
    volatile int kept_count = count, kept_dest = dest, kept_tag = tag;
    volatile MPI_Datatype type = datatype;
    volatile MPI_Comm in = comm;
    if (likely(of) && likely(send_now(of, buf, count, datatype, dest, tag)))
        return MPI_SUCCESS;
    return PMPI_Send(kept_buf, kept_count, type, kept_dest, kept_tag, in);
}

int MPI_Irecv(void *buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
              MPI_Request * request)
{
    MPIR_Comm *of = comm_of(comm);
    if (likely(request) && likely(of) && likely(buf) && likely(bytes_of_basic(count, datatype)) &&
        likely((uint32_t) source < RKW_COMM(of).reached ||
               (source == MPI_ANY_SOURCE && RKW_COMM(of).reached)) &&
        likely((unsigned) tag < RKW_TAGS || tag == MPI_ANY_TAG) &&
        likely(!MPIR_ThreadInfo.isThreaded)) {
        rkw_match_t from = rkw_from(of, source, tag, MPIR_CONTEXT_INTRA_PT2PT);
        MPIR_Request *req = NULL;
        rkw_recv(buf, count, datatype, &from, of, &req);
        *request = req->handle;
        return MPI_SUCCESS;
    }
    return PMPI_Irecv(buf, count, datatype, source, tag, comm, request);
}

/* ---- communicators ---- */

/* MPICH's compares an argument within each group first. A group that fails there tells the other, which
 * waits. */
int MPI_Intercomm_merge(MPI_Comm handle, int high, MPI_Comm * merged)
{
    has_looked = 0;
    int mpi_errno = PMPI_Intercomm_merge(handle, high, merged);
    if (unlikely(MPIR_ERR_GET_CLASS(mpi_errno) == MPIX_ERR_PROC_FAILED) && !has_looked) {
        MPIR_Comm *comm;
        MPID_THREAD_CS_ENTER(GLOBAL, MPIR_THREAD_GLOBAL_ALLFUNC_MUTEX);
        MPIR_Comm_get_ptr(handle, comm);
        all_are_there(comm);
        MPID_THREAD_CS_EXIT(GLOBAL, MPIR_THREAD_GLOBAL_ALLFUNC_MUTEX);
    }
    return mpi_errno;
}
