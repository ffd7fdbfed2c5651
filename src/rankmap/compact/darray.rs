//! A bitmap that knows where its members begin: the `darray` of Okanohara and
//! Sadakane (2007), for dense sets whose lookups count more than their bytes.
//!
//! The place of every 8th to 32nd member, as the density asks, lies 16 bits wide
//! above one of 32 bits for each 1,024, so that SELECT is two dependent loads: the
//! place, then eight bytes of the bitmap from there on, in which the member
//! nearly always is. Where it is not, words are scanned, then counts searched. A
//! count for each 512 bits (3 %) gives RANK.

use super::counts::{Counts, span_of};
use super::cpu::{Bits, by_cpu};
use super::image::{Reader, Refused, Writer};
use super::packed::load;

/// Members of one base, as a power of two.
const GROUP: u32 = 10;
/// Bits of one count, as a power of two.
const COUNTED: u32 = 9;
/// Bits from a place on that members between two places should fill: those of
/// eight bytes but seven, and a little.
const WINDOW: u64 = 54;
/// Base of a group whose places take more than 16 bits: past the end of any map.
const FAR: u32 = 1 << 31;
/// Words scanned from a place on before counts are searched.
const SCAN: u32 = 8;

/// A set of lpids, not empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Darray {
    /// lpid of bit 0.
    first: u32,
    len: u32,
    /// Members from place to place, as a power of two.
    each: u32,
    /// Whole words and eight zeros.
    bits: Box<[u8]>,
    /// Bit of each 1,024th member, or [`FAR`].
    bases: Box<[u32]>,
    /// Bits of each member that has a place above its base.
    places: Box<[u16]>,
    counts: Counts<COUNTED>,
}

/// Members from place to place, as a power of two.
fn each(len: u64, span: u64) -> u32 {
    (len * WINDOW / span.max(1)).max(1).ilog2().clamp(3, 5)
}

impl Darray {
    /// Bytes on the heap.
    pub(super) fn cost(len: u64, first: u32, last: u32) -> u64 {
        let span = u64::from(last - first) + 1;
        let bits = span.div_ceil(64) * 8 + 8;
        let places = len.div_ceil(1 << each(len, span)) * 2 + len.div_ceil(1 << GROUP) * 4;
        bits + places + Counts::<COUNTED>::cost(span)
    }

    /// `members` rise strictly from `first` to `last`. Working memory: the result.
    pub(super) fn build(first: u32, last: u32, members: impl Iterator<Item = u32>) -> Darray {
        let mut bits = vec![0u8; (last - first) as usize / 64 * 8 + 16];
        for member in members {
            let bit = member - first;
            bits[bit as usize / 8] |= 1 << (bit % 8);
        }
        Darray::new(first, last - first + 1, bits.into_boxed_slice())
    }

    fn new(first: u32, span: u32, bits: Box<[u8]>) -> Darray {
        let words = span.div_ceil(64);
        let word = |at: u32| load(&bits, at as usize * 8);
        let (counts, len) = Counts::new((0..words).map(word));
        let each = each(u64::from(len), u64::from(span));
        let mut bases = Vec::with_capacity(len.div_ceil(1 << GROUP) as usize);
        let mut places = Vec::with_capacity(len.div_ceil(1 << each) as usize);
        let (mut ones, mut base) = (0u32, 0);
        for at in 0..words {
            let mut left = word(at);
            while left != 0 {
                // The next member that has a place, if this word has it.
                let skip = ones.wrapping_neg() & ((1 << each) - 1);
                let found = left.count_ones();
                if skip >= found {
                    ones += found;
                    break;
                }
                (0..skip).for_each(|_| left &= left - 1);
                ones += skip;
                let bit = at * 64 + left.trailing_zeros();
                if ones.is_multiple_of(1 << GROUP) {
                    base = bit;
                    bases.push(bit);
                }
                let place = u16::try_from(bit - base);
                if place.is_err()
                    && let Some(base) = bases.last_mut()
                {
                    *base = FAR;
                }
                places.push(place.unwrap_or(0));
                left &= left - 1;
                ones += 1;
            }
        }
        Darray {
            first,
            len,
            each,
            bits,
            bases: bases.into_boxed_slice(),
            places: places.into_boxed_slice(),
            counts,
        }
    }

