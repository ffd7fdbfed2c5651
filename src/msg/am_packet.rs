//! Packets of active messages: what they say, and those that are kept.
//!
//! ```text
//! AM        handler, header's length, flags    header    payload
//! REPLY     handler, header's length           header    payload
//! NO_REPLY                                               the reply that was due
//! CREDIT    counts                                       consumed so far
//! LEAVING   counts                                       sent so far, by who leaves:
//!                                                        answered by a CREDIT of all that
//! ```
//!
//! Those of posted messages: [`posted`](super::posted).

use crate::device::Head;

pub(super) const AM: u8 = 0;
pub(super) const REPLY: u8 = 1;
pub(super) const NO_REPLY: u8 = 2;
pub(super) const CREDIT: u8 = 3;
pub(super) const LEAVING: u8 = 7;

/// The longest header, bytes.
pub const HEADER: usize = 16;
pub(super) const WANTS_REPLY: u64 = 1 << 24;

/// What a packet of an active message says.
#[derive(Clone, Copy)]
pub(super) struct Packet<'a> {
    pub(super) kind: u8,
    pub(super) handler: u16,
    pub(super) flags: u64,
    pub(super) header: &'a [u8],
    pub(super) payload: &'a [u8],
}

/// A message that no handler took yet.
pub(super) struct Kept {
    pub(super) from: u32,
    pub(super) kind: u8,
    pub(super) handler: u16,
    pub(super) flags: u64,
    pub(super) header: Vec<u8>,
    pub(super) payload: Vec<u8>,
}

impl<'a> Packet<'a> {
    /// The first word of the head: handler, header's length, flags.
    #[inline]
    pub(super) fn word(&self) -> u64 {
        u64::from(self.handler) | (self.header.len() as u64) << 16 | self.flags
    }

    /// That of a head, whose header is at the start of `header`, padded.
    #[inline]
    pub(super) fn decode(head: &Head, header: &'a [u8; HEADER], payload: &'a [u8]) -> Packet<'a> {
        let word = head.words[0];
        let header = &header[..usize::from((word >> 16) as u8).min(HEADER)];
        let (handler, flags) = (word as u16, word & WANTS_REPLY);
        Packet { kind: head.kind, handler, flags, header, payload }
    }

    pub(super) fn padded_header(&self) -> [u8; HEADER] {
        let mut padded = [0; HEADER];
        padded[..self.header.len()].copy_from_slice(self.header);
        padded
    }
}

impl Kept {
    pub(super) fn new(from: u32, packet: Packet<'_>) -> Kept {
        let Packet { kind, handler, flags, header, payload } = packet;
        Kept { from, kind, handler, flags, header: header.into(), payload: payload.into() }
    }

    pub(super) fn packet(&self) -> Packet<'_> {
        let Kept { kind, handler, flags, .. } = *self;
        Packet { kind, handler, flags, header: &self.header, payload: &self.payload }
    }
}
