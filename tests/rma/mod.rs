//! What ranks do to each other's windows in the tests, bytes checked. One body
//! serves every provider: which one is the job's environment's affair.

#![allow(dead_code, unreachable_pub, unused_imports, reason = "each test binary uses its part")]

mod bytes;
pub mod late;
pub mod maps;
pub mod providers;
mod refusals;
mod threads;

pub use crate::harness::{
    ALLOCATED, CANARY, CREATED, DIRECT, Opens, PROVIDED, make, own, pattern, same,
};
use crate::harness::{Result, Scenario, Watched, in_threads, text};
use crate::{ensure, refused};
use rankway::av::Transport;
use rankway::boot::Boot;
use rankway::device::{self, Context, Options};
use rankway::netmod::Netmod;
use rankway::netmod::ofi::Ofi;
use rankway::netmod::ucx::Ucx;
use rankway::rankmap::group::RankRange;
use rankway::rma::{Assert, Communicator, ErrorKind, Lock, Window};
use std::rc::Rc;
use std::sync::Arc;

pub use bytes::{given_back, lengths, many, unaligned, uneven};
pub use refusals::{bounds, epochs, no_memory, no_messages, strangers};
pub use threads::{dropped, one_thread, threads, views, worlds};

/// Over libfabric, for scenarios about its providers.
pub fn open(boot: Arc<dyn Boot>) -> Result<Rc<Context<Ofi>>> {
    <Ofi as Opens>::open(boot)
}

/// Eight bytes that say who wrote them, to whom and which time.
pub fn word(from: u32, to: u32, round: u32) -> [u8; 8] {
    (u64::from(from) << 40 | u64::from(to) << 16 | u64::from(round) | 1 << 63).to_le_bytes()
}

/// Every rank puts a word to every rank, in every round; all are checked.
pub fn all_to_all<N: Netmod>(window: &Window<N>) -> Result {
    let comm = window.communicator();
    let (me, n) = (comm.rank(), comm.size());
    window.fence().map_err(text)?;
    for round in 0..3 {
        for to in 0..n {
            let at = (round * n + me) as usize;
            window.put(&word(me, to, round), to, at).map_err(text)?;
        }
        window.fence().map_err(text)?;
        for from in 0..n {
            let at = (round * n + from) as usize * 8;
            let mut got = [0; 8];
            window.read_local(at, &mut got).map_err(text)?;
            ensure!(got == word(from, me, round), "round {round}: from {from} came {got:02x?}");
        }
    }
    // Gets see what was put.
    for from in 0..n {
        let mut got = [0; 8];
        window.get(&mut got, from, me as usize).map_err(text)?;
        ensure!(got == word(me, from, 0), "got {got:02x?} from {from}");
    }
    // Nobody leaves whose memory others still get.
    window.fence().map_err(text)
}

/// Communicators of every shape, so that puts take every path.
pub fn communicators<N: Netmod>(world: &Communicator<N>) -> Result<Vec<Communicator<N>>> {
    let (me, n) = (world.rank(), world.size());
    let mut all = vec![world.dup(), world.reversed().map_err(text)?];
    let half = world.split(Some(u32::from(me >= n / 2)), 0).map_err(text)?;
    let odd = world.split(Some(me % 2), 0).map_err(text)?;
    let back = world.split(Some(0), -(me as i32)).map_err(text)?;
    let pairs = world.split(Some(me / 2 % 2), 0).map_err(text)?;
    // 1 and 0 change places: no line, so a table.
    let swapped = world.create((0..n).map(|r| if n > 2 && r < 2 { 1 - r } else { r }));
    // Even and odd ranks at once, each group from its last to its first.
    let last = (n - 1 - (n - 1 - me) % 2) as i32;
    let turned = world.group().range_incl(&[RankRange::new(last, 0, -2)]).map_err(text)?;
    let turned = world.create_group(&turned).map_err(text)?.ok_or("not in its own group")?;
    ensure!(turned.rank() == (last as u32 - me) / 2, "rank {} of {turned:?}", turned.rank());
    ensure!(turned.group().translate(turned.rank(), &world.group()) == Ok(Some(me)), "{turned:?}");
    let mine = world.group().incl(&[0]).map_err(text)?;
    ensure!(world.create_group(&mine).map_err(text)?.is_some() == (me == 0), "group of rank 0");
    if n > 1 {
        refused!(turned.create_group(&world.group()), ErrorKind::Arguments(_));
    }
    // (All handles of the world are one.)
    let again = Communicator::world(world.context());
    let of = |world: &Communicator<_>| world.create_group(&world.group()).map_err(text);
    let (one, two) = (of(world)?.ok_or("in it")?, of(&again)?.ok_or("in it")?);
    ensure!(one.id() != two.id(), "one id twice");
    // The first two alone, some of them more often, and all again.
    let pair = world.group().incl(&[0, 1 % n][..2.min(n as usize)]).map_err(text)?;
    let mut apart = Vec::new();
    for group in [&pair, &mine, &pair] {
        if world.map().get(me).is_some_and(|process| group.rank_of(process).is_some()) {
            apart.extend(world.create_group(group).map_err(text)?);
        }
    }
    for comm in apart.iter().chain([&world.dup()]) {
        let ids = comm.allgather(&comm.id().to_ne_bytes()).map_err(text)?;
        ensure!(ids.iter().all(|id| id[..] == comm.id().to_ne_bytes()), "ids of {comm:?}: {ids:?}");
    }
    ensure!(
        apart.first().map(|c| c.id()) != apart.last().map(|c| c.id()) || me > 1,
        "one id twice"
    );
    all.extend([half, odd, back, pairs, swapped.map_err(text)?].into_iter().flatten());
    all.push(turned);
    Ok(all)
}

