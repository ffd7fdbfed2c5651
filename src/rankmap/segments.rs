//! Segments: a few affine runs of any length, with a directory.
//!
//! Runs are greedy (each as long as it can be), so equal maps have equal runs.
//! The directory maps `rank >> shift` to the run that holds the first rank of
//! that bucket, about one bucket a run.

use std::sync::OnceLock;

use super::affine::Affine;

/// Runs are kept while there is at most one for this many ranks.
pub(super) const RANKS_PER_RUN: u32 = 8;

/// One run: ranks from `start` to the next run's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Run {
    pub(super) start: u32,
    pub(super) first: u32,
    pub(super) step: i32,
}

#[derive(Debug)]
pub(super) struct Segments {
    pub(super) runs: Box<[Run]>,
    /// One more than there are buckets; the last is the last run.
    pub(super) directory: Box<[u32]>,
    pub(super) shift: u32,
    size: u32,
    inverse: OnceLock<Inverse>,
}

/// Made on the first `rank_of`: the runs by their smallest lpid, and for each
/// the largest lpid of it and all before, which ends the walk to the left.
#[derive(Debug)]
struct Inverse {
    order: Box<[u32]>,
    lowest: Box<[u32]>,
    reach: Box<[u32]>,
}

impl Segments {
    pub(super) fn new(runs: Vec<Run>, size: u32) -> Segments {
        let buckets = u32::try_from(runs.len()).unwrap_or(u32::MAX);
        let mut shift = 0;
        while size >> shift > buckets {
            shift += 1;
        }
        let count = (size.saturating_sub(1) >> shift) as usize + 1;
        let mut directory = Vec::with_capacity(count + 1);
        let mut run = 0;
        for bucket in 0..count {
            let rank = (bucket as u32) << shift;
            while run + 1 < runs.len() && runs[run + 1].start <= rank {
                run += 1;
            }
            directory.push(run as u32);
        }
        directory.push(runs.len().saturating_sub(1) as u32);
        Segments {
            runs: runs.into_boxed_slice(),
            directory: directory.into_boxed_slice(),
            shift,
            size,
            inverse: OnceLock::new(),
        }
    }

    /// Index of the run that holds `rank`, which is below the size.
    #[inline]
    pub(super) fn find(&self, rank: u32) -> usize {
        let bucket = (rank >> self.shift) as usize;
        let (mut low, mut high) =
            (self.directory[bucket] as usize, self.directory[bucket + 1] as usize);
        while low < high {
            let middle = high - (high - low) / 2;
            if self.runs[middle].start <= rank { low = middle } else { high = middle - 1 }
        }
        low
    }

    /// One past the last rank of a run.
    pub(super) fn end(&self, run: usize) -> u32 {
        self.runs.get(run + 1).map_or(self.size, |next| next.start)
    }

    pub(super) fn get(&self, rank: u32) -> u32 {
        let run = self.runs[self.find(rank)];
        Affine { first: run.first, step: run.step }.get(rank - run.start)
    }

    pub(super) fn rank_of(&self, lpid: u32) -> Option<u32> {
        let inverse = self.inverse.get_or_init(|| self.invert());
        let mut at = inverse.lowest.partition_point(|&low| low <= lpid);
        let mut best: Option<u32> = None;
        while at > 0 && inverse.reach[at - 1] >= lpid {
            at -= 1;
            let index = inverse.order[at] as usize;
            let run = self.runs[index];
            let length = self.end(index) - run.start;
            let found = Affine { first: run.first, step: run.step }.rank_of(length, lpid);
            if let Some(rank) = found.map(|offset| run.start + offset) {
                best = Some(best.map_or(rank, |b| b.min(rank)));
            }
        }
        best
    }

    /// Returns true if no two ranks have one lpid, as far as bounds tell: each run goes on, and
    /// all are between others.
    pub(super) fn is_apart(&self) -> bool {
        let goes_on =
            |(index, run): (usize, &Run)| run.step != 0 || self.end(index) - run.start == 1;
        let mut all: Vec<(u32, u32)> =
            (0..self.runs.len()).map(|index| self.bounds(index)).collect();
        all.sort_unstable();
        all.windows(2).all(|pair| pair[0].1 < pair[1].0)
            && self.runs.iter().enumerate().all(goes_on)
    }

    /// The least and the greatest lpid of a run.
    fn bounds(&self, index: usize) -> (u32, u32) {
        let run = self.runs[index];
        let last = Affine { first: run.first, step: run.step }.get(self.end(index) - run.start - 1);
        (run.first.min(last), run.first.max(last))
    }

    #[cold]
    fn invert(&self) -> Inverse {
        let mut order: Box<[u32]> = (0..self.runs.len() as u32).collect();
        order.sort_unstable_by_key(|&index| self.bounds(index as usize));
        let lowest = order.iter().map(|&index| self.bounds(index as usize).0).collect();
        let mut most = 0;
        let reach = order
            .iter()
            .map(|&index| {
                most = self.bounds(index as usize).1.max(most);
                most
            })
            .collect();
        Inverse { order, lowest, reach }
    }

    pub(super) fn bytes(&self) -> usize {
        size_of::<Segments>()
            + size_of_val(&*self.runs)
            + size_of_val(&*self.directory)
            + self.inverse.get().map_or(0, |i| 3 * size_of_val(&*i.order))
    }
}
