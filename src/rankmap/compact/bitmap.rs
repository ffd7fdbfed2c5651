//! A bitmap with counts: one bit for each lpid from the first member to the last.
//!
//! A count of the ones before each 256 bits (12.5 %) gives RANK by at most four
//! popcounts; a hint for each 512th member (1/16 bit) leads SELECT to its counts.
//! SELECT compares four counts and four words without a branch, and searches
//! only where members lie unevenly.

use super::cpu::{Bits, by_cpu};
use super::image::{Reader, Refused, Writer};

const WORDS: usize = 4;
const BLOCK: u32 = 64 * WORDS as u32;
/// Members from hint to hint.
const EACH: u32 = 512;
/// Counts compared at once.
const NEAR: usize = 4;

/// The members from `member` on, into `out`: as many as there are places, which
/// are no more than members.
pub(super) fn copy_ones((first, words): (u32, &[u64]), member: u32, out: &mut [u32]) {
    let bit = member - first;
    let mut at = bit as usize / 64;
    let mut word = words[at] & (!0 << (bit % 64));
    for slot in out {
        while word == 0 {
            at += 1;
            word = words[at];
        }
        *slot = first + at as u32 * 64 + word.trailing_zeros();
        word &= word - 1;
    }
}

/// A set of lpids, not empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::rankmap) struct Bitmap {
    /// lpid of bit 0.
    first: u32,
    len: u32,
    blocks: Box<[[u64; WORDS]]>,
    /// Ones before each block, then as many full counts as are compared at once.
    counts: Box<[u32]>,
    /// Block of each [`EACH`]th one, then the last block.
    hints: Box<[u32]>,
}

impl Bitmap {
    /// Bytes on the heap.
    pub(super) fn cost(len: u64, first: u32, last: u32) -> u64 {
        let blocks = u64::from(last - first) / u64::from(BLOCK) + 1;
        blocks * (8 * WORDS as u64 + 4) + 4 * NEAR as u64 + 4 * (len.div_ceil(EACH.into()) + 1)
    }

    /// `members` lie between `first` and `last`, in any order. Working memory: the result.
    pub(in crate::rankmap) fn build(
        first: u32,
        last: u32,
        members: impl Iterator<Item = u32>,
    ) -> Bitmap {
        let mut blocks = vec![[0u64; WORDS]; ((last - first) / BLOCK) as usize + 1];
        for member in members {
            let bit = member - first;
            blocks[(bit / BLOCK) as usize][(bit / 64) as usize % WORDS] |= 1 << (bit % 64);
        }
        Bitmap::new(first, blocks)
    }

    fn new(first: u32, blocks: Vec<[u64; WORDS]>) -> Bitmap {
        let mut counts = Vec::with_capacity(blocks.len() + NEAR);
        let mut hints = Vec::new();
        let mut len = 0u32;
        for (at, block) in blocks.iter().enumerate() {
            counts.push(len);
            len += block.iter().map(|word| word.count_ones()).sum::<u32>();
            while (hints.len() as u64) * u64::from(EACH) < u64::from(len) {
                hints.push(at as u32);
            }
        }
        counts.extend([len; NEAR]);
        hints.push(blocks.len() as u32 - 1);
        Bitmap {
            first,
            len,
            blocks: blocks.into_boxed_slice(),
            counts: counts.into_boxed_slice(),
            hints: hints.into_boxed_slice(),
        }
    }

    /// The lpid of bit 0, and the bits.
    pub(in crate::rankmap) fn words(&self) -> (u32, &[u64]) {
        (self.first, self.blocks.as_flattened())
    }

    pub(in crate::rankmap) fn len(&self) -> u32 {
        self.len
    }

    by_cpu!(select, select_bmi2, select_by, (rank: u32) -> u32);

    #[inline(always)]
    pub(super) fn select_by<B: Bits>(&self, rank: u32) -> u32 {
        let hint = (rank / EACH) as usize;
        let mut at = self.hints[hint] as usize;
        let end = self.hints[hint + 1] as usize;
        if end - at <= NEAR {
            let near: &[u32] = &self.counts[at + 1..at + 1 + NEAR];
            // A count of all members is above every rank.
            at += near.iter().map(|&count| usize::from(count <= rank)).sum::<usize>();
        } else {
            at = self.search(at, end, rank);
        }
        let block = &self.blocks[at];
        let left = rank - self.counts[at];
        let one = B::ones(block[0]);
        let two = one + B::ones(block[1]);
        let three = two + B::ones(block[2]);
        let word = usize::from(left >= one) + usize::from(left >= two) + usize::from(left >= three);
        // Moves on a condition; an array would go through memory.
        let low = if left >= one { one } else { 0 };
        let high = if left >= three { three } else { two };
        let before = if left >= two { high } else { low };
        let place = B::nth(block[word], left - before);
        self.first + at as u32 * BLOCK + word as u32 * 64 + place
    }

    #[inline(never)]
    fn search(&self, mut low: usize, mut high: usize, rank: u32) -> usize {
        while low < high {
            let middle = high - (high - low) / 2;
            if self.counts[middle] <= rank { low = middle } else { high = middle - 1 }
        }
        low
    }

    by_cpu!(rank, rank_bmi2, rank_by, (lpid: u32) -> Option<u32>);

    #[inline(always)]
    fn rank_by<B: Bits>(&self, lpid: u32) -> Option<u32> {
        let bit = lpid.checked_sub(self.first)?;
        let at = (bit / BLOCK) as usize;
        let block = self.blocks.get(at)?;
        let word = (bit / 64) as usize % WORDS;
        if block[word] >> (bit % 64) & 1 == 0 {
            return None;
        }
        let before: u32 = block[..word].iter().map(|&w| B::ones(w)).sum();
        let inside = B::ones(block[word] & ((1 << (bit % 64)) - 1));
        Some(self.counts[at] + before + inside)
    }

    pub(super) fn fill(&self, rank: u32, out: &mut [u32]) {
        if out.is_empty() {
            return;
        }
        copy_ones(self.words(), self.select(rank), out);
    }

    pub(in crate::rankmap) fn heap_bytes(&self) -> usize {
        size_of_val(&*self.blocks) + size_of_val(&*self.counts) + size_of_val(&*self.hints)
    }

    pub(super) fn write(&self, out: &mut Writer) {
        out.u32(self.first);
        out.words(self.blocks.as_flattened());
    }

    pub(super) fn read(from: &mut Reader<'_>) -> Result<Bitmap, Refused> {
        let first = from.u32()?;
        let words = from.words()?;
        let (blocks, rest) = words.as_chunks();
        let bits = |word: &u64| u64::from(64 - word.leading_zeros());
        let last = (0..).zip(&words).filter(|&(_, &word)| word != 0).last();
        let Some((at, word)) = last.filter(|_| rest.is_empty()) else {
            return Err(Refused::Content("a bitmap without members or of a wrong length"));
        };
        if u64::from(first) + at * 64 + bits(word) - 1
            > u64::from(crate::rankmap::process::LPID_MAX)
        {
            return Err(Refused::Content("a member past the last lpid"));
        }
        Ok(Bitmap::new(first, blocks.to_vec()))
    }
}
