//! Open MPI's structures and functions, as bindgen reads them from the
//! installed headers, and the shim for its macros and static inlines.
//!
//! Decides nothing. What is compiled in here is right for one minor version of
//! Open MPI: [`crate::version`] compares.

#[allow(
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    dead_code,
    improper_ctypes,
    unreachable_pub,
    unsafe_op_in_unsafe_fn,
    clippy::all,
    clippy::undocumented_unsafe_blocks
)]
mod bindings {
    include!(concat!(env!("OUT_DIR"), "/openmpi.rs"));
}

pub(crate) use bindings::*;

use std::ffi::{CString, c_char, c_int};

/// Open MPI's error codes are plain integers.
pub(crate) const SUCCESS: c_int = OMPI_SUCCESS as c_int;

/// A name in a field of fixed length, at compile time.
pub(crate) const fn name<const N: usize>(text: &str) -> [c_char; N] {
    let mut field = [0; N];
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        field[at] = bytes[at] as c_char;
        at += 1;
    }
    field
}

/// A C string of a text; without what stands behind a NUL in it.
pub(crate) fn text(line: &str) -> CString {
    CString::new(line.split('\0').next().unwrap_or("")).unwrap_or_default()
}

/// Returns true once MPI_Finalize has come so far that MPI_Finalized says it.
pub(crate) fn is_finalized() -> bool {
    let mut finalized = 0;
    // SAFETY: callable at any time.
    unsafe { PMPI_Finalized(&raw mut finalized) };
    finalized != 0
}

/// Makes Open MPI's progress, which comes back to our own: never under a lock.
pub(crate) fn progress() {
    // SAFETY: no arguments; may be called whenever MPI is initialised, as it is
    // as long as a component is in use.
    unsafe { opal_progress() };
}
