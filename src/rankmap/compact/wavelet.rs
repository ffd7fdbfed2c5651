//! A wavelet tree on runs: a set and the permutation of it, in both directions
//! (Barbay and Navarro 2009).
//!
//! The ranks are cut into rising runs. For each member of the set in order, the
//! number of its run goes into a wavelet matrix (Claude and Navarro 2012): as
//! many rows of bits as the numbers have. Position → run and place in it is a
//! walk down by rank, run and place → position one up by select.

use super::cpu::{Bits, by_cpu};
use super::elias_fano::EliasFano;
use super::image::{Reader, Refused, Writer};
use super::map::Compact;
use super::packed::width_of;
use super::representation::Representation;
use super::strategy::Strategy;

const WORDS: usize = 4;
const BLOCK: u32 = 64 * WORDS as u32;

/// A row of bits that counts ones and finds either kind.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    blocks: Box<[[u64; WORDS]]>,
    /// Ones before each block.
    counts: Box<[u32]>,
    /// Zeros of the row.
    zeros: u32,
}

impl Row {
    fn new(len: u32, blocks: Vec<[u64; WORDS]>) -> Row {
        let mut ones = 0;
        let counts = blocks
            .iter()
            .map(|block| {
                let before = ones;
                ones += block.iter().map(|word| word.count_ones()).sum::<u32>();
                before
            })
            .collect();
        Row { blocks: blocks.into_boxed_slice(), counts, zeros: len - ones }
    }

    #[inline(always)]
    fn bit(&self, at: u32) -> bool {
        let word = self.blocks[(at / BLOCK) as usize][(at / 64) as usize % WORDS];
        word >> (at % 64) & 1 == 1
    }

    /// Ones before `at`, which may be the length.
    #[inline(always)]
    fn ones<B: Bits>(&self, at: u32) -> u32 {
        let Some(block) = self.blocks.get((at / BLOCK) as usize) else {
            return self.counts.last().zip(self.blocks.last()).map_or(0, |(count, block)| {
                count + block.iter().map(|&word| B::ones(word)).sum::<u32>()
            });
        };
        let word = (at / 64) as usize % WORDS;
        let before: u32 = block[..word].iter().map(|&word| B::ones(word)).sum();
        self.counts[(at / BLOCK) as usize] + before + B::ones(block[word] & ((1 << (at % 64)) - 1))
    }

    /// Where a place of this row goes in the next.
    #[inline(always)]
    fn down<B: Bits>(&self, at: u32, bit: bool) -> u32 {
        let ones = self.ones::<B>(at);
        if bit { self.zeros + ones } else { at - ones }
    }

    /// Where a place of the next row comes from in this.
    #[inline(always)]
    fn up<B: Bits>(&self, at: u32, bit: bool) -> u32 {
        let target = if bit { at - self.zeros } else { at };
        let before = |block: usize| {
            if bit { self.counts[block] } else { block as u32 * BLOCK - self.counts[block] }
        };
        let (mut low, mut high) = (0, self.blocks.len() - 1);
        while low < high {
            let middle = high - (high - low) / 2;
            if before(middle) <= target { low = middle } else { high = middle - 1 }
        }
        let mut left = target - before(low);
        for (place, &word) in (0..).zip(&self.blocks[low]) {
            let word = if bit { word } else { !word };
            let found = B::ones(word);
            if left < found {
                return low as u32 * BLOCK + place * 64 + B::nth(word, left);
            }
            left -= found;
        }
        // Not reached: the row has that many of the kind.
        low as u32 * BLOCK
    }
}

/// A permuted set, not empty.
#[derive(Clone, Debug)]
pub(super) struct Wavelet {
    /// The members in order.
    set: Box<Compact>,
    /// First rank of each run.
    starts: EliasFano,
    /// The most significant bit of the run numbers first.
    rows: Box<[Row]>,
}

impl Wavelet {
    /// Most runs it is built for: more are no smaller than packed lpids.
    pub(super) const RUNS_MAX: u32 = 1 << 16;

    /// Heap bytes without the set.
    pub(super) fn cost(len: u32, runs: u32) -> u64 {
        let rows = u64::from(width_of(runs - 1));
        let blocks = u64::from(len.div_ceil(BLOCK));
        rows * (blocks * 36 + size_of::<Row>() as u64)
            + EliasFano::cost(runs.into(), 0, len).unwrap_or(u64::MAX / 2)
    }

