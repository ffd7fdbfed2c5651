//! A worker: endpoints, progress, and what is under way.

use super::bindings as sys;
use super::domain::{Ucx, return_code};
use super::ffi::Functions;
use super::slot::{self, CallStatus, SLOTS, Slot};
use crate::netmod::{AGAIN, Bulk, Completion, HEAD, IovTransfer, NetError, PENDING, Transfer};
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::{null, null_mut};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The number of the active message that packets are.
const PACKETS: u32 = 0;
/// How long closing a worker waits for its flush.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(300);
/// Failures nobody waits for that are kept until the next poll.
const FAILURES: usize = 64;

/// Parameters of an injected put: done at the call, or not begun.
struct Immediate(sys::ucp_request_param_t);

// SAFETY: the pointers in it are null and it is never written to.
unsafe impl Sync for Immediate {}

static IMMEDIATE: Immediate = Immediate(slot::plain(sys::UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL));

type Put = unsafe extern "C" fn(
    sys::ucp_ep_h,
    *const c_void,
    usize,
    u64,
    sys::ucp_rkey_h,
    *const sys::ucp_request_param_t,
) -> sys::ucs_status_ptr_t;

/// UCX's put and the worker it is for, side by side.
#[derive(Clone, Copy, Debug)]
pub struct InjectHandle {
    put: Put,
    inner: *const Inner,
}

impl InjectHandle {
    /// UCX's own put, which returns null when the buffer is free again.
    ///
    /// # Safety
    /// As [`Netmod::inject`](crate::netmod::Netmod::inject).
    #[inline(always)]
    pub(super) unsafe fn inject_now(
        self,
        buf: *const u8,
        len: usize,
        dest: u64,
        addr: u64,
        key: u64,
    ) -> sys::ucs_status_ptr_t {
        let (ep, rkey) = (dest as sys::ucp_ep_h, key as sys::ucp_rkey_h);
        // SAFETY: the caller's duty; the worker that made this is alive.
        unsafe { (self.put)(ep, buf.cast(), len, addr, rkey, &raw const IMMEDIATE.0) }
    }

    /// The same, by a copy where it cannot be done at once.
    ///
    /// # Safety
    /// As [`Netmod::inject`](crate::netmod::Netmod::inject).
    #[inline(always)]
    pub(super) unsafe fn inject(
        self,
        buf: *const u8,
        len: usize,
        dest: u64,
        addr: u64,
        key: u64,
    ) -> isize {
        // SAFETY: the caller's duty.
        let pointer = unsafe { self.inject_now(buf, len, dest, addr, key) };
        if pointer.is_null() {
            return 0;
        }
        // SAFETY: as above.
        unsafe { self.inject_by_copy(pointer, buf, len, dest, addr, key) }
    }

    /// A put that cannot complete at once: through a copy, so that the caller's
    /// buffer is free all the same. Never waits: when too many are in flight,
    /// the answer is [`AGAIN`] and the caller makes progress.
    ///
    /// # Safety
    /// As [`InjectHandle::inject`].
    #[cold]
    #[inline(never)]
    unsafe fn inject_by_copy(
        self,
        pointer: sys::ucs_status_ptr_t,
        buf: *const u8,
        len: usize,
        dest: u64,
        addr: u64,
        key: u64,
    ) -> isize {
        match slot::decode(pointer) {
            CallStatus::Refused(sys::UCS_ERR_NO_RESOURCE) => {}
            CallStatus::Refused(status) => return return_code(status),
            CallStatus::Done | CallStatus::InProgress(_) => return 0,
        }
        // SAFETY: the worker is alive by the caller's word.
        let inner = unsafe { &*self.inner };
        let Some(slot) = inner.take(None, dest) else { return AGAIN };
        // SAFETY: the slot is ours until its callback; the caller's duty for
        // the buffer.
        unsafe {
            let copy = (*slot).copy_in(buf, len).cast();
            let (ep, rkey) = (dest as sys::ucp_ep_h, key as sys::ucp_rkey_h);
            let pointer = (self.put)(ep, copy, len, addr, rkey, &slot::tracked(slot));
            match inner.started(slot, pointer) {
                Ok(_) => 0,
                Err(code) => code,
            }
        }
    }
}

