//! What C sees: a table of the chosen netmod's functions, opened and closed here.

use crate::boot::Pmi;
use crate::host::rkw_status;
use crate::log::{abort, guarded};
use crate::message::rkw_match;
use crate::rma::rkw_rma;
use crate::state::State;
use crate::window::{rkw_win, rkw_win_arguments};
use crate::{active, epoch, message, other_jobs, rma, window};
use rankway::device::Options;
use rankway::match_netmod;
use rankway::netmod::Netmod;
use rankway::rma::Communicator;
use rankway_plugin::Chosen;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::fmt::Display;
use std::sync::Arc;

/// The netmod's functions, and what they are called with: `struct rkw_netmod`.
#[repr(C)]
#[allow(missing_docs)]
pub(crate) struct rkw_netmod {
    state: *mut c_void,
    progress: unsafe extern "C" fn(*mut c_void) -> c_int,
    send: unsafe extern "C" fn(*mut c_void, u64, u64, u32, *const u8, usize) -> c_int,
    isend: unsafe extern "C" fn(
        *mut c_void,
        *const rkw_match,
        *const u8,
        usize,
        c_int,
        *mut c_void,
    ) -> u64,
    isend_layout: unsafe extern "C" fn(
        *mut c_void,
        *const rkw_match,
        *const u8,
        i64,
        c_int,
        c_int,
        *mut c_void,
    ) -> u64,
    irecv: unsafe extern "C" fn(*mut c_void, *const rkw_match, *mut u8, usize, *mut c_void) -> u64,
    irecv_layout: unsafe extern "C" fn(
        *mut c_void,
        *const rkw_match,
        *mut u8,
        i64,
        c_int,
        *mut c_void,
    ) -> u64,
    iprobe: unsafe extern "C" fn(*mut c_void, *const rkw_match, *mut rkw_status) -> c_int,
    improbe: unsafe extern "C" fn(*mut c_void, *const rkw_match, *mut rkw_status) -> *mut c_void,
    imrecv: unsafe extern "C" fn(*mut c_void, *mut u8, usize, *mut c_void) -> u64,
    imrecv_layout: unsafe extern "C" fn(*mut c_void, *mut u8, i64, c_int, *mut c_void) -> u64,
    cancel: unsafe extern "C" fn(*mut c_void, u64),
    dead_sender: unsafe extern "C" fn(*mut c_void, u64, u32) -> c_int,
    dead_member: unsafe extern "C" fn(*mut c_void, u64) -> c_int,
    post: unsafe extern "C" fn(
        *mut c_void,
        u32,
        c_int,
        *const u8,
        usize,
        *const u8,
        usize,
        *mut c_void,
    ) -> c_int,
    win_make: unsafe extern "C" fn(*mut c_void, *const rkw_win_arguments, *mut rkw_win) -> c_int,
    win_free: unsafe extern "C" fn(*mut c_void) -> c_int,
    win_attach: unsafe extern "C" fn(*mut c_void, *mut u8, isize) -> c_int,
    win_shared_query:
        unsafe extern "C" fn(*mut c_void, c_int, *mut isize, *mut c_int, *mut *mut u8) -> c_int,
    win_put: unsafe extern "C" fn(*mut c_void, *const u8, usize, u32, isize) -> c_int,
    win_get: unsafe extern "C" fn(*mut c_void, *mut u8, usize, u32, isize) -> c_int,
    win_operate: unsafe extern "C" fn(*mut c_void, *const rkw_rma) -> c_int,
    win_lock: unsafe extern "C" fn(*mut c_void, c_int, c_int, c_int) -> c_int,
    win_epoch: unsafe extern "C" fn(*mut c_void, c_int, c_int, c_int) -> c_int,
    win_fence: unsafe extern "C" fn(*mut c_void, c_int) -> c_int,
    win_group: unsafe extern "C" fn(*mut c_void, c_int, *const u32, usize, c_int) -> c_int,
    win_test: unsafe extern "C" fn(*mut c_void, *mut c_int) -> c_int,
    gather: unsafe extern "C" fn(*mut c_void, *const u32, usize, c_int, *mut c_int) -> c_int,
    introductions: unsafe extern "C" fn(*mut c_void, *mut u8),
    meet: unsafe extern "C" fn(*mut c_void, *const u8, usize, *mut u32) -> c_int,
    has_ended: unsafe extern "C" fn(*const u8, usize) -> c_int,
    leave: unsafe extern "C" fn(*mut c_void) -> c_int,
    close: unsafe extern "C" fn(*mut c_void),
}

impl std::fmt::Debug for rkw_netmod {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("rkw_netmod").field("state", &self.state).finish_non_exhaustive()
    }
}

