//! Completion queues: a ring of completions in the format asked for, and a list
//! of errors (cancelled receives, probes that find nothing).
//!
//! `SAFE` says whether threads may come at once (`FI_THREAD_SAFE` and the like)
//! and a lock is taken, or the program keeps them apart.

use core::cell::UnsafeCell;
use core::ffi::{c_char, c_int, c_void};
use core::sync::atomic::{AtomicBool, Ordering};
use std::collections::VecDeque;

use crate::bindings::*;
use crate::domain::Domain;
use crate::object::{Patience, Uses, err, fid_ops, free, give, header, no_bind, no_control, ssize};

/// Entries of a queue whose attribute does not say.
const DEFAULT_SIZE: usize = 1 << 13;
/// The longest queue.
const MAX_SIZE: usize = 1 << 24;

#[repr(C)]
pub(crate) struct Cq {
    cq: fid_cq,
    lock: AtomicBool,
    /// fi_cq_signal was called and no reader has seen it.
    signal: AtomicBool,
    domain: *const Domain,
    pub(crate) uses: Uses,
    state: UnsafeCell<State>,
}

/// What the lock, or the program's own order, protects.
struct State {
    /// Completions ever written and ever read; both only grow.
    written: usize,
    read: usize,
    /// Entries, a power of two, and words of an entry.
    size: usize,
    words: usize,
    ring: Box<[u64]>,
    errors: VecDeque<Failure>,
}

/// A completed operation. Every format is a prefix of the tagged one.
pub(crate) struct Completion {
    pub(crate) context: *mut c_void,
    pub(crate) flags: u64,
    pub(crate) len: usize,
    pub(crate) tag: u64,
}

/// An operation that ended without being done.
pub(crate) struct Failure {
    pub(crate) context: *mut c_void,
    pub(crate) flags: u64,
    pub(crate) tag: u64,
    pub(crate) err: c_int,
}

impl Cq {
    /// Runs `work` on the state, alone.
    ///
    /// # Safety
    /// \[APART\].
    #[inline(always)]
    unsafe fn alone<const SAFE: bool, R>(&self, work: impl FnOnce(&mut State) -> R) -> R {
        if SAFE {
            while self.lock.swap(true, Ordering::Acquire) {
                core::hint::spin_loop();
            }
        }
        // SAFETY: the lock, or the program, keeps everyone else out, and `work`
        // does not come back here.
        let answer = work(unsafe { &mut *self.state.get() });
        if SAFE {
            self.lock.store(false, Ordering::Release);
        }
        answer
    }

    /// Queues a completion. False when the queue is full.
    ///
    /// # Safety
    /// \[APART\].
    #[inline(always)]
    pub(crate) unsafe fn push<const SAFE: bool>(&self, completion: &Completion) -> bool {
        // SAFETY: [APART].
        unsafe { self.alone::<SAFE, _>(|state| state.push(completion)) }
    }

    /// Queues an error.
    ///
    /// # Safety
    /// \[APART\].
    pub(crate) unsafe fn fail<const SAFE: bool>(&self, failure: Failure) {
        // SAFETY: [APART].
        unsafe { self.alone::<SAFE, _>(|state| state.errors.push_back(failure)) }
    }
}

impl State {
    #[inline(always)]
    fn push(&mut self, completion: &Completion) -> bool {
        if self.written.wrapping_sub(self.read) >= self.size {
            return false;
        }
        let at = (self.written & (self.size - 1)) * self.words;
        // SAFETY: `at` is the start of an entry: the index is below `size`, an
        // entry is `words` long and the ring holds `size` of them. `words` is 1,
        // 3, 5 or 6.
        unsafe {
            let entry = self.ring.as_mut_ptr().add(at);
            entry.write(completion.context as u64);
            if self.words > 1 {
                entry.add(1).write(completion.flags);
                entry.add(2).write(completion.len as u64);
            }
            if self.words > 3 {
                entry.add(3).write(0);
                entry.add(4).write(0);
            }
            if self.words > 5 {
                entry.add(5).write(completion.tag);
            }
        }
        self.written = self.written.wrapping_add(1);
        true
    }

