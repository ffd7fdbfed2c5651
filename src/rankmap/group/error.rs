//! What can be wrong with a group.

use crate::rankmap::{MapError, Process};
use std::error::Error;
use std::fmt;

/// Why a group could not be made, or an operation on groups was refused.
///
/// `index` is the place in the caller's list that is wrong: the first one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GroupError {
    /// A list names a rank that the group does not have.
    Rank {
        /// Place in the list.
        index: usize,
        /// What stands there.
        rank: u32,
        /// Size of the group.
        size: u32,
    },
    /// A list names a rank twice.
    Duplicate {
        /// Place in the list, of the second.
        index: usize,
        /// The rank.
        rank: u32,
        /// Place of the first.
        before: usize,
    },
    /// A range goes nowhere.
    Stride {
        /// Place in the list.
        index: usize,
    },
    /// A range goes away from its last rank.
    Direction {
        /// Place in the list.
        index: usize,
        /// First rank.
        first: i32,
        /// Last rank.
        last: i32,
        /// Stride.
        stride: i32,
    },
    /// A range reaches a rank that the group does not have.
    RangeRank {
        /// Place in the list.
        index: usize,
        /// The first such rank of the range.
        rank: i64,
        /// Size of the group.
        size: u32,
    },
    /// Two ranges have a rank in common.
    RangeDuplicate {
        /// Place in the list, of the second.
        index: usize,
        /// The first rank of that range that an earlier one has.
        rank: u32,
        /// Place of the first.
        before: usize,
    },
    /// A map that is not of a group: two of its ranks are the same process.
    Member {
        /// The second rank.
        rank: u32,
        /// The process.
        process: Process,
        /// The first rank.
        before: u32,
    },
    /// As many results as ranks are asked for.
    Results {
        /// Ranks to translate.
        ranks: usize,
        /// Places for the results.
        out: usize,
    },
    /// The members make no map.
    Map(MapError),
}

impl fmt::Display for GroupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GroupError::Rank { index, rank, size } => write!(
                f,
                "ranks[{index}] is {rank}, but the group has {size} ranks; ranks count from 0"
            ),
            GroupError::Duplicate { index, rank, before } => write!(
                f,
                "ranks[{index}] is rank {rank} again, like ranks[{before}]; name each rank once"
            ),
            GroupError::Stride { index } => {
                write!(f, "ranges[{index}] has stride 0; give 1 to a range of one rank")
            }
            GroupError::Direction { index, first, last, stride } => write!(
                f,
                "ranges[{index}] goes from {first} away from {last} by its stride {stride}; turn \
                 the sign of the stride"
            ),
            GroupError::RangeRank { index, rank, size } => write!(
                f,
                "ranges[{index}] reaches rank {rank}, but the group has {size} ranks; ranks \
                 count from 0"
            ),
            GroupError::RangeDuplicate { index, rank, before } => write!(
                f,
                "ranges[{index}] reaches rank {rank} again, like ranges[{before}]; name each \
                 rank once"
            ),
            GroupError::Member { rank, process, before } => write!(
                f,
                "rank {rank} is process {process} again, like rank {before}; members of a group \
                 differ"
            ),
            GroupError::Results { ranks, out } => write!(
                f,
                "{ranks} ranks do not translate into {out} results; give as many results as ranks"
            ),
            GroupError::Map(error) => write!(f, "{error}"),
        }
    }
}

impl Error for GroupError {}

impl From<MapError> for GroupError {
    fn from(error: MapError) -> GroupError {
        GroupError::Map(error)
    }
}
