//! Why a device could not be opened or a peer not be reached.

use crate::av::AvError;
use crate::boot::BootError;
use crate::netmod::NetError;
use crate::rankmap::MapError;
use crate::rankmap::compact::{CompactError, UnknownStrategy};
use std::error::Error;
use std::fmt;

/// Why a device could not be opened or a peer not be reached.
#[derive(Debug)]
#[non_exhaustive]
pub enum DeviceError {
    /// The network library or a provider.
    Net(NetError),
    /// The network, about one peer.
    Peer {
        /// World rank of the peer.
        rank: u32,
        /// The netmod's error.
        error: NetError,
    },
    /// A peer's process is gone.
    PeerDied {
        /// World rank of the peer.
        rank: u32,
    },
    /// No provider on both sides reaches the peer.
    NoTransport {
        /// World rank of the peer.
        rank: u32,
        /// What is missing and what to do.
        why: &'static str,
    },
    /// What the peer published is no business card.
    BadBusinessCard {
        /// World rank of the peer.
        rank: u32,
    },
    /// A rank that is not in the job.
    NoRank {
        /// The rank.
        rank: u32,
        /// Ranks of the job.
        size: u32,
    },
    /// Providers connect within their progress, and answer nothing where the
    /// system refuses them a descriptor.
    NoDescriptor {
        /// World rank of the peer that was waited for.
        peer: Option<u32>,
    },
    /// The set-up channel of this process was opened before, by another device.
    OpenedBefore,
    /// A second context on a device opened for one thread.
    OneThread,
    /// A context index that is taken, 0, or too large.
    ContextTaken {
        /// The index.
        index: u32,
    },
    /// Closing a context gave up a peer that made no progress for so long.
    Unsent {
        /// Its world rank.
        rank: u32,
        /// How long.
        seconds: u64,
    },
    /// A wait within a handler or another part of progress.
    Nested,
    /// Something other than a handler panicked within progress.
    Poisoned,
    /// The address vector.
    Av(AvError),
    /// A rank map.
    Map(MapError),
    /// A compact rank map.
    Compact(CompactError),
    /// `RANKWAY_MAP_STRATEGY` says something else.
    Strategy(UnknownStrategy),
    /// The launcher or the set-up channel.
    Boot(BootError),
}

impl fmt::Display for DeviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceError::Net(error) => write!(f, "{error}"),
            DeviceError::Peer { rank, error } => write!(f, "rank {rank}: {error}"),
            DeviceError::PeerDied { rank } => {
                write!(f, "rank {rank} died, or left the job: nothing reaches it any more")
            }
            DeviceError::NoTransport { rank, why } => {
                write!(f, "no transport reaches rank {rank}: {why}")
            }
            DeviceError::BadBusinessCard { rank } => write!(
                f,
                "the business card of rank {rank} is garbage; are all ranks the same version?"
            ),
            DeviceError::NoRank { rank, size } => {
                write!(f, "rank {rank} is not in the job of {size} ranks")
            }
            DeviceError::NoDescriptor { peer } => write!(
                f,
                "nothing comes in{}, and connections of this process are held up: it may open no \
                 more descriptors; raise `ulimit -n`",
                peer.map(|rank| format!(" from rank {rank}")).unwrap_or_default()
            ),
            DeviceError::Unsent { rank, seconds } => write!(
                f,
                "what was sent to rank {rank} may not have arrived: it made no progress for \
                 {seconds} seconds, after which this context closed; raise RANKWAY_TIMEOUT"
            ),
            DeviceError::OpenedBefore => f.write_str(
                "a device of this process was opened before, and peers know one of each: share \
                 it; `Device::context` makes contexts for further threads",
            ),
            DeviceError::OneThread => f.write_str(
                "the device was opened for one thread; open it for more to open further contexts",
            ),
            DeviceError::ContextTaken { index: index @ 1..=4096 } => {
                write!(f, "context {index} is open already; take another from 1 to 4096")
            }
            DeviceError::ContextTaken { index } => {
                write!(f, "context {index}: no index for one; take another from 1 to 4096")
            }
            DeviceError::Nested => f.write_str(
                "a handler called something that waits; let it reply, or leave the rest to the \
                 thread",
            ),
            DeviceError::Poisoned => f.write_str(
                "a panic within this context's progress left it half done, and nothing comes in \
                 on it any more; close it, and report the panic: it is a fault in Rankway or in \
                 an operator",
            ),
            DeviceError::Av(error) => write!(f, "{error}"),
            DeviceError::Map(error) => write!(f, "{error}"),
            DeviceError::Compact(error) => write!(f, "{error}"),
            DeviceError::Strategy(error) => write!(f, "{error}"),
            DeviceError::Boot(error) => write!(f, "{error}"),
        }
    }
}

impl Error for DeviceError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            DeviceError::Boot(error) => error.source(),
            _ => None,
        }
    }
}

impl From<NetError> for DeviceError {
    fn from(error: NetError) -> DeviceError {
        DeviceError::Net(error)
    }
}

impl From<AvError> for DeviceError {
    fn from(error: AvError) -> DeviceError {
        DeviceError::Av(error)
    }
}

impl From<MapError> for DeviceError {
    fn from(error: MapError) -> DeviceError {
        DeviceError::Map(error)
    }
}

impl From<CompactError> for DeviceError {
    fn from(error: CompactError) -> DeviceError {
        DeviceError::Compact(error)
    }
}

impl From<UnknownStrategy> for DeviceError {
    fn from(error: UnknownStrategy) -> DeviceError {
        DeviceError::Strategy(error)
    }
}

impl From<BootError> for DeviceError {
    fn from(error: BootError) -> DeviceError {
        DeviceError::Boot(error)
    }
}

impl DeviceError {
    pub(crate) fn peer(rank: u32, error: NetError) -> DeviceError {
        DeviceError::Peer { rank, error }
    }

    /// The world rank this is about, if it is about one.
    pub fn rank(&self) -> Option<u32> {
        match self {
            DeviceError::Peer { rank, .. }
            | DeviceError::PeerDied { rank }
            | DeviceError::Unsent { rank, .. }
            | DeviceError::NoTransport { rank, .. }
            | DeviceError::BadBusinessCard { rank } => Some(*rank),
            DeviceError::Boot(e) => e.peer(),
            _ => None,
        }
    }
}
