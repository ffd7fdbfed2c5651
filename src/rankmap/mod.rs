//! Rank maps: rank → (process group, lpid), compressed.
//!
//! A communicator's map says which process each rank is. Written out it costs
//! 4 or 8 bytes a rank in every process; but the maps programs make are nearly
//! always regular (Guo et al. 2017, Table I), and a regular map is a formula.
//! A [`RankMap`] holds the smallest form of its map:
//!
//! | model | form | bytes beside the 32 of the map | lookup | inverse |
//! |---|---|---|---|---|
//! | direct, offset, stride | `base + stride·rank`, any sign | 0 | 1 multiply | O(1) |
//! | blockstride | two digits: blocks of ranks, with a phase | 0 | 3 multiplies | O(1) |
//! | md-blockstride | three or four digits: boxes, planes, transposes | 56 | 2 multiplies a digit | O(1) |
//! | md-blockstride | a tile: up to 64 ranks of any order, repeated at a stride | 40 + 4 a rank of the tile | 3 multiplies | O(1) |
//! | segments | affine runs and a directory, at most one run for 8 ranks | 16–20 a run | a short search | O(log) |
//! | compact | near the entropy, if a strategy asks for it ([`compact`]) | by form | a few ns to some tens | by form |
//! | lut | u32 table, shared by every selection from it | 4 a rank, or 0 | 1 load | O(1), or O(log) |
//! | mlut | (process group, lpid) table, shared likewise | 8 a rank, or 0 | 2 loads | O(1), or O(log) |
//!
//! The models keep the names of Guo et al. (2017), "Memory Compression
//! Techniques for Network Address Management in MPI"; their blockstride and
//! md-blockstride are the mixed-radix affine maps of `mixed.rs`, which also
//! take negative strides, overlapping and repeated blocks (rank → node is one)
//! and maps that begin inside a block. More than four digits are a tile,
//! segments or a table.
//!
//! Maps come from [`RankMap::from_lpids`], [`RankMap::from_processes`] or a
//! [`Detector`] in one streaming pass, or from [`RankMap::compose`]. The form is
//! a function of the map alone: equal regular maps are equal field by field.
//! What the hot path reads is a [`Lookup`], made from a map and an address
//! vector directory. An irregular map is a table unless a [`compact::Strategy`]
//! is given ([`RankMap::with_strategy`], [`RankMap::compressed`]).
//!
//! ```
//! use rankway::rankmap::{Model, Process, RankMap};
//!
//! // Four of every eight ranks of the world, and of those the even ones.
//! let world = RankMap::direct(1 << 20);
//! let half = world.compose(&RankMap::from_lpids(0, (0..1 << 19).map(|r| r / 4 * 8 + r % 4))?)?;
//! assert_eq!(half.model(), Model::BlockStride);
//! let even = half.compose(&RankMap::affine(0, 0, 2, 1 << 18)?)?;
//! assert_eq!(even.get(3), Some(Process { pg: 0, lpid: 10 }));
//! assert_eq!(even.rank_of(Process { pg: 0, lpid: 10 }), Some(3));
//! assert_eq!(even.bytes(), size_of::<RankMap>());
//! # Ok::<(), rankway::rankmap::MapError>(())
//! ```
//!
//! Ordered sets of processes, with MPI's operations, are in [`group`].
//!
//! This module never looks at an address, never blocks, and knows no other module.

mod affine;
pub mod compact;
mod compose;
mod detect;
mod error;
pub mod group;
mod iter;
mod levels;
#[cfg(target_has_atomic = "64")]
mod lookup;
mod mixed;
mod model;
mod odometer;
mod process;
mod segments;
mod table;
#[cfg(test)]
mod tests;
mod tile;

use core::fmt;
use core::ops::Range;
use std::sync::Arc;

use self::affine::Affine;
use self::compact::{Compact, CompactError, Strategy};
use self::mixed::{Block, Mixed};
use self::segments::Segments;
use self::table::View;
use self::tile::Tile;

pub use self::detect::Detector;
pub use self::error::MapError;
pub use self::iter::Iter;
#[cfg(target_has_atomic = "64")]
pub use self::lookup::{Lookup, body};
pub use self::model::Model;
pub use self::process::Process;

/// The largest lpid: ranks and lpids are `int` in MPI.
pub const LPID_MAX: u32 = i32::MAX as u32;
/// The largest size of a map: sizes are `int` in MPI.
pub const SIZE_MAX: u32 = i32::MAX as u32;

