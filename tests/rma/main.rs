//! Windows and communicators between real processes, bytes checked, over every
//! choice of providers and transports a machine without a fast network has.

#[path = "../harness/mod.rs"]
mod harness;
#[path = "mod.rs"]
mod rma;

use harness::Scenario;
use rankway::netmod::in_process::InProcess;
use rankway::netmod::node::Node;
use rankway::netmod::ofi::Ofi;
use rankway::netmod::ucx::{self, Ucx};
use rankway::rankmap::compact::Strategy;
use rma::{ALLOCATED, CREATED, Opens};
use std::process::ExitCode;

/// Has each member asked for its keys that differ from others'.
const ASKED: (&str, &str) = ("RANKWAY_WINDOW_KEYS", "0");

fn main() -> ExitCode {
    let mut all = Vec::new();
    for (name, providers) in [("auto", ""), ("shm", "shm"), ("tcp", "tcp"), ("both", "shm,tcp")] {
        all.extend(rma::all::<Ofi>(name, &[("RANKWAY_PROVIDER", providers)]));
    }
    all.extend(rma::all::<Node>("node", &[]));
    let in_process = rma::all::<InProcess>("in process", &[]);
    all.extend(in_process.into_iter().map(Scenario::in_one_process));
    two_nodes::<Ofi>(&mut all, "two nodes");
    let asked = [("RANKWAY_PROVIDER", "tcp"), ASKED];
    all.extend(rma::all::<Ofi>("asked tcp", &asked));
    let mut by_itself = |name: &str, body| {
        let scenario = Scenario::new(format!("serves the node/{name}"), 3, body);
        all.push(scenario.env("RANKWAY_PROVIDER", ""));
    };
    by_itself("by default", rma::providers::node_by_default);
    by_itself("one is closed", rma::providers::library_where_one_is_closed);
    by_itself("one was told", rma::providers::library_where_one_was_told);
    all.push(Scenario::new("no messages", 2, rma::no_messages).nodes(2));
    all.push(Scenario::new("views", 4, rma::views::<Ofi>));
    all.push(Scenario::new("one thread", 1, rma::one_thread::<Ofi>));
    for strategy in ["space", "hybrid:0.5", "time"] {
        let name = format!("strategies/{strategy}");
        let scenario = Scenario::new(name, 6, rma::maps::strategies::<Ofi>);
        all.push(scenario.env("RANKWAY_PROVIDER", "shm").env(Strategy::VARIABLE, strategy));
    }
    let scenario = Scenario::new("representations", 8, rma::maps::representations::<Ofi>);
    all.push(scenario.env("RANKWAY_PROVIDER", "shm"));
    for providers in ["", "node", "tcp"] {
        let name = format!("no library/{providers}");
        let scenario = Scenario::new(name, 2, rma::providers::no_library);
        let scenario = scenario.env("RANKWAY_LIBFABRIC", rma::providers::NO_LIBRARY);
        all.push(scenario.env("RANKWAY_PROVIDER", providers));
    }
    let scenario = Scenario::new("another library", 2, rma::providers::another_library);
    all.push(scenario.env("RANKWAY_LIBFABRIC", rma::providers::NO_LIBRARY));
    // The same binary with another libfabric, where there is one.
    match std::env::var("RANKWAY_NEWER_LIBFABRIC").ok().filter(|path| !path.is_empty()) {
        Some(path) => {
            for (name, providers) in
                [("newer auto", ""), ("newer shm", "shm"), ("newer tcp", "tcp")]
            {
                let env = [("RANKWAY_PROVIDER", providers), ("RANKWAY_LIBFABRIC", path.as_str())];
                all.extend(rma::all::<Ofi>(name, &env));
            }
        }
        None => eprintln!("newer libfabric: skipped, RANKWAY_NEWER_LIBFABRIC does not name one"),
    }
    all.extend(over_ucx());
    harness::main(all)
}

fn two_nodes<N: Opens>(all: &mut Vec<Scenario>, name: &str) {
    for ranks in [4, 6] {
        let mut add = |what: &str, body| {
            all.push(Scenario::new(format!("{what}/{name}/{ranks}"), ranks, body).nodes(2));
        };
        add("allocated/words", rma::words::<ALLOCATED, N>);
        add("created/words", rma::words::<CREATED, N>);
        add("allocated/bounds", rma::bounds::<ALLOCATED, N>);
        add("created/uneven", rma::uneven::<CREATED, N>);
        add("allocated/unaligned", rma::unaligned::<ALLOCATED, N>);
    }
}

/// The same over UCX: its own choice of transports, shared memory alone, tcp
/// alone, and another UCX where there is one.
fn over_ucx() -> Vec<Scenario> {
    let mut all = Vec::new();
    if let Err(e) = ucx::library() {
        eprintln!("UCX: skipped: {e}");
        return all;
    }
    let transports = [("auto", "all"), ("posix", "posix,self"), ("tcp", "tcp,self")];
    for (name, tls) in transports {
        let (name, env) = (format!("ucx {name}"), [("UCX_TLS", tls)]);
        all.extend(rma::all::<Ucx>(&name, &env));
        all.extend(rma::provided::<Ucx>(&name, &env));
    }
    all.extend(rma::all::<Ucx>("ucx asked", &[("UCX_TLS", "all"), ASKED]));
    all.extend(rma::provided::<Ucx>("ucx asked", &[("UCX_TLS", "all"), ASKED]));
    all.extend(rma::all::<Ucx>("ucx asked tcp", &[("UCX_TLS", "tcp,self"), ASKED]));
    let (key, value) = ASKED;
    all.push(Scenario::new("keys/ucx asked", 4, rma::no_keys).env(key, value));
    two_nodes::<Ucx>(&mut all, "ucx two nodes");
    all.push(Scenario::new("views/ucx", 4, rma::views::<Ucx>));
    all.push(Scenario::new("one thread/ucx", 1, rma::one_thread::<Ucx>));
    match std::env::var("RANKWAY_NEWER_UCX").ok().filter(|path| !path.is_empty()) {
        Some(path) => {
            for (name, tls) in transports {
                let env = [("UCX_TLS", tls), ("RANKWAY_UCX", path.as_str())];
                let name = format!("newer ucx {name}");
                all.extend(rma::all::<Ucx>(&name, &env));
                all.extend(rma::provided::<Ucx>(&name, &env));
            }
        }
        None => eprintln!("newer UCX: skipped, RANKWAY_NEWER_UCX does not name one"),
    }
    all
}
