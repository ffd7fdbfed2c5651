//! Network modules.
#[cfg(feature = "ofi")]
pub mod ofi;
#[cfg(feature = "ucx")]
pub mod ucx;
