//! Groups: ordered sets of processes, on the compressed maps.
//!
//! A [`Group`] is a [`RankMap`] whose ranks are all different processes. It has
//! the operations of MPI 4.1, section 7.3, with MPI's order:
//!
//! | operation | members, in order | cost |
//! |---|---|---|
//! | [`incl`](Group::incl) | `ranks[0]`, `ranks[1]`, … | the list |
//! | [`excl`](Group::excl) | the ranks not in the list, as they stand | the list, and the segments between |
//! | [`range_incl`](Group::range_incl) | the ranges one after the other, each from its first rank on | the ranges |
//! | [`range_excl`](Group::range_excl) | the ranks in no range, as they stand | the ranges |
//! | [`union`](Group::union) | the first group, then what of the second is not in it | segments |
//! | [`intersection`](Group::intersection) | those of the first that are in the second | segments |
//! | [`difference`](Group::difference) | those of the first that are not in the second | segments |
//! | [`compare`](Group::compare) | | segments; O(1) if the maps are formulas and equal, or sizes differ |
//! | [`translate`](Group::translate) | | one lookup, one inverse |
//! | [`translate_ranks`](Group::translate_ranks) | | two loads a rank, once there are many |
//!
//! *Segments* are the affine runs of the compressed form: 1 for a stride, the
//! blocks of a blockstride, the ranges of a set, the ranks of a table. Segments
//! meet by intervals (both contiguous), by a rounded division (one strided) or by
//! the Chinese remainder theorem (both strided). Where there are more segments
//! than a bitmap of the other group has words (one for 64 lpids), that bitmap is
//! made, and cut and read word by word. Results are detected like any map, so what
//! is regular is a formula again; a result that is one of the groups is that group.
//!
//! ```
//! use rankway::rankmap::group::{Comparison, Group, RankRange};
//!
//! let world = Group::world(1 << 20);
//! // Node leaders of 128 ranks a node, and a window of the world backwards.
//! let leaders = world.range_incl(&[RankRange::new(0, (1 << 20) - 1, 128)])?;
//! let window = world.range_incl(&[RankRange::new(300_000, 200_000, -1)])?;
//! let both = window.intersection(&leaders)?;
//! assert_eq!((both.size(), both.translate(0, &world)?), (781, Some(299_904)));
//! assert_eq!(leaders.union(&both)?, leaders);
//! assert_eq!(world.difference(&leaders)?.size(), (1 << 20) - (1 << 13));
//! let turned = leaders.difference(&both)?.union(&both)?;
//! assert_eq!(turned.compare(&leaders), Comparison::Similar);
//! # Ok::<(), rankway::rankmap::group::GroupError>(())
//! ```
//!
//! This module makes no communicator and sends no message.

mod bits;
mod error;
mod lists;
mod members;
mod progression;
mod ranges;
mod select;
mod translate;
mod walk;

use std::collections::HashMap;

use self::progression::Progression;
use self::select::{push, select};
use self::walk::{Comb, Index, Keep, Walk};
use super::{Detector, Process, RankMap};

pub use self::error::GroupError;
pub use self::ranges::RankRange;

/// An ordered set of processes: `MPI_Group`. As large as a [`RankMap`], and
/// like one shared by reference count.
#[derive(Clone, Debug)]
pub struct Group {
    map: RankMap,
}

/// What [`Group::compare`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Comparison {
    /// `MPI_IDENT`: the same members in the same order.
    Identical,
    /// `MPI_SIMILAR`: the same members in another order.
    Similar,
    /// `MPI_UNEQUAL`.
    Unequal,
}

impl Group {
    /// In the results of [`translate_ranks`](Self::translate_ranks): not a
    /// member. A C layer maps it to its `MPI_UNDEFINED`.
    pub const UNDEFINED: u32 = u32::MAX;
    /// A rank that [`translate_ranks`](Self::translate_ranks) leaves as it is:
    /// `MPI_PROC_NULL`. No group is so large that it has it as a rank.
    pub const PROC_NULL: u32 = u32::MAX - 1;

