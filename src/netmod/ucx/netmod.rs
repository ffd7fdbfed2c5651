//! The netmod's operations: UCX as [`Netmod`] has it.

use super::bindings as sys;
use super::constants::COSTS;
use super::domain::{Request, Ucx};
use super::endpoint::Worker;
use super::inject::InjectHandle;
use super::region::{self, Region};
use super::{atomic, describe, frame};
use crate::av::{AvError, Entry, Transport};
use crate::netmod::{
    Atomic, Bulk, Calls, Caps, Completion, Costs, HEAD, Kind, NetError, Netmod, Op, OpenParams,
    Providers, Transfer, Type,
};
use std::sync::Arc;

impl Netmod for Ucx {
    type Endpoint = Worker;
    type InjectHandle = InjectHandle;
    type Region = Region;

    const NAME: &'static str = "ucx";
    const CALLS: Calls = Calls {
        inject: "ucp_put_nbx",
        write: "ucp_put_nbx",
        read: "ucp_get_nbx",
        atomic: "ucp_atomic_op_nbx",
        flush: "ucp_ep_flush_nbx",
        send: "ucp_am_send_nbx",
        send_bulk: "ucp_tag_send_nbx",
        recv_bulk: "ucp_tag_recv_nbx",
    };
    const KEY_HANDLES: bool = true;

    fn is_installed() -> bool {
        describe::library().is_ok()
    }

    fn costs(provider: &str) -> Option<Costs> {
        (provider == Self::NAME).then_some(COSTS)
    }

    fn open_providers(params: &OpenParams) -> Result<Providers<Ucx>, NetError> {
        let &OpenParams { threads, wakeup, peers, .. } = params;
        let network = Some(Ucx::open(&Request { threads, wakeup, peers })?);
        Ok(Providers { network, node: None })
    }

    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn own_addresses(&self) -> bool {
        true
    }

    fn peer_died(&self, worker: &Worker, dest: Option<u64>) {
        worker.inner().add_death(dest);
    }

    fn flushes(&self) -> bool {
        true
    }

    fn open_endpoint(self: &Arc<Self>) -> Result<Worker, NetError> {
        Worker::open(self)
    }

    fn address(&self, worker: &Worker) -> Result<Vec<u8>, NetError> {
        Ok(frame::wrap(frame::ADDRESS, &worker.address()?))
    }

    fn network_address(&self, worker: &Worker) -> Result<Vec<u8>, NetError> {
        Ok(frame::wrap(frame::ADDRESS, &worker.network_address()?))
    }

    fn insert(&self, worker: &Worker, raw: &[u8]) -> Result<u64, NetError> {
        let address = frame::unwrap(frame::ADDRESS, raw).map_err(|why| self.address_error(why))?;
        worker.connect(address)
    }

    fn is_drained(&self, endpoint: &Worker, dest: u64) -> bool {
        endpoint.is_drained(dest)
    }

    unsafe fn register(
        self: &Arc<Self>,
        _: &Worker,
        start: *mut u8,
        len: usize,
        _: u64,
    ) -> Result<Region, NetError> {
        // SAFETY: [MEM].
        unsafe { Region::register(self, start, len) }
    }

    fn abandon(region: Region) {
        region.abandon();
    }

    fn allocate(
        self: &Arc<Self>,
        _: &Worker,
        len: usize,
    ) -> Result<Option<(Region, *mut u8)>, NetError> {
        Region::allocate(self, len).map(Some)
    }

    fn key(&self, _: &Region) -> u64 {
        0
    }

    fn rkey_pack(&self, region: &Region) -> Result<Vec<u8>, NetError> {
        Ok(frame::wrap(frame::KEY, &region.rkey_pack()?))
    }

    unsafe fn rkey_unpack(&self, _: &Worker, dest: u64, packed: &[u8]) -> Result<u64, NetError> {
        let key = frame::unwrap(frame::KEY, packed).map_err(|why| self.address_error(why))?;
        // SAFETY: [DEST]; the frame was whole, so these are the bytes of a key.
        unsafe { region::rkey_unpack(self, dest, key) }
    }

