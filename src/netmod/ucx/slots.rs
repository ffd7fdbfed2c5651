//! Operations in progress, what UCX's callbacks find of them and of their
//! worker, and copies of bytes that must outlive the caller's buffer.

use super::arrivals::Arrivals;
use super::bindings as sys;
use super::constants::{FAILURES, RECEIVES, SLOTS};
use super::domain::{Ucx, return_code};
use super::ffi::Functions;
use crate::netmod::{HEAD, PENDING};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::Arc;

/// One operation under way; its address is the callback's argument.
pub(super) struct Slot {
    pub(super) inner: *const Inner,
    /// Comes back on completion, if anybody waits for it.
    pub(super) token: Option<u64>,
    /// The endpoint; 0 for a receive.
    pub(super) dest: u64,
    /// UCX's own, while it is under way.
    pub(super) request: *mut c_void,
    pub(super) head: [u8; HEAD],
    /// The result of an atomic that is discarded.
    pub(super) discarded: u64,
    /// A copy of the caller's bytes; kept for the next one.
    pub(super) data: Vec<u8>,
}

impl Slot {
    pub(super) fn new(inner: *const Inner) -> Slot {
        Slot {
            inner,
            token: None,
            dest: 0,
            request: std::ptr::null_mut(),
            head: [0; HEAD],
            discarded: 0,
            data: Vec::new(),
        }
    }

    /// Copies `len` bytes into the slot and returns where they are.
    ///
    /// # Safety
    /// `from` is readable for `len` bytes.
    pub(super) unsafe fn copy_in(&mut self, from: *const u8, len: usize) -> *const u8 {
        self.data.clear();
        if len > 0 {
            // SAFETY: `from` is readable for `len` bytes; a slice is never of null.
            self.data.extend_from_slice(unsafe { std::slice::from_raw_parts(from, len) });
        }
        self.data.as_ptr()
    }

    /// Copies a packet into the slot in one piece and returns where it is and
    /// how long.
    ///
    /// # Safety
    /// `body` is readable for `len` bytes.
    pub(super) unsafe fn frame(
        &mut self,
        head: &[u8; HEAD],
        body: *const u8,
        len: usize,
    ) -> (*const u8, usize) {
        self.data.clear();
        self.data.extend_from_slice(head);
        if len > 0 {
            // SAFETY: `body` is readable for `len` bytes; a slice is never of null.
            self.data.extend_from_slice(unsafe { std::slice::from_raw_parts(body, len) });
        }
        (self.data.as_ptr(), self.data.len())
    }
}

/// What one of UCX's nonblocking calls returned.
pub(super) enum CallStatus {
    /// It is done, and no callback will come.
    Done,
    /// The callback will come.
    InProgress(*mut c_void),
    /// It failed at once.
    Refused(sys::ucs_status_t),
}

/// Reads a status pointer (`UCS_PTR_IS_ERR` and its like in status.h).
#[inline(always)]
pub(super) fn decode(pointer: sys::ucs_status_ptr_t) -> CallStatus {
    let errors = isize::from(sys::UCS_ERR_LAST).cast_unsigned();
    match pointer.addr() {
        0 => CallStatus::Done,
        bits if bits >= errors => CallStatus::Refused(bits as sys::ucs_status_t),
        _ => CallStatus::InProgress(pointer),
    }
}

/// Parameters of an operation whose callback gets the slot.
pub(super) fn tracked(slot: *mut Slot) -> sys::ucp_request_param_t {
    let fields = sys::UCP_OP_ATTR_FIELD_CALLBACK | sys::UCP_OP_ATTR_FIELD_USER_DATA;
    let mut param = plain(fields);
    param.cb.send = Some(sent);
    param.user_data = slot.cast();
    param
}

/// The same for a tagged receive, whose callback has another form.
pub(super) fn tracked_receive(slot: *mut Slot) -> sys::ucp_request_param_t {
    let mut param = tracked(slot);
    param.cb.recv = Some(received);
    param
}

/// Parameters without fields.
pub(super) const fn plain(mask: u32) -> sys::ucp_request_param_t {
    sys::ucp_request_param_t {
        op_attr_mask: mask,
        flags: 0,
        request: std::ptr::null_mut(),
        cb: sys::ucp_request_param_t__bindgen_ty_1 { send: None },
        datatype: 0,
        user_data: std::ptr::null_mut(),
        reply_buffer: std::ptr::null_mut(),
        memory_type: sys::UCS_MEMORY_TYPE_HOST,
        recv_info: sys::ucp_request_param_t__bindgen_ty_2 { length: std::ptr::null_mut() },
        memh: std::ptr::null_mut(),
    }
}

unsafe extern "C" fn sent(request: *mut c_void, status: sys::ucs_status_t, user_data: *mut c_void) {
    // SAFETY: `tracked` gave the slot, which lives as long as its worker; UCX
    // calls back once for each request, in the worker owner's thread.
    unsafe { Inner::call_done(user_data.cast(), request, status) };
}

unsafe extern "C" fn received(
    request: *mut c_void,
    status: sys::ucs_status_t,
    _: *const sys::ucp_tag_recv_info_t,
    user_data: *mut c_void,
) {
    // SAFETY: as in `sent`.
    unsafe { Inner::call_done(user_data.cast(), request, status) };
}