    pub(super) fn len(&self) -> u32 {
        self.len
    }

    by_cpu!(select, select_bmi2, select_by, (rank: u32) -> u32);

    #[inline(always)]
    pub(super) fn select_by<B: Bits>(&self, rank: u32) -> u32 {
        let base = self.bases[(rank >> GROUP) as usize];
        let bit = base + u32::from(self.places[(rank >> self.each) as usize]);
        let left = rank & ((1 << self.each) - 1);
        // Past the end are zeros: a far base comes by here and is found out below.
        let window = load(&self.bits, (bit >> 3) as usize) >> (bit & 7);
        if left < B::ones(window) {
            self.first + bit + B::nth(window, left)
        } else {
            self.scan::<B>(rank, bit, left)
        }
    }

    /// The member after `left` others from `bit` on.
    #[cold]
    #[inline(never)]
    fn scan<B: Bits>(&self, rank: u32, bit: u32, left: u32) -> u32 {
        let mut at = bit / 64;
        if bit >= FAR {
            return self.search::<B>(rank);
        }
        let mut left = left;
        let mut word = self.word(at) & (!0 << (bit % 64));
        for _ in 0..SCAN {
            let ones = B::ones(word);
            if left < ones {
                return self.first + at * 64 + B::nth(word, left);
            }
            left -= ones;
            at += 1;
            word = self.word(at);
        }
        self.search::<B>(rank)
    }

    /// By the counts alone.
    fn search<B: Bits>(&self, rank: u32) -> u32 {
        let (block, mut left) = self.counts.find(rank);
        let mut at = (block as u32) << (COUNTED - 6);
        loop {
            let word = self.word(at);
            let ones = B::ones(word);
            if left < ones {
                return self.first + at * 64 + B::nth(word, left);
            }
            left -= ones;
            at += 1;
        }
    }

    #[inline(always)]
    fn word(&self, at: u32) -> u64 {
        load(&self.bits, at as usize * 8)
    }

    by_cpu!(rank, rank_bmi2, rank_by, (lpid: u32) -> Option<u32>);

    #[inline(always)]
    fn rank_by<B: Bits>(&self, lpid: u32) -> Option<u32> {
        let bit = lpid.checked_sub(self.first)?;
        let word = self.word(bit / 64);
        if word >> (bit % 64) & 1 == 0 {
            return None;
        }
        let from = bit >> COUNTED << (COUNTED - 6);
        let before: u32 = (from..bit / 64).map(|at| B::ones(self.word(at))).sum();
        Some(self.counts.before(bit) + before + B::ones(word & ((1 << (bit % 64)) - 1)))
    }

    pub(super) fn fill(&self, rank: u32, out: &mut [u32]) {
        if out.is_empty() {
            return;
        }
        let bit = self.select(rank) - self.first;
        let mut at = bit / 64;
        let mut word = self.word(at) & (!0 << (bit % 64));
        for slot in out {
            while word == 0 {
                at += 1;
                word = self.word(at);
            }
            *slot = self.first + at * 64 + word.trailing_zeros();
            word &= word - 1;
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.bits.len()
            + size_of_val(&*self.bases)
            + size_of_val(&*self.places)
            + self.counts.heap_bytes()
    }

    /// Only the bits: places and counts are found again.
    pub(super) fn write(&self, out: &mut Writer) {
        out.u32(self.first);
        out.u32((self.bits.len() - 8) as u32 / 8);
        out.bytes(&self.bits[..self.bits.len() - 8]);
    }

    pub(super) fn read(from: &mut Reader<'_>) -> Result<Darray, Refused> {
        let first = from.u32()?;
        let words = from.u32()? as usize;
        let used = from.bytes(words.saturating_mul(8))?;
        let ends = used.first_chunk().zip(used.last_chunk());
        let ends = ends.map(|(head, last)| (u64::from_le_bytes(*head), u64::from_le_bytes(*last)));
        let span = span_of(first, ends, words)?;
        let mut bits = used.to_vec();
        bits.extend_from_slice(&[0; 8]);
        Ok(Darray::new(first, span, bits.into_boxed_slice()))
    }
}
