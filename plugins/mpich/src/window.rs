//! Windows: made, freed, attached to, queried.
//!
//! The window counts in bytes, so that ranks of different displacement units share one
//! set of metadata; the units are kept here.

use crate::fault::{Answer, Refusal, answer};
use crate::host;
use crate::log::guarded;
use crate::map::rkw_map;
use crate::state::{OpenRequest, State};
use rankway::netmod::Netmod;
use rankway::rma::{Access, Allgather, Communicator, Error, Window};
use rankway_plugin::OpenRanks;
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::rc::Rc;
use std::sync::atomic::{Ordering, fence};

/// How a window comes by its memory: `enum rkw_flavor`.
const CREATE: c_int = 0;
const ALLOCATE: c_int = 1;
const SHARED: c_int = 2;
const SHARED_APART: c_int = 3;
const DYNAMIC: c_int = 4;

/// MPICH's, of a query for the first rank with memory.
const PROC_NULL: c_int = -1;

/// Stores between two rounds of progress: a process that spins on memory must still carry
/// out its peers' requests. A prime, so that in a loop of several calls each of them comes to it:
/// a flush hears of deaths then.
const STORES_PER_PROGRESS: u32 = 257;

/// A window that is being made.
#[repr(C)]
pub(crate) struct rkw_win_arguments {
    comm: *mut c_void,
    map: *const rkw_map,
    rank: c_int,
    size: c_int,
    /// Memory of the caller's, of a window that is created.
    base: *mut c_void,
    bytes: usize,
    unit: u32,
    flavor: c_int,
}

/// What C sees of a window.
#[repr(C)]
pub(crate) struct rkw_win {
    window: *mut c_void,
    open: OpenRanks,
    /// As `rankway_access_t`.
    access: *const c_void,
    /// Bytes of a displacement unit, where all are alike; else 0, as all of these.
    unit: usize,
    /// Displacements from which 8 bytes fit into a rank's memory, where all of it is mapped.
    words: usize,
    /// Where it is not, as many, the last displacement and the bytes of a rank's memory.
    reached: usize,
    max_disp: usize,
    bytes: usize,
    /// This process's memory.
    base: *mut c_void,
    /// Where every rank's memory is mapped, a line over the ranks; else null.
    start: *mut u8,
    stride: isize,
}

/// A window with what the calls on it need.
pub(crate) struct Held<N: Netmod> {
    pub(crate) window: Window<N>,
    pub(crate) state: &'static rankway_plugin::State<N, crate::state::Mpich>,
    all: *const State<N>,
    comm: *mut c_void,
    /// What C sees of it, which stays where it is.
    seen: *const rkw_win,
    /// By rank, or of all.
    units: Vec<u32>,
    sizes: Vec<u64>,
    /// Stores since the last progress.
    stores_until_progress: Cell<u32>,
}

/// What each member tells the others.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct Member {
    bytes: u64,
    unit: u64,
    /// The window's, of the first member.
    id: u64,
}

/// The allgather of a window's members: MPICH's.
struct Members {
    comm: *mut c_void,
    size: usize,
    /// MPICH's code of one that failed, which says more than its text here; else 0.
    failed: Rc<Cell<c_int>>,
}

