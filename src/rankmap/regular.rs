//! Regular forms and segments: maps of which no lpid is written down.
//!
//! What detection finds and composition computes. [`RankMap`](super::RankMap)
//! holds them beside compact forms and tables, and a compact map may be one of
//! them ([`Formula`]); so they stand below both.

use std::sync::Arc;

use super::affine::{Affine, Piece};
use super::mixed::{Block, Mixed};
use super::model::Model;
use super::odometer::Odometer;
use super::process::{Process, SIZE_MAX};
use super::segments::{RANKS_PER_RUN, Run, Segments};
use super::tile::Tile;

/// A regular map has exactly one of these, an irregular one segments or none.
#[derive(Clone, Debug)]
pub(super) enum Regular {
    Affine(Affine),
    Block(Block),
    Mixed(Arc<Mixed>),
    Tile(Arc<Tile>),
    Segments(Arc<Segments>),
}

impl From<Mixed> for Regular {
    fn from(mixed: Mixed) -> Regular {
        match mixed.narrow() {
            Some(block) => Regular::Block(block),
            None => Regular::Mixed(Arc::new(mixed)),
        }
    }
}

impl Regular {
    pub(super) fn model(&self) -> Model {
        match self {
            Regular::Affine(affine) => affine.model(),
            Regular::Block(_) => Model::BlockStride,
            Regular::Mixed(mixed) => mixed.model(),
            Regular::Tile(_) => Model::MdBlockStride,
            Regular::Segments(_) => Model::Segments,
        }
    }

    /// The lpid of a rank known to be below the size.
    #[inline]
    pub(super) fn get(&self, rank: u32) -> u32 {
        match self {
            Regular::Affine(affine) => affine.get(rank),
            Regular::Block(block) => block.get(rank),
            Regular::Mixed(mixed) => mixed.get(rank),
            Regular::Tile(tile) => tile.get(rank),
            Regular::Segments(segments) => segments.get(rank),
        }
    }

    /// The smallest rank of an lpid, in a map of so many ranks, at least one.
    pub(super) fn rank_of(&self, size: u32, lpid: u32) -> Option<u32> {
        match self {
            Regular::Affine(affine) => affine.rank_of(size, lpid),
            Regular::Block(block) => block.widen().rank_of(size, lpid),
            Regular::Mixed(mixed) => mixed.rank_of(size, lpid),
            Regular::Tile(tile) => tile.rank_of(size, lpid),
            Regular::Segments(segments) => segments.rank_of(lpid),
        }
    }

    /// Returns true if no two ranks of a map of so many, at least one, have one lpid, as far as
    /// that is told without a look at each.
    pub(super) fn is_apart(&self, size: u32) -> bool {
        match self {
            Regular::Affine(affine) => affine.step != 0 || size == 1,
            Regular::Block(block) => block.widen().nests(size),
            Regular::Mixed(mixed) => mixed.nests(size),
            Regular::Tile(tile) => tile.is_apart(),
            Regular::Segments(segments) => segments.is_apart(),
        }
    }

    /// `base + stride · self`, if that has the same form; the caller has checked
    /// that lpids stay in range.
    pub(super) fn scaled(&self, base: u32, stride: i32) -> Option<Regular> {
        match self {
            Regular::Block(block) => Some(block.widen().scaled(base, stride).into()),
            Regular::Mixed(mixed) => Some(mixed.scaled(base, stride).into()),
            Regular::Tile(tile) => Some(Regular::Tile(Arc::new(tile.scaled(base, stride)))),
            Regular::Affine(_) | Regular::Segments(_) => None,
        }
    }

    /// The affine run that a rank of a map of so many is in: its step, and the
    /// first and last rank that it spans.
    pub(super) fn run_around(&self, rank: u32, size: u32) -> (i32, u32, u32) {
        match self {
            Regular::Affine(affine) => (affine.step, 0, size - 1),
            Regular::Block(block) => span(rank, block.step, block.block, block.phase),
            Regular::Mixed(mixed) => span(rank, mixed.step[0], mixed.radix[0], mixed.phase),
            Regular::Tile(_) => (1, rank, rank),
            Regular::Segments(segments) => {
                let index = segments.find(rank);
                let run = segments.runs[index];
                (run.step, run.start, segments.end(index) - 1)
            }
        }
    }

    /// At least so many runs a map of so many ranks has, told in constant time.
    pub(super) fn least_runs(&self, ranks: usize) -> usize {
        match self {
            Regular::Affine(_) => 1,
            Regular::Block(block) => ranks / block.block as usize + 1,
            Regular::Mixed(mixed) => ranks / mixed.radix[0] as usize + 1,
            Regular::Tile(_) => ranks / RANKS_PER_RUN as usize,
            Regular::Segments(segments) => segments.runs.len(),
        }
    }

