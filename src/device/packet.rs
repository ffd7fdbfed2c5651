//! Packets: their heads and bodies, whom they are for and where they go.

use crate::av::Transport;
use crate::netmod::HEAD;

/// Whom a packet, or the completion of an operation, is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Class {
    /// One-sided operations that are counted or awaited; never a packet's.
    Plain,
    /// The link's own.
    Link,
    /// Tagged messages.
    Tagged,
    /// Active messages.
    Active,
    /// Accumulates, locks and epochs of windows.
    Rma,
}

impl Class {
    pub(crate) const COUNT: usize = 5;
    const SHIFT: u32 = 60;

    #[inline(always)]
    fn from_number(n: u8) -> Option<Class> {
        Some(match n {
            0 => Class::Plain,
            1 => Class::Link,
            2 => Class::Tagged,
            3 => Class::Active,
            4 => Class::Rma,
            _ => return None,
        })
    }

    /// A token of this class; `number` is below 2^60.
    #[inline]
    pub(crate) fn token(self, number: u64) -> u64 {
        (self as u64) << Class::SHIFT | number
    }

    #[inline]
    pub(crate) fn of_token(token: u64) -> Class {
        Class::from_number((token >> Class::SHIFT) as u8).unwrap_or(Class::Plain)
    }

    /// The number of a token.
    #[inline]
    pub(crate) fn number(token: u64) -> u64 {
        token & ((1 << Class::SHIFT) - 1)
    }
}

/// A packet of the link's own, the first in order to a process of another job: who its sender
/// is, in the body.
pub(super) const INTRODUCTION: u8 = 5;

/// What a packet is, before its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// Who takes it.
    pub(crate) class: Class,
    /// The handler's own.
    pub(crate) kind: u8,
    /// World rank of the sender; filled in by the link.
    pub(crate) from: u32,
    /// The handler's own.
    pub(crate) words: [u64; 3],
}

impl Head {
    #[inline]
    pub(crate) fn new(class: Class, kind: u8, words: [u64; 3]) -> Head {
        Head { class, kind, from: 0, words }
    }

    /// Returns true of an [`INTRODUCTION`].
    #[inline]
    pub(super) fn is_introduction(&self) -> bool {
        self.class == Class::Link && self.kind == INTRODUCTION
    }

    /// The first word, without number and sender.
    #[inline]
    pub(super) fn first(&self) -> u64 {
        u64::from(self.class as u8) | u64::from(self.kind) << 8
    }

    #[inline]
    pub(super) fn encode(&self, from: u32, number: u16) -> [u8; HEAD] {
        encode(self.first(), from, number, self.words)
    }

    /// Of a packet that came through shared memory.
    #[inline(always)]
    pub(super) fn of_words(from: u32, first: u64, words: [u64; 3]) -> Option<Head> {
        let class = Class::from_number(first as u8).filter(|&c| c != Class::Plain)?;
        Some(Head { class, kind: (first >> 8) as u8, from, words })
    }

    #[inline]
    pub(super) fn decode(b: &[u8; HEAD]) -> Option<(Head, u16)> {
        let word = |i: usize| u64::from_le_bytes(std::array::from_fn(|k| b[8 * i + k]));
        let first = word(0);
        let head = Head {
            class: Class::from_number(first as u8).filter(|&c| c != Class::Plain)?,
            kind: (first >> 8) as u8,
            from: (first >> 32) as u32,
            words: [word(1), word(2), word(3)],
        };
        Some((head, (first >> 16) as u16))
    }
}

/// [`Head::encode`] of a head whose [`Head::first`] is known.
#[inline(always)]
pub(super) fn encode(first: u64, from: u32, number: u16, words: [u64; 3]) -> [u8; HEAD] {
    let first = first | u64::from(number) << 16 | u64::from(from) << 32;
    let mut out = [0; HEAD];
    out[..8].copy_from_slice(&first.to_le_bytes());
    for (i, word) in words.iter().enumerate() {
        out[8 + 8 * i..16 + 8 * i].copy_from_slice(&word.to_le_bytes());
    }
    out
}

/// The body of a packet to send.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Body<'a> {
    /// Copied where it cannot be sent at once.
    Copied(&'a [u8]),
    /// The caller's memory, not touched until `token` (of the caller's class)
    /// was handed to [`PacketHandler::finished`](super::PacketHandler::finished).
    Kept { start: *const u8, len: usize, token: u64 },
}

/// Where packets to a peer go.
#[derive(Clone, Copy, Debug)]
pub(super) struct Route {
    pub(super) transport: Transport,
    pub(super) dest: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn heads_come_back_whole(class in 1..5_u8, kind: u8, from: u32, number: u16, words: [u64; 3]) {
            let class = Class::from_number(class).unwrap();
            let head = Head { class, kind, from, words };
            prop_assert_eq!(Head::decode(&head.encode(from, number)), Some((head, number)));
        }

        #[test]
        fn garbage_has_no_class(first in 5..=255_u8, mut rest: [u8; HEAD]) {
            rest[0] = first;
            prop_assert_eq!(Head::decode(&rest), None);
        }
    }
}
