//! Data transfer: check, complete, count. Nothing is moved.
//!
//! `SAFE` says whether threads may come at once; without it counts are plain
//! loads and stores, and the program keeps threads apart (see `info`).

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::bindings::*;
use crate::cq::{Completion, Failure};
use crate::ep::Endpoint;
use crate::info::{ATOMIC_SIZE, INJECT_SIZE, IOV_LIMIT, MAX_MSG_SIZE};
use crate::object::ssize;

/// The operation tables of an endpoint.
pub(crate) struct Tables {
    pub(crate) rma: fi_ops_rma,
    pub(crate) msg: fi_ops_msg,
    pub(crate) tagged: fi_ops_tagged,
    pub(crate) atomic: fi_ops_atomic,
}

static APART: Tables = tables_for::<false>();
static TOGETHER: Tables = tables_for::<true>();

/// The tables for threads that may come at once, or are kept apart.
pub(crate) fn tables(safe: bool) -> &'static Tables {
    if safe { &TOGETHER } else { &APART }
}

pub(crate) const fn tables_for<const SAFE: bool>() -> Tables {
    Tables {
        rma: fi_ops_rma {
            size: size_of::<fi_ops_rma>(),
            read: Some(read::<SAFE>),
            readv: Some(readv::<SAFE>),
            readmsg: Some(readmsg::<SAFE>),
            write: Some(write::<SAFE>),
            writev: Some(writev::<SAFE>),
            writemsg: Some(writemsg::<SAFE>),
            inject: Some(inject_write::<SAFE>),
            writedata: Some(writedata::<SAFE>),
            injectdata: Some(inject_writedata::<SAFE>),
        },
        msg: fi_ops_msg {
            size: size_of::<fi_ops_msg>(),
            recv: Some(recv::<SAFE>),
            recvv: Some(recvv::<SAFE>),
            recvmsg: Some(recvmsg::<SAFE>),
            send: Some(send::<SAFE>),
            sendv: Some(sendv::<SAFE>),
            sendmsg: Some(sendmsg::<SAFE>),
            inject: Some(inject::<SAFE>),
            senddata: Some(senddata::<SAFE>),
            injectdata: Some(injectdata::<SAFE>),
        },
        tagged: fi_ops_tagged {
            size: size_of::<fi_ops_tagged>(),
            recv: Some(trecv::<SAFE>),
            recvv: Some(trecvv::<SAFE>),
            recvmsg: Some(trecvmsg::<SAFE>),
            send: Some(tsend::<SAFE>),
            sendv: Some(tsendv::<SAFE>),
            sendmsg: Some(tsendmsg::<SAFE>),
            inject: Some(tinject::<SAFE>),
            senddata: Some(tsenddata::<SAFE>),
            injectdata: Some(tinjectdata::<SAFE>),
        },
        atomic: fi_ops_atomic {
            size: size_of::<fi_ops_atomic>(),
            write: Some(atomic::<SAFE>),
            writev: Some(atomicv::<SAFE>),
            writemsg: Some(atomicmsg::<SAFE>),
            inject: Some(inject_atomic::<SAFE>),
            readwrite: Some(fetch_atomic::<SAFE>),
            readwritev: Some(fetch_atomicv::<SAFE>),
            readwritemsg: Some(fetch_atomicmsg::<SAFE>),
            compwrite: Some(compare_atomic::<SAFE>),
            compwritev: Some(compare_atomicv::<SAFE>),
            compwritemsg: Some(compare_atomicmsg::<SAFE>),
            writevalid: Some(atomicvalid),
            readwritevalid: Some(fetch_atomicvalid),
            compwritevalid: Some(compare_atomicvalid),
        },
    }
}

/// What an operation is, for its counters and completion flags.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Write,
    Read,
    Send,
    TaggedSend,
    Atomic,
    FetchAtomic,
}

