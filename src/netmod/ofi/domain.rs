//! A provider opened: fabric, domain, address vector, registered memory.

use super::atomic::Limits;
use super::bindings as sys;
use super::endpoint::{Direction, Endpoint};
use super::ffi::{self, Library};
use super::iov;
use super::lock_reaper::LockReaper;
use super::select::{Info, Request, open_library, select};
use super::stale_keys::{self, StaleKeys};
use super::{describe, open};
use crate::av::{AvError, Entry, Transport};
use crate::netmod::{
    Atomic, Bulk, Calls, Caps, Completion, HEAD, IovTransfer, Kind, Neighbours, NetError, Netmod,
    Op, OpenParams, Providers, Transfer, Type, limits,
};
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One libfabric provider with its domain and address vector.
pub struct Ofi {
    pub(super) lib: &'static Library,
    pub(super) info: Info,
    pub(super) caps: Caps,
    pub(super) mr_mode: i32,
    /// Longest packet that `fi_inject` takes, head and body.
    pub(super) inject: usize,
    pub(super) limits: Limits,
    pub(super) domain: *mut sys::fid_domain,
    pub(super) av: *mut sys::fid_av,
    pub(super) fabric: *mut sys::fid_fabric,
    /// Local registrations made.
    registered: AtomicU32,
    /// Held by what changes the set of endpoints or of addresses.
    setup: Mutex<()>,
    /// An address of this provider, to tell garbage from addresses.
    sample: Vec<u8>,
    /// Frees locks of shm's queues that killed processes hold.
    lock_reaper: Option<LockReaper>,
    /// Keys of windows that ended while peers may write to them.
    pub(super) stale_keys: StaleKeys,
}

// SAFETY: domain and AV are opened FI_THREAD_SAFE when several threads use
// them; with one endpoint everything runs in the endpoint owner's thread (the
// rule of `Netmod`'s documentation).
unsafe impl Send for Ofi {}
// SAFETY: as above.
unsafe impl Sync for Ofi {}

impl std::fmt::Debug for Ofi {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ofi").field("caps", &self.caps).finish_non_exhaustive()
    }
}

/// The access rights that a window's memory needs.
pub(super) const REMOTE: u64 = sys::FI_REMOTE_READ | sys::FI_REMOTE_WRITE;

/// Longest packet, head and body: one of two 4 KiB pages beside its head.
pub(super) const PACKET: usize = 8192 + HEAD;
/// Packets up to this are copied, and their sender's buffer is free at once,
/// where the provider itself would copy less.
const COPIED: usize = 1024;

/// shm keeps its peers in a fixed array (`SMR_MAX_PEERS` in its source).
pub(super) const SHM_PEERS: u32 = 256;
/// Bytes of a shm endpoint's segment with libfabric 1.17 (2.5: 13 MB), taken as
/// it fills.
const SHM_SEGMENT: u64 = 16 << 20;
/// Longest address that is a string (`SMR_NAME_MAX` in shm's source).
const MAX_NAME: usize = 256;

/// The number of peers that shm is used for: [`SHM_PEERS`], or fewer where
/// `RANKWAY_SHM_PEERS` says so, the same for all ranks. Further peers are
/// reached over the network.
fn shm_peers() -> u32 {
    crate::settings::SHM_PEERS.get().map_or(SHM_PEERS, |n| SHM_PEERS.min(n as u32))
}

/// Refuses where so many shm endpoints do not fit into the node's shared memory.
pub(super) fn check_shm_space(endpoints: u64) -> Result<(), NetError> {
    // SAFETY: all-zero is a valid statvfs, which the call fills.
    let mut fs: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: a C string and a structure of ours.
    let known = unsafe { libc::statvfs(c"/dev/shm".as_ptr(), &mut fs) } == 0;
    let free = fs.f_bavail as u64 * fs.f_frsize as u64;
    let needed = endpoints * SHM_SEGMENT;
    if known && free < needed {
        let place = "/dev/shm";
        return Err(NetError::NoSpace { provider: "shm".into(), place, free, needed });
    }
    Ok(())
}

/// Refuses where a peer's segment cannot be mapped: libfabric 1.17 writes there
/// without looking, and its crash handler hangs.
fn check_address_space() -> Result<(), NetError> {
    /// What else the library takes for a peer.
    const SLACK: u64 = 4 << 20;
    let needed = SHM_SEGMENT + SLACK;
    match crate::ulimit::address_space() {
        Some(left) if left < needed => {
            Err(NetError::NoAddressSpace { provider: "shm".into(), left, needed })
        }
        _ => Ok(()),
    }
}

