//! Processes of one node, without a library: memory of their own that they share, and
//! copies by the system into memory that they do not.
//!
//! | operation | how |
//! |---|---|
//! | short put, short get | a packet in a ring of the target's, which its next poll carries out; what a get brings is written into the packet |
//! | flush | waits until the ring is empty; a target that does not come to it in a few microseconds is spared it: the origin takes the ring's receiving end and copies what is left into the target's memory itself |
//! | operation on elements | a packet in the same ring, carried out as a put is, under a lock of the target's elements |
//! | long update of elements | a packet that says where the operands are, which the target reads from there; an origin whose target does not come to it does it by attaching to the target |
//! | long put, get | pieces in the ring while the target takes them, so that both sides copy; what is left, or all where it does not poll, by one call of process_vm_writev(2) or process_vm_readv(2) |
//! | put, get with layouts | one call of these |
//! | packet | a packet in another ring |
//! | bulk message | one call of process_vm_writev(2), to where the receiver has said |
//!
//! So nothing waits for a target's progress, a death stops nobody, and nothing is left
//! behind. The role of a ring's receiver is taken or left alone; the lock of elements is held
//! for as long as some operations take, and taken from holders that have ended.
//!
//! Attaching to a process must be allowed (which is tried when a peer is inserted): not so
//! in another pid or user namespace, or where Yama forbids it (`ptrace_scope` of 2 or 3;
//! of 1 a process says that its peers may).

mod address;
mod bulk;
mod elements;
mod endpoint;
mod kept;
mod long;
mod offer;
mod peer;
mod places;
mod table;

pub use endpoint::Endpoint;

use super::{
    AGAIN, Atomic, Bulk, Caps, Completion, Costs, HEAD, Iov, IovTransfer, Kind, NetError, Netmod,
    Op, OpenParams, Providers, Transfer, Type,
};
use crate::shm::attach::Direction;
use crate::shm::element_lock::{ElementLock, Holder};
use crate::shm::ring::LONGEST;
use crate::shm::segment::{Place, Shared};
use address::Address;
use kept::Kept;
use peer::Peer;
use std::ffi::c_void;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use table::Table;

/// A target that has not polled for so long is not waited for.
const PATIENCE: Duration = Duration::from_micros(3);
/// A target that is amidst a ring for so long is stopped, or was killed and never gives it back.
const LATE: Duration = Duration::from_millis(1);
/// The longest put and get that go by a ring: they are copied twice, where a longer one
/// costs a call of the system.
const INJECT: usize = 16 * 1024 - 64;
/// What it is called in settings.
pub const NAME: &str = "node";

/// An error number, positive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Error(i32);

impl Error {
    fn of(why: &std::io::Error) -> Error {
        Error(why.raw_os_error().unwrap_or(libc::EIO))
    }

    fn code(self) -> isize {
        -(self.0 as isize)
    }

    fn text(self) -> String {
        match self.0 {
            libc::ESRCH => "the process has ended".into(),
            libc::ENOKEY => "the target has no memory of that length under the key".into(),
            libc::ENOSPC => "the key is taken, or the table of registered memory full".into(),
            libc::EPERM => "this process may not attach to the target (any more)".into(),
            libc::ENOMSG => "the target does not wait for it (any more)".into(),
            libc::EPROTO => "the ring has what no peer writes".into(),
            code => std::io::Error::from_raw_os_error(code).to_string(),
        }
    }
}

/// The processes of a node, opened.
#[derive(Debug)]
pub struct Node {
    caps: Caps,
    /// Senders that the rings of an endpoint have places for.
    places: u32,
    table: Table,
    me: Holder,
    /// Held while elements of this process's memory are changed.
    element_lock: ElementLock,
    file: Shared,
    /// Held to read while regions are written to, to write while they change.
    regions: RwLock<()>,
    kept: Kept,
}

