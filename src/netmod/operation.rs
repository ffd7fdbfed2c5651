//! The arguments of operations, and what comes back.

#[cfg(doc)]
use super::{Caps, Netmod};
use super::{Kind, NetError, Op, Type};

/// A completed operation that was issued with a token.
#[derive(Debug)]
pub struct Completion {
    /// The token given at the call.
    pub token: u64,
    /// Zero, or the error.
    pub result: Result<(), NetError>,
}

/// The arguments of a tracked [`Netmod::write`] or [`Netmod::read`].
#[derive(Clone, Copy, Debug)]
pub struct Transfer<P> {
    /// Local memory.
    pub buf: P,
    /// Bytes.
    pub len: usize,
    /// The peer's address, from [`Netmod::insert`].
    pub dest: u64,
    /// Offset or virtual address at the target.
    pub addr: u64,
    /// The target's key.
    pub key: u64,
    /// Comes back on completion.
    pub token: u64,
}

/// One contiguous entry of a noncontiguous operation.
#[derive(Clone, Copy, Debug)]
pub struct Iov {
    /// Local memory; only read by writes.
    pub buf: *mut u8,
    /// Bytes.
    pub len: usize,
    /// Offset or virtual address at the target.
    pub addr: u64,
}

/// The arguments of [`Netmod::write_iov`] and [`Netmod::read_iov`].
#[derive(Clone, Copy, Debug)]
pub struct IovTransfer<'a> {
    /// The entries.
    pub list: &'a [Iov],
    /// The peer's address, from [`Netmod::insert`].
    pub dest: u64,
    /// The target's key.
    pub key: u64,
    /// Comes back on completion.
    pub token: u64,
}

/// The arguments of [`Netmod::atomic`].
#[derive(Clone, Copy, Debug)]
pub struct Atomic {
    /// What comes back.
    pub kind: Kind,
    /// The elements' type.
    pub ty: Type,
    /// What is done.
    pub op: Op,
    /// `count` operands; unused with [`Op::NoOp`].
    pub operand: *const u8,
    /// The comparand, for [`Kind::Swap`].
    pub compare: *const u8,
    /// Where the elements go as they were, unless the kind is an update.
    pub result: *mut u8,
    /// Elements.
    pub count: usize,
    /// The peer's address, from [`Netmod::insert`].
    pub dest: u64,
    /// Offset or virtual address at the target.
    pub addr: u64,
    /// The target's key.
    pub key: u64,
    /// Comes back on completion.
    pub token: u64,
}

/// The arguments of [`Netmod::send_bulk`] and [`Netmod::recv_bulk`].
#[derive(Clone, Copy, Debug)]
pub struct Bulk<P> {
    /// Local memory.
    pub buf: P,
    /// Bytes, at most [`Caps::max_bulk`].
    pub len: usize,
    /// The peer's address, from [`Netmod::insert`]; unused when receiving.
    pub dest: u64,
    /// What the two sides agreed on.
    pub tag: u64,
    /// Comes back on completion.
    pub token: u64,
}
