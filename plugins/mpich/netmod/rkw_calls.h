/* MPI_Put and MPI_Get of 8 bytes, where one is a store, a load, or a call of the provider, and puts of
 * other basic types where they are a call of the provider. MPICH's own are weak symbols, which these
 * take the place of; what is not that simple, and what is wrong, goes on to them by their PMPI
 * names. A store or a load needs nobody's lock: what is open to a thread stays so, whatever the
 * others open. (Part of stubnm_noinline.c.) */

/* The window of a handle, of the first thousand; null of others. One that was freed is open to no
 * rank, as is any before MPI's start and behind its end. */
MPL_STATIC_INLINE_PREFIX const rkw_win_t *window_of(MPI_Win handle)
{
    unsigned at = (unsigned) handle ^ (HANDLE_KIND_DIRECT << HANDLE_KIND_SHIFT |
                                       MPIR_WIN << HANDLE_MPI_KIND_SHIFT);
    if (likely(at < (unsigned) MPIR_Win_mem.direct_size))
        return &RKW_WIN(&MPIR_Win_direct[at]);
    at ^= (HANDLE_KIND_DIRECT ^ HANDLE_KIND_INDIRECT) << HANDLE_KIND_SHIFT;
    if (at < HANDLE_NUM_INDICES && MPIR_Win_mem.indirect_size > 0)
        return &RKW_WIN((MPIR_Win *) MPIR_Win_mem.indirect[0] + at);
    return NULL;
}

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

int MPI_Put(const void *origin, RKW_OF_PROGRAM, MPI_Win win)
{
    const rkw_win_t *of = window_of(win);
    if (likely(of) && likely(origin) &&
        likely(rkw_is_word(count, datatype, target_count, target_datatype)) &&
        rkw_open_to(of, rank)) {
        if ((size_t) disp < of->words) {
            memcpy(rkw_mapped(of, rank, disp), origin, 8);
            return MPI_SUCCESS;
        }
        if (likely((size_t) disp < of->reached)) {
            /* (Of use where the provider does not take it. Registers would be saved and restored
             * for them in every put.) */
            const void *volatile put = origin;
            volatile MPI_Datatype type = datatype;
            volatile int to = rank;
            volatile MPI_Aint at = disp;
            volatile MPI_Win into = win;
            if (likely(!rankway_put_unchecked(of->access, origin, 8, rank, disp * of->unit)))
                return MPI_SUCCESS;
            return put_any(put, 1, type, to, at, 1, type, into);
        }
    }
    return put_any(origin, count, datatype, rank, disp, target_count, target_datatype, win);
}

static __attribute__((noinline)) int get_any(void *origin, RKW_OF_PROGRAM, MPI_Win win)
{
    const rkw_win_t *of = window_of(win);
    if (of && origin &&
        rkw_load(of, origin, count, datatype, rank, disp, target_count, target_datatype))
        return MPI_SUCCESS;
    return PMPI_Get(origin, count, datatype, rank, disp, target_count, target_datatype, win);
}

int MPI_Get(void *origin, RKW_OF_PROGRAM, MPI_Win win)
{
    const rkw_win_t *of = window_of(win);
    if (likely(of) && likely(origin) &&
        rkw_load(of, origin, count, datatype, rank, disp, target_count, target_datatype))
        return MPI_SUCCESS;
    return get_any(origin, count, datatype, rank, disp, target_count, target_datatype, win);
}
