//! Packets of tagged messages: kinds, words, bodies.
//!
//! ```text
//! EAGER      channel bits -       payload      sent whole, on credit
//! SYNC       channel bits id      payload      the same, and answered by
//! SYNC_ACK   id                                once a receive matched it
//! RTS        channel bits length  id address   a rendezvous
//! CTS        id tag pieces        piece        receives for so many pieces are
//!                                              posted, under tag, tag + 1, ...
//! FIN        id                                nothing more of it is wanted
//! CREDIT     counts                            consumed so far
//! QUERY      id                                asks for delivery, answered by
//! DELIVERED  id                                once the message is here
//! ```
//!
//! An `id` is the sender's request, see [`tokens`](super::tokens).

use crate::device::{Body, Class, Context, DeviceError, Head};
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

#[inline]
pub(super) fn head(kind: u8, words: [u64; 3]) -> Head {
    Head::new(Class::Tagged, kind, words)
}

/// Sends a packet of one word. What cannot be sent need not be: the peer is
/// gone.
#[inline]
pub(super) fn send_word<N: Netmod>(context: &Context<N>, peer: u32, kind: u8, word: u64) {
    // SAFETY: a copied body has no conditions.
    let _ = unsafe { context.transmit(peer, head(kind, [word, 0, 0]), Body::Copied(&[])) };
}

#[cold]
pub(super) fn send_fin<N: Netmod>(context: &Context<N>, peer: u32, id: u64) {
    send_word(context, peer, FIN, id);
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
    pub(super) start: u64,
}

impl Rts {
    pub(super) fn encode(self) -> [u8; 16] {
        let mut out = [0; 16];
        out[..8].copy_from_slice(&self.id.to_le_bytes());
        out[8..].copy_from_slice(&self.start.to_le_bytes());
        out
    }

    pub(super) fn decode(body: &[u8]) -> Option<Rts> {
        let (id, start) = body.split_first_chunk()?;
        let start = u64::from_le_bytes(start.try_into().ok()?);
        Some(Rts { id: u64::from_le_bytes(*id), start })
    }
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
        // SAFETY: a copied body has no conditions.
        unsafe { context.transmit(peer, head, Body::Copied(&self.size.to_le_bytes()))? };
        Ok(())
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
        let rts = Rts { id: 0x0102_0304_0506_0708, start: u64::MAX - 1 };
        let body = rts.encode();
        assert_eq!(Rts::decode(&body), Some(rts));
        assert_eq!((Rts::decode(&body[..15]), Rts::decode(&[])), (None, None));
        let head = head(CTS, [1, 2, 3]);
        let cts = Cts { id: 1, tag: 2, cleared: 3, size: 4096 };
        assert_eq!(Cts::decode(&head, &4096_u64.to_le_bytes()), Some(cts));
        assert_eq!(Cts::decode(&head, &[0; 7]), None);
    }
}