/// The state that callbacks get as their argument; it never moves.
pub(super) struct Inner {
    pub(super) f: &'static Functions,
    pub(super) worker: sys::ucp_worker_h,
    pub(super) owner: Arc<Ucx>,
    pub(super) free: RefCell<Vec<*mut Slot>>,
    /// All slots there are, free or not.
    pub(super) slots: RefCell<Vec<*mut Slot>>,
    /// Those of receives.
    pub(super) receives: Cell<usize>,
    /// Those that were in use towards peers when they died, and may be for ever.
    pub(super) forsaken: Cell<usize>,
    /// Tokens to hand out: with the endpoint and the status.
    pub(super) done: RefCell<Vec<(u64, u64, sys::ucs_status_t)>>,
    /// Failures of operations without a token.
    pub(super) failures: RefCell<Vec<sys::ucs_status_t>>,
    /// All endpoints.
    pub(super) eps: RefCell<Vec<u64>>,
    /// A process died: in shared memory it may have left a gap in the queue of a living one,
    /// where it was never spoken to from here, too.
    pub(super) has_dead: Cell<bool>,
    /// The last flush of those that are asked for, null once it is over.
    pub(super) drains: RefCell<BTreeMap<u64, *mut c_void>>,
    /// Those that failed, and why.
    pub(super) failed: RefCell<BTreeMap<u64, sys::ucs_status_t>>,
    /// Packets that a poll has not handed on yet.
    pub(super) arrivals: Arrivals,
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
            None if self.slots.borrow().len() >= SLOTS + self.forsaken.get() => return None,
            None => {
                let slot = Box::into_raw(Box::new(Slot::new(self)));
                self.slots.borrow_mut().push(slot);
                slot
            }
        };
        // SAFETY: a free slot is nobody else's.
        let s = unsafe { &mut *slot };
        (s.token, s.dest) = (token, dest);
        Some(slot)
    }

    /// A slot for a receive; `None` when as many as may be are posted.
    pub(super) fn take_receive(&self, token: u64) -> Option<*mut Slot> {
        if self.receives.get() >= RECEIVES {
            return None;
        }
        let slot = self.take(Some(token), 0)?;
        self.receives.set(self.receives.get() + 1);
        Some(slot)
    }

    /// Operations towards a peer that died keep no others from being issued.
    pub(super) fn add_death(&self, dest: Option<u64>) {
        self.has_dead.set(true);
        let Some(dest) = dest else { return };
        let under_way = |slot: &&*mut Slot| {
            // SAFETY: slots live as long as this.
            let slot = unsafe { &***slot };
            slot.dest == dest && !slot.request.is_null()
        };
        let count = self.slots.borrow().iter().filter(under_way).count();
        self.forsaken.set(self.forsaken.get() + count);
    }

    pub(super) fn release(&self, slot: *mut Slot) {
        // SAFETY: the operation is over, the slot ours.
        let slot_of = unsafe { &mut *slot };
        slot_of.request = null_mut();
        if slot_of.dest == 0 {
            self.receives.set(self.receives.get() - 1);
        }
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
        match decode(pointer) {
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

    /// An operation's call completed.
    ///
    /// # Safety
    /// `slot` is one of a live worker's, in use; the caller is the worker's
    /// owner.
    pub(super) unsafe fn call_done(
        slot: *mut Slot,
        request: *mut c_void,
        status: sys::ucs_status_t,
    ) {
        // SAFETY: the worker lives and its owner is here; the request is UCX's, given back once.
        unsafe {
            let inner = &*(*slot).inner;
            (inner.f.ucp_request_free)(request);
            inner.ended((*slot).token, (*slot).dest, status);
            inner.release(slot);
        }
    }

    fn ended(&self, token: Option<u64>, dest: u64, status: sys::ucs_status_t) {
        match token {
            Some(token) => self.done.borrow_mut().push((token, dest, status)),
            None if status != sys::UCS_OK => {
                let mut failures = self.failures.borrow_mut();
                if failures.len() < FAILURES {
                    failures.push(status);
                }
            }
            None => {}
        }
    }

    /// The return code of an operation whose token always comes back.
    pub(super) fn complete_tracked(
        &self,
        token: u64,
        dest: u64,
        started: Result<Started, isize>,
    ) -> isize {
        match started {
            Ok(Started::Done) => {
                self.done.borrow_mut().push((token, dest, sys::UCS_OK));
                0
            }
            Ok(Started::InProgress) => 0,
            Err(code) => code,
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

/// Takes a packet in.
pub(super) unsafe extern "C" fn packet(
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
            (0, Some((head, body))) => inner.arrivals.push(head, body),
            (HEAD, _) => inner.arrivals.push(&*header.cast(), bytes),
            _ => {}
        }
    }
    sys::UCS_OK
}

/// Notes that an endpoint failed.
pub(super) unsafe extern "C" fn endpoint_failed(
    arg: *mut c_void,
    ep: sys::ucp_ep_h,
    status: sys::ucs_status_t,
) {
    // SAFETY: the handler was set with the worker's inner part, which outlives
    // its worker.
    let inner = unsafe { &*arg.cast::<Inner>() };
    inner.failed.borrow_mut().insert(ep as u64, status);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_pointers_are_read_as_the_header_says() {
        assert!(matches!(decode(std::ptr::null_mut()), CallStatus::Done));
        for status in [sys::UCS_ERR_NO_MESSAGE, sys::UCS_ERR_NO_RESOURCE, sys::UCS_ERR_LAST] {
            let pointer = std::ptr::without_provenance_mut(isize::from(status) as usize);
            assert!(matches!(decode(pointer), CallStatus::Refused(s) if s == status), "{status}");
        }
        let pointer = std::ptr::without_provenance_mut(0x7f00_0000_1000);
        assert!(matches!(decode(pointer), CallStatus::InProgress(p) if p == pointer));
    }
}
