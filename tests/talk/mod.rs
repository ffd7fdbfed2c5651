//! What ranks say to each other in the tests, bytes checked. One body serves
//! every netmod: a job opens the one it is instantiated for.

#![allow(dead_code, unreachable_pub, reason = "each test binary uses its part")]

pub mod basics;
pub mod calls;
pub mod deaths;
pub mod floods;
pub mod programs;
pub mod rates;
pub mod sleeps;

use crate::jobs::{Result, text};
use rankway::boot::Boot;
use rankway::device::{self, Context, Options};
use rankway::msg::Messenger;
use rankway::netmod::Netmod;
use rankway::netmod::ofi::Ofi;
use rankway::rma::Communicator;
use std::rc::Rc;
use std::sync::Arc;

/// A netmod that tests open by themselves.
pub trait Opens: Netmod {
    fn open(boot: Arc<dyn Boot>, threads: bool) -> Result<Rc<Context<Self>>>;
}

impl Opens for Ofi {
    fn open(boot: Arc<dyn Boot>, threads: bool) -> Result<Rc<Context<Ofi>>> {
        device::open_ofi(boot, &Options { threads, ..Options::default() }).map_err(text)
    }
}

#[cfg(feature = "ucx")]
impl Opens for rankway::netmod::ucx::Ucx {
    fn open(boot: Arc<dyn Boot>, threads: bool) -> Result<Rc<Context<Self>>> {
        device::open_ucx(boot, &Options { threads, ..Options::default() }).map_err(text)
    }
}

/// The world and a scene in it, with a barrier behind: nobody leaves before
/// all were heard.
pub fn world<N: Opens>(
    boot: Arc<dyn Boot>,
    scene: impl FnOnce(&Communicator<N>, &Messenger<'_, N>) -> Result,
) -> Result {
    let context = N::open(boot, false)?;
    let world = Communicator::world(&context);
    let messenger = Messenger::open(&world).map_err(text)?;
    scene(&world, &messenger)?;
    world.barrier().map_err(text)
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

/// Numbers that look random and are the same everywhere (splitmix64).
pub struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.roll() % n
    }
}