/// A packet that arrived outside a poll.
type Packet = ([u8; HEAD], Box<[u8]>);

type Arrived<'a> = dyn FnMut(&[u8; HEAD], &[u8]) + 'a;

/// The state that callbacks get as their argument; it never moves.
pub(super) struct Inner {
    f: &'static Functions,
    worker: sys::ucp_worker_h,
    owner: Arc<Ucx>,
    free: RefCell<Vec<*mut Slot>>,
    /// All slots there are, free or not.
    slots: RefCell<Vec<*mut Slot>>,
    /// Tokens to hand out: with the endpoint and the status.
    done: RefCell<Vec<(u64, u64, sys::ucs_status_t)>>,
    /// Failures of operations without a token.
    failures: RefCell<Vec<(u64, sys::ucs_status_t)>>,
    /// Endpoints that failed, and why.
    failed: RefCell<BTreeMap<u64, sys::ucs_status_t>>,
    /// The closure that takes packets, within a poll.
    arrived: Cell<Option<*mut Arrived<'static>>>,
    /// Packets that came outside a poll.
    early_packets: RefCell<Vec<Packet>>,
    /// The panic of `arrived`, kept until UCX has returned: it must not unwind
    /// through UCX's frames.
    panic: Cell<Option<Box<dyn Any + Send>>>,
}

/// A worker, its endpoints and what is under way on them. Belongs to one
/// thread at a time.
pub struct Worker {
    inner: Box<Inner>,
}

// SAFETY: the pointers name objects of this worker alone; a worker has one
// owner at a time, who may change (UCS_THREAD_MODE_SERIALIZED).
unsafe impl Send for Worker {}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker").field("slots", &self.inner.slots.borrow().len()).finish()
    }
}

/// The state of an operation after its call.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Started {
    Done,
    InProgress,
}

impl Inner {
    /// A slot for an operation towards `dest`; `None` when all are in use.
    pub(super) fn take(&self, token: Option<u64>, dest: u64) -> Option<*mut Slot> {
        let free = self.free.borrow_mut().pop();
        let slot = match free {
            Some(slot) => slot,
            None if self.slots.borrow().len() >= SLOTS => return None,
            None => {
                let slot = Box::into_raw(Box::new(Slot::new(self)));
                self.slots.borrow_mut().push(slot);
                slot
            }
        };
        // SAFETY: a free slot is nobody else's.
        let s = unsafe { &mut *slot };
        (s.token, s.dest, s.calls_left, s.failed) = (token, dest, 1, sys::UCS_OK);
        Some(slot)
    }

    fn release(&self, slot: *mut Slot) {
        // SAFETY: the operation is over, the slot ours.
        unsafe { (*slot).request = null_mut() };
        self.free.borrow_mut().push(slot);
    }

    /// Decodes what a call returned; the slot is free again unless the operation
    /// is in progress.
    ///
    /// # Safety
    /// `slot` came from [`Inner::take`] and was given to the call.
    pub(super) unsafe fn started(
        &self,
        slot: *mut Slot,
        pointer: sys::ucs_status_ptr_t,
    ) -> Result<Started, isize> {
        match slot::decode(pointer) {
            CallStatus::Done => {
                self.release(slot);
                Ok(Started::Done)
            }
            CallStatus::InProgress(request) => {
                // SAFETY: ours until the callback, which comes in a poll.
                unsafe { (*slot).request = request };
                Ok(Started::InProgress)
            }
            CallStatus::Refused(status) => {
                self.release(slot);
                Err(return_code(status))
            }
        }
    }

    /// One of an operation's calls completed.
    ///
    /// # Safety
    /// `slot` is one of a live worker's, in use; the caller is the worker's
    /// owner.
    pub(super) unsafe fn call_done(
        slot: *mut Slot,
        request: *mut c_void,
        status: sys::ucs_status_t,
    ) {
        // SAFETY: the caller's duty; the request is UCX's, given back once.
        unsafe {
            let inner = &*(*slot).inner;
            (inner.f.ucp_request_free)(request);
            inner.end_call(slot, status);
        }
    }

