//! The API of the thesis's Table 3.1 for maps whose lpids come but once.
//!
//! | thesis | here |
//! |---|---|
//! | create, world | [`Builder::new`], [`Builder::world`] |
//! | insert, insert block, insert range | [`Builder::insert`], [`Builder::insert_block`], [`Builder::insert_range`] |
//! | set strategy | [`Builder::set_strategy`] |
//! | iterate, rewind | [`Compact::iter`], [`Iter::rewind`](super::Iter::rewind) |
//! | find, find block, find range | [`Compact::find`], [`Compact::find_block`], [`Compact::find_range`] |
//! | position | [`Compact::position`] |
//! | release | drop |

use super::blocks::{self, Blocks};
use super::error::CompactError;
use super::map::Compact;
use super::stats::Gather;
use super::strategy::Strategy;
use crate::rankmap::error::MapError;
use crate::rankmap::process::{LPID_MAX, SIZE_MAX};
use crate::rankmap::regular::Formula;

/// Takes lpids in rank order and makes a [`Compact`] map of them.
///
/// Until [`finish`](Self::finish) the lpids lie in affine blocks with packed
/// residuals, which are also the working memory: 1.5 bits a rank where they are
/// regular, and never more than 4.2 bytes.
#[derive(Debug)]
pub struct Builder {
    strategy: Strategy,
    radices: Vec<u32>,
    gather: Gather,
    blocks: blocks::Builder,
    pending: Vec<u32>,
}

/// lpids handed on at once.
const PENDING: usize = 256;

impl Default for Builder {
    fn default() -> Builder {
        Builder::new()
    }
}

impl Builder {
    /// An empty map, hybrid strategy.
    pub fn new() -> Builder {
        Builder {
            strategy: Strategy::default(),
            radices: Vec::new(),
            gather: Gather::new(),
            blocks: blocks::Builder::new(),
            pending: Vec::with_capacity(PENDING),
        }
    }

    /// The map of `MPI_COMM_WORLD`: a finished formula.
    pub fn world(size: u32) -> Compact {
        Compact::regular(Formula::direct(size))
    }

    /// What the map is to be good at.
    pub fn set_strategy(&mut self, strategy: Strategy) -> &mut Builder {
        self.strategy = strategy;
        self
    }

    /// The Cartesian topology that the lpids number, the slowest radix first.
    pub fn set_radices(&mut self, radices: &[u32]) -> &mut Builder {
        self.radices = radices.to_vec();
        self
    }

    /// Ranks so far.
    pub fn len(&self) -> u32 {
        self.gather.len().saturating_add(self.pending.len() as u32)
    }

    /// Returns true if there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The next rank is this lpid.
    #[inline]
    pub fn insert(&mut self, lpid: u32) {
        self.pending.push(lpid);
        if self.pending.len() == PENDING {
            self.flush();
        }
    }

    /// The next ranks are these lpids.
    pub fn insert_block(&mut self, lpids: &[u32]) {
        lpids.iter().for_each(|&lpid| self.insert(lpid));
    }

    /// The next `count` ranks are `first`, `first + stride` and so on. A stride
    /// that leads below 0 or past the lpids, or more ranks than a map may have,
    /// are reported by [`finish`](Self::finish).
    pub fn insert_range(&mut self, first: u32, stride: i32, count: u32) {
        if count == 0 {
            return;
        }
        let last = i64::from(first) + i64::from(stride) * (i64::from(count) - 1);
        let outside = |lpid: &i64| !(0..=i64::from(LPID_MAX)).contains(lpid);
        if let Some(reached) = [i64::from(first), last].into_iter().find(outside) {
            let (base, stride, size, limit) = (first, stride.into(), count, LPID_MAX);
            self.gather.fail(MapError::AffineRange { base, stride, size, reached, limit });
        } else if u64::from(self.len()) + u64::from(count) > u64::from(SIZE_MAX) {
            self.gather.fail(MapError::TooManyRanks { limit: SIZE_MAX });
        } else {
            let step = |at| first.wrapping_add((stride as u32).wrapping_mul(at));
            (0..count).for_each(|at| self.insert(step(at)));
        }
    }

    #[inline(never)]
    fn flush(&mut self) {
        self.gather.extend(&self.pending);
        if !self.gather.failed() {
            self.pending.iter().for_each(|&lpid| self.blocks.push(lpid));
        }
        self.pending.clear();
    }

    /// The map.
    ///
    /// # Errors
    /// [`CompactError::Map`] at the first lpid that could not be in a map.
    pub fn finish(mut self) -> Result<Compact, CompactError> {
        self.flush();
        let stats = self.gather.finish()?;
        let staged = self.blocks.finish();
        if staged.len() == 0 {
            return Ok(Builder::world(0));
        }
        let lpids = Staged { blocks: &staged, rank: 0, buffer: [0; blocks::EACH] };
        Ok(Compact::choose(self.strategy, &self.radices, stats, lpids))
    }
}

/// The staged lpids, block by block.
#[derive(Clone)]
struct Staged<'a> {
    blocks: &'a Blocks,
    rank: u32,
    buffer: [u32; blocks::EACH],
}

impl Iterator for Staged<'_> {
    type Item = u32;

    #[inline]
    fn next(&mut self) -> Option<u32> {
        let left = self.blocks.len() - self.rank;
        if left == 0 {
            return None;
        }
        let place = self.rank as usize % blocks::EACH;
        if place == 0 {
            let count = (left as usize).min(blocks::EACH);
            self.blocks.fill(self.rank, &mut self.buffer[..count]);
        }
        self.rank += 1;
        Some(self.buffer[place])
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = (self.blocks.len() - self.rank) as usize;
        (left, Some(left))
    }
}
