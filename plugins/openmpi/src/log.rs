//! What is said to the user, and how the job ends. Whatever may fail stands above.

use crate::{ffi, params};
use rankway::msg::MsgError;
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs the body of a function that C calls: no panic goes out. One that
/// happens ends the job, as its state can no longer be trusted.
#[inline]
pub(crate) fn guarded(body: impl FnOnce() -> c_int) -> c_int {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| abort("a bug in rankway"))
}

/// Prints a line at this verbosity.
pub(crate) fn log(level: c_int, line: impl FnOnce() -> String) {
    if params::verbosity() >= level {
        print(&line());
    }
}

/// Prints a line.
pub(crate) fn print(line: &str) {
    let line = ffi::text(&format!("rankway: {line}"));
    // SAFETY: a C string; stream 0 is always open.
    unsafe { ffi::rw_say(0, line.as_ptr()) };
}

/// Ends the job over an error of a message: MPI has no way to go on without a
/// peer. The error names it.
#[cold]
pub(crate) fn fatal(error: &MsgError) -> ! {
    abort_with(1, &error.to_string())
}

/// Ends the job.
#[cold]
pub(crate) fn abort(why: &str) -> ! {
    abort_with(1, why)
}

/// Ends the job with a code.
#[cold]
pub(crate) fn abort_with(code: c_int, why: &str) -> ! {
    let line = ffi::text(&format!("rankway: {why}"));
    // SAFETY: a C string. Ends the process, through the runtime, which ends
    // the others.
    unsafe { ffi::rw_abort(code, line.as_ptr()) };
    std::process::abort()
}
