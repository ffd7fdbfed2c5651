//! The domain: opens everything that moves data, and registers memory.

use core::ffi::{c_int, c_void};
use std::collections::BTreeSet;
use std::sync::Mutex;

use crate::bindings::*;
use crate::fabric::Fabric;
use crate::object::{Uses, err, fid_ops, free, give, header, no_bind, no_control, not_supported};
use crate::{av, cntr, cq, data, ep, info};

#[repr(C)]
pub(crate) struct Domain {
    domain: fid_domain,
    /// A later libfabric may have more fields in the structure above.
    _reserved: [u64; 8],
    /// Whether threads may come at once.
    pub(crate) safe: bool,
    fabric: *const Fabric,
    keys: Mutex<BTreeSet<u64>>,
    pub(crate) uses: Uses,
}

#[repr(C)]
struct Mr {
    mr: fid_mr,
    domain: *const Domain,
}

static FID: fi_ops = fid_ops(close, no_bind, no_control);
static OPS: fi_ops_domain = fi_ops_domain {
    size: size_of::<fi_ops_domain>(),
    av_open: Some(av::open),
    cq_open: Some(cq::open),
    endpoint: Some(ep::open),
    scalable_ep: Some(no_scalable_ep),
    cntr_open: Some(cntr::open),
    poll_open: Some(no_poll_open),
    stx_ctx: Some(no_stx_ctx),
    srx_ctx: Some(no_srx_ctx),
    query_atomic: Some(data::query_atomic),
    query_collective: Some(no_query_collective),
    endpoint2: Some(ep::open2),
};
static MR_OPS: fi_ops_mr = fi_ops_mr {
    size: size_of::<fi_ops_mr>(),
    reg: Some(mr_reg),
    regv: Some(mr_regv),
    regattr: Some(mr_regattr),
};
static MR_FID: fi_ops = fid_ops(mr_close, no_bind, mr_control);

not_supported! {
    no_scalable_ep(*mut fid_domain, *mut fi_info, *mut *mut fid_ep, *mut c_void) -> c_int;
    no_poll_open(*mut fid_domain, *mut fi_poll_attr, *mut *mut fid_poll) -> c_int;
    no_stx_ctx(*mut fid_domain, *mut fi_tx_attr, *mut *mut fid_stx, *mut c_void) -> c_int;
    no_srx_ctx(*mut fid_domain, *mut fi_rx_attr, *mut *mut fid_ep, *mut c_void) -> c_int;
    no_query_collective(*mut fid_domain, fi_collective_op, *mut fi_collective_attr, u64) -> c_int;
}

/// fi_domain(3).
///
/// # Safety
/// The fabric is one of this provider's, `info` is whole, `domain` can be written.
pub(crate) unsafe extern "C" fn open(
    fabric: *mut fid_fabric,
    info: *mut fi_info,
    domain: *mut *mut fid_domain,
    context: *mut c_void,
) -> c_int {
    // SAFETY: [ARG].
    let attr = unsafe { info.as_ref().and_then(|info| info.domain_attr.as_ref()) };
    let threading = attr.map_or(FI_THREAD_UNSPEC, |attr| attr.threading);
    let fabric = fabric.cast_const().cast::<Fabric>();
    let object = give(Domain {
        domain: fid_domain {
            fid: header(FI_CLASS_DOMAIN, context, &FID),
            ops: (&raw const OPS).cast_mut(),
            mr: (&raw const MR_OPS).cast_mut(),
        },
        _reserved: [0; 8],
        safe: !matches!(threading, FI_THREAD_DOMAIN | FI_THREAD_COMPLETION),
        fabric,
        keys: Mutex::new(BTreeSet::new()),
        uses: Uses::default(),
    });
    // SAFETY: [OPEN], [ARG].
    unsafe {
        (*fabric).uses.add();
        *domain = object.cast();
    }
    0
}

pub(crate) unsafe extern "C" fn open2(
    fabric: *mut fid_fabric,
    info: *mut fi_info,
    domain: *mut *mut fid_domain,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    if flags != 0 {
        return err(FI_ENOSYS);
    }
    // SAFETY: the same contract.
    unsafe { open(fabric, info, domain, context) }
}

unsafe extern "C" fn close(domain: *mut fid) -> c_int {
    let domain = domain.cast::<Domain>();
    // SAFETY: the program passes an open domain; it is freed when unused, before
    // its fabric can be.
    unsafe {
        if let Some(busy) = (*domain).uses.busy() {
            return busy;
        }
        (*(*domain).fabric).uses.remove();
        free(domain);
    }
    0
}

/// Registers nothing: no byte will be read or written. The key is reserved.
///
/// # Safety
/// `domain` is an open domain of this provider; `mr` can be written.
unsafe fn register(
    domain: *mut fid,
    key: u64,
    mr: *mut *mut fid_mr,
    context: *mut c_void,
) -> c_int {
    let domain = domain.cast_const().cast::<Domain>();
    // SAFETY: [OPEN], [ARG].
    unsafe {
        let mut keys = (*domain).keys.lock().unwrap_or_else(|poison| poison.into_inner());
        if !keys.insert(key) {
            return err(FI_ENOKEY as c_int);
        }
        (*domain).uses.add();
        *mr = give(Mr {
            mr: fid_mr {
                fid: header(FI_CLASS_MR, context, &MR_FID),
                mem_desc: core::ptr::null_mut(),
                key,
            },
            domain,
        })
        .cast();
    }
    0
}

unsafe extern "C" fn mr_reg(
    domain: *mut fid,
    _buf: *const c_void,
    _len: usize,
    _access: u64,
    _offset: u64,
    requested_key: u64,
    _flags: u64,
    mr: *mut *mut fid_mr,
    context: *mut c_void,
) -> c_int {
    // SAFETY: [OPEN], [ARG].
    unsafe { register(domain, requested_key, mr, context) }
}

unsafe extern "C" fn mr_regv(
    domain: *mut fid,
    _iov: *const iovec,
    count: usize,
    _access: u64,
    _offset: u64,
    requested_key: u64,
    _flags: u64,
    mr: *mut *mut fid_mr,
    context: *mut c_void,
) -> c_int {
    if count > info::IOV_LIMIT {
        return err(FI_EINVAL);
    }
    // SAFETY: [OPEN], [ARG].
    unsafe { register(domain, requested_key, mr, context) }
}

unsafe extern "C" fn mr_regattr(
    domain: *mut fid,
    attr: *const fi_mr_attr,
    _flags: u64,
    mr: *mut *mut fid_mr,
) -> c_int {
    // SAFETY: [ARG].
    let Some(attr) = (unsafe { attr.as_ref() }) else { return err(FI_EINVAL) };
    if attr.iov_count > info::IOV_LIMIT {
        return err(FI_EINVAL);
    }
    // SAFETY: [OPEN], [ARG].
    unsafe { register(domain, attr.requested_key, mr, attr.context) }
}

unsafe extern "C" fn mr_control(_: *mut fid, command: c_int, _: *mut c_void) -> c_int {
    match command as u32 {
        FI_ENABLE | FI_REFRESH => 0,
        _ => err(FI_ENOSYS),
    }
}

unsafe extern "C" fn mr_close(mr: *mut fid) -> c_int {
    let mr = mr.cast::<Mr>();
    // SAFETY: the program passes an open region, which is freed before its
    // domain can be.
    unsafe {
        let domain = (*mr).domain;
        let key = (*mr).mr.key;
        (*domain).keys.lock().unwrap_or_else(|poison| poison.into_inner()).remove(&key);
        (*domain).uses.remove();
        free(mr);
    }
    0
}
