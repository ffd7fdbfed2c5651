//! UCX, opened at run time: what `rankway info` reports of it.
//!
//! Never moves data; the netmod is yet to come. Below it stand `bindings`
//! (types made from the headers) and `ffi` (the library itself).

#[rustfmt::skip]
pub(crate) mod bindings;
pub(crate) mod ffi;

pub use ffi::LoadError;

/// The file UCX was opened from and its version, as it writes it. Starts
/// nothing of UCX.
///
/// # Errors
/// [`LoadError`] with what to install when there is none.
pub fn library() -> Result<(String, String), LoadError> {
    let library = ffi::Library::open()?;
    Ok((library.path().display().to_string(), library.version_string().to_owned()))
}
