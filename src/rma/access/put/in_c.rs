//! Puts from C. Contracts are those of [`put`](super).

use crate::av::Entry;
use crate::netmod::Netmod;
use crate::rma::access::{Access, CAbi, CPut, FAILED};
use crate::rma::registration::InjectTarget;
use std::ffi::c_void;

impl CAbi {
    pub(in crate::rma::access) fn new<N: Netmod>(target: &InjectTarget<N>, put: CPut) -> CAbi {
        CAbi { longest: target.limit_in_c(), put }
    }
}

/// [`Access::put_unchecked`] for callers that are not Rust. A panic answers
/// [`FAILED`].
///
/// # Safety
/// `access` is alive and this thread's; \[PUT\].
#[inline(never)]
pub(in crate::rma::access) unsafe extern "C" fn put_in_c<N: Netmod>(
    access: *const c_void,
    buf: *const u8,
    len: usize,
    rank: u32,
    disp: usize,
) -> isize {
    // SAFETY: [PUT], of an access that lives and is this thread's.
    let put = || unsafe { (*access.cast::<Access<N>>()).put_unchecked(buf, len, rank, disp) };
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(put)).unwrap_or(FAILED)
}

/// The same by the body of one path: what calls nothing but the provider has no frame.
///
/// # Safety
/// `access` is alive and this thread's; \[PUT\], \[PATH\].
pub(super) unsafe extern "C" fn put_in_c_by<N: Netmod, const BODY: u32>(
    access: *const c_void,
    buf: *const u8,
    len: usize,
    rank: u32,
    disp: usize,
) -> isize {
    // SAFETY: [PUT], of an access that lives and is this thread's; [PATH].
    unsafe {
        let of = &*access.cast::<Access<N>>();
        let entry = Entry::from_bits(of.lookup.entry_by::<BODY>(rank as usize));
        if !N::KEY_HANDLES
            && let Some(dest) = N::network(entry)
            && let Some(key) = of.inject_target.key_for(len)
        {
            let offset = disp * of.inject_target.unit();
            return of.inject_to(dest, key, (buf, len), rank, offset);
        }
        put_in_c::<N>(access, buf, len, rank, disp)
    }
}
