//! [`RankMap`]: one of the forms, whichever holds the map in the fewest bytes.

use core::fmt;
use core::ops::Range;
use std::sync::Arc;

use super::affine::{Affine, Piece};
use super::compact::{Compact, CompactError, Simplest, Strategy};
use super::detect::{self, Detected, Detector};
use super::error::MapError;
use super::irregular::Found;
use super::model::Model;
use super::numbering::Numbering;
use super::process::{LPID_MAX, Process, SIZE_MAX};
use super::regular::{Formula, Regular};
use super::several::{Numbers, Several};
use super::table::View;

/// An immutable map from ranks `0..len` to processes.
///
/// 32 bytes on 64-bit machines; tables lie behind a reference count, so a clone
/// (a duplicated communicator) costs nothing more. `==` compares the maps: two
/// maps are equal when every rank is the same process.
#[derive(Clone)]
pub struct RankMap {
    /// Process group of all ranks; 0 in an mlut, whose form has the groups.
    pub(super) pg: u32,
    pub(super) size: u32,
    pub(super) form: Form,
}

/// The forms. Regular maps have exactly one; an irregular map is never regular.
#[derive(Clone)]
pub(super) enum Form {
    /// Inside it is the tag of both.
    Regular(Regular),
    Compact(Arc<Compact>),
    Lut(View<u32>),
    /// Of several process groups, and no table of them.
    Several(Arc<Several>),
    Mlut(View<u64>),
}

impl Form {
    /// Returns true if no rank is written down, of segments too.
    pub(super) fn is_formula(&self) -> bool {
        match self {
            Form::Regular(_) => true,
            Form::Several(several) => matches!(several.numbers, Numbers::Regular(_)),
            Form::Compact(_) | Form::Lut(_) | Form::Mlut(_) => false,
        }
    }
}

#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<RankMap>() == 32);

/// Ranks of the largest table that [`Strategy::Auto`] keeps, of one process group and of
/// several.
const TABLE_RANKS: usize = Strategy::TABLE_MAX / size_of::<u32>();
const SEVERAL_RANKS: usize = Strategy::TABLE_MAX / size_of::<u64>();

impl RankMap {
    /// lpid = rank in process group 0: `MPI_COMM_WORLD` and its duplicates.
    ///
    /// Sizes above [`SIZE_MAX`] are cut to it; MPI cannot express them.
    pub fn direct(size: u32) -> RankMap {
        let form = Form::Regular(Regular::Affine(Affine { first: 0, step: 1 }));
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
        let form = Form::Regular(Regular::Affine(Affine { first: base, step }));
        Ok(RankMap { pg, size, form })
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

    /// The smallest map of these lpids, which becomes the owner of the list if
    /// that is a table; all are valid.
    pub(super) fn from_table(pg: u32, lpids: Vec<u32>) -> Result<RankMap, MapError> {
        detect::table(pg, lpids).map(RankMap::from)
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
        let lpids = lpids.into_iter();
        if strategy == Strategy::Auto && lpids.clone().nth(TABLE_RANKS).is_none() {
            return Ok(RankMap::from_lpids(pg, lpids)?);
        }
        Ok(RankMap { pg, ..Compact::new(strategy, lpids)?.into() })
    }

    /// This map in the form `strategy` picks. Formulas stay what they are.
    ///
    /// # Errors
    /// None are known: whatever was a map can be one.
    pub fn compressed(&self, strategy: Strategy) -> Result<RankMap, CompactError> {
        let kept = match &self.form {
            Form::Lut(_) => TABLE_RANKS,
            Form::Mlut(_) => SEVERAL_RANKS,
            _ => usize::MAX,
        };
        if strategy == Strategy::Auto && self.size as usize <= kept {
            return Ok(self.clone());
        }
        match &self.form {
            Form::Mlut(_) => self.numbered(strategy),
            Form::Several(_) => Ok(self.clone()),
            Form::Regular(form) if form.model().is_regular() => Ok(self.clone()),
            _ => RankMap::with_strategy(strategy, self.pg, self.iter().map(|one| one.lpid)),
        }
    }

    /// [`compressed`](Self::compressed) where there is a strategy, else as it is.
    ///
    /// # Errors
    /// As [`compressed`](Self::compressed).
    pub fn held_as(self, strategy: Option<Strategy>) -> Result<RankMap, CompactError> {
        match strategy {
            Some(strategy) => self.compressed(strategy),
            None => Ok(self),
        }
    }

    /// A table of several process groups as the compact form of their numbers, where there is
    /// one in less memory.
    fn numbered(&self, strategy: Strategy) -> Result<RankMap, CompactError> {
        let one = |process| Piece { first: process, step: 1, len: 1 };
        let Some(numbering) = Numbering::new(self.iter().map(one)) else {
            return Ok(self.clone());
        };
        let number = |process| numbering.number(process).unwrap_or_default();
        let numbers = match Compact::new(strategy, self.iter().map(number))?.simplest() {
            Simplest::Regular(form) => Numbers::Regular(form),
            Simplest::Compact(compact) => Numbers::Compact(Box::new(compact)),
            Simplest::Lpids(_) => return Ok(self.clone()),
        };
        let several = Several { numbering, numbers };
        if several.heap_bytes() >= self.size as usize * size_of::<u64>() {
            return Ok(self.clone());
        }
        Ok(RankMap { form: Form::Several(Arc::new(several)), ..*self })
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
            Form::Regular(form) => form.model(),
            Form::Compact(_) => Model::Compact,
            Form::Lut(_) => Model::Lut,
            Form::Several(_) | Form::Mlut(_) => Model::Mlut,
        }
    }

