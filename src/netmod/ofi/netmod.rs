//! The netmod's operations: libfabric as [`Netmod`] has it.

use super::bindings as sys;
use super::constants::{COSTS, PROVIDER_ENV, REMOTE};
use super::domain::Domain;
use super::endpoint::{Direction, Endpoint};
use super::inject::InjectHandle;
use super::region::Region;
use super::{describe, ffi, gather, open, shm};
use crate::netmod::{
    Atomic, Bulk, Calls, Caps, Completion, Costs, HEAD, IovTransfer, Kind, Neighbours, NetError,
    Netmod, Op, OpenParams, Providers, Transfer, Type, WordPacket, node, with_node,
};
use crate::settings::BadSetting;
use std::ptr::null_mut;
use std::sync::Arc;

impl Netmod for Domain {
    type Endpoint = Endpoint;
    type InjectHandle = InjectHandle;
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

    fn is_asked_for(provider: Option<&str>) -> Result<bool, NetError> {
        open::is_asked_for(provider)
    }

    fn check_settings() -> Result<(), BadSetting> {
        shm::PEERS.check()?;
        gather::PUTS.check()
    }

    fn segment_owner(name: &str) -> Option<u32> {
        shm::segment_owner(name)
    }

    fn segment(address: &[u8]) -> Option<&str> {
        shm::segment(address)
    }

    fn costs(provider: &str) -> Option<Costs> {
        COSTS.iter().find(|(part, _)| provider.contains(part)).map(|&(_, costs)| costs)
    }

    fn open_providers(params: &OpenParams) -> Result<Providers<Domain>, NetError> {
        open::providers(params)
    }

    fn open_network(params: &OpenParams) -> Result<Arc<Domain>, NetError> {
        open::network(params)
    }

    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn own_addresses(&self) -> bool {
        self.has_own_avs()
    }

    fn open_endpoint(self: &Arc<Self>) -> Result<Endpoint, NetError> {
        if self.caps.provider == "shm" {
            shm::check_space(1)?;
        }
        Endpoint::open(self)
    }