    /// Copies up to `count` completions out.
    ///
    /// # Safety
    /// `buf` has space for `count` entries.
    unsafe fn take(&mut self, buf: *mut u64, count: usize) -> isize {
        if !self.errors.is_empty() {
            return -(FI_EAVAIL as isize);
        }
        let count = count.min(self.written.wrapping_sub(self.read));
        if count == 0 {
            return ssize(FI_EAGAIN);
        }
        let from = self.read & (self.size - 1);
        let whole = count.min(self.size - from);
        // SAFETY: `whole` entries lie before the end of the ring and the rest at
        // its start; `buf` has space, and is the program's: [ARG].
        unsafe {
            let ring = self.ring.as_ptr();
            core::ptr::copy_nonoverlapping(ring.add(from * self.words), buf, whole * self.words);
            core::ptr::copy_nonoverlapping(
                ring,
                buf.add(whole * self.words),
                (count - whole) * self.words,
            );
        }
        self.read = self.read.wrapping_add(count);
        count as isize
    }
}

static FID: fi_ops = fid_ops(close, no_bind, no_control);
static OPS: fi_ops_cq = ops::<false>();
static SAFE_OPS: fi_ops_cq = ops::<true>();

const fn ops<const SAFE: bool>() -> fi_ops_cq {
    fi_ops_cq {
        size: size_of::<fi_ops_cq>(),
        read: Some(read::<SAFE>),
        readfrom: Some(readfrom::<SAFE>),
        readerr: Some(readerr::<SAFE>),
        sread: Some(sread::<SAFE>),
        sreadfrom: Some(sreadfrom::<SAFE>),
        signal: Some(signal),
        strerror: Some(strerror),
    }
}

/// fi_cq_open(3).
///
/// # Safety
/// The domain is one of this provider's; `cq` can be written.
pub(crate) unsafe extern "C" fn open(
    domain: *mut fid_domain,
    attr: *mut fi_cq_attr,
    cq: *mut *mut fid_cq,
    context: *mut c_void,
) -> c_int {
    // SAFETY: [ARG].
    let (size, format, wait) = unsafe { attr.as_ref() }
        .map_or((0, FI_CQ_FORMAT_UNSPEC, FI_WAIT_NONE), |attr| {
            (attr.size, attr.format, attr.wait_obj)
        });
    if !matches!(wait, FI_WAIT_NONE | FI_WAIT_UNSPEC | FI_WAIT_YIELD) {
        return err(FI_ENOSYS);
    }
    let words = match format {
        FI_CQ_FORMAT_CONTEXT | FI_CQ_FORMAT_UNSPEC => size_of::<fi_cq_entry>(),
        FI_CQ_FORMAT_MSG => size_of::<fi_cq_msg_entry>(),
        FI_CQ_FORMAT_DATA => size_of::<fi_cq_data_entry>(),
        FI_CQ_FORMAT_TAGGED => size_of::<fi_cq_tagged_entry>(),
        _ => return err(FI_ENOSYS),
    } / size_of::<u64>();
    let size = match size {
        0 => DEFAULT_SIZE,
        size if size > MAX_SIZE => return err(FI_EINVAL),
        size => size.next_power_of_two(),
    };
    let mut ring = Vec::new();
    if ring.try_reserve_exact(size * words).is_err() {
        return err(FI_ENOMEM);
    }
    ring.resize(size * words, 0);
    let domain = domain.cast_const().cast::<Domain>();
    // SAFETY: [OPEN].
    let table = if unsafe { (*domain).safe } { &raw const SAFE_OPS } else { &raw const OPS };
    let object = give(Cq {
        cq: fid_cq { fid: header(FI_CLASS_CQ, context, &FID), ops: table.cast_mut() },
        lock: AtomicBool::new(false),
        signal: AtomicBool::new(false),
        domain,
        uses: Uses::default(),
        state: UnsafeCell::new(State {
            written: 0,
            read: 0,
            size,
            words,
            ring: ring.into_boxed_slice(),
            errors: VecDeque::new(),
        }),
    });
    // SAFETY: [OPEN], [ARG].
    unsafe {
        (*domain).uses.add();
        *cq = object.cast();
    }
    0
}

unsafe extern "C" fn close(cq: *mut fid) -> c_int {
    let cq = cq.cast::<Cq>();
    // SAFETY: the program passes an open queue; it is freed when unused, before
    // its domain can be.
    unsafe {
        if let Some(busy) = (*cq).uses.busy() {
            return busy;
        }
        (*(*cq).domain).uses.remove();
        free(cq);
    }
    0
}

