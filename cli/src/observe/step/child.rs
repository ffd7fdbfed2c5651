//! The traced side: asks to be traced, runs the closure, leaves.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::Marker;
use super::page::{Outcome, Page};

/// Stops the calling thread until the tracer continues it.
pub(super) fn stop_self() {
    // SAFETY: raise(3) has no preconditions; the tracer swallows this SIGSTOP.
    unsafe { libc::raise(libc::SIGSTOP) };
}

/// The whole life of the child after fork. Never returns into the caller's
/// frames: destructors and exit handlers there belong to the parent.
pub(super) fn live(page: &Page, run: impl FnOnce(&Marker<'_>) -> Result<(), String>) -> ! {
    // SAFETY: PTRACE_TRACEME takes no pointers.
    let refused = unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) } == -1;
    if refused {
        let errno = std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EPERM);
        page.finish(Outcome::Refused, errno, "");
        leave();
    }
    stop_self();

    match catch_unwind(AssertUnwindSafe(|| run(&Marker { page }))) {
        Ok(Ok(())) => page.finish(Outcome::Done, 0, ""),
        Ok(Err(message)) => page.finish(Outcome::Closure, 0, &message),
        Err(payload) => page.finish(Outcome::Panicked, 0, panic_text(&*payload)),
    }
    leave()
}

fn panic_text(payload: &(dyn Any + Send)) -> &str {
    if let Some(text) = payload.downcast_ref::<&str>() {
        text
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text
    } else {
        "(no message)"
    }
}

fn leave() -> ! {
    // SAFETY: _exit(2) ends the process at once; nothing of the parent's
    // (buffers, handlers) may run here.
    unsafe { libc::_exit(0) }
}