/// Opens the process's device over the netmod that `RANKWAY_NETMOD` names, or the best.
/// Ends the job where that cannot be done.
///
/// # Safety
/// \[MPI\]: `space` is the name of the job's key-value space; MPICH has met the launcher.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rkw_open(
    rank: c_int,
    size: c_int,
    space: *const c_char,
    to: *mut rkw_netmod,
) {
    guarded(|| {
        // SAFETY: [MPI].
        let space = unsafe { CStr::from_ptr(space) }.to_string_lossy();
        let refused = |why: &dyn Display| -> ! { abort(1, &format!("rank {rank}: {why}")) };
        let boot = Pmi::new(rank as u32, size as u32, &space);
        let boot = Arc::new(boot.unwrap_or_else(|why| refused(&why)));
        Pmi::set_current(Some(Arc::clone(&boot)));
        let opened = rankway_plugin::open(None, boot, &Options::default());
        let opened = opened.unwrap_or_else(|why| refused(&why));
        let table = match_netmod!(opened, Chosen(state) => table(State::new(state)));
        // SAFETY: [MPI].
        unsafe { to.write(table) };
    });
}

fn table<N: Netmod>(state: State<N>) -> rkw_netmod {
    message::register(&state);
    active::register(&state);
    rma::register(&state);
    other_jobs::register(&state);
    rkw_netmod {
        state: Box::into_raw(Box::new(state)).cast(),
        progress: progress::<N>,
        send: message::send::<N>,
        isend: message::isend::<N>,
        isend_layout: message::isend_layout::<N>,
        irecv: message::irecv::<N>,
        irecv_layout: message::irecv_layout::<N>,
        iprobe: message::iprobe::<N>,
        improbe: message::improbe::<N>,
        imrecv: message::imrecv::<N>,
        imrecv_layout: message::imrecv_layout::<N>,
        cancel: message::cancel::<N>,
        dead_sender: message::dead_sender::<N>,
        dead_member: message::dead_member::<N>,
        post: active::post::<N>,
        win_make: window::make::<N>,
        win_free: window::free::<N>,
        win_attach: window::attach::<N>,
        win_shared_query: window::shared_query::<N>,
        win_put: rma::put::<N>,
        win_get: rma::get::<N>,
        win_operate: rma::operate::<N>,
        win_lock: epoch::lock::<N>,
        win_epoch: epoch::call::<N>,
        win_fence: epoch::fence::<N>,
        win_group: epoch::group::<N>,
        win_test: epoch::test::<N>,
        gather: other_jobs::gather::<N>,
        introductions: other_jobs::introductions::<N>,
        meet: other_jobs::meet::<N>,
        has_ended: other_jobs::has_ended,
        leave: leave::<N>,
        close: close::<N>,
    }
}

// `enum rkw_left`.
const NOT_YET: c_int = 0;
const ALL_LEFT: c_int = 1;
const SOME_LEFT: c_int = 2;

/// One round of progress: how many requests ended.
unsafe extern "C" fn progress<N: Netmod>(state: *mut c_void) -> c_int {
    // SAFETY: [MPI].
    let state = unsafe { State::<N>::of(state) };
    guarded(|| {
        let ended = state.progress();
        active::tell(state);
        other_jobs::answer(state);
        state.end_requests();
        ended as c_int
    })
}

/// Makes progress; [`ALL_LEFT`] when nothing of this process waits to go out, and all ranks
/// are so far: who waits for them makes progress for messages of theirs.
unsafe extern "C" fn leave<N: Netmod>(state: *mut c_void) -> c_int {
    // SAFETY: [MPI].
    unsafe { progress::<N>(state) };
    // SAFETY: [MPI].
    let state = unsafe { State::<N>::of(state) };
    guarded(|| {
        let counts = state.shared.enter(|inner| inner.tagged.counts());
        if counts.queued > 0 || counts.queued_packets > 0 {
            return NOT_YET;
        }
        // (Who is gone cannot meet the others at the launcher either.)
        let met = state.shared.enter_waiting(|inner| Communicator::world(&inner.context).barrier());
        if met.is_ok() { ALL_LEFT } else { SOME_LEFT }
    })
}

/// Closes the device.
unsafe extern "C" fn close<N: Netmod>(state: *mut c_void) {
    guarded(|| {
        // SAFETY: [MPI]; made by `Box::into_raw` in `table`, used no more.
        let State { shared, active, .. } = *unsafe { Box::from_raw(state.cast::<State<N>>()) };
        drop(active);
        Pmi::set_current(None);
        // SAFETY: [MPI], as above.
        unsafe { shared.close() };
    });
}
