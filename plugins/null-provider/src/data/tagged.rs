//! fi_tagged(3): sends, receives that nothing ends, and probes.
//!
//! What each function asks of its caller is its man page: an open endpoint, and
//! vectors and messages as long as they say. Buffers are not looked at.

use core::ffi::c_void;

use super::issue::{Kind, bytes, issue, issue_inject, issue_vector, this};
use super::msg::post;
use crate::bindings::*;
use crate::cq::Failure;
use crate::object::ssize;

pub(super) unsafe extern "C" fn send<const SAFE: bool>(
    ep: *mut fid_ep,
    _buf: *const c_void,
    len: usize,
    _desc: *mut c_void,
    dest: fi_addr_t,
    tag: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: fi_tagged(3).
    unsafe { issue::<SAFE>(ep, Kind::TaggedSend, len, dest, None, context, tag) }
}

pub(super) unsafe extern "C" fn sendv<const SAFE: bool>(
    ep: *mut fid_ep,
    iov: *const iovec,
    _desc: *mut *mut c_void,
    count: usize,
    dest: fi_addr_t,
    tag: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: fi_tagged(3).
    unsafe {
        issue_vector::<SAFE>(ep, Kind::TaggedSend, bytes(iov, count), dest, None, context, tag)
    }
}

pub(super) unsafe extern "C" fn sendmsg<const SAFE: bool>(
    ep: *mut fid_ep,
    msg: *const fi_msg_tagged,
    flags: u64,
) -> isize {
    // SAFETY: fi_tagged(3).
    unsafe {
        let msg = &*msg;
        let (len, flags) = (bytes(msg.msg_iov, msg.iov_count), Some(flags));
        issue_vector::<SAFE>(ep, Kind::TaggedSend, len, msg.addr, flags, msg.context, msg.tag)
    }
}

pub(super) unsafe extern "C" fn inject<const SAFE: bool>(
    ep: *mut fid_ep,
    _buf: *const c_void,
    len: usize,
    dest: fi_addr_t,
    _tag: u64,
) -> isize {
    // SAFETY: fi_tagged(3).
    unsafe { issue_inject::<SAFE>(ep, Kind::TaggedSend, len, dest) }
}

pub(super) unsafe extern "C" fn senddata<const SAFE: bool>(
    ep: *mut fid_ep,
    _buf: *const c_void,
    len: usize,
    _desc: *mut c_void,
    _data: u64,
    dest: fi_addr_t,
    tag: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: fi_tagged(3).
    unsafe { issue::<SAFE>(ep, Kind::TaggedSend, len, dest, None, context, tag) }
}

pub(super) unsafe extern "C" fn injectdata<const SAFE: bool>(
    ep: *mut fid_ep,
    _buf: *const c_void,
    len: usize,
    _data: u64,
    dest: fi_addr_t,
    _tag: u64,
) -> isize {
    // SAFETY: fi_tagged(3).
    unsafe { issue_inject::<SAFE>(ep, Kind::TaggedSend, len, dest) }
}

/// A probe: finds nothing, and says so in the completion queue.
///
/// # Safety
/// \[OPEN\], \[APART\].
unsafe fn peek<const SAFE: bool>(ep: *mut fid_ep, context: *mut c_void, tag: u64) -> isize {
    // SAFETY: [OPEN]: a bound queue is; [APART].
    unsafe {
        let Some(cq) = this(ep).rx_cq.as_ref() else { return -(FI_ENOCQ as isize) };
        let flags = FI_RECV | FI_TAGGED;
        cq.fail::<SAFE>(Failure { context, flags, tag, err: FI_ENOMSG });
    }
    0
}

pub(super) unsafe extern "C" fn recv<const SAFE: bool>(
    ep: *mut fid_ep,
    _buf: *mut c_void,
    _len: usize,
    _desc: *mut c_void,
    _src: fi_addr_t,
    _tag: u64,
    _ignore: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: fi_tagged(3).
    unsafe { post::<SAFE>(ep, context, true) }
}

pub(super) unsafe extern "C" fn recvv<const SAFE: bool>(
    ep: *mut fid_ep,
    _iov: *const iovec,
    _desc: *mut *mut c_void,
    _count: usize,
    _src: fi_addr_t,
    _tag: u64,
    _ignore: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: fi_tagged(3).
    unsafe { post::<SAFE>(ep, context, true) }
}

pub(super) unsafe extern "C" fn recvmsg<const SAFE: bool>(
    ep: *mut fid_ep,
    msg: *const fi_msg_tagged,
    flags: u64,
) -> isize {
    // SAFETY: fi_tagged(3).
    unsafe {
        let msg = &*msg;
        if flags & FI_PEEK != 0 {
            peek::<SAFE>(ep, msg.context, msg.tag)
        } else if flags & (FI_CLAIM | FI_DISCARD) != 0 {
            // Nothing was ever found by a probe.
            ssize(FI_EINVAL)
        } else {
            post::<SAFE>(ep, msg.context, true)
        }
    }
}
