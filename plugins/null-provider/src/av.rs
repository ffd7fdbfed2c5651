//! The address vector: a dense table of 8-byte raw addresses. An `fi_addr_t` is
//! the index, from 0, in order of insertion; indices are not used again.

use core::ffi::{c_char, c_int, c_void};
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use crate::bindings::*;
use crate::domain::Domain;
use crate::info::ADDRESS_LEN;
use crate::object::{Uses, err, fid_ops, free, give, header, no_bind, no_control, not_supported};

#[repr(C)]
pub(crate) struct Av {
    av: fid_av,
    /// How many were inserted: what a destination is checked against.
    pub(crate) known: AtomicU64,
    /// None where an address was removed.
    raw: Mutex<Vec<Option<u64>>>,
    domain: *const Domain,
    pub(crate) uses: Uses,
}

impl Av {
    /// A panic while the lock is held is not possible, so neither is poison.
    fn raw(&self) -> MutexGuard<'_, Vec<Option<u64>>> {
        self.raw.lock().unwrap_or_else(|poison| poison.into_inner())
    }
}

static FID: fi_ops = fid_ops(close, no_bind, no_control);
static OPS: fi_ops_av = fi_ops_av {
    size: size_of::<fi_ops_av>(),
    insert: Some(insert),
    insertsvc: Some(no_insertsvc),
    insertsym: Some(no_insertsym),
    remove: Some(remove),
    lookup: Some(lookup),
    straddr: Some(straddr),
    av_set: Some(no_av_set),
};

not_supported! {
    no_insertsvc(*mut fid_av, *const c_char, *const c_char, *mut fi_addr_t, u64, *mut c_void) -> c_int;
    no_insertsym(*mut fid_av, *const c_char, usize, *const c_char, usize, *mut fi_addr_t, u64,
        *mut c_void) -> c_int;
    no_av_set(*mut fid_av, *mut fi_av_set_attr, *mut *mut fid_av_set, *mut c_void) -> c_int;
}

/// fi_av_open(3).
///
/// # Safety
/// The domain is one of this provider's; `av` can be written.
pub(crate) unsafe extern "C" fn open(
    domain: *mut fid_domain,
    attr: *mut fi_av_attr,
    av: *mut *mut fid_av,
    context: *mut c_void,
) -> c_int {
    // SAFETY: [ARG].
    if let Some(attr) = unsafe { attr.as_ref() } {
        // Neither shared by name, nor inserting behind the program's back.
        if !attr.name.is_null() || attr.flags & FI_EVENT != 0 || attr.rx_ctx_bits != 0 {
            return err(FI_ENOSYS);
        }
    }
    let domain = domain.cast_const().cast::<Domain>();
    let object = give(Av {
        av: fid_av { fid: header(FI_CLASS_AV, context, &FID), ops: (&raw const OPS).cast_mut() },
        known: AtomicU64::new(0),
        raw: Mutex::new(Vec::new()),
        domain,
        uses: Uses::default(),
    });
    // SAFETY: [OPEN], [ARG].
    unsafe {
        (*domain).uses.add();
        *av = object.cast();
    }
    0
}

unsafe extern "C" fn close(av: *mut fid) -> c_int {
    let av = av.cast::<Av>();
    // SAFETY: the program passes an open vector; it is freed when unused,
    // before its domain can be.
    unsafe {
        if let Some(busy) = (*av).uses.busy() {
            return busy;
        }
        (*(*av).domain).uses.remove();
        free(av);
    }
    0
}

/// # Safety
/// The program passes an open address vector of this provider.
unsafe fn this<'a>(av: *mut fid_av) -> &'a Av {
    // SAFETY: [OPEN]; all that changes in it is locked or atomic.
    unsafe { &*av.cast() }
}

unsafe extern "C" fn insert(
    av: *mut fid_av,
    addr: *const c_void,
    count: usize,
    out: *mut fi_addr_t,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the program passes an open vector.
    let av = unsafe { this(av) };
    let Ok(inserted) = c_int::try_from(count) else { return err(FI_EINVAL) };
    if addr.is_null() && count > 0 {
        return err(FI_EINVAL);
    }
    let mut raw = av.raw();
    if raw.try_reserve(count).is_err() {
        return err(FI_ENOMEM);
    }
    let first = raw.len() as u64;
    for index in 0..count {
        // SAFETY: the program passes `count` addresses of ADDRESS_LEN bytes,
        // aligned or not.
        raw.push(Some(unsafe { addr.cast::<u64>().add(index).read_unaligned() }));
        if !out.is_null() {
            // SAFETY: null, or space for `count` entries.
            unsafe { *out.add(index) = first + index as u64 };
        }
    }
    av.known.store(raw.len() as u64, Ordering::Release);
    if flags & FI_SYNC_ERR != 0 && !context.is_null() {
        // SAFETY: with this flag the context is an int for each address.
        unsafe { core::ptr::write_bytes(context.cast::<c_int>(), 0, count) };
    }
    inserted
}

unsafe extern "C" fn remove(av: *mut fid_av, addr: *mut fi_addr_t, count: usize, _: u64) -> c_int {
    // SAFETY: the program passes an open vector.
    let mut raw = unsafe { this(av) }.raw();
    for index in 0..count {
        // SAFETY: the program passes `count` entries.
        let entry = unsafe { *addr.add(index) };
        let slot = usize::try_from(entry).ok().and_then(|entry| raw.get_mut(entry));
        if slot.and_then(Option::take).is_none() {
            return err(FI_EINVAL);
        }
    }
    0
}

unsafe extern "C" fn lookup(
    av: *mut fid_av,
    entry: fi_addr_t,
    addr: *mut c_void,
    addrlen: *mut usize,
) -> c_int {
    // SAFETY: the program passes an open vector.
    let raw = unsafe { this(av) }.raw();
    let slot = usize::try_from(entry).ok().and_then(|entry| raw.get(entry));
    let Some(Some(address)) = slot else { return err(FI_EINVAL) };
    // SAFETY: `addr` has space for `*addrlen` bytes.
    unsafe { put_address(*address, addr, addrlen) };
    0
}

/// Copies as much of an address as there is space for, and says its whole
/// length. True when all of it went in.
///
/// # Safety
/// `addr` has space for `*addrlen` bytes, which may be none.
pub(crate) unsafe fn put_address(address: u64, addr: *mut c_void, addrlen: *mut usize) -> bool {
    let bytes = address.to_ne_bytes();
    // SAFETY: no more is copied than there is space for.
    unsafe {
        let capacity = (*addrlen).min(ADDRESS_LEN);
        if !addr.is_null() {
            core::ptr::copy_nonoverlapping(bytes.as_ptr(), addr.cast(), capacity);
        }
        *addrlen = ADDRESS_LEN;
        capacity == ADDRESS_LEN && !addr.is_null()
    }
}

unsafe extern "C" fn straddr(
    _: *mut fid_av,
    addr: *const c_void,
    buf: *mut c_char,
    len: *mut usize,
) -> *const c_char {
    // SAFETY: the program passes one raw address.
    let address = unsafe { addr.cast::<u64>().read_unaligned() };
    let text = format!("null://{address:016x}\0");
    // SAFETY: `buf` has space for `*len` bytes; the last one written is a zero.
    unsafe {
        let capacity = (*len).min(text.len());
        if capacity > 0 {
            core::ptr::copy_nonoverlapping(text.as_ptr(), buf.cast(), capacity);
            *buf.add(capacity - 1) = 0;
        }
        *len = text.len();
    }
    buf
}