impl Node {
    pub(super) fn open(params: &OpenParams) -> Result<Node, NetError> {
        /// Contexts of a process, and processes of other jobs that live.
        const FURTHER: u32 = 16;
        let caps = Caps {
            inject_size: INJECT,
            max_message: isize::MAX as usize,
            iov_limit: 1024,
            packet_size: LONGEST,
            packet_inject: LONGEST,
            max_bulk: isize::MAX as usize,
            done_at_call: INJECT,
            ..Caps::none(NAME)
        };
        allow_attaching();
        let contexts = if params.threads { FURTHER } else { 1 };
        let refused = |call, why: &std::io::Error| refused(call, why);
        let file =
            Shared::create("rankway-regions").map_err(|why| refused("memfd_create", &why))?;
        let segment = file.map(table::BYTES).map_err(|why| refused("mmap", &why))?;
        // SAFETY: a new memory file of that length.
        let (table, me) = (unsafe { Table::new(segment) }, Holder::current());
        Ok(Node {
            caps,
            places: params.on_node.saturating_mul(contexts).saturating_add(FURTHER),
            element_lock: table.element_lock(me),
            table,
            me,
            file,
            regions: RwLock::default(),
            kept: Kept::default(),
        })
    }

    fn table_place(&self) -> Place {
        self.file.place()
    }

    /// Runs `act` while no region goes away.
    fn with_regions<R>(&self, act: impl FnOnce(&Table) -> R) -> R {
        let _held = self.regions.read().unwrap_or_else(PoisonError::into_inner);
        act(&self.table)
    }

    /// The error of an operation that was under way.
    fn failed(&self, error: Error) -> NetError {
        let Error(code) = error;
        NetError::Operation {
            provider: NAME.into(),
            peer: None,
            code: i64::from(code),
            text: error.text(),
        }
    }

    fn refused(&self, call: &'static str, why: &std::io::Error) -> NetError {
        refused(call, why)
    }
}

/// The system refused something.
fn refused(call: &'static str, why: &std::io::Error) -> NetError {
    let text = crate::ulimit::explained(why.to_string());
    NetError::Call { provider: NAME.into(), call, code: Error::of(why).code() as i64, text }
}

/// Returns true if processes of this one's kind may attach to each other, as far as one
/// can tell: not by Yama's `ptrace_scope` of 2 or 3, nor a filter of system calls.
#[must_use]
pub fn is_possible() -> bool {
    crate::shm::attach::domain().is_some()
}

/// Where Yama lets only those attach that a process names, names all (of its user).
fn allow_attaching() {
    const SCOPE: &str = "/proc/sys/kernel/yama/ptrace_scope";
    if std::fs::read_to_string(SCOPE).is_ok_and(|scope| scope.trim() == "1") {
        // SAFETY: numbers. Where it fails peers say so.
        unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY, 0, 0, 0) };
    }
}

/// Measured on an idle machine: a call of the system 1,100 ns, each further stretch of
/// the target 340.
const COSTS: Costs =
    Costs { call: 1100.0, origin_entry: 20.0, target_entry: 340.0, entries: 1024, byte: 0.06 };

/// Registered memory; taken out of the table on drop.
#[derive(Debug)]
pub struct Region {
    owner: Arc<Node>,
    key: u64,
}

impl Drop for Region {
    fn drop(&mut self) {
        let _held = self.owner.regions.write().unwrap_or_else(PoisonError::into_inner);
        self.owner.table.remove(self.key);
    }
}

/// What an inject needs: a function as a device layer in C calls it.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct InjectHandle {
    inject: Inject,
    unused: *const c_void,
}

pub(super) type Inject =
    unsafe extern "C" fn(*const c_void, *const u8, usize, u64, u64, u64) -> isize;

#[cfg(feature = "ofi")]
impl InjectHandle {
    /// For a handle of the same shape.
    pub(super) fn parts(self) -> (*const c_void, Inject) {
        (self.unused, self.inject)
    }
}

/// # Safety
/// That of [`Netmod::inject`].
unsafe extern "C" fn inject(
    _: *const c_void,
    buf: *const u8,
    len: usize,
    dest: u64,
    addr: u64,
    key: u64,
) -> isize {
    // SAFETY: [DEST], [BUF], [LIMIT].
    unsafe { peer_at(dest).put(key, addr, buf, len) }
}

/// # Safety
/// \[DEST\], and the endpoint lives.
#[inline(always)]
unsafe fn peer_at<'a>(dest: u64) -> &'a Peer {
    // SAFETY: [DEST]: one of the endpoint's boxes, which it keeps.
    unsafe { &*std::ptr::with_exposed_provenance(dest as usize) }
}

impl Netmod for Node {
    type Endpoint = Endpoint;
    type InjectHandle = InjectHandle;
    type Region = Region;

    const NAME: &'static str = NAME;

    fn costs(provider: &str) -> Option<Costs> {
        (provider == NAME).then_some(COSTS)
    }

