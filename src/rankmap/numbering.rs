//! Processes of several process groups as numbers, so that every form of a map of one
//! group holds a map of several.
//!
//! Each group takes as many numbers as lie between its lowest and its highest member, and
//! the groups follow one another as their first members do in the map: two worlds that
//! are merged are the numbers 0, 1, 2 and so on.

use std::collections::HashMap;

use super::affine::Piece;
use super::process::{LPID_MAX, Process};

/// The members of one process group between the lowest and the highest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stretch {
    /// The number of `lowest`.
    base: u32,
    lowest: Process,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Numbering {
    /// By number, not empty.
    stretches: Box<[Stretch]>,
    /// Places in `stretches` by process group.
    order: Box<[u32]>,
    /// One more than the highest number.
    end: u32,
}

impl Numbering {
    /// The numbering of a map of these affine runs; `None` where there are no more
    /// numbers, and of no runs at all.
    pub(super) fn new(runs: impl Iterator<Item = Piece>) -> Option<Numbering> {
        // The lowest lpid and the highest.
        let mut spans: Vec<(Process, u32)> = Vec::new();
        let mut places = HashMap::new();
        let mut at = 0;
        for Piece { first, step, len } in runs {
            let last = first.lpid.wrapping_add((step as u32).wrapping_mul(len - 1));
            let (low, high) = (first.lpid.min(last), first.lpid.max(last));
            if spans.get(at).is_none_or(|(lowest, _)| lowest.pg != first.pg) {
                at = *places.entry(first.pg).or_insert(spans.len());
            }
            match spans.get_mut(at) {
                Some((lowest, highest)) => {
                    lowest.lpid = low.min(lowest.lpid);
                    *highest = high.max(*highest);
                }
                None => spans.push((Process { pg: first.pg, lpid: low }, high)),
            }
        }
        let mut end = 0_u32;
        let mut stretches = Vec::with_capacity(spans.len());
        for (lowest, highest) in spans {
            stretches.push(Stretch { base: end, lowest });
            end = end.checked_add(highest - lowest.lpid + 1).filter(|&end| end <= LPID_MAX)?;
        }
        let mut order: Box<[u32]> = (0..stretches.len() as u32).collect();
        order.sort_unstable_by_key(|&at| stretches[at as usize].lowest.pg);
        (end > 0).then(|| Numbering { stretches: stretches.into_boxed_slice(), order, end })
    }

    /// Process groups.
    pub(super) fn groups(&self) -> usize {
        self.stretches.len()
    }

    /// The stretch of a number, and one more than its highest number.
    #[inline]
    fn find(&self, number: u32) -> (Stretch, u32) {
        let behind = self.stretches.partition_point(|stretch| stretch.base <= number);
        let end = self.stretches.get(behind).map_or(self.end, |next| next.base);
        (self.stretches[behind - 1], end)
    }

    /// The process of a number that there is.
    #[inline]
    pub(super) fn process(&self, number: u32) -> Process {
        let (Stretch { base, lowest }, _) = self.find(number);
        Process { pg: lowest.pg, lpid: lowest.lpid + (number - base) }
    }

    /// The number of a process, which may be of no member; `None` outside of all stretches.
    pub(super) fn number(&self, process: Process) -> Option<u32> {
        let pg = |at: u32| self.stretches[at as usize].lowest.pg;
        let at = self.order.binary_search_by_key(&process.pg, |&at| pg(at)).ok()?;
        let at = self.order[at] as usize;
        let Stretch { base, lowest } = self.stretches[at];
        let end = self.stretches.get(at + 1).map_or(self.end, |next| next.base);
        let ahead = process.lpid.checked_sub(lowest.lpid)?;
        (ahead < end - base).then(|| base + ahead)
    }

    /// An affine run of numbers as far as it stays in one process group.
    pub(super) fn cut(&self, number: u32, step: i32, len: u32) -> Piece {
        let (Stretch { base, lowest }, end) = self.find(number);
        let steps = match step {
            0 => len - 1,
            up if up > 0 => (end - 1 - number) / up as u32,
            down => (number - base) / down.unsigned_abs(),
        };
        let first = Process { pg: lowest.pg, lpid: lowest.lpid + (number - base) };
        Piece { first, step, len: len.min(steps.saturating_add(1)) }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        size_of_val(&*self.stretches) + size_of_val(&*self.order)
    }
}