impl Kind {
    #[inline(always)]
    const fn flags(self) -> u64 {
        match self {
            Self::Write => FI_RMA | FI_WRITE,
            Self::Read => FI_RMA | FI_READ,
            Self::Send => FI_MSG | FI_SEND,
            Self::TaggedSend => FI_TAGGED | FI_SEND,
            Self::Atomic => FI_ATOMIC | FI_WRITE,
            Self::FetchAtomic => FI_ATOMIC | FI_READ,
        }
    }

    /// The bound counter's value and the endpoint's own.
    #[inline(always)]
    fn counts(self, ep: &Endpoint) -> (*const AtomicU64, &AtomicU64) {
        match self {
            Self::Write => (ep.counted.writes, &ep.stats.writes),
            Self::Read => (ep.counted.reads, &ep.stats.reads),
            Self::Send | Self::TaggedSend => (ep.counted.sends, &ep.stats.sends),
            Self::Atomic => (ep.counted.writes, &ep.stats.atomics),
            Self::FetchAtomic => (ep.counted.reads, &ep.stats.atomics),
        }
    }
}

/// Adds; one locked instruction where threads may come at once, else a plain
/// load and store that other threads can still read.
#[inline(always)]
fn add<const SAFE: bool>(count: &AtomicU64, value: u64) {
    if SAFE {
        count.fetch_add(value, Relaxed);
    } else {
        count.store(count.load(Relaxed).wrapping_add(value), Relaxed);
    }
}

/// # Safety
/// The program passes an open endpoint of this provider, and nobody binds,
/// enables or closes it meanwhile.
#[inline(always)]
unsafe fn this<'a>(ep: *mut fid_ep) -> &'a Endpoint {
    // SAFETY: by the caller's word; what changes in it is atomic or locked.
    unsafe { &*ep.cast() }
}

/// Why a destination is refused.
#[cold]
fn refuse(ep: &Endpoint) -> isize {
    if ep.enabled() { ssize(FI_EINVAL) } else { -(FI_EOPBADSTATE as isize) }
}

/// Checks a destination and counts an operation that queues no completion.
///
/// # Safety
/// As for [`this`].
#[inline(always)]
unsafe fn count<const SAFE: bool>(ep: &Endpoint, kind: Kind, len: usize) {
    let (counter, own) = kind.counts(ep);
    // SAFETY: a bound counter is open; unbound ones point into the endpoint.
    add::<SAFE>(unsafe { &*counter }, 1);
    add::<SAFE>(own, 1);
    add::<SAFE>(&ep.stats.bytes, len as u64);
}

/// An `fi_inject*`: no completion is queued.
///
/// # Safety
/// As for [`this`].
#[inline(always)]
unsafe fn issue_inject<const SAFE: bool>(
    ep: *mut fid_ep,
    kind: Kind,
    len: usize,
    dest: fi_addr_t,
) -> isize {
    // SAFETY: by the caller's word; `known` points to something that lives.
    unsafe {
        let ep = this(ep);
        if dest >= (*ep.known).load(Relaxed) {
            return refuse(ep);
        }
        if len > INJECT_SIZE {
            return ssize(FI_EINVAL);
        }
        count::<SAFE>(ep, kind, len);
    }
    0
}

/// Any other operation: a completion is queued where one is bound and wanted.
///
/// # Safety
/// As for [`this`].
#[inline(always)]
unsafe fn issue<const SAFE: bool>(
    ep: *mut fid_ep,
    kind: Kind,
    len: usize,
    dest: fi_addr_t,
    flags: Option<u64>,
    context: *mut c_void,
    tag: u64,
) -> isize {
    // SAFETY: by the caller's word; `known` and the queue point to what lives.
    unsafe {
        let ep = this(ep);
        if dest >= (*ep.known).load(Relaxed) {
            return refuse(ep);
        }
        let limit = if flags.is_some_and(|flags| flags & FI_INJECT != 0) {
            INJECT_SIZE
        } else {
            MAX_MSG_SIZE
        };
        if len > limit {
            return ssize(if limit == INJECT_SIZE { FI_EINVAL } else { FI_EMSGSIZE });
        }
        if (flags.unwrap_or(ep.tx_flags) | ep.always) & FI_COMPLETION != 0
            && let Some(cq) = ep.tx_cq.as_ref()
        {
            let completion = Completion { context, flags: kind.flags(), len, tag };
            if !cq.push::<SAFE>(&completion) {
                return ssize(FI_EAGAIN);
            }
        }
        count::<SAFE>(ep, kind, len);
    }
    0
}

