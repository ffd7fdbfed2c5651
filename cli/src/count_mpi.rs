//! `rankway count-mpi`: instructions of MPI calls, by library, under each choice of
//! Open MPI's components.

mod rank;

use crate::arguments;
use crate::mpirun::{self, STACKS, Session, Stack};
use crate::output::{self, Table};
use rank::Counted;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Counts the instructions of MPI calls of 8 bytes between two ranks of a node, by
/// single-stepping rank 0, on our components and on Open MPI's own.
///
/// Each call is counted a few times in the steady state; the median is told, whole
/// and by library. What is counted is the way of a call that does not wait:
/// messages that are received lie in the queue before.
#[derive(clap::Args)]
#[command(
    allow_negative_numbers = true,
    after_help = "Examples:\n  make count-mpi\n  make count-mpi ARGS=\"--stack rankway,ob1+vader\"\n  \
    make count-mpi ARGS=\"--stack rankway --listing MPI_Isend\"\n\
    JSON keys: stacks.NAME.{flags,error,calls[].{name,instructions,components,libraries.NAME,\
    functions.NAME}}"
)]
pub(crate) struct Args {
    /// The calls, built from plugins/openmpi/bench/count.c
    #[arg(long)]
    program: PathBuf,
    /// Where our components are installed
    #[arg(long)]
    components: PathBuf,
    /// Only these stacks
    #[arg(long, value_delimiter = ',')]
    stack: Vec<String>,
    /// A window over the program's own memory, not an allocated one
    #[arg(long)]
    created: bool,
    /// Seconds after which a run is given up
    #[arg(long, default_value_t = 120, value_parser = arguments::within::<u64>(1..=86_400))]
    limit: u64,
    /// Print the functions of each call too, with the instructions in them
    #[arg(long)]
    functions: bool,
    /// Print the instructions of this call too, in the order in which they ran
    #[arg(long, value_name = "CALL", conflicts_with = "json")]
    listing: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// What a rank of the job is told: where it takes turns with the other, and
    /// which half of the calls
    #[arg(long, hide = true, num_args = 2, value_names = ["DIRECTORY", "HALF"])]
    rank: Option<Vec<String>>,
}

/// What every choice of components has above it; the rest is the components' part,
/// with the libraries that it calls.
const FRAME: [&str; 4] = ["libmpi", "libopen-pal", "libevent", "mca_pml_cm"];

#[derive(Serialize)]
struct Report {
    stacks: BTreeMap<&'static str, Run>,
}

#[derive(Serialize)]
struct Run {
    flags: &'static str,
    /// Why it has no calls.
    error: Option<String>,
    calls: Vec<Call>,
    #[serde(skip)]
    listing: Option<String>,
}

/// A call's instructions.
#[derive(Serialize)]
struct Call {
    /// Those of the components, and what they call.
    components: f64,
    #[serde(flatten)]
    counted: Counted,
}

