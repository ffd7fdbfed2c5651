//! What ranks do to each other through the typed interface.

#![allow(unreachable_pub, reason = "as in the other tests")]

pub mod scopes;
pub mod windows;

use crate::ensure;
use crate::harness::{Opens, Result, Scenario, text};
use rankway::boot::Boot;
use rankway::netmod::Netmod;
use rankway::rma::{Communicator, Pod, TypedWindow};
use std::process::Output;
use std::sync::Arc;

/// The rank that is killed where one is.
pub const VICTIM: u32 = 1;
/// Where windows are: in memory that they allocate, mapped by peers on the node,
/// or in memory of the program's own, reached by a provider.
pub const ALLOCATED: bool = true;
pub const CREATED: bool = false;

pub fn make<const KIND: bool, N: Netmod, T: Pod>(
    world: &Communicator<N>,
    len: usize,
    zero: T,
) -> Result<TypedWindow<N, T>> {
    let window = world.window::<T>();
    match KIND {
        ALLOCATED => window.len(len).allocate(),
        CREATED => window.create(vec![zero; len]),
    }
    .map_err(text)
}

/// Every rank but the victim ends well.
pub fn survivors(output: &Output) -> Result {
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let content = said.matches("content.").count();
    ensure!(content == 2, "{content} of 2 survivors are content");
    Ok(())
}

pub fn all<N: Opens>(name: &str, env: &[(&'static str, &str)]) -> Vec<Scenario> {
    let mut all = Vec::new();
    let mut add = |what: &str, ranks, body: fn(Arc<dyn Boot>) -> Result| {
        let scenario = Scenario::new(format!("{what}/{name}"), ranks, body);
        all.push(env.iter().fold(scenario, |s, (key, value)| s.env(key, *value)));
    };
    add("elements/allocated", 3, windows::elements::<ALLOCATED, N>);
    add("elements/created", 3, windows::elements::<CREATED, N>);
    add("atomics/allocated", 3, windows::atomics::<ALLOCATED, N>);
    add("atomics/created", 2, windows::atomics::<CREATED, N>);
    add("shared", 3, windows::shared::<N>);
    add("memory comes back", 2, windows::memory_comes_back::<N>);
    add("scope/allocated", 3, scopes::exchange::<ALLOCATED, N>);
    add("scope/created", 3, scopes::exchange::<CREATED, N>);
    add("scope with an error", 2, scopes::error::<N>);
    add("scope with a panic", 2, scopes::panic::<N>);
    let mut add = |what: &str, body: fn(Arc<dyn Boot>) -> Result| {
        let scenario = Scenario::new(format!("{what}/{name}"), 3, body).verdict(survivors);
        all.push(env.iter().fold(scenario, |s, (key, value)| s.env(key, *value)));
    };
    add("scope with the dead", scopes::dead::<N>);
    all
}