    /// The process group of every rank; `None` for an mlut.
    pub fn pg(&self) -> Option<u32> {
        (self.model() != Model::Mlut).then_some(self.pg)
    }

    /// The process that is `rank`; `None` from `len()` on.
    ///
    /// The general lookup; operations use a [`Lookup`](super::Lookup).
    pub fn get(&self, rank: u32) -> Option<Process> {
        (rank < self.size).then(|| self.at(rank))
    }

    /// `get` of a rank known to be below the size.
    #[inline]
    pub(super) fn at(&self, rank: u32) -> Process {
        let lpid = match &self.form {
            Form::Regular(form) => form.get(rank),
            Form::Compact(compact) => compact.select(rank),
            Form::Lut(view) => view.get(rank),
            Form::Several(several) => return several.get(rank),
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
        let own = process.pg == self.pg;
        match &self.form {
            Form::Several(several) => several.rank_of(self.size, process),
            Form::Mlut(view) => view.rank_of(self.size, process.pack()),
            Form::Regular(form) if own => form.rank_of(self.size, process.lpid),
            Form::Compact(compact) if own => compact.position(process.lpid),
            Form::Lut(view) if own => view.rank_of(self.size, process.lpid),
            _ => None,
        }
    }

    /// [`rank_of`](Self::rank_of) asked once: one search of a table is not worth an index.
    #[cfg_attr(not(feature = "device"), allow(dead_code, reason = "communicators' alone"))]
    pub(crate) fn find(&self, process: Process) -> Option<u32> {
        if self.form.is_formula() {
            return self.rank_of(process);
        }
        (0..).zip(self).find(|&(_, other)| other == process).map(|(rank, _)| rank)
    }

    /// A process that more than one rank names, if there is any; members of a
    /// communicator are all different. Of a formula whose digits nest that is known at once,
    /// others are looked at rank by rank, tables through a sorted copy.
    pub fn duplicate(&self) -> Option<Process> {
        match &self.form {
            Form::Regular(form) if self.size == 0 || form.is_apart(self.size) => None,
            Form::Several(several) if several.is_apart(self.size) => None,
            form if form.is_formula() => {
                let second = |(rank, p): &(u32, Process)| self.rank_of(*p) != Some(*rank);
                (0..).zip(self.iter()).find(second).map(|(_, p)| p)
            }
            Form::Compact(compact) if compact.is_set() => None,
            _ => {
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
            Form::Regular(form) => form.holders(),
            Form::Compact(compact) => Arc::strong_count(compact),
            Form::Lut(view) => Arc::strong_count(&view.table),
            Form::Several(several) => Arc::strong_count(several),
            Form::Mlut(view) => Arc::strong_count(&view.table),
        };
        match &self.form {
            _ if holders > 1 => self.heap_bytes(),
            Form::Compact(compact) => compact.shared_bytes(),
            _ => 0,
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        match &self.form {
            Form::Regular(form) => form.heap_bytes(),
            Form::Compact(compact) => 2 * size_of::<usize>() + compact.bytes(),
            Form::Lut(view) => view.heap_bytes(),
            Form::Several(several) => several.heap_bytes(),
            Form::Mlut(view) => view.heap_bytes(),
        }
    }
}

impl Detector {
    /// The map of everything pushed.
    ///
    /// # Errors
    /// The first rank that could not be part of a map, see [`MapError`].
    pub fn finish(self) -> Result<RankMap, MapError> {
        self.detected().map(RankMap::from)
    }
}

impl From<Detected> for RankMap {
    fn from(detected: Detected) -> RankMap {
        let Detected { pg, size, form } = detected;
        let form = match form {
            Found::Regular(form) => Form::Regular(form),
            Found::Lpids(table) => Form::Lut(View::new(table)),
            Found::Numbers(numbering, form) => {
                let numbers = Numbers::Regular(form);
                Form::Several(Arc::new(Several { numbering, numbers }))
            }
            Found::Processes(table) => Form::Mlut(View::new(table)),
        };
        RankMap { pg, size, form }
    }
}

/// In process group 0. Formulas, segments and tables become the map's own.
impl From<Compact> for RankMap {
    fn from(compact: Compact) -> RankMap {
        let size = compact.len();
        let form = match compact.simplest() {
            Simplest::Regular(form) => Form::Regular(form),
            Simplest::Lpids(lpids) => Form::Lut(View::new(lpids)),
            Simplest::Compact(compact) => Form::Compact(Arc::new(compact)),
        };
        RankMap { pg: 0, size, form }
    }
}

/// Of process group 0, if it is no table.
impl TryFrom<RankMap> for Compact {
    type Error = RankMap;

    fn try_from(map: RankMap) -> Result<Compact, RankMap> {
        match map.form {
            Form::Lut(_) | Form::Several(_) | Form::Mlut(_) => Err(map),
            Form::Compact(compact) => Ok(Arc::unwrap_or_clone(compact)),
            Form::Regular(form) => Ok(Compact::regular(Formula { size: map.size, form })),
        }
    }
}

impl PartialEq for RankMap {
    fn eq(&self, other: &RankMap) -> bool {
        if self.size != other.size || self.pg() != other.pg() {
            return self.is_empty() && other.is_empty();
        }
        match (&self.form, &other.form) {
            (Form::Regular(a), Form::Regular(b)) => a == b,
            (Form::Compact(a), Form::Compact(b)) if Arc::ptr_eq(a, b) => true,
            (Form::Lut(a), Form::Lut(b)) if a.same(b) => true,
            (Form::Mlut(a), Form::Mlut(b)) if a.same(b) => true,
            (Form::Several(a), Form::Several(b)) if a == b => true,
            (Form::Regular(regular), Form::Lut(_) | Form::Mlut(_))
            | (Form::Lut(_) | Form::Mlut(_), Form::Regular(regular))
                if !matches!(regular, Regular::Segments(_)) =>
            {
                false
            }
            // A view may hold what a fresh detection would keep as segments; a
            // compact form that was asked for by name may be of a regular map.
            _ => self.iter().eq(other.iter()),
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
            Form::Several(several) => out.field("several", several),
            _ => out.field("pg", &self.pg),
        };
        match &self.form {
            Form::Regular(Regular::Affine(a)) => {
                out.field("base", &a.first).field("stride", &a.step)
            }
            Form::Regular(Regular::Segments(s)) => out.field("runs", &s.runs.len()),
            Form::Regular(form) => out.field("form", form),
            Form::Compact(c) => out.field("compact", c),
            Form::Lut(view) => out.field("start", &view.start).field("step", &view.step),
            Form::Several(_) | Form::Mlut(_) => &mut out,
        };
        out.finish()
    }
}
