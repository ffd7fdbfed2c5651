//! fi_atomic(3): operations on elements.
//!
//! What each function asks of its caller is its man page: an open endpoint, and
//! vectors and messages as long as they say. Buffers are not looked at.

use core::ffi::{c_int, c_void};

use super::issue::{Kind, issue_inject, issue_vector};
use crate::bindings::*;
use crate::info::{ATOMIC_SIZE, IOV_LIMIT};
use crate::object::ssize;

/// Which of the three atomic calls.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Plain,
    Fetch,
    Compare,
}

/// Bytes of one element, where the pair is one that fi_atomic(3) defines.
fn element(form: Form, datatype: fi_datatype, op: fi_op) -> Option<usize> {
    let size = match datatype {
        FI_INT8 | FI_UINT8 => 1,
        FI_INT16 | FI_UINT16 => 2,
        FI_INT32 | FI_UINT32 | FI_FLOAT => 4,
        FI_INT64 | FI_UINT64 | FI_DOUBLE | FI_FLOAT_COMPLEX => 8,
        FI_DOUBLE_COMPLEX | FI_LONG_DOUBLE => 16,
        _ => return None,
    };
    let integer = datatype <= FI_UINT64;
    let complex = matches!(datatype, FI_FLOAT_COMPLEX | FI_DOUBLE_COMPLEX);
    let fits = match op {
        FI_SUM | FI_PROD | FI_LOR | FI_LAND | FI_LXOR | FI_ATOMIC_WRITE => form != Form::Compare,
        FI_MIN | FI_MAX => form != Form::Compare && !complex,
        FI_BOR | FI_BAND | FI_BXOR => form != Form::Compare && integer,
        FI_ATOMIC_READ => form == Form::Fetch,
        FI_CSWAP | FI_CSWAP_NE => form == Form::Compare,
        FI_CSWAP_LE | FI_CSWAP_LT | FI_CSWAP_GE | FI_CSWAP_GT => form == Form::Compare && !complex,
        FI_MSWAP => form == Form::Compare && integer,
        _ => false,
    };
    fits.then_some(size)
}

/// Issues an atomic operation on `count` elements.
///
/// # Safety
/// \[OPEN\], \[APART\].
unsafe fn issue_atomic<const SAFE: bool>(
    ep: *mut fid_ep,
    form: Form,
    elements: Option<usize>,
    dest: fi_addr_t,
    (datatype, op): (fi_datatype, fi_op),
    flags: Option<u64>,
    context: *mut c_void,
) -> isize {
    let Some(size) = element(form, datatype, op) else { return ssize(FI_EOPNOTSUPP) };
    let len = elements.and_then(|count| count.checked_mul(size));
    let len = len.filter(|len| *len <= ATOMIC_SIZE);
    let kind = if form == Form::Plain { Kind::Atomic } else { Kind::FetchAtomic };
    // SAFETY: [OPEN], [APART].
    unsafe { issue_vector::<SAFE>(ep, kind, len, dest, flags, context, 0) }
}

/// Elements of a vector; None when it is too long.
///
/// # Safety
/// `ioc` has `count` elements.
unsafe fn elements(ioc: *const fi_ioc, count: usize) -> Option<usize> {
    if count > IOV_LIMIT {
        return None;
    }
    // SAFETY: [ARG].
    (0..count).try_fold(0, |sum: usize, index| unsafe { sum.checked_add((*ioc.add(index)).count) })
}

pub(super) unsafe extern "C" fn atomic<const SAFE: bool>(
    ep: *mut fid_ep,
    _buf: *const c_void,
    count: usize,
    _desc: *mut c_void,
    dest: fi_addr_t,
    _addr: u64,
    _key: u64,
    datatype: fi_datatype,
    op: fi_op,
    context: *mut c_void,
) -> isize {
    let what = (datatype, op);
    // SAFETY: fi_atomic(3).
    unsafe { issue_atomic::<SAFE>(ep, Form::Plain, Some(count), dest, what, None, context) }
}

