//! Two ranks, one window, one put: the library as its users have it.
//!
//! ```text
//! cargo run --release --example put             # forks 2 ranks itself
//! cargo run --release --example put -- 4        # forks 4
//! mpirun -n 2 target/release/examples/put       # Open MPI, PRRTE (PMIx)
//! mpiexec -n 2 target/release/examples/put      # MPICH's Hydra (PMI-1)
//! ```
//!
//! Every rank allocates a window of one 64-bit word for each rank, puts a word
//! into its right neighbour's window, fences, and checks what its left
//! neighbour put into its own; then it gets all of its neighbours' words in one
//! scope. Which provider carries it, shared memory or a network, is found out;
//! `RANKWAY_PROVIDER=tcp` names one.

use rankway::boot::{self, Boot, local};
use rankway::device::{self, Options};
use rankway::rma::Communicator;
use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;

fn put(boot: Arc<dyn Boot>) -> Result<(), Box<dyn Error>> {
    let context = device::open_ofi(boot.clone(), &Options::default())?;
    let world = Communicator::world(&context);
    let (rank, size) = (world.rank(), world.size());

    // A word for each rank, zeroed; indices count words.
    let mut window = world.window::<u64>().len(size as usize).allocate()?;
    window.fence()?;
    let (left, right) = ((rank + size - 1) % size, (rank + 1) % size);
    window.put_slice(&[1000 + u64::from(rank)], right, rank as usize)?;
    window.fence()?;

    let found = window.local()?.read(left as usize)?;
    if found != 1000 + u64::from(left) {
        return Err(format!("rank {rank} found {found}, not what rank {left} put").into());
    }
    println!("rank {rank} of {size}: rank {left} put {found} here");

    // Both under way together; the compiler keeps the buffers until the end.
    let (mut at_left, mut at_right) = (vec![0; size as usize], vec![0; size as usize]);
    window.scope(|s| {
        s.get(&mut at_left, left, 0)?;
        s.get(&mut at_right, right, 0)
    })?;
    if at_right[rank as usize] != 1000 + u64::from(rank) {
        return Err(format!("rank {right} has {at_right:?}, not what rank {rank} put").into());
    }

    window.fence()?;
    window.free()?;
    boot.finalize()?;
    Ok(())
}

fn code(result: Result<(), Box<dyn Error>>) -> i32 {
    match result {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("put: {error}");
            1
        }
    }
}

/// How many ranks to fork, by the arguments.
fn ranks() -> Option<u32> {
    let mut arguments = std::env::args().skip(1);
    let ranks = arguments.next().map_or(Some(2), |text| text.parse().ok());
    ranks.filter(|ranks| (1..=1024).contains(ranks) && arguments.next().is_none())
}

fn main() -> ExitCode {
    let outcome = match boot::connect() {
        // Nobody launched this process: fork the ranks.
        Ok(boot) if boot.launcher() == "alone" && std::env::var_os("RANKWAY_BOOT").is_none() => {
            let Some(ranks) = ranks() else {
                eprintln!("usage: put [ranks], 1 to 1024");
                return ExitCode::from(2);
            };
            local::run(&local::Options::new(ranks), |boot| code(put(boot)))
                .map(|outcome| outcome.exit_code())
        }
        Ok(boot) => Ok(code(put(boot))),
        Err(error) => Err(error),
    };
    match outcome {
        Ok(code) => ExitCode::from(code as u8),
        Err(error) => {
            eprintln!("put: {error}");
            ExitCode::FAILURE
        }
    }
}
