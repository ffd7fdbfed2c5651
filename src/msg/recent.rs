//! The receives posted last, in their order: one that is matched soon costs no
//! table.
//!
//! A short queue by order alone. What it has no space for, or was not found at its
//! front, its owner moves to a table ([`index`](super::index)).

/// Entries there is space for.
const CAPACITY: u32 = 128;
/// How many are looked at for a message: behind them a table is quicker.
const NEAR: u32 = 8;
/// The request of an entry that was taken out.
const GONE: u32 = u32::MAX;

/// A posted receive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Posted {
    pub(super) channel: u64,
    pub(super) bits: u64,
    /// The bits that have to agree.
    pub(super) mask: u64,
    pub(super) request: u32,
}

impl Posted {
    #[inline(always)]
    fn fits(&self, channel: u64, bits: u64) -> bool {
        self.channel == channel && (self.bits ^ bits) & self.mask == 0
    }
}

/// What a search found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// The oldest that fits, taken out.
    Request(u32),
    /// None fits.
    Nothing,
    /// There are more than were looked at.
    TooMany,
}

/// A queue of posted receives.
pub(super) struct Recent {
    entries: Box<[Posted; CAPACITY as usize]>,
    /// Running numbers of the first entry and the one behind the last.
    head: u32,
    tail: u32,
}

impl Recent {
    pub(super) fn new() -> Recent {
        let none = Posted { channel: 0, bits: 0, mask: 0, request: GONE };
        Recent { entries: Box::new([none; CAPACITY as usize]), head: 0, tail: 0 }
    }

    #[inline(always)]
    fn at(&self, number: u32) -> &Posted {
        &self.entries[(number % CAPACITY) as usize]
    }

    #[inline(always)]
    fn place(&mut self, number: u32) -> &mut Posted {
        &mut self.entries[(number % CAPACITY) as usize]
    }

    #[inline(always)]
    pub(super) fn is_full(&self) -> bool {
        self.tail.wrapping_sub(self.head) == CAPACITY
    }

    /// Appends a receive; there is space.
    #[inline(always)]
    pub(super) fn push(&mut self, posted: Posted) {
        debug_assert!(!self.is_full(), "the first would be written over");
        let tail = self.tail;
        *self.place(tail) = posted;
        self.tail = tail.wrapping_add(1);
    }

    /// The request of the first, if it fits. (One that was taken out already does not;
    /// [`Recent::search`] goes on behind it.)
    #[inline(always)]
    pub(super) fn first(&self, channel: u64, bits: u64) -> Option<u32> {
        let first = self.at(self.head);
        let fits = self.head != self.tail && first.fits(channel, bits) && first.request != GONE;
        if fits { Some(first.request) } else { None }
    }

    /// Takes the first out, which there is.
    #[inline(always)]
    pub(super) fn pop_first(&mut self) {
        self.head = self.head.wrapping_add(1);
    }

    /// Goes on to the first that is there.
    fn close_up(&mut self) {
        while self.head != self.tail && self.at(self.head).request == GONE {
            self.head = self.head.wrapping_add(1);
        }
    }

    fn numbers(&self) -> impl Iterator<Item = u32> + use<> {
        let (head, len) = (self.head, self.tail.wrapping_sub(self.head));
        (0..len).map(move |i| head.wrapping_add(i))
    }

    fn take_out(&mut self, number: u32) {
        self.place(number).request = GONE;
        self.close_up();
    }

    /// Takes the oldest out that fits, if it is among the first.
    pub(super) fn search(&mut self, channel: u64, bits: u64) -> Found {
        self.close_up();
        for (looked, number) in (0..).zip(self.numbers()) {
            if looked == NEAR {
                return Found::TooMany;
            }
            let posted = *self.at(number);
            if posted.request != GONE && posted.fits(channel, bits) {
                self.take_out(number);
                return Found::Request(posted.request);
            }
        }
        Found::Nothing
    }

    /// Takes a request's receive out. Returns false if it is not here.
    pub(super) fn remove(&mut self, request: u32) -> bool {
        let found = self.numbers().find(|&number| self.at(number).request == request);
        found.map(|number| self.take_out(number)).is_some()
    }

    /// Takes the oldest out.
    pub(super) fn take_first(&mut self) -> Option<Posted> {
        self.close_up();
        if self.head == self.tail {
            return None;
        }
        let first = *self.at(self.head);
        self.take_out(self.head);
        Some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pop(recent: &mut Recent, bits: u64) -> Option<u32> {
        let first = recent.first(1, bits);
        if first.is_some() {
            recent.pop_first();
        }
        first
    }

    fn posted(bits: u64, request: u32) -> Posted {
        Posted { channel: 1, bits, mask: u64::MAX, request }
    }

    #[test]
    fn what_was_taken_out_is_passed_over() {
        let mut recent = Recent::new();
        // (Numbers that wrap.)
        (recent.head, recent.tail) = (u32::MAX - 2, u32::MAX - 2);
        (0..6).for_each(|n| recent.push(posted(u64::from(n), n)));
        assert!(recent.remove(1) && recent.remove(2) && !recent.remove(2));
        assert_eq!((pop(&mut recent, 3), pop(&mut recent, 0)), (None, Some(0)));
        assert_eq!((pop(&mut recent, 1), pop(&mut recent, 3)), (None, None), "the next is gone");
        assert_eq!(recent.search(1, 99), Found::Nothing);
        assert_eq!((recent.first(2, 3), pop(&mut recent, 3)), (None, Some(3)));
        assert_eq!(recent.search(1, 5), Found::Request(5));
        assert_eq!(recent.take_first().map(|first| first.request), Some(4));
        assert!(recent.take_first().is_none() && pop(&mut recent, 4).is_none());
    }

    #[test]
    fn no_more_are_looked_at_than_are_near() {
        let mut recent = Recent::new();
        (0..NEAR).for_each(|n| recent.push(posted(u64::from(n), n)));
        assert_eq!(recent.search(1, 99), Found::Nothing);
        recent.push(posted(99, NEAR));
        assert_eq!(recent.search(1, 99), Found::TooMany);
        assert_eq!(recent.search(1, 7), Found::Request(7));
        (NEAR + 1..CAPACITY).for_each(|n| recent.push(posted(0, n)));
        assert!(recent.is_full());
    }
}
