//! Why a map cannot be held.

use super::representation::Representation;
use crate::rankmap::error::MapError;

/// Why a compact map could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompactError {
    /// Not a map at all.
    #[error(transparent)]
    Map(#[from] MapError),
    /// The representation asked for cannot hold this map.
    #[error(
        "{representation} cannot hold this map of {size} ranks: {why}; ask for another or for a strategy"
    )]
    Unfit {
        /// What was asked for.
        representation: Representation,
        /// Ranks of the map.
        size: u32,
        /// What is in the way.
        why: &'static str,
    },
}
