//! Block-compressed lists: what has some order but none of the other forms' kind,
//! such as nodes in random order with the ranks of each shuffled.
//!
//! Blocks of 1,024 ranks, each coded for itself. A step from lpid to lpid is
//! foretold by the two before it; whether it came true, and if not its length in
//! bits, its sign and its top bits, go through an adaptive binary range coder
//! (Martin 1979; Witten, Neal and Cleary 1987), whose first probabilities are
//! those of the whole list, so that a block need not learn them. Lower bits go
//! as they are. A lookup decodes its block: each thread keeps the last one, so
//! lookups near one another, and iteration, cost little.

use core::cell::RefCell;
use core::sync::atomic::{AtomicUsize, Ordering};

use super::image::{Reader, Refused, Writer};

/// Ranks of a block.
pub(super) const EACH: usize = 1024;

/// Bits of a probability.
const PRECISION: u32 = 12;
/// How fast probabilities follow: by a 32nd of what is missing.
const RATE: u32 = 5;

// Where the probabilities of each decision begin: whether the foretold step came,
// by the last three outcomes; bits of the step, two trees; the sign, by bits and the
// last sign; the two bits below the top one, by bits.
const CAME: usize = 0;
const BITS: usize = CAME + 8;
const SIGN: usize = BITS + 8 + 32;
const BELOW: usize = SIGN + 2 * 33;
const DECISIONS: usize = BELOW + 3 * 33;

/// Codes decisions one way or the other.
trait Coder {
    /// Decision number `at` is `bit`, or, decoding, what is returned.
    fn bit(&mut self, at: usize, bit: u32) -> u32;
    /// The same of at most 16 bits as they are.
    fn raw(&mut self, bits: u32, value: u32) -> u32;
}

/// How each step was foretold.
struct Steps {
    /// The step that followed two others, by their hash.
    after: [u32; 512],
    last: [u32; 2],
    came: usize,
    negative: usize,
}

/// No step: lpids are below 2^31.
const UNKNOWN: u32 = 1 << 31;

impl Steps {
    fn new() -> Steps {
        Steps { after: [UNKNOWN; 512], last: [0; 2], came: 0, negative: 0 }
    }

    /// Codes `step`, or, decoding, returns it.
    #[inline(always)]
    fn code(&mut self, coder: &mut impl Coder, step: u32) -> u32 {
        let hash = self.last[0].wrapping_mul(0x9e37_79b1) ^ self.last[1].wrapping_mul(0x85eb_ca6b);
        let slot = &mut self.after[(hash >> 23) as usize];
        let foretold = if *slot == UNKNOWN { self.last[0] } else { *slot };
        let other = coder.bit(CAME + self.came, u32::from(step != foretold));
        self.came = (self.came << 1 | other as usize) & 7;
        let step = if other == 0 {
            foretold
        } else {
            let size = (step as i32).unsigned_abs();
            let size = code_size(coder, size);
            let place = SIGN + 2 * (32 - size.leading_zeros() as usize) + self.negative;
            let negative = coder.bit(place, step >> 31);
            self.negative = negative as usize;
            if negative == 1 { size.wrapping_neg() } else { size }
        };
        *slot = step;
        self.last = [step, self.last[0]];
        step
    }
}

#[inline(always)]
fn code_size(coder: &mut impl Coder, size: u32) -> u32 {
    let bits = u32::BITS - size.leading_zeros();
    // Two trees, since most steps that are coded at all are short.
    let long = coder.bit(BITS, u32::from(bits >= 8));
    let (tree, levels, least) = if long == 0 { (BITS, 3, 0) } else { (BITS + 8, 5, 8) };
    let within = bits.wrapping_sub(least);
    let mut node = 1;
    for level in (0..levels).rev() {
        node = node << 1 | coder.bit(tree + node as usize, within >> level & 1);
    }
    // A damaged block may say more.
    let bits = (least + node - (1 << levels)).min(32);
    if bits < 2 {
        return bits;
    }
    let below = BELOW + 3 * bits as usize;
    let mut value = 2 | coder.bit(below, size >> (bits - 2) & 1);
    if bits > 2 {
        let two = below + 1 + (value & 1) as usize;
        value = value << 1 | coder.bit(two, size >> (bits - 3) & 1);
    }
    let mut left = bits.saturating_sub(3);
    while left > 0 {
        let take = left.min(16);
        left -= take;
        let mask = (1 << take) - 1;
        value = value << take | coder.raw(take, size >> left & mask);
    }
    value
}

