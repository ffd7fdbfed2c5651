//! What ranks say to each other in the tests, bytes checked. One body serves
//! every netmod: a job opens the one it is instantiated for.

#![allow(dead_code, unreachable_pub, reason = "each test binary uses its part")]

pub mod basics;
pub mod calls;
pub mod closings;
pub mod corrupt;
pub mod cuts;
pub mod deaths;
pub mod descriptors;
pub mod floods;
pub mod layouts;
pub mod programs;
pub mod scopes;
pub mod shapes;
pub mod sleeps;

pub use crate::harness::{Dice, Opens, pattern, same};
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
