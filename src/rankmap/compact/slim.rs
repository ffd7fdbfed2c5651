//! A bitmap with as few counts as will do: for dense sets whose bytes count more
//! than their lookups.
//!
//! A count for each 2,048 bits, of 16 bits above one of 32 for each 65,536, is
//! 0.8 % of the bitmap. SELECT searches the counts, of which the last 32 are one
//! cache line, and walks at most 32 words, which are four; RANK counts the ones
//! of as many.

use super::bitmap::copy_ones;
use super::counts::{Counts, span_of};
use super::cpu::{Bits, by_cpu};
use super::image::{Reader, Refused, Writer};

/// Bits of one count, as a power of two.
const COUNTED: u32 = 11;
/// Words of one count.
const WORDS: usize = 1 << (COUNTED - 6);
/// Words counted before a branch.
const CHUNK: usize = 8;

/// A set of lpids, not empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Slim {
    /// lpid of bit 0, a member.
    first: u32,
    len: u32,
    /// The last one has a member.
    words: Box<[u64]>,
    counts: Counts<COUNTED>,
}

impl Slim {
    /// Bytes on the heap.
    pub(super) fn cost(first: u32, last: u32) -> u64 {
        let span = u64::from(last - first) + 1;
        span.div_ceil(64) * 8 + Counts::<COUNTED>::cost(span)
    }

    /// `members` rise strictly from `first` to `last`. Working memory: the result.
    pub(super) fn build(first: u32, last: u32, members: impl Iterator<Item = u32>) -> Slim {
        let mut words = vec![0u64; (last - first) as usize / 64 + 1];
        for member in members {
            let bit = member - first;
            words[bit as usize / 64] |= 1 << (bit % 64);
        }
        Slim::new(first, words.into_boxed_slice())
    }

    fn new(first: u32, words: Box<[u64]>) -> Slim {
        let (counts, len) = Counts::new(words.iter().copied());
        Slim { first, len, words, counts }
    }

    /// The lpid of bit 0, and the bits.
    pub(super) fn words(&self) -> (u32, &[u64]) {
        (self.first, &self.words)
    }

    pub(super) fn len(&self) -> u32 {
        self.len
    }

    by_cpu!(select, select_bmi2, select_by, (rank: u32) -> u32);

    #[inline(always)]
    pub(super) fn select_by<B: Bits>(&self, rank: u32) -> u32 {
        let (block, mut left) = self.counts.find(rank);
        let mut at = block * WORDS;
        for chunk in self.words[at..].as_chunks::<CHUNK>().0 {
            let ones: u32 = chunk.iter().map(|&word| B::ones(word)).sum();
            if left < ones {
                // Moves on a condition, not branches.
                let (mut word, mut before, mut sum) = (0, 0, 0);
                for &one in &chunk[..CHUNK - 1] {
                    sum += B::ones(one);
                    let past = left >= sum;
                    word += usize::from(past);
                    before = if past { sum } else { before };
                }
                let place = B::nth(chunk[word], left - before);
                return self.first + (at + word) as u32 * 64 + place;
            }
            left -= ones;
            at += CHUNK;
        }
        // The words after the last chunk.
        loop {
            let word = self.words[at];
            let ones = B::ones(word);
            if left < ones {
                return self.first + at as u32 * 64 + B::nth(word, left);
            }
            left -= ones;
            at += 1;
        }
    }

    by_cpu!(rank, rank_bmi2, rank_by, (lpid: u32) -> Option<u32>);

    #[inline(always)]
    fn rank_by<B: Bits>(&self, lpid: u32) -> Option<u32> {
        let bit = lpid.checked_sub(self.first)?;
        let at = bit as usize / 64;
        let word = *self.words.get(at)?;
        if word >> (bit % 64) & 1 == 0 {
            return None;
        }
        let before: u32 = self.words[at / WORDS * WORDS..at].iter().map(|&w| B::ones(w)).sum();
        Some(self.counts.before(bit) + before + B::ones(word & ((1 << (bit % 64)) - 1)))
    }

    pub(super) fn fill(&self, rank: u32, out: &mut [u32]) {
        if !out.is_empty() {
            copy_ones(self.words(), self.select(rank), out);
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        size_of_val(&*self.words) + self.counts.heap_bytes()
    }

    /// Only the bits: counts are found again.
    pub(super) fn write(&self, out: &mut Writer) {
        out.u32(self.first);
        out.words(&self.words);
    }

    pub(super) fn read(from: &mut Reader<'_>) -> Result<Slim, Refused> {
        let first = from.u32()?;
        let words = from.words()?;
        span_of(first, words.first().copied().zip(words.last().copied()), words.len())?;
        Ok(Slim::new(first, words.into_boxed_slice()))
    }
}
