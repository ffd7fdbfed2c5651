//! What keeps a program that is not ours from harm.

use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Prints lines in one piece; a standard error that nobody reads is not a fault.
pub fn say(lines: &str) {
    let _ = std::io::stderr().write_all(lines.as_bytes());
}

/// Does work from which no panic comes; `None` if there was one.
pub fn shielded<T>(work: impl FnOnce() -> Option<T>) -> Option<T> {
    catch_unwind(AssertUnwindSafe(work)).ok().flatten()
}
