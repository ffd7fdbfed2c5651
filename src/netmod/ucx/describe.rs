//! What there is, for people who ask: the library and its transports.

use super::domain::{Request, Ucx};
use super::ffi::{self, LoadError};
use crate::netmod::NetError;

/// The file UCX was opened from and its version, as it writes it. Starts
/// nothing of UCX.
///
/// # Errors
/// [`LoadError`] with what to install when there is none.
pub fn library() -> Result<(String, String), LoadError> {
    let library = ffi::Library::open()?;
    Ok((library.path().display().to_string(), library.version_string().to_owned()))
}

/// The transports and devices UCX would take now, as `posix/memory`. Starts UCX
/// for as long as that takes, some milliseconds.
///
/// # Errors
/// As [`Ucx::open`].
pub fn transports() -> Result<Vec<String>, NetError> {
    Ok(Ucx::open(&Request::default())?.transports())
}
