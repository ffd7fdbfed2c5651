//! Accesses to windows, and their epochs.

use super::calls;
use super::messages::{begun, is};
use crate::calls::{access, message, synchronization, timed, timed_if};
use rankway::track::{Kind, NO_PEER};
use std::ffi::c_int;

/// An access that a request completes.
///
/// # Safety
/// \[MPI\]
unsafe fn begins(
    kind: Kind,
    what: (usize, usize),
    target: usize,
    window: usize,
    request: usize,
    call: impl FnOnce() -> c_int,
) -> c_int {
    timed(kind, call, |here, event| {
        // SAFETY: [MPI].
        unsafe { begun(message(here, event, what, target, 0, window), request) }
    })
}

calls! {
    events;
    each kind: Kind { Put MPI_Put, Get MPI_Get, }
    (memory, count: int, datatype, target, place, target_count: int, target_type, window)
    |call| access(kind, (count, datatype), target, window, call)
}

calls! {
    events;
    each kind: Kind { Rput MPI_Rput, Rget MPI_Rget, }
    (memory, count: int, datatype, target, place, target_count: int, target_type, window, request)
    |call| begins(kind, (count, datatype), target, window, request, call)
}

calls! {
    events;
    MPI_Accumulate (
        memory, count: int, datatype, target, place, target_count: int, target_type, op, window
    ) |call| access(Kind::Accumulate, (count, datatype), target, window, call);
    MPI_Raccumulate (
        memory, count: int, datatype, target, place, target_count: int, target_type, op, window, request
    ) |call| begins(Kind::Raccumulate, (count, datatype), target, window, request, call);
    MPI_Get_accumulate (
        memory, count: int, datatype, result, result_count: int, result_type, target, place,
        target_count: int, target_type, op, window
    ) |call| access(Kind::GetAccumulate, (result_count, result_type), target, window, call);
    MPI_Rget_accumulate (
        memory, count: int, datatype, result, result_count: int, result_type, target, place,
        target_count: int, target_type, op, window, request
    ) |call| begins(
        Kind::RgetAccumulate, (result_count, result_type), target, window, request, call
    );
    MPI_Fetch_and_op (memory, result, datatype, target, place, op, window)
        |call| access(Kind::FetchAndOp, (1, datatype), target, window, call);
    MPI_Compare_and_swap (
        memory, compare, result, datatype, target, place, window
    ) |call| access(Kind::CompareAndSwap, (1, datatype), target, window, call);

    MPI_Win_fence (assert, window)
        |call| synchronization(Kind::Fence, window, None, call);
    MPI_Win_lock (kind, target, assert, window)
        |call| synchronization(Kind::Lock, window, Some(target), call);
    MPI_Win_unlock (target, window)
        |call| synchronization(Kind::Unlock, window, Some(target), call);
    MPI_Win_lock_all (assert, window)
        |call| synchronization(Kind::LockAll, window, None, call);
    MPI_Win_unlock_all (window)
        |call| synchronization(Kind::UnlockAll, window, None, call);
    MPI_Win_flush (target, window)
        |call| synchronization(Kind::Flush, window, Some(target), call);
    MPI_Win_flush_all (window)
        |call| synchronization(Kind::FlushAll, window, None, call);
    MPI_Win_flush_local (target, window)
        |call| synchronization(Kind::FlushLocal, window, Some(target), call);
    MPI_Win_flush_local_all (window)
        |call| synchronization(Kind::FlushLocalAll, window, None, call);
    MPI_Win_post (group, assert, window)
        |call| synchronization(Kind::Post, window, None, call);
    MPI_Win_start (group, assert, window)
        |call| synchronization(Kind::Start, window, None, call);
    MPI_Win_complete (window)
        |call| synchronization(Kind::Complete, window, None, call);
    MPI_Win_wait (window)
        |call| synchronization(Kind::WinWait, window, None, call);
    MPI_Win_test (window, flag) |call| timed_if(
        Kind::WinTest, call, || is(flag), |here, event| event.with(here.id_of(window), NO_PEER, 0)
    );
    MPI_Win_sync (window)
        |call| synchronization(Kind::Sync, window, None, call);
}
