//! The process's one device and context under MPICH.

use crate::boot::Pmi;
use crate::fault::Refusal;
use crate::host::{self, rkw_status};
use crate::log::{abort, fatal, guarded};
use rankway::msg::{Active, Completion, MsgError, Status};
use rankway::netmod::Netmod;
use rankway_plugin::Layer;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::num::NonZeroU64;
use std::rc::Rc;

/// MPICH, as what the device calls.
pub(crate) struct Mpich;

impl Layer for Mpich {
    type Boot = Pmi;

    unsafe fn ended(ended: Completion) {
        let mut status = rkw_status::default();
        match ended.result.map_err(|e| *e) {
            Ok(of) => status = of_message(&of),
            Err(MsgError::Truncated { source_rank, tag, length, .. }) => {
                status.bits = u64::from(source_rank) << 32 | u64::from(tag);
                status.length = length;
                status.truncated = 1;
            }
            Err(e) => status.failed = Refusal::from(e).kept(),
        }
        // SAFETY: [REQ].
        unsafe { host::rkw_host_ended(ended.cookie.get() as *mut c_void, &status) };
    }

    #[inline(always)]
    unsafe fn succeeded(cookie: NonZeroU64, status: Status) {
        // SAFETY: [REQ].
        unsafe { host::rkw_host_ended(cookie.get() as *mut c_void, &of_message(&status)) };
    }

    fn progress() {
        // SAFETY: no arguments; within a call of MPICH's.
        unsafe { host::rkw_host_progress() };
    }

    fn senders(channel: u64, see: &mut dyn FnMut(u32)) -> bool {
        let mut seeing: Seeing<'_> = see;
        // SAFETY: what it calls it with is alive meanwhile.
        unsafe { host::rkw_host_senders(channel, (&raw mut seeing).cast()) != 0 }
    }

    fn fatal(error: &MsgError) -> ! {
        fatal(error)
    }
}

type Seeing<'a> = &'a mut dyn FnMut(u32);

/// A process that sends on the channel that was asked about.
///
/// # Safety
/// `seeing` is what [`host::rkw_host_senders`] was called with, which has not returned.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rkw_seen(seeing: *mut c_void, lpid: u32) {
    // SAFETY: the caller's.
    let seeing = unsafe { &mut *seeing.cast::<Seeing<'_>>() };
    guarded(|| seeing(lpid));
}

/// What C is told of a message.
#[inline(always)]
pub(crate) fn of_message(of: &Status) -> rkw_status {
    let cancelled = i32::from(of.cancelled);
    rkw_status { bits: of.bits, length: of.length, truncated: 0, cancelled, failed: 0 }
}

/// An operation on a window that has a request and has not ended.
pub(crate) struct OpenRequest {
    pub(crate) request: *mut c_void,
    /// Of this window, by address.
    pub(crate) window: *const c_void,
    /// Makes progress; the answer once it ended.
    pub(crate) poll: Box<dyn FnMut() -> Option<c_int>>,
}

/// What members of the job ask each other: who they are, for processes of other jobs.
#[derive(Default)]
pub(crate) struct Asked {
    /// Those that asked this process, and wait.
    pub(crate) ranks: RefCell<Vec<u32>>,
    pub(crate) is_any: Cell<bool>,
    /// What others have told this process, by rank.
    pub(crate) told: RefCell<HashMap<u32, Vec<u8>>>,
    /// This process's own, once it was needed; stays.
    pub(crate) own: OnceCell<Vec<u8>>,
    /// What C is about to fetch.
    pub(crate) gathered: RefCell<Vec<u8>>,
}

/// What C has a pointer to.
pub(crate) struct State<N: Netmod> {
    pub(crate) open: RefCell<Vec<OpenRequest>>,
    pub(crate) shared: &'static rankway_plugin::State<N, Mpich>,
    pub(crate) active: Active<N>,
    pub(crate) asked: Rc<Asked>,
    /// More processes than processors: who waits lets others run.
    crowded: bool,
    /// Rounds of progress in which nothing ended.
    idle: Cell<u32>,
}

impl<N: Netmod> State<N> {
    pub(crate) fn new(shared: &'static rankway_plugin::State<N, Mpich>) -> State<N> {
        let (active, here) = shared.enter(|inner| {
            (Active::open(&inner.context), inner.context.device().node_size() as usize)
        });
        let processors = std::thread::available_parallelism().map_or(usize::MAX, usize::from);
        State {
            open: RefCell::default(),
            shared,
            active: active.unwrap_or_else(|e| abort(1, &e.to_string())),
            asked: Rc::default(),
            crowded: here > processors,
            idle: Cell::new(0),
        }
    }

    /// One round of progress: how many requests ended.
    #[inline]
    pub(crate) fn progress(&self) -> u32 {
        /// Rounds without an end before others run.
        const PATIENCE: u32 = 8;
        let ended = self.shared.progress();
        if self.crowded {
            let idle = if ended > 0 { 0 } else { self.idle.get() + 1 };
            self.idle.set(idle % PATIENCE);
            if idle == PATIENCE {
                std::thread::yield_now();
            }
        }
        ended
    }

    /// Ends the requests of operations on windows that are over.
    pub(crate) fn end_requests(&self) {
        // (Within a poll there is another round only after it.)
        let Ok(mut open) = self.open.try_borrow_mut() else { return };
        if open.is_empty() {
            return;
        }
        open.retain_mut(|one| match (one.poll)() {
            None => true,
            Some(answer) => {
                // (Before another poll fails, for why this one did; it does not come back here.)
                // SAFETY: [REQ], ended once.
                unsafe { host::rkw_host_finished(one.request, answer) };
                false
            }
        });
    }

    /// Returns true if operations on this window have requests that have not ended.
    pub(crate) fn has_open(&self, window: *const c_void) -> bool {
        self.open.borrow().iter().any(|one| std::ptr::eq(one.window, window))
    }

    /// That of a call.
    ///
    /// # Safety
    /// \[MPI\].
    #[inline(always)]
    pub(crate) unsafe fn of<'a>(state: *mut c_void) -> &'a State<N> {
        // SAFETY: [MPI].
        unsafe { &*state.cast::<State<N>>() }
    }
}
