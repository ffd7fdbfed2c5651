//! Packets that ask: their answer, and the bit that says that it is there.

use super::{ANSWERED, SLOT};
use std::sync::atomic::{AtomicU64, Ordering};

/// A packet whose body the receiver writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked(pub(super) *mut u8);

impl Asked {
    /// The packet with this body.
    pub(crate) fn of(body: *mut u8) -> Asked {
        Asked(body)
    }

    pub(crate) fn body(self) -> *mut u8 {
        self.0
    }

    /// # Safety
    /// The packet's slots are this side's, or held ([`Writer::hold`](super::Writer::hold)).
    #[inline(always)]
    unsafe fn first<'a>(self) -> &'a AtomicU64 {
        // A short body is in the slot itself, others begin behind it.
        let slot = self.0.map_addr(|body| (body - 1) & !(SLOT - 1));
        // SAFETY: a word of the ring.
        unsafe { AtomicU64::from_ptr(slot.cast()) }
    }

    /// The body is there: its sender may read it at once.
    ///
    /// # Safety
    /// To be called by the receiver, before it gives back the slots.
    #[inline]
    pub(crate) unsafe fn answer(self) {
        // SAFETY: the caller's. (Nobody else writes to it now.)
        let first = unsafe { self.first() };
        first.store(first.load(Ordering::Relaxed) | ANSWERED, Ordering::Release);
    }

    /// Returns true if [`Asked::answer`] was called.
    ///
    /// # Safety
    /// To be called by the sender, while the slots are held.
    #[inline]
    pub(super) unsafe fn is_answered(self) -> bool {
        // SAFETY: the caller's.
        unsafe { self.first() }.load(Ordering::Acquire) & ANSWERED != 0
    }
}
