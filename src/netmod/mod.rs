//! Netmods: the network libraries behind one table of operations.
//!
//! A [`Netmod`] is one provider opened once for the process: fabric, domain
//! and the library's own address vector. From it come *endpoints*, each with
//! its completion queue, owned by one thread at a time. Everything above is
//! generic over the netmod, so its calls are direct; which one is taken is
//! decided once, at open.
//!
//! A netmod never decides who is reached how, never retries, and knows nothing
//! of ranks: it takes addresses that [`crate::av`] entries carry. The types of
//! the network libraries never leave the netmods' own directories.

#[cfg(feature = "node")]
pub mod node;
#[cfg(feature = "ofi")]
pub mod ofi;
#[cfg(feature = "ucx")]
pub mod ucx;
#[cfg(feature = "ofi")]
pub mod with_node;

/// Calls a macro with the list of netmods, the best first: for each its cargo
/// feature, its module here and its type; what the caller gives besides stands
/// behind the list. Every choice by name comes from it: what `RANKWAY_NETMOD`
/// may be, the command, the C interface, the plug-ins.
#[macro_export]
macro_rules! netmods {
    ($($then:ident)::+ $(, $($given:tt)*)?) => {
        $($then)::+! {
            ["ofi" ofi::Ofi, "ucx" ucx::Ucx, "node" node::Node]
            $($($given)*)?
        }
    };
}

mod caps;
mod choice;
pub(crate) mod compute;
mod element;
mod error;
pub mod in_process;
#[cfg(any(feature = "ofi", feature = "ucx"))]
mod limits;
pub mod null;
mod operation;

pub use caps::{Calls, Caps, Costs};
pub(crate) use choice::segment_owner;
pub use choice::{NAMES, Visit, by_name, check_settings, costs, preferred};
pub use element::{Kind, Op, Type};
pub use error::NetError;
pub use operation::{Atomic, Bulk, Completion, Iov, IovTransfer, Transfer};

use crate::av::{AvError, Entry, Transport};
use crate::settings::BadSetting;
pub use crate::shm::element_lock::ElementLock;
use std::sync::Arc;

/// The provider has no space now: make progress, then call again (`-EAGAIN`).
pub const AGAIN: isize = -(libc::EAGAIN as isize);
/// [`Netmod::send`] and the like still need the buffer: the token comes back
/// from [`Netmod::poll`].
pub const PENDING: isize = 1;
/// The netmod does not have the operation (`-ENOSYS`).
pub const UNSUPPORTED: isize = -(libc::ENOSYS as isize);
/// Bytes of a packet's head.
pub const HEAD: usize = 32;

/// A packet whose body is at most 8 bytes, in one piece.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct WordPacket {
    /// As of any packet.
    pub head: [u8; HEAD],
    /// The body, and zeros behind it.
    pub body: [u8; 8],
}

/// What a device asks of a netmod that it is opened over.
#[derive(Clone, Debug, Default)]
pub struct OpenParams {
    /// Providers by name, where the netmod has several; `None` leaves the
    /// choice to it and to the library's own settings.
    pub provider: Option<String>,
    /// Several threads will open endpoints.
    pub threads: bool,
    /// Endpoints are to have descriptors to sleep on ([`Netmod::wait_fd`]).
    pub wakeup: bool,
    /// The job's number, the same in all its processes.
    pub job: u64,
    /// Processes of the job.
    pub peers: u32,
    /// Those of them on this node, this one included.
    pub on_node: u32,
    /// Whether those on this node may attach to each other's memory, all or not all;
    /// `None` where that is not known.
    pub attachable: Option<bool>,
    /// Some on this node are known not to see the `/dev/shm` of others.
    pub apart: bool,
    /// They may, and none of them was told of a provider ([`Netmod::takes_node`]).
    pub takes_node: bool,
}

/// The providers that reach a job's processes, opened.
#[derive(Debug)]
pub struct Providers<N> {
    /// For peers on any node.
    pub network: Option<Arc<N>>,
    /// For peers on this node, where another provider serves them.
    pub node: Option<Arc<N>>,
}