pub fn words<const KIND: u8, N: Opens>(boot: Arc<dyn Boot>) -> Result {
    let context = <N as Opens>::open(boot)?;
    for comm in communicators(&Communicator::world(&context))? {
        let mut window = make::<KIND, _>(&comm, comm.size() as usize * 3 * 8, 8).map_err(text)?;
        all_to_all(&window)?;
        window.free().map_err(text)?;
    }
    Ok(())
}

/// A window whose members are asked for their keys holds none before they are used.
pub fn no_keys(boot: Arc<dyn Boot>) -> Result {
    let context = <Ucx as Opens>::open(boot)?;
    let mut window = Window::allocate(&Communicator::world(&context), 64, 8).map_err(text)?;
    let state = window.state().map_err(text)?;
    let held = state.metadata_bytes();
    ensure!(held == size_of_val(&*state), "{held} bytes of {}", size_of_val(&*state));
    drop(state);
    window.lock_all().map_err(text)?;
    for to in 0..4 {
        window.put(&word(1, to, 0), to, window.communicator().rank() as usize).map_err(text)?;
    }
    window.unlock_all().map_err(text)?;
    window.communicator().barrier().map_err(text)?;
    window.free().map_err(text)
}

/// Everything above over one choice of providers. `mapped` says whether all
/// windows a job allocates are mapped.
pub fn all<N: Opens>(name: &str, env: &[(&'static str, &str)]) -> Vec<Scenario> {
    let mut all = Vec::new();
    let mut add = |what: &str, ranks: u32, body: fn(Arc<dyn Boot>) -> Result| {
        let scenario = Scenario::new(format!("{what}/{name}/{ranks}"), ranks, body);
        all.push(env.iter().fold(scenario, |s, (key, value)| s.env(key, *value)));
    };
    for ranks in [1, 2, 4] {
        add("allocated/words", ranks, words::<ALLOCATED, N>);
        add("created/words", ranks, words::<CREATED, N>);
    }
    add("allocated/bounds", 4, bounds::<ALLOCATED, N>);
    add("created/bounds", 4, bounds::<CREATED, N>);
    add("allocated/strangers in maps", 2, strangers::<ALLOCATED, N>);
    add("created/strangers in maps", 2, strangers::<CREATED, N>);
    add("allocated/epochs", 3, epochs::<ALLOCATED, N>);
    add("created/epochs", 3, epochs::<CREATED, N>);
    add("allocated/no memory", 3, no_memory::<N>);
    add("allocated/uneven", 4, uneven::<ALLOCATED, N>);
    add("created/uneven", 4, uneven::<CREATED, N>);
    add("allocated/unaligned", 4, unaligned::<ALLOCATED, N>);
    add("created/unaligned", 4, unaligned::<CREATED, N>);
    add("allocated/lengths", 2, lengths::<ALLOCATED, N>);
    add("created/lengths", 2, lengths::<CREATED, N>);
    add("allocated/many", 2, many::<ALLOCATED, N>);
    add("created/many", 2, many::<CREATED, N>);
    add("created/given back", 2, given_back::<N>);
    add("allocated/threads", 2, threads::<ALLOCATED, N>);
    add("created/threads", 2, threads::<CREATED, N>);
    add("allocated/worlds", 3, worlds::<N>);
    add("allocated/dropped in epochs", 3, dropped::<ALLOCATED, N>);
    add("created/dropped in epochs", 3, dropped::<CREATED, N>);
    all
}

/// What is different over memory of the network library's.
pub fn provided<N: Opens>(name: &str, env: &[(&'static str, &str)]) -> Vec<Scenario> {
    let mut all = Vec::new();
    let mut add = |what: &str, ranks: u32, body: fn(Arc<dyn Boot>) -> Result| {
        let scenario = Scenario::new(format!("{what}/{name}/{ranks}"), ranks, body);
        all.push(env.iter().fold(scenario, |s, (key, value)| s.env(key, *value)));
    };
    for ranks in [1, 4] {
        add("provided/words", ranks, words::<PROVIDED, N>);
        add("direct/words", ranks, words::<DIRECT, N>);
    }
    add("provided/bounds", 4, bounds::<PROVIDED, N>);
    add("direct/bounds", 4, bounds::<DIRECT, N>);
    add("provided/epochs", 3, epochs::<PROVIDED, N>);
    add("provided/uneven", 4, uneven::<PROVIDED, N>);
    add("direct/uneven", 4, uneven::<DIRECT, N>);
    add("provided/unaligned", 4, unaligned::<PROVIDED, N>);
    add("direct/unaligned", 4, unaligned::<DIRECT, N>);
    add("provided/lengths", 2, lengths::<PROVIDED, N>);
    add("provided/many", 2, many::<PROVIDED, N>);
    add("provided/threads", 2, threads::<PROVIDED, N>);
    add("direct/threads", 2, threads::<DIRECT, N>);
    all
}
