//! Every kind of window with every kind of epoch, operation, length and thread,
//! over every network a machine without a fast one has: as tests the cases in
//! which all pairs occur and some seconds of random programs, and by name the
//! whole product (`make test-matrix`) and random programs for longer
//! (`make test-random`), here and under MPI.

#![allow(unreachable_pub, reason = "as the modules of other tests")]
#![allow(clippy::unwrap_used, reason = "lengths that stand beside them")]

mod drive;
#[path = "../../src/netmod/compute/oracle.rs"]
#[allow(dead_code, reason = "of which other tests use more")]
mod elements;
mod factors;
#[path = "../harness/mod.rs"]
mod harness;
mod job;
mod networks;
mod oracle;
mod perform;
mod play;
mod program;
mod random;
mod watch;
mod workers;

use rankway::netmod::{Op, Type};
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let ours = words.first().is_some_and(|word| drive::COMMANDS.contains(&word.as_str()));
    let in_scenario = harness::in_scenario();
    if ours && !in_scenario {
        return drive::main(&words);
    }
    let seed = match job::seed() {
        Ok(seed) => seed,
        Err(why) => {
            eprintln!("{why}");
            return ExitCode::from(2);
        }
    };
    if !in_scenario {
        eprintln!("{}={seed}", job::SEED);
        let _ = std::fs::remove_dir_all(networks::TRACES);
    }
    let all = networks::all().into_iter().filter(|network| in_scenario || network.jobs == 1);
    let all = all.flat_map(|network| job::scenarios(&network, seed)).collect();
    harness::main_of(all, Vec::new(), 2)
}
