//! Mixed-radix permutations and boxes of up to 16 digits: transposes of
//! Cartesian topologies, sub-boxes of them, dimensions in any order and
//! direction. [`RankMap`](crate::rankmap::RankMap) has formulas of up to four
//! digits and any phase; these begin where all digits are 0.
//!
//! With `M_0 = 1 | M_1 | M_2 …` the lpid grows by `S_j` to rank `r`, `j` the
//! highest level whose `M_j` divides `r`; so it is `first + Σ c_k·⌊r / M_k⌋`
//! with `c_k = S_k − S_{k−1}`. All floors are independent multiplications.

use super::image::{Reader, Refused, Writer};

/// Most digits: a topology of two levels in each of eight dimensions.
pub(super) const DIGITS_MAX: usize = 16;

/// A level above the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Level {
    /// `⌈2^64 / M_k⌉`: its high product with a rank is the floor.
    reciprocal: u64,
    /// `M_k`, a multiple of the one before.
    unit: u32,
    /// `S_k − S_{k−1}`, modulo 2^32.
    growth: u32,
}

/// A list of lpids that are a mixed-radix number's digits in another order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MixedRadix {
    len: u32,
    first: u32,
    /// `S_0`.
    step: u32,
    levels: Box<[Level]>,
}

/// Finds the digits of a stream of lpids: each difference that was not foreseen
/// opens a level, or there is none.
#[derive(Clone, Debug)]
pub(super) struct Odometer {
    len: u32,
    first: u32,
    last: u32,
    /// The level that has not turned yet.
    top: usize,
    /// `M_k` and `S_k`.
    units: [u32; DIGITS_MAX],
    steps: [u32; DIGITS_MAX],
    /// Turns of each level below the top left before the next one turns.
    left: [u32; DIGITS_MAX],
}

impl Odometer {
    pub(super) fn new() -> Odometer {
        let (units, zeros) = ([1; DIGITS_MAX], [0; DIGITS_MAX]);
        Odometer { len: 0, first: 0, last: 0, top: 0, units, steps: zeros, left: zeros }
    }

    /// `false` if the lpids so far have no such form.
    #[inline]
    pub(super) fn push(&mut self, lpid: u32) -> bool {
        let step = lpid.wrapping_sub(self.last);
        if self.len == 0 {
            self.first = lpid;
        } else if self.len == 1 {
            self.steps[0] = step;
        } else {
            let mut level = 0;
            while level < self.top {
                self.left[level] -= 1;
                if self.left[level] > 0 {
                    break;
                }
                self.left[level] = self.units[level + 1] / self.units[level];
                level += 1;
            }
            if step != self.steps[level] && !self.open(level, step) {
                return false;
            }
        }
        self.last = lpid;
        self.len += 1;
        true
    }

    #[cold]
    #[inline(never)]
    fn open(&mut self, level: usize, step: u32) -> bool {
        // Only where the top level would turn.
        if level < self.top || level + 1 == DIGITS_MAX {
            return false;
        }
        self.units[level + 1] = self.len;
        self.steps[level + 1] = step;
        self.left[level] = self.len / self.units[level];
        self.top += 1;
        true
    }

    /// The form of everything pushed, if it was foreseen and is not empty.
    pub(super) fn finish(&self) -> Option<MixedRadix> {
        let levels = (1..=self.top).map(|k| (self.units[k], self.steps[k]));
        (self.len > 0).then(|| MixedRadix::new(self.len, self.first, self.steps[0], levels))
    }
}

/// What a digit adds to the lpid, and how many values it has.
#[derive(Clone, Copy, Debug)]
struct Digit {
    stride: i128,
    unit: u32,
    extent: i128,
}

impl MixedRadix {
    /// Bytes on the heap of so many levels above the first.
    pub(super) fn cost(levels: usize) -> u64 {
        (levels * size_of::<Level>()) as u64
    }

    fn new(
        len: u32,
        first: u32,
        step: u32,
        levels: impl Iterator<Item = (u32, u32)>,
    ) -> MixedRadix {
        let mut below = step;
        let level = |(unit, step): (u32, u32)| {
            let growth = step.wrapping_sub(core::mem::replace(&mut below, step));
            Level { reciprocal: u64::MAX / u64::from(unit) + 1, unit, growth }
        };
        MixedRadix { len, first, step, levels: levels.map(level).collect() }
    }

    pub(super) fn len(&self) -> u32 {
        self.len
    }

    /// Levels above the first.
    pub(super) fn levels(&self) -> usize {
        self.levels.len()
    }

    #[inline]
    pub(super) fn select(&self, rank: u32) -> u32 {
        let below = self.first.wrapping_add(self.step.wrapping_mul(rank));
        self.levels.iter().fold(below, |sum, level| {
            // Exact for ranks and units below 2^32.
            let turns = (u128::from(rank) * u128::from(level.reciprocal)) >> 64;
            sum.wrapping_add(level.growth.wrapping_mul(turns as u32))
        })
    }

