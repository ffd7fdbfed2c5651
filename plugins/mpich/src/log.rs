//! How the job ends. Whatever may fail stands above.

use crate::host;
use std::ffi::{CString, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs the body of a function that C calls: no panic goes out. One that happens ends
/// the job, as its state can no longer be trusted.
#[inline(always)]
pub(crate) fn guarded<R>(body: impl FnOnce() -> R) -> R {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| abort(1, "a bug in rankway"))
}

/// Ends the job over an error after which nothing can go on. The error names the rank.
#[cold]
pub(crate) fn fatal(error: &dyn std::fmt::Display) -> ! {
    abort(1, &error.to_string())
}

/// Ends the job with a code.
#[cold]
pub(crate) fn abort(code: c_int, why: &str) -> ! {
    // SAFETY: a C string; ends the process through the launcher, which ends the others.
    unsafe { host::rkw_host_abort(code, text(&format!("rankway: {why}")).as_ptr()) }
}

/// As C has it; what stands behind a zero is left out.
pub(crate) fn text(text: &str) -> CString {
    CString::new(text.split('\0').next().unwrap_or_default()).unwrap_or_default()
}
