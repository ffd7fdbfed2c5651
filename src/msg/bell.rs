//! What wakes a thread that waits for something in a queue. `proofs/` tries it
//! under every interleaving.

use super::sync::{Condvar, Mutex, PoisonError};
use std::time::Instant;

/// Rung by who puts something into a queue, behind that; heard by who waits
/// for it.
#[derive(Debug, Default)]
pub(super) struct Bell {
    sleepers: Mutex<u32>,
    wakes: Condvar,
}

impl Bell {
    /// Something is there now.
    pub(super) fn ring(&self) {
        let sleepers = self.sleepers.lock().unwrap_or_else(PoisonError::into_inner);
        if *sleepers > 0 {
            self.wakes.notify_one();
        }
    }

    /// Sleeps until something may be there, at most until `end`, unless
    /// `is_empty` is not so any more. `false`: it is past `end`.
    pub(super) fn wait(&self, is_empty: impl Fn() -> bool, end: Instant) -> bool {
        let mut sleepers = self.sleepers.lock().unwrap_or_else(PoisonError::into_inner);
        // Asked again under the lock: what comes behind this rings.
        if is_empty() {
            let Some(left) = end.checked_duration_since(Instant::now()) else { return false };
            *sleepers += 1;
            let woken = self.wakes.wait_timeout(sleepers, left);
            sleepers = woken.unwrap_or_else(PoisonError::into_inner).0;
            *sleepers -= 1;
        }
        true
    }
}
