//! fi_rma(3): reads and writes.
//!
//! What each function asks of its caller is its man page: an open endpoint, and
//! vectors and messages as long as they say. Buffers are not looked at.

use core::ffi::c_void;

use super::issue::{Kind, bytes, issue, issue_inject, issue_vector, rma_bytes};
use crate::bindings::*;

pub(super) unsafe extern "C" fn write<const SAFE: bool>(
    ep: *mut fid_ep,
    _buf: *const c_void,
    len: usize,
    _desc: *mut c_void,
    dest: fi_addr_t,
    _addr: u64,
    _key: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: fi_rma(3).
    unsafe { issue::<SAFE>(ep, Kind::Write, len, dest, None, context, 0) }
}

pub(super) unsafe extern "C" fn writev<const SAFE: bool>(
    ep: *mut fid_ep,
    iov: *const iovec,
    _desc: *mut *mut c_void,
    count: usize,
    dest: fi_addr_t,
    _addr: u64,
    _key: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: fi_rma(3).
    unsafe { issue_vector::<SAFE>(ep, Kind::Write, bytes(iov, count), dest, None, context, 0) }
}

pub(super) unsafe extern "C" fn writemsg<const SAFE: bool>(
    ep: *mut fid_ep,
    msg: *const fi_msg_rma,
    flags: u64,
) -> isize {
    // SAFETY: fi_rma(3).
    unsafe {
        let msg = &*msg;
        let len = rma_bytes(msg);
        issue_vector::<SAFE>(ep, Kind::Write, len, msg.addr, Some(flags), msg.context, 0)
    }
}

pub(super) unsafe extern "C" fn inject_write<const SAFE: bool>(
    ep: *mut fid_ep,
    _buf: *const c_void,
    len: usize,
    dest: fi_addr_t,
    _addr: u64,
    _key: u64,
) -> isize {
    // SAFETY: fi_rma(3).
    unsafe { issue_inject::<SAFE>(ep, Kind::Write, len, dest) }
}

pub(super) unsafe extern "C" fn writedata<const SAFE: bool>(
    ep: *mut fid_ep,
    _buf: *const c_void,
    len: usize,
    _desc: *mut c_void,
    _data: u64,
    dest: fi_addr_t,
    _addr: u64,
    _key: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: fi_rma(3).
    unsafe { issue::<SAFE>(ep, Kind::Write, len, dest, None, context, 0) }
}

pub(super) unsafe extern "C" fn inject_writedata<const SAFE: bool>(
    ep: *mut fid_ep,
    _buf: *const c_void,
    len: usize,
    _data: u64,
    dest: fi_addr_t,
    _addr: u64,
    _key: u64,
) -> isize {
    // SAFETY: fi_rma(3).
    unsafe { issue_inject::<SAFE>(ep, Kind::Write, len, dest) }
}

pub(super) unsafe extern "C" fn read<const SAFE: bool>(
    ep: *mut fid_ep,
    _buf: *mut c_void,
    len: usize,
    _desc: *mut c_void,
    src: fi_addr_t,
    _addr: u64,
    _key: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: fi_rma(3).
    unsafe { issue::<SAFE>(ep, Kind::Read, len, src, None, context, 0) }
}

pub(super) unsafe extern "C" fn readv<const SAFE: bool>(
    ep: *mut fid_ep,
    iov: *const iovec,
    _desc: *mut *mut c_void,
    count: usize,
    src: fi_addr_t,
    _addr: u64,
    _key: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: fi_rma(3).
    unsafe { issue_vector::<SAFE>(ep, Kind::Read, bytes(iov, count), src, None, context, 0) }
}

pub(super) unsafe extern "C" fn readmsg<const SAFE: bool>(
    ep: *mut fid_ep,
    msg: *const fi_msg_rma,
    flags: u64,
) -> isize {
    // SAFETY: fi_rma(3).
    unsafe {
        let msg = &*msg;
        let (len, flags) = (rma_bytes(msg), flags & !FI_INJECT);
        issue_vector::<SAFE>(ep, Kind::Read, len, msg.addr, Some(flags), msg.context, 0)
    }
}
