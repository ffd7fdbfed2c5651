//! A bit vector that finds its n-th one: the upper half of Elias-Fano.
//!
//! The place of every 64th one is kept, and words are scanned from there. Where
//! 64 ones lie farther apart than [`SPAN`] bits, all their places are written
//! out instead (Okanohara and Sadakane 2007), so the scan is bounded; those add
//! at most half a bit for each bit passed. 0.5 bits a one otherwise.

use super::cpu::{Bits, by_cpu};

/// Ones from sample to sample.
const EACH: u32 = 64;
/// Bits that may be scanned from a sample on.
const SPAN: u32 = 4096;
/// In a sample: an index into `spill`, not a place.
const SPILLED: u32 = 1 << 31;

/// Bits, at most 2^31 − 1 of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ones {
    words: Box<[u64]>,
    ones: u32,
    samples: Box<[u32]>,
    spill: Box<[u32]>,
}

impl Ones {
    /// Heap bytes for so many ones among so many bits, without spilled samples.
    pub(super) fn cost(ones: u64, bits: u64) -> u64 {
        bits.div_ceil(64) * 8 + ones.div_ceil(u64::from(EACH)) * 4
    }

    /// Samples of these words; below 2^31 bits.
    pub(super) fn new(words: Vec<u64>) -> Ones {
        let mut samples = Vec::new();
        let mut spill = Vec::new();
        let mut group = [0u32; EACH as usize];
        let mut ones = 0u32;
        let mut close = |group: &[u32]| {
            if let (Some(first), Some(last)) = (group.first(), group.last()) {
                if last - first >= SPAN {
                    samples.push(SPILLED | spill.len() as u32);
                    spill.extend_from_slice(group);
                } else {
                    samples.push(*first);
                }
            }
        };
        for (at, &word) in words.iter().enumerate() {
            let mut left = word;
            while left != 0 {
                group[(ones % EACH) as usize] = at as u32 * 64 + left.trailing_zeros();
                left &= left - 1;
                ones += 1;
                if ones.is_multiple_of(EACH) {
                    close(&group);
                }
            }
        }
        close(&group[..(ones % EACH) as usize]);
        Ones {
            words: words.into_boxed_slice(),
            ones,
            samples: samples.into_boxed_slice(),
            spill: spill.into_boxed_slice(),
        }
    }

    pub(super) fn words(&self) -> &[u64] {
        &self.words
    }

    pub(super) fn heap_bytes(&self) -> usize {
        size_of_val(&*self.words) + size_of_val(&*self.samples) + size_of_val(&*self.spill)
    }

    by_cpu!(select, select_bmi2, select_by, (index: u32) -> u32);

    /// Place of the one number `index`, which there is.
    #[inline(always)]
    pub(super) fn select_by<B: Bits>(&self, index: u32) -> u32 {
        let sample = self.samples[(index / EACH) as usize];
        let mut left = index % EACH;
        if sample & SPILLED != 0 {
            return self.spill[((sample & !SPILLED) + left) as usize];
        }
        let mut at = sample as usize / 64;
        let mut word = self.words[at] & (!0 << (sample % 64));
        loop {
            let ones = B::ones(word);
            if left < ones {
                return at as u32 * 64 + B::nth(word, left);
            }
            left -= ones;
            at += 1;
            word = self.words[at];
        }
    }

    /// Place of a sample.
    #[inline(always)]
    fn sample(&self, index: usize) -> u32 {
        let sample = self.samples[index];
        if sample & SPILLED == 0 { sample } else { self.spill[(sample & !SPILLED) as usize] }
    }

    by_cpu!(zero, zero_bmi2, zero_by, (index: u32) -> u32);

    /// Place of the zero number `index`; the place after the last one if there
    /// is no such zero before it.
    ///
    /// Samples are searched (the zeros before the one number `i` are its place
    /// less `i`), then the words of one sample are scanned.
    #[inline(always)]
    fn zero_by<B: Bits>(&self, index: u32) -> u32 {
        let (mut low, mut high) = (0, self.samples.len());
        while low < high {
            let middle = low.midpoint(high);
            if self.sample(middle) - middle as u32 * EACH <= index {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        if low == 0 {
            // All ones come after that zero.
            return index;
        }
        let first = self.samples[low - 1];
        let before = (low as u32 - 1) * EACH;
        if first & SPILLED != 0 {
            let from = (first & !SPILLED) as usize;
            let ones = (self.ones - before).min(EACH);
            let group = &self.spill[from..from + ones as usize];
            // Ones of the group that come before the zero.
            let (mut low, mut high) = (0, group.len());
            while low < high {
                let middle = low.midpoint(high);
                if group[middle] - (before + middle as u32) <= index {
                    low = middle + 1;
                } else {
                    high = middle;
                }
            }
            return index + before + low as u32;
        }
        let mut left = index - (first - before);
        let mut at = first as usize / 64;
        let mut word = !self.words[at] & (!0 << (first % 64));
        loop {
            let zeros = B::ones(word);
            if left < zeros {
                return at as u32 * 64 + B::nth(word, left);
            }
            left -= zeros;
            at += 1;
            match self.words.get(at) {
                Some(next) => word = !next,
                None => return at as u32 * 64 + left,
            }
        }
    }

    /// Ones in a row that end just before `place`.
    #[inline]
    pub(super) fn row_before(&self, place: u32) -> u32 {
        let mut row = 0;
        let mut end = place;
        while end > 0 {
            let at = (end - 1) as usize / 64;
            let inside = end - at as u32 * 64;
            let Some(&word) = self.words.get(at) else { return row };
            let ones = (word << (64 - inside)).leading_ones().min(inside);
            row += ones;
            end -= ones;
            if ones < inside {
                break;
            }
        }
        row
    }

    /// Places of ones from number `index` on, into the whole of `out`.
    #[inline]
    pub(super) fn fill(&self, index: u32, out: &mut [u32]) {
        if out.is_empty() {
            return;
        }
        let first = self.select(index);
        let mut at = first as usize / 64;
        let mut word = self.words[at] & (!0 << (first % 64));
        for place in out {
            while word == 0 {
                at += 1;
                word = self.words[at];
            }
            *place = at as u32 * 64 + word.trailing_zeros();
            word &= word - 1;
        }
    }
}
