//! Operations in progress: what their callbacks need, and copies of bytes that
//! must outlive the caller's buffer.

use super::bindings as sys;
use super::endpoint::Inner;
use crate::netmod::HEAD;
use std::ffi::c_void;

/// Operations under way at one time on a worker; one more is answered with
/// "again".
pub(super) const SLOTS: usize = 1024;

/// One operation under way; its address is the callback's argument.
pub(super) struct Slot {
    pub(super) inner: *const Inner,
    /// Comes back on completion, if anybody waits for it.
    pub(super) token: Option<u64>,
    /// The endpoint; 0 for a receive.
    pub(super) dest: u64,
    /// Calls that are not complete yet.
    pub(super) calls_left: u32,
    /// The first failure among the calls.
    pub(super) failed: sys::ucs_status_t,
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
            calls_left: 0,
            failed: sys::UCS_OK,
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
            // SAFETY: the caller's word; a slice is never of null.
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
            // SAFETY: the caller's word; a slice is never of null.
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