/// # Safety
/// The program passes an open queue of this provider.
unsafe fn this<'a>(cq: *mut fid_cq) -> &'a Cq {
    // SAFETY: [OPEN]; what changes in it is atomic or in a cell.
    unsafe { &*cq.cast() }
}

unsafe extern "C" fn read<const SAFE: bool>(
    cq: *mut fid_cq,
    buf: *mut c_void,
    count: usize,
) -> isize {
    // SAFETY: [OPEN], [ARG], [APART].
    unsafe { this(cq).alone::<SAFE, _>(|state| state.take(buf.cast(), count)) }
}

unsafe extern "C" fn readfrom<const SAFE: bool>(
    cq: *mut fid_cq,
    buf: *mut c_void,
    count: usize,
    src_addr: *mut fi_addr_t,
) -> isize {
    // SAFETY: as for `read`, and `src_addr` is null or has space for as many.
    unsafe {
        let taken = read::<SAFE>(cq, buf, count);
        if !src_addr.is_null() {
            for index in 0..usize::try_from(taken).unwrap_or(0) {
                // Nothing is ever received.
                *src_addr.add(index) = u64::MAX;
            }
        }
        taken
    }
}

unsafe extern "C" fn readerr<const SAFE: bool>(
    cq: *mut fid_cq,
    entry: *mut fi_cq_err_entry,
    _: u64,
) -> isize {
    // SAFETY: [OPEN], [APART].
    let failure = unsafe { this(cq).alone::<SAFE, _>(|state| state.errors.pop_front()) };
    let Some(failure) = failure else { return ssize(FI_EAGAIN) };
    // SAFETY: the program passes an entry; its own buffer for provider data, if
    // any, is left empty.
    unsafe {
        (*entry).op_context = failure.context;
        (*entry).flags = failure.flags;
        (*entry).len = 0;
        (*entry).buf = core::ptr::null_mut();
        (*entry).data = 0;
        (*entry).tag = failure.tag;
        (*entry).olen = 0;
        (*entry).err = failure.err;
        (*entry).prov_errno = failure.err;
        (*entry).err_data_size = 0;
    }
    1
}

unsafe extern "C" fn sread<const SAFE: bool>(
    cq: *mut fid_cq,
    buf: *mut c_void,
    count: usize,
    _: *const c_void,
    timeout: c_int,
) -> isize {
    let patience = Patience::new(timeout);
    loop {
        // SAFETY: as for `read`.
        let taken = unsafe { read::<SAFE>(cq, buf, count) };
        if taken != ssize(FI_EAGAIN) {
            return taken;
        }
        // SAFETY: [OPEN].
        let signalled = unsafe { this(cq) }.signal.swap(false, Ordering::Relaxed);
        if signalled || !patience.pause() {
            return taken;
        }
    }
}

unsafe extern "C" fn sreadfrom<const SAFE: bool>(
    cq: *mut fid_cq,
    buf: *mut c_void,
    count: usize,
    src_addr: *mut fi_addr_t,
    cond: *const c_void,
    timeout: c_int,
) -> isize {
    // SAFETY: as for `readfrom`.
    unsafe {
        let taken = sread::<SAFE>(cq, buf, count, cond, timeout);
        if !src_addr.is_null() {
            for index in 0..usize::try_from(taken).unwrap_or(0) {
                *src_addr.add(index) = u64::MAX;
            }
        }
        taken
    }
}

unsafe extern "C" fn signal(cq: *mut fid_cq) -> c_int {
    // SAFETY: [OPEN].
    unsafe { this(cq) }.signal.store(true, Ordering::Relaxed);
    0
}

unsafe extern "C" fn strerror(
    _: *mut fid_cq,
    prov_errno: c_int,
    _: *const c_void,
    buf: *mut c_char,
    len: usize,
) -> *const c_char {
    let text = match prov_errno {
        FI_ECANCELED => c"the receive was cancelled",
        FI_ENOMSG => c"nothing is ever received here",
        _ => c"no such error",
    };
    if !buf.is_null() && len > 0 {
        // SAFETY: `buf` has space for `len` bytes; the last one is made a zero.
        unsafe {
            libc::strncpy(buf, text.as_ptr(), len);
            *buf.add(len - 1) = 0;
        }
    }
    text.as_ptr()
}
