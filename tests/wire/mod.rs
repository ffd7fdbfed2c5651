//! What two ports do to each other, generic over the netmod.

use crate::jobs::{Result, Scenario, text};
use rankway::boot::Boot;
use rankway::netmod::Netmod;
use std::sync::Arc;

mod atomics;
mod bulk;
mod memory;
mod packets;
mod pair;

pub use pair::Pair;

/// Netmods that a test can open: by the job's environment.
pub trait Opens: Netmod {
    fn open_netmod(boot: &dyn Boot) -> Result<Arc<Self>>;
}

impl Opens for rankway::netmod::ofi::Ofi {
    fn open_netmod(boot: &dyn Boot) -> Result<Arc<Self>> {
        let provider = std::env::var("RANKWAY_PROVIDER").ok();
        let request = rankway::netmod::ofi::Request {
            provider,
            peers: boot.size(),
            ..rankway::netmod::ofi::Request::default()
        };
        rankway::netmod::ofi::Ofi::open(&request).map_err(text)
    }
}

/// All scenes, with these variables in the environment.
pub fn all<N: Opens>(name: &str, env: &[(&'static str, &str)]) -> Vec<Scenario> {
    let mut scenes: Vec<(&str, fn(Arc<dyn Boot>) -> Result)> = Vec::new();
    scenes.push(("packets of all sizes", packets::sizes::<N>));
    scenes.push(("a flood of packets", packets::flood::<N>));
    scenes.push(("bulk of all lengths", bulk::lengths::<N>));
    scenes.push(("a crowd of bulk", bulk::crowd::<N>));
    scenes.push(("cancel", bulk::cancel::<N>));
    scenes.push(("blocks", memory::blocks::<N>));
    scenes.push(("atomics", atomics::all::<N>));
    scenes.push(("atomics of two", atomics::hammer::<N>));
    let scenario = |(what, body)| {
        let scenario = Scenario::new(format!("{name}/{what}"), 2, body);
        env.iter().fold(scenario, |s, (key, value)| s.env(key, *value))
    };
    scenes.into_iter().map(scenario).collect()
}
