//! One-sided operations between real processes, for every netmod: which one,
//! and over which providers, is the job's affair.

#![allow(dead_code, unreachable_pub, reason = "each test binary uses its part")]
#![allow(clippy::unwrap_used, reason = "lengths that stand beside them")]

pub use crate::harness::{ALLOCATED, CREATED, Dice, Held, Opens, own, same};
use crate::harness::{Result, Scenario, in_threads, text};
use rankway::boot::Boot;
use rankway::netmod::{Netmod, Op, Type};
use rankway::rma::{Communicator, Window};
use std::sync::Arc;

pub mod absent;
pub mod atomicity;
pub mod computing;
pub mod dynamic;
pub mod elements;
pub mod epochs;
pub mod handlers;
pub mod layouts;
pub mod lost;
#[path = "../../../src/netmod/compute/oracle.rs"]
mod oracle;
pub mod shared;
pub mod threads;

/// A window of a kind that the scenario is instantiated for.
pub fn make<N: Netmod, const KIND: u8>(
    comm: &Communicator<N>,
    bytes: usize,
    unit: usize,
) -> Result<Held<N>> {
    crate::harness::make::<KIND, N>(comm, bytes, unit).map_err(text)
}

/// Everything here over one choice of providers.
pub fn all<N: Opens>(name: &str, nodes: u32, env: &[(&'static str, &str)]) -> Vec<Scenario> {
    let mut all = Vec::new();
    let mut add = |what: &str, ranks: u32, body: fn(Arc<dyn Boot>) -> Result| {
        let scenario = Scenario::new(format!("{what}/{name}/{ranks}"), ranks, body).nodes(nodes);
        all.push(env.iter().fold(scenario, |s, (key, value)| s.env(key, *value)));
    };
    add("allocated/elements", 2, elements::every::<N, ALLOCATED>);
    add("created/elements", 2, elements::every::<N, CREATED>);
    add("created/long elements", 2, elements::long::<N, CREATED>);
    add("allocated/long elements", 2, elements::long::<N, ALLOCATED>);
    add("allocated/element errors", 2, elements::errors::<N, ALLOCATED>);
    add("created/skewed elements", 3, elements::skewed::<N>);
    add("allocated/atomicity", 4, atomicity::hammer::<N, ALLOCATED>);
    add("created/atomicity", 4, atomicity::hammer::<N, CREATED>);
    add("allocated/long and short", 3, atomicity::long_and_short::<N, ALLOCATED>);
    add("created/long and short", 3, atomicity::long_and_short::<N, CREATED>);
    add("allocated/unordered", 3, atomicity::unordered::<N, ALLOCATED>);
    add("created/unordered", 3, atomicity::unordered::<N, CREATED>);
    add("created/order", 2, elements::order::<N>);
    add("allocated/locks", 4, epochs::exclusion::<N, ALLOCATED>);
    add("created/locks", 4, epochs::exclusion::<N, CREATED>);
    add("allocated/locked amidst", 3, epochs::locked_amidst::<N, ALLOCATED>);
    add("created/locked amidst", 3, epochs::locked_amidst::<N, CREATED>);
    add("allocated/group epochs", 4, epochs::groups::<N, ALLOCATED>);
    add("created/group epochs", 3, epochs::groups::<N, CREATED>);
    add("allocated/flushed", 2, epochs::flushed::<N, ALLOCATED>);
    add("created/flushed", 2, epochs::flushed::<N, CREATED>);
    add("allocated/misuse", 3, epochs::misuse::<N, ALLOCATED>);
    add("created/misuse", 3, epochs::misuse::<N, CREATED>);
    add("dynamic", 3, dynamic::attached::<N>);
    add("windows of two worlds", 2, dynamic::two_worlds::<N>);
    add("allocated/layouts", 3, layouts::bytes::<N, ALLOCATED>);
    add("created/layouts", 3, layouts::bytes::<N, CREATED>);
    add("allocated/layouts, elements", 3, layouts::elements::<N, ALLOCATED>);
    add("created/layouts, elements", 3, layouts::elements::<N, CREATED>);
    add("allocated/requests", 3, layouts::requests::<N, ALLOCATED>);
    add("created/requests", 3, layouts::requests::<N, CREATED>);
    add("contexts", 3, threads::contexts::<N>);
    add("signals of contexts", 3, threads::signals::<N, false>);
    add("signals alone of contexts", 2, threads::signals::<N, true>);
    add("signals of contexts that are closed first", 3, threads::signals_behind::<N>);
    add("windows of threads", 3, threads::windows_at_once::<N>);
    add("first contact of threads", 6, threads::first_contact::<N>);
    if nodes == 1 {
        add("allocated/locks and groups of one that computes", 3, absent::epochs::<N, ALLOCATED>);
        add("created/locks and groups of one that computes", 3, absent::epochs::<N, CREATED>);
        add("dynamic/locks and groups of one that computes", 3, absent::dynamic_epochs::<N>);
        add("shared", 3, dynamic::shared::<N>);
        add("shared in every epoch", 4, shared::every_epoch::<N>);
        add("shared, by other maps", 3, shared::by_maps::<N>);
    }
    if nodes > 1 {
        add("a get and a handler's panic", 3, handlers::get::<N, 64>);
        add("created/a lock and a handler's panic", 3, handlers::lock_given_up::<N, CREATED>);
        add("a long get and a handler's panic", 3, handlers::get::<N, { 4 << 20 }>);
        add("a lock within a handler", 2, handlers::lock::<N, CREATED>);
    }
    add("created/dead holder", 3, lost::holder::<N, CREATED>);
    add("allocated/dead holder", 3, lost::holder::<N, ALLOCATED>);
    add("created/dead target", 3, lost::target::<N, CREATED>);
    add("created/dead in a group epoch", 3, lost::group::<N, CREATED>);
    add("allocated/dead in a group epoch", 3, lost::group::<N, ALLOCATED>);
    add("created/dead in epochs of both kinds", 3, lost::both::<N, CREATED>);
    add("allocated/dead in epochs of both kinds", 3, lost::both::<N, ALLOCATED>);
    for method in ["pack", "iov", "blocks"] {
        let what = format!("created/layouts by {method}/{name}/3");
        let scenario = Scenario::new(what, 3, layouts::bytes::<N, CREATED>);
        let scenario = scenario.nodes(nodes).env("RANKWAY_TRANSFER", method);
        all.push(env.iter().fold(scenario, |s, (key, value)| s.env(key, *value)));
    }
    for scenario in all.iter_mut().filter(|s| s.name.contains("dead")) {
        scenario.verdict = lost::verdict;
    }
    all
}
