//! The receives posted last, or the messages that came last, in their order: one that
//! is matched soon costs no table.
//!
//! A short queue by order alone. What it has no space for, or was not found at its
//! front, its owner moves to a table ([`index`](super::index)).

/// Entries there is space for.
const CAPACITY: u32 = 128;
/// How many are looked at: behind them a table is quicker.
const NEAR: u32 = 8;
/// The number of an entry that was taken out.
const GONE: u32 = u32::MAX;

/// Which messages a receive takes, or which one a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pattern {
    pub(super) channel: u64,
    pub(super) bits: u64,
    /// The bits that have to agree; all, of a message.
    pub(super) mask: u64,
}

impl Pattern {
    /// That of a message.
    #[inline(always)]
    pub(super) fn exact(channel: u64, bits: u64) -> Pattern {
        Pattern { channel, bits, mask: u64::MAX }
    }

    #[inline(always)]
    fn fits(&self, other: &Pattern) -> bool {
        self.channel == other.channel && (self.bits ^ other.bits) & self.mask & other.mask == 0
    }
}

/// An entry of a queue.
#[derive(Clone, Copy)]
struct Entry {
    pattern: Pattern,
    /// The receive's request, or the message's number.
    number: u32,
}

/// What a search found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Where the oldest is that fits.
    At(u32),
    /// None fits.
    Nothing,
    /// There are more than were looked at.
    TooMany,
}

/// A queue of receives or of messages.
pub(super) struct Recent {
    entries: Box<[Entry; CAPACITY as usize]>,
    /// Running places of the first entry and the one behind the last.
    head: u32,
    tail: u32,
}

impl Recent {
    pub(super) fn new() -> Recent {
        let none = Entry { pattern: Pattern { channel: 0, bits: 0, mask: 0 }, number: GONE };
        Recent { entries: Box::new([none; CAPACITY as usize]), head: 0, tail: 0 }
    }

    #[inline(always)]
    fn at(&self, place: u32) -> &Entry {
        &self.entries[(place % CAPACITY) as usize]
    }

    #[inline(always)]
    fn at_mut(&mut self, place: u32) -> &mut Entry {
        &mut self.entries[(place % CAPACITY) as usize]
    }

    #[inline(always)]
    pub(super) fn is_full(&self) -> bool {
        self.tail.wrapping_sub(self.head) == CAPACITY
    }

    /// Appends an entry; there is space.
    #[inline(always)]
    pub(super) fn push(&mut self, pattern: Pattern, number: u32) {
        debug_assert!(!self.is_full(), "the first would be written over");
        let tail = self.tail;
        *self.at_mut(tail) = Entry { pattern, number };
        self.tail = tail.wrapping_add(1);
    }

    /// The number of the first, if it fits. (One that was taken out already does not;
    /// [`Recent::find`] goes on behind it.)
    #[inline(always)]
    pub(super) fn first(&self, pattern: &Pattern) -> Option<u32> {
        let first = self.at(self.head);
        let fits = self.head != self.tail && first.pattern.fits(pattern) && first.number != GONE;
        if fits { Some(first.number) } else { None }
    }

    /// Takes the first out, which there is.
    #[inline(always)]
    pub(super) fn pop_first(&mut self) {
        self.head = self.head.wrapping_add(1);
    }

    /// Goes on to the first that is there.
    fn close_up(&mut self) {
        while self.head != self.tail && self.at(self.head).number == GONE {
            self.head = self.head.wrapping_add(1);
        }
    }

    fn places(&self) -> impl Iterator<Item = u32> + use<> {
        let (head, len) = (self.head, self.tail.wrapping_sub(self.head));
        (0..len).map(move |i| head.wrapping_add(i))
    }

    /// The oldest that fits, if it is among the first.
    pub(super) fn find(&mut self, pattern: &Pattern) -> Found {
        self.close_up();
        for (looked, place) in (0..).zip(self.places()) {
            if looked == NEAR {
                return Found::TooMany;
            }
            let entry = self.at(place);
            if entry.number != GONE && entry.pattern.fits(pattern) {
                return Found::At(place);
            }
        }
        Found::Nothing
    }