    /// `None` if an lpid repeats or there are too many runs. Working memory: 16
    /// bytes a rank.
    pub(super) fn build(lpids: impl Iterator<Item = u32>) -> Option<Wavelet> {
        let mut starts = Vec::new();
        let mut members: Vec<(u32, u32)> = Vec::new();
        for lpid in lpids {
            if members.last().is_none_or(|&(last, _)| last >= lpid) {
                starts.push(members.len() as u32);
            }
            members.push((lpid, starts.len() as u32 - 1));
        }
        members.sort_unstable();
        if members.windows(2).any(|pair| pair[0].0 == pair[1].0)
            || starts.len() > Wavelet::RUNS_MAX as usize
        {
            return None;
        }
        let (set, runs): (Vec<u32>, Vec<u32>) = members.into_iter().unzip();
        let set = Compact::new(Strategy::Space, set.iter().copied()).ok()?;
        Wavelet::of(set, &starts, runs)
    }

    fn of(set: Compact, starts: &[u32], mut runs: Vec<u32>) -> Option<Wavelet> {
        let len = set.len();
        let (first, last) = starts.first().zip(starts.last())?;
        let count = starts.len() as u32;
        EliasFano::cost(count.into(), *first, *last)?;
        let starts = EliasFano::build(count, *first, *last, starts.iter().copied());
        let mut rows = Vec::new();
        for bit in (0..width_of(count - 1)).rev() {
            let mut blocks = vec![[0u64; WORDS]; len.div_ceil(BLOCK) as usize];
            for (at, run) in runs.iter().enumerate() {
                let word = &mut blocks.as_flattened_mut()[at / 64];
                *word |= u64::from(run >> bit & 1) << (at % 64);
            }
            let (zeros, ones): (Vec<u32>, Vec<u32>) =
                runs.iter().partition(|&run| run >> bit & 1 == 0);
            runs = zeros;
            runs.extend(ones);
            rows.push(Row::new(len, blocks));
        }
        Some(Wavelet { set: Box::new(set), starts, rows: rows.into_boxed_slice() })
    }

    pub(super) fn len(&self) -> u32 {
        self.set.len()
    }

    #[inline]
    pub(super) fn select(&self, rank: u32) -> u32 {
        self.set.select(self.position(rank))
    }

    by_cpu!(position, position_bmi2, position_by, (rank: u32) -> u32);

    /// Which member of the set a rank is: the permutation.
    #[inline(always)]
    fn position_by<B: Bits>(&self, rank: u32) -> u32 {
        let (run, start) = self.starts.predecessor(rank).unwrap_or((0, 0));
        let last = self.rows.len();
        let bit = |level: usize| run >> (last - 1 - level) & 1 == 1;
        let begin = (0..last).fold(0, |at, level| self.rows[level].down::<B>(at, bit(level)));
        let place = begin + (rank - start);
        (0..last).rev().fold(place, |at, level| self.rows[level].up::<B>(at, bit(level)))
    }

    by_cpu!(turned, turned_bmi2, turned_by, (position: u32) -> u32);

    /// Which rank a member of the set is: the inverse.
    #[inline(always)]
    fn turned_by<B: Bits>(&self, position: u32) -> u32 {
        let (mut run, mut begin, mut at) = (0, 0, position);
        for row in &self.rows {
            let bit = row.bit(at);
            at = row.down::<B>(at, bit);
            begin = row.down::<B>(begin, bit);
            run = run << 1 | u32::from(bit);
        }
        self.starts.select(run) + (at - begin)
    }

    pub(super) fn rank(&self, lpid: u32) -> Option<u32> {
        self.set.position(lpid).map(|position| self.turned(position))
    }

