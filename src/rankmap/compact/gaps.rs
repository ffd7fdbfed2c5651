//! Gap encoding (the thesis's delta encoding): what lies between neighbours,
//! packed at the width of the largest gap, and every 32nd member whole.
//!
//! SELECT adds up at most 31 gaps; RANK searches the whole members first.

use super::image::{Reader, Refused, Writer};
use super::packed::{self, Packed, width_of};

const EACH: u32 = 32;

/// A set of lpids, not empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Gaps {
    /// Every [`EACH`]th member.
    whole: Box<[u32]>,
    /// lpids between each member and the one before.
    gaps: Packed,
}

impl Gaps {
    /// Bytes on the heap if the largest difference of neighbours is `most`.
    pub(super) fn cost(len: u64, most: u32) -> u64 {
        len.div_ceil(EACH.into()) * 4 + Packed::cost(len, width_of(most.saturating_sub(1)))
    }

    /// `members` rise strictly by at most `most`. Working memory: the result.
    pub(super) fn build(len: u32, most: u32, members: impl Iterator<Item = u32>) -> Gaps {
        let mut whole = Vec::with_capacity(len.div_ceil(EACH) as usize);
        let mut gaps = packed::Builder::new(width_of(most.saturating_sub(1)), len as usize);
        let mut last = None;
        for (rank, member) in (0u32..).zip(members) {
            if rank % EACH == 0 {
                whole.push(member);
            }
            gaps.push(last.map_or(0, |last| member - last - 1));
            last = Some(member);
        }
        Gaps { whole: whole.into_boxed_slice(), gaps: gaps.finish() }
    }

    pub(super) fn len(&self) -> u32 {
        self.gaps.len()
    }

    pub(super) fn select(&self, rank: u32) -> u32 {
        let first = rank / EACH * EACH;
        let sum: u32 = (first + 1..=rank).map(|at| self.gaps.get(at as usize)).sum();
        self.whole[(rank / EACH) as usize] + sum + (rank - first)
    }

    pub(super) fn rank(&self, lpid: u32) -> Option<u32> {
        let block = self.whole.partition_point(|&member| member <= lpid).checked_sub(1)? as u32;
        let mut rank = block * EACH;
        let mut member = self.whole[block as usize];
        while member < lpid && rank + 1 < self.len().min((block + 1) * EACH) {
            rank += 1;
            member += self.gaps.get(rank as usize) + 1;
        }
        (member == lpid).then_some(rank)
    }

    pub(super) fn fill(&self, rank: u32, out: &mut [u32]) {
        if out.is_empty() {
            return;
        }
        let mut member = self.select(rank);
        for (rank, slot) in (rank + 1..).zip(out) {
            *slot = member;
            if rank < self.len() {
                member += self.gaps.get(rank as usize) + 1;
            }
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        size_of_val(&*self.whole) + self.gaps.heap_bytes()
    }

    pub(super) fn write(&self, out: &mut Writer) {
        out.u32(self.whole[0]);
        self.gaps.write(out);
    }

    pub(super) fn read(from: &mut Reader<'_>) -> Result<Gaps, Refused> {
        let (first, gaps) = (from.u32()?, Packed::read(from)?);
        let mut whole = Vec::new();
        let mut member = u64::from(first);
        for rank in 0..gaps.len() {
            let gap = u64::from(gaps.get(rank as usize));
            member += if rank == 0 { gap } else { gap + 1 };
            if (rank == 0 && gap != 0) || member > u64::from(crate::rankmap::process::LPID_MAX) {
                return Err(Refused::Content("gaps that lead past the last lpid"));
            }
            if rank % EACH == 0 {
                whole.push(member as u32);
            }
        }
        if whole.is_empty() {
            return Err(Refused::Content("gaps of no member"));
        }
        Ok(Gaps { whole: whole.into_boxed_slice(), gaps })
    }
}
