//! Packets of tagged messages: kinds, words, bodies.
//!
//! ```text
//! EAGER      channel bits types   payload      sent whole, on credit
//! SYNC       channel bits id      payload      the same, and answered by
//! SYNC_ACK   id                                once a receive matched it
//! RTS        channel bits length  id address   a rendezvous; of what is not
//!                                 blocks list types   contiguous with its blocks
//! CTS        id tag pieces        piece        receives for so many pieces are
//!                                              posted, under tag, tag + 1, ...
//! FRAGMENT   id number address                 the CTS asked for fragments: one is
//!                                              packed, for the receiver to copy
//! FRAGMENT_DONE  id number                     and was copied
//! FIN        id                                nothing more of it is wanted
//! CREDIT     counts                            consumed so far
//! LEAVING    counts                            sent so far, by who leaves: answered by
//!                                              a CREDIT of all that
//! WANTS                                        sends wait for credit for their headers
//! QUERY      id                                asks for delivery, answered by
//! DELIVERED  id                                once the message is here
//! REFUSED    id fails                          it will not be received: who should leaves,
//!                                              or (1) has failed amidst it
//! WITHDRAWN  id                                what is left of it will not be sent
//! ```
//!
//! An `id` is the sender's request, of a FRAGMENT the receiver's, see
//! [`tokens`](super::tokens). `types` is 0 where they are not told.

use crate::device::{Class, Context, DeviceError, Head};
use crate::netmod::Netmod;

pub(super) const EAGER: u8 = 0;
pub(super) const SYNC: u8 = 1;
pub(super) const SYNC_ACK: u8 = 2;
pub(super) const RTS: u8 = 3;
pub(super) const CTS: u8 = 4;
pub(super) const FIN: u8 = 5;
pub(super) const CREDIT: u8 = 6;
pub(super) const QUERY: u8 = 7;
pub(super) const DELIVERED: u8 = 8;
pub(super) const FRAGMENT: u8 = 9;
pub(super) const FRAGMENT_DONE: u8 = 10;
pub(super) const WANTS: u8 = 11;
pub(super) const LEAVING: u8 = 12;
pub(super) const REFUSED: u8 = 13;
pub(super) const WITHDRAWN: u8 = 14;

#[inline]
pub(super) fn head(kind: u8, words: [u64; 3]) -> Head {
    Head::new(Class::Tagged, kind, words)
}

/// Sends a packet of one word. What can be sent neither now nor later need not be:
/// the peer is gone.
#[inline]
pub(super) fn send_word<N: Netmod>(context: &Context<N>, peer: u32, kind: u8, word: u64) {
    send_words(context, peer, kind, [word, 0, 0]);
}

/// Sends a packet of words alone; as [`send_word`].
#[inline]
pub(super) fn send_words<N: Netmod>(context: &Context<N>, peer: u32, kind: u8, words: [u64; 3]) {
    let _ = context.transmit_answer(peer, head(kind, words), &[]);
}

#[cold]
pub(super) fn send_fin<N: Netmod>(context: &Context<N>, peer: u32, id: u64) {
    send_word(context, peer, FIN, id);
}

/// The receive of a message has failed.
#[cold]
pub(super) fn send_refused<N: Netmod>(context: &Context<N>, peer: u32, id: u64) {
    send_words(context, peer, REFUSED, [id, 1, 0]);
}

#[cold]
pub(super) fn send_delivered<N: Netmod>(context: &Context<N>, peer: u32, id: u64) {
    send_word(context, peer, DELIVERED, id);
}

/// Body of an RTS: the sender's request, and where the message lies in its
/// memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rts {
    pub(super) id: u64,
    /// Address of the message, or of some byte of one that is not contiguous.
    pub(super) start: u64,
    /// Address of the sender's count of messages that it has withdrawn, and that count: while it is
    /// the same the message lies there.
    pub(super) withdrawals: (u64, u64),
    /// Contiguous blocks of the message.
    pub(super) block_count: u64,
    /// Address of a list of the blocks; 0 where there is none.
    pub(super) list: u64,
    /// Hash of the types; 0 where they are not told.
    pub(super) types: u64,
}

