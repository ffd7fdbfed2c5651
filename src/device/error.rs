//! Why a device could not be opened or a peer not be reached.

use crate::av::AvError;
use crate::boot::BootError;
use crate::netmod::NetError;
use crate::rankmap::MapError;
use crate::rankmap::compact::{CompactError, UnknownStrategy};
use thiserror::Error;

/// Why a device could not be opened or a peer not be reached.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// The network library or a provider.
    #[error(transparent)]
    Net(#[from] NetError),
    /// The network, about one peer.
    #[error("rank {rank}: {error}")]
    Peer {
        /// World rank of the peer.
        rank: u32,
        /// The netmod's error.
        error: NetError,
    },
    /// A peer's process is gone.
    #[error("rank {rank} died: its process has ended; the job cannot reach it any more")]
    PeerDied {
        /// World rank of the peer.
        rank: u32,
    },
    /// No provider on both sides reaches the peer.
    #[error("no transport reaches rank {rank}: {why}")]
    NoTransport {
        /// World rank of the peer.
        rank: u32,
        /// What is missing and what to do.
        why: &'static str,
    },
    /// What the peer published is no business card.
    #[error("the business card of rank {rank} is garbage; are all ranks the same version?")]
    BadBusinessCard {
        /// World rank of the peer.
        rank: u32,
    },
    /// A rank that is not in the job.
    #[error("rank {rank} is not in the job of {size} ranks")]
    NoRank {
        /// The rank.
        rank: u32,
        /// Ranks of the job.
        size: u32,
    },
    /// Providers connect within their progress, and answer nothing where the
    /// system refuses them a descriptor.
    #[error(
        "nothing comes in{}, and connections of this process are held up: it may open no more \
         descriptors; raise `ulimit -n`",
        peer.map(|rank| format!(" from rank {rank}")).unwrap_or_default()
    )]
    NoDescriptor {
        /// World rank of the peer that was waited for.
        peer: Option<u32>,
    },
    /// A second context on a device opened for one thread.
    #[error("the device was opened for one thread; set Options::threads to open more contexts")]
    OneThread,
    /// A context index that is taken, 0, or too large.
    #[error("context {index} is open already or no index for one; take another from 1 to 4096")]
    ContextTaken {
        /// The index.
        index: u32,
    },
    /// A wait within a handler or another part of progress.
    #[error("a handler called something that waits; let it reply, or leave the rest to the thread")]
    Nested,
    /// Something other than a handler panicked within progress.
    #[error(
        "a panic within this context's progress left it half done, and nothing comes in on it \
         any more; close it, and report the panic: it is a fault in Rankway or in an operator"
    )]
    Poisoned,
    /// The address vector.
    #[error(transparent)]
    Av(#[from] AvError),
    /// A rank map.
    #[error(transparent)]
    Map(#[from] MapError),
    /// A compact rank map.
    #[error(transparent)]
    Compact(#[from] CompactError),
    /// `RANKWAY_MAP_STRATEGY` says something else.
    #[error(transparent)]
    Strategy(#[from] UnknownStrategy),
    /// The launcher or the set-up channel.
    #[error(transparent)]
    Boot(#[from] BootError),
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
            | DeviceError::NoTransport { rank, .. }
            | DeviceError::BadBusinessCard { rank } => Some(*rank),
            DeviceError::Boot(e) => e.peer(),
            _ => None,
        }
    }
}