    fn open_providers(params: &OpenParams) -> Result<Providers<Self>, NetError> {
        if params.on_node < params.peers {
            let (have, all) = (params.on_node, params.peers);
            let why = format!(
                "the netmod '{NAME}' reaches processes of one node, {have} of the {all} here; \
                 unset RANKWAY_NETMOD"
            );
            return Err(NetError::Library(why));
        }
        Ok(Providers { network: Some(Arc::new(Node::open(params)?)), node: None })
    }

    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn own_addresses(&self) -> bool {
        true
    }

    fn flushes(&self) -> bool {
        true
    }

    fn locks_elements(&self) -> bool {
        true
    }

    fn open_endpoint(self: &Arc<Self>) -> Result<Endpoint, NetError> {
        Endpoint::open(self)
    }

    fn address(&self, endpoint: &Endpoint) -> Result<Vec<u8>, NetError> {
        Ok(endpoint.address().encode())
    }

    fn insert(&self, endpoint: &Endpoint, raw: &[u8]) -> Result<u64, NetError> {
        let wrong = |reason: String| NetError::Address { provider: NAME.into(), reason };
        let address =
            Address::decode(raw).ok_or_else(|| wrong(format!("{} bytes are none", raw.len())))?;
        if let Some(peer) = self.kept.take(&address) {
            return Ok(endpoint.add(peer));
        }
        let peer = Peer::open(&address, self.me).map_err(|why| match why.raw_os_error() {
            Some(code @ (libc::ENOMEM | libc::EMFILE | libc::ENFILE)) => NetError::Call {
                provider: NAME.into(),
                call: "mapping a peer's queues",
                code: -i64::from(code),
                text: crate::ulimit::explained(why.to_string()),
            },
            Some(libc::ENOENT) => {
                let reason = "its queues are not there: it has closed its context, or left the job";
                wrong(reason.into())
            }
            _ => {
                let remedy = "libfabric's shm goes without it (RANKWAY_PROVIDER=shm)";
                wrong(crate::ulimit::explained(format!("{why}; {remedy}")))
            }
        })?;
        Ok(endpoint.add(Box::new(peer)))
    }

    fn remove(&self, endpoint: &Endpoint, address: u64) {
        endpoint.remove(address);
    }

    unsafe fn register(
        self: &Arc<Self>,
        _: &Endpoint,
        start: *mut u8,
        len: usize,
        key: u64,
    ) -> Result<Region, NetError> {
        let held = self.regions.write().unwrap_or_else(PoisonError::into_inner);
        let entered = self.table.insert(key, start.expose_provenance() as u64, len as u64);
        drop(held);
        match entered {
            true => Ok(Region { owner: Arc::clone(self), key }),
            false => Err(self.explain("register", -(libc::ENOSPC as isize))),
        }
    }

    fn key(&self, region: &Region) -> u64 {
        region.key
    }

    fn inject_handle(_: &Endpoint) -> InjectHandle {
        InjectHandle { inject, unused: std::ptr::null() }
    }

    #[inline(always)]
    unsafe fn inject(
        handle: InjectHandle,
        buf: *const u8,
        len: usize,
        dest: u64,
        addr: u64,
        key: u64,
    ) -> isize {
        // SAFETY: [DEST], [BUF], [LIMIT].
        unsafe { (handle.inject)(handle.unused, buf, len, dest, addr, key) }
    }

    unsafe fn write(&self, endpoint: &Endpoint, op: Transfer<*const u8>) -> isize {
        let Transfer { buf, len, dest, addr, key, token } = op;
        let list = [Iov { buf: buf.cast_mut(), len, addr }];
        // SAFETY: [DEST], [BUF].
        unsafe { self.write_iov(endpoint, IovTransfer { list: &list, dest, key, token }) }
    }

    unsafe fn read(&self, endpoint: &Endpoint, op: Transfer<*mut u8>) -> isize {
        let Transfer { buf, len, dest, addr, key, token } = op;
        // SAFETY: [DEST].
        let peer = unsafe { peer_at(dest) };
        if len <= INJECT && !peer.seems_absent() {
            return endpoint.start(peer, || peer.get(key, addr, (buf, len), token));
        }
        let list = [Iov { buf, len, addr }];
        // SAFETY: [DEST], [BUF].
        unsafe { self.read_iov(endpoint, IovTransfer { list: &list, dest, key, token }) }
    }

