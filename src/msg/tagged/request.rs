//! Sends and receives under way, each with an object that is waited for.

use super::calls::{Message, Tagged};
use crate::device::Progress;
use crate::msg::error::MsgError;
use crate::msg::types::{Envelope, MatchSpec, Outgoing, RecvBuffer, SendMode, Sent, Status};
use crate::netmod::Netmod;

/// A send or a receive under way. Dropped, it goes on by itself, but for a
/// receive without a message, which is taken back.
#[must_use = "a dropped receive is taken back"]
pub struct Request<N: Netmod> {
    tagged: Tagged<N>,
    state: State,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Pending(u32),
    Done(Status),
    /// The result was handed out.
    Returned,
}

impl<N: Netmod> std::fmt::Debug for Request<N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Request").field(&self.state).finish()
    }
}

impl<N: Netmod> Request<N> {
    #[inline]
    pub(super) fn done(tagged: &Tagged<N>, status: Status) -> Request<N> {
        Request { tagged: tagged.clone(), state: State::Done(status) }
    }

    #[inline]
    pub(super) fn under_way(tagged: &Tagged<N>, at: u32) -> Request<N> {
        Request { tagged: tagged.clone(), state: State::Pending(at) }
    }

    /// Returns true if it is complete, without progress.
    #[inline]
    pub fn is_complete(&self) -> bool {
        match self.state {
            State::Pending(at) => self.tagged.protocol().is_done(at),
            _ => true,
        }
    }

    /// Makes progress once; the result when it is complete. Once only: `None`
    /// afterwards.
    ///
    /// # Errors
    /// As [`Tagged::recv`] and [`Tagged::send`].
    pub fn test(&mut self) -> Result<Option<Status>, MsgError> {
        if !self.is_complete() {
            self.tagged.context().progress()?;
        }
        self.take()
    }

