/* Puts and gets of one block go to Rankway's window. Epochs, accumulates and everything
 * else are CH4's, which calls the hooks here where what was put must have arrived. */
#ifndef RKW_RMA_H
#define RKW_RMA_H

#include "rkw_impl.h"
#include "rankway.h"

#define MPIDI_NM_mpi_put rkw_am_put
#define MPIDI_NM_mpi_get rkw_am_get
#define MPIDI_NM_rma_win_cmpl_hook rkw_am_win_cmpl_hook
#define MPIDI_NM_rma_win_local_cmpl_hook rkw_am_win_local_cmpl_hook
#define MPIDI_NM_rma_target_cmpl_hook rkw_am_target_cmpl_hook
#define MPIDI_NM_rma_target_local_cmpl_hook rkw_am_target_local_cmpl_hook
#include "netmod_am_fallback_rma.h"
#undef MPIDI_NM_mpi_put
#undef MPIDI_NM_mpi_get
#undef MPIDI_NM_rma_win_cmpl_hook
#undef MPIDI_NM_rma_win_local_cmpl_hook
#undef MPIDI_NM_rma_target_cmpl_hook
#undef MPIDI_NM_rma_target_local_cmpl_hook

/* Whether operations may go to all ranks without a further look at the epoch. */
MPL_STATIC_INLINE_PREFIX int rkw_all_open(MPIR_Win * win)
{
    return MPIDIG_WIN(win, sync).access_epoch_type == MPIDIG_EPOTYPE_LOCK_ALL;
}

/* The bytes of an operation whose both sides are the same basic type; 0 of others. */
MPL_STATIC_INLINE_PREFIX size_t rkw_plain(int count, MPI_Datatype datatype, int target_count,
                                          MPI_Datatype target_datatype)
{
    if (datatype != target_datatype || count != target_count || !HANDLE_IS_BUILTIN(datatype))
        return 0;
    return (size_t) count * MPIR_Datatype_get_basic_size(datatype);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_put(const void *buf, int count, MPI_Datatype datatype,
                                              int rank, MPI_Aint disp, int target_count,
                                              MPI_Datatype target_datatype, MPIR_Win * win,
                                              MPIDI_av_entry_t * addr, MPIDI_winattr_t winattr)
{
    const rkw_win_t *of = &RKW_WIN(win);
    size_t len = rkw_plain(count, datatype, target_count, target_datatype);
    if (likely(rkw_all_open(win)) && likely((size_t) disp <= of->max_disp)) {
        size_t offset = (size_t) disp * of->unit;
        /* (No bytes are not less one.) */
        if (likely(len - 1 < of->bytes - offset) &&
            likely(!rankway_put_unchecked(of->access, buf, len, rank, offset)))
            return MPI_SUCCESS;
    }
    return rkw_put_any(buf, count, datatype, rank, disp, target_count, target_datatype, win);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_get(void *buf, int count, MPI_Datatype datatype,
                                              int rank, MPI_Aint disp, int target_count,
                                              MPI_Datatype target_datatype, MPIR_Win * win,
                                              MPIDI_av_entry_t * addr, MPIDI_winattr_t winattr)
{
    return rkw_get_any(buf, count, datatype, rank, disp, target_count, target_datatype, win);
}

MPL_STATIC_INLINE_PREFIX int rkw_flush(MPIR_Win * win, int rank, int local)
{
    if (RKW_WIN(win).window)
        rkw.win_flush(RKW_WIN(win).window, rank, local);
    return MPI_SUCCESS;
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_rma_win_cmpl_hook(MPIR_Win * win)
{
    return rkw_flush(win, -1, 0);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_rma_win_local_cmpl_hook(MPIR_Win * win)
{
    return rkw_flush(win, -1, 1);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_rma_target_cmpl_hook(int rank, MPIR_Win * win)
{
    return rkw_flush(win, rank, 0);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_rma_target_local_cmpl_hook(int rank, MPIR_Win * win)
{
    return rkw_flush(win, rank, 1);
}

#endif