/// Codes the block's steps: `block[0]` is known to both sides.
#[inline(always)]
fn code(coder: &mut impl Coder, block: &mut [u32]) {
    let mut steps = Steps::new();
    for at in 1..block.len() {
        let step = block[at].wrapping_sub(block[at - 1]);
        block[at] = block[at - 1].wrapping_add(steps.code(coder, step));
    }
}

/// Moves a probability of 0 towards what came.
#[inline(always)]
fn learn(probability: &mut u16, bit: u32) {
    if bit == 0 {
        *probability += ((1 << PRECISION) - *probability) >> RATE;
    } else {
        *probability -= *probability >> RATE;
    }
}

type Probabilities = [u16; DECISIONS];

struct Encoder<'a> {
    chances: Probabilities,
    low: u64,
    range: u32,
    out: &'a mut Vec<u8>,
    /// Where this block begins: a carry never goes further back.
    begin: usize,
}

impl<'a> Encoder<'a> {
    fn new(chances: Probabilities, out: &'a mut Vec<u8>) -> Encoder<'a> {
        let begin = out.len();
        Encoder { chances, low: 0, range: u32::MAX, out, begin }
    }

    /// The top byte is settled, but for a carry.
    #[inline]
    fn shift(&mut self) {
        if self.low >> 32 != 0 {
            for byte in self.out[self.begin..].iter_mut().rev() {
                *byte = byte.wrapping_add(1);
                if *byte != 0 {
                    break;
                }
            }
        }
        self.out.push((self.low >> 24) as u8);
        self.low = (self.low & 0x00ff_ffff) << 8;
    }

    #[inline(always)]
    fn normalize(&mut self) {
        while self.range < 1 << 24 {
            self.range <<= 8;
            self.shift();
        }
    }

    /// Zeros at the end need not be kept: the decoder reads them past it.
    fn finish(mut self) {
        (0..4).for_each(|_| self.shift());
        while self.out.len() > self.begin && self.out.last() == Some(&0) {
            self.out.pop();
        }
    }
}

impl Coder for Encoder<'_> {
    #[inline(always)]
    fn bit(&mut self, at: usize, bit: u32) -> u32 {
        let chance = &mut self.chances[at];
        let bound = (self.range >> PRECISION) * u32::from(*chance);
        if bit == 0 {
            self.range = bound;
        } else {
            self.low += u64::from(bound);
            self.range -= bound;
        }
        learn(chance, bit);
        self.normalize();
        bit
    }

    #[inline(always)]
    fn raw(&mut self, bits: u32, value: u32) -> u32 {
        self.range >>= bits;
        self.low += u64::from(self.range) * u64::from(value);
        self.normalize();
        value
    }
}

struct Decoder<'a> {
    chances: Probabilities,
    code: u32,
    range: u32,
    from: &'a [u8],
}

impl<'a> Decoder<'a> {
    fn new(chances: Probabilities, from: &'a [u8]) -> Decoder<'a> {
        let mut decoder = Decoder { chances, code: 0, range: u32::MAX, from };
        (0..4).for_each(|_| decoder.next());
        decoder
    }

    #[inline(always)]
    fn next(&mut self) {
        let byte = self.from.split_off_first().copied().unwrap_or(0);
        self.code = self.code << 8 | u32::from(byte);
    }

    #[inline(always)]
    fn normalize(&mut self) {
        while self.range < 1 << 24 {
            self.range <<= 8;
            self.next();
        }
    }
}

impl Coder for Decoder<'_> {
    #[inline(always)]
    fn bit(&mut self, at: usize, _: u32) -> u32 {
        let chance = &mut self.chances[at];
        let bound = (self.range >> PRECISION) * u32::from(*chance);
        let bit = u32::from(self.code >= bound);
        if bit == 0 {
            self.range = bound;
        } else {
            self.code -= bound;
            self.range -= bound;
        }
        learn(chance, bit);
        self.normalize();
        bit
    }

    #[inline(always)]
    fn raw(&mut self, bits: u32, _: u32) -> u32 {
        self.range >>= bits;
        // Damaged bytes may lie past the range.
        let value = (self.code / self.range).min((1 << bits) - 1);
        self.code = self.code.wrapping_sub(value * self.range);
        self.normalize();
        value
    }
}

/// Counts decisions, to know their first probabilities.
struct Counter([[u32; 2]; DECISIONS]);