pub(super) unsafe extern "C" fn atomicv<const SAFE: bool>(
    ep: *mut fid_ep,
    iov: *const fi_ioc,
    _desc: *mut *mut c_void,
    count: usize,
    dest: fi_addr_t,
    _addr: u64,
    _key: u64,
    datatype: fi_datatype,
    op: fi_op,
    context: *mut c_void,
) -> isize {
    let what = (datatype, op);
    // SAFETY: fi_atomic(3).
    unsafe {
        let count = elements(iov, count);
        issue_atomic::<SAFE>(ep, Form::Plain, count, dest, what, None, context)
    }
}

pub(super) unsafe extern "C" fn atomicmsg<const SAFE: bool>(
    ep: *mut fid_ep,
    msg: *const fi_msg_atomic,
    flags: u64,
) -> isize {
    // SAFETY: fi_atomic(3).
    unsafe { atomic_message::<SAFE>(ep, Form::Plain, &*msg, flags) }
}

/// # Safety
/// \[OPEN\], \[ARG\], \[APART\].
unsafe fn atomic_message<const SAFE: bool>(
    ep: *mut fid_ep,
    form: Form,
    msg: &fi_msg_atomic,
    flags: u64,
) -> isize {
    let what = (msg.datatype, msg.op);
    // A fetching atomic read may have no buffer to send.
    // SAFETY: [OPEN], [ARG], [APART].
    unsafe {
        let count = elements(msg.msg_iov, msg.iov_count);
        issue_atomic::<SAFE>(ep, form, count, msg.addr, what, Some(flags), msg.context)
    }
}

pub(super) unsafe extern "C" fn inject_atomic<const SAFE: bool>(
    ep: *mut fid_ep,
    _buf: *const c_void,
    count: usize,
    dest: fi_addr_t,
    _addr: u64,
    _key: u64,
    datatype: fi_datatype,
    op: fi_op,
) -> isize {
    let Some(size) = element(Form::Plain, datatype, op) else { return ssize(FI_EOPNOTSUPP) };
    let Some(len) = count.checked_mul(size) else { return ssize(FI_EINVAL) };
    // SAFETY: fi_atomic(3).
    unsafe { issue_inject::<SAFE>(ep, Kind::Atomic, len, dest) }
}

pub(super) unsafe extern "C" fn fetch_atomic<const SAFE: bool>(
    ep: *mut fid_ep,
    _buf: *const c_void,
    count: usize,
    _desc: *mut c_void,
    _result: *mut c_void,
    _result_desc: *mut c_void,
    dest: fi_addr_t,
    _addr: u64,
    _key: u64,
    datatype: fi_datatype,
    op: fi_op,
    context: *mut c_void,
) -> isize {
    let what = (datatype, op);
    // SAFETY: fi_atomic(3).
    unsafe { issue_atomic::<SAFE>(ep, Form::Fetch, Some(count), dest, what, None, context) }
}

pub(super) unsafe extern "C" fn fetch_atomicv<const SAFE: bool>(
    ep: *mut fid_ep,
    _iov: *const fi_ioc,
    _desc: *mut *mut c_void,
    _count: usize,
    resultv: *mut fi_ioc,
    _result_desc: *mut *mut c_void,
    result_count: usize,
    dest: fi_addr_t,
    _addr: u64,
    _key: u64,
    datatype: fi_datatype,
    op: fi_op,
    context: *mut c_void,
) -> isize {
    let what = (datatype, op);
    // SAFETY: fi_atomic(3).
    unsafe {
        let count = elements(resultv, result_count);
        issue_atomic::<SAFE>(ep, Form::Fetch, count, dest, what, None, context)
    }
}

pub(super) unsafe extern "C" fn fetch_atomicmsg<const SAFE: bool>(
    ep: *mut fid_ep,
    msg: *const fi_msg_atomic,
    _resultv: *mut fi_ioc,
    _result_desc: *mut *mut c_void,
    _result_count: usize,
    flags: u64,
) -> isize {
    // SAFETY: fi_atomic(3).
    unsafe { atomic_message::<SAFE>(ep, Form::Fetch, &*msg, flags) }
}

