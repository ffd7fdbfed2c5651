//! Values under numbers that are given in turn: what is sent carries the number, and the
//! answer finds the value.

/// A table of which at least half is free. A number's place is its remainder; a number
/// whose place is taken is passed over. Numbers come again after 2³², so that an answer
/// that nobody waits for any more finds nothing.
#[derive(Debug)]
pub(super) struct Numbered<T> {
    /// None, or a power of two of them.
    places: Vec<Option<(u32, T)>>,
    next: u32,
    len: usize,
}

/// More places than these are not kept for nothing.
const KEPT: usize = 1024;

impl<T> Default for Numbered<T> {
    fn default() -> Self {
        Numbered { places: Vec::new(), next: 0, len: 0 }
    }
}

impl<T> Numbered<T> {
    fn place(&self, number: u32) -> usize {
        number as usize & self.places.len().wrapping_sub(1)
    }

    /// Keeps a value; its number.
    pub(super) fn insert(&mut self, value: T) -> u32 {
        if self.len * 2 >= self.places.len() {
            self.grow();
        }
        loop {
            let number = self.next;
            self.next = number.wrapping_add(1);
            let at = self.place(number);
            if self.places[at].is_none() {
                self.places[at] = Some((number, value));
                self.len += 1;
                return number;
            }
        }
    }

    #[cold]
    fn grow(&mut self) {
        let places = (self.places.len() * 2).max(16);
        let old = std::mem::take(&mut self.places);
        self.places.resize_with(places, || None);
        // Numbers that had places of their own have so in twice as many.
        for (number, value) in old.into_iter().flatten() {
            let at = self.place(number);
            self.places[at] = Some((number, value));
        }
    }

    /// Removes and returns the value of a number, if it is kept and `is` says so.
    pub(super) fn remove_if(&mut self, number: u32, is: impl FnOnce(&T) -> bool) -> Option<T> {
        let at = self.place(number);
        let place = self.places.get_mut(at)?;
        let (_, value) = place.take_if(|(of, value)| *of == number && is(value))?;
        self.len -= 1;
        if self.len == 0 && self.places.len() > KEPT {
            self.places = Vec::new();
        }
        Some(value)
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &T> {
        self.places.iter().flatten().map(|(_, value)| value)
    }

    /// Removes and returns all values that are not to be kept.
    pub(super) fn remove_all(&mut self, mut keep: impl FnMut(&mut T) -> bool) -> Vec<T> {
        let gone = |place: &mut Option<(u32, T)>| place.take_if(|(_, value)| !keep(value));
        let gone: Vec<T> =
            self.places.iter_mut().filter_map(gone).map(|(_, value)| value).collect();
        self.len -= gone.len();
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// Values come, go by number, and go by kind, as with a map of all numbers ever.
        #[test]
        #[cfg_attr(miri, ignore = "slow")]
        fn it_is_a_map_whose_numbers_do_not_come_again(
            steps in proptest::collection::vec((0_u8..8, any::<u16>()), 1..2000),
            first in prop_oneof![Just(0), Just(u32::MAX - 40)],
        ) {
            let mut table = Numbered { next: first, ..Numbered::default() };
            let mut map = BTreeMap::new();
            let mut given = Vec::new();
            for (what, n) in steps {
                match what {
                    0..5 => {
                        let number = table.insert(n);
                        prop_assert!(!given.contains(&number));
                        given.push(number);
                        map.insert(number, n);
                    }
                    5 | 6 if !given.is_empty() => {
                        let number = given[n as usize % given.len()];
                        prop_assert_eq!(table.remove_if(number, |_| false), None);
                        prop_assert_eq!(table.remove_if(number, |_| true), map.remove(&number));
                    }
                    _ if n % 16 == 0 => {
                        let mut gone = table.remove_all(|value| *value % 4 != n / 16 % 4);
                        let mut left: Vec<u16> = map.values().copied().collect();
                        left.retain(|value| value % 4 == n / 16 % 4);
                        map.retain(|_, value| *value % 4 != n / 16 % 4);
                        gone.sort_unstable();
                        left.sort_unstable();
                        prop_assert_eq!(gone, left);
                    }
                    _ => prop_assert_eq!(table.remove_if(first.wrapping_sub(1), |_| true), None),
                }
                prop_assert_eq!(table.len, map.len());
                prop_assert!(table.len * 2 <= table.places.len());
            }
        }
    }

    #[test]
    fn places_for_many_are_given_back() {
        let mut table = Numbered::default();
        let numbers: Vec<u32> = (0..4096).map(|n| table.insert(n)).collect();
        assert!(numbers.iter().all(|&n| table.remove_if(n, |_| true).is_some()));
        assert!(table.places.is_empty());
        let number = table.insert(1);
        assert_eq!(table.remove_if(number, |_| true), Some(1));
    }
}
