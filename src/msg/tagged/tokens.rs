//! The numbers that name requests and their pieces, bit by bit.
//!
//! ```text
//! request id   0:12          generation:20  place:32   in packets
//! token        class:4  piece:8  generation:20  place:32   of a provider's operation
//! tag          class:4  number:60                      of a bulk message
//! fragments    1        0:11  generation:20  place:32  in place of a first tag
//! ```
//!
//! A token has the lowest eight bits of its piece's number: few pieces are under
//! way at a time.

use crate::device::Class;

/// Bits of a generation.
const GENERATIONS: u32 = (1 << 20) - 1;
/// Where a token has its piece.
const PIECE_SHIFT: u32 = 52;
const PIECES: u64 = 0xff;
/// The first tags of rendezvous: below the bits of classes, so that other
/// classes can have tags too.
const TAGS: u64 = (1 << 59) - 1;

/// The generation behind this one.
#[inline]
pub(super) fn next_generation(generation: u32) -> u32 {
    (generation + 1) & GENERATIONS
}

/// What names a request in packets and tokens.
#[inline]
pub(super) fn request_id(generation: u32, place: u32) -> u64 {
    u64::from(generation) << 32 | u64::from(place)
}

/// The place of a request id.
#[inline]
pub(super) fn place(id: u64) -> u32 {
    id as u32
}

/// The generation of a request id.
#[inline]
pub(super) fn generation(id: u64) -> u32 {
    (id >> 32) as u32 & GENERATIONS
}

/// The token of an operation that moves a piece of a request.
#[inline]
pub(super) fn token(id: u64, piece: u64) -> u64 {
    Class::Tagged.token(id | (piece & PIECES) << PIECE_SHIFT)
}

/// The request id of a token, and the lowest bits of its piece.
#[inline]
pub(super) fn of_token(token: u64) -> (u64, u64) {
    let number = Class::number(token);
    (number & ((1 << PIECE_SHIFT) - 1), number >> PIECE_SHIFT)
}

/// Returns true if a token's piece may be this one.
pub(super) fn is_piece(number: u64, of_token: u64) -> bool {
    number & PIECES == of_token & PIECES
}

/// The tag of a piece of a rendezvous whose first tag is `first`.
pub(super) fn piece_tag(first: u64, piece: u64) -> u64 {
    Class::Tagged.token(first + piece)
}

/// In a CTS in place of a first tag: the receive of this id copies fragments.
const FRAGMENTS: u64 = 1 << 63;

/// What stands for the first tag where the receive `id` copies fragments.
pub(super) fn fragments(id: u64) -> u64 {
    FRAGMENTS | id
}

/// The receive that copies fragments, if that is what stands for a first tag.
pub(super) fn of_fragments(tag: u64) -> Option<u64> {
    (tag & FRAGMENTS != 0).then_some(tag & !FRAGMENTS)
}

/// Tags not used yet by rendezvous that this process receives.
#[derive(Debug, Default)]
pub(super) struct Tags {
    next: u64,
}

impl Tags {
    /// The first of so many tags.
    pub(super) fn take(&mut self, pieces: u64) -> u64 {
        let first = self.next;
        self.next = (first + pieces) & TAGS;
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_token_holds_its_request_and_piece(at: u32, generation in 0..=GENERATIONS, piece: u64) {
            let id = request_id(generation, at);
            prop_assert_eq!((place(id), super::generation(id)), (at, generation));
            let token = token(id, piece);
            prop_assert_eq!(Class::of_token(token), Class::Tagged);
            let (same, low) = of_token(token);
            prop_assert_eq!(same, id);
            prop_assert!(is_piece(piece, low));
            prop_assert!(next_generation(generation) <= GENERATIONS);
            prop_assert_eq!(of_fragments(fragments(id)), Some(id));
            prop_assert_eq!(of_fragments(TAGS), None);
        }
    }

    #[test]
    fn tags_stay_below_their_limit() {
        let mut tags = Tags { next: TAGS - 1 };
        assert_eq!((tags.take(3), tags.take(1), tags.next), (TAGS - 1, 1, 2));
    }
}
