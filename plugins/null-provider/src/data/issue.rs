//! What every operation comes to: check, complete, count.

use core::ffi::c_void;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::bindings::*;
use crate::cq::Completion;
use crate::ep::Endpoint;
use crate::info::{INJECT_SIZE, IOV_LIMIT, MAX_MSG_SIZE};
use crate::object::ssize;

/// What an operation is, for its counters and completion flags.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
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
pub(super) fn add<const SAFE: bool>(count: &AtomicU64, value: u64) {
    if SAFE {
        count.fetch_add(value, Relaxed);
    } else {
        count.store(count.load(Relaxed).wrapping_add(value), Relaxed);
    }
}

/// # Safety
/// \[OPEN\].
#[inline(always)]
pub(super) unsafe fn this<'a>(ep: *mut fid_ep) -> &'a Endpoint {
    // SAFETY: [OPEN]; what changes in it is atomic or locked.
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
/// \[OPEN\], \[APART\].
#[inline(always)]
unsafe fn count<const SAFE: bool>(ep: &Endpoint, kind: Kind, len: usize) {
    let (counter, own) = kind.counts(ep);
    // SAFETY: [OPEN]: a bound counter is; unbound ones point into the endpoint.
    add::<SAFE>(unsafe { &*counter }, 1);
    add::<SAFE>(own, 1);
    add::<SAFE>(&ep.stats.bytes, len as u64);
}

/// An `fi_inject*`: no completion is queued.
///
/// # Safety
/// \[OPEN\], \[APART\].
#[inline(always)]
pub(super) unsafe fn issue_inject<const SAFE: bool>(
    ep: *mut fid_ep,
    kind: Kind,
    len: usize,
    dest: fi_addr_t,
) -> isize {
    // SAFETY: [OPEN]; so `known` points to something that lives. [APART].
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
/// \[OPEN\], \[APART\].
#[inline(always)]
pub(super) unsafe fn issue<const SAFE: bool>(
    ep: *mut fid_ep,
    kind: Kind,
    len: usize,
    dest: fi_addr_t,
    flags: Option<u64>,
    context: *mut c_void,
    tag: u64,
) -> isize {
    // SAFETY: [OPEN]; so `known` and the queue point to what lives. [APART].
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

/// [`issue`] for a vector or a message of so many bytes; `None`, one that is too
/// long, is refused.
///
/// # Safety
/// \[OPEN\], \[APART\].
#[inline(always)]
pub(super) unsafe fn issue_vector<const SAFE: bool>(
    ep: *mut fid_ep,
    kind: Kind,
    len: Option<usize>,
    dest: fi_addr_t,
    flags: Option<u64>,
    context: *mut c_void,
    tag: u64,
) -> isize {
    let Some(len) = len else { return ssize(FI_EINVAL) };
    // SAFETY: [OPEN], [APART].
    unsafe { issue::<SAFE>(ep, kind, len, dest, flags, context, tag) }
}

/// Bytes of a vector; None when it is too long.
///
/// # Safety
/// `iov` has `count` elements.
#[inline(always)]
pub(super) unsafe fn bytes(iov: *const iovec, count: usize) -> Option<usize> {
    if count > IOV_LIMIT {
        return None;
    }
    // SAFETY: [ARG].
    (0..count)
        .try_fold(0, |sum: usize, index| unsafe { sum.checked_add((*iov.add(index)).iov_len) })
}

/// Bytes of an RMA message: both sides must agree.
///
/// # Safety
/// The message is whole.
#[inline(always)]
pub(super) unsafe fn rma_bytes(msg: &fi_msg_rma) -> Option<usize> {
    // SAFETY: [ARG].
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
