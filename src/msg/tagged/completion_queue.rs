//! A completion queue, for device layers with requests of their own.
//!
//! A [`Request`](crate::msg::Request) is asked whether it is complete. A layer with
//! thousands of them would have to ask all. Here it gives each operation a
//! number, its cookie, and takes completions from a queue. Nothing is allocated
//! for an operation.

use super::calls::{Message, Tagged};
use crate::msg::error::MsgError;
use crate::msg::types::{
    Completion, Envelope, MatchSpec, Outgoing, RecvBuffer, SendMode, Sent, Status,
};
use crate::netmod::Netmod;
use crate::shm::word::Word;
use std::num::NonZeroU64;

/// Names a request under way, for [`Tagged::cancel`]. The id of one that has
/// ended names nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestId(NonZeroU64);

impl RequestId {
    /// Of an id, which may be 0: the names begin at 1, so that none takes no space.
    #[inline(always)]
    fn new(id: u64) -> RequestId {
        RequestId(NonZeroU64::MIN.saturating_add(id))
    }

    /// As a number, for a device layer whose requests are not Rust's.
    #[inline]
    pub fn number(self) -> NonZeroU64 {
        self.0
    }

    /// Of such a number. One that no request has names nothing.
    #[inline]
    pub fn from_number(number: NonZeroU64) -> RequestId {
        RequestId(number)
    }

    fn id(self) -> u64 {
        self.0.get() - 1
    }
}

/// How an operation began.
#[derive(Debug)]
#[must_use = "what is done does not come through the completion queue"]
pub enum Started {
    /// It is done; the buffer is the caller's again.
    Done(Result<Status, MsgError>),
    /// [`Tagged::next_completion`] returns it when it is done.
    Pending(RequestId),
}

impl<N: Netmod> Tagged<N> {
    /// Begins a send. Its completion carries `cookie`.
    ///
    /// # Errors
    /// As [`Tagged::send`].
    ///
    /// # Safety
    /// \[BUF\], as [`Tagged::isend`]; the buffer is in use until the completion.
    #[inline]
    pub unsafe fn start_send(
        &self,
        to: Envelope,
        buf: *const u8,
        len: usize,
        synchronous: bool,
        cookie: NonZeroU64,
    ) -> Result<Started, MsgError> {
        let message = Outgoing { to, buf, len, mode: SendMode { synchronous, borrowed: false } };
        // SAFETY: [BUF], until the completion.
        let sent = unsafe { self.protocol().send(self.context(), message)? };
        Ok(match sent {
            Sent::Done => Started::Done(Ok(to.sent(len as u64))),
            Sent::Pending(at) => self.started(at, cookie),
        })
    }

    /// Begins a receive. Its completion carries `cookie`.
    ///
    /// # Errors
    /// [`MsgError::Device`] for a sender that is dead,
    /// [`MsgError::NobodyLeft`].
    ///
    /// # Safety
    /// \[INTO\]: `buf` is writable for `capacity` bytes and not touched until the
    /// completion.
    pub unsafe fn start_recv(
        &self,
        spec: &MatchSpec,
        buf: *mut u8,
        capacity: usize,
        cookie: NonZeroU64,
    ) -> Result<Started, MsgError> {
        // SAFETY: [INTO].
        if let Some(status) = unsafe { self.recv_now(spec, buf, capacity) } {
            return Ok(Started::Done(Ok(status)));
        }
        // SAFETY: [INTO], until the completion.
        let at = unsafe {
            let buffer = RecvBuffer::lent(buf, capacity);
            self.protocol().receive(self.context(), spec, buffer)?
        };
        Ok(self.started(at, cookie))
    }

    /// Receives the message that came first of all that lie here, if it fits the receive
    /// and its buffer, came whole, and nobody waits to hear of it. `None`: nothing has
    /// happened, [`Tagged::start_recv`] is to begin the receive.
    ///
    /// # Safety
    /// \[INTO\], until the return.
    #[inline]
    pub unsafe fn recv_now(
        &self,
        spec: &MatchSpec,
        buf: *mut u8,
        capacity: usize,
    ) -> Option<Status> {
        // SAFETY: [INTO].
        unsafe { self.protocol().receive_kept(self.context(), spec, buf, capacity) }
    }

