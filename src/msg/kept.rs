//! Messages that came before their receive: a receive takes the first that fits.
//!
//! Those that came last stand in a short queue, where a receive finds what it takes at
//! the front if messages are received as they came. The others are older, and in two
//! tables: a receive without wildcards finds its message at once; one with a wildcard
//! goes through its channel's messages in the order they came.

use super::index::{Index, Key};
use super::recent::{Found, Pattern, Recent};

/// Messages nobody has asked for yet.
pub(super) struct Kept<U> {
    messages: Slab<Message<U>>,
    /// How many there are.
    count: usize,
    recent: Recent,
    /// Those that came before the recent ones.
    tables: Tables,
}

/// Older messages, by number.
struct Tables {
    count: usize,
    exact: Index,
    /// All of a channel.
    ordered: Index,
}

impl Tables {
    fn push(&mut self, channel: u64, bits: u64, number: u32) {
        self.exact.push(&Key::new(channel, bits, 0), number);
        self.ordered.push(&whole(channel), number);
        self.count += 1;
    }

    fn remove(&mut self, number: u32) {
        self.exact.remove(number);
        self.ordered.remove(number);
        self.count -= 1;
    }
}

struct Message<U> {
    bits: u64,
    what: U,
}

/// Values under small numbers that are used again.
struct Slab<T> {
    places: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    fn new() -> Slab<T> {
        Slab { places: Vec::new(), free: Vec::new() }
    }

    #[inline]
    fn insert(&mut self, value: T) -> u32 {
        if let Some(at) = self.free.pop() {
            self.places[at as usize] = Some(value);
            return at;
        }
        self.places.push(Some(value));
        self.places.len() as u32 - 1
    }

    #[inline]
    fn get(&self, at: u32) -> Option<&T> {
        self.places.get(at as usize)?.as_ref()
    }

    #[inline]
    fn remove(&mut self, at: u32) -> Option<T> {
        let value = self.places.get_mut(at as usize)?.take()?;
        self.free.push(at);
        Some(value)
    }
}

/// The key under which all messages of a channel are in order.
fn whole(channel: u64) -> Key {
    Key::new(channel, 0, u64::MAX)
}

/// Where a message is.
enum Place {
    Recent(u32),
    Tabled(u32),
}

impl<U> Kept<U> {
    pub(super) fn new() -> Kept<U> {
        Kept {
            messages: Slab::new(),
            count: 0,
            recent: Recent::new(),
            tables: Tables { count: 0, exact: Index::new(), ordered: Index::new() },
        }
    }

    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Keeps a message that came last. `marks` are bits that no receive looks at, always
    /// the same.
    #[inline]
    pub(super) fn push(&mut self, channel: u64, bits: u64, marks: u64, what: U) {
        if self.recent.is_full() {
            self.file(marks);
        }
        let number = self.messages.insert(Message { bits, what });
        self.count += 1;
        self.recent.push(Pattern::exact(channel, bits), number);
    }

    /// Moves the recent ones to the tables.
    #[cold]
    #[inline(never)]
    fn file(&mut self, marks: u64) {
        while let Some((Pattern { channel, bits, .. }, number)) = self.recent.take_first() {
            self.tables.push(channel, bits & !marks, number);
        }
    }

    /// The first that fits.
    #[inline]
    fn find(&mut self, pattern: &Pattern, marks: u64) -> Option<Place> {
        if let Some(number) = self.find_tabled(pattern, marks) {
            return Some(Place::Tabled(number));
        }
        match self.recent.find(pattern) {
            Found::At(place) => Some(Place::Recent(place)),
            Found::Nothing => None,
            Found::TooMany => {
                self.file(marks);
                self.find_tabled(pattern, marks).map(Place::Tabled)
            }
        }
    }

    fn find_tabled(&self, pattern: &Pattern, marks: u64) -> Option<u32> {
        let Pattern { channel, bits, mask } = *pattern;
        let Tables { count, exact, ordered } = &self.tables;
        if *count == 0 {
            return None;
        }
        if mask | marks == u64::MAX {
            return exact.front(&Key::new(channel, bits & !marks, 0));
        }
        let mut number = ordered.front(&whole(channel))?;
        while (self.messages.get(number)?.bits ^ bits) & mask != 0 {
            number = ordered.behind(number)?;
        }
        Some(number)
    }

    fn remove(&mut self, number: u32) -> Option<(u64, U)> {
        let message = self.messages.remove(number)?;
        self.count -= 1;
        Some((message.bits, message.what))
    }

    /// The first that fits, and its bits.
    pub(super) fn peek(&mut self, pattern: &Pattern, marks: u64) -> Option<(u64, &U)> {
        let number = match self.find(pattern, marks)? {
            Place::Recent(place) => self.recent.number(place),
            Place::Tabled(number) => number,
        };
        self.at(number)
    }

    /// The first of all, if it fits and is among the recent: its number, which
    /// [`Kept::at`] and [`Kept::take_first`] take.
    #[inline]
    pub(super) fn first(&self, pattern: &Pattern) -> Option<u32> {
        if self.tables.count == 0 { self.recent.first(pattern) } else { None }
    }

    /// The message of a number.
    #[inline]
    pub(super) fn at(&self, number: u32) -> Option<(u64, &U)> {
        let message = self.messages.get(number)?;
        Some((message.bits, &message.what))
    }

    /// Takes the first out that [`Kept::first`] found.
    #[inline]
    pub(super) fn take_first(&mut self, number: u32) -> Option<(u64, U)> {
        self.recent.pop_first();
        self.remove(number)
    }

    /// The first that fits and its bits, taken out.
    pub(super) fn take(&mut self, pattern: &Pattern, marks: u64) -> Option<(u64, U)> {
        let number = match self.find(pattern, marks)? {
            Place::Recent(place) => self.recent.take(place),
            Place::Tabled(number) => {
                self.tables.remove(number);
                number
            }
        };
        self.remove(number)
    }

    /// Takes out all that `is` says they are.
    #[cold]
    pub(super) fn take_all(&mut self, marks: u64, is: impl Fn(&U) -> bool) -> Vec<U> {
        self.file(marks);
        let numbers = 0..self.messages.places.len() as u32;
        let found = |&number: &u32| self.messages.get(number).is_some_and(|it| is(&it.what));
        let numbers: Vec<u32> = numbers.filter(found).collect();
        numbers.iter().for_each(|&number| self.tables.remove(number));
        numbers.iter().filter_map(|&number| self.remove(number)).map(|(_, what)| what).collect()
    }

    /// Drops the message of these bits that `is` says it is. Returns false if there is none.
    pub(super) fn discard(
        &mut self,
        channel: u64,
        bits: u64,
        marks: u64,
        is: impl Fn(&U) -> bool,
    ) -> bool {
        self.file(marks);
        let mut next = self.tables.exact.front(&Key::new(channel, bits & !marks, 0));
        while let Some(number) = next {
            if self.messages.get(number).is_some_and(|message| is(&message.what)) {
                self.tables.remove(number);
                return self.remove(number).is_some();
            }
            next = self.tables.exact.behind(number);
        }
        false
    }
}