    fn take(&mut self) -> Result<Option<Status>, MsgError> {
        match self.state {
            State::Done(status) => {
                self.state = State::Returned;
                Ok(Some(status))
            }
            State::Pending(at) if self.tagged.protocol().is_done(at) => {
                self.state = State::Returned;
                self.tagged.protocol().collect(at).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Waits for it.
    ///
    /// # Errors
    /// As [`Tagged::recv`] and [`Tagged::send`].
    #[inline]
    pub fn wait(mut self) -> Result<Status, MsgError> {
        let state = std::mem::replace(&mut self.state, State::Returned);
        match state {
            State::Pending(at) => self.tagged.complete(at),
            State::Done(status) => Ok(status),
            State::Returned => Ok(Status { peer: 0, bits: 0, length: 0, cancelled: true }),
        }
    }

    /// Takes back a receive that has no message yet; it then completes with
    /// [`Status::cancelled`]. `false` where it is too late, and for sends.
    pub fn cancel(&mut self) -> bool {
        match self.state {
            State::Pending(at) => self.tagged.protocol().cancel(at),
            _ => false,
        }
    }
}

impl<N: Netmod> Drop for Request<N> {
    fn drop(&mut self) {
        if let State::Pending(at) = self.state {
            self.tagged.protocol().detach(at);
        }
    }
}

impl<N: Netmod> Tagged<N> {
    /// Begins a send.
    ///
    /// # Errors
    /// As [`Tagged::send`].
    ///
    /// # Safety
    /// \[BUF\]: `buf` is readable for `len` bytes and not written to until the
    /// request is complete, also when it is dropped before.
    pub unsafe fn isend(
        &self,
        to: Envelope,
        buf: *const u8,
        len: usize,
    ) -> Result<Request<N>, MsgError> {
        // SAFETY: [BUF].
        unsafe { self.isend_mode(to, buf, len, false) }
    }

    /// Begins a synchronous send.
    ///
    /// # Errors
    /// As [`Tagged::send`].
    ///
    /// # Safety
    /// \[BUF\], as [`Tagged::isend`].
    pub unsafe fn issend(
        &self,
        to: Envelope,
        buf: *const u8,
        len: usize,
    ) -> Result<Request<N>, MsgError> {
        // SAFETY: [BUF].
        unsafe { self.isend_mode(to, buf, len, true) }
    }

    /// # Safety
    /// \[BUF\], as [`Tagged::isend`].
    #[inline]
    unsafe fn isend_mode(
        &self,
        to: Envelope,
        buf: *const u8,
        len: usize,
        synchronous: bool,
    ) -> Result<Request<N>, MsgError> {
        let message = Outgoing { to, buf, len, mode: SendMode { synchronous, borrowed: false } };
        // SAFETY: [BUF].
        let sent = unsafe { self.protocol().send(self.context(), message)? };
        Ok(match sent {
            Sent::Done => {
                let Envelope { peer, bits, .. } = to;
                let length = len as u64;
                Request::done(self, Status { peer, bits, length, cancelled: false })
            }
            Sent::Pending(at) => Request::under_way(self, at),
        })
    }

    /// Begins a receive.
    ///
    /// # Errors
    /// [`MsgError::Device`] for a sender that is dead.
    ///
    /// # Safety
    /// \[INTO\]: `buf` is writable for `capacity` bytes and not touched until the
    /// request is complete, also when it is dropped before with its message on the
    /// way. A dropped request without a message gives the buffer back at once.
    pub unsafe fn irecv(
        &self,
        spec: &MatchSpec,
        buf: *mut u8,
        capacity: usize,
    ) -> Result<Request<N>, MsgError> {
        // SAFETY: [INTO].
        let at = unsafe {
            let buffer = RecvBuffer::lent(buf, capacity);
            self.protocol().receive(self.context(), spec, buffer)?
        };
        Ok(Request::under_way(self, at))
    }
}

impl<N: Netmod> Message<N> {
    /// Begins to receive it.
    ///
    /// # Safety
    /// \[INTO\], as [`Tagged::irecv`].
    pub unsafe fn irecv(self, buf: *mut u8, capacity: usize) -> Request<N> {
        let tagged = self.tagged().clone();
        // SAFETY: [INTO].
        let at = unsafe { self.begin(RecvBuffer::lent(buf, capacity), None) };
        Request::under_way(&tagged, at)
    }
}

/// Waits for all requests, whatever becomes of the others.
///
/// # Errors
/// The first that any of them has.
pub fn wait_all<N: Netmod>(
    requests: impl IntoIterator<Item = Request<N>>,
) -> Result<Vec<Status>, MsgError> {
    // All are waited for: their buffers are in use until then.
    let all: Vec<_> = requests.into_iter().map(Request::wait).collect();
    all.into_iter().collect()
}

/// Waits until one of the requests is complete, and takes its result out of
/// it. `None` when all results were taken before.
///
/// # Errors
/// That request's, with its place; or what makes waiting impossible, with
/// `requests.len()`.
pub fn wait_any<N: Netmod>(
    requests: &mut [Request<N>],
) -> Result<Option<(usize, Status)>, (usize, MsgError)> {
    let none = requests.len();
    let open = |r: &Request<N>| !matches!(r.state, State::Returned);
    let Some(first) = requests.iter().find(|r| open(r)) else { return Ok(None) };
    let context = std::rc::Rc::clone(first.tagged.context());
    let ready = |all: &[Request<N>]| all.iter().position(|r| open(r) && r.is_complete());
    let mut found = ready(requests);
    // Whose peers are watched while this drags on: all of them.
    if found.is_none() {
        let waited = context.wait_packets(None, || {
            found = ready(requests);
            Ok(if found.is_some() { Progress::Done } else { Progress::Waiting })
        });
        waited.map_err(|e| (none, e.into()))?;
    }
    let Some(at) = found else { return Ok(None) };
    match requests[at].take() {
        Ok(status) => Ok(status.map(|status| (at, status))),
        Err(e) => Err((at, e)),
    }
}

/// Makes progress once. Returns true if all requests are complete.
///
/// # Errors
/// What breaks a provider's queue.
pub fn test_all<N: Netmod>(requests: &[Request<N>]) -> Result<bool, MsgError> {
    if let Some(first) = requests.iter().find(|r| !r.is_complete()) {
        first.tagged.context().progress()?;
    }
    Ok(requests.iter().all(Request::is_complete))
}
