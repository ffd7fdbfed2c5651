//! Epochs of all members, and the end of a window.

use super::Window;
use crate::device::DeviceError;
use crate::netmod::Netmod;
use crate::rma::node_barrier::NodeBarrier;
use crate::rma::types::{Assert, Epoch};
use crate::rma::{Error, ErrorKind};
use crate::track::Kind;

impl<N: Netmod> Window<N> {
    /// Ends the epoch that is open, waits until all members' operations are
    /// done everywhere, and opens the next. Collective.
    ///
    /// # Errors
    /// [`ErrorKind::Epoch`] while ranks are locked, started or posted to,
    /// [`ErrorKind::Freed`], a peer that died or an operation that failed.
    pub fn fence(&self) -> Result<(), Error> {
        self.fence_with(Assert::NONE)
    }

    /// [`Window::fence`] with promises. All members must give NOPRECEDE and
    /// NOSUCCEED alike.
    ///
    /// # Errors
    /// As [`Window::fence`], and [`ErrorKind::Epoch`] for NOPRECEDE after
    /// operations.
    pub fn fence_with(&self, assert: Assert) -> Result<(), Error> {
        self.access.recorded_all(Kind::Fence, || {
            self.may_fence(assert)?;
            let flushed = self.fence_flush(assert);
            // The others wait there, whatever became of this one's operations.
            let barrier = self.meet();
            prefer_death(flushed, barrier)?;
            self.fence_open(assert);
            Ok(())
        })
    }

    /// Waits for all members, making progress meanwhile.
    fn meet(&self) -> Result<(), Error> {
        match &self.barrier {
            Some(barrier) => barrier.meet(self.access.context()),
            None => self.communicator.meet(),
        }
    }

    /// Waits for all members for the last time, not in words that go with the window.
    fn part(&self) -> Result<(), Error> {
        self.communicator.meet().map_err(|e| {
            // Who left a fence for a death may have ended before it came here.
            let lost = self.barrier.as_ref().and_then(NodeBarrier::lost);
            match lost.filter(|_| e.peer().is_some()) {
                Some(rank) => DeviceError::PeerDied { rank }.into(),
                None => e,
            }
        })
    }

    /// Returns true if members meet in words that they share, and a barrier of the
    /// caller's own is no faster.
    pub fn meets_in_words(&self) -> bool {
        self.barrier.is_some()
    }

    /// Refuses a fence that must not be called now.
    fn may_fence(&self, assert: Assert) -> Result<(), Error> {
        self.may_end("fence")?;
        if assert.contains(Assert::NOPRECEDE) && self.access.dirty() {
            let (open, remedy) = ("operations were issued", "call it without NOPRECEDE");
            return Err(ErrorKind::Epoch { call: "fence", open, remedy }.into());
        }
        Ok(())
    }

    fn fence_flush(&self, assert: Assert) -> Result<(), Error> {
        if assert.contains(Assert::NOPRECEDE) { Ok(()) } else { self.access.flush_dirty() }
    }

    fn fence_open(&self, assert: Assert) {
        let next = assert.contains(Assert::NOSUCCEED);
        self.access.set_epoch(if next { Epoch::Closed } else { Epoch::Fence });
    }

    /// The first half of [`Window::fence_with`] for callers that have a barrier
    /// of their own: everything issued is done everywhere on return. Then the
    /// caller's barrier over all members, then [`Window::fence_leave`].
    ///
    /// # Errors
    /// As [`Window::fence_with`].
    pub fn fence_enter(&self, assert: Assert) -> Result<(), Error> {
        self.may_fence(assert)?;
        self.fence_flush(assert)
    }

    /// The second half: opens the next epoch.
    ///
    /// # Errors
    /// [`ErrorKind::Freed`].
    pub fn fence_leave(&self, assert: Assert) -> Result<(), Error> {
        self.access.state()?;
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        self.fence_open(assert);
        Ok(())
    }

    /// The first half of [`Window::free`] for callers that have a barrier of
    /// their own: everything issued is done everywhere on return. After the
    /// caller's barrier over all members the window is dropped, after
    /// [`free_leave`](Self::free_leave) if the barrier went well.
    ///
    /// # Errors
    /// As [`Window::free`].
    pub fn free_enter(&self) -> Result<(), Error> {
        self.may_end("free")?;
        self.access.flush_dirty()
    }

    /// Refuses collective calls while an epoch of ranks is open.
    fn may_end(&self, call: &'static str) -> Result<(), Error> {
        let (open, remedy) = match self.access.epoch() {
            Epoch::Freed => return Err(ErrorKind::Freed.into()),
            Epoch::LockAll => ("lock_all", "call unlock_all first"),
            Epoch::Locks => ("ranks are locked", "unlock them first"),
            Epoch::Start => ("a start epoch is open", "call complete first"),
            Epoch::Closed | Epoch::Fence if self.exposed.borrow().is_some() => {
                ("an exposure epoch is open", "call wait first")
            }
            Epoch::Closed | Epoch::Fence => return Ok(()),
        };
        Err(ErrorKind::Epoch { call, open, remedy }.into())
    }

    /// Waits for all members and gives the window back. Collective.
    ///
    /// # Errors
    /// [`ErrorKind::Freed`] the second time, [`ErrorKind::Epoch`] while ranks
    /// are locked, started or posted to; a peer that died (the window is freed then
    /// too).
    pub fn free(&mut self) -> Result<(), Error> {
        self.access.recorded_all(Kind::WinFree, || {
            self.may_end("free")?;
            let flushed = self.access.flush_dirty();
            let barrier = self.part();
            if barrier.is_ok() {
                self.free_leave();
            }
            self.access.set_epoch(Epoch::Freed);
            if let Some(recorded) = self.communicator.recorded() {
                recorded.freed();
            }
            prefer_death(flushed, barrier)
        })
    }

    /// To be called when all members have entered [`free`](Self::free): no more
    /// operations arrive, so registrations can be closed at once.
    pub fn free_leave(&self) {
        if let Ok(state) = self.access.state() {
            state.set_quiescent();
        }
    }
}

/// The result of a flush and the barrier behind it. The death of a member, of
/// which all learn in the barrier, comes before other errors, which it may have
/// caused.
fn prefer_death(flushed: Result<(), Error>, barrier: Result<(), Error>) -> Result<(), Error> {
    match barrier {
        Err(e) if e.peer().is_some() => Err(e),
        barrier => flushed.and(barrier),
    }
}
