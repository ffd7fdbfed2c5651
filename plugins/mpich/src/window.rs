//! Windows: puts and gets of one block each way. Epochs are CH4's, over its own messages;
//! for Rankway one to all ranks is open as long as the window is there, and what CH4
//! completes at the end of its epochs is flushed here.
//!
//! The window counts in bytes, so that ranks of different displacement units share one
//! set of metadata; the units are kept here.

use crate::host;
use crate::log::{fatal, guarded};
use crate::map::{LpidOf, map_of};
use crate::state::State;
use rankway::netmod::Netmod;
use rankway::rma::{Access, Allgather, Assert, Communicator, Error, ErrorKind, Window};
use std::ffi::{c_int, c_void};
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};

/// What a call answers: it is done, or refused.
const DONE: c_int = 0;
const OUT_OF_RANGE: c_int = 1;

/// A window that is being made.
#[repr(C)]
pub(crate) struct rkw_win_arguments {
    comm: *mut c_void,
    lpid_of: LpidOf,
    rank: c_int,
    size: c_int,
    /// Memory of the caller's; null where `allocate`.
    base: *mut c_void,
    bytes: usize,
    unit: u32,
    allocate: c_int,
}

/// What C sees of a window.
#[repr(C)]
pub(crate) struct rkw_win {
    window: *mut c_void,
    /// As `rankway_access_t`.
    access: *const c_void,
    /// Bytes of a displacement unit and of each rank's memory, and their quotient, where all
    /// are alike; else 0.
    unit: usize,
    max_disp: usize,
    bytes: usize,
    /// This process's memory.
    base: *mut c_void,
}

struct Held<N: Netmod> {
    window: Window<N>,
    state: &'static rankway_plugin::State<N, crate::state::Mpich>,
    comm: *mut c_void,
    /// By rank, or of all.
    units: Vec<u32>,
}

/// What each member tells the others.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct Member {
    bytes: u64,
    unit: u32,
    /// The first member's, with its lpid: a number no other window has.
    number: u32,
}

/// Windows this process was the first member of.
static WINDOWS_MADE: AtomicU32 = AtomicU32::new(0);

/// The allgather of a window's members: MPICH's.
struct Members {
    comm: *mut c_void,
    size: usize,
}

impl Members {
    /// As many elements of each. Any bits are a `T`.
    fn all<T: Copy + Default>(&self, mine: &[T]) -> Result<Vec<T>, String> {
        let mut all = vec![T::default(); self.size * mine.len()];
        let (from, to) = (mine.as_ptr().cast(), all.as_mut_ptr().cast());
        // SAFETY: the window's communicator; the buffers hold that many bytes.
        match unsafe { host::rkw_host_allgather(self.comm, from, size_of_val(mine), to) } {
            0 => Ok(all),
            code => Err(format!("an allgather of MPICH's answered {code:#x}")),
        }
    }
}

impl Allgather for Members {
    fn allgather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>, String> {
        rankway_plugin::gather_padded(mine, |bytes| self.all(bytes))
    }
}

/// Makes a window. Collective.
pub(crate) unsafe extern "C" fn make<N: Netmod>(
    state: *mut c_void,
    arguments: *const rkw_win_arguments,
    to: *mut rkw_win,
) {
    // SAFETY: [MPI].
    let (state, arguments) = unsafe { (State::<N>::of(state), &*arguments) };
    guarded(|| {
        // SAFETY: [MPI], a communicator with its map.
        let made = unsafe { made(state, arguments) };
        // SAFETY: [MPI].
        unsafe { to.write(made.unwrap_or_else(|why| fatal(&why))) };
    });
}

/// # Safety
/// \[MPI\].
unsafe fn made<N: Netmod>(
    state: &State<N>,
    arguments: &rkw_win_arguments,
) -> Result<rkw_win, String> {
    let rkw_win_arguments { comm, lpid_of, rank, size, base, bytes, unit, allocate } = *arguments;
    let members = Members { comm, size: size as usize };
    let number = if rank == 0 { WINDOWS_MADE.fetch_add(1, Ordering::Relaxed) } else { 0 };
    let all = members.all(&[Member { bytes: bytes as u64, unit, number }])?;
    // SAFETY: [MPI].
    let map = unsafe { map_of(size, lpid_of, comm) };
    let first = map.get(0).map_or(0, |process| process.lpid);
    let id = u64::from(first) << 32 | u64::from(all.first().map_or(0, |of| of.number));
    let shared = state.shared;
    let window = shared.enter_waiting(|inner| -> Result<Window<N>, Error> {
        let world = Communicator::world(&inner.context);
        let communicator = world.with_allgather(map, rank as u32, id, Rc::new(members));
        let window = if allocate != 0 {
            Window::allocate(&communicator, bytes, 1)?
        } else {
            // SAFETY: the caller's memory stays until the window is freed, by MPI's rules.
            unsafe { Window::create(&communicator, base.cast(), bytes, 1)? }
        };
        window.lock_all_with(Assert::NOCHECK)?;
        Ok(window)
    });
    let window = window.map_err(|e| e.to_string())?;
    let (own, _) = window.local().map_err(|e| e.to_string())?;
    let alike = |one: &[Member]| (one[0].bytes, one[0].unit) == (one[1].bytes, one[1].unit);
    let uniform = all.windows(2).all(alike);
    let units = if uniform { vec![unit] } else { all.iter().map(|of| of.unit).collect() };
    let held = Box::new(Held { window, state: shared, comm, units });
    let access: *const Access<N> = std::ptr::from_ref(&*held.window);
    Ok(rkw_win {
        access: access.cast(),
        window: Box::into_raw(held).cast(),
        unit: if uniform { unit as usize } else { 0 },
        max_disp: if uniform { bytes / unit.max(1) as usize } else { 0 },
        bytes: if uniform { bytes } else { 0 },
        base: own.cast(),
    })
}

