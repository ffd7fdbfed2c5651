//! A word that says which process has something, and that survives its death.
//!
//! 0: nobody. Else the holder, by a number that no other process of the machine will
//! ever have. Who finds a holder that has ended takes its place; of several who try,
//! one does.

use super::sync::{AtomicU64, Ordering};

#[derive(Default)]
#[repr(transparent)]
pub(crate) struct LockWord(AtomicU64);

const NOBODY: u64 = 0;

impl LockWord {
    /// Takes it for `me`; `Err` has who has it.
    #[inline]
    pub(crate) fn try_take(&self, me: u64) -> Result<(), u64> {
        self.change(NOBODY, me)
    }

    /// Takes it from a holder that has ended; `Err` has who has it now.
    pub(crate) fn take_over(&self, ended: u64, me: u64) -> Result<(), u64> {
        self.change(ended, me)
    }

    /// Who has it, if anybody.
    pub(crate) fn holder(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Acquire)).filter(|&holder| holder != NOBODY)
    }

    /// Pairs with the store of [`LockWord::give_back`]. (What a holder that ended has
    /// written, the system wrote before it took its memory away.)
    fn change(&self, from: u64, to: u64) -> Result<(), u64> {
        self.0.compare_exchange(from, to, Ordering::Acquire, Ordering::Relaxed).map(drop)
    }

    /// For its holder.
    #[inline]
    pub(crate) fn give_back(&self) {
        self.0.store(NOBODY, Ordering::Release);
    }
}
