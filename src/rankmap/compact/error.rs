//! Why a map cannot be held.

use super::representation::Representation;
use crate::rankmap::error::MapError;
use std::error::Error;
use std::fmt;

/// Why a compact map could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CompactError {
    /// Not a map at all.
    Map(MapError),
    /// The representation asked for cannot hold this map.
    Unfit {
        /// What was asked for.
        representation: Representation,
        /// Ranks of the map.
        size: u32,
        /// What is in the way.
        why: &'static str,
    },
}

impl fmt::Display for CompactError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CompactError::Map(error) => write!(f, "{error}"),
            CompactError::Unfit { representation, size, why } => write!(
                f,
                "{representation} cannot hold this map of {size} ranks: {why}; ask for another \
                 or for a strategy"
            ),
        }
    }
}

impl Error for CompactError {}

impl From<MapError> for CompactError {
    fn from(error: MapError) -> CompactError {
        CompactError::Map(error)
    }
}
