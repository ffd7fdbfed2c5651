//! Walking a compact map in rank order, some ranks at a time.

use core::iter::FusedIterator;

use super::map::Compact;

impl Compact {
    /// The lpids in rank order.
    pub fn iter(&self) -> Iter<'_> {
        Iter::new(self)
    }
}

impl<'a> IntoIterator for &'a Compact {
    type Item = u32;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

/// Ranks decoded at once.
const AHEAD: usize = 128;

/// The lpids of a map in rank order; see [`Compact::iter`].
#[derive(Clone, Debug)]
pub struct Iter<'a> {
    map: &'a Compact,
    /// Rank of the first lpid not decoded yet.
    rank: u32,
    buffer: [u32; AHEAD],
    /// Decoded lpids not given out yet.
    from: usize,
    to: usize,
}

impl<'a> Iter<'a> {
    fn new(map: &'a Compact) -> Iter<'a> {
        Iter { map, rank: 0, buffer: [0; AHEAD], from: 0, to: 0 }
    }

    /// Begins again at rank 0.
    pub fn rewind(&mut self) {
        (self.rank, self.from, self.to) = (0, 0, 0);
    }

    fn left(&self) -> usize {
        (self.map.len() - self.rank) as usize + self.to - self.from
    }

    #[inline(never)]
    fn refill(&mut self) -> bool {
        let count = ((self.map.len() - self.rank) as usize).min(AHEAD);
        self.map.fill(self.rank, &mut self.buffer[..count]);
        self.rank += count as u32;
        (self.from, self.to) = (0, count);
        count > 0
    }
}

impl Iterator for Iter<'_> {
    type Item = u32;

    #[inline]
    fn next(&mut self) -> Option<u32> {
        if self.from == self.to && !self.refill() {
            return None;
        }
        let lpid = self.buffer[self.from];
        self.from += 1;
        Some(lpid)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left(), Some(self.left()))
    }
}

impl ExactSizeIterator for Iter<'_> {}
impl FusedIterator for Iter<'_> {}