impl Rts {
    const WORDS: usize = 7;
    /// Words of a contiguous message's.
    const CONTIGUOUS: usize = 4;

    /// That of a message at `start`.
    pub(super) fn contiguous(id: u64, start: *const u8, withdrawals: (u64, u64)) -> Rts {
        Rts { id, start: start as u64, withdrawals, block_count: 1, list: 0, types: 0 }
    }

    /// Returns true if the message is one block.
    pub(super) fn is_contiguous(&self) -> bool {
        self.block_count == 1
    }

    /// The body, of which so many bytes count.
    pub(super) fn encode(self) -> ([u8; 8 * Rts::WORDS], usize) {
        let (address, count) = self.withdrawals;
        let words = [self.id, self.start, address, count, self.block_count, self.list, self.types];
        let mut out = [0; 8 * Rts::WORDS];
        for (to, word) in out.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        (out, 8 * if self.is_contiguous() { Rts::CONTIGUOUS } else { Rts::WORDS })
    }

    pub(super) fn decode(body: &[u8]) -> Option<Rts> {
        let word = |i: usize| {
            let bytes = body.get(8 * i..8 * i + 8)?;
            Some(u64::from_le_bytes(bytes.try_into().ok()?))
        };
        let (id, start, withdrawals) = (word(0)?, word(1)?, (word(2)?, word(3)?));
        if body.len() == 8 * Rts::CONTIGUOUS {
            return Some(Rts { id, start, withdrawals, block_count: 1, list: 0, types: 0 });
        }
        let (block_count, list, types) = (word(4)?, word(5)?, word(6)?);
        Some(Rts { id, start, withdrawals, block_count, list, types })
            .filter(|rts| body.len() == 8 * Rts::WORDS && rts.block_count > 1)
    }
}

/// A block of the list that an RTS names: address and length.
pub(super) type Block = [u64; 2];

/// A FRAGMENT: the sender has packed a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fragment {
    pub(super) number: u64,
    /// Where it lies in the sender's memory.
    pub(super) address: u64,
}

/// A CTS: the receiver has posted receives for so many pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cts {
    /// The sender's request.
    pub(super) id: u64,
    /// The tag of the first piece.
    pub(super) tag: u64,
    /// For how many pieces, from the first one on.
    pub(super) cleared: u64,
    /// Bytes of a piece.
    pub(super) size: u64,
}

impl Cts {
    pub(super) fn send<N: Netmod>(
        self,
        context: &Context<N>,
        peer: u32,
    ) -> Result<(), DeviceError> {
        let head = head(CTS, [self.id, self.tag, self.cleared]);
        context.transmit_answer(peer, head, &self.size.to_le_bytes())
    }

    pub(super) fn decode(head: &Head, body: &[u8]) -> Option<Cts> {
        let [id, tag, cleared] = head.words;
        let size = u64::from_le_bytes(body.try_into().ok()?);
        Some(Cts { id, tag, cleared, size })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_come_back_whole_and_others_are_refused() {
        let rts =
            Rts::contiguous(0x0102_0304_0506_0708, std::ptr::null::<u8>().wrapping_sub(2), (3, 4));
        let laid_out = Rts { block_count: 7, list: 1 << 40, types: 9, ..rts };
        for (rts, long) in [(rts, 32), (laid_out, 56)] {
            let (body, len) = rts.encode();
            assert_eq!((Rts::decode(&body[..len]), len), (Some(rts), long));
            assert_eq!((Rts::decode(&body[..len - 1]), Rts::decode(&[])), (None, None));
        }
        assert_eq!(Rts::decode(&[0; 56]), None);
        let head = head(CTS, [1, 2, 3]);
        let cts = Cts { id: 1, tag: 2, cleared: 3, size: 4096 };
        assert_eq!(Cts::decode(&head, &4096_u64.to_le_bytes()), Some(cts));
        assert_eq!(Cts::decode(&head, &[0; 7]), None);
    }
}