    /// The channel of an entry, by its number.
    pub(super) fn channel_of(&self, number: u32) -> Option<u64> {
        let mut entries = self.places().map(|place| self.at(place));
        entries.find(|entry| entry.number == number).map(|entry| entry.pattern.channel)
    }

    /// The number of the entry at a place where one was found.
    pub(super) fn number(&self, place: u32) -> u32 {
        self.at(place).number
    }

    /// The same, taken out.
    pub(super) fn take(&mut self, place: u32) -> u32 {
        let number = std::mem::replace(&mut self.at_mut(place).number, GONE);
        self.close_up();
        number
    }

    /// Takes the entry of a number out. Returns false if it is not here.
    pub(super) fn remove(&mut self, number: u32) -> bool {
        let found = self.places().find(|&place| self.number(place) == number);
        found.map(|place| self.take(place)).is_some()
    }

    /// Takes the oldest out, with its number.
    pub(super) fn take_first(&mut self) -> Option<(Pattern, u32)> {
        self.close_up();
        if self.head == self.tail {
            return None;
        }
        let pattern = self.at(self.head).pattern;
        Some((pattern, self.take(self.head)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exact(bits: u64) -> Pattern {
        Pattern::exact(1, bits)
    }

    fn pop(recent: &mut Recent, bits: u64) -> Option<u32> {
        let first = recent.first(&exact(bits));
        if first.is_some() {
            recent.pop_first();
        }
        first
    }

    fn take(recent: &mut Recent, bits: u64) -> Result<u32, Found> {
        match recent.find(&exact(bits)) {
            Found::At(place) => Ok(recent.take(place)),
            other => Err(other),
        }
    }

    #[test]
    fn what_was_taken_out_is_passed_over() {
        let mut recent = Recent::new();
        // (Places that wrap.)
        (recent.head, recent.tail) = (u32::MAX - 2, u32::MAX - 2);
        (0..6).for_each(|n| recent.push(exact(u64::from(n)), n));
        assert!(recent.remove(1) && recent.remove(2) && !recent.remove(2));
        assert_eq!((pop(&mut recent, 3), pop(&mut recent, 0)), (None, Some(0)));
        assert_eq!((pop(&mut recent, 1), pop(&mut recent, 3)), (None, None), "the next is gone");
        assert_eq!(take(&mut recent, 99), Err(Found::Nothing));
        assert_eq!((recent.first(&Pattern::exact(2, 3)), pop(&mut recent, 3)), (None, Some(3)));
        assert_eq!(take(&mut recent, 5), Ok(5));
        assert_eq!(recent.take_first(), Some((exact(4), 4)));
        assert!(recent.take_first().is_none() && pop(&mut recent, 4).is_none());
    }

    #[test]
    fn wildcards_of_either_side_count() {
        let mut recent = Recent::new();
        recent.push(exact(0x15), 0);
        recent.push(Pattern { mask: 0xf0, ..exact(0x20) }, 1);
        assert_eq!(recent.first(&Pattern { mask: 0xf0, ..exact(0x10) }), Some(0));
        assert_eq!(recent.first(&Pattern { mask: 0x0f, ..exact(0x10) }), None);
        assert_eq!((recent.first(&exact(0x10)), take(&mut recent, 0x2f)), (None, Ok(1)));
    }

    #[test]
    fn no_more_are_looked_at_than_are_near() {
        let mut recent = Recent::new();
        (0..NEAR).for_each(|n| recent.push(exact(u64::from(n)), n));
        assert_eq!(take(&mut recent, 99), Err(Found::Nothing));
        recent.push(exact(99), NEAR);
        assert_eq!(take(&mut recent, 99), Err(Found::TooMany));
        assert_eq!(take(&mut recent, 7), Ok(7));
        (NEAR + 1..CAPACITY).for_each(|n| recent.push(exact(0), n));
        assert!(recent.is_full());
    }
}
