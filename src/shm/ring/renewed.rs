//! Rings whose sender has ended, for others.

use super::Ring;
use std::sync::atomic::Ordering;

/// In place of the sender: it has ended, and the ring is as new.
const RENEWED: u32 = u32::MAX;

/// Makes a ring as new, whose sender has ended and of which nothing is left: who comes next
/// takes it by [`take_renewed`].
///
/// # Safety
/// \[RING\], of which this is the receiver, by no end that is used again; nobody else has one.
pub(crate) unsafe fn renew(start: *mut u8) {
    // SAFETY: [RING], this thread's alone until it says that it is as new.
    unsafe {
        clear(start);
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

/// Takes a ring that is as new, for a sender that has not signed. Returns false if it is not.
///
/// # Safety
/// \[RING\].
pub(crate) unsafe fn take_renewed(start: *mut u8) -> bool {
    // SAFETY: [RING].
    let sender = unsafe { &(*start.cast::<Ring>()).sender.0 };
    sender.compare_exchange(RENEWED, 0, Ordering::Acquire, Ordering::Relaxed).is_ok()
}
