//! Netmods: the network libraries behind one table of operations.
//!
//! A [`Netmod`] is one provider opened once for the process: fabric, domain
//! and the library's own address vector. From it come *ports*: an endpoint and
//! its completion queue, owned by one thread at a time. Everything above is
//! generic over the netmod, so its calls are direct; which one is taken is
//! decided once, at open.
//!
//! A netmod never decides who is reached how, never retries, and knows nothing
//! of ranks: it takes addresses that [`crate::av`] entries carry. The types of
//! the network libraries never leave the netmods' own directories.

#[cfg(feature = "ofi")]
pub mod ofi;
#[cfg(feature = "ucx")]
pub mod ucx;

pub mod null;

use crate::av::{AvError, Entry, Transport};
use std::sync::Arc;
use thiserror::Error;

/// What the provider answers when it has no room now: make progress, then call
/// again (`-FI_EAGAIN`, fi_errno(3)).
pub const AGAIN: isize = -(libc::EAGAIN as isize);

/// Why a network library, a provider or one of its calls failed.
#[derive(Debug, Error, Clone)]
#[non_exhaustive]
pub enum NetError {
    /// The network library could not be opened.
    #[error("{0}")]
    Library(String),
    /// No provider of this name serves what is needed.
    #[error(
        "provider '{wanted}' is not there; this libfabric offers: {}; name one of them in \
         RANKWAY_PROVIDER, or unset it and FI_PROVIDER to have one chosen",
        have.join(", ")
    )]
    NoProvider {
        /// What was asked for.
        wanted: String,
        /// What the library has.
        have: Vec<String>,
    },
    /// The provider is there but has no one-sided operations.
    #[error(
        "provider '{provider}' has no RMA on reliable datagram endpoints, which windows need; \
         use another (rankway info lists them) or unset FI_PROVIDER"
    )]
    NoRma {
        /// The provider.
        provider: String,
    },
    /// A call of the library failed.
    #[error("{provider}: {call} failed: {text} ({code})")]
    Call {
        /// The provider's name.
        provider: String,
        /// The function that failed.
        call: &'static str,
        /// The library's error number, negative.
        code: i64,
        /// The library's text for it.
        text: String,
    },
    /// A raw address this provider cannot have made.
    #[error("{provider}: not an address of this provider: {reason}")]
    Address {
        /// The provider's name.
        provider: String,
        /// What is wrong with it.
        reason: String,
    },
    /// An operation failed after it was issued.
    #[error("{provider}: an operation failed: {text} ({code})")]
    Operation {
        /// The provider's name.
        provider: String,
        /// Address of the peer, where the operation carried it.
        peer: Option<u64>,
        /// The library's error number, positive.
        code: i64,
        /// The provider's own text.
        text: String,
    },
}

/// What a provider can do, as far as the layers above must know.
#[derive(Clone, Debug)]
pub struct Caps {
    /// The provider's name, e.g. `tcp;ofi_rxm`.
    pub provider: String,
    /// Longest put that may be copied at the call, bytes; 0 where a flush could
    /// not tell when it is done.
    pub inject_size: usize,
    /// Longest single operation, bytes.
    pub max_message: usize,
    /// How many peers one process can reach.
    pub max_peers: u32,
    /// Targets are addressed by virtual address instead of offset.
    pub virtual_addresses: bool,
    /// The provider chooses the keys of registered memory.
    pub provider_keys: bool,
    /// Bytes a remote key has; keys chosen here must fit.
    pub key_size: usize,
}

/// A completed operation that was issued with a token.
#[derive(Debug)]
pub struct Completion {
    /// The token given at the call.
    pub token: u64,
    /// Zero, or the error.
    pub result: Result<(), NetError>,
}

