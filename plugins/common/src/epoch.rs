//! Epochs: Rankway's, and behind each call the ranks that operations may go to without a
//! further look at the epoch.

use rankway::netmod::Netmod;
use rankway::rma::{Assert, Error, ErrorKind, Lock, Window};
use std::cell::Cell;

/// The ranks that operations may go to without a further look at the epoch: so many from
/// the first on. None in epochs of several ranks, each of which is looked up. C may read it
/// as three numbers of 32 bits.
#[repr(C)]
#[derive(Debug, Default)]
pub struct OpenRanks {
    first: Cell<u32>,
    count: Cell<u32>,
    /// 1 in an epoch of locks, for what MPI has in those only.
    passive: Cell<u32>,
}

impl OpenRanks {
    #[inline(always)]
    fn set(&self, first: u32, count: u32) {
        self.first.set(first);
        self.count.set(count);
    }

    /// Returns true if an operation may go to this rank.
    #[inline(always)]
    pub fn has(&self, rank: u32) -> bool {
        rank.wrapping_sub(self.first.get()) < self.count.get()
    }

    /// Returns true in an epoch of locks.
    #[inline(always)]
    pub fn is_passive(&self) -> bool {
        self.passive.get() != 0
    }

    /// Locks a rank, if that takes no more than a look at its word.
    #[inline(always)]
    pub fn lock_at_once<N: Netmod>(&self, window: &Window<N>, kind: Lock, rank: u32) -> bool {
        let locked = window.lock_at_once(kind, rank);
        if locked {
            self.passive.set(1);
            self.set(rank, 1);
        }
        locked
    }

    /// Unlocks a rank, if that takes no more.
    #[inline(always)]
    pub fn unlock_at_once<N: Netmod>(&self, window: &Window<N>, rank: u32) -> bool {
        let unlocked = window.unlock_at_once(rank);
        if unlocked {
            self.passive.set(0);
            self.set(0, 0);
        }
        unlocked
    }

    /// Locks a rank.
    ///
    /// # Errors
    /// Those of [`lock`](rankway::rma::Access::lock).
    pub fn lock<N: Netmod>(
        &self,
        window: &Window<N>,
        kind: Lock,
        rank: u32,
        assert: Assert,
    ) -> Result<(), Error> {
        let first = !self.is_passive();
        window.lock(kind, rank, assert)?;
        self.passive.set(1);
        if first {
            self.set(rank, 1)
        } else {
            self.set(0, 0)
        }
        Ok(())
    }

    /// Unlocks a rank.
    ///
    /// # Errors
    /// Those of [`unlock`](rankway::rma::Access::unlock).
    pub fn unlock<N: Netmod>(&self, window: &Window<N>, rank: u32) -> Result<(), Error> {
        self.set(0, 0);
        window.unlock(rank)?;
        self.passive.set(u32::from(window.is_open()));
        Ok(())
    }

    /// Locks all ranks.
    ///
    /// # Errors
    /// Those of [`lock_all_with`](rankway::rma::Access::lock_all_with).
    pub fn lock_all<N: Netmod>(&self, window: &Window<N>, assert: Assert) -> Result<(), Error> {
        window.lock_all_with(assert)?;
        self.passive.set(1);
        self.set(0, window.communicator().size());
        Ok(())
    }

    /// Unlocks all ranks.
    ///
    /// # Errors
    /// Those of [`unlock_all`](rankway::rma::Access::unlock_all).
    pub fn unlock_all<N: Netmod>(&self, window: &Window<N>) -> Result<(), Error> {
        if self.is_passive() && self.count.get() == window.communicator().size() {
            self.set(0, 0);
        }
        window.unlock_all()?;
        self.passive.set(0);
        self.set(0, 0);
        Ok(())
    }

    /// Starts an access epoch to some ranks.
    ///
    /// # Errors
    /// Those of [`start`](rankway::rma::Access::start).
    pub fn start<N: Netmod>(
        &self,
        window: &Window<N>,
        ranks: &[u32],
        assert: Assert,
    ) -> Result<(), Error> {
        window.start(ranks, assert)?;
        match *ranks {
            [one] => self.set(one, 1),
            _ => self.set(0, 0),
        }
        Ok(())
    }

    /// Ends it.
    ///
    /// # Errors
    /// Those of [`complete`](rankway::rma::Access::complete).
    pub fn complete<N: Netmod>(&self, window: &Window<N>) -> Result<(), Error> {
        self.set(0, 0);
        window.complete()
    }

    /// A fence has opened the next epoch.
    pub fn fenced<N: Netmod>(&self, window: &Window<N>, assert: Assert) {
        let closed = assert.contains(Assert::NOSUCCEED);
        self.set(0, if closed { 0 } else { window.communicator().size() });
        self.passive.set(0);
    }

    /// Refuses what MPI has for epochs of locks only.
    ///
    /// # Errors
    /// [`ErrorKind::NoEpoch`] in others.
    pub fn check_passive(&self) -> Result<(), Error> {
        if self.is_passive() { Ok(()) } else { Err(ErrorKind::NoEpoch.into()) }
    }
}

/// MPI's promises: one bit each.
#[derive(Clone, Copy, Debug)]
pub struct Promises {
    /// `MPI_MODE_NOCHECK`.
    pub nocheck: i32,
    /// `MPI_MODE_NOSTORE`.
    pub nostore: i32,
    /// `MPI_MODE_NOPUT`.
    pub noput: i32,
    /// `MPI_MODE_NOPRECEDE`.
    pub noprecede: i32,
    /// `MPI_MODE_NOSUCCEED`.
    pub nosucceed: i32,
}

impl Promises {
    /// Those of a call, as Rankway's.
    pub fn read(&self, assert: i32) -> Assert {
        if assert == 0 {
            return Assert::NONE;
        }
        let pairs = [
            (self.nocheck, Assert::NOCHECK),
            (self.nostore, Assert::NOSTORE),
            (self.noput, Assert::NOPUT),
            (self.noprecede, Assert::NOPRECEDE),
            (self.nosucceed, Assert::NOSUCCEED),
        ];
        let made = pairs.into_iter().filter(|(bit, _)| assert & bit != 0);
        made.fold(Assert::NONE, |all, (_, promise)| all | promise)
    }
}
