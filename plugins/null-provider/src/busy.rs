//! The table of a provider that has no space for a while.
//!
//! With `RANKWAY_NULL_BUSY=<milliseconds>` `fi_inject_write`, `fi_writemsg` and
//! `fi_readmsg` answer `-FI_EAGAIN` for that long after the first of them: a
//! real provider's full queue, at will. It is a table of its own, so that the
//! other one pays nothing for it.

use core::ffi::c_void;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::bindings::*;
use crate::data;
use crate::object::ssize;
use crate::settings::SETTINGS;

/// How long the provider is busy, if at all.
fn time() -> Option<Duration> {
    SETTINGS.as_ref().ok()?.busy
}

/// The RMA table that is busy for a while, where that is asked for.
pub(crate) fn rma() -> Option<&'static fi_ops_rma> {
    time().map(|_| &RMA)
}

/// Returns true if there is no space now; the first call starts the clock.
fn now() -> bool {
    static SINCE: OnceLock<Instant> = OnceLock::new();
    time().is_some_and(|t| SINCE.get_or_init(Instant::now).elapsed() < t)
}

/// What comes after, for threads that may come at once: both kinds of domains
/// ask here.
const AFTER: fi_ops_rma = data::tables_for::<true>().rma;

static RMA: fi_ops_rma =
    fi_ops_rma { readmsg: Some(readmsg), writemsg: Some(writemsg), inject: Some(inject), ..AFTER };

unsafe extern "C" fn writemsg(ep: *mut fid_ep, msg: *const fi_msg_rma, flags: u64) -> isize {
    match AFTER.writemsg {
        // SAFETY: the caller's call, passed on.
        Some(call) if !now() => unsafe { call(ep, msg, flags) },
        _ => ssize(FI_EAGAIN),
    }
}

unsafe extern "C" fn readmsg(ep: *mut fid_ep, msg: *const fi_msg_rma, flags: u64) -> isize {
    match AFTER.readmsg {
        // SAFETY: the caller's call, passed on.
        Some(call) if !now() => unsafe { call(ep, msg, flags) },
        _ => ssize(FI_EAGAIN),
    }
}

unsafe extern "C" fn inject(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    dest: fi_addr_t,
    addr: u64,
    key: u64,
) -> isize {
    match AFTER.inject {
        // SAFETY: the caller's call, passed on.
        Some(call) if !now() => unsafe { call(ep, buf, len, dest, addr, key) },
        _ => ssize(FI_EAGAIN),
    }
}