pub(super) unsafe extern "C" fn compare_atomic<const SAFE: bool>(
    ep: *mut fid_ep,
    _buf: *const c_void,
    count: usize,
    _desc: *mut c_void,
    _compare: *const c_void,
    _compare_desc: *mut c_void,
    _result: *mut c_void,
    _result_desc: *mut c_void,
    dest: fi_addr_t,
    _addr: u64,
    _key: u64,
    datatype: fi_datatype,
    op: fi_op,
    context: *mut c_void,
) -> isize {
    let what = (datatype, op);
    // SAFETY: fi_atomic(3).
    unsafe { issue_atomic::<SAFE>(ep, Form::Compare, Some(count), dest, what, None, context) }
}

pub(super) unsafe extern "C" fn compare_atomicv<const SAFE: bool>(
    ep: *mut fid_ep,
    iov: *const fi_ioc,
    _desc: *mut *mut c_void,
    count: usize,
    _comparev: *const fi_ioc,
    _compare_desc: *mut *mut c_void,
    _compare_count: usize,
    _resultv: *mut fi_ioc,
    _result_desc: *mut *mut c_void,
    _result_count: usize,
    dest: fi_addr_t,
    _addr: u64,
    _key: u64,
    datatype: fi_datatype,
    op: fi_op,
    context: *mut c_void,
) -> isize {
    let what = (datatype, op);
    // SAFETY: fi_atomic(3).
    unsafe {
        let count = elements(iov, count);
        issue_atomic::<SAFE>(ep, Form::Compare, count, dest, what, None, context)
    }
}

pub(super) unsafe extern "C" fn compare_atomicmsg<const SAFE: bool>(
    ep: *mut fid_ep,
    msg: *const fi_msg_atomic,
    _comparev: *const fi_ioc,
    _compare_desc: *mut *mut c_void,
    _compare_count: usize,
    _resultv: *mut fi_ioc,
    _result_desc: *mut *mut c_void,
    _result_count: usize,
    flags: u64,
) -> isize {
    // SAFETY: fi_atomic(3).
    unsafe { atomic_message::<SAFE>(ep, Form::Compare, &*msg, flags) }
}

/// Answers a `*valid` call: how many elements one operation takes.
///
/// # Safety
/// `count` is null or can be written.
unsafe fn valid(form: Form, datatype: fi_datatype, op: fi_op, count: *mut usize) -> c_int {
    let Some(size) = element(form, datatype, op) else { return -FI_EOPNOTSUPP };
    // SAFETY: [ARG].
    if let Some(count) = unsafe { count.as_mut() } {
        *count = ATOMIC_SIZE / size;
    }
    0
}

pub(super) unsafe extern "C" fn atomicvalid(
    _: *mut fid_ep,
    datatype: fi_datatype,
    op: fi_op,
    count: *mut usize,
) -> c_int {
    // SAFETY: fi_atomic(3).
    unsafe { valid(Form::Plain, datatype, op, count) }
}

pub(super) unsafe extern "C" fn fetch_atomicvalid(
    _: *mut fid_ep,
    datatype: fi_datatype,
    op: fi_op,
    count: *mut usize,
) -> c_int {
    // SAFETY: fi_atomic(3).
    unsafe { valid(Form::Fetch, datatype, op, count) }
}

pub(super) unsafe extern "C" fn compare_atomicvalid(
    _: *mut fid_ep,
    datatype: fi_datatype,
    op: fi_op,
    count: *mut usize,
) -> c_int {
    // SAFETY: fi_atomic(3).
    unsafe { valid(Form::Compare, datatype, op, count) }
}

/// fi_query_atomic(3).
///
/// # Safety
/// `attr` is null or can be written.
pub(crate) unsafe extern "C" fn query_atomic(
    _: *mut fid_domain,
    datatype: fi_datatype,
    op: fi_op,
    attr: *mut fi_atomic_attr,
    flags: u64,
) -> c_int {
    let form = match flags & (FI_FETCH_ATOMIC | FI_COMPARE_ATOMIC) {
        0 => Form::Plain,
        FI_FETCH_ATOMIC => Form::Fetch,
        FI_COMPARE_ATOMIC => Form::Compare,
        _ => return -FI_EINVAL,
    };
    let Some(size) = element(form, datatype, op) else { return -FI_EOPNOTSUPP };
    // SAFETY: [ARG].
    if let Some(attr) = unsafe { attr.as_mut() } {
        *attr = fi_atomic_attr { count: ATOMIC_SIZE / size, size };
    }
    0
}