impl Members {
    /// As many elements of each. Any bits are a `T`.
    fn all<T: Copy + Default>(&self, mine: &[T]) -> Result<Vec<T>, String> {
        let mut all = vec![T::default(); self.size * mine.len()];
        let (from, to) = (mine.as_ptr().cast(), all.as_mut_ptr().cast());
        // SAFETY: the window's communicator; the buffers hold that many bytes.
        match unsafe { host::rkw_host_allgather(self.comm, from, size_of_val(mine), to) } {
            0 => Ok(all),
            code => {
                self.failed.set(code);
                Err(format!("an allgather of MPICH's answered {code:#x}"))
            }
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
) -> c_int {
    // SAFETY: [MPI].
    let (state, arguments) = unsafe { (State::<N>::of(state), &*arguments) };
    let failed = Rc::default();
    // SAFETY: [MPI], a communicator with its map; C's place for the window, which stays.
    guarded(|| match unsafe { made(state, arguments, to, &failed) } {
        Err(_) if failed.get() != 0 => -failed.get(),
        made => answer(made),
    })
}

/// # Safety
/// \[MPI\]; `to` can be written, and stays as long as the window.
unsafe fn made<N: Netmod>(
    state: &'static State<N>,
    arguments: &rkw_win_arguments,
    to: *mut rkw_win,
    failed: &Rc<Cell<c_int>>,
) -> Result<(), Refusal> {
    let rkw_win_arguments { comm, map, rank, size, base, bytes, unit, flavor } = *arguments;
    let members = Members { comm, size: size as usize, failed: Rc::clone(failed) };
    let shared = state.shared;
    let boot = shared.boot();
    let mine = Member {
        bytes: if flavor == DYNAMIC { u64::MAX } else { bytes as u64 },
        unit: if flavor == DYNAMIC { 1 } else { unit.into() },
        id: if rank == 0 { rankway_plugin::next_window_id(boot) } else { 0 },
    };
    let all = members.all(&[mine]).map_err(|why| Refusal(Answer::Failed, why))?;
    // SAFETY: [MPI].
    let map = unsafe { (*map).ranks(size) };
    if [SHARED, SHARED_APART].contains(&flavor) {
        let away = shared.enter(|inner| {
            let device = inner.context.device();
            map.iter().position(|member| !device.on_node(member.lpid))
        });
        if let Some(rank) = away {
            let why = format!(
                "a shared window is of one node and one job; rank {rank} is on another, or of another"
            );
            return Err(Refusal(Answer::Shared, why));
        }
    }
    let id = all.first().map_or(0, |of| of.id);
    let window = shared.enter_waiting(|inner| -> Result<Window<N>, Error> {
        let world = Communicator::world(&inner.context);
        let communicator = world.with_allgather(map, rank as u32, id, Rc::new(members));
        match flavor {
            ALLOCATE | SHARED_APART => Window::allocate(&communicator, bytes, 1),
            SHARED => Window::shared(&communicator, bytes, 1),
            DYNAMIC => Window::dynamic(&communicator),
            // SAFETY: the caller's memory stays until the window is freed, by MPI's rules.
            _ => unsafe { Window::create(&communicator, base.cast(), bytes, 1) },
        }
    })?;
    let own = match flavor {
        DYNAMIC => std::ptr::null_mut(),
        SHARED | SHARED_APART if bytes == 0 => std::ptr::null_mut(),
        CREATE => base,
        _ => shared.enter(|_| window.local())?.0.cast(),
    };
    let alike = |one: &[Member]| (one[0].bytes, one[0].unit) == (one[1].bytes, one[1].unit);
    // (C has no part of a put by packets.)
    let uniform = all.windows(2).all(alike) && !window.is_by_packets();
    let units = all.iter().map(|of| of.unit as u32).collect();
    let sizes = all.iter().map(|of| of.bytes).collect();
    let mapped = |rank: u32| window.mapped(rank).ok().flatten();
    let start = if window.is_mapped() && uniform { mapped(0) } else { None };
    let next = start.and(if size > 1 { mapped(1) } else { None });
    let stride = start.zip(next).map_or(0, |(a, b)| b.addr().wrapping_sub(a.addr()) as isize);
    let each = unit.max(1) as usize;
    let words = bytes.checked_sub(size_of::<u64>()).map_or(0, |last| last / each + 1);
    let by_provider = uniform && start.is_none();
    let held = Box::new(Held {
        window,
        state: shared,
        all: state,
        comm,
        seen: to,
        units,
        sizes,
        stores_until_progress: Cell::new(STORES_PER_PROGRESS),
    });
    let access: *const Access<N> = std::ptr::from_ref(&*held.window);
    // SAFETY: the caller's.
    unsafe {
        to.write(rkw_win {
            window: Box::into_raw(held).cast(),
            open: OpenRanks::default(),
            access: access.cast(),
            unit: if uniform { unit as usize } else { 0 },
            words: if start.is_some() { words } else { 0 },
            reached: if by_provider { words } else { 0 },
            max_disp: if by_provider { bytes / each } else { 0 },
            bytes: if by_provider { bytes } else { 0 },
            base: own,
            start: start.unwrap_or(std::ptr::null_mut()),
            stride,
        });
    }
    Ok(())
}

impl<N: Netmod> Held<N> {
    /// # Safety
    /// \[MPI\], of a window that [`make`] made for this netmod, not freed.
    #[inline(always)]
    pub(crate) unsafe fn of<'a>(window: *mut c_void) -> &'a Held<N> {
        // SAFETY: [MPI].
        unsafe { &*window.cast::<Held<N>>() }
    }

    /// The ranks that operations may go to without a further look at the epoch.
    #[inline(always)]
    pub(crate) fn open(&self) -> &OpenRanks {
        // SAFETY: [MPI]: MPICH's window, which stays until this one is freed.
        unsafe { &(*self.seen).open }
    }

    /// Byte offset of `disp` units at a target; `None` where that lies in front of its
    /// memory.
    pub(crate) fn offset(&self, rank: u32, disp: isize) -> Option<usize> {
        let unit = *self.units.get(rank as usize)?;
        usize::try_from(disp.checked_mul(unit as isize)?).ok()
    }

    /// Runs a call that may wait.
    #[inline]
    pub(crate) fn enter<'a, R>(&'a self, call: impl FnOnce(&'a Window<N>) -> R) -> R {
        self.state.enter_waiting(|_| call(&self.window))
    }

    /// Waits for all members. Not within [`Held::enter`].
    ///
    /// # Errors
    /// The answer, of a member that died.
    pub(crate) fn barrier(&self) -> Result<(), c_int> {
        // SAFETY: the window's communicator.
        match unsafe { host::rkw_host_comm_barrier(self.comm) } {
            0 => Ok(()),
            code => Err(-code),
        }
    }

    /// A flush where all was stores: done when they are ordered. Returns false if there was
    /// more, and now and then if not: a whole flush hears of deaths.
    #[inline]
    pub(crate) fn order_stores(&self) -> bool {
        if !self.window.has_only_stores() {
            return false;
        }
        fence(Ordering::SeqCst);
        !self.count_store()
    }

    /// Counts a call that made no progress. Returns true if progress was due and is made.
    #[inline]
    pub(crate) fn count_store(&self) -> bool {
        let left = self.stores_until_progress.get() - 1;
        self.stores_until_progress.set(if left == 0 { STORES_PER_PROGRESS } else { left });
        if left == 0 {
            // SAFETY: no arguments; within a call of MPICH's.
            unsafe { host::rkw_host_progress() };
        }
        left == 0
    }

    /// Polls an operation in each round of progress, until it has ended.
    pub(crate) fn keep(
        &'static self,
        request: *mut c_void,
        poll: Box<dyn FnMut() -> Option<c_int>>,
    ) {
        let open = OpenRequest { request, window: self.seen.cast(), poll };
        // SAFETY: [MPI]: the state outlives its windows.
        unsafe { (*self.all).open.borrow_mut().push(open) };
    }
}

/// Frees a window. Collective. Refused while an epoch is open. One that fails stays as it was.
pub(crate) unsafe extern "C" fn free<N: Netmod>(window: *mut c_void) -> c_int {
    // SAFETY: [MPI].
    let held = unsafe { Held::<N>::of(window) };
    guarded(|| {
        if let Err(e) = held.enter(|window| window.free_enter()) {
            let refusal = Refusal::from(e);
            if refusal.0 == Answer::Sync {
                return refusal.kept();
            }
        }
        // SAFETY: [MPI]: the state outlives its windows.
        let all = unsafe { &*held.all };
        while all.has_open(held.seen.cast()) {
            // SAFETY: no arguments; within a call of MPICH's.
            unsafe { host::rkw_host_progress() };
        }
        if let Err(answer) = held.barrier() {
            return answer;
        }
        held.window.free_leave();
        let state = held.state;
        // SAFETY: [MPI]; made by `Box::into_raw` in `made`, used no more.
        let held = unsafe { Box::from_raw(window.cast::<Held<N>>()) };
        state.enter_waiting(|_| drop(held));
        Answer::Done as c_int
    })
}

/// Where the memory of a rank of a shared window is.
pub(crate) unsafe extern "C" fn shared_query<N: Netmod>(
    window: *mut c_void,
    rank: c_int,
    size: *mut isize,
    unit: *mut c_int,
    base: *mut *mut u8,
) -> c_int {
    // SAFETY: [MPI].
    let held = unsafe { Held::<N>::of(window) };
    guarded(|| {
        // MPI_PROC_NULL asks for the first rank that has memory.
        let rank = match rank {
            PROC_NULL => held.sizes.iter().position(|&bytes| bytes > 0).unwrap_or(0) as u32,
            rank => rank as u32,
        };
        answer(held.enter(|window| window.shared_query(rank)).map(|(start, bytes, _)| {
            // SAFETY: [MPI]: the caller's places.
            unsafe {
                *size = bytes as isize;
                *unit = held.units.get(rank as usize).map_or(1, |&unit| unit as c_int);
                *base = if bytes == 0 { std::ptr::null_mut() } else { start };
            }
        }))
    })
}

/// Attaches memory to a dynamic window, or detaches it (`bytes` below 0).
pub(crate) unsafe extern "C" fn attach<N: Netmod>(
    window: *mut c_void,
    start: *mut u8,
    bytes: isize,
) -> c_int {
    // SAFETY: [MPI].
    let held = unsafe { Held::<N>::of(window) };
    guarded(|| {
        let done = held.enter(|window| match usize::try_from(bytes) {
            // SAFETY: the memory stays until it is detached, by MPI's rules.
            Ok(bytes) => unsafe { window.attach(start, bytes).map(drop) },
            Err(_) => window.detach(start),
        });
        let refused = |e: Error| Refusal(Answer::Attach, e.to_string());
        answer(done.map_err(refused))
    })
}
