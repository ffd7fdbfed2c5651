//! Counts of the ones of a bitmap, in few bits: 16 for each block, above 32 for
//! each 65,536 bits.

use super::image::Refused;

/// Bits of one count of 32 bits, as a power of two.
const FAR: u32 = 16;

/// Near counts of one cache line.
const NEAR: usize = 32;

/// Ones before each block of `1 << BLOCK` bits; `BLOCK` from 6 to 15.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Counts<const BLOCK: u32> {
    /// Ones before each 65,536 bits.
    far: Box<[u32]>,
    /// Of those bits, ones before each block.
    near: Box<[u16]>,
}

impl<const BLOCK: u32> Counts<BLOCK> {
    /// Blocks of one far count.
    const EACH: usize = 1 << (FAR - BLOCK);

    /// Bytes on the heap.
    pub(super) fn cost(span: u64) -> u64 {
        span.div_ceil(1 << BLOCK) * 2 + span.div_ceil(1 << FAR) * 4
    }

    /// Of these words, which are fewer than 2²⁶; and how many ones there are.
    pub(super) fn new(words: impl ExactSizeIterator<Item = u64>) -> (Self, u32) {
        let count = words.len() as u64 * 64;
        let mut far = Vec::with_capacity(count.div_ceil(1 << FAR) as usize);
        let mut near = Vec::with_capacity(count.div_ceil(1 << BLOCK) as usize);
        let (mut ones, mut before) = (0u32, 0);
        for (at, word) in (0u32..).zip(words) {
            if (at * 64).is_multiple_of(1 << FAR) {
                before = ones;
                far.push(before);
            }
            if (at * 64).is_multiple_of(1 << BLOCK) {
                near.push((ones - before) as u16);
            }
            ones += word.count_ones();
        }
        (Counts { far: far.into_boxed_slice(), near: near.into_boxed_slice() }, ones)
    }

    /// Ones before the block of this bit.
    #[inline(always)]
    pub(super) fn before(&self, bit: u32) -> u32 {
        self.far[(bit >> FAR) as usize] + u32::from(self.near[(bit >> BLOCK) as usize])
    }

    /// The block of the one before which there are `rank`, and how many of those
    /// are in the block; there are more than `rank`.
    #[inline(always)]
    pub(super) fn find(&self, rank: u32) -> (usize, u32) {
        // Both begin with a zero, so something is at most the rank.
        let far = self.far.partition_point(|&count| count <= rank) - 1;
        let left = rank - self.far[far];
        let from = far * Self::EACH;
        let to = self.near.len().min(from + Self::EACH);
        let near = match self.near[from..].first_chunk::<NEAR>() {
            // A cache line is compared at once.
            Some(all) if Self::EACH == NEAR => {
                usize::from(all.iter().map(|&count| u16::from(count <= left as u16)).sum::<u16>())
            }
            _ => self.near[from..to].partition_point(|&count| u32::from(count) <= left),
        };
        let near = near - 1;
        (from + near, left - u32::from(self.near[from + near]))
    }

    pub(super) fn heap_bytes(&self) -> usize {
        size_of_val(&*self.far) + size_of_val(&*self.near)
    }
}

/// Bits of a bitmap of so many words with these at its ends, read from an image,
/// whose bit 0 is lpid `first`. It begins and ends with a member, so that a set
/// has one bitmap.
pub(super) fn span_of(first: u32, ends: Option<(u64, u64)>, words: usize) -> Result<u32, Refused> {
    let Some((_, last)) = ends.filter(|&(head, last)| head & 1 == 1 && last != 0) else {
        return Err(Refused::Content("a bitmap that does not begin and end with a member"));
    };
    let span = words as u64 * 64 - u64::from(last.leading_zeros());
    if u64::from(first) + span - 1 > u64::from(crate::rankmap::process::LPID_MAX) {
        return Err(Refused::Content("a member past the last lpid"));
    }
    Ok(span as u32)
}