impl Ofi {
    /// Opens the provider that fits the request. To be called before threads that
    /// read the environment: libfabric takes from there how it watches memory.
    ///
    /// # Errors
    /// [`NetError::Library`], [`NetError::NoProvider`], [`NetError::NoRma`],
    /// [`NetError::Call`].
    pub fn open(request: &Request) -> Result<Arc<Ofi>, NetError> {
        let lib = open_library()?;
        // Without space for one, libfabric would be ended by SIGBUS when it writes
        // there.
        if request.node_local || request.provider.as_deref() == Some("shm") {
            check_shm_space(1)?;
        }
        let info = select(request)?;
        let provider = info.name();
        // SAFETY: `chosen` is live and libfabric fills all attribute pointers of
        // the entries it answers.
        let (tx, ep, dom) = unsafe {
            let i = &*info.as_ptr();
            (&*i.tx_attr, &*i.ep_attr, &*i.domain_attr)
        };
        let mr_mode = dom.mr_mode;
        let local = mr_mode & sys::FI_MR_LOCAL != 0;
        let packet_size = if info.messages { PACKET } else { 0 };
        let packet_inject = match info.messages {
            // All packets are copied to registered memory.
            true if local => PACKET,
            true => tx.inject_size.clamp(COPIED, PACKET),
            false => 0,
        };
        let caps = Caps {
            packet_size,
            packet_inject,
            max_bulk: if info.messages { ep.max_msg_size } else { 0 },
            iov_limit: tx.iov_limit.min(tx.rma_iov_limit).clamp(1, iov::MAX_IOV),
            // An injected put is not acknowledged: only order tells its end.
            inject_size: if info.ordered { tx.inject_size } else { 0 },
            max_message: ep.max_msg_size,
            max_peers: if provider == "shm" { shm_peers() } else { u32::MAX },
            virtual_addresses: mr_mode & sys::FI_MR_VIRT_ADDR != 0,
            provider_keys: mr_mode & sys::FI_MR_PROV_KEY != 0,
            key_size: dom.mr_key_size,
            ..Caps::none(provider)
        };
        let inject = tx.inject_size.min(PACKET);
        let mut this = Ofi {
            lib,
            inject,
            limits: Limits::new(),
            info,
            caps,
            mr_mode,
            domain: null_mut(),
            av: null_mut(),
            fabric: null_mut(),
            registered: AtomicU32::new(0),
            setup: Mutex::new(()),
            sample: Vec::new(),
            lock_reaper: None,
            stale_keys: StaleKeys::default(),
        };
        this.lock_reaper = (this.caps.provider == "shm").then(LockReaper::new);
        // SAFETY: `info` is live; each object is opened on the one before and
        // closed in reverse order on drop, whatever was reached.
        unsafe {
            let info = this.info.as_ptr();
            let rc = lib.fi_fabric((*info).fabric_attr, &mut this.fabric, null_mut());
            this.check("fi_fabric", rc)?;
            let rc = ffi::fi_domain(this.fabric, info, &mut this.domain, null_mut());
            this.check("fi_domain", rc)?;
            let mut attr: sys::fi_av_attr = std::mem::zeroed();
            attr.type_ = sys::FI_AV_TABLE;
            // shm refuses to be told of more than it takes.
            attr.count = request.peers.min(this.caps.max_peers) as usize;
            let rc = ffi::fi_av_open(this.domain, &mut attr, &mut this.av, null_mut());
            this.check("fi_av_open", rc)?;
        }
        Ok(Arc::new(this))
    }

    /// Endpoints are opened and closed and addresses inserted one at a time:
    /// shm of 2.5 walks the address vector's endpoints on insertion and crashes
    /// on one that is bound but not enabled, `FI_THREAD_SAFE` or not.
    pub(super) fn lock_setup(&self) -> MutexGuard<'_, ()> {
        self.setup.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An error when a call answered other than zero.
    pub(super) fn check(&self, call: &'static str, rc: i32) -> Result<(), NetError> {
        if rc == 0 { Ok(()) } else { Err(self.explain(call, rc as isize)) }
    }

    /// Returns true if the provider asks for this mode of memory registration.
    pub(super) fn requires_registration(&self, bit: i32) -> bool {
        self.mr_mode & bit != 0
    }

    /// Bytes of bounce buffer each tracked operation has.
    pub(super) fn bounce_size(&self) -> usize {
        if self.requires_registration(sys::FI_MR_LOCAL) {
            PACKET
        } else if self.inject < self.caps.packet_inject {
            self.caps.packet_inject
        } else {
            0
        }
    }

