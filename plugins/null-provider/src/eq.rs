//! Event queues: programs open one by habit, and no event ever comes.

use core::ffi::{c_char, c_int, c_void};

use crate::bindings::*;
use crate::fabric::Fabric;
use crate::object::{
    Patience, Uses, err, fid_ops, free, give, header, no_bind, no_control, not_supported, ssize,
};

#[repr(C)]
pub(crate) struct Eq {
    eq: fid_eq,
    fabric: *const Fabric,
    pub(crate) uses: Uses,
}

static FID: fi_ops = fid_ops(close, no_bind, no_control);
static OPS: fi_ops_eq = fi_ops_eq {
    size: size_of::<fi_ops_eq>(),
    read: Some(read),
    readerr: Some(readerr),
    write: Some(no_write),
    sread: Some(sread),
    strerror: Some(strerror),
};

not_supported! {
    no_write(*mut fid_eq, u32, *const c_void, usize, u64) -> isize;
}

/// fi_eq_open(3).
///
/// # Safety
/// The fabric is one of this provider's; `eq` can be written.
pub(crate) unsafe extern "C" fn open(
    fabric: *mut fid_fabric,
    attr: *mut fi_eq_attr,
    eq: *mut *mut fid_eq,
    context: *mut c_void,
) -> c_int {
    // SAFETY: [ARG].
    let wait = unsafe { attr.as_ref() }.map_or(FI_WAIT_NONE, |attr| attr.wait_obj);
    if !matches!(wait, FI_WAIT_NONE | FI_WAIT_UNSPEC | FI_WAIT_YIELD) {
        return err(FI_ENOSYS);
    }
    let fabric = fabric.cast_const().cast::<Fabric>();
    let object = give(Eq {
        eq: fid_eq { fid: header(FI_CLASS_EQ, context, &FID), ops: (&raw const OPS).cast_mut() },
        fabric,
        uses: Uses::default(),
    });
    // SAFETY: [OPEN], [ARG].
    unsafe {
        (*fabric).uses.add();
        *eq = object.cast();
    }
    0
}

unsafe extern "C" fn close(eq: *mut fid) -> c_int {
    let eq = eq.cast::<Eq>();
    // SAFETY: the program passes an open queue; it is freed when unused, before
    // its fabric can be.
    unsafe {
        if let Some(busy) = (*eq).uses.busy() {
            return busy;
        }
        (*(*eq).fabric).uses.remove();
        free(eq);
    }
    0
}

unsafe extern "C" fn read(_: *mut fid_eq, _: *mut u32, _: *mut c_void, _: usize, _: u64) -> isize {
    ssize(FI_EAGAIN)
}

unsafe extern "C" fn readerr(_: *mut fid_eq, _: *mut fi_eq_err_entry, _: u64) -> isize {
    ssize(FI_EAGAIN)
}

unsafe extern "C" fn sread(
    _: *mut fid_eq,
    _: *mut u32,
    _: *mut c_void,
    _: usize,
    timeout: c_int,
    _: u64,
) -> isize {
    let patience = Patience::new(timeout);
    while patience.pause() {}
    ssize(FI_EAGAIN)
}

unsafe extern "C" fn strerror(
    _: *mut fid_eq,
    _: c_int,
    _: *const c_void,
    _: *mut c_char,
    _: usize,
) -> *const c_char {
    c"no event has failed".as_ptr()
}
