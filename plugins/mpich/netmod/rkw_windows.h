/* Windows made, attached to and freed: functions of stubnm_noinline.c's, which includes this once (the slot
 * has no place for a file of its own). */
#ifndef RKW_WINDOWS_H
#define RKW_WINDOWS_H

#include "rkw_impl.h"

/* The base of a window that is not of the program's memory, until it is made: which says how
 * it comes by its own. (Several threads may make windows.) */
static char made_as[RKW_DYNAMIC];

/* What CH4 keeps of a window, also of one that is refused: its communicator, its handle, its place in
 * the map. */
static void drop_window(MPIR_Win * win)
{
    int failed;
    MPIDIU_map_erase(MPIDI_global.win_map, MPIDIG_WIN(win, win_id));
    MPIR_Comm_release(win->comm_ptr);
    MPID_Thread_mutex_destroy(&win->mutex, &failed);
    MPIR_Assert(failed == 0);
    MPIR_Handle_obj_free(&MPIR_Win_mem, win);
}

/* One that is refused is no more. */
static int make(MPIR_Win * win, int flavor)
{
    rkw_win_arguments_t arguments = {
        .comm = win->comm_ptr,.map = &RKW_COMM(win->comm_ptr).map,
        .rank = win->comm_ptr->rank,.size = win->comm_ptr->local_size,
        .base = win->base,.bytes = win->size,.unit = win->disp_unit,.flavor = flavor
    };
    if (flavor == RKW_SHARED && MPIDIG_WIN(win, info_args).alloc_shared_noncontig)
        arguments.flavor = RKW_SHARED_APART;
    memset(&RKW_WIN(win), 0, sizeof(rkw_win_t));
    int answer = rkw.win_make(rkw.state, &arguments, &RKW_WIN(win));
    if (unlikely(answer != RKW_OK)) {
        int mpi_errno = rkw_error(answer, __func__);
        /* All members are refused alike, and have heard each other. (After a death, or where an exchange
         * failed, messages to the communicator may still come: no other may have its context id.) */
        if (answer > RKW_OK && answer < RKW_DIED)
            drop_window(win);
        return mpi_errno;
    }
    limit_words(&RKW_WIN(win));
    return MPI_SUCCESS;
}

int MPIDI_STUBNM_mpi_win_create_hook(MPIR_Win * win)
{
    int flavor = RKW_CREATE;
    for (int i = 0; i < RKW_DYNAMIC; i++)
        if (win->base == &made_as[i])
            flavor = i;
    int mpi_errno = make(win, flavor);
    if (mpi_errno == MPI_SUCCESS)
        win->base = RKW_WIN(win).base;
    return mpi_errno;
}

int MPIDI_STUBNM_mpi_win_create_dynamic_hook(MPIR_Win * win)
{
    return make(win, RKW_DYNAMIC);
}

int MPIDI_STUBNM_mpi_win_create(void *base, MPI_Aint length, int disp_unit, MPIR_Info * info,
                                MPIR_Comm * comm_ptr, MPIR_Win ** win_p)
{
    return MPIDIG_mpi_win_create(base, length, disp_unit, info, comm_ptr, win_p);
}

int MPIDI_STUBNM_mpi_win_create_dynamic(MPIR_Info * info, MPIR_Comm * comm, MPIR_Win ** win_p)
{
    return MPIDIG_mpi_win_create_dynamic(info, comm, win_p);
}

/* Rankway's memory is shared where it can be, whatever is hinted; CH4 tells the hint, or of what it takes for
 * the program's memory that it is not. */
static void tell_memory(MPIR_Win * win)
{
    if (win->create_flavor == MPI_WIN_FLAVOR_ALLOCATE || win->create_flavor == MPI_WIN_FLAVOR_SHARED)
        MPIDIG_WIN(win, info_args).alloc_shm = 1;
}

/* CH4 takes the memory for the program's, as it is not CH4's to free. */
static int allocate(int flavor, int create_flavor, MPI_Aint size, int disp_unit, MPIR_Info * info,
                    MPIR_Comm * comm, void **baseptr, MPIR_Win ** win_p)
{
    int mpi_errno =
        MPIDIG_mpi_win_create(&made_as[flavor], size, disp_unit, info, comm, win_p);
    if (mpi_errno == MPI_SUCCESS) {
        (*win_p)->create_flavor = create_flavor;
        tell_memory(*win_p);
        *baseptr = (*win_p)->base;
    }
    return mpi_errno;
}

int MPIDI_STUBNM_mpi_win_allocate(MPI_Aint size, int disp_unit, MPIR_Info * info, MPIR_Comm * comm,
                                  void *baseptr, MPIR_Win ** win_p)
{
    return allocate(RKW_ALLOCATE, MPI_WIN_FLAVOR_ALLOCATE, size, disp_unit, info, comm, baseptr,
                    win_p);
}

int MPIDI_STUBNM_mpi_win_allocate_shared(MPI_Aint size, int disp_unit, MPIR_Info * info,
                                         MPIR_Comm * comm, void **baseptr, MPIR_Win ** win_p)
{
    return allocate(RKW_SHARED, MPI_WIN_FLAVOR_SHARED, size, disp_unit, info, comm, baseptr,
                    win_p);
}

int MPIDI_STUBNM_mpi_win_free(MPIR_Win ** win_p)
{
    MPIR_Win *win = *win_p;
    int answer = RKW_WIN(win).window ? rkw.win_free(RKW_WIN(win).window) : RKW_OK;
    if (answer != RKW_OK)
        return rkw_error(answer, __func__);
    /* (CH4's own barrier may fail yet, and this be called again.) */
    RKW_WIN(win).window = NULL;
    RKW_WIN(win).count = 0;
    if (win->create_flavor != MPI_WIN_FLAVOR_DYNAMIC)
        win->create_flavor = MPI_WIN_FLAVOR_CREATE;
    return MPIDIG_mpi_win_free(win_p);
}

int MPIDI_STUBNM_mpi_win_attach(MPIR_Win * win, void *base, MPI_Aint size)
{
    if (win->create_flavor != MPI_WIN_FLAVOR_DYNAMIC)
        return MPIDIG_mpi_win_attach(win, base, size);
    int answer = rkw.win_attach(RKW_WIN(win).window, base, size);
    return RKW_ANSWER(answer);
}

int MPIDI_STUBNM_mpi_win_detach(MPIR_Win * win, const void *base)
{
    if (win->create_flavor != MPI_WIN_FLAVOR_DYNAMIC)
        return MPIDIG_mpi_win_detach(win, base);
    int answer = rkw.win_attach(RKW_WIN(win).window, (void *) base, -1);
    return RKW_ANSWER(answer);
}

#endif
