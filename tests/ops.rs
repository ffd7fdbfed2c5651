//! The one-sided operations between real processes, over every choice of
//! providers a machine without a fast network has.

mod jobs;
mod operations;

use rankway::netmod::ofi::Ofi;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut all = Vec::new();
    for (name, providers) in [("auto", ""), ("shm", "shm"), ("tcp", "tcp")] {
        all.extend(operations::all::<Ofi>(name, 1, &[("RANKWAY_PROVIDER", providers)]));
    }
    all.extend(operations::all::<Ofi>("two nodes", 2, &[("RANKWAY_PROVIDER", "shm,tcp")]));
    jobs::main(all)
}