    /// # Safety
    /// As [`Inner::call_done`].
    unsafe fn end_call(&self, slot: *mut Slot, status: sys::ucs_status_t) {
        // SAFETY: the caller's duty.
        let s = unsafe { &mut *slot };
        if s.failed == sys::UCS_OK {
            s.failed = status;
        }
        s.calls_left -= 1;
        if s.calls_left > 0 {
            return;
        }
        let (token, dest, status) = (s.token, s.dest, s.failed);
        self.release(slot);
        match token {
            Some(token) => self.done.borrow_mut().push((token, dest, status)),
            None if status != sys::UCS_OK => {
                let mut failures = self.failures.borrow_mut();
                if failures.len() < FAILURES {
                    failures.push((dest, status));
                }
            }
            None => {}
        }
    }

    /// A packet came in.
    fn packet(&self, head: &[u8; HEAD], body: &[u8]) {
        match self.arrived.get() {
            Some(arrived) => {
                // SAFETY: set by the poll that this runs within, which keeps
                // the closure; UCX calls back one packet at a time.
                let call = AssertUnwindSafe(|| unsafe { (*arrived)(head, body) });
                if let Err(panic) = catch_unwind(call) {
                    self.arrived.set(None);
                    self.panic.set(Some(panic));
                }
            }
            None => self.early_packets.borrow_mut().push((*head, body.into())),
        }
    }
}

unsafe extern "C" fn packet(
    arg: *mut c_void,
    header: *const c_void,
    header_length: usize,
    data: *mut c_void,
    length: usize,
    param: *const sys::ucp_am_recv_param_t,
) -> sys::ucs_status_t {
    // SAFETY: UCX hands out a parameter block with each message.
    let rendezvous = unsafe { (*param).recv_attr } & u64::from(sys::UCP_AM_RECV_ATTR_FLAG_RNDV);
    // Rendezvous is never asked for by us; garbage is dropped.
    if rendezvous != 0 {
        return sys::UCS_OK;
    }
    // SAFETY: the handler was set with the worker's inner part, which outlives
    // its worker; header and data hold what UCX says for the time of this call.
    unsafe {
        let inner = &*arg.cast::<Inner>();
        let bytes = match length {
            0 => &[],
            length => std::slice::from_raw_parts(data.cast::<u8>(), length),
        };
        match (header_length, bytes.split_first_chunk::<HEAD>()) {
            (0, Some((head, body))) => inner.packet(head, body),
            (HEAD, _) => inner.packet(&*header.cast(), bytes),
            _ => {}
        }
    }
    sys::UCS_OK
}

unsafe extern "C" fn endpoint_failed(
    arg: *mut c_void,
    ep: sys::ucp_ep_h,
    status: sys::ucs_status_t,
) {
    // SAFETY: the handler was set with the worker's inner part, which outlives
    // its worker.
    let inner = unsafe { &*arg.cast::<Inner>() };
    inner.failed.borrow_mut().insert(ep as u64, status);
}

