/* Windows: operations and epochs are Rankway's. */
#ifndef RKW_RMA_H
#define RKW_RMA_H

#include "rkw_impl.h"
#include "rankway.h"

/* What CH4 gives an operation beside what the program did. */
#define RKW_OF_CH4 MPIDI_av_entry_t * addr, MPIDI_winattr_t winattr

/* The code of an answer. */
#define RKW_ANSWER(answer) (likely((answer) == RKW_OK) ? MPI_SUCCESS : rkw_error(answer, __func__))

/* Tests on its two sides are not joined: each is a comparison and a branch, and needs no register. */
#define RKW_APART __asm__ volatile ("")

/* Whether both sides of an operation are one of the same basic type of 8 bytes, which is most of
 * what programs put. */
MPL_STATIC_INLINE_PREFIX int rkw_is_word(int count, MPI_Datatype datatype, int target_count,
                                         MPI_Datatype target_datatype)
{
    if (likely(count == 1)) {
        RKW_APART;
        if (likely(target_count == 1)) {
            RKW_APART;
            if (likely(datatype == target_datatype)) {
                RKW_APART;
                return likely((unsigned) datatype - (MPI_DOUBLE & ~0xff) <= 0xff);
            }
        }
    }
    return 0;
}

/* The bytes of an operation whose both sides are the same basic type; 0 of others. */
MPL_STATIC_INLINE_PREFIX size_t rkw_plain(int count, MPI_Datatype datatype, int target_count,
                                          MPI_Datatype target_datatype)
{
    if (likely(rkw_is_word(count, datatype, target_count, target_datatype)))
        return 8;
    if (datatype != target_datatype || count != target_count || !HANDLE_IS_BUILTIN(datatype))
        return 0;
    return (size_t) count * MPIR_Datatype_get_basic_size(datatype);
}

/* Whether operations may go to a rank without a further look at the epoch. */
MPL_STATIC_INLINE_PREFIX int rkw_open_to(const rkw_win_t * of, int rank)
{
    return likely((uint32_t) rank - of->first < of->count);
}

/* Where a displacement below `words` of a rank is. */
MPL_STATIC_INLINE_PREFIX char *rkw_mapped(const rkw_win_t * of, int rank, size_t disp)
{
    return of->start + rank * of->stride + disp * of->unit;
}

/* Whether `len` bytes may go to `disp` by the provider. (No bytes are not less one.) */
MPL_STATIC_INLINE_PREFIX int rkw_reach(const rkw_win_t * of, size_t disp, size_t len)
{
    return likely(disp <= of->max_disp) && likely(len - 1 < of->bytes - disp * of->unit);
}

/* Of a window just made, so that MPI_Put has less to look at. */
MPL_STATIC_INLINE_PREFIX void limit_words(rkw_win_t * of)
{
    const rankway_access_t *access = of->access;
    if (MPIR_ThreadInfo.isThreaded || !access) {
        of->reached = 0;
    } else if (access->path || access->longest < 8) {
        of->indexed = of->reached;
        of->reached = 0;
    }
}

/* What the program gave a put or a get beside its own buffer. */
#define RKW_OF_PROGRAM int count, MPI_Datatype datatype, int rank, MPI_Aint disp, \
    int target_count, MPI_Datatype target_datatype

/* A put of 8 bytes that is one store: whether it was, and is done. (A flush orders the stores; they
 * leave no mark that it would look for.) */
MPL_STATIC_INLINE_PREFIX int rkw_store(const rkw_win_t * of, const void *buf, RKW_OF_PROGRAM)
{
    if (rkw_plain(count, datatype, target_count, target_datatype) != 8 || !rkw_open_to(of, rank) ||
        (size_t) disp >= of->words)
        return 0;
    memcpy(rkw_mapped(of, rank, disp), buf, 8);
    return 1;
}

/* A get that is one load, the same. */
MPL_STATIC_INLINE_PREFIX int rkw_load(const rkw_win_t * of, void *buf, RKW_OF_PROGRAM)
{
    if (rkw_plain(count, datatype, target_count, target_datatype) != 8 || !rkw_open_to(of, rank) ||
        (size_t) disp >= of->words)
        return 0;
    memcpy(buf, rkw_mapped(of, rank, disp), 8);
    return 1;
}

