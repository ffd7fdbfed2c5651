//! What can be wrong with a layout.

use super::kernels::Plan;

/// Why a layout could not be made or used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// Offsets, extents or sizes exceed 2^61.
    #[error("{what} of a layout exceeds 2^61 bytes; check counts, strides and displacements")]
    Overflow {
        /// Which value.
        what: &'static str,
    },
    /// Two lists of a constructor have different lengths.
    #[error("{blocks} block lengths for {displacements} displacements; give one for each block")]
    Lists {
        /// Block lengths given.
        blocks: usize,
        /// Displacements given.
        displacements: usize,
    },
    /// A subarray leaves its array.
    #[error(
        "dimension {dimension}: elements {start}..{start}+{subsize} of an array of {size}; \
         start + subsize must not exceed the size"
    )]
    Subarray {
        /// Which dimension, counted from 0.
        dimension: usize,
        /// Elements of the array.
        size: u64,
        /// Elements of the part.
        subsize: u64,
        /// First element of the part.
        start: u64,
    },
    /// A distributed array's description does not fit.
    #[error("dimension {dimension} of a distributed array: {why}")]
    Darray {
        /// Which dimension, counted from 0.
        dimension: usize,
        /// What does not fit.
        why: &'static str,
    },
    /// The memory given does not hold the layout.
    #[error(
        "the layout takes bytes {first}..{end} from its origin, the memory given has {origin} \
         before and {behind} behind it; give all of it, or a smaller count"
    )]
    Bounds {
        /// First byte the layout touches, from its origin.
        first: i64,
        /// One past the last.
        end: i64,
        /// Bytes before the origin.
        origin: usize,
        /// Bytes from the origin on.
        behind: usize,
    },
    /// `RANKWAY_DATATYPE_PLAN` holds nonsense.
    #[error(transparent)]
    Plan(#[from] BadPlan),
    /// A description from elsewhere is not well formed.
    #[error("description of a layout: {why} (word {at} of {words})")]
    Description {
        /// What is wrong.
        why: &'static str,
        /// Where, in words.
        at: usize,
        /// Words of the description.
        words: usize,
    },
}

/// Not a plan, or not one of this machine's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no plan; {variable} takes {takes}", variable = Plan::VARIABLE, takes = Plan::TAKES)]
pub struct BadPlan(pub String);
