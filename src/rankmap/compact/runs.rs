//! Runs: a set of long ranges by two Elias-Fano sequences, the lpids at which
//! ranges start and the ranks at which they do.
//!
//! SELECT is the range around a rank (one search of samples) and its start (one
//! select); RANK is the same the other way round.

use super::elias_fano::EliasFano;
use super::image::{Reader, Refused, Writer};

/// A set of lpids as ranges, not empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::rankmap) struct Runs {
    len: u32,
    /// First lpid of each range.
    starts: EliasFano,
    /// First rank of each range.
    ranks: EliasFano,
}

impl Runs {
    /// Bytes on the heap of `runs` ranges of `len` members in all; `None` if it
    /// cannot hold so many.
    pub(super) fn cost(runs: u64, len: u32, first: u32, last: u32) -> Option<u64> {
        let own = size_of::<Runs>() as u64;
        Some(own + EliasFano::cost(runs, first, last)? + EliasFano::cost(runs, 0, len)?)
    }

    /// `members` rise strictly. Working memory: 8 bytes a range.
    pub(super) fn build(members: impl Iterator<Item = u32>) -> Runs {
        let (mut starts, mut ranks) = (Vec::new(), Vec::new());
        let (mut len, mut next) = (0u32, None);
        for member in members {
            if next != Some(member) {
                starts.push(member);
                ranks.push(len);
            }
            next = Some(member + 1);
            len += 1;
        }
        Runs::of(len, &starts, &ranks)
    }

    fn of(len: u32, starts: &[u32], ranks: &[u32]) -> Runs {
        let pack = |numbers: &[u32]| {
            let ends = numbers.first().zip(numbers.last());
            let (first, last) = ends.map_or((0, 0), |(first, last)| (*first, *last));
            EliasFano::build(numbers.len() as u32, first, last, numbers.iter().copied())
        };
        Runs { len, starts: pack(starts), ranks: pack(ranks) }
    }

    pub(super) fn len(&self) -> u32 {
        self.len
    }

    /// Number of ranges.
    pub(in crate::rankmap) fn count(&self) -> u32 {
        self.starts.len()
    }

    /// First lpid and length of a range.
    pub(in crate::rankmap) fn range(&self, run: u32) -> (u32, u32) {
        (self.starts.select(run), self.end(run) - self.ranks.select(run))
    }

    /// Rank after the last of a range.
    fn end(&self, run: u32) -> u32 {
        if run + 1 < self.ranks.len() { self.ranks.select(run + 1) } else { self.len }
    }

    #[inline]
    pub(super) fn select(&self, rank: u32) -> u32 {
        let (run, first) = self.ranks.predecessor(rank).unwrap_or((0, 0));
        self.starts.select(run) + (rank - first)
    }

    pub(super) fn rank(&self, lpid: u32) -> Option<u32> {
        let (run, start) = self.starts.predecessor(lpid)?;
        let rank = self.ranks.select(run) + (lpid - start);
        (rank < self.end(run)).then_some(rank)
    }

    pub(super) fn fill(&self, rank: u32, out: &mut [u32]) {
        let (mut run, _) = self.ranks.predecessor(rank).unwrap_or((0, 0));
        let mut rank = rank;
        let mut out = out;
        while !out.is_empty() {
            let (first, end) = (self.ranks.select(run), self.end(run));
            let lpid = self.starts.select(run) + (rank - first);
            let take = ((end - rank) as usize).min(out.len());
            let (head, rest) = out.split_at_mut(take);
            head.iter_mut().zip(lpid..).for_each(|(slot, lpid)| *slot = lpid);
            out = rest;
            rank += take as u32;
            run += 1;
        }
    }

    /// Its own included: it lies in a box.
    pub(super) fn heap_bytes(&self) -> usize {
        size_of::<Runs>() + self.starts.heap_bytes() + self.ranks.heap_bytes()
    }

    pub(super) fn write(&self, out: &mut Writer) {
        out.u32(self.len);
        self.starts.write(out);
        self.ranks.write(out);
    }

    pub(super) fn read(from: &mut Reader<'_>) -> Result<Runs, Refused> {
        let len = from.u32()?;
        let (starts, ranks) = (EliasFano::read(from)?, EliasFano::read(from)?);
        let wrong = Err(Refused::Content("ranges that overlap or are not of that many ranks"));
        if starts.len() != ranks.len() || ranks.select(0) != 0 {
            return wrong;
        }
        // Both rise, so it is enough that no range reaches the next.
        let runs = Runs { len, starts, ranks };
        for run in 0..runs.starts.len() {
            let first = runs.ranks.select(run);
            let Some(length) = runs.end(run).checked_sub(first).filter(|&length| length > 0) else {
                return wrong;
            };
            let end = u64::from(runs.starts.select(run)) + u64::from(length);
            let limit = if run + 1 < runs.starts.len() {
                runs.starts.select(run + 1)
            } else {
                crate::rankmap::process::LPID_MAX + 1
            };
            if end > u64::from(limit) {
                return wrong;
            }
        }
        Ok(runs)
    }
}