/* A put that is one call of the provider: whether it was, and went. */
MPL_STATIC_INLINE_PREFIX int rkw_inject(const rkw_win_t * of, const void *buf, RKW_OF_PROGRAM)
{
    size_t len = rkw_plain(count, datatype, target_count, target_datatype), at = disp;
    return rkw_open_to(of, rank) && rkw_reach(of, at, len) &&
        likely(!rankway_put_unchecked(of->access, buf, len, rank, at * of->unit));
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_put(const void *buf, RKW_OF_PROGRAM, MPIR_Win * win,
                                              RKW_OF_CH4)
{
    const rkw_win_t *of = &RKW_WIN(win);
    if (rkw_store(of, buf, count, datatype, rank, disp, target_count, target_datatype) ||
        rkw_inject(of, buf, count, datatype, rank, disp, target_count, target_datatype))
        return MPI_SUCCESS;
    return rkw_put_any(buf, count, datatype, rank, disp, target_count, target_datatype, win);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_get(void *buf, RKW_OF_PROGRAM, MPIR_Win * win,
                                              RKW_OF_CH4)
{
    if (rkw_load(&RKW_WIN(win), buf, count, datatype, rank, disp, target_count, target_datatype))
        return MPI_SUCCESS;
    return rkw_get_any(buf, count, datatype, rank, disp, target_count, target_datatype, win);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_rput(const void *buf, int count, MPI_Datatype datatype,
                                               int rank, MPI_Aint disp, int target_count,
                                               MPI_Datatype target_datatype, MPIR_Win * win,
                                               RKW_OF_CH4, MPIR_Request ** req_p)
{
    rkw_rma_t put = {.what = RKW_PUT,.rank = rank,.disp = disp,.origin = buf,
        .here = {count, datatype},.there = {target_count, target_datatype}
    };
    return rkw_operate(win, &put, req_p);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_rget(void *buf, int count, MPI_Datatype datatype,
                                               int rank, MPI_Aint disp, int target_count,
                                               MPI_Datatype target_datatype, MPIR_Win * win,
                                               RKW_OF_CH4, MPIR_Request ** req_p)
{
    rkw_rma_t get = {.what = RKW_GET,.rank = rank,.disp = disp,.result = buf,
        .here = {count, datatype},.there = {target_count, target_datatype}
    };
    return rkw_operate(win, &get, req_p);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_raccumulate(const void *buf, int count,
                                                      MPI_Datatype datatype, int rank,
                                                      MPI_Aint disp, int target_count,
                                                      MPI_Datatype target_datatype, MPI_Op op,
                                                      MPIR_Win * win, RKW_OF_CH4,
                                                      MPIR_Request ** req_p)
{
    rkw_rma_t update = {.what = RKW_ACCUMULATE,.op = op,.rank = rank,.disp = disp,.origin = buf,
        .here = {count, datatype},.there = {target_count, target_datatype}
    };
    return rkw_operate(win, &update, req_p);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_accumulate(const void *buf, int count,
                                                     MPI_Datatype datatype, int rank,
                                                     MPI_Aint disp, int target_count,
                                                     MPI_Datatype target_datatype, MPI_Op op,
                                                     MPIR_Win * win, RKW_OF_CH4)
{
    return MPIDI_NM_mpi_raccumulate(buf, count, datatype, rank, disp, target_count,
                                    target_datatype, op, win, addr, winattr, NULL);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_rget_accumulate(const void *buf, int count,
                                                          MPI_Datatype datatype, void *result,
                                                          int result_count,
                                                          MPI_Datatype result_datatype, int rank,
                                                          MPI_Aint disp, int target_count,
                                                          MPI_Datatype target_datatype, MPI_Op op,
                                                          MPIR_Win * win, RKW_OF_CH4,
                                                          MPIR_Request ** req_p)
{
    rkw_rma_t fetch = {.what = RKW_FETCH,.op = op,.rank = rank,.disp = disp,.origin = buf,
        .result = result,.here = {count, datatype},.back = {result_count, result_datatype},
        .there = {target_count, target_datatype}
    };
    return rkw_operate(win, &fetch, req_p);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_get_accumulate(const void *buf, int count,
                                                         MPI_Datatype datatype, void *result,
                                                         int result_count,
                                                         MPI_Datatype result_datatype, int rank,
                                                         MPI_Aint disp, int target_count,
                                                         MPI_Datatype target_datatype, MPI_Op op,
                                                         MPIR_Win * win, RKW_OF_CH4)
{
    return MPIDI_NM_mpi_rget_accumulate(buf, count, datatype, result, result_count,
                                        result_datatype, rank, disp, target_count,
                                        target_datatype, op, win, addr, winattr, NULL);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_fetch_and_op(const void *buf, void *result,
                                                       MPI_Datatype datatype, int rank,
                                                       MPI_Aint disp, MPI_Op op, MPIR_Win * win,
                                                       RKW_OF_CH4)
{
    return MPIDI_NM_mpi_rget_accumulate(buf, 1, datatype, result, 1, datatype, rank, disp, 1,
                                        datatype, op, win, addr, winattr, NULL);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_compare_and_swap(const void *buf, const void *compare,
                                                           void *result, MPI_Datatype datatype,
                                                           int rank, MPI_Aint disp, MPIR_Win * win,
                                                           RKW_OF_CH4)
{
    rkw_rma_t swap = {.what = RKW_SWAP,.rank = rank,.disp = disp,.origin = buf,
        .result = result,.compare = compare,.there = {1, datatype}
    };
    return rkw_operate(win, &swap, NULL);
}

/* ---- epochs ---- */

MPL_STATIC_INLINE_PREFIX int rkw_epoch(int call, int rank, int assert, MPIR_Win * win)
{
    int answer = rkw.win_epoch(RKW_WIN(win).window, call, rank, assert);
    return RKW_ANSWER(answer);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_win_start(MPIR_Group * group, int assert, MPIR_Win * win)
{
    return rkw_group(RKW_START, group, assert, win);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_win_complete(MPIR_Win * win)
{
    return rkw_epoch(RKW_COMPLETE, 0, 0, win);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_win_post(MPIR_Group * group, int assert, MPIR_Win * win)
{
    return rkw_group(RKW_POST, group, assert, win);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_win_wait(MPIR_Win * win)
{
    return rkw_epoch(RKW_WAIT, 0, 0, win);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_win_test(MPIR_Win * win, int *flag)
{
    int answer = rkw.win_test(RKW_WIN(win).window, flag);
    return RKW_ANSWER(answer);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_win_lock(int lock_type, int rank, int assert,
                                                   MPIR_Win * win, MPIDI_av_entry_t * addr)
{
    int answer = rkw.win_lock(RKW_WIN(win).window, lock_type, rank, assert);
    return RKW_ANSWER(answer);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_win_unlock(int rank, MPIR_Win * win,
                                                     MPIDI_av_entry_t * addr)
{
    return rkw_epoch(RKW_UNLOCK, rank, 0, win);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_win_lock_all(int assert, MPIR_Win * win)
{
    return rkw_epoch(RKW_LOCK_ALL, 0, assert, win);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_win_unlock_all(MPIR_Win * win)
{
    return rkw_epoch(RKW_UNLOCK_ALL, 0, 0, win);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_win_fence(int assert, MPIR_Win * win)
{
    int answer = rkw.win_fence(RKW_WIN(win).window, assert);
    return RKW_ANSWER(answer);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_win_flush(int rank, MPIR_Win * win,
                                                    MPIDI_av_entry_t * addr)
{
    return rkw_epoch(RKW_FLUSH, rank, 0, win);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_win_flush_local(int rank, MPIR_Win * win,
                                                          MPIDI_av_entry_t * addr)
{
    return rkw_epoch(RKW_FLUSH_LOCAL, rank, 0, win);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_win_flush_all(MPIR_Win * win)
{
    return rkw_epoch(RKW_FLUSH_ALL, 0, 0, win);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_win_flush_local_all(MPIR_Win * win)
{
    return rkw_epoch(RKW_FLUSH_LOCAL_ALL, 0, 0, win);
}

/* Programs that spin on memory call this in between. */
MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_win_sync(MPIR_Win * win)
{
    MPL_atomic_read_write_barrier();
    rkw.progress(rkw.state);
    return MPI_SUCCESS;
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_win_shared_query(MPIR_Win * win, int rank,
                                                           MPI_Aint * size, int *disp_unit,
                                                           void *baseptr)
{
    int answer = rkw.win_shared_query(RKW_WIN(win).window, rank, size, disp_unit, baseptr);
    return RKW_ANSWER(answer);
}

/* ---- what CH4 asks where it has an operation itself ---- */

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_rma_win_cmpl_hook(MPIR_Win * win)
{
    return MPI_SUCCESS;
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_rma_win_local_cmpl_hook(MPIR_Win * win)
{
    return MPI_SUCCESS;
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_rma_target_cmpl_hook(int rank, MPIR_Win * win)
{
    return MPI_SUCCESS;
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_rma_target_local_cmpl_hook(int rank, MPIR_Win * win)
{
    return MPI_SUCCESS;
}

#endif