impl Call {
    fn new(counted: Counted) -> Call {
        let of_frame = |library: &str| FRAME.iter().any(|name| library.starts_with(name));
        let part = counted.libraries.iter().filter(|(library, _)| !of_frame(library));
        // (An empty sum is -0.)
        Call { components: part.map(|(_, n)| n).sum::<f64>() + 0.0, counted }
    }
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, String> {
    if let Some([directory, half]) = args.rank.as_deref() {
        return rank::run(args, Path::new(directory), half);
    }
    for (what, path) in [("the calls", &args.program), ("the components", &args.components)] {
        if !path.exists() {
            return Err(format!("{what} are not at {}; run it as: make count-mpi", path.display()));
        }
    }
    let stacks = mpirun::chosen(STACKS.iter(), &args.stack)?;
    let bar = match args.json {
        true => indicatif::ProgressBar::hidden(),
        false => output::progress(stacks.len() as u32, String::new()),
    };
    let mut report = Report { stacks: BTreeMap::new() };
    for stack in &stacks {
        bar.set_message(stack.name);
        report.stacks.insert(stack.name, once(args, stack));
        bar.inc(1);
    }
    bar.finish_and_clear();
    output::report(&report, args.json, |out| report.print(args, &stacks, out))?;
    match report.stacks.values().all(|run| run.calls.is_empty()) {
        true => Err("no stack gave a figure (see above, or `error` of --json)".into()),
        false => Ok(ExitCode::SUCCESS),
    }
}

fn once(args: &Args, stack: &Stack) -> Run {
    let mut run = Run { flags: stack.flags, error: None, calls: Vec::new(), listing: None };
    let mut start = || -> Result<(), String> {
        let session = Session::new()?;
        let mut command = session.mpirun(stack, &args.components, 2);
        command.arg(std::env::current_exe().map_err(|e| e.to_string())?).arg("count-mpi");
        command.arg("--program").arg(&args.program).arg("--components").arg(&args.components);
        command.args(["--limit", &args.limit.to_string()]);
        command.args(args.created.then_some("--created"));
        command.args(args.functions.then_some("--functions"));
        command.args(args.listing.iter().flat_map(|call| ["--listing", call]));
        command.arg("--rank").arg(session.path()).arg(stack.half);
        rank::make_page(session.path())?;
        mpirun::run(command, args.limit).result?;
        run.calls = rank::counted(session.path())?.into_iter().map(Call::new).collect();
        run.listing = rank::listed(session.path());
        Ok(())
    };
    run.error = start().err();
    run
}

impl Report {
    fn print(&self, args: &Args, stacks: &[&Stack], out: &mut impl Write) -> std::io::Result<()> {
        self.summary(args, stacks).print(out)?;
        for stack in stacks {
            let run = &self.stacks[stack.name];
            if !run.calls.is_empty() {
                writeln!(out)?;
                by_library(stack.name, run).print(out)?;
            }
            for call in run.calls.iter().filter(|call| !call.counted.functions.is_empty()) {
                writeln!(out)?;
                by_function(stack.name, call).print(out)?;
            }
            if let Some(listing) = &run.listing {
                write!(out, "\n# {}\n{listing}", stack.name)?;
            }
        }
        Ok(())
    }

    fn summary(&self, args: &Args, stacks: &[&Stack]) -> Table {
        let mut heads = vec!["call"];
        heads.extend(stacks.iter().map(|stack| stack.name));
        let mut table = Table::new(&heads);
        table.title("Instructions of an MPI call of 8 bytes, two ranks of a node, single-stepped");
        table.title("The whole call / without libmpi, libopen-pal and pml/cm; ret not counted");
        table.title("Waitall by the message, of 32");
        if args.created {
            table.title("Windows over the program's own memory");
        }
        let mut names: Vec<&str> = Vec::new();
        for call in self.stacks.values().flat_map(|run| &run.calls) {
            if !names.contains(&&*call.counted.name) {
                names.push(&call.counted.name);
            }
        }
        for name in names {
            let mut cells = vec![name.to_owned()];
            for stack in stacks {
                let mut calls = self.stacks[stack.name].calls.iter();
                let call = calls.find(|call| call.counted.name == name);
                let both =
                    |c: &Call| format!("{:.0} / {:.0}", c.counted.instructions, c.components);
                cells.push(output::maybe(call.map(both)));
            }
            table.row(&cells);
        }
        for (name, run) in &self.stacks {
            if let Some(why) = &run.error {
                table.note(format!("{name} failed: {why} ({})", run.flags));
            }
        }
        table
    }
}

fn by_library(stack: &str, run: &Run) -> Table {
    let mut totals: BTreeMap<&str, f64> = BTreeMap::new();
    for (library, n) in run.calls.iter().flat_map(|call| &call.counted.libraries) {
        *totals.entry(library).or_default() += n;
    }
    let mut libraries: Vec<&str> = totals.keys().copied().collect();
    libraries.sort_by(|a, b| totals[b].total_cmp(&totals[a]));
    let mut heads = vec!["call", "whole"];
    heads.extend(&libraries);
    let mut table = Table::new(&heads);
    table.title(format!("{stack}: {}", run.flags));
    for call in &run.calls {
        let number = |n: f64| format!("{n:.0}");
        let mut cells = vec![call.counted.name.clone(), number(call.counted.instructions)];
        let of = |library: &&str| {
            output::maybe(call.counted.libraries.get(*library).map(|&n| number(n)))
        };
        cells.extend(libraries.iter().map(of));
        table.row(&cells);
    }
    table
}

fn by_function(stack: &str, call: &Call) -> Table {
    let mut table = Table::new(&["function", "instructions"]);
    table.title(format!("{} of {stack}", call.counted.name));
    let mut functions: Vec<(&String, &f64)> = call.counted.functions.iter().collect();
    functions.sort_by(|a, b| b.1.total_cmp(a.1));
    for (name, n) in functions {
        table.row(&[name.clone(), format!("{n:.1}")]);
    }
    table
}
