//! A rank is killed at a random moment of an operation, and what becomes of the
//! other two: a table of operations by networks.

#![allow(unreachable_pub, reason = "a module of one test program")]

pub mod apart;
mod elements;
mod meetings;
mod messages;
mod onesided;
mod pair;
mod scopes;
mod threads;
pub mod trial;

use crate::harness::{Opens, Result};
use elements as e;
use onesided as o;
use rankway::boot::Boot;
use rankway::device::Options;
use rankway::rma::Communicator;
use std::sync::Arc;
use std::time::{Duration, Instant};
use trial::{Run, Trial};

/// The operations amidst which a rank dies.
pub const ROWS: [&str; 45] = [
    "put",
    "long put",
    "stream",
    "get",
    "layouts",
    "accumulate",
    "fetch_and_op",
    "compare_and_swap",
    "get_accumulate",
    "atomic layouts",
    "custom",
    "requests",
    "raccumulate",
    "request layouts",
    "scopes",
    "flush_all",
    "lock",
    "lock_all",
    "fence",
    "pscw",
    "create",
    "allocate",
    "shared",
    "dynamic",
    "pairs",
    "threads",
    "leavers",
    "split",
    "dup",
    "create_group",
    "subsets",
    "barrier",
    "allgather",
    "broadcast",
    "eager",
    "rendezvous",
    "probe",
    "ssend",
    "irecv",
    "message layouts",
    "message scopes",
    "active",
    "mailbox",
    "boot",
    "finalize",
];

/// What one rank does in a trial of a row.
pub fn play<N: Opens>(row: &str, seed: u64, boot: Arc<dyn Boot>) -> Result {
    let t = &Trial::new(boot.rank(), seed);
    match row {
        "boot" => return meetings::boot::<N>(t, boot),
        "finalize" => return meetings::finalize::<N>(t, boot),
        _ => {}
    }
    let options = Options::default().threads(["threads", "leavers"].contains(&row));
    let context = N::open_with(boot, &options).map_err(|e| format!("name: before: {e}"))?;
    elements::register(&context);
    let world = Communicator::world(&context);
    let run = &Run { t, context, world };
    let ended = match row {
        "put" => o::passive(run, o::put::<N>),
        "long put" => o::passive(run, o::long_put::<N>),
        "stream" => o::passive(run, o::stream::<N>),
        "get" => o::passive(run, o::get::<N>),
        "layouts" => o::passive(run, o::layouts::<N>),
        "accumulate" => o::passive(run, o::accumulate::<N>),
        "fetch_and_op" => o::passive(run, o::fetch::<N>),
        "compare_and_swap" => o::passive(run, o::swap::<N>),
        "get_accumulate" => o::passive(run, e::get_accumulate::<N>),
        "atomic layouts" => o::passive(run, e::layouts::<N>),
        "custom" => o::passive(run, e::custom::<N>),
        "requests" => o::passive(run, e::requests::<N>),
        "raccumulate" => o::passive(run, e::accumulate_requests::<N>),
        "request layouts" => o::passive(run, e::layout_requests::<N>),
        "scopes" => scopes::on_windows(run),
        "flush_all" => o::passive(run, o::flush::<N>),
        "lock" => o::lock(run),
        "lock_all" => o::lock_all(run),
        "fence" => o::fence(run),
        "pscw" => o::pscw(run),
        "create" => o::made::<N, { o::CREATED }>(run),
        "allocate" => o::made::<N, { o::ALLOCATED }>(run),
        "shared" => o::made::<N, { o::SHARED }>(run),
        "dynamic" => o::made::<N, { o::DYNAMIC }>(run),
        "pairs" => o::pairs(run),
        "threads" => threads::contexts::<N, false>(run),
        "leavers" => threads::contexts::<N, true>(run),
        "split" => meetings::collective(run, meetings::split::<N>),
        "dup" => meetings::collective(run, meetings::dup::<N>),
        "create_group" => meetings::collective(run, meetings::create_group::<N>),
        "subsets" => meetings::collective(run, meetings::subsets::<N>),
        "barrier" => meetings::collective(run, meetings::barrier::<N>),
        "allgather" => meetings::collective(run, meetings::allgather::<N>),
        "broadcast" => meetings::collective(run, meetings::broadcast::<N>),
        "eager" => messages::rounds::<N, { messages::EAGER }>(run),
        "rendezvous" => messages::rounds::<N, { messages::RENDEZVOUS }>(run),
        "probe" => messages::rounds::<N, { messages::PROBE }>(run),
        "ssend" => messages::rounds::<N, { messages::SSEND }>(run),
        "irecv" => messages::rounds::<N, { messages::IRECV }>(run),
        "message layouts" => messages::rounds::<N, { messages::LAYOUTS }>(run),
        "message scopes" => scopes::of_messages(run),
        "active" => messages::active(run),
        "mailbox" => scopes::mailbox(run),
        other => Err(format!("no row '{other}'")),
    };
    // Who found something wrong stays as long as the other works, too.
    let finished = t.finish(&mut || run.idle());
    ended.and(finished)
}

/// A rank that reaches no other: it says so, within a time.
pub fn unreachable<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    let start = Instant::now();
    let met = N::open(boot)
        .and_then(|context| Communicator::world(&context).barrier().map_err(|e| e.to_string()));
    let why = met.err().ok_or("other: they met")?;
    println!("told: {why}");
    if start.elapsed() > Duration::from_secs(20) {
        return Err(format!("late: told after {:?}", start.elapsed()));
    }
    Ok(())
}
