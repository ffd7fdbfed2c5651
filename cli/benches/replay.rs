//! How fast a long recording is read, and in how much memory; how fast it is exported.
//!
//! `cargo bench -p rankway-cli --bench replay -- [MILLION EVENTS]` (50 by default)
//!
//! Processor time of the whole command, its start, and reading what it does not keep, included.
//! The recording lies in the directory for temporary files, 32 bytes an event.

#[allow(unreachable_pub, reason = "tests have it too")]
#[path = "../../tests/cli/trace/halo.rs"]
mod halo;

use std::path::PathBuf;
use std::process::Command;

const RANKS: u32 = 8;

struct Directory(PathBuf);

impl Drop for Directory {
    fn drop(&mut self) {
        // Among temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn main() {
    let asked = std::env::args().skip(1).find_map(|argument| argument.parse::<u64>().ok());
    let million = asked.unwrap_or(50).max(1);
    // (An allreduce in each four steps.)
    let steps = million * 1_000_000 * 4 / (u64::from(RANKS) * (4 * halo::STEP + 1));
    let place = std::env::temp_dir().join(format!("rankway-replay-{}", std::process::id()));
    let directory = Directory(place.join("traces"));
    std::fs::create_dir_all(&directory.0).expect("temporary directories can be made");
    let _all = Directory(place.clone());
    let events = halo::written(&directory.0, RANKS, steps);
    println!("{events} events of {RANKS} processes");
    println!("{:<22}{:>20}{:>12}", "", "M events/s of CPU", "peak MiB");
    let there = |name: &str| place.join(name).display().to_string();
    let out = ["svg", "html", "perfetto", "csv", "otf2"].map(there);
    for (name, args) in [
        ("matrix", vec!["matrix"]),
        ("comms", vec!["comms"]),
        ("leaks", vec!["leaks"]),
        ("timeline", vec!["timeline"]),
        ("timeline --svg", vec!["timeline", "--svg", &out[0]]),
        ("waits", vec!["waits"]),
        ("report", vec!["report", "-o", &out[1]]),
        ("export --perfetto", vec!["export", "--perfetto", &out[2]]),
        ("export --csv", vec!["export", "--csv", &out[3]]),
        ("export --otf2", vec!["export", "--otf2", &out[4]]),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rankway"));
        command.arg("trace").args(args).arg(&directory.0);
        let took = halo::took(&mut command);
        let rate = events as f64 / took.seconds / 1e6;
        println!("{name:<22}{rate:>20.1}{:>12.1}", took.peak as f64 / f64::from(1 << 20));
    }
}