    /// `MPI_GROUP_EMPTY`. All groups without members are identical to it.
    pub fn empty() -> Group {
        Group { map: RankMap::direct(0) }
    }

    /// The group of a world of `size` processes, lpid = rank in process group 0.
    pub fn world(size: u32) -> Group {
        Group { map: RankMap::direct(size) }
    }

    /// The group of a map.
    ///
    /// # Errors
    /// [`GroupError::Member`] at the first rank that is a process the map has
    /// already.
    pub fn new(map: RankMap) -> Result<Group, GroupError> {
        if !distinct(&map)
            && let Some(error) = repeated(&map)
        {
            return Err(error);
        }
        Ok(Group::of(map))
    }

    /// The group of a map whose ranks are known to differ.
    pub(crate) fn of(map: RankMap) -> Group {
        if map.is_empty() { Group::empty() } else { Group { map } }
    }

    /// The map of the members.
    pub fn map(&self) -> &RankMap {
        &self.map
    }

    /// The map of the members, for a communicator.
    pub fn into_map(self) -> RankMap {
        self.map
    }

    /// Number of members.
    pub fn size(&self) -> u32 {
        self.map.len()
    }

    /// Returns true if there are no members.
    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// The process that is `rank`; `None` from [`size`](Self::size) on.
    pub fn get(&self, rank: u32) -> Option<Process> {
        self.map.get(rank)
    }

    /// The rank of a process; `None` if it is not a member (`MPI_UNDEFINED`).
    pub fn rank_of(&self, process: Process) -> Option<u32> {
        self.map.rank_of(process)
    }

    /// The group of these ranks, in the order of the list.
    ///
    /// # Errors
    /// [`GroupError::Rank`] or [`GroupError::Duplicate`] at the first place of
    /// the list that is wrong.
    pub fn incl(&self, ranks: &[u32]) -> Result<Group, GroupError> {
        lists::check(ranks, self.size())?;
        let child = RankMap::from_lpids(0, ranks.iter().copied())?;
        Ok(Group::of(self.map.compose(&child)?))
    }

    /// The group without these ranks, in its own order.
    ///
    /// # Errors
    /// As [`incl`](Self::incl).
    pub fn excl(&self, ranks: &[u32]) -> Result<Group, GroupError> {
        lists::check(ranks, self.size())?;
        if ranks.is_empty() {
            return Ok(self.clone());
        }
        let child = lists::rest(ranks, self.size())?;
        Ok(Group::of(self.map.compose(&child)?))
    }

    /// The group of the ranks of these ranges, range after range.
    ///
    /// # Errors
    /// At the first range that is wrong: [`GroupError::Stride`],
    /// [`GroupError::Direction`], [`GroupError::RangeRank`],
    /// [`GroupError::RangeDuplicate`].
    pub fn range_incl(&self, ranges: &[RankRange]) -> Result<Group, GroupError> {
        let ranges = ranges::check(ranges, self.size())?;
        let mut child = Detector::new();
        ranges.iter().for_each(|&ranks| push(&mut child, Comb::one(ranks)));
        Ok(Group::of(self.map.compose(&child.finish()?)?))
    }

    /// The group without the ranks of these ranges, in its own order.
    ///
    /// # Errors
    /// As [`range_incl`](Self::range_incl).
    pub fn range_excl(&self, ranges: &[RankRange]) -> Result<Group, GroupError> {
        let ranges = ranges::check(ranges, self.size())?;
        if ranges.is_empty() {
            return Ok(self.clone());
        }
        let all = Progression { first: 0, step: 1, len: self.size() };
        let mut child = Detector::new();
        let index = Index::new(ranges);
        let mut out = |comb| {
            push(&mut child, comb);
            true
        };
        // Nothing can stop a walk of one segment without a budget.
        let _ = Walk::new(&index, Keep::Others, usize::MAX).step(all, &mut out);
        Ok(Group::of(self.map.compose(&child.finish()?)?))
    }

    /// The members of this group, then those of `other` that are not in it, in
    /// their order there.
    ///
    /// # Errors
    /// [`GroupError::Map`] if there are more than a group can have.
    pub fn union(&self, other: &Group) -> Result<Group, GroupError> {
        if other.is_empty() {
            return Ok(self.clone());
        }
        if self.is_empty() {
            return Ok(other.clone());
        }
        Ok(Group::of(select(&other.map, &self.map, Keep::Others, true)?))
    }