    unsafe fn write_iov(&self, endpoint: &Endpoint, op: IovTransfer<'_>) -> isize {
        // SAFETY: [DEST], [BUF].
        unsafe { copy(endpoint, Direction::Into, &op) }
    }

    unsafe fn read_iov(&self, endpoint: &Endpoint, op: IovTransfer<'_>) -> isize {
        // SAFETY: [DEST], [BUF].
        unsafe { copy(endpoint, Direction::Out, &op) }
    }

    unsafe fn flush(&self, endpoint: &Endpoint, dest: u64, token: u64) -> isize {
        // SAFETY: [DEST].
        let peer = unsafe { peer_at(dest) };
        if peer.is_flushed() {
            return 0;
        }
        endpoint.start(peer, || {
            peer.flush(token);
            super::PENDING
        })
    }

    fn element_lock(&self) -> Option<ElementLock> {
        Some(self.element_lock.clone())
    }

    unsafe fn element_lock_of(&self, _: &Endpoint, dest: u64) -> Option<ElementLock> {
        // SAFETY: [DEST].
        Some(unsafe { peer_at(dest) }.element_lock().clone())
    }

    fn atomic_limit(&self, _: &Endpoint, kind: Kind, ty: Type, op: Op) -> usize {
        elements::limit(kind, ty, op)
    }

    unsafe fn atomic(&self, endpoint: &Endpoint, op: &Atomic) -> isize {
        // SAFETY: [DEST].
        let peer = unsafe { peer_at(op.dest) };
        // SAFETY: [BUF], [LIMIT].
        endpoint.start(peer, || unsafe { peer.operate(op) })
    }

    unsafe fn send(
        &self,
        _: &Endpoint,
        head: &[u8; HEAD],
        body: *const u8,
        len: usize,
        dest: u64,
        _: u64,
    ) -> isize {
        // SAFETY: [DEST], [BUF], [LIMIT].
        if unsafe { peer_at(dest).packet(head, body, len) } { 0 } else { AGAIN }
    }

    unsafe fn send_bulk(&self, _: &Endpoint, op: Bulk<*const u8>) -> isize {
        let Bulk { buf, len, dest, tag, .. } = op;
        // SAFETY: [DEST], [BUF].
        unsafe { peer_at(dest).fill(tag, buf, len) }.map_or_else(Error::code, |()| 0)
    }

    unsafe fn recv_bulk(&self, endpoint: &Endpoint, op: Bulk<*mut u8>) -> isize {
        let Bulk { buf, len, tag, token, .. } = op;
        let posted = endpoint.receive(tag, buf.expose_provenance() as u64, len, token);
        if posted { super::PENDING } else { AGAIN }
    }

    fn cancel(&self, endpoint: &Endpoint, token: u64) {
        endpoint.cancel(token);
    }

    fn wait_fd(&self, endpoint: &Endpoint) -> Option<std::os::fd::RawFd> {
        endpoint.descriptor()
    }

    fn arm(&self, endpoint: &Endpoint) -> bool {
        endpoint.arm()
    }

    #[inline]
    fn is_quiet(&self, endpoint: &Endpoint) -> bool {
        endpoint.stays_quiet()
    }

    fn poll(
        &self,
        endpoint: &Endpoint,
        done: impl FnMut(Completion),
        arrived: impl FnMut(&[u8; HEAD], &[u8]),
    ) -> Result<bool, NetError> {
        endpoint.poll(done, arrived)
    }

    fn explain(&self, call: &'static str, code: isize) -> NetError {
        let text = Error(-code as i32).text();
        NetError::Call { provider: NAME.into(), call, code: code as i64, text }
    }
}

/// Copies a list at once.
///
/// # Safety
/// \[ENDPOINT\], \[DEST\], \[BUF\] of each entry.
unsafe fn copy(endpoint: &Endpoint, direction: Direction, op: &IovTransfer<'_>) -> isize {
    // SAFETY: [DEST].
    let peer = unsafe { peer_at(op.dest) };
    let done = match op.list {
        // SAFETY: [BUF].
        [iov] if iov.len <= long::LONGEST && !peer.seems_absent() => unsafe {
            peer.transfer_long(direction, op.key, iov)
        },
        // SAFETY: [BUF].
        list => unsafe { peer.copy(direction, op.key, list) },
    };
    match done {
        Ok(()) => {
            endpoint.end(op.token);
            0
        }
        Err(error) => error.code(),
    }
}