    /// A key for a local registration. It is never told to anyone; where the
    /// provider does not choose it, it need only differ from the windows' and
    /// from those of the other local registrations there are; rxm of 1.17 has
    /// been seen to take keys from 2^31 on for itself.
    pub(super) fn local_key(&self) -> u64 {
        let n = self.registered.fetch_add(1, Ordering::Relaxed);
        u64::from(n | 3 << 30)
    }

    /// The access rights that an endpoint's own buffers need.
    pub(super) fn local_access(&self) -> u64 {
        let messages = if self.info.messages { sys::FI_SEND | sys::FI_RECV } else { 0 };
        sys::FI_READ | sys::FI_WRITE | messages
    }

    /// Registers memory for `access` rights.
    ///
    /// # Safety
    /// As [`Netmod::register`].
    pub(super) unsafe fn register_for(
        self: &Arc<Self>,
        endpoint: *mut sys::fid_ep,
        start: *const u8,
        len: usize,
        access: u64,
        key: u64,
    ) -> Result<Region, NetError> {
        // SAFETY: the caller's duty.
        let mr = unsafe { self.open_mr(start, len, access, key)? };
        let region = Region { mr, key, len, owner: Arc::clone(self) };
        if self.requires_registration(sys::FI_MR_ENDPOINT) {
            // SAFETY: both objects are open and of the same domain (fi_mr(3),
            // FI_MR_ENDPOINT).
            let rc = unsafe { ffi::fi_mr_bind(mr, &raw mut (*endpoint).fid, 0) };
            self.check("fi_mr_bind", rc)?;
            // SAFETY: as above.
            let rc = unsafe { ffi::fi_mr_enable(mr) };
            self.check("fi_mr_enable", rc)?;
        }
        Ok(region)
    }

    /// # Safety
    /// `start..start + len` stays mapped until the registration is closed.
    pub(super) unsafe fn open_mr(
        &self,
        start: *const u8,
        len: usize,
        access: u64,
        key: u64,
    ) -> Result<*mut sys::fid_mr, NetError> {
        let mut mr = null_mut();
        // SAFETY: the domain is open; the caller keeps the memory mapped.
        let rc = unsafe {
            ffi::fi_mr_reg(
                self.domain,
                start.cast::<c_void>(),
                len,
                access,
                0,
                key,
                0,
                &mut mr,
                null_mut(),
            )
        };
        self.check("fi_mr_reg", rc)?;
        Ok(mr)
    }

    /// Refuses bytes that cannot be a peer's address.
    fn validate(&self, raw: &[u8]) -> Result<(), String> {
        // SAFETY: `info` lives as long as self.
        let format = unsafe { (*self.info.as_ptr()).addr_format };
        match format {
            sys::FI_ADDR_STR => {
                // Providers copy it into a buffer of this size, as one C string.
                let text = raw.strip_suffix(&[0]).filter(|b| b.len() < MAX_NAME && !b.contains(&0));
                let text = text.and_then(|b| std::str::from_utf8(b).ok());
                match text.and_then(|t| t.split_once("://")) {
                    Some((scheme, _)) if scheme.starts_with("fi_") => Ok(()),
                    _ => Err(format!("{raw:02x?} is not a string like fi_shm://…")),
                }
            }
            sys::FI_SOCKADDR_IN => socket_address(raw, libc::AF_INET, 16),
            sys::FI_SOCKADDR_IN6 => socket_address(raw, libc::AF_INET6, 28),
            _ if self.sample.is_empty() || raw.len() == self.sample.len() => Ok(()),
            _ => Err(format!("{} bytes instead of {}", raw.len(), self.sample.len())),
        }
    }
}

fn socket_address(raw: &[u8], family: i32, len: usize) -> Result<(), String> {
    let is = |at: usize| raw.get(at..at + 2).map(|b| u16::from_ne_bytes([b[0], b[1]]));
    if raw.len() != len {
        return Err(format!("{} bytes instead of {len}", raw.len()));
    }
    if is(0) != Some(family as u16) {
        return Err(format!("address family {:?} instead of {family}", is(0).unwrap_or(0)));
    }
    if is(2) == Some(0) {
        return Err("port 0".into());
    }
    Ok(())
}

impl Drop for Ofi {
    fn drop(&mut self) {
        self.stale_keys.clear();
        // SAFETY: opened by `open`, closed once, in reverse order; endpoints and
        // regions hold an Arc of self, so none is left.
        unsafe {
            // The fid is the first member of every object (fabric(7)).
            for fid in [self.av.cast(), self.domain.cast(), self.fabric.cast::<sys::fid>()] {
                if !fid.is_null() {
                    ffi::fi_close(fid);
                }
            }
        }
    }
}

