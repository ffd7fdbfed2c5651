//! What ranks say to each other in the tests, bytes checked. One body serves
//! every netmod: a job opens the one it is instantiated for.

#![allow(dead_code, unreachable_pub, reason = "each test binary uses its part")]

pub mod basics;
pub mod calls;
pub mod corrupt;
pub mod deaths;
pub mod floods;
pub mod programs;
pub mod sleeps;

pub use crate::harness::{Opens, pattern, same};
use crate::harness::{Result, text};
use rankway::boot::Boot;
use rankway::msg::Messenger;
use rankway::rma::Communicator;
use std::sync::Arc;

/// The world and a scenario in it, with a barrier behind: nobody leaves before
/// all were heard.
pub fn world<N: Opens>(
    boot: Arc<dyn Boot>,
    scenario: impl FnOnce(&Communicator<N>, &Messenger<'_, N>) -> Result,
) -> Result {
    let context = N::open(boot)?;
    let world = Communicator::world(&context);
    let messenger = Messenger::open(&world).map_err(text)?;
    scenario(&world, &messenger)?;
    world.barrier().map_err(text)
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
