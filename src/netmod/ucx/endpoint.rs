//! A worker: endpoints, progress, and what is under way.

use super::arrivals::Arrivals;
use super::bindings as sys;
use super::constants::{CLOSE_TIMEOUT, CLOSE_TIMEOUT_AFTER_DEATH, PACKETS};
use super::domain::{Ucx, return_code};
use super::ffi::Functions;
use super::inject::InjectHandle;
use super::slots::{self, CallStatus, Inner};
use crate::netmod::{AGAIN, Completion, HEAD, NetError, Transfer};
use crate::ulimit;
use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::Arc;
use std::time::Instant;

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

/// Refuses where opening a worker would end the process: UCX aborts where its last descriptors are
/// refused, and a file longer than those of this process may be is SIGXFSZ.
fn check_limits(owner: &Ucx) -> Result<(), NetError> {
    /// Descriptors of a worker, with some to spare.
    const DESCRIPTORS: usize = 12;
    /// Bytes of what it shares, with some to spare.
    const SEGMENT: u64 = 8 << 20;
    if ulimit::lacks_descriptors::<DESCRIPTORS>() {
        return Err(NetError::Library(format!(
            "ucx: a worker takes some {DESCRIPTORS} descriptors, and this process may not open as \
             many; raise `ulimit -n`"
        )));
    }
    let Some(most) = ulimit::files_end_before(SEGMENT) else { return Ok(()) };
    if owner.transports().iter().any(|it| it.starts_with("posix")) {
        return Err(NetError::Library(format!(
            "ucx: files of this process end at {most} bytes, and a worker shares one of up to \
             {SEGMENT}; raise `ulimit -f`, or use other transports (UCX_TLS=tcp,self)"
        )));
    }
    Ok(())
}

