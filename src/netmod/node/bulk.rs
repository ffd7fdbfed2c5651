//! Bulk messages: receives that are posted where senders find them.
//!
//! A sender copies into the receiver's memory itself, as soon as it finds the tag, and
//! marks the entry; the receiver looks at the entries that it has posted when it polls.

use super::Error;
use crate::process;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Receives of an endpoint at once.
const ENTRIES: usize = 1024;

const FREE: u32 = 0;
const POSTED: u32 = 1;
const DONE: u32 = 2;
const FAILED: u32 = 3;
/// Above this: the process that copies, plus this.
const COPYING: u32 = 16;

/// A receive; all zero: none.
#[repr(C)]
struct Entry {
    state: AtomicU32,
    tag: AtomicU64,
    start: AtomicU64,
    len: AtomicU64,
}

/// The receives of an endpoint. Zeroes: none.
#[repr(C)]
pub(super) struct Posted {
    entries: [Entry; ENTRIES],
}

/// A receive that this endpoint posted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Receive {
    at: usize,
    pub(super) token: u64,
    cancelled: bool,
}

impl Posted {
    /// Posts a receive; `None` where there is no space.
    pub(super) fn post(&self, tag: u64, start: u64, len: usize, token: u64) -> Option<Receive> {
        let free = |&at: &usize| self.entries[at].state.load(Ordering::Acquire) == FREE;
        let at = places(tag).find(free)?;
        let entry = &self.entries[at];
        entry.tag.store(tag, Ordering::Relaxed);
        entry.start.store(start, Ordering::Relaxed);
        entry.len.store(len as u64, Ordering::Relaxed);
        entry.state.store(POSTED, Ordering::Release);
        Some(Receive { at, token, cancelled: false })
    }

    /// Copies by `copy`, which is given an address, into the receive of this tag.
    pub(super) fn fill(
        &self,
        tag: u64,
        len: usize,
        copy: impl FnOnce(u64) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let wanted = |&at: &usize| {
            let entry = &self.entries[at];
            entry.state.load(Ordering::Acquire) == POSTED
                && entry.tag.load(Ordering::Relaxed) == tag
                && entry.len.load(Ordering::Relaxed) == len as u64
        };
        let none = Error(libc::ENOMSG);
        let entry = &self.entries[places(tag).find(wanted).ok_or(none)?];
        let copying = COPYING + std::process::id();
        let (acquire, relaxed) = (Ordering::Acquire, Ordering::Relaxed);
        entry.state.compare_exchange(POSTED, copying, acquire, relaxed).map_err(|_| none)?;
        // It may have ended, and another have its place, since it was found.
        if (entry.tag.load(relaxed), entry.len.load(relaxed)) != (tag, len as u64) {
            entry.state.store(POSTED, Ordering::Release);
            return Err(none);
        }
        let copied = copy(entry.start.load(Ordering::Relaxed));
        entry.state.store(if copied.is_ok() { DONE } else { FAILED }, Ordering::Release);
        copied
    }

    /// Takes a receive back whose memory goes: waits for who copies, as long as that one lives.
    pub(super) fn take_back(&self, receive: &Receive) {
        let state = &self.entries[receive.at].state;
        loop {
            let now = state.load(Ordering::Acquire);
            if now > COPYING && !process::ended(now - COPYING) {
                std::thread::yield_now();
                continue;
            }
            let (acquire, relaxed) = (Ordering::Acquire, Ordering::Relaxed);
            if state.compare_exchange(now, FREE, acquire, relaxed).is_ok() {
                return;
            }
        }
    }

    /// Returns true if [`Posted::ended`] would have something.
    pub(super) fn has_ended(&self, receive: &Receive) -> bool {
        let state = self.entries[receive.at].state.load(Ordering::Acquire);
        receive.cancelled || state == DONE || state == FAILED
    }

    /// How a receive ended; `None` while it has not.
    pub(super) fn ended(&self, receive: &Receive) -> Option<Result<(), Error>> {
        let state = &self.entries[receive.at].state;
        let result = match state.load(Ordering::Acquire) {
            DONE => Ok(()),
            POSTED if receive.cancelled => {
                let (acquire, relaxed) = (Ordering::Acquire, Ordering::Relaxed);
                // Begun meanwhile?
                state.compare_exchange(POSTED, FREE, acquire, relaxed).ok()?;
                return Some(Err(Error(libc::ECANCELED)));
            }
            POSTED => return None,
            copying if copying > COPYING => {
                if !receive.cancelled || !process::ended(copying - COPYING) {
                    return None;
                }
                Err(Error(libc::ECANCELED))
            }
            _ => Err(Error(libc::EIO)),
        };
        state.store(FREE, Ordering::Release);
        Some(result)
    }
}

impl Receive {
    /// It is to end, done or not.
    pub(super) fn cancel(&mut self) {
        self.cancelled = true;
    }
}

/// Places of a tag, from where it belongs.
fn places(tag: u64) -> impl Iterator<Item = usize> {
    (0..ENTRIES).map(move |i| (tag as usize).wrapping_add(i) % ENTRIES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_back_is_not_filled() {
        // SAFETY: zeroes are no receives.
        let posted: Box<Posted> = unsafe { Box::new(std::mem::zeroed()) };
        let receive = posted.post(7, 64, 8, 1).unwrap();
        posted.take_back(&receive);
        let nobody = |_| -> Result<(), Error> { unreachable!("nothing is posted") };
        assert_eq!(posted.fill(7, 8, nobody), Err(Error(libc::ENOMSG)));
        let again = posted.post(7, 128, 8, 2).unwrap();
        assert_eq!(again.at, receive.at);
        assert_eq!(posted.fill(7, 8, |there| (there == 128).then_some(()).ok_or(Error(1))), Ok(()));
        assert_eq!(posted.ended(&again), Some(Ok(())));
    }
}