/// A process of the job on this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// Its rank in the job.
    pub rank: u32,
    /// Its number in this pid namespace.
    pub pid: u32,
    /// It is no more.
    pub ended: bool,
}

/// Looks at all processes of the job on this node, this one among them; `None`
/// where some cannot be seen from here.
pub type Neighbours = Box<dyn Fn() -> Option<Vec<Neighbour>> + Send + Sync>;

/// One provider, opened: the table of operations.
///
/// # Threads
/// A `Netmod` may be used from any thread. A [`Netmod::Endpoint`] belongs to one
/// thread at a time (it may be sent); its calls take `&self` because the owner
/// may hold it in several places, never because two threads may call at once.
///
/// # Contracts
/// What whoever calls the operations answers for, named once. The `SAFETY`
/// comments of the netmods, and of those who call them, cite the names.
///
/// - **\[ENDPOINT\]** The endpoint, or that of the handle, is one of this netmod's,
///   lives, and is this thread's alone.
/// - **\[DEST\]** The peer's address came from [`Netmod::insert`], with
///   [`Netmod::own_addresses`] on this endpoint.
/// - **\[KEY\]** With [`Netmod::KEY_HANDLES`] the key came from
///   [`Netmod::rkey_unpack`] for this peer and is not destroyed, and what the
///   operation names at the target lies in the key's region. Elsewhere any numbers
///   will do: the provider looks at them.
/// - **\[BUF\]** Local memory is as long as the call says. It stays readable, or
///   writable and untouched where bytes come in, until the token came back; until
///   the call returns where none will ([`Netmod::inject`], an error, 0 of a call
///   that may answer [`PENDING`]).
/// - **\[LIMIT\]** The operation is no longer than [`Caps`] allows for its kind.
/// - **\[MEM\]** Memory that is registered stays mapped until its region is dropped.
pub trait Netmod: Send + Sync + Sized + 'static {
    /// An endpoint with its completion queue.
    type Endpoint: Send;
    /// What [`Netmod::inject`] needs of an endpoint, small enough to be copied
    /// into the structures of the put path. Valid while its endpoint lives.
    type InjectHandle: Copy;
    /// Memory registered for remote access; deregistered on drop.
    type Region: Send + Sync;

    /// What it is called in settings (`RANKWAY_NETMOD`).
    const NAME: &'static str;
    /// What errors call its operations.
    const CALLS: Calls = Calls::GENERIC;

    /// Remote keys are handles made by [`Netmod::rkey_unpack`], one for each
    /// target and endpoint.
    const KEY_HANDLES: bool = false;
    /// The module for the node may stand beside it ([`OpenParams::takes_node`]).
    const WITH_NODE: bool = false;

    /// Returns true if its library is there. One that answers no is taken only
    /// when it is named.
    fn is_installed() -> bool {
        true
    }

    /// Returns true if a setting names its library, or these providers or a setting's are the
    /// library's: it is taken then where no netmod is named.
    ///
    /// # Errors
    /// [`NetError::Library`] for a library that was asked for so and is not there.
    fn is_asked_for(_provider: Option<&str>) -> Result<bool, NetError> {
        Ok(false)
    }

    /// Refuses settings of this netmod's own that it could not use.
    ///
    /// # Errors
    /// The first such variable, with what it takes.
    fn check_settings() -> Result<(), BadSetting> {
        Ok(())
    }

    /// The process that made the shared-memory segment of this name, where it
    /// is one of the library's own that outlives a process that was killed.
    fn segment_owner(_name: &str) -> Option<u32> {
        None
    }

    /// The name of that segment behind an [address](Netmod::address), if it has one.
    fn segment(_address: &[u8]) -> Option<&str> {
        None
    }

    /// What operations cost over a provider of this name, as [`Caps::provider`] has
    /// it, where it is one of this netmod's.
    fn costs(_provider: &str) -> Option<Costs> {
        None
    }

    /// What operations cost over the provider that is open: as measured on this host and
    /// kept ([`Costs::keep`]), else as [`costs`](Netmod::costs) has it. Looked for when it
    /// is first asked for: who moves no noncontiguous data reads no file.
    fn operation_costs(&self) -> Costs {
        let caps = self.caps();
        let look = || {
            let known = Self::costs(&caps.provider).unwrap_or(Costs::ASSUMED);
            let entries = caps.iov_limit.max(1) as u64;
            Box::new(Costs::kept_or(&caps.provider, Costs { entries, ..known }))
        };
        **caps.costs.get_or_init(look)
    }

    /// Returns true if the processes of a node are reached by the module for the node
    /// where they agree upon that: not where providers were named. Asked only
    /// [`WITH_NODE`](Netmod::WITH_NODE).
    fn takes_node(_params: &OpenParams) -> bool {
        false
    }

    /// Opens what reaches the processes of a job.
    ///
    /// # Errors
    /// [`NetError`] when the library or a provider is not there, with what to
    /// install or which there are.
    fn open_providers(params: &OpenParams) -> Result<Providers<Self>, NetError>;

    /// Opens the network for a job of which [`Netmod::open_providers`] reached
    /// the node only.
    ///
    /// # Errors
    /// As [`Netmod::open_providers`].
    fn open_network(params: &OpenParams) -> Result<Arc<Self>, NetError> {
        let network = Self::open_providers(params)?.network;
        network.ok_or_else(|| NetError::Library(format!("{} has no network", Self::NAME)))
    }

    /// What the provider can do.
    fn caps(&self) -> &Caps;

    /// The addresses that [`Netmod::insert`] answers are good on one endpoint
    /// only, so that every context has an address vector of its own.
    fn own_addresses(&self) -> bool {
        false
    }

    /// A process died, at `dest` if it has an address here: what is under way there may never
    /// end, and counts no more among what the endpoint can have under way.
    fn peer_died(&self, _endpoint: &Self::Endpoint, _dest: Option<u64>) {}

    /// [`Netmod::flush`] is there; elsewhere a read behind the puts serves.
    fn flushes(&self) -> bool {
        false
    }

    /// Its atomics are done under a lock of the target's ([`Netmod::element_lock`]), on
    /// elements of any type at any address. Operands are copied at the call, and an
    /// update answers 0 when it is on its way, in order with those before and behind it
    /// and with puts; the flush tells when it is done.
    fn locks_elements(&self) -> bool {
        false
    }

    /// Opens another endpoint.
    ///
    /// # Errors
    /// [`NetError::Call`] when the provider refuses.
    fn open_endpoint(self: &Arc<Self>) -> Result<Self::Endpoint, NetError>;

    /// Sets the function that lists the job's processes on this node, for
    /// netmods that clean up after dead processes.
    fn set_neighbours(&self, _neighbours: Neighbours) {}

    /// The raw address peers insert to reach this endpoint.
    ///
    /// # Errors
    /// [`NetError::Call`].
    fn address(&self, endpoint: &Self::Endpoint) -> Result<Vec<u8>, NetError>;

    /// The same without the ways that only processes of this machine take.
    ///
    /// # Errors
    /// [`NetError::Call`].
    fn network_address(&self, endpoint: &Self::Endpoint) -> Result<Vec<u8>, NetError> {
        self.address(endpoint)
    }

    /// Inserts a peer's raw address and returns the address operations take.
    ///
    /// # Errors
    /// [`NetError::Address`] for bytes that are no address of this provider,
    /// [`NetError::Call`].
    fn insert(&self, endpoint: &Self::Endpoint, raw: &[u8]) -> Result<u64, NetError>;

    /// Takes an address out that was inserted, of an endpoint that has closed. Nothing is
    /// issued to it any more.
    fn remove(&self, _endpoint: &Self::Endpoint, _address: u64) {}

    /// Returns true once nothing that was handed over for an address is still here, as it may be
    /// until that peer makes progress. For endpoints that are about to be closed: asked between
    /// polls, nothing else is issued any more.
    fn is_drained(&self, _endpoint: &Self::Endpoint, _dest: u64) -> bool {
        true
    }

    /// Registers memory for remote reads and writes, under `key` where the
    /// provider lets the caller choose.
    ///
    /// # Errors
    /// [`NetError::Call`].
    ///
    /// # Safety
    /// \[MEM\] for `start..start + len`, \[ENDPOINT\].
    unsafe fn register(
        self: &Arc<Self>,
        endpoint: &Self::Endpoint,
        start: *mut u8,
        len: usize,
        key: u64,
    ) -> Result<Self::Region, NetError>;

    /// Ends a registration that peers may still write to, since not all of them
    /// have agreed to stop: no other operation is disturbed. Late writes are
    /// discarded where the network looks at keys; memory of the library's own
    /// stays mapped.
    fn abandon(region: Self::Region) {
        drop(region);
    }

    /// Memory of the library's own for a window, registered; `None` where it
    /// has none to offer. It is given back when the region is dropped.
    ///
    /// # Errors
    /// [`NetError::Call`].
    fn allocate(
        self: &Arc<Self>,
        _endpoint: &Self::Endpoint,
        _len: usize,
    ) -> Result<Option<(Self::Region, *mut u8)>, NetError> {
        Ok(None)
    }

    /// The key under which peers reach the region; 0 where keys are handles.
    fn key(&self, region: &Self::Region) -> u64;

    /// The region's key, packed for peers to [`Netmod::rkey_unpack`].
    ///
    /// # Errors
    /// [`NetError::Call`].
    fn rkey_pack(&self, _region: &Self::Region) -> Result<Vec<u8>, NetError> {
        Ok(Vec::new())
    }

    /// Makes a key for operations towards `dest` from what a peer packed.
    ///
    /// # Errors
    /// [`NetError::Address`] for bytes that are no key, [`NetError::Call`].
    ///
    /// # Safety
    /// \[ENDPOINT\], \[DEST\].
    unsafe fn rkey_unpack(
        &self,
        _endpoint: &Self::Endpoint,
        _dest: u64,
        _packed: &[u8],
    ) -> Result<u64, NetError> {
        Err(self.explain("rkey_unpack", UNSUPPORTED))
    }

    /// Destroys an unpacked key.
    ///
    /// # Safety
    /// \[KEY\], and the key is used no more.
    unsafe fn rkey_destroy(&self, _key: u64) {}

    /// Where the target's memory at `addr` is mapped in this process, if the
    /// library has it mapped.
    ///
    /// # Safety
    /// \[KEY\]: `addr` lies in the key's region.
    unsafe fn rkey_ptr(&self, _key: u64, _addr: u64) -> Option<*mut u8> {
        None
    }

    /// Packs an address of this netmod into an address-vector entry: as a small number,
    /// unless the netmod has others.
    ///
    /// # Errors
    /// An address that would lose a bit.
    fn pack(address: u64, transport: Transport) -> Result<Entry, AvError> {
        Entry::index(address, transport)
    }

    /// Unpacks an entry; `None` when it is empty.
    #[inline(always)]
    fn unpack(entry: Entry) -> Option<(u64, Transport)> {
        entry.as_index()
    }

    /// The address of an entry reached over the network; `None` when it is
    /// empty or node-local. What the put path asks first.
    #[inline(always)]
    fn network(entry: Entry) -> Option<u64> {
        entry.network_index()
    }

    /// The inject handle of an endpoint.
    fn inject_handle(endpoint: &Self::Endpoint) -> Self::InjectHandle;

    /// Puts `len` bytes, copied before the call returns. Zero, [`AGAIN`], or a
    /// negative error number.
    ///
    /// # Safety
    /// \[ENDPOINT\], \[DEST\], \[KEY\], \[BUF\] until the call returns, and \[LIMIT\]:
    /// [`Caps::inject_size`].
    unsafe fn inject(
        handle: Self::InjectHandle,
        buf: *const u8,
        len: usize,
        dest: u64,
        addr: u64,
        key: u64,
    ) -> isize;

    /// [`Netmod::inject`] without its slow path: any other answer than zero
    /// means that nothing was done and [`Netmod::inject`] must be called. The
    /// put path tries this first, so that it need not keep the arguments.
    ///
    /// # Safety
    /// As [`Netmod::inject`].
    #[inline(always)]
    unsafe fn inject_now(
        handle: Self::InjectHandle,
        buf: *const u8,
        len: usize,
        dest: u64,
        addr: u64,
        key: u64,
    ) -> isize {
        // SAFETY: [ENDPOINT], [DEST], [KEY], [BUF], [LIMIT], as `inject` asks for them.
        unsafe { Self::inject(handle, buf, len, dest, addr, key) }
    }

    /// Puts `len` bytes; [`Netmod::poll`] answers the token when they are in
    /// the target's memory (or on their way there in order, see
    /// [`Netmod::read`]), with [`Netmod::flushes`] when the buffer is free.
    ///
    /// # Safety
    /// \[ENDPOINT\], \[DEST\], \[KEY\], \[BUF\] to read from, \[LIMIT\]:
    /// [`Caps::max_message`].
    unsafe fn write(&self, endpoint: &Self::Endpoint, op: Transfer<*const u8>) -> isize;

    /// Gets `len` bytes. A read is answered after all earlier puts of this
    /// endpoint to the same peer are in its memory; a flush is built on that,
    /// except with [`Netmod::flushes`].
    ///
    /// # Safety
    /// As [`Netmod::write`], but \[BUF\] to write to.
    unsafe fn read(&self, endpoint: &Self::Endpoint, op: Transfer<*mut u8>) -> isize;

    /// Writes several iov entries, at most [`Caps::iov_limit`]; the token comes
    /// back once for all.
    ///
    /// # Safety
    /// As [`Netmod::write`], for every entry.
    unsafe fn write_iov(&self, _endpoint: &Self::Endpoint, _op: IovTransfer<'_>) -> isize {
        UNSUPPORTED
    }

    /// Reads several iov entries, at most [`Caps::iov_limit`].
    ///
    /// # Safety
    /// As [`Netmod::read`], for every entry.
    unsafe fn read_iov(&self, _endpoint: &Self::Endpoint, _op: IovTransfer<'_>) -> isize {
        UNSUPPORTED
    }

    /// Answers the token when everything this endpoint put to `dest` is in its
    /// memory. 0 when it is already, [`PENDING`], [`AGAIN`], or an error.
    ///
    /// # Safety
    /// \[ENDPOINT\], \[DEST\].
    unsafe fn flush(&self, _endpoint: &Self::Endpoint, _dest: u64, _token: u64) -> isize {
        UNSUPPORTED
    }

    /// The lock under which all who change elements of memory of this process's do so,
    /// where peers change some by [`Netmod::atomic`]; with [`Netmod::locks_elements`].
    #[doc(hidden)]
    fn element_lock(&self) -> Option<ElementLock> {
        None
    }

    /// The same of a peer's memory.
    ///
    /// # Safety
    /// \[ENDPOINT\], \[DEST\].
    #[doc(hidden)]
    unsafe fn element_lock_of(&self, _: &Self::Endpoint, _dest: u64) -> Option<ElementLock> {
        None
    }

    /// Elements one atomic call of this kind takes; 0 where the provider has
    /// none for that type and operation. Asked of the provider, never assumed.
    fn atomic_limit(&self, _endpoint: &Self::Endpoint, _kind: Kind, _ty: Type, _op: Op) -> usize {
        0
    }

    /// An atomic operation; the token comes back when it is done at the target
    /// and its result is here. [`PENDING`], 0 when that is so already (or, with
    /// [`Netmod::locks_elements`], will be at the flush), [`AGAIN`], or an error.
    ///
    /// # Safety
    /// \[ENDPOINT\], \[DEST\], \[KEY\], \[BUF\] for `count` elements of each buffer that
    /// the kind uses, \[LIMIT\]: [`Netmod::atomic_limit`] for the count. `addr` is a
    /// multiple of the element's size, unless [`Netmod::locks_elements`].
    unsafe fn atomic(&self, _endpoint: &Self::Endpoint, _op: &Atomic) -> isize {
        UNSUPPORTED
    }

    /// Sends a packet; packets of one endpoint to one peer arrive in order
    /// unless the library says otherwise, so the layer above numbers them. 0:
    /// the body is the caller's again; [`PENDING`]: when the token came back;
    /// [`AGAIN`]; or an error.
    ///
    /// # Safety
    /// \[ENDPOINT\], \[DEST\], \[BUF\] for the body, \[LIMIT\]: [`Caps::packet_size`] for
    /// [`HEAD`] and `len` together.
    unsafe fn send(
        &self,
        _endpoint: &Self::Endpoint,
        _head: &[u8; HEAD],
        _body: *const u8,
        _len: usize,
        _dest: u64,
        _token: u64,
    ) -> isize {
        UNSUPPORTED
    }

    /// [`Netmod::send`] of a packet that the library copies, whose body is `len` bytes: 0,
    /// [`AGAIN`], or an error.
    ///
    /// # Safety
    /// \[ENDPOINT\], \[DEST\], \[LIMIT\]: [`Caps::packet_inject`] for the packet; `len` is at
    /// most 8.
    #[inline(always)]
    unsafe fn inject_word(
        &self,
        endpoint: &Self::Endpoint,
        packet: &WordPacket,
        len: usize,
        dest: u64,
    ) -> isize {
        let WordPacket { head, body } = packet;
        // SAFETY: the caller's; what is copied is free at the return.
        unsafe { self.send(endpoint, head, body.as_ptr(), len, dest, 0) }
    }

    /// Sends bytes for which the peer has called [`Netmod::recv_bulk`] with the
    /// same tag and length. Answers as [`Netmod::send`].
    ///
    /// # Safety
    /// \[ENDPOINT\], \[DEST\], \[BUF\] to read from, \[LIMIT\]: [`Caps::max_bulk`].
    unsafe fn send_bulk(&self, _endpoint: &Self::Endpoint, _op: Bulk<*const u8>) -> isize {
        UNSUPPORTED
    }

    /// Receives bytes under a tag that no other bulk message to this endpoint
    /// has at this time. [`PENDING`], [`AGAIN`], or an error.
    ///
    /// # Safety
    /// \[ENDPOINT\], \[BUF\] to write to, \[LIMIT\]: [`Caps::max_bulk`].
    unsafe fn recv_bulk(&self, _endpoint: &Self::Endpoint, _op: Bulk<*mut u8>) -> isize {
        UNSUPPORTED
    }

    /// Cancels an operation. Its token comes back all the same, with an error
    /// unless it was done already.
    fn cancel(&self, _endpoint: &Self::Endpoint, _token: u64) {}

    /// A descriptor that becomes readable when [`Netmod::poll`] has work;
    /// `None` where the provider has none.
    fn wait_fd(&self, _endpoint: &Self::Endpoint) -> Option<std::os::fd::RawFd> {
        None
    }

    /// Returns true if this thread may sleep on the descriptor now: nothing has
    /// arrived since the last poll. To be called before each sleep.
    fn arm(&self, _endpoint: &Self::Endpoint) -> bool {
        false
    }

    /// Returns true if [`Netmod::poll`] would find nothing, where that is told sooner than
    /// polled; stands for the poll then.
    fn is_quiet(&self, _endpoint: &Self::Endpoint) -> bool {
        false
    }

    /// Makes progress and hands out completions and the packets that arrived,
    /// head and body. Errors without a token come back as `Err`. `arrived` may
    /// send and issue; it must not poll. Returns true where it is known that operations
    /// of peers were carried out, of which nothing else tells here.
    ///
    /// # Errors
    /// [`NetError::Operation`] for a failed put that carried no token.
    fn poll(
        &self,
        endpoint: &Self::Endpoint,
        done: impl FnMut(Completion),
        arrived: impl FnMut(&[u8; HEAD], &[u8]),
    ) -> Result<bool, NetError>;

    /// The library's text for a negative answer of an operation.
    fn explain(&self, call: &'static str, code: isize) -> NetError;
}
