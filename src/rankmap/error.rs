//! What can be wrong with a rank map.

use std::error::Error;
use std::fmt;

/// Why a rank map could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MapError {
    /// A process has an lpid that no address vector can hold.
    LpidTooLarge {
        /// Rank in the new map.
        index: u32,
        /// The offending lpid.
        lpid: u32,
        /// The largest lpid allowed ([`super::LPID_MAX`]).
        limit: u32,
    },
    /// More ranks than an MPI communicator can have.
    TooManyRanks {
        /// The largest size allowed ([`super::SIZE_MAX`]).
        limit: u32,
    },
    /// `base + stride · rank` leaves the range of lpids.
    AffineRange {
        /// lpid of rank 0.
        base: u32,
        /// lpid step from one rank to the next.
        stride: i64,
        /// Number of ranks.
        size: u32,
        /// The lpid of the last rank, saturated.
        reached: i64,
        /// The largest lpid allowed.
        limit: u32,
    },
    /// A child names a rank its parent does not have.
    RankOutOfParent {
        /// Rank in the child.
        index: u32,
        /// The rank asked of the parent.
        rank: u32,
        /// Size of the parent.
        size: u32,
    },
    /// A child holds processes instead of ranks of its parent.
    ChildNotRanks {
        /// The child's process group; `None` when it has several.
        pg: Option<u32>,
    },
    /// A range of ranks that the map does not have.
    SliceRange {
        /// First rank.
        start: u32,
        /// One past the last rank.
        end: u32,
        /// Size of the map.
        size: u32,
    },
}

impl fmt::Display for MapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MapError::LpidTooLarge { index, lpid, limit } => write!(
                f,
                "rank {index} maps to lpid {lpid}, above the limit {limit}; lpids number the \
                 processes of one process group from 0"
            ),
            MapError::TooManyRanks { limit } => {
                write!(f, "the map has more than {limit} ranks; split the communicator")
            }
            MapError::AffineRange { base, stride, size, reached, limit } => write!(
                f,
                "base {base} with stride {stride} over {size} ranks reaches lpid {reached}, \
                 outside 0..={limit}; check the sign of the stride and the size"
            ),
            MapError::RankOutOfParent { index, rank, size } => write!(
                f,
                "rank {index} of the child names rank {rank} of a parent of {size} ranks; child \
                 ranks count from 0 in the parent"
            ),
            MapError::ChildNotRanks { pg } => {
                f.write_str("the child holds processes of ")?;
                match pg {
                    Some(pg) => write!(f, "process group {pg}")?,
                    None => f.write_str("several process groups")?,
                }
                f.write_str(
                    ", not ranks of its parent; build it from parent ranks (process group 0)",
                )
            }
            MapError::SliceRange { start, end, size } => {
                write!(f, "the ranks {start}..{end} are not a range of a map of {size} ranks")
            }
        }
    }
}

impl Error for MapError {}
