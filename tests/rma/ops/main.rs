//! The one-sided operations between real processes, over every choice of
//! providers a machine without a fast network has.

#[path = "../../harness/mod.rs"]
mod harness;
#[path = "mod.rs"]
mod ops;

use harness::{Over, Scenario};
use rankway::netmod::in_process::InProcess;
use rankway::netmod::node::Node;
use rankway::netmod::ofi::Ofi;
use rankway::netmod::ucx::{self, Ucx};
use std::process::ExitCode;

fn main() -> ExitCode {
    if let Some(over) = Over::chosen() {
        return harness::main(match over.ucx {
            true => ops::all::<Ucx>(&over.name, 1, &over.env()),
            false => ops::all::<Ofi>(&over.name, 1, &over.env()),
        });
    }
    let mut all = Vec::new();
    // Through the node's queues, and through each provider as between nodes.
    let provider = ("RANKWAY_NODE_QUEUES", "0");
    all.extend(ops::all::<Ofi>("auto", 1, &[]));
    for (name, providers) in [("shm", "shm"), ("tcp", "tcp"), ("node beside", "node")] {
        all.extend(ops::all::<Ofi>(name, 1, &[("RANKWAY_PROVIDER", providers), provider]));
    }
    let many = "contexts without number/shm/2";
    let many = Scenario::new(many, 2, ops::threads::unanswered::<Ofi>);
    all.push(many.env("RANKWAY_PROVIDER", "shm").env(provider.0, provider.1));
    all.extend(ops::all::<Node>("node", 1, &[]));
    all.extend(ops::all::<Node>("node alone", 1, &[provider]));
    let mut in_process = ops::all::<InProcess>("in process", 2, &[]);
    // (Whoever kills a process means them all.)
    in_process.retain(|it| !it.name.contains("dead"));
    all.extend(in_process.into_iter().map(Scenario::in_one_process));
    let computes = |what, body| Scenario::new(format!("{what}/computing target/node/3"), 3, body);
    all.push(computes("created", ops::computing::target::<Node, { ops::CREATED }>));
    all.push(computes("allocated", ops::computing::target::<Node, { ops::ALLOCATED }>));
    let interrupted = |name: &str| {
        Scenario::new(format!("interrupted/{name}"), 2, ops::computing::interrupted::<Ofi>)
    };
    all.push(interrupted("auto"));
    all.push(interrupted("tcp").env("RANKWAY_PROVIDER", "tcp").env(provider.0, provider.1));
    for (name, providers) in [("two nodes", "shm,tcp"), ("two nodes beside", "node,tcp")] {
        all.extend(ops::all::<Ofi>(name, 2, &[("RANKWAY_PROVIDER", providers)]));
    }
    match ucx::library() {
        Ok(_) => {
            all.extend(ops::all::<Ucx>("ucx", 1, &[]));
            all.push(Scenario::new("interrupted/ucx", 2, ops::computing::interrupted::<Ucx>));
            for (name, tls) in [("ucx posix", "posix,self"), ("ucx tcp", "tcp,self")] {
                all.extend(ops::all::<Ucx>(name, 1, &[("UCX_TLS", tls), provider]));
            }
            all.extend(ops::all::<Ucx>("ucx two nodes", 2, &[("UCX_TLS", "all")]));
        }
        Err(e) => eprintln!("UCX: skipped: {e}"),
    }
    harness::main(all)
}
