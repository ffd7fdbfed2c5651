//! What two endpoints do to each other, generic over the netmod.

#![allow(dead_code, unreachable_pub, reason = "each test binary uses its part")]

use crate::harness::{Result, Scenario, text};
use rankway::boot::Boot;
use rankway::netmod::Netmod;
use std::sync::Arc;

mod atomics;
mod bulk;
mod death;
mod memory;
mod packets;
mod pair;
mod rates;
mod sleep;

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

type Body = fn(Arc<dyn Boot>) -> Result;

/// The scenario that measures, libfabric's only.
pub fn rates(name: &str, env: &[(&'static str, &str)]) -> Scenario {
    let scenario = Scenario::new(format!("{name}/rates"), 2, rates::all).slow();
    env.iter().fold(scenario, |s, (key, value)| s.env(key, *value))
}

impl Opens for rankway::netmod::ucx::Ucx {
    fn open_netmod(boot: &dyn Boot) -> Result<Arc<Self>> {
        let request = rankway::netmod::ucx::Request {
            peers: boot.size(),
            ..rankway::netmod::ucx::Request::default()
        };
        rankway::netmod::ucx::Ucx::open(&request).map_err(text)
    }
}

/// All scenarios, with these variables in the environment.
pub fn all<N: Opens>(name: &str, env: &[(&'static str, &str)]) -> Vec<Scenario> {
    let bodies: [(&str, Body); 10] = [
        ("packets of all sizes", packets::sizes::<N>),
        ("a flood of packets", packets::flood::<N>),
        ("bulk of all lengths", bulk::lengths::<N>),
        ("a crowd of bulk", bulk::crowd::<N>),
        ("cancel", bulk::cancel::<N>),
        ("iov", memory::iov::<N>),
        ("wrong key", memory::wrong_key::<N>),
        ("atomics", atomics::all::<N>),
        ("atomics of two", atomics::hammer::<N>),
        ("sleeping", sleep::ping::<N>),
    ];
    let scenario = |(what, body)| {
        let scenario = Scenario::new(format!("{name}/{what}"), 2, body);
        env.iter().fold(scenario, |s, (key, value)| s.env(key, *value))
    };
    let mut all: Vec<Scenario> = bodies.into_iter().map(scenario).collect();
    all.push(scenario(("death of a receiver", death::sender::<N>)).verdict(death::outlived));
    all
}
