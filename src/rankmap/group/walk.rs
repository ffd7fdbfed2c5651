//! Walking the segments of one group past those of another.
//!
//! The members of the other are an [`Index`]: its progressions from the lowest
//! to the highest. Each segment of the walked group meets those that lie in its
//! range, in its own order, and leaves stretches of itself. The cost is a search
//! for each segment and a step for each pair that overlaps; past a budget of
//! pairs the walk gives up, and a bitmap is cheaper.

use core::ops::Range;

use super::bits::{self, Bits};
use super::progression::{Hits, Progression};

/// Which members of the walked group are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keep {
    /// Those the other has.
    Common,
    /// Those it has not.
    Others,
}

/// `count` progressions of one step and length, `pitch` from one to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Comb {
    pub(super) tooth: Progression,
    pub(super) pitch: i64,
    pub(super) count: u32,
}

impl Comb {
    pub(super) fn one(tooth: Progression) -> Comb {
        Comb { tooth, pitch: 0, count: 1 }
    }
}

/// Disjoint progressions in rising order.
#[derive(Debug)]
pub(super) struct Index {
    items: Vec<Progression>,
    /// The highest member of each item and all before it; empty if items do
    /// not interleave, and their own highest members rise.
    reach: Vec<i64>,
}

impl Index {
    /// Progressions of all different members, in any order.
    pub(super) fn new(mut items: Vec<Progression>) -> Index {
        items.iter_mut().for_each(|item| *item = item.rising());
        if !items.is_sorted_by_key(|item| item.first) {
            items.sort_unstable_by_key(|item| item.first);
        }
        let mut reach = Vec::new();
        if items.windows(2).any(|pair| pair[0].high() > pair[1].first) {
            let mut most = i64::MIN;
            reach.extend(items.iter().map(|item| {
                most = most.max(item.high());
                most
            }));
        }
        Index { items, reach }
    }

    /// Whether progressions have no member in common; `None` where that takes
    /// more than `budget` pairs to tell.
    pub(super) fn distinct(
        items: impl Iterator<Item = Progression>,
        budget: usize,
    ) -> Option<bool> {
        let items: Vec<Progression> = items.take(budget + 1).collect();
        let mut left = (budget + 1).checked_sub(items.len() + 1)?;
        let index = Index::new(items);
        for (at, one) in index.items.iter().enumerate() {
            let high = one.high();
            for other in index.items[at + 1..].iter().take_while(|other| other.first <= high) {
                left = left.checked_sub(1)?;
                if one.meet(*other).is_some() {
                    return Some(false);
                }
            }
        }
        Some(true)
    }

    /// The items that may have members in `low..=high`.
    fn around(&self, low: i64, high: i64) -> Range<usize> {
        let from = if self.reach.is_empty() {
            self.items.partition_point(|item| item.high() < low)
        } else {
            self.reach.partition_point(|&reach| reach < low)
        };
        // Most segments meet few items: look near before searching all.
        let ahead = &self.items[from..];
        let near = ahead.iter().take(4).take_while(|item| item.first <= high).count();
        let to = if near < 4 { near } else { ahead.partition_point(|item| item.first <= high) };
        from..from + to
    }
}

/// A walk of one group past another.
#[derive(Debug)]
pub(super) struct Walk<'a> {
    index: &'a Index,
    keep: Keep,
    /// Pairs it may still look at.
    budget: usize,
    hits: Vec<Hits>,
}

/// Why a walk ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// The budget is used up.
    Budget,
    /// The receiver of the members wants no more.
    Receiver,
}

impl<'a> Walk<'a> {
    pub(super) fn new(index: &'a Index, keep: Keep, budget: usize) -> Walk<'a> {
        Walk { index, keep, budget, hits: Vec::new() }
    }

    /// Gives the kept members of the next segment to `out`, in order, until it
    /// says `false`.
    pub(super) fn step(
        &mut self,
        segment: Progression,
        out: &mut impl FnMut(Comb) -> bool,
    ) -> Result<(), Stop> {
        let (low, high) = (segment.low(), segment.high());
        let around = self.index.around(low, high);
        self.budget = self.budget.checked_sub(around.len() + 1).ok_or(Stop::Budget)?;
        self.hits.clear();
        let items = &self.index.items[around];
        let meets = |item: &Progression| segment.meet(*item);
        if segment.step > 0 {
            self.hits.extend(items.iter().filter_map(meets));
        } else {
            self.hits.extend(items.iter().rev().filter_map(meets));
        }
        let apart = |pair: &[Hits]| pair[0].end() <= pair[1].start;
        if !self.hits.windows(2).all(apart) {
            self.hits.sort_unstable_by_key(|hits| hits.start);
            if !self.hits.windows(2).all(apart) {
                return self.interleaved(segment, out);
            }
        }
        let more = match self.keep {
            Keep::Common => self.hits.iter().all(|&hits| out(Comb::one(subsegment(segment, hits)))),
            Keep::Others => others(segment, &self.hits, out),
        };
        if more { Ok(()) } else { Err(Stop::Receiver) }
    }

    /// Items whose members in this segment take turns: a bit for each member.
    #[cold]
    fn interleaved(
        &self,
        segment: Progression,
        out: &mut impl FnMut(Comb) -> bool,
    ) -> Result<(), Stop> {
        let mut marks = Bits::of_span(0, i64::from(segment.len) - 1);
        for hits in &self.hits {
            let (first, step) = (i64::from(hits.start), i64::from(hits.every));
            marks.set(Progression { first, step, len: hits.len });
        }
        let all = 0..segment.len as usize;
        let more = bits::runs(&marks.words, all, self.keep == Keep::Others, &mut |start, len| {
            let hits = Hits { start: start as u32, every: 1, len: len as u32 };
            out(Comb::one(subsegment(segment, hits)))
        });
        if more { Ok(()) } else { Err(Stop::Receiver) }
    }
}

/// The members of a segment that were hit.
fn subsegment(segment: Progression, hits: Hits) -> Progression {
    let step = if hits.len == 1 { 1 } else { segment.step * i64::from(hits.every) };
    Progression { first: segment.at(hits.start), step, len: hits.len }
}

/// The members of a segment that were not hit; hits are in order and apart.
fn others(segment: Progression, hits: &[Hits], out: &mut impl FnMut(Comb) -> bool) -> bool {
    let stretch = |start, every, len| subsegment(segment, Hits { start, every, len });
    let mut next = 0;
    for hit in hits {
        if hit.start > next && !out(Comb::one(stretch(next, 1, hit.start - next))) {
            return false;
        }
        let more = match hit.every {
            1 => true,
            // What one of two leaves is one of two.
            2 => out(Comb::one(stretch(hit.start + 1, 2, hit.len - 1))),
            every => out(Comb {
                tooth: stretch(hit.start + 1, 1, every - 1),
                pitch: segment.step * i64::from(every),
                count: hit.len - 1,
            }),
        };
        if !more {
            return false;
        }
        next = hit.end();
    }
    next == segment.len || out(Comb::one(stretch(next, 1, segment.len - next)))
}
