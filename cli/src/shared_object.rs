//! Shared objects of our own C sources, by the paths that users give.

use std::ffi::{CStr, CString, c_void};
use std::path::Path;

/// An open one; never closed.
pub(crate) struct SharedObject<'a> {
    handle: *mut c_void,
    path: &'a Path,
}

impl SharedObject<'_> {
    /// Opens one, its libraries' symbols for all that is opened later.
    ///
    /// # Errors
    /// Why it cannot be opened, and the remedy.
    pub(crate) fn open<'a>(path: &'a Path, remedy: &str) -> Result<SharedObject<'a>, String> {
        let name = CString::new(path.as_os_str().as_encoded_bytes()).map_err(|e| e.to_string())?;
        // SAFETY: a library that the user names; it is never closed.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
        match handle.is_null() {
            true => Err(format!("{} cannot be opened; {remedy}", path.display())),
            false => Ok(SharedObject { handle, path }),
        }
    }

    /// What it has under a name.
    ///
    /// # Errors
    /// Nothing.
    pub(crate) fn find(&self, name: &CStr) -> Result<*mut c_void, String> {
        // SAFETY: the library is open.
        let at = unsafe { libc::dlsym(self.handle, name.as_ptr()) };
        let none = || format!("{} has no {}", self.path.display(), name.to_string_lossy());
        if at.is_null() { Err(none()) } else { Ok(at) }
    }
}
