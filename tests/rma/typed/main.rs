//! Windows of elements and scopes of operations between real processes, over
//! every choice of providers a machine without a fast network has.

#[path = "../../harness/mod.rs"]
mod harness;
#[path = "mod.rs"]
mod typed;

use harness::Over;
use rankway::netmod::node::Node;
use rankway::netmod::ofi::Ofi;
use rankway::netmod::ucx::{self, Ucx};
use std::process::ExitCode;

fn main() -> ExitCode {
    if let Some(over) = Over::chosen() {
        return harness::main(match over.ucx {
            true => typed::all::<Ucx>(&over.name, &over.env()),
            false => typed::all::<Ofi>(&over.name, &over.env()),
        });
    }
    // Through the node's queues, and through each provider as between nodes.
    let provider = ("RANKWAY_NODE_QUEUES", "0");
    let mut all = typed::all::<Ofi>("auto", &[]);
    for (name, providers) in [("shm", "shm"), ("tcp", "tcp")] {
        all.extend(typed::all::<Ofi>(name, &[("RANKWAY_PROVIDER", providers), provider]));
    }
    all.extend(typed::all::<Node>("node", &[]));
    match ucx::library() {
        Ok(_) => {
            all.extend(typed::all::<Ucx>("ucx", &[]));
            all.extend(typed::all::<Ucx>("ucx tcp", &[("UCX_TLS", "tcp,self"), provider]));
        }
        Err(e) => eprintln!("UCX: skipped: {e}"),
    }
    harness::main(all)
}
