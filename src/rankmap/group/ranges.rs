//! Ranges of ranks: what they name, and whether they may.

use super::GroupError;
use super::bits::Bits;
use super::progression::Progression;

/// The ranks `first, first + stride, …` up to `last`, which itself need not be
/// one of them; one row of the triplets of `MPI_Group_range_incl`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankRange {
    /// The first rank.
    pub first: i32,
    /// No rank lies past this one.
    pub last: i32,
    /// From one rank to the next, not 0; negative to count down.
    pub stride: i32,
}

impl RankRange {
    /// The ranks from `first` to `last` in steps of `stride`.
    pub const fn new(first: i32, last: i32, stride: i32) -> RankRange {
        RankRange { first, last, stride }
    }

    /// Its ranks, all of which a group of `size` must have.
    fn ranks(self, index: usize, size: u32) -> Result<Progression, GroupError> {
        let RankRange { first, last, stride } = self;
        if stride == 0 {
            return Err(GroupError::Stride { index });
        }
        if (stride > 0 && first > last) || (stride < 0 && first < last) {
            return Err(GroupError::Direction { index, first, last, stride });
        }
        let (start, step) = (i64::from(first), i64::from(stride));
        let steps = (i64::from(last) - start) / step;
        let inside = |rank: i64| (0..i64::from(size)).contains(&rank);
        if !inside(start) {
            return Err(GroupError::RangeRank { index, rank: start, size });
        }
        if !inside(start + step * steps) {
            // The first rank outside, one step past the last inside.
            let space = if step > 0 { i64::from(size) - 1 - start } else { start };
            let rank = start + step * (space / step.abs() + 1);
            return Err(GroupError::RangeRank { index, rank, size });
        }
        let step = if steps == 0 { 1 } else { step };
        Ok(Progression { first: start, step, len: steps as u32 + 1 })
    }
}

/// The ranks of all ranges, which a group of `size` has and which differ.
pub(super) fn check(ranges: &[RankRange], size: u32) -> Result<Vec<Progression>, GroupError> {
    let mut all = Vec::with_capacity(ranges.len());
    let mut wrong = None;
    for (index, range) in ranges.iter().enumerate() {
        match range.ranks(index, size) {
            Ok(ranks) => all.push(ranks),
            Err(error) => {
                wrong = Some(error);
                break;
            }
        }
    }
    // The first wrong range is named, so a duplicate before it comes first.
    if let Some(index) = first_meeting(&all, size) {
        return Err(duplicate(&all, index));
    }
    wrong.map_or(Ok(all), Err)
}

/// The first of the progressions that has a member of one before it.
fn first_meeting(all: &[Progression], size: u32) -> Option<usize> {
    let mut order: Vec<(Progression, usize)> =
        (0..).zip(all).map(|(index, ranks)| (ranks.rising(), index)).collect();
    order.sort_unstable_by_key(|(ranks, _)| ranks.first);
    // Past so many pairs a bit for each rank is cheaper.
    let mut budget = (size / 64) as usize + 64;
    let mut first = None;
    for (at, &(one, i)) in order.iter().enumerate() {
        let high = one.high();
        for &(other, j) in order[at + 1..].iter().take_while(|(other, _)| other.first <= high) {
            let Some(left) = budget.checked_sub(1) else { return first_marked(all, size) };
            budget = left;
            let later = i.max(j);
            if first.is_none_or(|first| later < first) && one.meet(other).is_some() {
                first = Some(later);
            }
        }
    }
    first
}

/// The same by marking ranks.
fn first_marked(all: &[Progression], size: u32) -> Option<usize> {
    let mut marks = Bits::of_span(0, i64::from(size) - 1);
    let mut ones = 0;
    all.iter().position(|&ranks| {
        // Counts only the words that the range has.
        let words = ranks.low() as usize / 64..ranks.high() as usize / 64 + 1;
        let count = |marks: &Bits| -> u32 {
            marks.words[words.clone()].iter().map(|word| word.count_ones()).sum()
        };
        ones = count(&marks);
        marks.set(ranks);
        count(&marks) != ones + ranks.len
    })
}

/// Names the duplicate in range `index`, before which no two ranges meet.
#[cold]
fn duplicate(all: &[Progression], index: usize) -> GroupError {
    let ranks = all[index];
    let meeting = |(before, other): (usize, &Progression)| {
        ranks.meet(*other).map(|hits| (hits.start, before))
    };
    let first = all[..index].iter().enumerate().filter_map(meeting).min();
    let (place, before) = first.unwrap_or((0, index));
    GroupError::RangeDuplicate { index, rank: ranks.at(place) as u32, before }
}
