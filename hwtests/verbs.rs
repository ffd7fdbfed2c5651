//! The scenarios of `tests/rma.rs` over verbs, where the machine has an RDMA
//! device (a soft one will do: `rdma link add rxe0 type rxe netdev eth0`).
//! Elsewhere says why nothing was run.

#[path = "../tests/jobs/mod.rs"]
mod jobs;
#[path = "../tests/scenes/mod.rs"]
mod scenes;

use rankway::netmod::ofi::Ofi;
use std::process::ExitCode;

fn main() -> ExitCode {
    let devices = std::fs::read_dir("/sys/class/infiniband").map_or(0, |d| d.flatten().count());
    if devices == 0 {
        println!("verbs: skipped, no RDMA device in /sys/class/infiniband");
        return jobs::main(Vec::new());
    }
    jobs::main(scenes::all::<Ofi>("verbs", &[("RANKWAY_PROVIDER", "verbs")]))
}
