//! `rankway trace`: who talks in which communicator, of what a program recorded.
//!
//! ```text
//! load      the traces of a directory, by job and rank
//! site      file and line of a place in the program
//! record    runs a program and records it
//! word      what people call calls
//! calls     calls of all processes on one clock, in objects that all members know
//! comms     the tree of communicators
//! leaks     what was never freed
//! matrix    who sent how much to whom
//! replay    calls of all processes as they came
//! messages  which send each receive had
//! waits     who waited for whom
//! timeline  what each rank did when
//! report    all of it as a page
//! picture   pictures, as SVG and PNG
//! export    in the forms that other tools read
//! simulate  definitions of as many processes as are asked for
//! ```

mod calls;
mod comms;
mod export;
mod leaks;
mod load;
mod matrix;
mod messages;
mod picture;
mod record;
mod replay;
mod report;
mod simulate;
mod site;
mod timeline;
mod waits;
mod word;

use std::path::Path;
use std::process::ExitCode;

/// Who talks in which communicator: records MPI programs and tells what they did
#[derive(clap::Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Runs a program and records it
    Record(record::Args),
    /// The tree of communicators: who made them, their maps, what went through each
    Comms(comms::Args),
    /// What was never freed, by the line that made it, and how far the MPI's limit is
    Leaks(leaks::Args),
    /// Who sent how much to whom, in ranks of the world: messages, puts and gets
    Matrix(matrix::Args),
    /// What each rank did when: shares of its time, and a picture
    Timeline(timeline::Args),
    /// Who waited for whom: late senders and receivers, barriers, collectives, fences
    Waits(waits::Args),
    /// All of it as one page: tree, census, matrix, leaks, timeline, waits
    Report(report::Args),
    /// In the forms that other tools read: OTF2's archives, Perfetto's timeline, tables
    Export(export::Args),
    /// What the definitions of a million processes take, beside the schemes of others
    Simulate(simulate::Args),
}

/// Refuses a directory without traces.
pub(crate) fn recorded(directory: &Path) -> Result<(), String> {
    load::paths(directory).map(drop)
}

/// What `--json` prints, of commands whose answer other commands ask for.
pub(crate) fn value(args: &Args) -> Result<serde_json::Value, String> {
    match &args.command {
        Command::Comms(args) => comms::value(args),
        Command::Simulate(args) => simulate::value(args),
        _ => Err("only comms and simulate are asked for by other commands".to_owned()),
    }
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, String> {
    match &args.command {
        Command::Record(args) => return record::run(args),
        Command::Comms(args) => comms::run(args),
        Command::Leaks(args) => leaks::run(args),
        Command::Matrix(args) => matrix::run(args),
        Command::Timeline(args) => timeline::run(args),
        Command::Waits(args) => waits::run(args),
        Command::Report(args) => report::run(args),
        Command::Export(args) => export::run(args),
        Command::Simulate(args) => simulate::run(args),
    }?;
    Ok(ExitCode::SUCCESS)
}
