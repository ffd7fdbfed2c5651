//! Groups as bitmaps: one bit for each lpid between the lowest and the highest
//! member of each process group.

use core::ops::Range;

use super::progression::{Progression, position, process};
use crate::rankmap::Process;

/// The stretch of positions of one process group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) low: i64,
    pub(super) high: i64,
    /// Bit of `low`, a multiple of 64.
    base: usize,
}

/// Stretches in rising order, each with a place for every position in it.
#[derive(Debug)]
pub(super) struct Windows(pub(super) Vec<Window>);

impl Windows {
    pub(super) fn new(spans: &Spans) -> Windows {
        let mut base = 0;
        let mut windows: Vec<Window> = spans
            .spans
            .iter()
            .map(|&(low, high)| {
                let window = Window { low, high, base };
                base += 64 * words(low, high);
                window
            })
            .collect();
        windows.sort_unstable_by_key(|window| window.low);
        Windows(windows)
    }

    /// The place of a position.
    #[inline]
    pub(super) fn place(&self, position: i64) -> Option<usize> {
        let at = match self.0.len() {
            1 => 0,
            _ => self.0.partition_point(|window| window.high < position),
        };
        let window = self.0.get(at).filter(|window| window.contains(position))?;
        Some(window.base + (position - window.low) as usize)
    }
}

impl Window {
    fn contains(&self, position: i64) -> bool {
        (self.low..=self.high).contains(&position)
    }
}

/// A set of positions.
#[derive(Debug)]
pub(super) struct Bits {
    pub(super) windows: Windows,
    pub(super) words: Vec<u64>,
}

/// The lowest and highest positions in each process group.
#[derive(Debug, Default)]
pub(super) struct Spans {
    spans: Vec<(i64, i64)>,
    /// The span met last.
    at: usize,
}

impl Spans {
    pub(super) fn add(&mut self, low: i64, high: i64) {
        let same = |span: &(i64, i64)| process(span.0).pg == process(low).pg;
        if !self.spans.get(self.at).is_some_and(same) {
            self.at = self.spans.iter().position(same).unwrap_or(self.spans.len());
        }
        match self.spans.get_mut(self.at) {
            Some(span) => *span = (span.0.min(low), span.1.max(high)),
            None => self.spans.push((low, high)),
        }
    }

    /// The lowest lpid, of a single process group.
    pub(super) fn low(&self) -> u32 {
        self.spans.first().map_or(0, |span| process(span.0).lpid)
    }

    /// Words of a bitmap of them.
    pub(super) fn words(&self) -> usize {
        self.spans.iter().map(|&(low, high)| words(low, high)).sum()
    }
}

fn words(low: i64, high: i64) -> usize {
    ((high - low) / 64) as usize + 1
}

impl Bits {
    pub(super) fn of_span(low: i64, high: i64) -> Bits {
        Bits::new(&Spans { spans: vec![(low, high)], at: 0 })
    }

    pub(super) fn new(spans: &Spans) -> Bits {
        Bits { windows: Windows::new(spans), words: vec![0; spans.words()] }
    }

    pub(super) fn has(&self, process: Process) -> bool {
        let place = self.windows.place(position(process));
        place.is_some_and(|bit| self.words[bit / 64] >> (bit % 64) & 1 == 1)
    }

    /// The 64 bits from a position on, of a bitmap of one window.
    #[inline]
    pub(super) fn word(&self, position: i64) -> u64 {
        let low = self.windows.0.first().map_or(0, |window| window.low);
        let bit = position - low;
        let word = |at: i64| {
            let at = usize::try_from(at).ok();
            at.and_then(|at| self.words.get(at)).copied().unwrap_or(0)
        };
        let (at, shift) = (bit.div_euclid(64), bit.rem_euclid(64));
        if shift == 0 { word(at) } else { word(at) >> shift | word(at + 1) << (64 - shift) }
    }

    /// All members of a progression, which lies in one window.
    pub(super) fn set(&mut self, members: Progression) {
        let members = members.rising();
        let Some(bit) = self.windows.place(members.first) else { return };
        let (step, len) = (members.step as usize, members.len as usize);
        let end = bit + step * (len - 1) + 1;
        if step == 1 {
            set_range(&mut self.words, bit..end);
        } else if step < 64 && len > 64 / step {
            set_comb(&mut self.words, bit..end, step);
        } else {
            (bit..end).step_by(step).for_each(|bit| self.words[bit / 64] |= 1 << (bit % 64));
        }
    }

    /// All these lpids, for a bitmap of one window that has them. Neighbours in
    /// a list tend to share a word, which then stays in a register.
    pub(super) fn set_all(&mut self, lpids: impl IntoIterator<Item = u32>) {
        let Some(window) = self.windows.0.first() else { return };
        let low = process(window.low).lpid;
        let (mut at, mut word) = (0, 0);
        for lpid in lpids {
            let bit = (lpid - low) as usize;
            if bit / 64 != at {
                self.words[at] |= word;
                (at, word) = (bit / 64, 0);
            }
            word |= 1 << (bit % 64);
        }
        self.words[at] |= word;
    }

