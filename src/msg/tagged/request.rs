//! Sends and receives under way, each with an object that is waited for.

use super::calls::{Message, Tagged};
use crate::device::Progress;
use crate::device::trace::Call;
use crate::msg::error::MsgError;
use crate::msg::types::{Envelope, MatchSpec, Outgoing, RecvBuffer, SendMode, Sent, Status};
use crate::netmod::Netmod;
use crate::track::{Kind, Recorder};

/// A send or a receive under way. Dropped, it goes on by itself, but for a
/// receive without a message, which is taken back.
#[must_use = "a dropped receive is taken back"]
pub struct Request<N: Netmod> {
    tagged: Tagged<N>,
    state: State,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Pending(Place),
    Done(Status),
    /// The result was handed out.
    Returned,
}

/// The place of a request; in the upper half the communicator that its end is recorded in:
/// 0 if it is not, [`NO_MESSAGE`], or the number of the one that a message is received in.
#[derive(Clone, Copy, Debug)]
struct Place(u64);

/// The wait for a send is recorded.
const NO_MESSAGE: u32 = u32::MAX;

impl Place {
    fn recorded(at: u32, number: u32) -> Place {
        Place(u64::from(number) << 32 | u64::from(at))
    }

    #[inline]
    fn at(self) -> u32 {
        self.0 as u32
    }

    /// 0 if the end is not recorded.
    #[inline]
    fn number(self) -> u32 {
        (self.0 >> 32) as u32
    }
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
        Request { tagged: tagged.clone(), state: State::Pending(Place(u64::from(at))) }
    }

    /// Returns true if it is complete, without progress.
    #[inline]
    pub fn is_complete(&self) -> bool {
        match self.state {
            State::Pending(place) => self.tagged.protocol().is_done(place.at()),
            _ => true,
        }
    }

    /// With its end recorded: the message of a receive as that of the communicator of this
    /// number.
    #[cold]
    pub(in crate::msg) fn recorded(mut self, number: Option<u32>) -> Request<N> {
        let at = match self.state {
            State::Pending(place) => place.at(),
            State::Done(status) => self.tagged.protocol().ended(status),
            State::Returned => return self,
        };
        self.state = State::Pending(Place::recorded(at, number.unwrap_or(NO_MESSAGE)));
        self
    }

    /// When a call begins that may take the result, if it is to be recorded.
    #[inline]
    fn watched(&self) -> Option<u64> {
        let is = matches!(self.state, State::Pending(place) if place.number() != 0);
        is.then(Recorder::now)
    }

    /// A call that may take the result, and began at `start`, recorded if it did.
    #[cold]
    #[inline(never)]
    fn recorded_call(
        &mut self,
        kind: Kind,
        start: u64,
        call: impl FnOnce(&mut Request<N>) -> Result<Option<Status>, MsgError>,
    ) -> Result<Option<Status>, MsgError> {
        let State::Pending(place) = self.state else { return call(self) };
        let number = place.number();
        self.state = State::Pending(Place::recorded(place.at(), 0));
        let result = call(self);
        if let State::Pending(..) = self.state {
            self.state = State::Pending(place);
        }
        if let Ok(None) = result {
            return result;
        }
        if let Some(trace) = self.tagged.context().device().trace() {
            // (The message before the call: it came while that lasted.)
            if let (Ok(Some(status)), true) = (&result, number != NO_MESSAGE) {
                trace.record(number, status.recorded(Kind::Received), Recorder::now(), true);
            }
            trace.record(0, Call::new(kind), start, result.is_ok());
        }
        result
    }

    /// Makes progress once; the result when it is complete. Once only: `None`
    /// afterwards.
    ///
    /// # Errors
    /// As [`Tagged::recv`] and [`Tagged::send`].
    pub fn test(&mut self) -> Result<Option<Status>, MsgError> {
        match self.watched() {
            Some(start) => self.recorded_call(Kind::Test, start, Request::take_after_progress),
            None => self.take_after_progress(),
        }
    }

    fn take_after_progress(&mut self) -> Result<Option<Status>, MsgError> {
        if !self.is_complete() {
            self.tagged.context().progress_and_check()?;
        }
        self.take()
    }

    fn take(&mut self) -> Result<Option<Status>, MsgError> {
        match self.state {
            State::Done(status) => {
                self.state = State::Returned;
                Ok(Some(status))
            }
            State::Pending(place) if self.tagged.protocol().is_done(place.at()) => {
                self.state = State::Returned;
                self.tagged.protocol().collect(place.at()).map(Some)
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
            State::Pending(place) if place.number() == 0 => self.tagged.complete(place.at()),
            State::Pending(_) => {
                self.state = state;
                self.recorded_wait()
            }
            State::Done(status) => Ok(status),
            State::Returned => Ok(Status { peer: 0, bits: 0, length: 0, cancelled: true }),
        }
    }

    #[cold]
    #[inline(never)]
    fn recorded_wait(mut self) -> Result<Status, MsgError> {
        let status = self.recorded_call(Kind::Wait, Recorder::now(), |request| {
            let state = std::mem::replace(&mut request.state, State::Returned);
            match state {
                State::Pending(place) => request.tagged.complete(place.at()).map(Some),
                _ => Ok(None),
            }
        })?;
        Ok(status.unwrap_or(Status { peer: 0, bits: 0, length: 0, cancelled: true }))
    }

    /// Takes back a receive that has no message yet; it then completes with
    /// [`Status::cancelled`]. `false` where it is too late, and for sends.
    pub fn cancel(&mut self) -> bool {
        match self.state {
            State::Pending(place) => self.tagged.protocol().cancel(place.at()),
            _ => false,
        }
    }
}

impl<N: Netmod> Drop for Request<N> {
    fn drop(&mut self) {
        if let State::Pending(place) = self.state {
            self.tagged.protocol().detach(place.at());
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
            Sent::Done => Request::done(self, to.sent(len as u64)),
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
        self.posting(|message| {
            let tagged = message.tagged().clone();
            // SAFETY: [INTO].
            let at = unsafe { message.begin(RecvBuffer::lent(buf, capacity), None) };
            Request::under_way(&tagged, at)
        })
    }

    /// Begins to receive it, and records that if it is to be.
    pub(super) fn posting(self, post: impl FnOnce(Message<N>) -> Request<N>) -> Request<N> {
        let (number, status) = (self.number(), self.status());
        if number == 0 {
            return post(self);
        }
        let start = Recorder::now();
        let request = post(self);
        if let Some(trace) = request.tagged.context().device().trace() {
            let call = Call { bytes: 0, ..status.recorded(Kind::Imrecv) };
            trace.record(number, call, start, true);
        }
        request.recorded(Some(number))
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
    let start = requests.iter().find_map(Request::watched);
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
    let result = match start {
        Some(start) => requests[at].recorded_call(Kind::Waitany, start, Request::take),
        None => requests[at].take(),
    };
    match result {
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
        first.tagged.context().progress_and_check()?;
    }
    Ok(requests.iter().all(Request::is_complete))
}
