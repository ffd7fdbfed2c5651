//! Wakes a thread that waits for something in a queue. `proofs/` tries it under
//! every interleaving.

use super::sync::{Condvar, Mutex, PoisonError};
use std::time::Instant;

/// Notified behind each push into a queue; waited on by those who pop.
#[derive(Debug, Default)]
pub(super) struct Notifier {
    sleepers: Mutex<u32>,
    wakes: Condvar,
}

impl Notifier {
    /// Something is there now.
    pub(super) fn notify(&self) {
        let sleepers = self.sleepers.lock().unwrap_or_else(PoisonError::into_inner);
        if *sleepers > 0 {
            self.wakes.notify_one();
        }
    }

    /// Sleeps until something may be there, at most until `end`, unless
    /// `is_empty` is not so any more. Returns `false` if it is past `end`.
    pub(super) fn wait(&self, is_empty: impl Fn() -> bool, end: Instant) -> bool {
        let mut sleepers = self.sleepers.lock().unwrap_or_else(PoisonError::into_inner);
        // Asked again under the lock: what comes behind this notifies.
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
