//! What the bodies of scenarios share: a netmod to open, bytes to send and to
//! compare.

use super::{Result, text};
use rankway::boot::Boot;
use rankway::device::{self, Context, Options};
use rankway::netmod::Netmod;
use rankway::netmod::ofi::Ofi;
#[cfg(feature = "ucx")]
use rankway::netmod::ucx::Ucx;
use std::rc::Rc;
use std::sync::Arc;

/// A netmod that scenes can be played over.
pub trait Opens: Netmod {
    fn open_with(boot: Arc<dyn Boot>, options: &Options) -> Result<Rc<Context<Self>>>;

    fn open(boot: Arc<dyn Boot>) -> Result<Rc<Context<Self>>> {
        Self::open_with(boot, &Options::default())
    }
}

impl Opens for Ofi {
    fn open_with(boot: Arc<dyn Boot>, options: &Options) -> Result<Rc<Context<Ofi>>> {
        device::open_ofi(boot, options).map_err(text)
    }
}

#[cfg(feature = "ucx")]
impl Opens for Ucx {
    fn open_with(boot: Arc<dyn Boot>, options: &Options) -> Result<Rc<Context<Ucx>>> {
        device::open_ucx(boot, options).map_err(text)
    }
}

/// Bytes that differ between seeds and between places.
pub fn pattern(seed: u32, len: usize) -> Vec<u8> {
    let byte = |i: usize| ((i ^ (i >> 8) ^ (i >> 16)) as u8).wrapping_mul(31);
    (0..len).map(|i| byte(i).wrapping_add(seed as u8).wrapping_mul(2) | 1).collect()
}

/// Compares and names the first byte that differs.
pub fn same(what: &str, got: &[u8], want: &[u8]) -> Result {
    if got == want {
        return Ok(());
    }
    let at = got.iter().zip(want).position(|(g, w)| g != w);
    let at = at.unwrap_or(got.len().min(want.len()));
    Err(format!(
        "{what}: {} bytes, {} wanted; byte {at} is {:02x?}, not {:02x?}",
        got.len(),
        want.len(),
        got.get(at),
        want.get(at)
    ))
}