    pub(super) fn fill(&self, rank: u32, out: &mut [u32]) {
        let row = self.levels.first().map_or(u32::MAX, |level| level.unit);
        let (mut rank, mut out) = (rank, out);
        while !out.is_empty() {
            let take = ((row - rank % row) as usize).min(out.len());
            let (head, rest) = out.split_at_mut(take);
            let mut lpid = self.select(rank);
            for slot in head {
                *slot = lpid;
                lpid = lpid.wrapping_add(self.step);
            }
            rank += take as u32;
            out = rest;
        }
    }

    /// The lowest digit first.
    fn digits(&self) -> Vec<Digit> {
        let mut step = self.step;
        let mut digits = Vec::with_capacity(self.levels.len() + 1);
        // What all digits so far add when they are at their last value.
        let mut reach = 0i128;
        let units = core::iter::once(1).chain(self.levels.iter().map(|level| level.unit));
        let growths = core::iter::once(0).chain(self.levels.iter().map(|level| level.growth));
        let ends = self.levels.iter().map(|level| level.unit);
        let whole = units.clone().last().unwrap_or(1);
        let ends = ends.map(Some).chain([None]);
        for ((unit, growth), end) in units.zip(growths).zip(ends) {
            step = step.wrapping_add(growth);
            let stride = i128::from(step as i32) + reach;
            let extent = end.map_or(self.len.div_ceil(whole), |end| end / unit).into();
            digits.push(Digit { stride, unit, extent });
            reach += stride * (extent - 1);
        }
        digits
    }

    /// Of a permutation or box whose digits nest, one division for each; `None`
    /// if they do not, so that lpids may repeat.
    pub(super) fn rank(&self, lpid: u32) -> Option<Option<u32>> {
        let mut digits = self.digits();
        digits.sort_by_key(|digit| digit.stride.unsigned_abs());
        let mut reach = 0i128;
        let mut low = i128::from(self.first);
        for digit in &digits {
            if digit.stride.abs() <= reach && digit.extent > 1 {
                return None;
            }
            let run = digit.stride * (digit.extent - 1);
            reach += run.abs();
            low += run.min(0);
        }
        let mut left = i128::from(lpid) - low;
        if left < 0 {
            return Some(None);
        }
        let mut rank = 0i128;
        for digit in digits.iter().rev().filter(|digit| digit.extent > 1) {
            let value = left / digit.stride.abs();
            if value >= digit.extent {
                return Some(None);
            }
            left -= value * digit.stride.abs();
            let value = if digit.stride < 0 { digit.extent - 1 - value } else { value };
            rank += value * i128::from(digit.unit);
        }
        let found = u32::try_from(rank).ok().filter(|&rank| left == 0 && rank < self.len);
        Some(found)
    }

    pub(super) fn heap_bytes(&self) -> usize {
        size_of_val(&*self.levels)
    }

    pub(super) fn write(&self, out: &mut Writer) {
        out.u32(self.len);
        out.u32(self.first);
        out.u32(self.step);
        out.u32(self.levels.len() as u32);
        for level in &self.levels {
            out.u32(level.unit);
            out.u32(level.growth);
        }
    }

    /// Checks that no lpid is out of range; that four digits do not do is the
    /// caller's to check.
    pub(super) fn read(from: &mut Reader<'_>) -> Result<MixedRadix, Refused> {
        let (len, first, step, count) = (from.u32()?, from.u32()?, from.u32()?, from.u32()?);
        if count as usize >= DIGITS_MAX {
            return Err(Refused::Content("more digits than there may be"));
        }
        let mut levels = Vec::with_capacity(count as usize);
        let (mut below, mut last) = (1u32, step);
        for k in 0..count {
            let (unit, growth) = (from.u32()?, from.u32()?);
            // As detection finds them: every level turned, and not as the last.
            if unit <= below || unit % below != 0 || unit >= len || growth == 0 {
                return Err(Refused::Content("digits that do not nest"));
            }
            if k == 0 && unit < 2 {
                return Err(Refused::Content("a digit without values"));
            }
            last = last.wrapping_add(growth);
            levels.push((unit, last));
            below = unit;
        }
        let map = MixedRadix::new(len, first, step, levels.into_iter());
        if len == 0 || !map.inside() {
            return Err(Refused::Content("digits that leave the lpids"));
        }
        Ok(map)
    }

    /// Returns true if all lpids are valid: the ranks are cut into boxes, one
    /// for each level, whose corners hold the extremes.
    fn inside(&self) -> bool {
        let digits = self.digits();
        let limit = i128::from(crate::rankmap::process::LPID_MAX);
        let (mut at, mut left) = (i128::from(self.first), self.len);
        for (k, digit) in digits.iter().enumerate().rev() {
            let turns = i128::from(left / digit.unit);
            if turns > 0 {
                let (mut low, mut high) = (at, at);
                let rows = digits[..k].iter().map(|d| d.stride * (d.extent - 1));
                for run in rows.chain([digit.stride * (turns - 1)]) {
                    low += run.min(0);
                    high += run.max(0);
                }
                if low < 0 || high > limit {
                    return false;
                }
            }
            at += digit.stride * turns;
            left %= digit.unit;
        }
        true
    }
}
