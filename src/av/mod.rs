//! The address vector: the network address of each process, eight bytes each.
//!
//! A process is named by *(process group, lpid)*. For each process group there
//! is one dense array of 64-bit entries, and one directory holds the arrays by
//! pgid. An entry is the network address with the transport bits folded in
//! ([`Entry`]), so that one load tells both where a peer is and how it is
//! reached.
//!
//! Tables are demand-zero memory: a page nobody wrote costs nothing, and entry
//! 0 means "not inserted yet". Neither tables nor the directory ever move, so
//! lookups need no lock while other threads insert, grow or add groups.
//!
//! This module never calls a network library: what an address means, and when a
//! peer is inserted, is decided above. It uses only [`crate::rankmap`].
//!
//! ```
//! use rankway::av::{AddressVector, Entry, Transport};
//! use rankway::rankmap::Process;
//!
//! let av = AddressVector::new()?;
//! let world = av.add(4, 1024)?; // a process group of 4, which may grow to 1024
//! let peer = Process::new(world, 3);
//! assert!(av.get(peer)?.is_empty()); // not inserted yet
//! av.set(peer, Entry::index(42, Transport::Network)?)?;
//! assert_eq!(av.get(peer)?.network_index(), Some(42));
//! # Ok::<(), rankway::av::AvError>(())
//! ```
//!
//! After Guo et al. 2017, *Memory Compression Techniques for Network Address
//! Management in MPI*, whose entries take 12 bytes and are filled eagerly.

mod entry;
mod groups;
mod table;

pub use entry::{Entry, Transport};
pub use groups::{AddressVector, MAX_GROUPS};
pub use table::Table;

use std::error::Error;
use std::fmt;

/// What can be wrong with an address or with the place it should go to.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum AvError {
    /// An index that does not fit beside the transport bit.
    Index(u64),
    /// A handle whose low bits are in use, or null.
    Handle(u64),
    /// Transport bits that need more than the three a handle leaves.
    TransportBits(u8),
    /// A process group that was never added, or was removed.
    NoGroup(u32),
    /// An lpid past the end of its process group.
    Lpid {
        /// The process group.
        pg: u32,
        /// The lpid asked for.
        lpid: u32,
        /// How many processes the group has.
        size: u32,
    },
    /// More process groups at one time than the directory holds.
    TooManyGroups,
    /// Growth past what was reserved for the table.
    Capacity {
        /// Entries reserved.
        capacity: u32,
        /// Entries asked for.
        wanted: u32,
    },
    /// The system refused the memory.
    Memory {
        /// Bytes of address space asked for.
        bytes: usize,
        /// The system's own words.
        reason: String,
    },
}

impl fmt::Display for AvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AvError::Index(address) => write!(
                f,
                "the address {address:#x} does not fit in 63 bits beside the transport bit"
            ),
            AvError::Handle(handle) => write!(
                f,
                "the handle {handle:#x} is null or not aligned to 8 bytes; its low 3 bits carry \
                 the transport"
            ),
            AvError::TransportBits(bits) => {
                write!(f, "transport bits {bits:#x} do not fit in the low 3 bits of a handle")
            }
            AvError::NoGroup(pg) => write!(
                f,
                "process group {pg} does not exist; add it before looking up or inserting"
            ),
            AvError::Lpid { pg, lpid, size } => {
                write!(f, "lpid {lpid} is out of range: process group {pg} has {size} processes")
            }
            AvError::TooManyGroups => write!(
                f,
                "all {MAX_GROUPS} process groups are in use; remove one that has disconnected"
            ),
            AvError::Capacity { capacity, wanted } => write!(
                f,
                "a table of {capacity} entries cannot grow to {wanted}; reserve more when adding \
                 it"
            ),
            AvError::Memory { bytes, reason } => {
                write!(
                    f,
                    "no memory for a table of {bytes} bytes of address space: {reason}; raise \
                     `ulimit -v`"
                )
            }
        }
    }
}

impl Error for AvError {}