impl Worker {
    pub(super) fn open(owner: &Arc<Ucx>) -> Result<Worker, NetError> {
        let f = owner.f();
        let mut worker = Worker {
            inner: Box::new(Inner {
                f,
                worker: null_mut(),
                owner: Arc::clone(owner),
                free: RefCell::default(),
                slots: RefCell::default(),
                done: RefCell::default(),
                failures: RefCell::default(),
                failed: RefCell::default(),
                arrived: Cell::new(None),
                early_packets: RefCell::default(),
                panic: Cell::new(None),
            }),
        };
        // SAFETY: all-zero parameters name no field.
        let mut params: sys::ucp_worker_params_t = unsafe { std::mem::zeroed() };
        let fields = sys::UCP_WORKER_PARAM_FIELD_THREAD_MODE | sys::UCP_WORKER_PARAM_FIELD_FLAGS;
        params.field_mask = u64::from(fields);
        params.thread_mode = sys::UCS_THREAD_MODE_SERIALIZED;
        // Requests towards dead peers never complete.
        params.flags = u64::from(sys::UCP_WORKER_FLAG_IGNORE_REQUEST_LEAK);
        // SAFETY: the context is open while `owner` lives.
        let status =
            unsafe { (f.ucp_worker_create)(owner.context, &params, &mut worker.inner.worker) };
        if status != sys::UCS_OK {
            worker.inner.worker = null_mut();
        }
        owner.check("ucp_worker_create", status)?;
        let fields = sys::UCP_AM_HANDLER_PARAM_FIELD_ID
            | sys::UCP_AM_HANDLER_PARAM_FIELD_FLAGS
            | sys::UCP_AM_HANDLER_PARAM_FIELD_CB
            | sys::UCP_AM_HANDLER_PARAM_FIELD_ARG;
        let handler = sys::ucp_am_handler_param_t {
            field_mask: u64::from(fields),
            id: PACKETS,
            flags: sys::UCP_AM_FLAG_WHOLE_MSG,
            cb: Some(packet),
            arg: worker.callback_argument(),
        };
        // SAFETY: the worker is open; the argument outlives it.
        let status = unsafe { (f.ucp_worker_set_am_recv_handler)(worker.inner.worker, &handler) };
        owner.check("ucp_worker_set_am_recv_handler", status)?;
        Ok(worker)
    }

    /// The inner part as callbacks get it.
    fn callback_argument(&self) -> *mut c_void {
        (&raw const *self.inner).cast_mut().cast()
    }

    #[inline(always)]
    pub(super) fn inject_handle(&self) -> InjectHandle {
        InjectHandle { put: self.inner.f.ucp_put_nbx, inner: &raw const *self.inner }
    }

    pub(super) fn inner(&self) -> &Inner {
        &self.inner
    }

    pub(super) fn handle(&self) -> sys::ucp_worker_h {
        self.inner.worker
    }

    pub(super) fn owner(&self) -> &Ucx {
        &self.inner.owner
    }