impl Coder for Counter {
    #[inline(always)]
    fn bit(&mut self, at: usize, bit: u32) -> u32 {
        self.0[at][bit as usize] += 1;
        bit
    }

    #[inline(always)]
    fn raw(&mut self, _: u32, value: u32) -> u32 {
        value
    }
}

/// A probability of 0 in a byte.
fn chance(byte: u8) -> u16 {
    (u16::from(byte) << (PRECISION - 8)) + (1 << (PRECISION - 9))
}

/// Adds up what [`Coded`] would take, from one block of 16.
#[derive(Debug)]
pub(super) struct Estimate {
    block: Vec<u32>,
    len: u64,
    /// Ranks that were coded and what they took.
    coded: u64,
    bytes: u64,
    /// Learned so far: about what the list's first ones will be.
    chances: Box<Probabilities>,
    scratch: Vec<u8>,
}

/// Of so many blocks, one is coded for the estimate.
const SAMPLE: u64 = 16;

impl Estimate {
    pub(super) fn new() -> Estimate {
        let chances = Box::new([1 << (PRECISION - 1); DECISIONS]);
        Estimate { block: Vec::new(), len: 0, coded: 0, bytes: 0, chances, scratch: Vec::new() }
    }

    pub(super) fn extend(&mut self, lpids: &[u32]) {
        let mut lpids = lpids;
        while !lpids.is_empty() {
            let into = (self.len % EACH as u64) as usize;
            let (head, rest) = lpids.split_at(lpids.len().min(EACH - into));
            if (self.len / EACH as u64).is_multiple_of(SAMPLE) {
                self.block.extend_from_slice(head);
                if self.block.len() == EACH {
                    self.close();
                }
            }
            self.len += head.len() as u64;
            lpids = rest;
        }
    }

    #[inline(never)]
    fn close(&mut self) {
        let mut encoder = Encoder::new(*self.chances, &mut self.scratch);
        code(&mut encoder, &mut self.block);
        *self.chances = encoder.chances;
        encoder.finish();
        self.coded += self.block.len() as u64;
        self.bytes += self.scratch.len() as u64;
        self.block.clear();
        self.scratch.clear();
    }

    /// Heap bytes of everything pushed.
    pub(super) fn cost(mut self) -> u64 {
        if !self.block.is_empty() {
            self.close();
        }
        let heads = self.len.div_ceil(EACH as u64) * size_of::<Head>() as u64;
        heads + DECISIONS as u64 + self.bytes * self.len / self.coded.max(1)
    }
}

#[derive(Clone, Copy, Debug)]
struct Head {
    /// First lpid of the block.
    first: u32,
    /// Where its code begins.
    at: u32,
}

/// A list of lpids, not empty.
#[derive(Clone, Debug)]
pub(super) struct Coded {
    /// Tells the blocks that threads keep apart; the same only for clones.
    id: usize,
    len: u32,
    chances: Box<[u8]>,
    heads: Box<[Head]>,
    bytes: Box<[u8]>,
}

struct Kept {
    id: usize,
    block: usize,
    lpids: [u32; EACH],
}

thread_local! {
    /// The last block this thread decoded, of whichever list.
    static KEPT: RefCell<Option<Box<Kept>>> = const { RefCell::new(None) };
}

fn next_id() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Calls `f` with the blocks of a list.
fn for_each_block(lpids: impl Iterator<Item = u32>, mut f: impl FnMut(&mut [u32])) {
    let mut block = Vec::with_capacity(EACH);
    for lpid in lpids {
        block.push(lpid);
        if block.len() == EACH {
            f(&mut block);
            block.clear();
        }
    }
    if !block.is_empty() {
        f(&mut block);
    }
}