/// Registered memory; deregistered on drop.
pub struct Region {
    pub(super) mr: *mut sys::fid_mr,
    /// What was asked for; the provider may have chosen another.
    pub(super) key: u64,
    pub(super) len: usize,
    pub(super) owner: Arc<Ofi>,
}

// SAFETY: a registration is only closed and asked for its key; both go to a
// domain whose threading rules `Ofi` keeps.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl std::fmt::Debug for Region {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Region").field("provider", &self.owner.caps.provider).finish()
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: opened by register_for, closed once.
        unsafe { ffi::fi_close(self.mr.cast()) };
    }
}

impl Netmod for Ofi {
    type Endpoint = Endpoint;
    type InjectHandle = super::endpoint::InjectHandle;
    type Region = Region;

    const NAME: &'static str = "ofi";
    const CALLS: Calls = Calls {
        inject: "fi_inject_write",
        write: "fi_writemsg",
        read: "fi_readmsg",
        atomic: "fi_atomic",
        send: "fi_sendmsg",
        send_bulk: "fi_tsendmsg",
        recv_bulk: "fi_trecv",
        ..Calls::GENERIC
    };

    fn is_installed() -> bool {
        describe::library().is_ok()
    }

    fn open_providers(params: &OpenParams) -> Result<Providers<Ofi>, NetError> {
        open::providers(params)
    }

    fn open_network(params: &OpenParams) -> Result<Arc<Ofi>, NetError> {
        open::network(params)
    }

    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn open_endpoint(self: &Arc<Self>) -> Result<Endpoint, NetError> {
        if self.caps.provider == "shm" {
            check_shm_space(1)?;
        }
        Endpoint::open(self)
    }

    fn set_neighbours(&self, neighbours: Neighbours) {
        if let Some(lock_reaper) = &self.lock_reaper {
            lock_reaper.set_neighbours(neighbours);
        }
    }

    fn address(&self, endpoint: &Endpoint) -> Result<Vec<u8>, NetError> {
        let mut raw = vec![0_u8; 256];
        let mut len = raw.len();
        // SAFETY: the endpoint is enabled; `raw` holds `len` bytes.
        let rc = unsafe { ffi::fi_getname(endpoint.ep(), raw.as_mut_ptr().cast(), &mut len) };
        self.check("fi_getname", rc)?;
        raw.truncate(len);
        // A process killed inside this queue would hang its owner too.
        if let Some(lock_reaper) = &self.lock_reaper {
            lock_reaper.watch(&raw);
        }
        Ok(raw)
    }

    fn insert(&self, _: &Endpoint, raw: &[u8]) -> Result<u64, NetError> {
        let provider = || self.caps.provider.clone();
        if self.caps.provider == "shm" {
            check_address_space()?;
        }
        self.validate(raw).map_err(|reason| NetError::Address { provider: provider(), reason })?;
        let mut addr = sys::fi_addr_t::MAX;
        let _setup = self.lock_setup();
        // SAFETY: `raw` passed `validate`, so it is as long as one address of
        // this provider's format; the AV is open.
        let n =
            unsafe { ffi::fi_av_insert(self.av, raw.as_ptr().cast(), 1, &mut addr, 0, null_mut()) };
        match n {
            1 => {
                if let Some(lock_reaper) = &self.lock_reaper {
                    lock_reaper.watch(raw);
                }
                Ok(addr)
            }
            n if n < 0 => Err(self.explain("fi_av_insert", n as isize)),
            _ => {
                let reason = format!("fi_av_insert refused {raw:02x?}");
                let reason = crate::ulimit::explained(reason);
                Err(NetError::Address { provider: provider(), reason })
            }
        }
    }

    unsafe fn register(
        self: &Arc<Self>,
        endpoint: &Endpoint,
        start: *mut u8,
        len: usize,
        key: u64,
    ) -> Result<Region, NetError> {
        if self.requires_registration(sys::FI_MR_ALLOCATED) {
            populate(start, len);
        }
        // SAFETY: the caller's duty.
        unsafe { self.register_for(endpoint.ep(), start, len, REMOTE, key) }
    }

    fn abandon(region: Region) {
        stale_keys::keep(region);
    }

    fn key(&self, region: &Region) -> u64 {
        // SAFETY: the registration is open.
        unsafe { ffi::fi_mr_key(region.mr) }
    }