    pub(super) fn f(&self) -> &'static Functions {
        self.inner.f
    }

    /// The worker's address.
    pub(super) fn address(&self) -> Result<Vec<u8>, NetError> {
        let (mut address, mut len) = (null_mut(), 0);
        // SAFETY: the worker is open; UCX gives `len` bytes, released once.
        unsafe {
            let status = (self.f().ucp_worker_get_address)(self.handle(), &mut address, &mut len);
            self.owner().check("ucp_worker_get_address", status)?;
            let bytes = std::slice::from_raw_parts(address.cast::<u8>(), len).to_vec();
            (self.f().ucp_worker_release_address)(self.handle(), address);
            Ok(bytes)
        }
    }

    /// An endpoint to the worker of this address.
    ///
    /// Without peer failure handling: no shared-memory transport of UCX has it
    /// (1.13 to 1.20), both ends must agree, and 1.20 has no fetching atomics
    /// over tcp with it. The error handler is called all the same where a
    /// transport notices, and processes on the node are watched by the device.
    pub(super) fn connect(&self, address: &[u8]) -> Result<u64, NetError> {
        // SAFETY: all-zero parameters name no field.
        let mut params: sys::ucp_ep_params_t = unsafe { std::mem::zeroed() };
        let fields = sys::UCP_EP_PARAM_FIELD_REMOTE_ADDRESS
            | sys::UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE
            | sys::UCP_EP_PARAM_FIELD_ERR_HANDLER;
        params.field_mask = u64::from(fields);
        params.address = address.as_ptr().cast();
        params.err_mode = sys::UCP_ERR_HANDLING_MODE_NONE;
        params.err_handler =
            sys::ucp_err_handler_t { cb: Some(endpoint_failed), arg: self.callback_argument() };
        let mut ep = null_mut();
        // SAFETY: the worker is open; the address is whole (see `frame`) and
        // copied by the call; the handler's argument outlives the endpoint.
        let status = unsafe { (self.f().ucp_ep_create)(self.handle(), &params, &mut ep) };
        self.owner().check("ucp_ep_create", status)?;
        Ok(ep as u64)
    }

    /// See [`Netmod::write`](crate::netmod::Netmod::write).
    ///
    /// # Safety
    /// The same.
    pub(super) unsafe fn write(&self, op: Transfer<*const u8>) -> isize {
        let Some(slot) = self.inner.take(Some(op.token), op.dest) else { return AGAIN };
        let (ep, rkey) = (op.dest as sys::ucp_ep_h, op.key as sys::ucp_rkey_h);
        // SAFETY: the caller's duty; the slot lives until the callback.
        unsafe {
            let param = slot::tracked(slot);
            let pointer = (self.f().ucp_put_nbx)(ep, op.buf.cast(), op.len, op.addr, rkey, &param);
            self.complete_tracked(op.token, op.dest, self.inner.started(slot, pointer))
        }
    }

    /// See [`Netmod::read`](crate::netmod::Netmod::read); puts before it are
    /// not waited for ([`Worker::flush`] does).
    ///
    /// # Safety
    /// The same.
    pub(super) unsafe fn read(&self, op: Transfer<*mut u8>) -> isize {
        let Some(slot) = self.inner.take(Some(op.token), op.dest) else { return AGAIN };
        let (ep, rkey) = (op.dest as sys::ucp_ep_h, op.key as sys::ucp_rkey_h);
        // SAFETY: the caller's duty; the slot lives until the callback.
        unsafe {
            let param = slot::tracked(slot);
            let pointer = (self.f().ucp_get_nbx)(ep, op.buf.cast(), op.len, op.addr, rkey, &param);
            self.complete_tracked(op.token, op.dest, self.inner.started(slot, pointer))
        }
    }

    /// The return code of an operation whose token always comes back.
    fn complete_tracked(&self, token: u64, dest: u64, started: Result<Started, isize>) -> isize {
        match started {
            Ok(Started::Done) => {
                self.inner.done.borrow_mut().push((token, dest, sys::UCS_OK));
                0
            }
            Ok(Started::InProgress) => 0,
            Err(code) => code,
        }
    }

    /// Writes or reads several iov entries, each by a call of its own; the token
    /// comes back behind the last.
    ///
    /// # Safety
    /// As [`Netmod::write_iov`](crate::netmod::Netmod::write_iov).
    pub(super) unsafe fn transfer_iov(&self, op: IovTransfer<'_>, write: bool) -> isize {
        let Some(slot) = self.inner.take(Some(op.token), op.dest) else { return AGAIN };
        let (ep, rkey) = (op.dest as sys::ucp_ep_h, op.key as sys::ucp_rkey_h);
        let param = slot::tracked(slot);
        for (at, iov) in op.list.iter().enumerate() {
            // SAFETY: the caller's duty; the slot lives until `left` is 0,
            // which it is not before the last line.
            unsafe {
                let pointer = if write {
                    let buf = iov.buf.cast_const().cast();
                    (self.f().ucp_put_nbx)(ep, buf, iov.len, iov.addr, rkey, &param)
                } else {
                    (self.f().ucp_get_nbx)(ep, iov.buf.cast(), iov.len, iov.addr, rkey, &param)
                };
                match slot::decode(pointer) {
                    CallStatus::Done => {}
                    CallStatus::InProgress(_) => (*slot).calls_left += 1,
                    CallStatus::Refused(status) if at == 0 => {
                        self.inner.release(slot);
                        return return_code(status);
                    }
                    CallStatus::Refused(status) => {
                        (*slot).failed = status;
                        break;
                    }
                }
            }
        }
        // SAFETY: ends the count of 1 that kept the slot.
        unsafe { self.inner.end_call(slot, sys::UCS_OK) };
        0
    }

    /// See [`Netmod::flush`](crate::netmod::Netmod::flush).
    ///
    /// # Safety
    /// The same.
    pub(super) unsafe fn flush(&self, dest: u64, token: u64) -> isize {
        if let Some(&status) = self.inner.failed.borrow().get(&dest) {
            return return_code(status);
        }
        let Some(slot) = self.inner.take(Some(token), dest) else { return AGAIN };
        // SAFETY: the caller's duty; the slot lives until the callback.
        unsafe {
            let param = slot::tracked(slot);
            let pointer = (self.f().ucp_ep_flush_nbx)(dest as sys::ucp_ep_h, &param);
            pending(self.inner.started(slot, pointer))
        }
    }

    /// See [`Netmod::send`](crate::netmod::Netmod::send).
    ///
    /// # Safety
    /// The same.
    pub(super) unsafe fn send(
        &self,
        head: &[u8; HEAD],
        body: *const u8,
        len: usize,
        dest: u64,
        token: u64,
    ) -> isize {
        let copied = HEAD + len <= self.owner().caps.packet_inject;
        let token = (!copied).then_some(token);
        let Some(slot) = self.inner.take(token, dest) else { return AGAIN };
        // SAFETY: the slot is ours until the callback; the caller's duty for
        // the body.
        unsafe {
            let mut param = slot::tracked(slot);
            param.op_attr_mask |= sys::UCP_OP_ATTR_FIELD_FLAGS;
            param.flags = sys::UCP_AM_SEND_FLAG_EAGER;
            let (ep, send) = (dest as sys::ucp_ep_h, self.f().ucp_am_send_nbx);
            let pointer = if copied {
                // In one piece, for which UCX has a shorter path.
                let (frame, len) = (*slot).frame(head, body, len);
                send(ep, PACKETS, null(), 0, frame.cast(), len, &param)
            } else {
                (*slot).head = *head;
                let head = (&raw const (*slot).head).cast();
                send(ep, PACKETS, head, HEAD, body.cast(), len, &param)
            };
            match self.inner.started(slot, pointer) {
                Ok(Started::InProgress) if !copied => PENDING,
                Ok(_) => 0,
                Err(code) => code,
            }
        }
    }

    /// See [`Netmod::send_bulk`](crate::netmod::Netmod::send_bulk).
    ///
    /// # Safety
    /// The same.
    pub(super) unsafe fn send_bulk(&self, op: Bulk<*const u8>) -> isize {
        let Some(slot) = self.inner.take(Some(op.token), op.dest) else { return AGAIN };
        // SAFETY: the caller's duty; the slot lives until the callback.
        unsafe {
            let param = slot::tracked(slot);
            let send = self.f().ucp_tag_send_nbx;
            let ep = op.dest as sys::ucp_ep_h;
            let pointer = send(ep, op.buf.cast(), op.len, op.tag, &param);
            pending(self.inner.started(slot, pointer))
        }
    }

    /// See [`Netmod::recv_bulk`](crate::netmod::Netmod::recv_bulk).
    ///
    /// # Safety
    /// The same.
    pub(super) unsafe fn recv_bulk(&self, op: Bulk<*mut u8>) -> isize {
        let Some(slot) = self.inner.take(Some(op.token), 0) else { return AGAIN };
        // SAFETY: the caller's duty; the slot lives until the callback.
        unsafe {
            let param = slot::tracked_receive(slot);
            let receive = self.f().ucp_tag_recv_nbx;
            let pointer = receive(self.handle(), op.buf.cast(), op.len, op.tag, u64::MAX, &param);
            match self.complete_tracked(op.token, 0, self.inner.started(slot, pointer)) {
                0 => PENDING,
                code => code,
            }
        }
    }

    /// Asks UCX to give an operation up; it does so with receives.
    pub(super) fn cancel(&self, token: u64) {
        let all = self.inner.slots.borrow().clone();
        for slot in all {
            // SAFETY: slots live as long as the worker; its owner is here.
            let (request, known) = unsafe { ((*slot).request, (*slot).token) };
            if !request.is_null() && known == Some(token) {
                // SAFETY: under way, as the request says.
                unsafe { (self.f().ucp_request_cancel)(self.handle(), request) };
                return;
            }
        }
    }

    pub(super) fn wait_fd(&self) -> Option<std::os::fd::RawFd> {
        if !self.owner().wakeup {
            return None;
        }
        let mut fd = -1;
        // SAFETY: the worker is open, with wake-ups.
        let status = unsafe { (self.f().ucp_worker_get_efd)(self.handle(), &mut fd) };
        (status == sys::UCS_OK).then_some(fd)
    }

    pub(super) fn arm(&self) -> bool {
        let inner = &*self.inner;
        let nothing = inner.done.borrow().is_empty()
            && inner.early_packets.borrow().is_empty()
            && inner.failures.borrow().is_empty();
        // SAFETY: the worker is open.
        let arm = || unsafe { (self.f().ucp_worker_arm)(self.handle()) };
        self.owner().wakeup && nothing && arm() == sys::UCS_OK
    }

    /// See [`Netmod::poll`](crate::netmod::Netmod::poll).
    pub(super) fn poll(
        &self,
        mut done: impl FnMut(Completion),
        mut arrived: impl FnMut(&[u8; HEAD], &[u8]),
    ) -> Result<(), NetError> {
        let inner = &*self.inner;
        if !inner.early_packets.borrow().is_empty() {
            let early = inner.early_packets.take();
            early.iter().for_each(|(head, body)| arrived(head, body));
        }
        let taker: &mut Arrived<'_> = &mut arrived;
        // SAFETY: only the lifetime changes; the pointer is taken out again
        // before the closure goes.
        let taker =
            unsafe { std::mem::transmute::<&mut Arrived<'_>, *mut Arrived<'static>>(taker) };
        inner.arrived.set(Some(taker));
        // SAFETY: the worker is open and polled by its owner, not from within
        // a callback by the contract of `arrived`.
        unsafe { (inner.f.ucp_worker_progress)(inner.worker) };
        inner.arrived.set(None);
        if let Some(panic) = inner.panic.take() {
            resume_unwind(panic);
        }
        if !inner.done.borrow().is_empty() {
            let mut list = inner.done.take();
            for (token, dest, status) in list.drain(..) {
                let peer = (dest != 0).then_some(dest);
                let result = match status {
                    sys::UCS_OK => Ok(()),
                    status => Err(self.owner().operation_error(peer, status)),
                };
                done(Completion { token, result });
            }
            // What `done` issued meanwhile waits for the next poll.
            let mut now = inner.done.borrow_mut();
            if now.is_empty() {
                *now = list;
            }
        }
        let failure = inner.failures.borrow_mut().pop();
        match failure {
            Some((dest, status)) => Err(self.owner().operation_error(Some(dest), status)),
            None => Ok(()),
        }
    }
}

