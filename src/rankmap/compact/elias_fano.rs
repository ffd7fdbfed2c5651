//! Elias-Fano: a rising sequence in `2 + log2(u/n)` bits a member
//! (Elias 1974, Fano 1971; the samples as Okanohara and Sadakane 2007).
//!
//! The low bits of each member are packed; the high bits are a row of ones, one
//! for each member, each after as many zeros as its high part. SELECT is one
//! select in that row, RANK one search of its samples.

use super::cpu::{Bits, by_cpu};
use super::image::{Reader, Refused, Writer};
use super::ones::Ones;
use super::packed::{self, Packed};

/// Rising numbers (repeats allowed), not empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EliasFano {
    first: u32,
    last: u32,
    len: u32,
    /// Bits in the low part of a member.
    split: u32,
    low: Packed,
    high: Ones,
}

/// Most bits the high part may have.
const HIGH_MAX: u64 = 1 << 30;

/// Low bits of each of `len` members in a range of `span`.
fn split(len: u64, span: u64) -> u32 {
    (span / len.max(1)).max(1).ilog2()
}

impl EliasFano {
    /// Bytes on the heap of `len` members from `first` to `last`; `None` if it
    /// cannot hold so many.
    pub(super) fn cost(len: u64, first: u32, last: u32) -> Option<u64> {
        let span = u64::from(last - first);
        let split = split(len, span);
        let bits = len + (span >> split) + 1;
        (bits <= HIGH_MAX).then(|| Packed::cost(len, split) + Ones::cost(len, bits))
    }

    /// `members` are `len` rising numbers from `first` to `last`, which
    /// [`cost`](Self::cost) accepts. Working memory: the result.
    pub(super) fn build(
        len: u32,
        first: u32,
        last: u32,
        members: impl Iterator<Item = u32>,
    ) -> EliasFano {
        let span = last - first;
        let split = split(u64::from(len), u64::from(span));
        let mut low = packed::Builder::new(split, len as usize);
        let mut words = vec![0u64; ((len + (span >> split)) as usize).div_ceil(64).max(1)];
        for (index, member) in (0..len).zip(members) {
            let member = member - first;
            low.push(member);
            let place = (member >> split) + index;
            words[place as usize / 64] |= 1 << (place % 64);
        }
        EliasFano { first, last, len, split, low: low.finish(), high: Ones::new(words) }
    }

    pub(super) fn len(&self) -> u32 {
        self.len
    }

    by_cpu!(select, select_bmi2, select_by, (rank: u32) -> u32);

    #[inline(always)]
    pub(super) fn select_by<B: Bits>(&self, rank: u32) -> u32 {
        let high = self.high.select_by::<B>(rank) - rank;
        self.first + ((high << self.split) | self.low.get(rank as usize))
    }

    /// The last member at most `lpid`: its index and itself.
    pub(super) fn predecessor(&self, lpid: u32) -> Option<(u32, u32)> {
        let target = lpid.checked_sub(self.first)?;
        if lpid >= self.last {
            return Some((self.len - 1, self.last));
        }
        let high = target >> self.split;
        let end = self.high.zero(high);
        // Members with that high part lie in a row before the zero.
        let below = (end - high).min(self.len);
        let row = self.high.row_before(end).min(below);
        let low = target & packed::mask(self.split);
        let (mut from, mut to) = (below - row, below);
        while from < to {
            let middle = from.midpoint(to);
            if self.low.get(middle as usize) <= low {
                from = middle + 1;
            } else {
                to = middle;
            }
        }
        let index = from.checked_sub(1)?;
        let member = if index >= below - row {
            self.first + ((high << self.split) | self.low.get(index as usize))
        } else {
            self.select(index)
        };
        Some((index, member))
    }

    /// The smallest rank of a member; only of sequences without repeats.
    pub(super) fn rank(&self, lpid: u32) -> Option<u32> {
        self.predecessor(lpid).filter(|&(_, member)| member == lpid).map(|(index, _)| index)
    }

    pub(super) fn fill(&self, rank: u32, out: &mut [u32]) {
        self.high.fill(rank, out);
        let mut low = [0; 64];
        for (rank, out) in (rank..).step_by(low.len()).zip(out.chunks_mut(low.len())) {
            self.low.fill(rank as usize, &mut low[..out.len()]);
            for ((index, slot), low) in (rank..).zip(out).zip(low) {
                *slot = self.first + (((*slot - index) << self.split) | low);
            }
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.low.heap_bytes() + self.high.heap_bytes()
    }

    /// Only the members' bits: samples are found again.
    pub(super) fn write(&self, out: &mut Writer) {
        out.u32(self.first);
        out.u32(self.len);
        out.u32(self.split);
        self.low.write(out);
        out.words(self.high.words());
    }

    /// Refuses numbers that do not rise strictly or leave the lpids.
    pub(super) fn read(from: &mut Reader<'_>) -> Result<EliasFano, Refused> {
        let (first, len, split) = (from.u32()?, from.u32()?, from.u32()?);
        let low = Packed::read(from)?;
        let words = from.words()?;
        if len == 0 || split > 31 || low.len() != len || low.width() != split {
            return Err(Refused::Content("an Elias-Fano header that disagrees with its parts"));
        }
        let mut left = len;
        let mut last = None;
        for (at, &word) in words.iter().enumerate() {
            let mut bits = word;
            while bits != 0 {
                let place = at as u64 * 64 + u64::from(bits.trailing_zeros());
                bits &= bits - 1;
                let index = len.checked_sub(left).filter(|&i| i < len);
                let Some(index) = index else {
                    return Err(Refused::Content("more members than there are"));
                };
                let low = u64::from(low.get(index as usize));
                let high = place - u64::from(index);
                let member = u64::from(first) + ((high << split) | low);
                if member > u64::from(crate::rankmap::process::LPID_MAX)
                    || last.is_some_and(|l| member <= l)
                {
                    return Err(Refused::Content("members that do not rise"));
                }
                last = Some(member);
                left -= 1;
            }
        }
        if left != 0 || words.len() as u64 * 64 > HIGH_MAX + 64 {
            return Err(Refused::Content("fewer members than there are"));
        }
        let last = last.unwrap_or(0) as u32;
        Ok(EliasFano { first, last, len, split, low, high: Ones::new(words) })
    }
}
