//! The scenarios of `tests/rma/main.rs` and `tests/netmod/main.rs` over `verbs;ofi_rxm` and
//! over UCX's rc and ud, where the machine has an RDMA device (a soft one will
//! do: `rdma link add rxe0 type rxe netdev eth0`, or `make test-verbs`, which
//! boots a guest that has one). Elsewhere says why nothing was run.
//!
//! `tests/msg/main.rs`, `tests/rma/ops` and `tests/device/faults` play over such a device
//! too: `RANKWAY_TEST_OVER=verbs cargo test --test msg` and the like.
//!
//! `RANKWAY_TEST_LAUNCHER` names a launcher with its words, to which `-n RANKS`
//! is added: the same scenarios between hosts.

#[path = "../tests/harness/mod.rs"]
mod harness;
#[path = "../tests/netmod/mod.rs"]
mod netmod;
#[path = "../tests/rma/mod.rs"]
mod rma;

use harness::{Over, Scenario};
use rankway::netmod::ofi::Ofi;
use rankway::netmod::ucx::{self, Ucx};
use std::process::ExitCode;

fn main() -> ExitCode {
    let devices = std::fs::read_dir("/sys/class/infiniband").map_or(0, |d| d.flatten().count());
    if devices == 0 {
        println!("verbs: skipped, no RDMA device in /sys/class/infiniband");
        return harness::main(Vec::new());
    }
    let launcher = std::env::var("RANKWAY_TEST_LAUNCHER").ok();
    let provider = [("RANKWAY_PROVIDER", "verbs")];
    let mut all = rma::all::<Ofi>("verbs", &provider);
    for (what, body) in [
        ("words", rma::words::<{ rma::ALLOCATED }, Ofi> as fn(_) -> _),
        ("unaligned", rma::unaligned::<{ rma::ALLOCATED }, Ofi>),
    ] {
        let scenario = Scenario::new(format!("allocated/{what}/verbs, two nodes/4"), 4, body);
        // Its keys and addresses differ: here each member is asked for its own.
        let scenario = scenario.nodes(2).env("RANKWAY_PROVIDER", "verbs");
        all.push(scenario.env("RANKWAY_WINDOW_KEYS", "0"));
    }
    for scenario in netmod::all::<Ofi>("verbs", &provider) {
        // libfabric 1.17 ends with SIGSEGV in fi_close of the endpoint in about
        // one of two floods over verbs;ofi_rxm.
        let flood = scenario.name.contains("flood");
        all.push(if flood { scenario.slow() } else { scenario });
    }
    match ucx::library() {
        // (rc finds its peers over ud, which `rc_v` has beside it.)
        Ok(_) => {
            for (name, tls) in [("ucx rc", "rc_v,self"), ("ucx ud", "ud_v,self")] {
                let over = Over::ucx(name, tls);
                all.extend(rma::all::<Ucx>(name, &over.env()));
                all.extend(rma::provided::<Ucx>(name, &over.env()));
                all.extend(netmod::all::<Ucx>(name, &over.env()));
            }
        }
        Err(e) => eprintln!("UCX: skipped: {e}"),
    }
    // Windows that are allocated are mapped within a node: the network shows
    // between two.
    let shows = |s: &Scenario| !s.name.starts_with("allocated/") || s.nodes > 1;
    all.retain(|s| launcher.is_some() || shows(s));
    if let Some(launcher) = launcher {
        all = all.into_iter().map(|scenario| launched(scenario, &launcher)).collect();
    }
    harness::main(all)
}

/// The scenario, its ranks started by a launcher.
fn launched(scenario: Scenario, launcher: &str) -> Scenario {
    let ranks = scenario.ranks.to_string();
    let mut words: Vec<&str> = launcher.split_ascii_whitespace().collect();
    words.extend(["-n", &ranks]);
    scenario.start(&words)
}