    /// The stretches of a progression of step 1 whose bits are set (or are not,
    /// if `others`; what lies outside of the bitmap is not set), rising, until
    /// `out` says `false`.
    pub(super) fn stretches(
        &self,
        low: i64,
        high: i64,
        others: bool,
        out: &mut impl FnMut(i64, u32) -> bool,
    ) -> bool {
        let pg = process(low).pg;
        let window = self.windows.0.iter().find(|window| process(window.low).pg == pg);
        let window = window.filter(|window| window.low <= high && low <= window.high);
        let Some(window) = window else {
            return !others || out(low, (high - low + 1) as u32);
        };
        if others && low < window.low && !out(low, (window.low - low) as u32) {
            return false;
        }
        let bit = |position: i64| window.base + (position - window.low) as usize;
        let inside = bit(low.max(window.low))..bit(high.min(window.high)) + 1;
        let more = runs(&self.words, inside, others, &mut |start, len| {
            out(window.low + (start - window.base) as i64, len as u32)
        });
        more && (!others
            || high <= window.high
            || out(window.high + 1, (high - window.high) as u32))
    }
}

fn set_range(words: &mut [u64], bits: Range<usize>) {
    let (first, last) = (bits.start / 64, (bits.end - 1) / 64);
    let head = !0 << (bits.start % 64);
    let tail = !0 >> (63 - (bits.end - 1) % 64);
    if first == last {
        words[first] |= head & tail;
        return;
    }
    words[first] |= head;
    words[first + 1..last].fill(!0);
    words[last] |= tail;
}

/// Every `step`-th bit, word by word; `step` is below 64.
fn set_comb(words: &mut [u64], bits: Range<usize>, step: usize) {
    let comb = (0..64).step_by(step).fold(0u64, |comb, bit| comb | 1 << bit);
    let (first, last) = (bits.start / 64, (bits.end - 1) / 64);
    // Of the first word, as if the comb began before it.
    let mut offset = bits.start % 64 % step;
    for (at, word) in words[first..=last].iter_mut().enumerate() {
        let mut mask = comb << offset;
        if at == 0 {
            mask &= !0 << (bits.start % 64);
        }
        if at == last - first {
            mask &= !0 >> (63 - (bits.end - 1) % 64);
        }
        *word |= mask;
        offset = (offset + step - 64 % step) % step;
    }
}

/// The runs of ones (or zeros, if `others`) among `bits`, rising, as start and
/// length, until `out` says `false`.
pub(super) fn runs(
    words: &[u64],
    bits: Range<usize>,
    others: bool,
    out: &mut impl FnMut(usize, usize) -> bool,
) -> bool {
    if bits.is_empty() {
        return true;
    }
    let flip = if others { !0 } else { 0 };
    let last = (bits.end - 1) / 64;
    let mut at = bits.start / 64;
    let mut word = (words[at] ^ flip) & (!0 << (bits.start % 64));
    // Where the open run began.
    let mut open = None;
    loop {
        if at == last {
            word &= !0 >> (63 - (bits.end - 1) % 64);
        }
        if open.is_some() && word != !0 {
            let ones = word.trailing_ones() as usize;
            if let Some(start) = open.take()
                && !out(start, at * 64 + ones - start)
            {
                return false;
            }
            word &= !0 << ones;
        }
        while word != 0 && open.is_none() {
            let zeros = word.trailing_zeros();
            let ones = (word >> zeros).trailing_ones();
            let start = at * 64 + zeros as usize;
            if zeros + ones == 64 {
                open = Some(start);
            } else {
                if !out(start, ones as usize) {
                    return false;
                }
                word &= !0 << (zeros + ones);
            }
        }
        if at == last {
            break;
        }
        at += 1;
        word = words[at] ^ flip;
    }
    open.is_none_or(|start| out(start, bits.end - start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_and_combs_are_those_of_a_list() {
        let mut state = 3u64;
        let mut below = |n: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as usize % n
        };
        for _ in 0..if cfg!(miri) { 100 } else { 20_000 } {
            let n = below(300) + 1;
            let mut bits = Bits::of_span(1000, 1000 + n as i64 - 1);
            let mut list = vec![false; n];
            for _ in 0..below(6) {
                let (start, step) = (below(n), below(70) + 1);
                let len = below((n - 1 - start) / step + 1) + 1;
                bits.set(Progression {
                    first: 1000 + start as i64,
                    step: step as i64,
                    len: len as u32,
                });
                (0..len).for_each(|k| list[start + k * step] = true);
            }
            let found: Vec<bool> =
                (0..n).map(|k| bits.has(Process { pg: 0, lpid: 1000 + k as u32 })).collect();
            assert_eq!(found, list);
            let (a, b) = (below(n), below(n));
            let (low, high) = (a.min(b), a.max(b));
            for others in [false, true] {
                let mut kept = vec![false; n];
                let mut next = 0;
                bits.stretches(1000 + low as i64, 1000 + high as i64, others, &mut |at, len| {
                    let at = at as usize - 1000;
                    assert!(at >= next, "runs rise and are apart");
                    next = at + len as usize + 1;
                    kept[at..at + len as usize].fill(true);
                    true
                });
                let want: Vec<bool> =
                    (0..n).map(|k| (low..=high).contains(&k) && list[k] != others).collect();
                assert_eq!(kept, want);
            }
        }
    }
}