impl Coded {
    /// `None` if the code is longer than 4 GB. Working memory: the result and 8 KB.
    pub(super) fn build(lpids: impl Iterator<Item = u32> + Clone) -> Option<Coded> {
        let mut counter = Counter([[0; 2]; DECISIONS]);
        let mut block = 0u64;
        for_each_block(lpids.clone(), |list| {
            if block.is_multiple_of(16) {
                code(&mut counter, list);
            }
            block += 1;
        });
        let share = |[zeros, ones]: &[u32; 2]| {
            let (zeros, ones) = (u64::from(*zeros), u64::from(*ones));
            ((512 * zeros + 256) / (2 * (zeros + ones) + 2)).clamp(1, 254) as u8
        };
        let bytes: Box<[u8]> = counter.0.iter().map(share).collect();
        let chances = first(&bytes);
        let (mut len, mut heads, mut out) = (0, Vec::new(), Vec::new());
        let mut fits = true;
        for_each_block(lpids, |list| {
            let Ok(at) = u32::try_from(out.len()) else {
                fits = false;
                return;
            };
            heads.push(Head { first: list[0], at });
            let mut encoder = Encoder::new(chances, &mut out);
            code(&mut encoder, list);
            encoder.finish();
            len += list.len() as u32;
        });
        fits.then(|| Coded {
            id: next_id(),
            len,
            chances: bytes,
            heads: heads.into_boxed_slice(),
            bytes: out.into_boxed_slice(),
        })
    }

    pub(super) fn len(&self) -> u32 {
        self.len
    }

    fn decode(&self, block: usize, out: &mut [u32]) {
        let Head { first: begin, at } = self.heads[block];
        let end = self.heads.get(block + 1).map_or(self.bytes.len(), |next| next.at as usize);
        let mut decoder = Decoder::new(first(&self.chances), &self.bytes[at as usize..end]);
        if let Some(slot) = out.first_mut() {
            *slot = begin;
        }
        code(&mut decoder, out);
    }

    /// Ranks of a block.
    fn ranks(&self, block: usize) -> usize {
        (self.len as usize - block * EACH).min(EACH)
    }

    /// Calls `f` with a decoded block, kept or new.
    fn with<R>(&self, block: usize, f: impl FnOnce(&[u32]) -> R) -> R {
        let count = self.ranks(block);
        // Not while a thread ends, when there is nothing to keep it in.
        let kept = KEPT.try_with(RefCell::take).ok().flatten();
        let mut kept = kept.unwrap_or_else(|| Box::new(Kept { id: 0, block: 0, lpids: [0; EACH] }));
        if kept.id != self.id || kept.block != block {
            self.decode(block, &mut kept.lpids[..count]);
            (kept.id, kept.block) = (self.id, block);
        }
        let out = f(&kept.lpids[..count]);
        let _ = KEPT.try_with(|slot| slot.replace(Some(kept)));
        out
    }

    pub(super) fn select(&self, rank: u32) -> u32 {
        self.with(rank as usize / EACH, |block| block[rank as usize % EACH])
    }

    pub(super) fn fill(&self, rank: u32, out: &mut [u32]) {
        let (mut rank, mut out) = (rank as usize, out);
        while !out.is_empty() {
            let from = rank % EACH;
            let take = self.with(rank / EACH, |block| {
                let take = (block.len() - from).min(out.len());
                out[..take].copy_from_slice(&block[from..from + take]);
                take
            });
            rank += take;
            out = &mut out[take..];
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.chances.len() + size_of_val(&*self.heads) + self.bytes.len()
    }

    pub(super) fn write(&self, out: &mut Writer) {
        out.u32(self.len);
        out.bytes(&self.chances);
        for head in &self.heads {
            out.u32(head.first);
            out.u32(head.at);
        }
        out.bytes(&self.bytes);
    }

    /// The lpids are checked by whoever reads a list.
    pub(super) fn read(from: &mut Reader<'_>) -> Result<Coded, Refused> {
        const WRONG: Refused = Refused::Content("a coded list whose blocks are out of order");
        let len = from.u32()?;
        let chances: Box<[u8]> = from.bytes(DECISIONS)?.into();
        let count = (len as usize).div_ceil(EACH);
        let mut heads: Vec<Head> = Vec::new();
        for _ in 0..count {
            let head = Head { first: from.u32()?, at: from.u32()? };
            if heads.last().map_or(head.at != 0, |last| last.at > head.at) {
                return Err(WRONG);
            }
            heads.push(head);
        }
        let bytes: Box<[u8]> = from.bytes(from.left.len())?.into();
        if count == 0 || heads.last().is_some_and(|last| last.at as usize > bytes.len()) {
            return Err(WRONG);
        }
        Ok(Coded { id: next_id(), len, chances, heads: heads.into_boxed_slice(), bytes })
    }
}

/// The probabilities a block begins with.
fn first(bytes: &[u8]) -> Probabilities {
    let mut chances = [1 << (PRECISION - 1); DECISIONS];
    chances.iter_mut().zip(bytes).for_each(|(slot, &byte)| *slot = chance(byte));
    chances
}