    /// How many maps hold what is on the heap.
    pub(super) fn holders(&self) -> usize {
        match self {
            Regular::Affine(_) | Regular::Block(_) => 1,
            Regular::Mixed(mixed) => Arc::strong_count(mixed),
            Regular::Tile(tile) => Arc::strong_count(tile),
            Regular::Segments(segments) => Arc::strong_count(segments),
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let counts = 2 * size_of::<usize>();
        match self {
            Regular::Affine(_) | Regular::Block(_) => 0,
            Regular::Mixed(mixed) => counts + size_of_val(&**mixed),
            Regular::Tile(tile) => counts + size_of_val(&**tile) + size_of_val(&*tile.lpids),
            Regular::Segments(segments) => counts + segments.bytes(),
        }
    }

    /// Its affine runs in rank order.
    pub(super) fn runs(&self) -> Runs<'_> {
        match self {
            Regular::Affine(affine) => Runs::Affine(*affine),
            Regular::Block(block) => Runs::Mixed(Odometer::new(&block.widen()), block.step),
            Regular::Mixed(mixed) => Runs::Mixed(Odometer::new(mixed), mixed.step[0]),
            Regular::Tile(tile) => Runs::Tile(tile, 0, 0),
            Regular::Segments(segments) => Runs::Segments(&segments.runs),
        }
    }
}

/// Step, first and last rank of the block around `rank`; saturating at the ends
/// of the map, which the caller stays inside anyway.
fn span(rank: u32, step: i32, block: u32, phase: u32) -> (i32, u32, u32) {
    let inside = ((u64::from(rank) + u64::from(phase)) % u64::from(block)) as u32;
    (step, rank.saturating_sub(inside), rank.saturating_add(block - 1 - inside))
}

impl PartialEq for Regular {
    fn eq(&self, other: &Regular) -> bool {
        match (self, other) {
            (Regular::Affine(a), Regular::Affine(b)) => a == b,
            (Regular::Block(a), Regular::Block(b)) => a == b,
            (Regular::Mixed(a), Regular::Mixed(b)) => a == b,
            (Regular::Tile(a), Regular::Tile(b)) => a == b,
            (Regular::Segments(a), Regular::Segments(b)) => Arc::ptr_eq(a, b) || a.runs == b.runs,
            _ => false,
        }
    }
}

/// The affine runs of a regular form, in rank order and without end.
#[derive(Clone, Debug)]
pub(super) enum Runs<'a> {
    Affine(Affine),
    /// The digits, and their step inside a run.
    Mixed(Odometer, i32),
    /// The tile, the place in it and what the lpids there have grown by.
    Tile(&'a Tile, usize, u32),
    Segments(&'a [Run]),
}

impl Runs<'_> {
    /// First lpid, step and length of the next run. The last run of a map is
    /// longer than the map.
    #[inline]
    pub(super) fn next_run(&mut self) -> (u32, i32, u32) {
        match self {
            Runs::Affine(affine) => (affine.first, affine.step, u32::MAX),
            Runs::Mixed(odometer, step) => {
                let (first, run) = odometer.advance();
                (first, *step, run)
            }
            Runs::Tile(tile, place, grown) => {
                let lpid = tile.lpids[*place].wrapping_add(*grown);
                *place += 1;
                if *place == tile.lpids.len() {
                    *place = 0;
                    *grown = grown.wrapping_add(tile.growth as u32);
                }
                (lpid, 1, 1)
            }
            Runs::Segments(runs) => {
                let Some((run, rest)) = runs.split_first() else { return (0, 1, u32::MAX) };
                *runs = rest;
                (run.first, run.step, rest.first().map_or(u32::MAX, |next| next.start - run.start))
            }
        }
    }
}

/// A regular form or segments, with the size: a whole map of process group 0.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Formula {
    pub(super) size: u32,
    pub(super) form: Regular,
}

impl Formula {
    /// lpid = rank; sizes above [`SIZE_MAX`] are cut to it.
    pub(super) fn direct(size: u32) -> Formula {
        let form = Regular::Affine(Affine { first: 0, step: 1 });
        Formula { size: size.min(SIZE_MAX), form }
    }

    pub(super) fn len(&self) -> u32 {
        self.size
    }

    pub(super) fn rank_of(&self, lpid: u32) -> Option<u32> {
        if self.size == 0 { None } else { self.form.rank_of(self.size, lpid) }
    }

    /// The affine runs in rank order.
    pub(super) fn pieces(&self) -> impl Iterator<Item = Piece> + '_ {
        let (mut runs, mut left) = (self.form.runs(), self.size);
        core::iter::from_fn(move || {
            if left == 0 {
                return None;
            }
            let (lpid, step, run) = runs.next_run();
            let len = run.min(left);
            left -= len;
            Some(Piece { first: Process { pg: 0, lpid }, step, len })
        })
    }
}
