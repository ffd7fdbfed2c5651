//! Epochs of all members, and the end of a window.

use super::Window;
use crate::netmod::Netmod;
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
        self.fence_by(assert, || self.communicator.meet())
    }

    fn fence_by(
        &self,
        assert: Assert,
        meet: impl FnOnce() -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.access.recorded_all(Kind::Fence, || {
            self.may_fence(assert)?;
            let flushed = self.fence_flush(assert);
            // The others wait there, whatever became of this one's operations.
            let barrier = meet();
            prefer_death(flushed, barrier)?;
            self.fence_open(assert);
            Ok(())
        })
    }

    /// [`Window::fence_with`] where all members are on this node and share words, in which
    /// they meet: no message is sent. `None`, and nothing is done, where they do not, alike
    /// on all members. All of them fence by the same of the two calls.
    ///
    /// For device layers of an MPI, whose jobs end with a member: of the death of a member
    /// this tells who fences here, where the set-up channel tells whoever waits for anybody.
    pub fn fence_in_words(&self, assert: Assert) -> Option<Result<(), Error>> {
        let barrier = self.barrier.as_ref()?;
        Some(self.fence_by(assert, || barrier.meet(self.access.context())))
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
            Epoch::Closed | Epoch::Fence => return Ok(self.context().check_may_wait()?),
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
            let barrier = self.communicator.meet();
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
