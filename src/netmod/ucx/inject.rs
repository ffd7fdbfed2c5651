//! Puts that are copied at the call.

use super::bindings as sys;
use super::domain::return_code;
use super::slots::{self, CallStatus, Inner};
use crate::netmod::AGAIN;
use std::ffi::c_void;

/// Parameters of an injected put: done at the call, or not begun.
struct Immediate(sys::ucp_request_param_t);

// SAFETY: the pointers in it are null and it is never written to.
unsafe impl Sync for Immediate {}

static IMMEDIATE: Immediate = Immediate(slots::plain(sys::UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL));

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
    #[inline(always)]
    pub(super) fn new(inner: &Inner) -> InjectHandle {
        InjectHandle { put: inner.f.ucp_put_nbx, inner }
    }

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
        // SAFETY: [ENDPOINT]: the worker lives; [DEST], [KEY], [BUF].
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
        // SAFETY: [ENDPOINT], [DEST], [KEY], [BUF].
        let pointer = unsafe { self.inject_now(buf, len, dest, addr, key) };
        if pointer.is_null() {
            return 0;
        }
        // SAFETY: [ENDPOINT], [DEST], [KEY], [BUF].
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
        match slots::decode(pointer) {
            CallStatus::Refused(sys::UCS_ERR_NO_RESOURCE) => {}
            CallStatus::Refused(status) => return return_code(status),
            CallStatus::Done | CallStatus::InProgress(_) => return 0,
        }
        // SAFETY: [ENDPOINT]: the worker lives, so its inner part does.
        let inner = unsafe { &*self.inner };
        let Some(slot) = inner.take(None, dest) else { return AGAIN };
        // SAFETY: the slot is ours until its callback, and so is the copy; [BUF] for the
        // copy, [DEST], [KEY].
        unsafe {
            let copy = (*slot).copy_in(buf, len).cast();
            let (ep, rkey) = (dest as sys::ucp_ep_h, key as sys::ucp_rkey_h);
            let pointer = (self.put)(ep, copy, len, addr, rkey, &slots::tracked(slot));
            match inner.started(slot, pointer) {
                Ok(_) => 0,
                Err(code) => code,
            }
        }
    }
}
