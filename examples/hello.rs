//! Ranks greet each other, whoever launched them.
//!
//! ```text
//! cargo run --release --example hello            # forks 4 ranks itself
//! cargo run --release --example hello -- 8       # forks 8
//! mpirun -n 4 target/release/examples/hello      # Open MPI, PRRTE (PMIx)
//! mpiexec -n 4 target/release/examples/hello     # MPICH's Hydra (PMI-1)
//! ```
//!
//! Every rank publishes a name, learns all the others' names and nodes, meets
//! them on the set-up channel, and rank 0 prints one line per rank.

use rankway::boot::{self, Boot, BootError, Control, Group, World, local};
use std::process::ExitCode;
use std::sync::Arc;

fn hello(boot: Arc<dyn Boot>) -> Result<(), BootError> {
    let (rank, size) = (boot.rank(), boot.size());
    boot.put("name", format!("process {} of job {:x}", std::process::id(), boot.job()).as_bytes())?;
    let control = Control::open(boot.clone())?;
    boot.fence(&mut || ())?;

    let world = World::of(&*boot);
    let mut idle = || Ok(false);
    let mine = format!("rank {rank} says hello{}", "!".repeat(rank as usize % 5));
    let greetings = control.allgather(&world, 1, mine.as_bytes(), &mut idle)?;
    assert_eq!(greetings.len() as u32, world.len());
    for peer in 0..size {
        let name = boot.get(peer, "name")?;
        let greeting = &greetings[peer as usize];
        assert!(greeting.starts_with(format!("rank {peer} says hello").as_bytes()));
        if rank == 0 {
            let (name, node) = (String::from_utf8_lossy(&name).into_owned(), boot.node_of(peer)?);
            println!("{} (node {node}, {name})", String::from_utf8_lossy(greeting));
        }
    }
    let value = (rank == size - 1).then_some(&b"goodbye"[..]);
    assert_eq!(control.broadcast(&world, 2, size - 1, value, &mut idle)?, b"goodbye");
    control.barrier(&world, 3, &mut idle)?;
    if rank == 0 {
        println!("{size} ranks met, launcher: {}", boot.launcher());
    }
    drop(control);
    boot.finalize()
}

fn code(result: Result<(), BootError>) -> i32 {
    match result {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("hello: {error}");
            1
        }
    }
}

/// How many ranks to fork, by the arguments.
fn ranks() -> Option<u32> {
    let mut arguments = std::env::args().skip(1);
    let ranks = arguments.next().map_or(Some(4), |text| text.parse().ok());
    ranks.filter(|ranks| (1..=1024).contains(ranks) && arguments.next().is_none())
}

fn main() -> ExitCode {
    let outcome = match boot::connect() {
        // Nobody launched this process: fork the ranks.
        Ok(boot) if boot.launcher() == "alone" && std::env::var_os("RANKWAY_BOOT").is_none() => {
            let Some(ranks) = ranks() else {
                eprintln!("usage: hello [ranks], 1 to 1024");
                return ExitCode::from(2);
            };
            local::run(&local::Options::new(ranks), |boot| code(hello(boot)))
                .map(|outcome| outcome.exit_code())
        }
        Ok(boot) => Ok(code(hello(boot))),
        Err(error) => Err(error),
    };
    match outcome {
        Ok(code) => ExitCode::from(code as u8),
        Err(error) => {
            eprintln!("hello: {error}");
            ExitCode::FAILURE
        }
    }
}
