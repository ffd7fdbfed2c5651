//! Why a message was refused or failed.

use crate::datatype::LayoutError;
use crate::device::DeviceError;
use std::error::Error;
use std::fmt;

/// Why a message was refused or failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum MsgError {
    /// A message longer than its receive. It is consumed; the receive holds
    /// what fitted of one that was sent eagerly, and nothing of a longer one.
    Truncated {
        /// The sender's rank in the communicator, the upper half of the match
        /// bits.
        source_rank: u32,
        /// The message's tag, the lower half of the match bits.
        tag: u32,
        /// The sender's world rank.
        peer: u32,
        /// Bytes of the message.
        length: u64,
        /// Bytes of the receive.
        capacity: usize,
    },
    /// A message of other basic types than its receive's layout. It is consumed, and
    /// the receive holds nothing of it. Told where sender and receiver gave layouts,
    /// and those types are at hand when the message is taken.
    Types {
        /// As of [`MsgError::Truncated`].
        source_rank: u32,
        /// As of [`MsgError::Truncated`].
        tag: u32,
        /// The sender's world rank.
        peer: u32,
        /// Bytes of the message.
        length: u64,
    },
    /// A layout that does not fit the memory given.
    Layout(LayoutError),
    /// A rank outside the communicator.
    Rank {
        /// The rank given.
        rank: u32,
        /// Size of the communicator.
        size: u32,
    },
    /// An active message longer than a packet.
    TooLong {
        /// World rank of the target.
        rank: u32,
        /// Bytes of the header.
        header: usize,
        /// Bytes of the payload.
        payload: usize,
        /// The longest header.
        header_limit: usize,
        /// The longest payload.
        limit: usize,
    },
    /// A length that no memory has.
    Length {
        /// The length, bytes.
        len: usize,
    },
    /// A handler number that is taken.
    HandlerTaken {
        /// The number.
        id: u16,
    },
    /// The provider that reaches a peer has no messages.
    NoMessages {
        /// World rank of the peer.
        rank: u32,
    },
    /// The peer ended a long message before all of it was here, or there.
    GivenUp {
        /// World rank of the peer.
        rank: u32,
    },
    /// All ranks that could send to a receive from anybody are gone.
    NobodyLeft {
        /// How many there were.
        others: u32,
    },
    /// Device, network, peers.
    Device(DeviceError),
}

impl fmt::Display for MsgError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MsgError::Truncated { source_rank, tag, length, capacity, .. } => write!(
                f,
                "a message of {length} bytes from rank {source_rank} with tag {tag} does not fit \
                 the receive of {capacity} bytes; probe for its length first"
            ),
            MsgError::Rank { rank, size } => {
                write!(f, "rank {rank} is out of range: the communicator has {size} ranks")
            }
            MsgError::TooLong { rank, header, payload, header_limit, limit } => write!(
                f,
                "an active message to rank {rank} with {header} bytes of header and {payload} of \
                 payload: at most {header_limit} and {limit} fit; send long data as tagged \
                 messages"
            ),
            MsgError::Length { len } => f.write_str(&crate::rma::too_long(*len)),
            MsgError::HandlerTaken { id } => {
                write!(f, "handler {id} is registered already on this context; take another number")
            }
            MsgError::NoMessages { rank } => write!(
                f,
                "the provider that reaches rank {rank} has no messages; use another (rankway \
                 info)"
            ),
            MsgError::GivenUp { rank } => write!(
                f,
                "rank {rank} gave a long message up, whose other end is here, after an error of its \
                 own; see to that error, and send the message again"
            ),
            MsgError::NobodyLeft { others } => write!(
                f,
                "a receive from any rank has nobody left to send to it: all {others} others ended"
            ),
            MsgError::Types { source_rank, tag, length, .. } => write!(
                f,
                "a message of {length} bytes from rank {source_rank} with tag {tag} has other \
                 types than the layout that receives it; give both sides layouts of the same \
                 types, or of bytes"
            ),
            MsgError::Layout(error) => write!(f, "{error}"),
            MsgError::Device(error) => write!(f, "{error}"),
        }
    }
}

impl Error for MsgError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            MsgError::Device(error) => error.source(),
            MsgError::Layout(error) => error.source(),
            _ => None,
        }
    }
}

impl MsgError {
    /// A peer died while something was under way with it.
    pub(super) fn died(peer: u32) -> MsgError {
        MsgError::Device(DeviceError::PeerDied { rank: peer })
    }

    /// A message of this process with these match bits is longer than its receive.
    pub(super) fn truncated(peer: u32, bits: u64, length: u64, capacity: usize) -> MsgError {
        let (source_rank, tag) = ((bits >> 32) as u32, bits as u32);
        MsgError::Truncated { source_rank, tag, peer, length, capacity }
    }

    /// A message of this process with these match bits has other types than its receive.
    pub(super) fn types(peer: u32, bits: u64, length: u64) -> MsgError {
        MsgError::Types { source_rank: (bits >> 32) as u32, tag: bits as u32, peer, length }
    }

    /// The world rank this is about, if a peer is the cause.
    pub fn peer(&self) -> Option<u32> {
        match self {
            MsgError::Device(e) => e.rank(),
            MsgError::NoMessages { rank } | MsgError::GivenUp { rank } => Some(*rank),
            _ => None,
        }
    }
}

impl<E: Into<DeviceError>> From<E> for MsgError {
    #[cold]
    fn from(error: E) -> MsgError {
        MsgError::Device(error.into())
    }
}