    /// All lpids, for a list as long as the map: row by row, without a search.
    /// Working memory: 8 bytes a rank.
    fn fill_all(&self, out: &mut [u32]) {
        let (len, count) = (self.len(), self.starts.len());
        let mut next: Vec<u32> = (0..count).map(|run| self.starts.select(run)).collect();
        // Below the last row, members lie by run.
        let mut runs = vec![0; len as usize];
        for (run, &start) in (0..).zip(&next) {
            let end = next.get(run as usize + 1).copied().unwrap_or(len);
            let bit = |level: usize| run >> (self.rows.len() - 1 - level) & 1 == 1;
            let begin = (0..self.rows.len())
                .fold(0, |at, level| self.rows[level].down::<super::cpu::Portable>(at, bit(level)));
            runs[begin as usize..(begin + end - start) as usize].fill(run);
        }
        let mut above = vec![0; len as usize];
        for row in self.rows.iter().rev() {
            let (mut zero, mut one) = (0, row.zeros as usize);
            for (chunk, &word) in above.chunks_mut(64).zip(row.blocks.as_flattened()) {
                for (at, slot) in chunk.iter_mut().enumerate() {
                    let bit = (word >> at & 1) as usize;
                    *slot = runs[if bit == 1 { one } else { zero }];
                    one += bit;
                    zero += 1 - bit;
                }
            }
            std::mem::swap(&mut runs, &mut above);
        }
        for (lpid, run) in self.set.iter().zip(runs) {
            let rank = &mut next[run as usize];
            out[*rank as usize] = lpid;
            *rank += 1;
        }
    }

    pub(super) fn fill(&self, rank: u32, out: &mut [u32]) {
        if out.len() as u32 == self.len() && rank == 0 && out.len() > 128 {
            return self.fill_all(out);
        }
        (rank..).zip(out).for_each(|(rank, slot)| *slot = self.select(rank));
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let row =
            |row: &Row| size_of::<Row>() + size_of_val(&*row.blocks) + size_of_val(&*row.counts);
        self.set.bytes() + self.starts.heap_bytes() + self.rows.iter().map(row).sum::<usize>()
    }

    pub(super) fn write(&self, out: &mut Writer) {
        let image = self.set.to_image();
        out.u32(image.len() as u32);
        out.bytes(&image);
        self.starts.write(out);
        self.rows.iter().for_each(|row| out.words(row.blocks.as_flattened()));
    }

    /// Refuses runs of a wrong length.
    pub(super) fn read(from: &mut Reader<'_>) -> Result<Wavelet, Refused> {
        const WRONG: Refused = Refused::Content("a wavelet tree whose runs do not add up");
        let image = from.u32()? as usize;
        let image = from.bytes(image)?;
        // Never one in another.
        if image.get(6..8) == Some(&(Representation::Wavelet as u16).to_le_bytes()) {
            return Err(WRONG);
        }
        let set = Compact::from_image(image)?;
        let starts = EliasFano::read(from)?;
        let len = set.len();
        if !set.iter().is_sorted_by(|a, b| a < b)
            || starts.len() > Wavelet::RUNS_MAX
            || starts.select(0) != 0
            || starts.select(starts.len() - 1) >= len
        {
            return Err(WRONG);
        }
        let mut rows = Vec::new();
        for _ in 0..width_of(starts.len() - 1) {
            let words = from.words()?;
            let (blocks, rest) = words.as_chunks();
            let bits = words.iter().enumerate().all(|(at, word)| {
                let used = (u64::from(len)).saturating_sub(at as u64 * 64).min(64);
                used == 64 || word >> used == 0
            });
            if !rest.is_empty() || blocks.len() != len.div_ceil(BLOCK) as usize || !bits {
                return Err(WRONG);
            }
            rows.push(Row::new(len, blocks.to_vec()));
        }
        let read = Wavelet { set: Box::new(set), starts, rows: rows.into_boxed_slice() };
        // Every run as long as its ranks: then positions and ranks pair up.
        let mut lengths = vec![0u32; 1 << read.rows.len()];
        for position in 0..len {
            let mut at = position;
            let mut run = 0usize;
            for row in &read.rows {
                let bit = row.bit(at);
                at = row.down::<super::cpu::Portable>(at, bit);
                run = run << 1 | usize::from(bit);
            }
            lengths[run] += 1;
        }
        let count = read.starts.len();
        for (run, &length) in (0..).zip(&lengths) {
            let start = |run| if run < count { read.starts.select(run) } else { len };
            let said = if run < count { start(run + 1) - start(run) } else { 0 };
            if length != said {
                return Err(WRONG);
            }
        }
        Ok(read)
    }
}
