//! Operations that are recorded.
//!
//! The path of an access whose window is recorded is [`path::RECORDED`], which no put has
//! inline: a put, checked or not, goes by the table of paths, whose functions then are those
//! here. They go on by the window's own path.

use super::put::put_in_c;
use super::{Access, BLOCKING, NONBLOCKING, Put, PutVtable, path};
use crate::device::trace::{Call, Recorded};
use crate::netmod::{AGAIN, Netmod};
use crate::rma::Error;
use crate::track::{Kind, NO_PEER, Recorder};

/// How the calls of an access are recorded.
pub(super) struct Recording<N: Netmod> {
    window: Recorded,
    /// The access's ranks are not those of the window.
    translates: bool,
    /// Puts by the window's own path.
    own: PutVtable<N>,
}

impl<N: Netmod> Access<N> {
    /// Has the calls be recorded from now on as those of this window.
    pub(in crate::rma) fn record(&mut self, window: &Recorded) {
        let translates = match &*self.state.borrow() {
            Some(state) => state.members != self.map,
            None => false,
        };
        let recorded = PutVtable {
            blocking: Access::issue_recorded::<BLOCKING>,
            nonblocking: Access::issue_recorded::<NONBLOCKING>,
            short_blocking: Access::issue_recorded::<BLOCKING>,
            short_nonblocking: Access::issue_recorded::<NONBLOCKING>,
        };
        let own = match self.own_path {
            path::AFFINE => PutVtable::affine(),
            path::MAPPED => PutVtable::line(),
            _ => std::mem::replace(&mut self.put_vtable, PutVtable::affine()),
        };
        self.put_vtable = recorded;
        self.c_abi.put = put_in_c::<N>;
        self.path = path::RECORDED;
        self.stores = false;
        self.recording = Some(Box::new(Recording { window: window.clone(), translates, own }));
        self.set_epoch(self.epoch());
    }

    /// Makes a call towards a rank, and records it if calls are.
    #[inline]
    pub(in crate::rma) fn recorded<T>(
        &self,
        kind: Kind,
        rank: u32,
        bytes: usize,
        call: impl FnOnce() -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.recorded_where(Call::with(kind, rank, bytes), |_| true, call)
    }

    /// [`Access::recorded`] of a call that is towards no single rank.
    #[inline]
    pub(in crate::rma) fn recorded_all<T>(
        &self,
        kind: Kind,
        call: impl FnOnce() -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.recorded_where(Call::new(kind), |_| true, call)
    }

    /// [`Access::recorded`] of a call that is none unless it `came` to something.
    #[inline]
    pub(in crate::rma) fn recorded_where<T>(
        &self,
        what: Call,
        came: impl FnOnce(&T) -> bool,
        call: impl FnOnce() -> Result<T, Error>,
    ) -> Result<T, Error> {
        let Some(recording) = &self.recording else { return call() };
        let start = Recorder::now();
        let result = call();
        let well = result.is_ok();
        if result.as_ref().map_or(true, came) {
            self.write_down(recording, what, start, well);
        }
        result
    }

    /// [`Access::recorded_where`] of a wait for operations, or a look whether they are over,
    /// which is a call on no window.
    #[inline]
    pub(in crate::rma) fn recorded_completion<T>(
        &self,
        kind: Kind,
        came: impl FnOnce(&T) -> bool,
        call: impl FnOnce() -> Result<T, Error>,
    ) -> Result<T, Error> {
        let Some(recording) = &self.recording else { return call() };
        recording.window.completion(kind, came, call)
    }

    /// Records a call that has ended just now.
    fn write_down(&self, recording: &Recording<N>, what: Call, start: u64, well: bool) {
        let peer = if recording.translates { self.member(what.peer) } else { what.peer };
        recording.window.ended(Call { peer, ..what }, start, well);
    }

    /// The window's rank of a rank of this access.
    #[cold]
    fn member(&self, rank: u32) -> u32 {
        let state = self.state.borrow();
        let peer = self.world_rank(rank).ok().zip(state.as_ref());
        let member = peer.and_then(|(peer, state)| state.member(self.context.device(), peer));
        member.unwrap_or(NO_PEER)
    }

    /// Puts by the window's own path, and records the put when it is issued or fails.
    ///
    /// # Safety
    /// \[PUT\] of `put`, \[BUF\] until the return unless `NB`.
    unsafe fn issue_recorded<const NB: bool>(
        &self,
        buf: *const u8,
        len: usize,
        rank: u32,
        disp: usize,
    ) -> isize {
        let Some(recording) = &self.recording else { return AGAIN };
        let put: Put<N> = if NB { recording.own.nonblocking } else { recording.own.blocking };
        let start = Recorder::now();
        // SAFETY: [PUT]; [PATH]: it is the window's own.
        let rc = unsafe { put(self, buf, len, rank, disp) };
        if rc != AGAIN {
            self.write_down(recording, Call::with(Kind::Put, rank, len), start, rc == 0);
        }
        rc
    }
}
