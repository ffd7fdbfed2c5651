//! Windows and communicators between real processes, bytes checked, over every
//! choice of providers a machine without a fast network has.

mod jobs;
mod scenes;

use jobs::Scenario;
use scenes::{ALLOCATED, CREATED};
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut all = Vec::new();
    for (name, providers) in [("auto", ""), ("shm", "shm"), ("tcp", "tcp"), ("both", "shm,tcp")] {
        all.extend(scenes::all(name, &[("RANKWAY_PROVIDER", providers)]));
    }
    for ranks in [4, 6] {
        let mut add = |what: &str, body| {
            all.push(Scenario::new(format!("{what}/two nodes/{ranks}"), ranks, body).nodes(2));
        };
        add("allocated/words", scenes::words::<ALLOCATED>);
        add("created/words", scenes::words::<CREATED>);
        add("allocated/bounds", scenes::bounds::<ALLOCATED>);
        add("created/uneven", scenes::uneven::<CREATED>);
        add("allocated/unaligned", scenes::unaligned::<ALLOCATED>);
    }
    all.push(Scenario::new("views", 4, scenes::views));
    all.push(Scenario::new("one thread", 1, scenes::one_thread));
    // The same binary with another libfabric, where there is one.
    match std::env::var("RANKWAY_NEWER_LIBFABRIC").ok().filter(|path| !path.is_empty()) {
        Some(path) => {
            for (name, providers) in
                [("newer auto", ""), ("newer shm", "shm"), ("newer tcp", "tcp")]
            {
                let env = [("RANKWAY_PROVIDER", providers), ("RANKWAY_LIBFABRIC", path.as_str())];
                all.extend(scenes::all(name, &env));
            }
        }
        None => eprintln!("newer libfabric: skipped, RANKWAY_NEWER_LIBFABRIC does not name one"),
    }
    jobs::main(all)
}
