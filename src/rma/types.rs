//! Types that several files of this folder share: promises and kinds of epochs,
//! targets, operators, and how a request ended.
//!
//! Nothing here issues an operation.

use super::Error;
use super::registration::RemoteKey;
use crate::av::Transport;
use crate::device::DeviceError;
use std::ops::BitOr;

/// Which access epoch is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Epoch {
    Closed,
    Fence,
    LockAll,
    /// Single ranks are locked.
    Locks,
    /// The ranks of a group.
    Start,
    Freed,
}

/// How a lock excludes others (MPI_LOCK_SHARED, MPI_LOCK_EXCLUSIVE).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock {
    /// Beside other shared ones.
    Shared,
    /// Alone.
    Exclusive,
}

/// What the caller promises about an epoch (MPI-4.1, section 12.5.5), joined
/// with `|`.
///
/// NOCHECK spares lock, lock_all, post and start their messages and waits;
/// NOPRECEDE spares a fence its flush; after NOSUCCEED no epoch is open.
/// NOSTORE and NOPUT change nothing here: nobody keeps copies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Assert(u8);

impl Assert {
    /// No promise.
    pub const NONE: Assert = Assert(0);
    /// Nobody holds a lock that this one would have to wait for; the matching
    /// post was called before start, both with this promise.
    pub const NOCHECK: Assert = Assert(1);
    /// The window's memory was not stored to since the last synchronization.
    pub const NOSTORE: Assert = Assert(2);
    /// Nobody puts to this process in the epoch that begins.
    pub const NOPUT: Assert = Assert(4);
    /// This process issued no operation in the epoch that ends.
    pub const NOPRECEDE: Assert = Assert(8);
    /// This process issues no operation in the epoch that would begin.
    pub const NOSUCCEED: Assert = Assert(16);

    /// Whether all promises of `other` are made.
    #[must_use]
    pub const fn contains(self, other: Assert) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for Assert {
    type Output = Assert;

    fn bitor(self, other: Assert) -> Assert {
        Assert(self.0 | other.0)
    }
}

/// The path of an element operation to a rank whose memory is not mapped here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AccessPath {
    Provider,
    Packet,
}

/// How the memory of one rank is reached at a displacement.
#[derive(Clone, Copy, Debug)]
pub(super) enum Target {
    /// It is mapped here.
    Mapped(*mut u8),
    /// By a provider that has it registered.
    Provider(Remote),
    /// Unreachable: the rank of this number in the world has no memory, or none
    /// that can be reached from here.
    Unreachable(u32),
}

/// Registered memory, as a provider knows it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Remote {
    /// In the access's numbers.
    pub(super) rank: u32,
    pub(super) peer: u32,
    pub(super) transport: Transport,
    pub(super) dest: u64,
    pub(super) addr: u64,
    pub(super) key: RemoteKey,
}

impl Target {
    /// The registered memory; `None` where it is not reached by a provider.
    pub(super) fn remote(self) -> Option<Remote> {
        match self {
            Target::Provider(remote) => Some(remote),
            Target::Mapped(_) | Target::Unreachable(_) => None,
        }
    }
}

/// A target as the provider knows it.
#[derive(Clone, Copy, Debug)]
pub struct RawTarget {
    /// Which provider.
    pub transport: Transport,
    /// The provider's address of the peer.
    pub dest: u64,
    /// Offset or virtual address of its memory.
    pub addr: u64,
    /// The key of its memory.
    pub key: u64,
}

/// The error for memory of a rank of the world that cannot be reached.
pub(super) fn unreachable_error(peer: u32) -> Error {
    let why = "its window memory is neither mapped here nor registered with a provider that is \
               open on both sides";
    DeviceError::NoTransport { rank: peer, why }.into()
}

/// How a request of a peer went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Status {
    Done,
    /// No window of this id.
    NoWindow,
    /// Not within the window, or the memory attached to it.
    OutOfRange,
    /// A packet that makes no sense.
    Malformed,
    /// Not an operation for this type here.
    Unsupported,
    /// Somebody holds the lock.
    Busy,
    /// The peer died; never travels.
    Dead,
    /// A custom operation, of a process that has registered no operator.
    NoOperator,
    /// The operator would not.
    ByOperator,
}

impl Status {
    const ALL: [Status; 9] = [
        Status::Done,
        Status::NoWindow,
        Status::OutOfRange,
        Status::Malformed,
        Status::Unsupported,
        Status::Busy,
        Status::Dead,
        Status::NoOperator,
        Status::ByOperator,
    ];

    pub(super) fn from_number(n: u64) -> Status {
        Status::ALL.get(n as usize).copied().unwrap_or(Status::Malformed)
    }

    pub(super) fn why(self) -> &'static str {
        match self {
            Status::Done => "it did not",
            Status::NoWindow => "it has no such window; was it freed or dropped there?",
            Status::OutOfRange => "the range is not within the memory of its window",
            Status::Malformed => "the packet was malformed; are all ranks the same version?",
            Status::Unsupported => "its processor has no such type",
            Status::Busy => "the lock is held",
            Status::Dead => "it died",
            Status::NoOperator => "it has registered no operator for custom operations",
            Status::ByOperator => "its operator refused the operation",
        }
    }
}

/// What an [`Operator`] is to do.
#[derive(Debug)]
pub struct Custom<'a> {
    /// The operation, by the caller's own numbers.
    pub code: u64,
    /// The target's memory.
    pub at: *mut u8,
    /// Bytes there that the operation may touch.
    pub span: usize,
    /// What the origin sent along.
    pub operand: &'a [u8],
}

/// Carries out an operation: `result` is what the origin gets back, exactly as
/// many bytes as it asked for; `false` refuses.
///
/// # Safety
/// `at` holds `span` bytes, which no other operator changes meanwhile.
pub type Operator = unsafe fn(&Custom<'_>, result: &mut Vec<u8>) -> bool;
