//! Counters: two numbers that any thread may read.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::bindings::*;
use crate::domain::Domain;
use crate::object::{Patience, Uses, err, fid_ops, free, give, header, no_bind, no_control};

#[repr(C)]
pub(crate) struct Cntr {
    cntr: fid_cntr,
    pub(crate) value: AtomicU64,
    errors: AtomicU64,
    domain: *const Domain,
    pub(crate) uses: Uses,
}

static FID: fi_ops = fid_ops(close, no_bind, no_control);
static OPS: fi_ops_cntr = fi_ops_cntr {
    size: size_of::<fi_ops_cntr>(),
    read: Some(read),
    readerr: Some(readerr),
    add: Some(add),
    set: Some(set),
    wait: Some(wait),
    adderr: Some(adderr),
    seterr: Some(seterr),
};

/// fi_cntr_open(3).
///
/// # Safety
/// The domain is one of this provider's; `cntr` can be written.
pub(crate) unsafe extern "C" fn open(
    domain: *mut fid_domain,
    attr: *mut fi_cntr_attr,
    cntr: *mut *mut fid_cntr,
    context: *mut c_void,
) -> c_int {
    // SAFETY: [ARG].
    let wait = unsafe { attr.as_ref() }.map_or(FI_WAIT_NONE, |attr| attr.wait_obj);
    if !matches!(wait, FI_WAIT_NONE | FI_WAIT_UNSPEC | FI_WAIT_YIELD) {
        return err(FI_ENOSYS);
    }
    let domain = domain.cast_const().cast::<Domain>();
    let object = give(Cntr {
        cntr: fid_cntr {
            fid: header(FI_CLASS_CNTR, context, &FID),
            ops: (&raw const OPS).cast_mut(),
        },
        value: AtomicU64::new(0),
        errors: AtomicU64::new(0),
        domain,
        uses: Uses::default(),
    });
    // SAFETY: [OPEN], [ARG].
    unsafe {
        (*domain).uses.add();
        *cntr = object.cast();
    }
    0
}

unsafe extern "C" fn close(cntr: *mut fid) -> c_int {
    let cntr = cntr.cast::<Cntr>();
    // SAFETY: the program passes an open counter; it is freed when unused,
    // before its domain can be.
    unsafe {
        if let Some(busy) = (*cntr).uses.busy() {
            return busy;
        }
        (*(*cntr).domain).uses.remove();
        free(cntr);
    }
    0
}

/// # Safety
/// The program passes an open counter of this provider.
unsafe fn this<'a>(cntr: *mut fid_cntr) -> &'a Cntr {
    // SAFETY: [OPEN]; all that changes in it is atomic.
    unsafe { &*cntr.cast() }
}

unsafe extern "C" fn read(cntr: *mut fid_cntr) -> u64 {
    // SAFETY: the program passes an open counter.
    unsafe { this(cntr) }.value.load(Relaxed)
}

unsafe extern "C" fn readerr(cntr: *mut fid_cntr) -> u64 {
    // SAFETY: the program passes an open counter.
    unsafe { this(cntr) }.errors.load(Relaxed)
}

unsafe extern "C" fn add(cntr: *mut fid_cntr, value: u64) -> c_int {
    // SAFETY: the program passes an open counter.
    unsafe { this(cntr) }.value.fetch_add(value, Relaxed);
    0
}

unsafe extern "C" fn set(cntr: *mut fid_cntr, value: u64) -> c_int {
    // SAFETY: the program passes an open counter.
    unsafe { this(cntr) }.value.store(value, Relaxed);
    0
}

unsafe extern "C" fn adderr(cntr: *mut fid_cntr, value: u64) -> c_int {
    // SAFETY: the program passes an open counter.
    unsafe { this(cntr) }.errors.fetch_add(value, Relaxed);
    0
}

unsafe extern "C" fn seterr(cntr: *mut fid_cntr, value: u64) -> c_int {
    // SAFETY: the program passes an open counter.
    unsafe { this(cntr) }.errors.store(value, Relaxed);
    0
}

unsafe extern "C" fn wait(cntr: *mut fid_cntr, threshold: u64, timeout: c_int) -> c_int {
    // SAFETY: the program passes an open counter.
    let cntr = unsafe { this(cntr) };
    let errors = cntr.errors.load(Relaxed);
    let patience = Patience::new(timeout);
    loop {
        if cntr.value.load(Relaxed) >= threshold {
            return 0;
        }
        if cntr.errors.load(Relaxed) != errors {
            return err(FI_EAVAIL as c_int);
        }
        if !patience.pause() {
            return err(FI_ETIMEDOUT);
        }
    }
}
