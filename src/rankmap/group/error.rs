//! What can be wrong with a group.

use crate::rankmap::{MapError, Process};

/// Why a group could not be made, or an operation on groups was refused.
///
/// `index` is the place in the caller's list that is wrong: the first one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GroupError {
    /// A list names a rank that the group does not have.
    #[error("ranks[{index}] is {rank}, but the group has {size} ranks; ranks count from 0")]
    Rank {
        /// Place in the list.
        index: usize,
        /// What stands there.
        rank: u32,
        /// Size of the group.
        size: u32,
    },
    /// A list names a rank twice.
    #[error("ranks[{index}] is rank {rank} again, like ranks[{before}]; name each rank once")]
    Duplicate {
        /// Place in the list, of the second.
        index: usize,
        /// The rank.
        rank: u32,
        /// Place of the first.
        before: usize,
    },
    /// A range goes nowhere.
    #[error("ranges[{index}] has stride 0; give 1 to a range of one rank")]
    Stride {
        /// Place in the list.
        index: usize,
    },
    /// A range goes away from its last rank.
    #[error(
        "ranges[{index}] goes from {first} away from {last} by its stride {stride}; turn the sign of the stride"
    )]
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
    #[error(
        "ranges[{index}] reaches rank {rank}, but the group has {size} ranks; ranks count from 0"
    )]
    RangeRank {
        /// Place in the list.
        index: usize,
        /// The first such rank of the range.
        rank: i64,
        /// Size of the group.
        size: u32,
    },
    /// Two ranges have a rank in common.
    #[error(
        "ranges[{index}] reaches rank {rank} again, like ranges[{before}]; name each rank once"
    )]
    RangeDuplicate {
        /// Place in the list, of the second.
        index: usize,
        /// The first rank of that range that an earlier one has.
        rank: u32,
        /// Place of the first.
        before: usize,
    },
    /// A map that is not of a group: two of its ranks are the same process.
    #[error(
        "rank {rank} is process {process} again, like rank {before}; members of a group differ"
    )]
    Member {
        /// The second rank.
        rank: u32,
        /// The process.
        process: Process,
        /// The first rank.
        before: u32,
    },
    /// As many results as ranks are asked for.
    #[error("{ranks} ranks do not translate into {out} results; give as many results as ranks")]
    Results {
        /// Ranks to translate.
        ranks: usize,
        /// Places for the results.
        out: usize,
    },
    /// The members make no map.
    #[error(transparent)]
    Map(#[from] MapError),
}