/// An immutable map from ranks `0..len` to processes.
///
/// 32 bytes on 64-bit machines; tables lie behind a reference count, so a clone
/// (a duplicated communicator) costs nothing more. `==` compares the maps: two
/// maps are equal when every rank is the same process.
#[derive(Clone)]
pub struct RankMap {
    /// Process group of all ranks; 0 in an mlut, whose table has the groups.
    pg: u32,
    size: u32,
    form: Form,
}

/// The forms. Regular maps have exactly one; an irregular map is never regular.
#[derive(Clone)]
enum Form {
    Affine(Affine),
    Block(Block),
    Mixed(Arc<Mixed>),
    Tile(Arc<Tile>),
    Segments(Arc<Segments>),
    Compact(Arc<Compact>),
    Lut(View<u32>),
    Mlut(View<u64>),
}

#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<RankMap>() == 32);

impl RankMap {
    /// lpid = rank in process group 0: `MPI_COMM_WORLD` and its duplicates.
    ///
    /// Sizes above [`SIZE_MAX`] are cut to it; MPI cannot express them.
    pub fn direct(size: u32) -> RankMap {
        let form = Form::Affine(Affine { first: 0, step: 1 });
        RankMap { pg: 0, size: size.min(SIZE_MAX), form }
    }

    /// lpid = `base + stride · rank` in process group `pg`, stride of any sign.
    ///
    /// # Errors
    /// [`MapError::AffineRange`] if an lpid would leave `0..=`[`LPID_MAX`],
    /// [`MapError::TooManyRanks`] above [`SIZE_MAX`] ranks.
    pub fn affine(pg: u32, base: u32, stride: i64, size: u32) -> Result<RankMap, MapError> {
        if size > SIZE_MAX {
            return Err(MapError::TooManyRanks { limit: SIZE_MAX });
        }
        if size == 0 {
            return Ok(RankMap { pg, ..RankMap::direct(0) });
        }
        let steps = i64::from(size - 1);
        let last = stride.saturating_mul(steps).saturating_add(i64::from(base));
        for reached in [i64::from(base), last] {
            if !(0..=i64::from(LPID_MAX)).contains(&reached) {
                let limit = LPID_MAX;
                return Err(MapError::AffineRange { base, stride, size, reached, limit });
            }
        }
        // With both ends in range and two ranks, the stride is below 2^31.
        let step = if size == 1 { 1 } else { stride as i32 };
        Ok(RankMap { pg, size, form: Form::Affine(Affine { first: base, step }) })
    }

    /// The smallest map of these lpids of process group `pg`, in one pass.
    ///
    /// # Errors
    /// [`MapError::LpidTooLarge`], [`MapError::TooManyRanks`].
    pub fn from_lpids(pg: u32, lpids: impl IntoIterator<Item = u32>) -> Result<RankMap, MapError> {
        let mut detector = Detector::with_pg(pg);
        detector.extend_lpids(lpids);
        detector.finish()
    }

    /// The smallest map of these processes: one of a single group if they share
    /// it, else an mlut.
    ///
    /// # Errors
    /// [`MapError::LpidTooLarge`], [`MapError::TooManyRanks`].
    pub fn from_processes(
        processes: impl IntoIterator<Item = Process>,
    ) -> Result<RankMap, MapError> {
        let mut detector = Detector::new();
        detector.extend_processes(processes);
        detector.finish()
    }

    /// The map of these lpids of process group `pg` in the form `strategy` picks:
    /// a formula if they are regular, like [`from_lpids`](Self::from_lpids), else
    /// a compact form where that is better than a table. The iterator is cloned
    /// and walked twice.
    ///
    /// # Errors
    /// [`CompactError::Map`] for what [`from_lpids`](Self::from_lpids) refuses.
    pub fn with_strategy<I>(strategy: Strategy, pg: u32, lpids: I) -> Result<RankMap, CompactError>
    where
        I: IntoIterator<Item = u32>,
        I::IntoIter: Clone,
    {
        Ok(RankMap { pg, ..Compact::new(strategy, lpids)?.into() })
    }

    /// This map in the form `strategy` picks. Formulas, and maps of several
    /// process groups, stay what they are.
    ///
    /// # Errors
    /// None are known: whatever was a map can be one.
    pub fn compressed(&self, strategy: Strategy) -> Result<RankMap, CompactError> {
        if self.model().is_regular() || self.model() == Model::Mlut {
            return Ok(self.clone());
        }
        RankMap::with_strategy(strategy, self.pg, self.iter().map(|process| process.lpid))
    }

    /// The compact form of this map, if it has one.
    pub fn as_compact(&self) -> Option<&Compact> {
        if let Form::Compact(compact) = &self.form { Some(compact) } else { None }
    }