/// The return code of an operation that may be done already.
pub(super) fn pending(started: Result<Started, isize>) -> isize {
    match started {
        Ok(Started::Done) => 0,
        Ok(Started::InProgress) => PENDING,
        Err(code) => code,
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let inner = &*self.inner;
        if !inner.worker.is_null() {
            // SAFETY: the worker is open and closed once; endpoints go with it.
            // Callbacks that come meanwhile find the inner part and the slots
            // still here.
            unsafe {
                if inner.failed.borrow().is_empty() {
                    self.flush_before_close();
                }
                (inner.f.ucp_worker_destroy)(inner.worker);
            }
        }
        for slot in inner.slots.take() {
            // SAFETY: made by Box::into_raw, and no callback comes any more.
            drop(unsafe { Box::from_raw(slot) });
        }
    }
}

impl Worker {
    /// Flushes what was taken from callers, for a bounded time: towards a peer
    /// that is gone a flush never ends.
    ///
    /// # Safety
    /// The worker is open.
    unsafe fn flush_before_close(&self) {
        let inner = &*self.inner;
        // SAFETY: the worker is open; the request is asked after until it is
        // done, or left to the worker's end.
        unsafe {
            let pointer = (inner.f.ucp_worker_flush_nbx)(inner.worker, &slot::plain(0));
            let CallStatus::InProgress(request) = slot::decode(pointer) else { return };
            let start = Instant::now();
            while (inner.f.ucp_request_check_status)(request) == sys::UCS_INPROGRESS {
                (inner.f.ucp_worker_progress)(inner.worker);
                if start.elapsed() > CLOSE_TIMEOUT {
                    break;
                }
            }
            (inner.f.ucp_request_free)(request);
        }
    }
}
