//! What two endpoints do to each other, generic over the netmod.
//!
//! The `SAFETY` comments cite the contracts of [`Netmod`].

#![allow(dead_code, unreachable_pub, reason = "each test binary uses its part")]

use crate::harness::{Result, Scenario, text};
use rankway::boot::Boot;
use rankway::netmod::{Netmod, OpenParams};
use std::sync::Arc;

pub mod atomics;
mod bulk;
mod death;
pub mod memory;
mod packets;
mod pair;
mod sleep;

pub use pair::Pair;

/// Netmods that a test can open: any, by the job's environment.
pub trait Opens: Netmod {
    /// The network's provider, or the only one.
    fn open_netmod(boot: &dyn Boot) -> Result<Arc<Self>> {
        let peers = boot.size();
        let params = OpenParams { peers, on_node: peers, ..OpenParams::default() };
        let providers = Self::open_providers(&params).map_err(text)?;
        Ok(providers.network.or(providers.node).ok_or("no provider")?)
    }
}

impl<N: Netmod> Opens for N {}

type Body = fn(Arc<dyn Boot>) -> Result;

/// All scenarios, with these variables in the environment.
pub fn all<N: Opens>(name: &str, env: &[(&'static str, &str)]) -> Vec<Scenario> {
    let bodies: [(&str, Body); 11] = [
        ("a million peers", memory::million::<N>),
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