    /// Number of ranks.
    #[inline]
    pub fn len(&self) -> u32 {
        self.size
    }

    /// Returns true if there are no ranks.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.size == 0
    }

    /// The mapping model, under the paper's name.
    pub fn model(&self) -> Model {
        match &self.form {
            Form::Affine(affine) => affine.model(),
            Form::Block(_) => Model::BlockStride,
            Form::Mixed(mixed) => mixed.model(),
            Form::Tile(_) => Model::MdBlockStride,
            Form::Segments(_) => Model::Segments,
            Form::Compact(_) => Model::Compact,
            Form::Lut(_) => Model::Lut,
            Form::Mlut(_) => Model::Mlut,
        }
    }

    /// The process group of every rank; `None` for an mlut.
    pub fn pg(&self) -> Option<u32> {
        if matches!(self.form, Form::Mlut(_)) { None } else { Some(self.pg) }
    }

    /// The process that is `rank`; `None` from `len()` on.
    ///
    /// The general lookup; operations use a [`Lookup`].
    pub fn get(&self, rank: u32) -> Option<Process> {
        (rank < self.size).then(|| self.at(rank))
    }

    /// `get` of a rank known to be below the size.
    #[inline]
    fn at(&self, rank: u32) -> Process {
        let lpid = match &self.form {
            Form::Affine(affine) => affine.get(rank),
            Form::Block(block) => block.get(rank),
            Form::Mixed(mixed) => mixed.get(rank),
            Form::Tile(tile) => tile.get(rank),
            Form::Segments(segments) => segments.get(rank),
            Form::Compact(compact) => compact.select(rank),
            Form::Lut(view) => view.get(rank),
            Form::Mlut(view) => return Process::unpack(view.get(rank)),
        };
        Process { pg: self.pg, lpid }
    }

    /// The rank of a process, the smallest if it has several; `None` if it has
    /// none.
    ///
    /// O(1) for regular maps. Segments and tables build an index on the first
    /// call, shared by all maps that share the table: segments and tables that
    /// repeat a process or whose lpids lie far apart search it, other tables count
    /// the lpids below in a bitmap (4 bytes a rank and 0.14 for each lpid spanned).
    pub fn rank_of(&self, process: Process) -> Option<u32> {
        if self.size == 0 {
            return None;
        }
        if let Form::Mlut(view) = &self.form {
            return view.rank_of(self.size, process.pack());
        }
        if process.pg != self.pg {
            return None;
        }
        match &self.form {
            Form::Affine(affine) => affine.rank_of(self.size, process.lpid),
            Form::Block(block) => block.widen().rank_of(self.size, process.lpid),
            Form::Mixed(mixed) => mixed.rank_of(self.size, process.lpid),
            Form::Tile(tile) => tile.rank_of(self.size, process.lpid),
            Form::Segments(segments) => segments.rank_of(process.lpid),
            Form::Compact(compact) => compact.position(process.lpid),
            Form::Lut(view) => view.rank_of(self.size, process.lpid),
            Form::Mlut(_) => None,
        }
    }

    /// The processes in rank order, without a lookup for each.
    pub fn iter(&self) -> Iter<'_> {
        Iter::new(self)
    }

    /// A process that more than one rank names, if there is any; members of a
    /// communicator are all different. Regular maps are checked without
    /// memory, tables through a sorted copy.
    pub fn duplicate(&self) -> Option<Process> {
        match self.model() {
            Model::Direct | Model::Offset | Model::Stride => {
                (self.len() > 1 && self.get(0) == self.get(1)).then(|| self.get(0))?
            }
            Model::BlockStride | Model::MdBlockStride | Model::Segments => {
                let second = |(rank, p): &(u32, Process)| self.rank_of(*p) != Some(*rank);
                (0..).zip(self.iter()).find(second).map(|(_, p)| p)
            }
            Model::Compact if self.as_compact().is_some_and(Compact::is_set) => None,
            Model::Compact | Model::Lut | Model::Mlut => {
                let mut all: Vec<Process> = self.iter().collect();
                all.sort_unstable();
                all.windows(2).find(|w| w[0] == w[1]).map(|w| w[0])
            }
        }
    }

    /// This map from the last rank to the first.
    pub fn reversed(&self) -> RankMap {
        if self.size == 0 {
            return self.clone();
        }
        self.select(Affine { first: self.size - 1, step: -1 }, self.size)
    }

    /// The ranks of a range, renumbered from 0.
    ///
    /// # Errors
    /// [`MapError::SliceRange`] unless `start <= end <= len()`.
    pub fn slice(&self, range: Range<u32>) -> Result<RankMap, MapError> {
        let Range { start, end } = range;
        if start > end || end > self.size {
            return Err(MapError::SliceRange { start, end, size: self.size });
        }
        Ok(self.select(Affine { first: start, step: 1 }, end - start))
    }

    /// Bytes of this map: itself and everything on the heap it holds alone or
    /// together with others, an inverse index included once it was made.
    pub fn bytes(&self) -> usize {
        size_of::<RankMap>() + self.heap_bytes()
    }

    /// Of [`bytes`](Self::bytes), those that other maps hold too at the moment.
    pub fn shared_bytes(&self) -> usize {
        let holders = match &self.form {
            Form::Affine(_) | Form::Block(_) => 1,
            Form::Mixed(mixed) => Arc::strong_count(mixed),
            Form::Tile(tile) => Arc::strong_count(tile),
            Form::Segments(segments) => Arc::strong_count(segments),
            Form::Compact(compact) => Arc::strong_count(compact),
            Form::Lut(view) => Arc::strong_count(&view.table),
            Form::Mlut(view) => Arc::strong_count(&view.table),
        };
        match &self.form {
            _ if holders > 1 => self.heap_bytes(),
            Form::Compact(compact) => compact.shared_bytes(),
            _ => 0,
        }
    }

    fn heap_bytes(&self) -> usize {
        let counts = 2 * size_of::<usize>();
        match &self.form {
            Form::Affine(_) | Form::Block(_) => 0,
            Form::Mixed(mixed) => counts + size_of_val(&**mixed),
            Form::Tile(tile) => counts + size_of_val(&**tile) + size_of_val(&*tile.lpids),
            Form::Segments(segments) => counts + segments.bytes(),
            Form::Compact(compact) => counts + compact.bytes(),
            Form::Lut(view) => view.heap_bytes(),
            Form::Mlut(view) => view.heap_bytes(),
        }
    }
}