/// One provider, opened: the table of operations.
///
/// # Threads
/// A `Netmod` may be used from any thread. A [`Netmod::Port`] belongs to one
/// thread at a time (it may be sent); its calls take `&self` because the owner
/// may hold it in several places, never because two threads may call at once.
pub trait Netmod: Send + Sync + Sized + 'static {
    /// An endpoint with its completion queue.
    type Port: Send;
    /// What [`Netmod::inject`] needs of a port, kept in the hot structures:
    /// the endpoint. Good while its port lives.
    type Wire: Copy;
    /// Memory registered for remote access; deregistered on drop.
    type Region: Send + Sync;

    /// What the provider can do.
    fn caps(&self) -> &Caps;

    /// Opens another endpoint.
    ///
    /// # Errors
    /// [`NetError::Call`] when the provider refuses.
    fn open_port(self: &Arc<Self>) -> Result<Self::Port, NetError>;

    /// The raw address peers insert to reach this port.
    ///
    /// # Errors
    /// [`NetError::Call`].
    fn address(&self, port: &Self::Port) -> Result<Vec<u8>, NetError>;

    /// Inserts a peer's raw address and returns the address operations take.
    ///
    /// # Errors
    /// [`NetError::Address`] for bytes that are no address of this provider,
    /// [`NetError::Call`].
    fn insert(&self, raw: &[u8]) -> Result<u64, NetError>;

    /// Registers memory for remote reads and writes, under `key` where the
    /// provider lets the caller choose.
    ///
    /// # Errors
    /// [`NetError::Call`].
    ///
    /// # Safety
    /// `start..start + len` stays mapped until the region is dropped.
    unsafe fn register(
        self: &Arc<Self>,
        port: &Self::Port,
        start: *mut u8,
        len: usize,
        key: u64,
    ) -> Result<Self::Region, NetError>;

    /// The key under which peers reach the region.
    fn key(&self, region: &Self::Region) -> u64;

    /// Packs an address of this netmod into an address-vector entry.
    ///
    /// # Errors
    /// An address that would lose a bit.
    fn pack(address: u64, transport: Transport) -> Result<Entry, AvError> {
        Entry::ofi(address, transport)
    }

    /// Unpacks an entry; `None` when it is empty.
    #[inline(always)]
    fn unpack(entry: Entry) -> Option<(u64, Transport)> {
        entry.as_ofi()
    }

    /// The address of an entry reached over the network; `None` when it is
    /// empty or node-local. What the put path asks first.
    #[inline(always)]
    fn network(entry: Entry) -> Option<u64> {
        entry.network_ofi()
    }

    /// The endpoint of a port.
    fn wire(port: &Self::Port) -> Self::Wire;

    /// Puts `len` bytes, copied before the call returns. Zero, [`AGAIN`], or a
    /// negative error number.
    ///
    /// # Safety
    /// The port of `wire` lives and is this thread's, `buf` is readable for
    /// `len` bytes, `len` is at most [`Caps::inject_size`], and `dest` came
    /// from [`Netmod::insert`].
    unsafe fn inject(
        wire: Self::Wire,
        buf: *const u8,
        len: usize,
        dest: u64,
        addr: u64,
        key: u64,
    ) -> isize;

    /// Puts `len` bytes; [`Netmod::poll`] answers the token when they are in
    /// the target's memory (or on their way there in order, see
    /// [`Netmod::read`]).
    ///
    /// # Safety
    /// As [`Netmod::inject`], `len` at most [`Caps::max_message`], and `buf`
    /// stays readable until the token came back.
    unsafe fn write(&self, port: &Self::Port, op: Transfer<*const u8>) -> isize;

    /// Gets `len` bytes. A read is answered after all earlier puts of this
    /// port to the same peer are in its memory; a flush is built on that.
    ///
    /// # Safety
    /// `op.buf` stays writable for `op.len` bytes until the token came back.
    unsafe fn read(&self, port: &Self::Port, op: Transfer<*mut u8>) -> isize;

    /// Drives the provider and hands out what completed. Errors without a
    /// token come back as `Err`.
    ///
    /// # Errors
    /// [`NetError::Operation`] for a failed put that carried no token.
    fn poll(&self, port: &Self::Port, done: impl FnMut(Completion)) -> Result<(), NetError>;

    /// The library's text for a negative answer of an operation.
    fn explain(&self, call: &'static str, code: isize) -> NetError;
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
