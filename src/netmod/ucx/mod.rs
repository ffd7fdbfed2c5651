//! UCX, opened at run time: what `rankway info` reports of it.
//!
//! Never moves data; the netmod is yet to come. Below it stand `bindings`
//! (types made from the headers) and `ffi` (the library itself).

#[rustfmt::skip]
pub(crate) mod bindings;
pub(crate) mod ffi;

pub use ffi::LoadError;
