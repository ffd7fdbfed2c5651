//! Affine blocks with packed residuals: each 64 ranks are a line and, packed,
//! how far each lpid lies above it. Any order, constant time.
//!
//! A header of 12 bytes a block (1.5 bits a rank); no residuals where the ranks
//! are a line, and the width of the largest elsewhere.

use super::image::{Reader, Refused, Writer};
use super::packed::{self, mask, width_of};

/// Ranks of a block.
pub(super) const EACH: usize = 64;
/// Fraction bits of a slope.
const FRACTION: u32 = 7;
/// Bits of a header's `line` that are the width.
const WIDTH_BITS: u32 = 6;
/// Largest slope, in 2^-7.
const SLOPE_MAX: i64 = (1 << (31 - WIDTH_BITS)) - 1;

/// `lpid = base + ⌊slope·j⌋ + residual_j`, all modulo 2^32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Head {
    base: u32,
    /// Slope in 2^-7, then the width of the residuals.
    line: i32,
    /// First residual, in 8 bytes: 64 of one width fill so many whole.
    at: u32,
}

/// A list of lpids, not empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Blocks {
    len: u32,
    heads: Box<[Head]>,
    residuals: Box<[u8]>,
}

/// The line of a block and the width of its residuals.
#[inline]
fn fit(block: &[u32]) -> Head {
    let (Some(&first), Some(&last)) = (block.first(), block.last()) else {
        return Head { base: 0, line: 0, at: 0 };
    };
    let rise = i64::from(last) - i64::from(first);
    let slope = (rise << FRACTION) / (block.len() as i64 - 1).max(1);
    let slope = if slope.abs() > SLOPE_MAX { 0 } else { slope as i32 };
    let (mut least, mut most) = (i32::MAX, i32::MIN);
    let mut up = 0i32;
    for &lpid in block {
        // Below 2^31 whatever the slope: 63 of the largest are under 2^24.
        let above = (lpid as i32).wrapping_sub(up >> FRACTION);
        (least, most) = (least.min(above), most.max(above));
        up = up.wrapping_add(slope);
    }
    let width = width_of(most.wrapping_sub(least) as u32);
    Head { base: least as u32, line: (slope << WIDTH_BITS) | width as i32, at: 0 }
}

impl Head {
    #[inline(always)]
    fn width(self) -> u32 {
        self.line as u32 & ((1 << WIDTH_BITS) - 1)
    }

    #[inline(always)]
    fn at(self, place: u32) -> u32 {
        let slope = self.line >> WIDTH_BITS;
        self.base.wrapping_add((slope.wrapping_mul(place as i32) >> FRACTION) as u32)
    }
}

/// Adds up what [`Blocks`] would take.
#[derive(Clone, Debug)]
pub(super) struct Estimate {
    block: [u32; EACH],
    filled: usize,
    blocks: u64,
    words: u64,
}

impl Estimate {
    pub(super) fn new() -> Estimate {
        Estimate { block: [0; EACH], filled: 0, blocks: 0, words: 0 }
    }

    #[inline]
    pub(super) fn push(&mut self, lpid: u32) {
        self.block[self.filled] = lpid;
        self.filled += 1;
        if self.filled == EACH {
            self.close();
        }
    }

    #[inline(never)]
    fn close(&mut self) {
        self.words += u64::from(fit(&self.block[..self.filled]).width());
        self.blocks += 1;
        self.filled = 0;
    }

    /// Heap bytes of the blocks of everything pushed.
    pub(super) fn cost(mut self) -> u64 {
        if self.filled > 0 {
            self.close();
        }
        self.blocks * size_of::<Head>() as u64 + self.words * 8 + 8
    }
}

impl Blocks {
    /// Working memory: the result and one block.
    pub(super) fn build(lpids: impl Iterator<Item = u32>) -> Blocks {
        let mut builder = Builder::new();
        lpids.for_each(|lpid| builder.push(lpid));
        builder.finish()
    }

    /// Of the heap bytes of so many ranks, those that are no residuals.
    pub(super) fn lines(len: u64) -> u64 {
        len.div_ceil(EACH as u64) * size_of::<Head>() as u64 + 8
    }

    pub(super) fn len(&self) -> u32 {
        self.len
    }

