//! What is said to the user, and how the job ends. Whatever may fail stands above.

use crate::{ffi, params};
use rankway::msg::MsgError;
use std::ffi::c_int;
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

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

type Namer = dyn Fn(u32) -> Option<String> + Send + Sync;

/// Who a process of another job is, by its number, which is nothing to a user; `None` of the
/// ranks of this one.
static NAMER: OnceLock<Box<Namer>> = OnceLock::new();

/// Errors name processes of other jobs by this from now on.
pub(crate) fn name_others(namer: impl Fn(u32) -> Option<String> + Send + Sync + 'static) {
    let _ = NAMER.set(Box::new(namer));
}

/// What an error says, and who its peer is.
#[cold]
pub(crate) fn explain(error: &dyn Display, peer: Option<u32>) -> String {
    let who = peer.and_then(|peer| NAMER.get().and_then(|namer| namer(peer)));
    match who {
        Some(who) => format!("{error} (it is {who})"),
        None => error.to_string(),
    }
}

/// Ends the job over an error of a message: MPI has no way to go on without a
/// peer. The error names it.
#[cold]
pub(crate) fn fatal(error: &MsgError) -> ! {
    abort(&explain(error, error.peer()))
}

/// The same, unless MPI_Finalize has come far enough: Open MPI then takes leave of processes
/// of other jobs, of which some have left before, and looks at no answer.
#[cold]
pub(crate) fn fatal_before_end(error: &MsgError) {
    if !ffi::is_finalized() {
        fatal(error);
    }
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
