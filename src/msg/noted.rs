//! Requests that tell of their end, for device layers with requests of their
//! own.
//!
//! A [`Request`](super::Request) is asked whether it is complete. A layer with
//! thousands of them would have to ask all. Here it gives each operation a
//! number, its cookie, and takes the ended ones from a queue. Nothing is
//! allocated for an operation.

use super::MsgError;
use super::protocol::{How, Select, Sent, Status};
use super::tagged::{Message, Tagged};
use crate::netmod::Netmod;
use std::num::NonZeroU64;

/// A request under way, for [`Tagged::cancel`]. One that has ended is no
/// longer known by its ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(u64);

/// How an operation began.
#[derive(Debug)]
#[must_use = "what is done is not told of again"]
pub enum Begun {
    /// It is done; the buffer is the caller's again.
    Done(Result<Status, MsgError>),
    /// [`Tagged::next_ended`] tells when it is.
    Under(Ticket),
}

/// An operation that ended.
#[derive(Debug)]
pub struct Ended {
    /// What its caller gave.
    pub cookie: NonZeroU64,
    /// What the wait for it would have answered.
    pub result: Result<Status, Box<MsgError>>,
}

impl<N: Netmod> Tagged<N> {
    /// Begins a send whose end is told with `cookie`.
    ///
    /// # Errors
    /// As [`Tagged::send`].
    ///
    /// # Safety
    /// As [`Tagged::isend`]; the buffer is in use until the end is told.
    #[inline]
    #[expect(clippy::too_many_arguments, reason = "one message, taken apart once")]
    pub unsafe fn send_noted(
        &self,
        world: u32,
        channel: u64,
        bits: u64,
        buf: *const u8,
        len: usize,
        synchronous: bool,
        cookie: NonZeroU64,
    ) -> Result<Begun, MsgError> {
        let (protocol, context) = (self.protocol(), self.context());
        let how = How { synchronous, borrowed: false };
        // SAFETY: the caller's duty.
        let sent = unsafe { protocol.send(context, world, channel, bits, buf, len, how)? };
        Ok(match sent {
            Sent::Done => {
                Begun::Done(Ok(Status { world, bits, length: len as u64, cancelled: false }))
            }
            Sent::Under(at) => self.note(at, cookie),
        })
    }

    /// Begins a receive whose end is told with `cookie`.
    ///
    /// # Errors
    /// [`MsgError::Device`] for a sender that is dead,
    /// [`MsgError::NobodyLeft`].
    ///
    /// # Safety
    /// `buf` is writable for `capacity` bytes and not touched until the end is
    /// told.
    #[inline]
    pub unsafe fn recv_noted(
        &self,
        select: &Select,
        buf: *mut u8,
        capacity: usize,
        cookie: NonZeroU64,
    ) -> Result<Begun, MsgError> {
        // SAFETY: the caller's duty.
        if let Some(id) = unsafe { self.protocol().post(select, buf, capacity, cookie.get()) } {
            return Ok(Begun::Under(Ticket(id)));
        }
        // SAFETY: the caller's duty.
        unsafe { self.recv_slowly(select, buf, capacity, cookie) }
    }

    /// # Safety
    /// As [`Tagged::recv_noted`].
    #[inline(never)]
    unsafe fn recv_slowly(
        &self,
        select: &Select,
        buf: *mut u8,
        capacity: usize,
        cookie: NonZeroU64,
    ) -> Result<Begun, MsgError> {
        // SAFETY: the caller's duty.
        let at = unsafe { self.protocol().receive(self.context(), select, buf, capacity, false)? };
        Ok(self.note(at, cookie))
    }

    /// Sends a message if that can be done at once and for good; `false`:
    /// nothing has happened, and [`Tagged::send_noted`] is to begin it.
    ///
    /// # Safety
    /// `buf` is readable for `len` bytes.
    #[inline]
    pub unsafe fn send_now(
        &self,
        world: u32,
        channel: u64,
        bits: u64,
        buf: *const u8,
        len: usize,
    ) -> bool {
        // SAFETY: the caller's duty.
        unsafe { self.protocol().send_now(self.context(), world, channel, bits, buf, len) }
    }

    #[inline]
    fn note(&self, at: u32, cookie: NonZeroU64) -> Begun {
        match self.protocol().note(at, cookie.get()) {
            Some(id) => Begun::Under(Ticket(id)),
            None => Begun::Done(self.protocol().collect(at)),
        }
    }

    /// The next operation with a cookie that has ended, each once, in the order
    /// they ended. Makes no progress.
    #[inline]
    pub fn next_ended(&self) -> Option<Ended> {
        self.protocol().next_ended()
    }

    /// Whether [`Tagged::next_ended`] has something to tell.
    #[inline]
    pub fn has_ended(&self) -> bool {
        self.protocol().has_ended()
    }

    /// Takes back a receive that has no message yet; its end is told with
    /// [`Status::cancelled`]. `false` where it is too late, and for sends.
    pub fn cancel(&self, ticket: Ticket) -> bool {
        self.protocol().known(ticket.0).is_some_and(|at| self.protocol().cancel(at))
    }
}

impl<N: Netmod> Message<N> {
    /// Begins to receive it; the end is told with `cookie`.
    ///
    /// # Safety
    /// As [`Tagged::recv_noted`].
    pub unsafe fn recv_noted(self, buf: *mut u8, capacity: usize, cookie: NonZeroU64) -> Begun {
        let tagged = self.tagged().clone();
        // SAFETY: the caller's duty.
        let at = unsafe { self.begin(buf, capacity, false) };
        tagged.note(at, cookie)
    }
}