    /// The members of this group that `other` has, in their order here.
    ///
    /// # Errors
    /// None are known: the members are those of a group.
    pub fn intersection(&self, other: &Group) -> Result<Group, GroupError> {
        if self.is_empty() || other.is_empty() {
            return Ok(Group::empty());
        }
        Ok(Group::of(select(&self.map, &other.map, Keep::Common, false)?))
    }

    /// The members of this group that `other` has not, in their order here.
    ///
    /// # Errors
    /// None are known: the members are those of a group.
    pub fn difference(&self, other: &Group) -> Result<Group, GroupError> {
        if self.is_empty() || other.is_empty() {
            return Ok(self.clone());
        }
        Ok(Group::of(select(&self.map, &other.map, Keep::Others, false)?))
    }

    /// Whether the members and their order are the same, or the members alone.
    pub fn compare(&self, other: &Group) -> Comparison {
        if self.size() != other.size() {
            return Comparison::Unequal;
        }
        if self.map == other.map {
            return Comparison::Identical;
        }
        // As many, and all different: one within the other is the other.
        if select::within(&self.map, &other.map) {
            Comparison::Similar
        } else {
            Comparison::Unequal
        }
    }

    /// The rank in `other` of this group's `rank`; `None` if that process is
    /// not a member there.
    ///
    /// # Errors
    /// [`GroupError::Rank`] if the group has no such rank.
    pub fn translate(&self, rank: u32, other: &Group) -> Result<Option<u32>, GroupError> {
        match self.map.get(rank) {
            Some(process) => Ok(other.map.rank_of(process)),
            None => Err(GroupError::Rank { index: 0, rank, size: self.size() }),
        }
    }

    /// The ranks in `other` of these ranks: [`UNDEFINED`](Self::UNDEFINED) for
    /// those that are not members there, [`PROC_NULL`](Self::PROC_NULL) for
    /// itself. Where more than one in 64 members is asked for, tables of the two
    /// groups are made and freed again, up to 8 places of 4 bytes for each member
    /// and rank.
    ///
    /// # Errors
    /// [`GroupError::Rank`] at the first rank that the group does not have,
    /// [`GroupError::Results`] unless `out` is as long as `ranks`; `out` is then
    /// as it was.
    pub fn translate_ranks(
        &self,
        ranks: &[u32],
        other: &Group,
        out: &mut [u32],
    ) -> Result<(), GroupError> {
        if ranks.len() != out.len() {
            return Err(GroupError::Results { ranks: ranks.len(), out: out.len() });
        }
        translate::translate(&self.map, ranks, &other.map, out)
    }
}

impl Default for Group {
    fn default() -> Group {
        Group::empty()
    }
}

/// Whether groups are [`Identical`](Comparison::Identical).
impl PartialEq for Group {
    fn eq(&self, other: &Group) -> bool {
        self.map == other.map
    }
}

impl Eq for Group {}

/// Returns true if no process is there twice.
fn distinct(map: &RankMap) -> bool {
    if map.len() < 2 {
        return true;
    }
    if map.as_compact().is_some_and(super::compact::Compact::is_set) {
        return true;
    }
    // A segment of step 0, which no progression is.
    let mut pieces = map.iter();
    while let Some(piece) = pieces.next_piece() {
        if piece.len > 1 && piece.step == 0 {
            return false;
        }
    }
    let words = members::spans(map).words();
    if members::least_segments(map) <= words
        && let Some(distinct) = Index::distinct(members::segments(map), words)
    {
        return distinct;
    }
    members::differ(map)
}

/// Names the first rank that is a process again.
#[cold]
fn repeated(map: &RankMap) -> Option<GroupError> {
    let mut ranks = HashMap::new();
    (0..).zip(map.iter()).find_map(|(rank, process)| {
        let before = ranks.insert(process, rank)?;
        Some(GroupError::Member { rank, process, before })
    })
}
