//! Memory that stands in for a caller's buffer: a borrowed one, which no provider
//! gets to see, or one that is not contiguous. Used again, so that a long message
//! goes through a few fragments that stay in the cache.

use crate::device::Bounce;

/// Bytes that are kept for later: four of the longest fragments.
const KEPT: usize = 16 << 20;

/// Staging memory of a context that nobody uses now.
#[derive(Default)]
pub(super) struct Staging {
    free: Vec<Bounce>,
    kept: usize,
}

impl Staging {
    /// Memory for at least `len` bytes.
    pub(super) fn take(&mut self, len: usize) -> Bounce {
        // The last one given back is the one that is in the cache.
        let Some(at) = self.free.iter().rposition(|bounce| bounce.len() >= len) else {
            return Bounce::new(len);
        };
        let bounce = self.free.swap_remove(at);
        self.kept -= bounce.len();
        bounce
    }

    /// Takes memory back whose operation has completed.
    pub(super) fn give(&mut self, bounce: Bounce) {
        if self.kept + bounce.len() > KEPT {
            return bounce.release();
        }
        self.kept += bounce.len();
        self.free.push(bounce);
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        self.free.drain(..).for_each(Bounce::release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::msg::error::MsgError;
    use crate::msg::tagged::pieces::Piece;
    use crate::msg::tagged::slots::{Phase, Slots};

    #[test]
    fn what_is_given_back_serves_again_within_bounds() {
        let mut staging = Staging::default();
        let mut first = staging.take(1000);
        let start = first.start();
        staging.give(first);
        let longer = staging.take(2000);
        assert_eq!(longer.len(), 2000);
        longer.release();
        let mut again = staging.take(900);
        assert_eq!((again.start(), again.len(), staging.kept), (start, 1000, 0));
        staging.give(again);
        let all: Vec<Bounce> = (0..5).map(|_| staging.take(KEPT / 2)).collect();
        all.into_iter().for_each(|bounce| staging.give(bounce));
        assert_eq!((staging.free.len(), staging.kept), (2, 1000 + KEPT / 2));
    }

    /// A request that failed leaves what stands in for its buffer to the library, and the next
    /// one of its place receives nothing of it.
    #[test]
    fn a_place_used_again_has_no_memory_of_the_one_before() {
        let (mut slots, staging) = (Slots::default(), &mut Staging::default());
        let (mut old, mut new) = ([7_u8; 16], [0_u8; 16]);
        let (at, slot) = slots.take();
        (slot.phase, slot.cookie, slot.borrowed) = (Phase::Transfer, 1, true);
        slot.buf = old.as_mut_ptr();
        // SAFETY: 16 bytes of an array that outlives the request.
        unsafe { slot.buffer_of(staging, Piece { number: 0, start: 0, len: 16 }, true) };
        slots.end(at, Some(MsgError::died(1)));
        let (again, slot) = slots.take();
        slot.buf = new.as_mut_ptr();
        // SAFETY: as above.
        unsafe { slot.take_back(staging, 0, true) };
        assert_eq!((again, new), (at, [0; 16]));
    }
}