    fn pack(address: u64, transport: Transport) -> Result<Entry, AvError> {
        Entry::index(address, transport)
    }

    #[inline(always)]
    fn unpack(entry: Entry) -> Option<(u64, Transport)> {
        entry.as_index()
    }

    #[inline(always)]
    fn network(entry: Entry) -> Option<u64> {
        entry.network_index()
    }

    #[inline(always)]
    fn inject_handle(endpoint: &Endpoint) -> Self::InjectHandle {
        endpoint.inject_handle()
    }

    #[inline(always)]
    unsafe fn inject(
        handle: Self::InjectHandle,
        buf: *const u8,
        len: usize,
        dest: u64,
        addr: u64,
        key: u64,
    ) -> isize {
        // SAFETY: the endpoint lives by the contract; the rest is the
        // caller's duty.
        unsafe { handle.inject(buf, len, dest, addr, key) }
    }

    unsafe fn write(&self, endpoint: &Endpoint, op: Transfer<*const u8>) -> isize {
        // SAFETY: the caller's duty.
        unsafe { endpoint.write(op) }
    }

    unsafe fn read(&self, endpoint: &Endpoint, op: Transfer<*mut u8>) -> isize {
        // SAFETY: the caller's duty.
        unsafe { endpoint.read(op) }
    }

    unsafe fn write_iov(&self, endpoint: &Endpoint, op: IovTransfer<'_>) -> isize {
        // SAFETY: the caller's duty.
        unsafe { endpoint.transfer_iov(op, Direction::Write) }
    }

    unsafe fn read_iov(&self, endpoint: &Endpoint, op: IovTransfer<'_>) -> isize {
        // SAFETY: the caller's duty.
        unsafe { endpoint.transfer_iov(op, Direction::Read) }
    }

    fn atomic_limit(&self, endpoint: &Endpoint, kind: Kind, ty: Type, op: Op) -> usize {
        endpoint.atomic_limit(kind, ty, op)
    }

    unsafe fn atomic(&self, endpoint: &Endpoint, op: &Atomic) -> isize {
        // SAFETY: the caller's duty.
        unsafe { endpoint.atomic(op) }
    }

    unsafe fn send_bulk(&self, endpoint: &Endpoint, op: Bulk<*const u8>) -> isize {
        // SAFETY: the caller's duty.
        unsafe { endpoint.send_bulk(op) }
    }

    unsafe fn recv_bulk(&self, endpoint: &Endpoint, op: Bulk<*mut u8>) -> isize {
        // SAFETY: the caller's duty.
        unsafe { endpoint.recv_bulk(op) }
    }

    fn cancel(&self, endpoint: &Endpoint, token: u64) {
        endpoint.cancel(token);
    }

    fn wait_fd(&self, endpoint: &Endpoint) -> Option<std::os::fd::RawFd> {
        endpoint.fd
    }

    fn arm(&self, endpoint: &Endpoint) -> bool {
        endpoint.arm()
    }

    #[inline]
    unsafe fn send(
        &self,
        endpoint: &Endpoint,
        head: &[u8; HEAD],
        body: *const u8,
        len: usize,
        dest: u64,
        token: u64,
    ) -> isize {
        // SAFETY: the caller's duty.
        unsafe { endpoint.send(head, body, len, dest, token) }
    }

    fn poll(
        &self,
        endpoint: &Endpoint,
        done: impl FnMut(Completion),
        arrived: impl FnMut(&[u8; HEAD], &[u8]),
    ) -> Result<(), NetError> {
        endpoint.poll(done, arrived)
    }

    fn explain(&self, call: &'static str, code: isize) -> NetError {
        let text = crate::ulimit::explained(self.lib.strerror(code));
        let provider = self.caps.provider.clone();
        let error = NetError::Call { provider, call, code: code as i64, text };
        // A provider that registers local buffers locks them.
        let locks =
            code == -(libc::ENOMEM as isize) && self.requires_registration(sys::FI_MR_LOCAL);
        if locks { limits::out_of_memory(error) } else { error }
    }
}

/// Backs a range with memory before it is registered (`FI_MR_ALLOCATED`).
fn populate(start: *mut u8, len: usize) {
    let page = 4096_usize;
    let aligned = start.addr() & !(page - 1);
    let span = (start.addr() + len).next_multiple_of(page) - aligned;
    // SAFETY: advice only: it allocates pages of a range the caller has mapped,
    // and a kernel before 5.14 refuses it, in which case registration itself
    // faults the pages in.
    unsafe { libc::madvise(start.with_addr(aligned).cast(), span, libc::MADV_POPULATE_WRITE) };
}