impl Worker {
    pub(super) fn open(owner: &Arc<Ucx>) -> Result<Worker, NetError> {
        check_limits(owner)?;
        let f = owner.f();
        let mut worker = Worker {
            inner: Box::new(Inner {
                f,
                worker: null_mut(),
                owner: Arc::clone(owner),
                free: RefCell::default(),
                slots: RefCell::default(),
                receives: Cell::default(),
                forsaken: Cell::default(),
                has_dead: Cell::default(),
                done: RefCell::default(),
                failures: RefCell::default(),
                eps: RefCell::default(),
                drains: RefCell::default(),
                failed: RefCell::default(),
                arrivals: Arrivals::default(),
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
            cb: Some(slots::packet),
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
        InjectHandle::new(&self.inner)
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

    /// This worker's address by network devices alone.
    pub(super) fn network_address(&self) -> Result<Vec<u8>, NetError> {
        // SAFETY: all-zero attributes name no field.
        let mut attributes: sys::ucp_worker_attr_t = unsafe { std::mem::zeroed() };
        let fields = sys::UCP_WORKER_ATTR_FIELD_ADDRESS | sys::UCP_WORKER_ATTR_FIELD_ADDRESS_FLAGS;
        attributes.field_mask = u64::from(fields);
        attributes.address_flags = sys::UCP_WORKER_ADDRESS_FLAG_NET_ONLY;
        // SAFETY: the worker is open; UCX gives an address and its length, released once.
        unsafe {
            let status = (self.f().ucp_worker_query)(self.handle(), &mut attributes);
            self.owner().check("ucp_worker_query", status)?;
            let (start, len) = (attributes.address, attributes.address_length);
            let bytes = std::slice::from_raw_parts(start.cast::<u8>(), len).to_vec();
            (self.f().ucp_worker_release_address)(self.handle(), start);
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
        params.err_handler = sys::ucp_err_handler_t {
            cb: Some(slots::endpoint_failed),
            arg: self.callback_argument(),
        };
        let mut ep = null_mut();
        // SAFETY: the worker is open; the address is whole (see `frame`) and
        // copied by the call; the handler's argument outlives the endpoint.
        let status = unsafe { (self.f().ucp_ep_create)(self.handle(), &params, &mut ep) };
        self.owner().check("ucp_ep_create", status)?;
        self.inner.eps.borrow_mut().push(ep as u64);
        Ok(ep as u64)
    }

    /// See [`Netmod::write`](crate::netmod::Netmod::write).
    ///
    /// # Safety
    /// The same.
    pub(super) unsafe fn write(&self, op: Transfer<*const u8>) -> isize {
        let Some(slot) = self.inner.take(Some(op.token), op.dest) else { return AGAIN };
        let (ep, rkey) = (op.dest as sys::ucp_ep_h, op.key as sys::ucp_rkey_h);
        // SAFETY: [DEST], [KEY], [BUF]; the slot lives until the callback.
        unsafe {
            let param = slots::tracked(slot);
            let pointer = (self.f().ucp_put_nbx)(ep, op.buf.cast(), op.len, op.addr, rkey, &param);
            self.inner.complete_tracked(op.token, op.dest, self.inner.started(slot, pointer))
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
        // SAFETY: [DEST], [KEY], [BUF]; the slot lives until the callback.
        unsafe {
            let param = slots::tracked(slot);
            let pointer = (self.f().ucp_get_nbx)(ep, op.buf.cast(), op.len, op.addr, rkey, &param);
            self.inner.complete_tracked(op.token, op.dest, self.inner.started(slot, pointer))
        }
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
        // SAFETY: [DEST]; the slot lives until the callback.
        unsafe {
            let param = slots::tracked(slot);
            let pointer = (self.f().ucp_ep_flush_nbx)(dest as sys::ucp_ep_h, &param);
            slots::pending(self.inner.started(slot, pointer))
        }
    }

    /// See [`Netmod::poll`](crate::netmod::Netmod::poll).
    pub(super) fn poll(
        &self,
        mut done: impl FnMut(Completion),
        arrived: impl FnMut(&[u8; HEAD], &[u8]),
    ) -> Result<bool, NetError> {
        let inner = &*self.inner;
        // SAFETY: the worker is open and polled by its owner; no callback of ours polls.
        let events = unsafe { (inner.f.ucp_worker_progress)(inner.worker) };
        inner.arrivals.hand_on(arrived);
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
            // (Of a connection: what was lost with it has a token.)
            Some(status) => Err(self.owner().operation_error(None, status)),
            None => Ok(events != 0),
        }
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
                self.flush_before_close();
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
    /// See [`Netmod::is_drained`](crate::netmod::Netmod::is_drained).
    pub(super) fn is_drained(&self, dest: u64) -> bool {
        self.inner.failed.borrow().contains_key(&dest) || self.is_flushed(dest)
    }

    /// Returns true once what was taken from callers is flushed, which the first call begins.
    fn is_flushed(&self, ep: u64) -> bool {
        let f = self.f();
        let mut drains = self.inner.drains.borrow_mut();
        let request = drains.entry(ep).or_insert_with(|| {
            // SAFETY: endpoints are open as long as their worker.
            let pointer = unsafe { (f.ucp_ep_flush_nbx)(ep as sys::ucp_ep_h, &slots::plain(0)) };
            match slots::decode(pointer) {
                CallStatus::InProgress(request) => request,
                _ => null_mut(),
            }
        });
        // SAFETY: a request of ours that is not released yet, and is once.
        unsafe {
            if !request.is_null() && (f.ucp_request_check_status)(*request) != sys::UCS_INPROGRESS {
                (f.ucp_request_free)(*request);
                *request = null_mut();
            }
        }
        request.is_null()
    }

    /// Flushes what was taken from callers, for a bounded time: towards a peer
    /// that is gone a flush never ends. Those that were waited for are over, or
    /// given up.
    ///
    /// # Safety
    /// The worker is open.
    unsafe fn flush_before_close(&self) {
        let inner = &*self.inner;
        let has_dead = self.inner.has_dead.get();
        let limit = if has_dead { CLOSE_TIMEOUT_AFTER_DEATH } else { CLOSE_TIMEOUT };
        let start = Instant::now();
        let mut rest = inner.eps.take();
        let failed = inner.failed.borrow().clone();
        rest.retain(|ep| !failed.contains_key(ep) && !inner.drains.borrow().contains_key(ep));
        loop {
            rest.retain(|&ep| !self.is_flushed(ep));
            if rest.is_empty() || start.elapsed() >= limit {
                break;
            }
            // SAFETY: the worker is open.
            unsafe { (inner.f.ucp_worker_progress)(inner.worker) };
        }
        let flushes = inner.drains.take().into_values();
        let left = flushes.filter(|request| !request.is_null());
        // SAFETY: each once; UCX ends them with the worker.
        left.for_each(|request| unsafe { (inner.f.ucp_request_free)(request) });
    }
}