impl<N: Netmod> Held<N> {
    /// # Safety
    /// \[MPI\], of a window that [`make`] made for this netmod, not freed.
    unsafe fn of<'a>(window: *mut c_void) -> &'a Held<N> {
        // SAFETY: [MPI].
        unsafe { &*window.cast::<Held<N>>() }
    }

    fn offset(&self, rank: u32, disp: isize) -> Option<usize> {
        let unit = self.units.get(rank as usize).or(self.units.first())?;
        usize::try_from(disp.checked_mul(*unit as isize)?).ok()
    }

    /// Issues an operation at the offset of a displacement, checked.
    fn issue(
        &self,
        rank: u32,
        disp: isize,
        operation: impl FnOnce(&Window<N>, usize) -> Result<(), Error>,
    ) -> c_int {
        guarded(|| {
            let Some(offset) = self.offset(rank, disp) else { return OUT_OF_RANGE };
            answer(self.state.enter_waiting(|_| operation(&self.window, offset)))
        })
    }
}

/// The answer to C; what cannot be gone on from ends the job.
fn answer(result: Result<(), Error>) -> c_int {
    match result {
        Ok(()) => DONE,
        Err(e) if matches!(e.kind(), ErrorKind::OutOfBounds { .. }) => OUT_OF_RANGE,
        Err(e) => fatal(&e),
    }
}

/// A put of one block, checked.
pub(crate) unsafe extern "C" fn put<N: Netmod>(
    window: *mut c_void,
    buf: *const u8,
    len: usize,
    rank: u32,
    disp: isize,
) -> c_int {
    // SAFETY: [MPI].
    let held = unsafe { Held::<N>::of(window) };
    // SAFETY: [BUF], until CH4's epoch ends with a flush.
    held.issue(rank, disp, |window, offset| unsafe { window.put_nb(buf, len, rank, offset) })
}

/// A get of one block, checked.
pub(crate) unsafe extern "C" fn get<N: Netmod>(
    window: *mut c_void,
    buf: *mut u8,
    len: usize,
    rank: u32,
    disp: isize,
) -> c_int {
    // SAFETY: [MPI].
    let held = unsafe { Held::<N>::of(window) };
    // SAFETY: [BUF], until CH4's epoch ends with a flush.
    held.issue(rank, disp, |window, offset| unsafe { window.get_nb(buf, len, rank, offset) })
}

/// Completes what went to a rank, or to all (-1): there, or only here.
pub(crate) unsafe extern "C" fn flush<N: Netmod>(
    window: *mut c_void,
    rank: c_int,
    local: c_int,
) -> c_int {
    // SAFETY: [MPI].
    let Held { window, state, .. } = unsafe { Held::<N>::of(window) };
    guarded(|| {
        answer(state.enter_waiting(|_| match (u32::try_from(rank), local != 0) {
            (Ok(rank), false) => window.flush(rank),
            (Ok(rank), true) => window.flush_local(rank),
            (Err(_), false) => window.flush_all(),
            (Err(_), true) => window.flush_local_all(),
        }))
    })
}

/// Frees a window. Collective.
pub(crate) unsafe extern "C" fn free<N: Netmod>(window: *mut c_void) {
    guarded(|| {
        // SAFETY: [MPI]; made by `Box::into_raw` in `made`, used no more.
        let held = unsafe { Box::from_raw(window.cast::<Held<N>>()) };
        let Held { window, state, comm, .. } = *held;
        let entered = state.enter_waiting(|_| {
            window.unlock_all()?;
            window.free_enter()
        });
        answer(entered);
        // SAFETY: the window's communicator.
        if unsafe { host::rkw_host_comm_barrier(comm) } == 0 {
            window.free_leave();
        }
        state.enter_waiting(|_| drop(window));
    });
}
