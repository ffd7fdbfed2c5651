//! libfabric.
#[rustfmt::skip]
pub(crate) mod bindings;
pub(crate) mod ffi;

pub use ffi::LoadError;