    #[inline]
    pub(super) fn select(&self, rank: u32) -> u32 {
        let head = self.heads[rank as usize / EACH];
        let place = rank % EACH as u32;
        let width = head.width();
        // A branch, not a mask of zeros: lines then cost one load and not two.
        if width == 0 {
            return head.at(place);
        }
        let bit = place * width;
        let word = packed::load(&self.residuals, head.at as usize * 8 + (bit >> 3) as usize);
        head.at(place).wrapping_add((word >> (bit & 7)) as u32 & mask(width))
    }

    pub(super) fn fill(&self, rank: u32, out: &mut [u32]) {
        let (mut rank, mut out) = (rank, out);
        while !out.is_empty() {
            let place = rank % EACH as u32;
            let (part, rest) = out.split_at_mut(out.len().min(EACH - place as usize));
            let head = self.heads[rank as usize / EACH];
            let width = head.width();
            if width == 0 {
                (place..).zip(&mut *part).for_each(|(place, slot)| *slot = head.at(place));
            } else {
                for (place, slot) in (place..).zip(&mut *part) {
                    let bit = place * width;
                    let at = head.at as usize * 8 + (bit >> 3) as usize;
                    let above = (packed::load(&self.residuals, at) >> (bit & 7)) as u32;
                    *slot = head.at(place).wrapping_add(above & mask(width));
                }
            }
            rank += part.len() as u32;
            out = rest;
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        size_of_val(&*self.heads) + self.residuals.len()
    }

    pub(super) fn write(&self, out: &mut Writer) {
        out.u32(self.len);
        for head in &self.heads {
            out.u32(head.base);
            out.u32(head.line as u32);
        }
        out.bytes(&self.residuals[..self.residuals.len() - 8]);
    }

    /// The lpids are checked by whoever reads a list.
    pub(super) fn read(from: &mut Reader<'_>) -> Result<Blocks, Refused> {
        let len = from.u32()?;
        let mut heads = Vec::new();
        let mut at = 0u32;
        for _ in 0..(len as usize).div_ceil(EACH) {
            let head = Head { base: from.u32()?, line: from.u32()? as i32, at };
            if head.width() > 32 {
                return Err(Refused::Content("a residual wider than 32 bits"));
            }
            at = at.checked_add(head.width()).ok_or(Refused::Content("too many residuals"))?;
            heads.push(head);
        }
        let mut residuals = from.bytes(at as usize * 8)?.to_vec();
        residuals.extend_from_slice(&[0; 8]);
        let (heads, residuals) = (heads.into_boxed_slice(), residuals.into_boxed_slice());
        Ok(Blocks { len, heads, residuals })
    }
}

/// Takes lpids one by one.
#[derive(Debug)]
pub(super) struct Builder {
    block: [u32; EACH],
    filled: usize,
    len: u32,
    heads: Vec<Head>,
    residuals: packed::Builder,
    words: u32,
}

impl Builder {
    pub(super) fn new() -> Builder {
        Builder {
            block: [0; EACH],
            filled: 0,
            len: 0,
            heads: Vec::new(),
            residuals: packed::Builder::new(0, 0),
            words: 0,
        }
    }

    #[inline]
    pub(super) fn push(&mut self, lpid: u32) {
        self.block[self.filled] = lpid;
        self.filled += 1;
        self.len += 1;
        if self.filled == EACH {
            self.close();
        }
    }

    #[inline(never)]
    fn close(&mut self) {
        let head = Head { at: self.words, ..fit(&self.block[..self.filled]) };
        let width = head.width();
        if width > 0 {
            for (place, &lpid) in (0..).zip(&self.block[..self.filled]) {
                self.residuals.push_bits(lpid.wrapping_sub(head.at(place)), width);
            }
            // The last block is as long as any, so that the words count up.
            for _ in self.filled..EACH {
                self.residuals.push_bits(0, width);
            }
        }
        self.words += width;
        self.heads.push(head);
        self.filled = 0;
    }

    pub(super) fn finish(mut self) -> Blocks {
        if self.filled > 0 {
            self.close();
        }
        Blocks {
            len: self.len,
            heads: self.heads.into_boxed_slice(),
            residuals: self.residuals.finish_bytes(),
        }
    }
}