    /// Posts a receive, if that is all there is to do, as it mostly is where no message
    /// lies here. `None`: nothing has happened, [`Tagged::start_recv`] is to begin it.
    ///
    /// # Safety
    /// \[INTO\], as [`Tagged::start_recv`].
    #[inline(always)]
    pub unsafe fn post_recv(
        &self,
        spec: MatchSpec,
        buf: *mut u8,
        capacity: usize,
        cookie: NonZeroU64,
    ) -> Option<RequestId> {
        // SAFETY: [INTO], until the completion.
        let id = unsafe { self.protocol().post(spec, buf, capacity, cookie.get())? };
        Some(RequestId::new(id))
    }

    /// Sends a message if that can be done at once and for good. Returns `false`
    /// if nothing has happened: [`Tagged::start_send`] is to begin it.
    ///
    /// # Safety
    /// \[BUF\], until the return: `buf` is readable for `len` bytes.
    #[inline(always)]
    pub unsafe fn send_now(&self, to: Envelope, buf: *const u8, len: usize) -> bool {
        let message = Outgoing { to, buf, len, mode: SendMode::default() };
        // SAFETY: [BUF], until the return.
        unsafe {
            len < Word::BYTES && self.send_few(to, buf, len)
                || self.protocol().send_now(self.context(), message)
        }
    }

    /// Of less than 8 bytes. (Out of line: longer ones are to save no register for it.)
    ///
    /// # Safety
    /// \[BUF\], until the return.
    #[inline(never)]
    unsafe fn send_few(&self, to: Envelope, buf: *const u8, len: usize) -> bool {
        // SAFETY: [BUF], until the return.
        self.send_word(to, unsafe { Word::read(buf, len) }) == Some(true)
    }

    /// [`Tagged::send_now`] of 8 bytes or less, quicker; now and then `None`, where
    /// [`Tagged::send_now`] may send.
    #[inline(always)]
    pub fn send_word(&self, to: Envelope, word: Word) -> Option<bool> {
        self.protocol().send_word(self.context(), to, word)
    }

    #[inline]
    pub(super) fn started(&self, at: u32, cookie: NonZeroU64) -> Started {
        match self.protocol().set_cookie(at, cookie.get()) {
            Some(id) => Started::Pending(RequestId::new(id)),
            None => Started::Done(self.protocol().collect(at)),
        }
    }

    /// The next completion, if it is that of a message that went or came; its cookie
    /// and status. `None` for others, which [`Tagged::next_completion`] has.
    #[inline(always)]
    pub fn next_success(&self) -> Option<(NonZeroU64, Status)> {
        self.protocol().next_success()
    }

    /// The next completion, each once, in the order the operations ended. Makes
    /// no progress.
    #[inline]
    pub fn next_completion(&self) -> Option<Completion> {
        self.protocol().next_completion()
    }

    /// Returns true if the completion queue is not empty.
    #[inline]
    pub fn has_completion(&self) -> bool {
        self.protocol().has_completion()
    }

    /// Takes back a receive that has no message yet; its completion has
    /// [`Status::cancelled`]. Returns `false` where it is too late, and for
    /// sends.
    pub fn cancel(&self, id: RequestId) -> bool {
        self.protocol().known(id.id()).is_some_and(|at| self.protocol().cancel(at))
    }

    /// Why what all senders on a channel do together cannot end well: one of them died, a second
    /// ago or more. Told as often as it is asked. `awaited` sends next: its death will be heard of.
    pub fn dead_sender(&self, channel: u64, awaited: u32) -> Option<MsgError> {
        self.context().note_awaited(awaited);
        self.protocol().dead_sender(self.context(), channel)
    }
}

impl<N: Netmod> Message<N> {
    /// Begins to receive it. The completion carries `cookie`.
    ///
    /// # Safety
    /// \[INTO\], as [`Tagged::start_recv`].
    pub unsafe fn start_recv(self, buf: *mut u8, capacity: usize, cookie: NonZeroU64) -> Started {
        let tagged = self.tagged().clone();
        // SAFETY: [INTO], until the completion.
        let at = unsafe { self.begin(RecvBuffer::lent(buf, capacity), None) };
        tagged.started(at, cookie)
    }
}