    fn peer_died(&self, endpoint: &Endpoint, dest: Option<u64>) {
        if let (Some(gather), Some(dest)) = (&endpoint.gather, dest) {
            gather.forget(dest);
        }
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
            // (A thread that starts where memory ends is ended by the C library, and all
            // of the process with it.)
            shm::check_address_space()?;
            lock_reaper.watch(&raw);
        }
        Ok(raw)
    }

    fn insert(&self, endpoint: &Endpoint, raw: &[u8]) -> Result<u64, NetError> {
        let provider = || self.caps.provider.clone();
        if self.caps.provider == "shm" {
            shm::check_address_space()?;
        }
        self.validate(raw).map_err(|reason| NetError::Address { provider: provider(), reason })?;
        let mut addr = sys::fi_addr_t::MAX;
        // SAFETY: `raw` passed `validate`, so it is as long as one address of
        // this provider's format; the AV is open.
        let n = self.setup.alone(|_| unsafe {
            ffi::fi_av_insert(endpoint.av(), raw.as_ptr().cast(), 1, &mut addr, 0, null_mut())
        });
        match n {
            1 => {
                shm::check_there(raw)?;
                if let Some(lock_reaper) = &self.lock_reaper {
                    lock_reaper.watch(raw);
                }
                Ok(addr)
            }
            n if n < 0 => Err(self.explain("fi_av_insert", n as isize)),
            _ => {
                let len = raw.len();
                let reason = format!("fi_av_insert refused an address of {len} bytes");
                let reason = crate::ulimit::explained(reason);
                Err(NetError::Full { provider: provider(), reason })
            }
        }
    }

    fn remove(&self, endpoint: &Endpoint, address: u64) {
        let (av, mut address) = (endpoint.av(), address);
        // SAFETY: an address of this address vector, which is open. (One that the provider
        // refuses to take out stays.)
        let _ = self.setup.alone(|_| unsafe { ffi::fi_av_remove(av, &mut address, 1, 0) });
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
        // SAFETY: [MEM]; [ENDPOINT]: it is one of this domain's.
        unsafe { self.register_for(endpoint.ep(), start, len, REMOTE, key) }
    }

    fn abandon(region: Region) {
        region.abandon();
    }

    fn key(&self, region: &Region) -> u64 {
        // SAFETY: the registration is open.
        unsafe { ffi::fi_mr_key(region.mr) }
    }

    #[inline(always)]
    fn inject_handle(endpoint: &Endpoint) -> InjectHandle {
        endpoint.inject_handle()
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
        // SAFETY: [ENDPOINT], [DEST], [BUF], [LIMIT].
        unsafe { handle.inject(buf, len, dest, addr, key) }
    }

    unsafe fn write(&self, endpoint: &Endpoint, op: Transfer<*const u8>) -> isize {
        // SAFETY: [DEST], [BUF], [LIMIT].
        unsafe { endpoint.write(op) }
    }

    unsafe fn read(&self, endpoint: &Endpoint, op: Transfer<*mut u8>) -> isize {
        // SAFETY: [DEST], [BUF], [LIMIT].
        unsafe { endpoint.read(op) }
    }

    unsafe fn write_iov(&self, endpoint: &Endpoint, op: IovTransfer<'_>) -> isize {
        // SAFETY: [DEST]; [BUF], [LIMIT] for every entry.
        unsafe { endpoint.transfer_iov(op, Direction::Write) }
    }

    unsafe fn read_iov(&self, endpoint: &Endpoint, op: IovTransfer<'_>) -> isize {
        // SAFETY: [DEST]; [BUF], [LIMIT] for every entry.
        unsafe { endpoint.transfer_iov(op, Direction::Read) }
    }

    fn atomic_limit(&self, endpoint: &Endpoint, kind: Kind, ty: Type, op: Op) -> usize {
        endpoint.atomic_limit(kind, ty, op)
    }

    unsafe fn atomic(&self, endpoint: &Endpoint, op: &Atomic) -> isize {
        // SAFETY: [DEST]; [BUF] for `count` elements, [LIMIT] for the count.
        unsafe { endpoint.atomic(op) }
    }

    unsafe fn send_bulk(&self, endpoint: &Endpoint, op: Bulk<*const u8>) -> isize {
        // SAFETY: [DEST], [BUF], [LIMIT].
        unsafe { endpoint.send_bulk(op) }
    }

    unsafe fn recv_bulk(&self, endpoint: &Endpoint, op: Bulk<*mut u8>) -> isize {
        // SAFETY: [BUF], [LIMIT].
        unsafe { endpoint.recv_bulk(op) }
    }

    fn cancel(&self, endpoint: &Endpoint, token: u64) {
        endpoint.cancel(token);
    }

    fn wait_fd(&self, endpoint: &Endpoint) -> Option<std::os::fd::RawFd> {
        endpoint.wait_fd()
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
        // SAFETY: [DEST]; [BUF] for the body, [LIMIT] for both parts.
        unsafe { endpoint.send(head, body, len, dest, token) }
    }

    #[inline(always)]
    unsafe fn inject_word(
        &self,
        endpoint: &Endpoint,
        packet: &WordPacket,
        len: usize,
        dest: u64,
    ) -> isize {
        // SAFETY: [DEST], [LIMIT].
        unsafe { endpoint.inject_word(packet, len, dest) }
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
        Domain::explain(self, call, code)
    }
}

impl with_node::Library for Domain {
    const PROVIDERS: &'static str = open::PROVIDERS_ENV;
    const OWN_SETTING: &'static str = PROVIDER_ENV;

    fn handle_of(node: node::InjectHandle) -> InjectHandle {
        InjectHandle::of_node(node)
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