    unsafe fn rkey_destroy(&self, key: u64) {
        // SAFETY: [KEY]: unpacked, not destroyed; used no more.
        unsafe { (self.f().ucp_rkey_destroy)(key as sys::ucp_rkey_h) };
    }

    unsafe fn rkey_ptr(&self, key: u64, addr: u64) -> Option<*mut u8> {
        // SAFETY: [KEY]: `addr` lies in its region.
        unsafe { region::rkey_ptr(self, key, addr) }
    }

    fn pack(address: u64, transport: Transport) -> Result<Entry, AvError> {
        Entry::handle(address, transport as u8)
    }

    #[inline(always)]
    fn unpack(entry: Entry) -> Option<(u64, Transport)> {
        let (endpoint, bits) = entry.as_handle()?;
        let local = bits & Transport::Local as u8 != 0;
        Some((endpoint, if local { Transport::Local } else { Transport::Network }))
    }

    #[inline(always)]
    fn network(entry: Entry) -> Option<u64> {
        // One provider serves every peer, so no entry of this netmod has
        // another transport.
        if entry.is_empty() { None } else { Some(entry.to_bits()) }
    }

    #[inline(always)]
    fn inject_handle(worker: &Worker) -> InjectHandle {
        worker.inject_handle()
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
        // SAFETY: [ENDPOINT], [DEST], [KEY], [BUF].
        unsafe { handle.inject(buf, len, dest, addr, key) }
    }

    #[inline(always)]
    unsafe fn inject_now(
        handle: InjectHandle,
        buf: *const u8,
        len: usize,
        dest: u64,
        addr: u64,
        key: u64,
    ) -> isize {
        // SAFETY: [ENDPOINT], [DEST], [KEY], [BUF].
        unsafe { handle.inject_now(buf, len, dest, addr, key) }.addr().cast_signed()
    }

    unsafe fn write(&self, worker: &Worker, op: Transfer<*const u8>) -> isize {
        // SAFETY: [DEST], [KEY], [BUF].
        unsafe { worker.write(op) }
    }

    unsafe fn read(&self, worker: &Worker, op: Transfer<*mut u8>) -> isize {
        // SAFETY: [DEST], [KEY], [BUF].
        unsafe { worker.read(op) }
    }

    unsafe fn flush(&self, worker: &Worker, dest: u64, token: u64) -> isize {
        // SAFETY: [DEST].
        unsafe { worker.flush(dest, token) }
    }

    fn atomic_limit(&self, _: &Worker, kind: Kind, ty: Type, op: Op) -> usize {
        usize::from(atomic::operation(kind, ty, op).is_some())
    }

    unsafe fn atomic(&self, worker: &Worker, op: &Atomic) -> isize {
        // SAFETY: [DEST], [KEY]; [BUF] for the element.
        unsafe { worker.atomic(op) }
    }

    unsafe fn send(
        &self,
        worker: &Worker,
        head: &[u8; HEAD],
        body: *const u8,
        len: usize,
        dest: u64,
        token: u64,
    ) -> isize {
        // SAFETY: [DEST]; [BUF] for the body.
        unsafe { worker.send(head, body, len, dest, token) }
    }

    unsafe fn send_bulk(&self, worker: &Worker, op: Bulk<*const u8>) -> isize {
        // SAFETY: [DEST], [BUF].
        unsafe { worker.send_bulk(op) }
    }

    unsafe fn recv_bulk(&self, worker: &Worker, op: Bulk<*mut u8>) -> isize {
        // SAFETY: [BUF].
        unsafe { worker.recv_bulk(op) }
    }

    fn cancel(&self, worker: &Worker, token: u64) {
        worker.cancel(token);
    }

    fn wait_fd(&self, worker: &Worker) -> Option<std::os::fd::RawFd> {
        worker.wait_fd()
    }

    fn arm(&self, worker: &Worker) -> bool {
        worker.arm()
    }

    fn poll(
        &self,
        worker: &Worker,
        done: impl FnMut(Completion),
        arrived: impl FnMut(&[u8; HEAD], &[u8]),
    ) -> Result<bool, NetError> {
        worker.poll(done, arrived)
    }

    fn explain(&self, call: &'static str, code: isize) -> NetError {
        Ucx::explain(self, call, code)
    }
}
