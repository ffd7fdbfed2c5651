//! The fabric: opens domains and event queues, and counts them.

use core::ffi::{c_int, c_void};

use crate::bindings::*;
use crate::object::{Uses, err, fid_ops, free, give, header, no_bind, no_control, not_supported};
use crate::{domain, eq};

#[repr(C)]
pub(crate) struct Fabric {
    fabric: fid_fabric,
    /// libfabric writes `api_version`; a later one may have more fields.
    _reserved: [u64; 8],
    pub(crate) uses: Uses,
}

static FID: fi_ops = fid_ops(close, no_bind, no_control);
static OPS: fi_ops_fabric = fi_ops_fabric {
    size: size_of::<fi_ops_fabric>(),
    domain: Some(domain::open),
    passive_ep: Some(no_passive_ep),
    eq_open: Some(eq::open),
    wait_open: Some(no_wait_open),
    trywait: Some(trywait),
    domain2: Some(domain::open2),
};

not_supported! {
    no_passive_ep(*mut fid_fabric, *mut fi_info, *mut *mut fid_pep, *mut c_void) -> c_int;
    no_wait_open(*mut fid_fabric, *mut fi_wait_attr, *mut *mut fid_wait) -> c_int;
}

/// fi_fabric(3).
///
/// # Safety
/// libfabric calls it with an attribute of this provider and space for the answer.
pub(crate) unsafe extern "C" fn fabric(
    _attr: *mut fi_fabric_attr,
    fabric: *mut *mut fid_fabric,
    context: *mut c_void,
) -> c_int {
    let object = give(Fabric {
        fabric: fid_fabric {
            fid: header(FI_CLASS_FABRIC, context, &FID),
            ops: (&raw const OPS).cast_mut(),
            api_version: 0,
        },
        _reserved: [0; 8],
        uses: Uses::default(),
    });
    // SAFETY: the caller wants the answer there.
    unsafe { *fabric = object.cast() };
    0
}

unsafe extern "C" fn close(fabric: *mut fid) -> c_int {
    let fabric = fabric.cast::<Fabric>();
    // SAFETY: the program passes an open fabric; it is freed when unused.
    unsafe {
        if let Some(busy) = (*fabric).uses.busy() {
            return busy;
        }
        free(fabric);
    }
    0
}

/// Nothing here can be waited for in the system, so waiting is always allowed
/// and never needed.
unsafe extern "C" fn trywait(_: *mut fid_fabric, _: *mut *mut fid, count: c_int) -> c_int {
    if count < 0 { err(FI_EINVAL) } else { 0 }
}
