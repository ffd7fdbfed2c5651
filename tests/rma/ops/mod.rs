//! One-sided operations between real processes, for every netmod: which one,
//! and over which providers, is the job's affair.

#![allow(dead_code, unreachable_pub, reason = "each test binary uses its part")]
#![allow(clippy::unwrap_used, reason = "lengths that stand beside them")]

pub use crate::harness::{Dice, Opens};
use crate::harness::{Result, Scenario, text};
use rankway::boot::Boot;
use rankway::netmod::{Netmod, Op, Type};
use rankway::rma::{Communicator, Window};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

pub mod atomicity;
pub mod dynamic;
pub mod elements;
pub mod epochs;
pub mod iov;
pub mod lost;
#[path = "../../../src/rma/compute/oracle.rs"]
mod oracle;
pub mod shared;
pub mod threads;

/// Memory of the test's own, in place of what a window allocates.
pub const CREATED: bool = true;
pub const ALLOCATED: bool = false;

/// A window and, when it was created over the test's memory, that memory.
pub struct Held<N: Netmod> {
    window: Window<N>,
    _memory: Vec<u128>,
}

impl<N: Netmod> Deref for Held<N> {
    type Target = Window<N>;

    fn deref(&self) -> &Window<N> {
        &self.window
    }
}

impl<N: Netmod> DerefMut for Held<N> {
    fn deref_mut(&mut self) -> &mut Window<N> {
        &mut self.window
    }
}

pub fn make<N: Netmod, const KIND: bool>(
    comm: &Communicator<N>,
    bytes: usize,
    unit: usize,
) -> Result<Held<N>> {
    if KIND == ALLOCATED {
        let window = Window::allocate(comm, bytes, unit).map_err(text)?;
        return Ok(Held { window, _memory: Vec::new() });
    }
    let mut memory = vec![0_u128; bytes.div_ceil(16)];
    let start = memory.as_mut_ptr().cast();
    // SAFETY: the memory is dropped after the window, and touched through it.
    let window = unsafe { Window::create(comm, start, bytes, unit) }.map_err(text)?;
    Ok(Held { window, _memory: memory })
}

/// All of this process's own memory of a window.
pub fn own<N: Netmod>(window: &Window<N>) -> Result<Vec<u8>> {
    let mut bytes = vec![0; window.local().map_err(text)?.1];
    window.read_local(0, &mut bytes).map_err(text)?;
    Ok(bytes)
}

/// Compares and names the first byte that differs.
pub fn same(what: &str, got: &[u8], want: &[u8]) -> Result {
    match got.iter().zip(want).position(|(g, w)| g != w) {
        None if got.len() == want.len() => Ok(()),
        at => {
            let at = at.unwrap_or(got.len().min(want.len()));
            let range = |v: &[u8]| v[at.min(v.len())..(at + 16).min(v.len())].to_vec();
            Err(format!("{what}: at byte {at} {:02x?}, not {:02x?}", range(got), range(want)))
        }
    }
}

/// Fails the scenario unless an operation was refused for this reason.
#[macro_export]
macro_rules! refused {
    ($call:expr, $reason:pat $(if $guard:expr)?) => {
        match $call {
            Ok(_) => return Err(format!("{} went well ({}:{})", stringify!($call), file!(), line!())),
            Err(e) => match e.kind() {
                $reason $(if $guard)? => {}
                other => {
                    let (call, reason) = (stringify!($call), stringify!($reason));
                    return Err(format!("{call}: {other:?}, not {reason} ({}:{})", file!(), line!()));
                }
            },
        }
    };
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
    add("allocated/unordered", 3, atomicity::unordered::<N, ALLOCATED>);
    add("created/unordered", 3, atomicity::unordered::<N, CREATED>);
    add("created/order", 2, elements::order::<N>);
    add("allocated/locks", 4, epochs::exclusion::<N, ALLOCATED>);
    add("created/locks", 4, epochs::exclusion::<N, CREATED>);
    add("allocated/group epochs", 4, epochs::groups::<N, ALLOCATED>);
    add("created/group epochs", 3, epochs::groups::<N, CREATED>);
    add("allocated/misuse", 3, epochs::misuse::<N, ALLOCATED>);
    add("created/misuse", 3, epochs::misuse::<N, CREATED>);
    add("dynamic", 3, dynamic::attached::<N>);
    add("allocated/iov", 3, iov::lists::<N, ALLOCATED>);
    add("created/iov", 3, iov::lists::<N, CREATED>);
    add("allocated/requests", 3, iov::requests::<N, ALLOCATED>);
    add("created/requests", 3, iov::requests::<N, CREATED>);
    add("contexts", 3, threads::contexts::<N>);
    add("signals of contexts", 3, threads::signals::<N>);
    add("windows of threads", 3, threads::windows_at_once::<N>);
    if nodes == 1 {
        add("shared", 3, dynamic::shared::<N>);
        add("shared in every epoch", 4, shared::every_epoch::<N>);
    }
    add("created/dead holder", 3, lost::holder::<N, CREATED>);
    add("allocated/dead holder", 3, lost::holder::<N, ALLOCATED>);
    add("created/dead target", 3, lost::target::<N, CREATED>);
    for scenario in all.iter_mut().filter(|s| s.name.contains("dead")) {
        scenario.verdict = lost::verdict;
    }
    all
}
