//! Rings whose sender has ended, for others.

use super::{Count, Ring};
use std::sync::atomic::Ordering;

/// In place of the sender: it has ended, and the ring is as new.
const RENEWED: u32 = u32::MAX;

/// Makes a ring as new, whose sender has ended and of which nothing is left: who comes next
/// takes it by [`take`].
///
/// # Safety
/// \[RING\], of which this is the receiver, by no end that is used again; nobody else has one.
pub(crate) unsafe fn renew(start: *mut u8) {
    const AT: usize = std::mem::offset_of!(Ring, sender);
    const BEHIND: usize = AT + size_of::<Count>();
    // SAFETY: [RING], this thread's alone until it says that it is as new: its sender stands there
    // until then, so nobody takes it.
    unsafe {
        start.write_bytes(0, AT);
        start.add(BEHIND).write_bytes(0, size_of::<Ring>() - BEHIND);
        (*start.cast::<Ring>()).sender.0.store(RENEWED, Ordering::Release);
    }
}

/// Makes a ring as it was before a sender signed.
///
/// # Safety
/// As [`renew`].
pub(crate) unsafe fn clear(start: *mut u8) {
    // SAFETY: the caller's.
    unsafe { start.write_bytes(0, size_of::<Ring>()) };
}

/// What the sender of a ring signed with; `None` where nobody has, or it is as new.
///
/// # Safety
/// \[RING\].
pub(crate) unsafe fn sender(start: *mut u8) -> Option<u32> {
    // SAFETY: [RING].
    let sender = unsafe { &(*start.cast::<Ring>()).sender.0 }.load(Ordering::Acquire);
    sender.checked_sub(1).filter(|_| sender != RENEWED)
}

/// Takes a ring that is as new, or that nobody ever had, and signs it at once: it is never known to
/// be taken, but not by whom. Returns false if somebody has it.
///
/// # Safety
/// \[RING\].
pub(crate) unsafe fn take(start: *mut u8, by: u32) -> bool {
    // SAFETY: [RING].
    let sender = unsafe { &(*start.cast::<Ring>()).sender.0 };
    let before = sender.load(Ordering::Relaxed);
    let sign = || sender.compare_exchange(before, by + 1, Ordering::AcqRel, Ordering::Relaxed);
    [0, RENEWED].contains(&before) && sign().is_ok()
}
