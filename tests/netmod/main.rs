//! Netmods by themselves: two processes that exchange raw addresses and use
//! every operation, bytes checked. One body serves every netmod.

#[path = "../harness/mod.rs"]
mod harness;
#[path = "mod.rs"]
mod netmod;

use rankway::netmod::in_process::InProcess;
use rankway::netmod::node::Node;
use rankway::netmod::ofi::Ofi;
use rankway::netmod::ucx::{self, Ucx};
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut all = Vec::new();
    let mut node = netmod::all::<Node>("node", &[]);
    // (No node has so many.)
    node.retain(|it| !it.name.contains("million"));
    all.extend(node);
    let served = netmod::memory::served::<Node>;
    all.push(harness::Scenario::new("node/a put that is carried out", 2, served));
    let long = netmod::memory::long::<Node>;
    all.push(harness::Scenario::new("node/long ones", 2, long));
    let absent = netmod::memory::absent_target::<Node>;
    all.push(harness::Scenario::new("node/a target that never polls", 2, absent));
    let absent = netmod::atomics::absent_target::<Node>;
    all.push(harness::Scenario::new("node/elements of a target that never polls", 2, absent));
    let mut in_process = netmod::all::<InProcess>("in process", &[]);
    // (Whoever kills a process means them all.)
    in_process.retain(|it| !it.name.contains("death"));
    all.extend(in_process.into_iter().map(harness::Scenario::in_one_process));
    for (name, provider) in [("shm", "shm"), ("tcp", "tcp;ofi_rxm")] {
        let env = [("RANKWAY_PROVIDER", provider)];
        all.extend(netmod::all::<Ofi>(name, &env));
    }
    // The same binary with another libfabric, where there is one.
    match std::env::var("RANKWAY_NEWER_LIBFABRIC").ok().filter(|path| !path.is_empty()) {
        Some(path) => {
            let tcp = [("newer tcp", "tcp;ofi_rxm"), ("newer tcp alone", "tcp")];
            for (name, provider) in [("newer shm", "shm")].into_iter().chain(tcp) {
                let env = [("RANKWAY_PROVIDER", provider), ("RANKWAY_LIBFABRIC", path.as_str())];
                all.extend(netmod::all::<Ofi>(name, &env));
            }
        }
        None => eprintln!("newer libfabric: skipped, RANKWAY_NEWER_LIBFABRIC does not name one"),
    }
    if let Err(e) = ucx::library() {
        eprintln!("UCX: skipped: {e}");
        return harness::main(all);
    }
    let newer = std::env::var("RANKWAY_NEWER_UCX").ok().filter(|path| !path.is_empty());
    for (name, tls) in [("ucx", "all"), ("ucx posix", "posix,self"), ("ucx tcp", "tcp,self")] {
        all.extend(netmod::all::<Ucx>(name, &[("UCX_TLS", tls)]));
        if let Some(path) = &newer {
            let env = [("UCX_TLS", tls), ("RANKWAY_UCX", path.as_str())];
            all.extend(netmod::all::<Ucx>(&format!("newer {name}"), &env));
        }
    }
    harness::main(all)
}
