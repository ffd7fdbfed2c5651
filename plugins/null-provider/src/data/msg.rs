//! fi_msg(3): sends, and receives that nothing ends.
//!
//! What each function asks of its caller is its man page: an open endpoint, and
//! vectors and messages as long as they say. Buffers are not looked at.

use core::ffi::c_void;

use super::issue::{Kind, add, bytes, issue, issue_inject, issue_vector, this};
use crate::bindings::*;
use crate::object::ssize;

pub(super) unsafe extern "C" fn send<const SAFE: bool>(
    ep: *mut fid_ep,
    _buf: *const c_void,
    len: usize,
    _desc: *mut c_void,
    dest: fi_addr_t,
    context: *mut c_void,
) -> isize {
    // SAFETY: fi_msg(3).
    unsafe { issue::<SAFE>(ep, Kind::Send, len, dest, None, context, 0) }
}

pub(super) unsafe extern "C" fn sendv<const SAFE: bool>(
    ep: *mut fid_ep,
    iov: *const iovec,
    _desc: *mut *mut c_void,
    count: usize,
    dest: fi_addr_t,
    context: *mut c_void,
) -> isize {
    // SAFETY: fi_msg(3).
    unsafe { issue_vector::<SAFE>(ep, Kind::Send, bytes(iov, count), dest, None, context, 0) }
}

pub(super) unsafe extern "C" fn sendmsg<const SAFE: bool>(
    ep: *mut fid_ep,
    msg: *const fi_msg,
    flags: u64,
) -> isize {
    // SAFETY: fi_msg(3).
    unsafe {
        let msg = &*msg;
        let len = bytes(msg.msg_iov, msg.iov_count);
        issue_vector::<SAFE>(ep, Kind::Send, len, msg.addr, Some(flags), msg.context, 0)
    }
}

pub(super) unsafe extern "C" fn inject<const SAFE: bool>(
    ep: *mut fid_ep,
    _buf: *const c_void,
    len: usize,
    dest: fi_addr_t,
) -> isize {
    // SAFETY: fi_msg(3).
    unsafe { issue_inject::<SAFE>(ep, Kind::Send, len, dest) }
}

pub(super) unsafe extern "C" fn senddata<const SAFE: bool>(
    ep: *mut fid_ep,
    _buf: *const c_void,
    len: usize,
    _desc: *mut c_void,
    _data: u64,
    dest: fi_addr_t,
    context: *mut c_void,
) -> isize {
    // SAFETY: fi_msg(3).
    unsafe { issue::<SAFE>(ep, Kind::Send, len, dest, None, context, 0) }
}

pub(super) unsafe extern "C" fn injectdata<const SAFE: bool>(
    ep: *mut fid_ep,
    _buf: *const c_void,
    len: usize,
    _data: u64,
    dest: fi_addr_t,
) -> isize {
    // SAFETY: fi_msg(3).
    unsafe { issue_inject::<SAFE>(ep, Kind::Send, len, dest) }
}

/// Posts a receive that nothing will ever match; only fi_cancel ends it.
///
/// # Safety
/// \[OPEN\].
pub(super) unsafe fn post<const SAFE: bool>(
    ep: *mut fid_ep,
    context: *mut c_void,
    tagged: bool,
) -> isize {
    // SAFETY: [OPEN].
    let ep = unsafe { this(ep) };
    if !ep.enabled() {
        return -(FI_EOPBADSTATE as isize);
    }
    let mut posted = ep.posted.lock().unwrap_or_else(|poison| poison.into_inner());
    if posted.try_reserve(1).is_err() {
        return ssize(FI_EAGAIN);
    }
    posted.push((context as usize, tagged));
    add::<SAFE>(&ep.stats.receives, 1);
    0
}

pub(super) unsafe extern "C" fn recv<const SAFE: bool>(
    ep: *mut fid_ep,
    _buf: *mut c_void,
    _len: usize,
    _desc: *mut c_void,
    _src: fi_addr_t,
    context: *mut c_void,
) -> isize {
    // SAFETY: fi_msg(3).
    unsafe { post::<SAFE>(ep, context, false) }
}

pub(super) unsafe extern "C" fn recvv<const SAFE: bool>(
    ep: *mut fid_ep,
    _iov: *const iovec,
    _desc: *mut *mut c_void,
    _count: usize,
    _src: fi_addr_t,
    context: *mut c_void,
) -> isize {
    // SAFETY: fi_msg(3).
    unsafe { post::<SAFE>(ep, context, false) }
}

pub(super) unsafe extern "C" fn recvmsg<const SAFE: bool>(
    ep: *mut fid_ep,
    msg: *const fi_msg,
    _flags: u64,
) -> isize {
    // SAFETY: fi_msg(3).
    unsafe { post::<SAFE>(ep, (*msg).context, false) }
}
