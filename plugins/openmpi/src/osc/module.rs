//! A window of Open MPI's on one of Rankway's.
//!
//! The Rankway window counts in bytes (unit 1), whatever the displacement
//! units; those are kept here, so that ranks with different units still share
//! one set of metadata, and blocks may begin between two units.

use super::stored::CachedOp;
use crate::ffi;
use crate::state::State;
use rankway::netmod::Netmod;
use rankway::rma::{InlineGate, Window};
use rankway_plugin::{Inner, OpenRanks};
use std::cell::Cell;
use std::ffi::c_int;
use std::sync::atomic::{Ordering, fence};

/// The functions Open MPI calls on a window ([`super::table`]).
pub(super) type Functions = ffi::ompi_osc_base_module_t;

/// What Open MPI's window points to. Open MPI knows the first field only.
#[repr(C)]
pub(super) struct Module<N: Netmod> {
    base: Functions,
    pub(super) open: OpenRanks,
    /// Bytes of a displacement unit, and of each rank's memory, where all ranks
    /// agree; otherwise the unit is 0 and `max_disp` too.
    pub(super) unit: usize,
    pub(super) bytes: usize,
    pub(super) max_disp: usize,
    /// Where every rank's memory is mapped: an affine function of the rank.
    pub(super) start: *mut u8,
    pub(super) stride: isize,
    /// By what elements there are changed inline.
    pub(super) gate: InlineGate,
    /// This process's rank and memory; [`NO_RANK`] where it has none of its own.
    pub(super) me: u32,
    pub(super) own: *mut u8,
    /// Several threads: every call takes the lock.
    pub(super) threads: bool,
    /// Stores since the last progress.
    stores_until_progress: Cell<u32>,
    pub(super) window: Window<N>,
    pub(super) state: &'static State<N>,
    /// Open MPI's communicator of the window's own.
    pub(super) comm: *mut ffi::ompi_communicator_t,
    /// By rank, where they differ.
    pub(super) units: Box<[u32]>,
    pub(super) sizes: Box<[u64]>,
    /// The type and the operation of the last accumulate.
    pub(super) cached: Cell<CachedOp>,
}

/// Not a rank.
pub(super) const NO_RANK: u32 = u32::MAX;

/// Stores between two rounds of progress: a process that spins on memory must
/// still carry out its peers' requests. A prime, so that in a loop of several calls each of
/// them comes to it: a flush hears of deaths then.
const STORES_PER_PROGRESS: u32 = 257;

impl<N: Netmod> Module<N> {
    /// Of a new window whose members have these sizes and units, by rank.
    pub(super) fn new(
        base: Functions,
        state: &'static State<N>,
        threads: bool,
        window: Window<N>,
        comm: *mut ffi::ompi_communicator_t,
        sizes: Vec<u64>,
        units: Vec<u32>,
    ) -> Module<N> {
        let uniform =
            sizes.windows(2).all(|w| w[0] == w[1]) && units.windows(2).all(|w| w[0] == w[1]);
        let (unit, bytes) = match (units.first(), sizes.first()) {
            (Some(&unit), Some(&bytes)) if uniform => (unit as usize, bytes as usize),
            _ => (0, 0),
        };
        let mapped = |rank| window.mapped(rank).ok().flatten();
        let line = if window.is_mapped() { mapped(0) } else { None };
        let start = line.unwrap_or(std::ptr::null_mut());
        let next = line.and(if sizes.len() > 1 { mapped(1) } else { None });
        let stride = next.map_or(0, |next| next.addr().wrapping_sub(start.addr()) as isize);
        let (own, len) = window.local().unwrap_or((std::ptr::null_mut(), 0));
        let me = if own.is_null() || len == 0 { NO_RANK } else { window.communicator().rank() };
        Module {
            base,
            open: OpenRanks::default(),
            unit,
            bytes,
            max_disp: bytes.checked_div(unit).unwrap_or(0),
            start,
            stride,
            gate: *window.inline_gate(),
            me,
            own,
            threads,
            stores_until_progress: Cell::new(STORES_PER_PROGRESS),
            window,
            state,
            comm,
            units: if uniform { Box::default() } else { units.into() },
            sizes: if uniform { Box::default() } else { sizes.into() },
            cached: Cell::new(CachedOp::NONE),
        }
    }

    /// The module of a window.
    ///
    /// # Safety
    /// `win` is a window of this component and not freed, and the module's lock
    /// is held before anything but what never changes is looked at.
    #[inline(always)]
    pub(super) unsafe fn of<'a>(win: *mut ffi::ompi_win_t) -> &'a Module<N> {
        // SAFETY: `select` put a box there, which stays until `free`.
        unsafe { &*(*win).w_osc_module.cast::<Module<N>>() }
    }

    /// Runs a call that may wait, under the lock except while it waits.
    #[inline]
    pub(super) fn enter<R>(&self, call: impl FnOnce(&Inner<N>) -> R) -> R {
        self.state.enter_waiting(call)
    }

    /// The byte offset of `len` bytes from `disp` units on at a target that the
    /// open epoch reaches, where all ranks are alike.
    #[inline(always)]
    pub(super) fn fast_offset(&self, target: c_int, disp: isize, len: usize) -> Option<usize> {
        let (rank, disp) = (target as u32, disp as usize);
        if !self.open.has(rank) || disp > self.max_disp {
            return None;
        }
        // No overflow: the displacement is within the window.
        let offset = disp * self.unit;
        (len <= self.bytes - offset).then_some(offset)
    }

    /// Bytes of a rank's displacement unit.
    pub(super) fn unit_of(&self, rank: u32) -> usize {
        match self.units.get(rank as usize) {
            Some(&unit) => unit as usize,
            None => self.unit,
        }
    }

    /// Bytes of a rank's memory.
    pub(super) fn bytes_of(&self, rank: u32) -> u64 {
        self.sizes.get(rank as usize).copied().unwrap_or(self.bytes as u64)
    }

    /// Byte offset of `disp` units at a target; `None` where that lies in front of
    /// its memory.
    pub(super) fn offset(&self, target: c_int, disp: isize) -> Option<usize> {
        let unit = self.unit_of(target as u32) as isize;
        usize::try_from(disp.checked_mul(unit)?).ok()
    }

    /// Where an offset of a rank is mapped; for windows with a `start`.
    ///
    /// # Safety
    /// The rank is one of the window's, and the offset within its memory.
    #[inline(always)]
    pub(super) unsafe fn at(&self, rank: u32, offset: usize) -> *mut u8 {
        let region = (rank as isize).wrapping_mul(self.stride);
        // SAFETY: the regions of all ranks are mapped as long as the window is.
        unsafe { self.start.offset(region).add(offset) }
    }

    /// Counts an operation that was a few stores. Returns true if progress was due and is
    /// made.
    #[inline(always)]
    pub(super) fn count_store(&self) -> bool {
        let left = self.stores_until_progress.get().wrapping_sub(1);
        self.stores_until_progress.set(left);
        if left == 0 {
            self.make_progress();
        }
        left == 0
    }

    #[cold]
    #[inline(never)]
    fn make_progress(&self) {
        self.stores_until_progress.set(STORES_PER_PROGRESS);
        ffi::progress();
    }

    /// Makes all stores so far visible before later accesses.
    #[inline(always)]
    pub(super) fn full_fence(&self) {
        fence(Ordering::SeqCst);
    }
}
