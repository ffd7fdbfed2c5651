//! Pieces of a rendezvous: what its sender and its receiver know of them.
//!
//! The receiver says how long pieces are and under which tags they go, posts
//! receives for a few, and clears the sender to send those. Pure: nothing is
//! sent or received here.

use super::packets::Cts;
use super::tokens;

/// Pieces for which a receiver posts receives ahead.
pub(super) const AHEAD: u64 = 4;

/// A piece of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) number: u64,
    /// Where it begins in the body, bytes.
    pub(super) start: usize,
    pub(super) len: usize,
}

/// How a body is cut, and how far its pieces got.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pieces {
    /// Bytes of the body, and of a piece.
    length: u64,
    size: u64,
    /// Tag of the first.
    tag: u64,
    /// Handed to the provider; of those, ended.
    issued: u64,
    ended: u64,
}

impl Pieces {
    fn new(length: u64, size: u64, tag: u64) -> Pieces {
        Pieces { length, size: size.max(1), tag, issued: 0, ended: 0 }
    }

    /// How many there are.
    pub(super) fn count(&self) -> u64 {
        self.length.div_ceil(self.size)
    }

    /// The next one to issue, if it is below `limit`.
    fn next(&self, limit: u64) -> Option<Piece> {
        if self.issued >= limit {
            return None;
        }
        let start = self.issued * self.size;
        let len = self.size.min(self.length - start) as usize;
        Some(Piece { number: self.issued, start: start as usize, len })
    }

    /// The tag of the first.
    pub(super) fn first_tag(&self) -> u64 {
        self.tag
    }

    /// The first that was issued and has not ended, where they end in order.
    pub(super) fn next_to_end(&self) -> Option<Piece> {
        Pieces { issued: self.ended, ..*self }.next(self.issued)
    }

    /// The tag of a piece.
    pub(super) fn tag(&self, piece: Piece) -> u64 {
        tokens::piece_tag(self.tag, piece.number)
    }

    /// The next one was issued, and may have ended at once.
    pub(super) fn issued(&mut self, ended: bool) {
        self.issued += 1;
        self.ended += u64::from(ended);
    }

    /// One has ended.
    pub(super) fn ended(&mut self) {
        self.ended += 1;
    }

    /// Returns true if all have ended.
    pub(super) fn are_complete(&self) -> bool {
        self.ended >= self.count()
    }

    /// Returns true if no provider has any.
    pub(super) fn are_idle(&self) -> bool {
        self.ended >= self.issued
    }

    /// Numbers of those that a provider may have.
    pub(super) fn under_way(&self) -> std::ops::Range<u64> {
        self.issued.saturating_sub(AHEAD + 1)..self.issued
    }
}

/// The sender of a rendezvous, from the first CTS on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sender {
    pub(super) pieces: Pieces,
    /// Pieces that may be sent.
    cleared: u64,
}

impl Sender {
    /// Of a body of so many bytes.
    pub(super) fn new(length: u64, cts: &Cts) -> Sender {
        Sender { pieces: Pieces::new(length, cts.size, cts.tag), cleared: 0 }
    }

    /// More receives are posted.
    pub(super) fn clear(&mut self, cts: &Cts) {
        self.cleared = cts.cleared.min(self.pieces.count());
    }

    /// The next piece to send, if it is cleared.
    pub(super) fn next(&self) -> Option<Piece> {
        self.pieces.next(self.cleared)
    }
}

/// The receiver of a rendezvous.
#[derive(Clone, Copy, Debug)]
pub(super) struct Receiver {
    pub(super) pieces: Pieces,
    /// The sender's request.
    pub(super) id: u64,
    /// Pieces that the sender was told of.
    cleared: u64,
}

impl Receiver {
    /// For the request `id` of the sender's: a body of so many bytes in pieces
    /// of `size`, under tags from `tags`.
    pub(super) fn new(id: u64, length: u64, size: u64, tags: &mut tokens::Tags) -> Receiver {
        let mut pieces = Pieces::new(length, size, 0);
        pieces.tag = tags.take(pieces.count());
        Receiver { pieces, id, cleared: 0 }
    }

    /// The same in fragments, which `tag` says in place of a tag.
    pub(super) fn of_fragments(id: u64, length: u64, size: u64, tag: u64) -> Receiver {
        Receiver { pieces: Pieces::new(length, size, tag), id, cleared: 0 }
    }

    /// The next piece to post a receive for.
    pub(super) fn next(&self) -> Option<Piece> {
        let ahead = self.pieces.ended + AHEAD;
        self.pieces.next(self.pieces.count().min(ahead))
    }

    /// What the sender is to be told, if receives were posted since it was.
    pub(super) fn take_cts(&mut self) -> Option<Cts> {
        let Pieces { issued, size, tag, .. } = self.pieces;
        if issued == self.cleared {
            return None;
        }
        self.cleared = issued;
        Some(Cts { id: self.id, tag, cleared: issued, size })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_is_in_one_piece_and_none_is_sent_before_its_receive() {
        const LENGTH: u64 = 100;
        for size in [0, 1, 7, 25, 99, 100, 1000] {
            let mut tags = tokens::Tags::default();
            let mut receiver = Receiver::new(9, LENGTH, size, &mut tags);
            let mut sender: Option<Sender> = None;
            let mut at = 0;
            while !receiver.pieces.are_complete() {
                let before = receiver.pieces.issued;
                while let Some(piece) = receiver.next() {
                    assert_eq!(piece.number, receiver.pieces.issued);
                    receiver.pieces.issued(false);
                }
                let oldest = receiver.pieces.next_to_end().expect("one is under way");
                assert_eq!((oldest.number, oldest.start), (receiver.pieces.ended, at));
                assert!(receiver.pieces.issued - receiver.pieces.ended <= AHEAD);
                if let Some(cts) = receiver.take_cts() {
                    assert!(receiver.pieces.issued > before && cts.id == 9);
                    sender.get_or_insert_with(|| Sender::new(LENGTH, &cts)).clear(&cts);
                }
                let sender = sender.as_mut().expect("cleared once");
                let piece = sender.next().expect("cleared");
                assert_eq!((piece.start, piece.number), (at, sender.pieces.issued));
                assert!(piece.number < receiver.pieces.issued);
                assert_eq!(sender.pieces.tag(piece), receiver.pieces.tag(piece));
                at += piece.len;
                sender.pieces.issued(true);
                receiver.pieces.ended();
            }
            let sender = sender.expect("something was sent");
            assert!(sender.pieces.are_complete() && sender.next().is_none());
            assert!(receiver.next().is_none() && at as u64 == LENGTH);
        }
    }

    #[test]
    fn a_sender_is_not_cleared_past_its_end() {
        let cts = Cts { id: 0, tag: 5, cleared: u64::MAX, size: 8 };
        let mut sender = Sender::new(20, &cts);
        assert!(sender.next().is_none() && sender.pieces.are_idle());
        sender.clear(&cts);
        while sender.next().is_some() {
            sender.pieces.issued(false);
        }
        assert_eq!((sender.pieces.issued, sender.pieces.under_way()), (3, 0..3));
        assert!(!sender.pieces.are_idle());
    }
}
