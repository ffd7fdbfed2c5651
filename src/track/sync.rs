//! What the ring is made of. In `proofs/` it is made of loom's.

pub(super) use std::sync::atomic::{AtomicUsize, Ordering};

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;

/// A place for a value that one thread writes and another reads, never both at once: who
/// uses it sees to that.
pub(super) struct Slot<T>(UnsafeCell<MaybeUninit<T>>);

// SAFETY: values go from one thread to another; [`Slot::write`] and [`Slot::read`] have
// their callers keep them apart.
unsafe impl<T: Send> Sync for Slot<T> {}

impl<T: Copy> Slot<T> {
    pub(super) fn empty() -> Slot<T> {
        Slot(UnsafeCell::new(MaybeUninit::uninit()))
    }

    /// # Safety
    /// Nobody else writes or reads meanwhile.
    #[inline(always)]
    pub(super) unsafe fn write(&self, value: T) {
        // SAFETY: nobody else has it, by the caller.
        unsafe { (*self.0.get()).write(value) };
    }

    /// # Safety
    /// A value was written, and nobody writes meanwhile.
    #[inline(always)]
    pub(super) unsafe fn read(&self) -> T {
        // SAFETY: there is a value and it stays, by the caller.
        unsafe { (*self.0.get()).assume_init() }
    }
}
