//! What can be wrong with a layout.

use super::kernels::Plan;
use std::error::Error;
use std::fmt;

/// Why a layout could not be made or used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LayoutError {
    /// Offsets, extents or sizes exceed 2^61.
    Overflow {
        /// Which value.
        what: &'static str,
    },
    /// Two lists of a constructor have different lengths.
    Lists {
        /// Block lengths given.
        blocks: usize,
        /// Displacements given.
        displacements: usize,
    },
    /// A subarray leaves its array.
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
    Darray {
        /// Which dimension, counted from 0.
        dimension: usize,
        /// What does not fit.
        why: &'static str,
    },
    /// The memory given does not hold the layout.
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
    Plan(BadPlan),
    /// A message's types are not the first of those it is received as.
    Signature {
        /// Elements of the message.
        sent: u64,
        /// Elements of the layout.
        held: u64,
    },
    /// An operation on elements, and a layout of more than one basic type.
    Mixed,
    /// A description from elsewhere is not well formed.
    Description {
        /// What is wrong.
        why: &'static str,
        /// Where, in words.
        at: usize,
        /// Words of the description.
        words: usize,
    },
}

impl fmt::Display for LayoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LayoutError::Overflow { what } => write!(
                f,
                "{what} of a layout exceeds 2^61 bytes; check counts, strides and displacements"
            ),
            LayoutError::Lists { blocks, displacements } => write!(
                f,
                "{blocks} block lengths for {displacements} displacements; give one for each \
                 block"
            ),
            LayoutError::Subarray { dimension, size, subsize, start } => write!(
                f,
                "dimension {dimension}: elements {start}..{start}+{subsize} of an array of \
                 {size}; start + subsize must not exceed the size"
            ),
            LayoutError::Darray { dimension, why } => {
                write!(f, "dimension {dimension} of a distributed array: {why}")
            }
            LayoutError::Bounds { first, end, origin, behind } => write!(
                f,
                "the layout takes bytes {first}..{end} from its origin, the memory given has \
                 {origin} before and {behind} behind it; give all of it, or a smaller count"
            ),
            LayoutError::Plan(error) => write!(f, "{error}"),
            LayoutError::Signature { sent, held } => write!(
                f,
                "a message of {sent} basic elements, whose types are not the first of the {held} \
                 that the receiver's layout has; give both sides the same sequence of basic types"
            ),
            LayoutError::Mixed => write!(
                f,
                "an operation on elements needs a layout of one basic type, this one has several"
            ),
            LayoutError::Description { why, at, words } => {
                write!(f, "description of a layout: {why} (word {at} of {words})")
            }
        }
    }
}

impl Error for LayoutError {}

impl From<BadPlan> for LayoutError {
    fn from(error: BadPlan) -> LayoutError {
        LayoutError::Plan(error)
    }
}

/// Not a plan, or not one of this machine's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadPlan(pub String);

impl fmt::Display for BadPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is no plan; {} takes {}", self.0, Plan::VARIABLE, Plan::TAKES)
    }
}

impl Error for BadPlan {}
