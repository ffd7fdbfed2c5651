//! What the files of this module share: which messages are meant, how a call
//! began and how it ended. Knows none of them but the error.

use super::error::MsgError;
use crate::datatype::{Basic, Layout};
use crate::device::trace::Call;
use crate::track::Kind;
use std::num::NonZeroU64;

/// Which messages a receive or probe matches.
#[derive(Clone, Copy, Debug)]
pub struct MatchSpec {
    /// The channel: a number that both sides know, such as a communicator's
    /// [id](crate::rma::Communicator::id).
    pub channel: u64,
    /// The match bits wanted.
    pub bits: u64,
    /// Bits that need not agree.
    pub ignore: u64,
    /// World rank of the only possible sender, whose death ends the receive;
    /// `None` where the ignored bits leave several.
    pub from: Option<u32>,
}

/// What a receive got, or a probe found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// World rank of the sender.
    pub peer: u32,
    /// The message's match bits.
    pub bits: u64,
    /// Bytes of the message.
    pub length: u64,
    /// The receive was cancelled; the rest means nothing.
    pub cancelled: bool,
}

impl Status {
    /// The sender's rank in the communicator: the upper half of the bits.
    pub fn source(&self) -> u32 {
        (self.bits >> 32) as u32
    }

    /// The lower half of the bits.
    pub fn tag(&self) -> u32 {
        self.bits as u32
    }

    /// What a receive or a probe is that found this, to be recorded.
    pub(super) fn recorded(&self, kind: Kind) -> Call {
        let call = Call { peer: self.source(), bytes: self.length, ..Call::new(kind) };
        let call = call.tagged(self.tag());
        if self.cancelled { call.cancelled() } else { call }
    }
}

/// An operation that ended, out of the completion queue.
#[derive(Debug)]
pub struct Completion {
    /// What its caller gave.
    pub cookie: NonZeroU64,
    /// What waiting for it would have returned.
    pub result: Result<Status, Box<MsgError>>,
}

/// What waits on a context, now and at most so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages that came before a receive for them.
    pub unexpected: usize,
    /// The most there were.
    pub unexpected_most: usize,
    /// Bytes copied for them.
    pub unexpected_bytes: usize,
    /// The most there were.
    pub unexpected_bytes_most: usize,
    /// Sends that wait for credit.
    pub queued: usize,
    /// Packets that wait for space at a provider.
    pub queued_packets: usize,
}

/// Where a message goes: to whom, and what its receive must match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// World rank of the receiver.
    pub peer: u32,
    /// The channel, see [`MatchSpec::channel`].
    pub channel: u64,
    /// The match bits.
    pub bits: u64,
}

impl Envelope {
    /// The status of a message that was sent.
    #[inline(always)]
    pub(super) fn sent(self, length: u64) -> Status {
        Status { peer: self.peer, bits: self.bits, length, cancelled: false }
    }
}

/// A message that is sent. Passed by value: what is sent at once is never
/// written to memory then.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outgoing {
    pub(super) to: Envelope,
    pub(super) buf: *const u8,
    /// Bytes of `buf`.
    pub(super) len: usize,
    pub(super) mode: SendMode,
}

/// What a buffer that is not contiguous is.
#[derive(Clone, Copy, Debug)]
pub(super) struct LaidOut<'a> {
    pub(super) layout: &'a Layout,
    /// Its types are told, and compared where both ends tell.
    pub(super) typed: bool,
}

impl<'a> LaidOut<'a> {
    /// A layout whose types are told.
    pub(super) fn typed(layout: &'a Layout) -> LaidOut<'a> {
        LaidOut { layout, typed: true }
    }

    /// A layout whose caller compares types itself.
    pub(super) fn untyped(layout: &'a Layout) -> LaidOut<'a> {
        LaidOut { layout, typed: false }
    }

    /// Hash of its types; 0 where they are not told, or are bytes, which agree with
    /// all.
    pub(super) fn types(self) -> u64 {
        match self.layout.element() {
            Some(Basic::Byte) => 0,
            _ if self.typed => self.layout.signature().hash(),
            _ => 0,
        }
    }
}

/// The offset of the one block that a layout is, or of nothing; `None` where it
/// has several.
pub(super) fn one_block(layout: &Layout) -> Option<i64> {
    (layout.blocks() <= 1).then(|| layout.true_bounds().map_or(0, |(first, _)| first))
}

/// How a send is to go.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SendMode {
    /// It ends when a receive took it.
    pub(super) synchronous: bool,
    /// The buffer is the caller's on return from a call that may fail before
    /// the provider is done.
    pub(super) borrowed: bool,
}

/// Where a receive puts its message.
#[derive(Clone, Copy)]
pub(super) struct RecvBuffer {
    pub(super) start: *mut u8,
    /// Bytes.
    pub(super) capacity: usize,
    /// Borrowed by a call that may fail before the provider is done.
    pub(super) borrowed: bool,
}

impl RecvBuffer {
    /// That of a call that waits.
    #[inline]
    pub(super) fn borrowed(start: *mut u8, capacity: usize) -> RecvBuffer {
        RecvBuffer { start, capacity, borrowed: true }
    }

    /// The caller's until its request is complete.
    #[inline]
    pub(super) fn lent(start: *mut u8, capacity: usize) -> RecvBuffer {
        RecvBuffer { start, capacity, borrowed: false }
    }
}

/// How a send began.
pub(super) enum Sent {
    /// The buffer is the caller's again.
    Done,
    /// This request ends when it is.
    Pending(u32),
}
