//! What is left of `dlopen` once a library is open: errors, paths, strings; and what a
//! library is told through the environment before.
//!
//! A leaf for the modules that open a library at run time.

use std::ffi::{CStr, OsStr, c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// The dynamic linker's last message in this thread, with the remedy where a
/// limit kept it from mapping a file.
pub(crate) fn error() -> String {
    // SAFETY: dlerror gives null or a C string that stays until the next dl call
    // of this thread; it is copied at once.
    crate::ulimit::explained(unsafe { text(libc::dlerror()) })
}

/// The file that holds `address`, as the dynamic linker resolved it.
pub(crate) fn path_of(address: *const c_void) -> Option<PathBuf> {
    let mut found = core::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: dladdr takes any address, and fills `found` when it knows the
    // object; all zeroes is a valid Dl_info.
    let found =
        unsafe { (libc::dladdr(address, found.as_mut_ptr()) != 0).then(|| found.assume_init()) }?;
    if found.dli_fname.is_null() {
        return None;
    }
    // SAFETY: dli_fname is the loader's C string and lives as long as the object.
    let name = unsafe { CStr::from_ptr(found.dli_fname) };
    Some(PathBuf::from(OsStr::from_bytes(name.to_bytes())))
}

/// Sets the first of these variables of a library's, unless the user has said something by
/// any of them.
///
/// # Safety
/// No other thread uses the environment: a device is opened before the threads that use it
/// are started, which the documentation of those that open one asks for.
#[allow(dead_code, reason = "PMIx alone is told nothing")]
pub(crate) unsafe fn set_unless_chosen(names: &[&str], value: &str) {
    if names.iter().all(|name| std::env::var_os(name).is_none()) {
        // SAFETY: the caller's.
        unsafe { std::env::set_var(names[0], value) };
    }
}

/// Copies a C string; empty for null.
///
/// # Safety
/// \[TEXT\]: `string` is null or a C string.
pub(crate) unsafe fn text(string: *const c_char) -> String {
    if string.is_null() {
        return String::new();
    }
    // SAFETY: [TEXT], and not null.
    unsafe { CStr::from_ptr(string) }.to_string_lossy().into_owned()
}