/// Bytes of a vector; None when it is too long.
///
/// # Safety
/// `iov` has `count` elements.
#[inline(always)]
unsafe fn bytes(iov: *const iovec, count: usize) -> Option<usize> {
    if count > IOV_LIMIT {
        return None;
    }
    // SAFETY: by the caller's word.
    (0..count)
        .try_fold(0, |sum: usize, index| unsafe { sum.checked_add((*iov.add(index)).iov_len) })
}

/// Bytes of an RMA message: both sides must agree.
///
/// # Safety
/// The message is whole.
#[inline(always)]
unsafe fn rma_bytes(msg: &fi_msg_rma) -> Option<usize> {
    // SAFETY: by the caller's word.
    unsafe {
        let local = bytes(msg.msg_iov, msg.iov_count)?;
        if msg.rma_iov_count > IOV_LIMIT {
            return None;
        }
        let remote = (0..msg.rma_iov_count)
            .try_fold(0, |sum: usize, index| sum.checked_add((*msg.rma_iov.add(index)).len))?;
        (local == remote).then_some(local)
    }
}

// The functions of the tables. What each asks of its caller is its man page:
// an open endpoint, and vectors and messages as long as they say. Buffers are
// not looked at.

unsafe extern "C" fn write<const SAFE: bool>(
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

unsafe extern "C" fn writev<const SAFE: bool>(
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
    unsafe {
        match bytes(iov, count) {
            Some(len) => issue::<SAFE>(ep, Kind::Write, len, dest, None, context, 0),
            None => ssize(FI_EINVAL),
        }
    }
}

unsafe extern "C" fn writemsg<const SAFE: bool>(
    ep: *mut fid_ep,
    msg: *const fi_msg_rma,
    flags: u64,
) -> isize {
    // SAFETY: fi_rma(3).
    unsafe {
        let msg = &*msg;
        match rma_bytes(msg) {
            Some(len) => issue::<SAFE>(ep, Kind::Write, len, msg.addr, Some(flags), msg.context, 0),
            None => ssize(FI_EINVAL),
        }
    }
}

unsafe extern "C" fn inject_write<const SAFE: bool>(
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

unsafe extern "C" fn writedata<const SAFE: bool>(
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

unsafe extern "C" fn inject_writedata<const SAFE: bool>(
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

unsafe extern "C" fn read<const SAFE: bool>(
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

unsafe extern "C" fn readv<const SAFE: bool>(
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
    unsafe {
        match bytes(iov, count) {
            Some(len) => issue::<SAFE>(ep, Kind::Read, len, src, None, context, 0),
            None => ssize(FI_EINVAL),
        }
    }
}

unsafe extern "C" fn readmsg<const SAFE: bool>(
    ep: *mut fid_ep,
    msg: *const fi_msg_rma,
    flags: u64,
) -> isize {
    // SAFETY: fi_rma(3).
    unsafe {
        let msg = &*msg;
        match rma_bytes(msg) {
            Some(len) => {
                let flags = flags & !FI_INJECT;
                issue::<SAFE>(ep, Kind::Read, len, msg.addr, Some(flags), msg.context, 0)
            }
            None => ssize(FI_EINVAL),
        }
    }
}

unsafe extern "C" fn send<const SAFE: bool>(
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

unsafe extern "C" fn sendv<const SAFE: bool>(
    ep: *mut fid_ep,
    iov: *const iovec,
    _desc: *mut *mut c_void,
    count: usize,
    dest: fi_addr_t,
    context: *mut c_void,
) -> isize {
    // SAFETY: fi_msg(3).
    unsafe {
        match bytes(iov, count) {
            Some(len) => issue::<SAFE>(ep, Kind::Send, len, dest, None, context, 0),
            None => ssize(FI_EINVAL),
        }
    }
}

unsafe extern "C" fn sendmsg<const SAFE: bool>(
    ep: *mut fid_ep,
    msg: *const fi_msg,
    flags: u64,
) -> isize {
    // SAFETY: fi_msg(3).
    unsafe {
        let msg = &*msg;
        match bytes(msg.msg_iov, msg.iov_count) {
            Some(len) => issue::<SAFE>(ep, Kind::Send, len, msg.addr, Some(flags), msg.context, 0),
            None => ssize(FI_EINVAL),
        }
    }
}

unsafe extern "C" fn inject<const SAFE: bool>(
    ep: *mut fid_ep,
    _buf: *const c_void,
    len: usize,
    dest: fi_addr_t,
) -> isize {
    // SAFETY: fi_msg(3).
    unsafe { issue_inject::<SAFE>(ep, Kind::Send, len, dest) }
}

unsafe extern "C" fn senddata<const SAFE: bool>(
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

unsafe extern "C" fn injectdata<const SAFE: bool>(
    ep: *mut fid_ep,
    _buf: *const c_void,
    len: usize,
    _data: u64,
    dest: fi_addr_t,
) -> isize {
    // SAFETY: fi_msg(3).
    unsafe { issue_inject::<SAFE>(ep, Kind::Send, len, dest) }
}

unsafe extern "C" fn tsend<const SAFE: bool>(
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

unsafe extern "C" fn tsendv<const SAFE: bool>(
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
        match bytes(iov, count) {
            Some(len) => issue::<SAFE>(ep, Kind::TaggedSend, len, dest, None, context, tag),
            None => ssize(FI_EINVAL),
        }
    }
}

unsafe extern "C" fn tsendmsg<const SAFE: bool>(
    ep: *mut fid_ep,
    msg: *const fi_msg_tagged,
    flags: u64,
) -> isize {
    // SAFETY: fi_tagged(3).
    unsafe {
        let msg = &*msg;
        match bytes(msg.msg_iov, msg.iov_count) {
            Some(len) => {
                let flags = Some(flags);
                issue::<SAFE>(ep, Kind::TaggedSend, len, msg.addr, flags, msg.context, msg.tag)
            }
            None => ssize(FI_EINVAL),
        }
    }
}

unsafe extern "C" fn tinject<const SAFE: bool>(
    ep: *mut fid_ep,
    _buf: *const c_void,
    len: usize,
    dest: fi_addr_t,
    _tag: u64,
) -> isize {
    // SAFETY: fi_tagged(3).
    unsafe { issue_inject::<SAFE>(ep, Kind::TaggedSend, len, dest) }
}

unsafe extern "C" fn tsenddata<const SAFE: bool>(
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

unsafe extern "C" fn tinjectdata<const SAFE: bool>(
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

/// Posts a receive that nothing will ever match; only fi_cancel ends it.
///
/// # Safety
/// As for [`this`].
unsafe fn post<const SAFE: bool>(ep: *mut fid_ep, context: *mut c_void, tagged: bool) -> isize {
    // SAFETY: by the caller's word.
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

/// A probe: finds nothing, and says so in the completion queue.
///
/// # Safety
/// As for [`this`].
unsafe fn peek<const SAFE: bool>(ep: *mut fid_ep, context: *mut c_void, tag: u64) -> isize {
    // SAFETY: by the caller's word; a bound queue is open.
    unsafe {
        let Some(cq) = this(ep).rx_cq.as_ref() else { return -(FI_ENOCQ as isize) };
        let flags = FI_RECV | FI_TAGGED;
        cq.fail::<SAFE>(Failure { context, flags, tag, err: FI_ENOMSG });
    }
    0
}

unsafe extern "C" fn recv<const SAFE: bool>(
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

unsafe extern "C" fn recvv<const SAFE: bool>(
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

unsafe extern "C" fn recvmsg<const SAFE: bool>(
    ep: *mut fid_ep,
    msg: *const fi_msg,
    _flags: u64,
) -> isize {
    // SAFETY: fi_msg(3).
    unsafe { post::<SAFE>(ep, (*msg).context, false) }
}

unsafe extern "C" fn trecv<const SAFE: bool>(
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

unsafe extern "C" fn trecvv<const SAFE: bool>(
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

unsafe extern "C" fn trecvmsg<const SAFE: bool>(
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
/// As for [`this`].
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
    let Some(len) = len.filter(|len| *len <= ATOMIC_SIZE) else { return ssize(FI_EINVAL) };
    let kind = if form == Form::Plain { Kind::Atomic } else { Kind::FetchAtomic };
    // SAFETY: by the caller's word.
    unsafe { issue::<SAFE>(ep, kind, len, dest, flags, context, 0) }
}

/// Elements of a vector; None when it is too long.
///
/// # Safety
/// `ioc` has `count` elements.
unsafe fn elements(ioc: *const fi_ioc, count: usize) -> Option<usize> {
    if count > IOV_LIMIT {
        return None;
    }
    // SAFETY: by the caller's word.
    (0..count).try_fold(0, |sum: usize, index| unsafe { sum.checked_add((*ioc.add(index)).count) })
}

unsafe extern "C" fn atomic<const SAFE: bool>(
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

unsafe extern "C" fn atomicv<const SAFE: bool>(
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

unsafe extern "C" fn atomicmsg<const SAFE: bool>(
    ep: *mut fid_ep,
    msg: *const fi_msg_atomic,
    flags: u64,
) -> isize {
    // SAFETY: fi_atomic(3).
    unsafe { atomic_message::<SAFE>(ep, Form::Plain, &*msg, flags) }
}

/// # Safety
/// As for [`this`], and the message is whole.
unsafe fn atomic_message<const SAFE: bool>(
    ep: *mut fid_ep,
    form: Form,
    msg: &fi_msg_atomic,
    flags: u64,
) -> isize {
    let what = (msg.datatype, msg.op);
    // A fetching atomic read may have no buffer to send.
    // SAFETY: by the caller's word.
    unsafe {
        let count = elements(msg.msg_iov, msg.iov_count);
        issue_atomic::<SAFE>(ep, form, count, msg.addr, what, Some(flags), msg.context)
    }
}

unsafe extern "C" fn inject_atomic<const SAFE: bool>(
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

unsafe extern "C" fn fetch_atomic<const SAFE: bool>(
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

unsafe extern "C" fn fetch_atomicv<const SAFE: bool>(
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

unsafe extern "C" fn fetch_atomicmsg<const SAFE: bool>(
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

unsafe extern "C" fn compare_atomic<const SAFE: bool>(
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

unsafe extern "C" fn compare_atomicv<const SAFE: bool>(
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

unsafe extern "C" fn compare_atomicmsg<const SAFE: bool>(
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
    // SAFETY: by the caller's word.
    if let Some(count) = unsafe { count.as_mut() } {
        *count = ATOMIC_SIZE / size;
    }
    0
}

unsafe extern "C" fn atomicvalid(
    _: *mut fid_ep,
    datatype: fi_datatype,
    op: fi_op,
    count: *mut usize,
) -> c_int {
    // SAFETY: fi_atomic(3).
    unsafe { valid(Form::Plain, datatype, op, count) }
}

unsafe extern "C" fn fetch_atomicvalid(
    _: *mut fid_ep,
    datatype: fi_datatype,
    op: fi_op,
    count: *mut usize,
) -> c_int {
    // SAFETY: fi_atomic(3).
    unsafe { valid(Form::Fetch, datatype, op, count) }
}

unsafe extern "C" fn compare_atomicvalid(
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
    // SAFETY: by the caller's word.
    if let Some(attr) = unsafe { attr.as_mut() } {
        *attr = fi_atomic_attr { count: ATOMIC_SIZE / size, size };
    }
    0
}
