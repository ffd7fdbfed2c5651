//! The `rankway` command: what is there, how fast, how many instructions, how
//! many bytes.

mod arguments;
mod clock;
mod communicators;
mod compared;
mod count;
mod count_mpi;
mod fixture;
mod forked;
mod grid;
mod info;
mod maps;
mod memory;
mod mpi;
mod mpirun;
mod node;
mod operations;
mod output;
mod pack;
mod paper;
mod plot;
mod ranks;
mod rate;
mod scatter;
mod shared_object;
mod signals;
mod simulate;
mod stencil;
mod target;
mod temporary;
mod trace;

use clap::{Parser, Subcommand};
use rankway_cli::observe::memory::Counting;
use std::io;
use std::process::ExitCode;

/// Heap bytes are counted for `rankway memory`; two relaxed additions each.
#[global_allocator]
static HEAP: Counting = Counting::new();

#[derive(Parser)]
#[command(
    name = "rankway",
    version,
    about = "A kernel-bypass network transport for MPI device layers: \
             compressed rank maps and address vectors over libfabric and UCX",
    arg_required_else_help = true,
    after_help = "Start with `rankway info` to see what this machine has, then `rankway rate`.\n\
                  Environment: RANKWAY_PROVIDER (shm, tcp, …, or two with a comma), RANKWAY_LIBFABRIC, \
                  RANKWAY_UCX, RANKWAY_PMIX (paths of a libfabric.so.1, libucp.so.0, libpmix.so.2), \
                  RANKWAY_BOOT (local, pmix, pmi1, alone), RANKWAY_TIMEOUT (seconds), and \
                  libfabric's own FI_PROVIDER."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// What this machine has: libraries, providers, launchers, and what is missing
    Info(info::Args),
    /// How many puts a second can be issued, for every rank-map model
    Rate(rate::Args),
    /// How fast messages and atomics are, beside the library's own loops
    Operations(operations::Args),
    /// How fast windows over a program's own memory are within a node, beside the libraries
    Node(node::Args),
    /// How many instructions a translation and a put take, exactly
    Count(count::Args),
    /// How many instructions MPI's calls take on our components and on Open MPI's own
    CountMpi(count_mpi::Args),
    /// How many bytes address vectors and communicators take
    Memory(memory::Args),
    /// What one process of a large job does from start to end, and how it grows with the job
    Simulate(simulate::Args),
    /// A real job of up to a million ranks in this process: what it makes and puts, checked
    Grid(grid::Args),
    /// Communicators in a real job of many ranks in this process: made, sent through, gathered in
    Communicators(communicators::Args),
    /// How small rank maps get and how fast they are, in every representation
    Maps(maps::Args),
    /// How fast noncontiguous data is packed, beside memcpy, loops and MPIs
    Pack(pack::Args),
    /// How fast MPI programs are on our components and on Open MPI's own
    Mpi(mpi::Args),
    /// Tables and figures of the papers that this is built on, beside ours from this machine
    Paper(paper::Args),
    /// Who talks in which communicator: records MPI programs and tells what they did
    Trace(trace::Args),
}

fn main() -> ExitCode {
    let command = match Cli::try_parse() {
        Ok(cli) => cli.command,
        Err(said) => return say(&said),
    };
    let result = match command {
        Command::Info(args) => info::run(&args),
        Command::Rate(args) => rate::run(&args),
        Command::Operations(args) => operations::run(&args),
        Command::Node(args) => node::run(&args),
        Command::Count(args) => count::run(&args),
        Command::CountMpi(args) => count_mpi::run(&args),
        Command::Memory(args) => memory::run(&args),
        Command::Simulate(args) => simulate::run(&args),
        Command::Grid(args) => grid::run(&args),
        Command::Communicators(args) => communicators::run(&args),
        Command::Maps(args) => maps::run(&args),
        Command::Pack(args) => pack::run(&args),
        Command::Mpi(args) => mpi::run(&args),
        Command::Paper(args) => paper::run(&args),
        Command::Trace(args) => trace::run(&args),
    };
    match result {
        Ok(code) => code,
        Err(why) => {
            output::complain(&format!("rankway: {why}\n"));
            ExitCode::FAILURE
        }
    }
}

/// Prints what the command line alone answers: help, the version, what is wrong.
fn say(said: &clap::Error) -> ExitCode {
    match said.print() {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => {
            output::complain(&format!("rankway: cannot write: {e}\n"));
            ExitCode::FAILURE
        }
        _ => ExitCode::from(said.exit_code() as u8),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_described_as_it_must_be() {
        Cli::command().debug_assert();
    }
}