/// In process group 0. Formulas, segments and tables become the map's own.
impl From<Compact> for RankMap {
    fn from(compact: Compact) -> RankMap {
        compact.into_map()
    }
}

impl PartialEq for RankMap {
    fn eq(&self, other: &RankMap) -> bool {
        if self.size != other.size || self.pg() != other.pg() {
            return false;
        }
        match (&self.form, &other.form) {
            (Form::Affine(a), Form::Affine(b)) => a == b,
            (Form::Block(a), Form::Block(b)) => a == b,
            (Form::Mixed(a), Form::Mixed(b)) => a == b,
            (Form::Tile(a), Form::Tile(b)) => a == b,
            (Form::Segments(a), Form::Segments(b)) => Arc::ptr_eq(a, b) || a.runs == b.runs,
            (Form::Compact(a), Form::Compact(b)) if Arc::ptr_eq(a, b) => true,
            (Form::Lut(a), Form::Lut(b)) if a.same(b) => true,
            (Form::Mlut(a), Form::Mlut(b)) if a.same(b) => true,
            // A view may hold what a fresh detection would keep as segments.
            (
                Form::Segments(_) | Form::Compact(_) | Form::Lut(_) | Form::Mlut(_),
                Form::Segments(_) | Form::Compact(_) | Form::Lut(_) | Form::Mlut(_),
            ) => self.iter().eq(other.iter()),
            // A compact form that was asked for by name may be of a regular map.
            (Form::Compact(_), _) | (_, Form::Compact(_)) => self.iter().eq(other.iter()),
            _ => false,
        }
    }
}

impl Eq for RankMap {}

impl fmt::Debug for RankMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("RankMap");
        out.field("model", &format_args!("{}", self.model())).field("size", &self.size);
        match &self.form {
            Form::Mlut(view) => out.field("start", &view.start).field("step", &view.step),
            _ => out.field("pg", &self.pg),
        };
        match &self.form {
            Form::Affine(a) => out.field("base", &a.first).field("stride", &a.step),
            Form::Block(b) => out.field("block", b),
            Form::Mixed(m) => out.field("mixed", m),
            Form::Tile(t) => out.field("tile", t),
            Form::Segments(s) => out.field("runs", &s.runs.len()),
            Form::Compact(c) => out.field("compact", c),
            Form::Lut(view) => out.field("start", &view.start).field("step", &view.step),
            Form::Mlut(_) => &mut out,
        };
        out.finish()
    }
}

impl<'a> IntoIterator for &'a RankMap {
    type Item = Process;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}
