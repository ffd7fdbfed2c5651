//! `rankway mpi`: Open MPI's own components and ours, or an MPICH with our netmod and
//! the distribution's, in turn, by one program.

use crate::arguments;
use crate::mpirun::{self, MPICH, STACKS, Session, Stack};
use crate::output::{self, Table};
use crate::plot;
use clap::Args as ClapArgs;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Runs the benchmark of plugins/openmpi under mpirun with each stack in turn,
/// round after round, and keeps the best of each: ratios of ours to the best of
/// Open MPI's own are the claim. With `--netmod` the same of MPICH. `make bench-mpi` and
/// `make bench-mpich` build what it needs.
#[derive(ClapArgs)]
#[command(
    allow_negative_numbers = true,
    group(clap::ArgGroup::new("whose").required(true).args(["components", "netmod"])),
    after_help = "Examples:\n  make bench-mpi\n  make bench-mpi ARGS=\"--rounds 5 --svg mpi.svg\"\n  \
    make bench-mpi ARGS=\"--stack rankway,osc-sm --json\"\n  make bench-mpi ARGS=--created\n  make bench-mpi ARGS=--crowd\n  \
    make bench-mpich ARGS=--created\n\
    JSON keys: mpi, ranks, windows, figures[].{name,lower_is_better,ours,best,best_stack,ratio,bound,met}, \
    stacks.NAME.{flags,error,crashed[],figures.NAME}"
)]
pub(crate) struct Args {
    /// The benchmark, built from plugins/openmpi/bench/bench.c
    #[arg(long)]
    program: PathBuf,
    /// Where our components for Open MPI are installed
    #[arg(long)]
    components: Option<PathBuf>,
    /// The benchmark, built with an MPICH that has our netmod; --program is then the one
    /// built with the distribution's MPICH
    #[arg(long, value_name = "PROGRAM")]
    netmod: Option<PathBuf>,
    /// Only these stacks
    #[arg(long, value_delimiter = ',')]
    stack: Vec<String>,
    /// Runs of each stack; the best counts
    #[arg(long, default_value_t = 3, value_parser = arguments::within::<u32>(1..=1_000_000))]
    rounds: u32,
    /// Milliseconds of one measurement; a run goes through all figures again
    /// and again
    #[arg(long, default_value_t = 3, value_parser = arguments::within::<u32>(1..=60_000))]
    slice: u32,
    /// Measurements of each figure in a run
    #[arg(long, default_value_t = 20, value_parser = arguments::within::<u32>(1..=1_000_000))]
    samples: u32,
    /// Seconds after which a run is given up
    #[arg(long, default_value_t = 120, value_parser = arguments::within::<u64>(1..=86_400))]
    limit: u64,
    /// Windows over memory of the program's own, in place of allocated ones and
    /// of messages
    #[arg(long)]
    created: bool,
    /// Collectives and gets between fences of four ranks, more than this machine may
    /// have processors
    #[arg(long, conflicts_with = "created")]
    crowd: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Draw the ratios
    #[arg(long, value_name = "FILE", value_parser = arguments::chart)]
    svg: Option<PathBuf>,
}

/// What a figure's ratio should reach under Open MPI; the others have no bound.
const BOUNDS: [(&str, f64); 5] = [
    ("put_rate_M/s", 1.2),
    ("put_latency_us", 1.0),
    ("send_latency_us", 1.1),
    ("send_rate_M/s", 1.0),
    ("send_bandwidth_MB/s", 0.9),
];

/// What all should reach under MPICH.
const BOUND_OF_MPICH: f64 = 1.0;

impl Args {
    /// What the stacks are of: the first one is compared with all that are not ours.
    fn family(&self) -> (&'static str, &'static [Stack]) {
        if self.netmod.is_some() { ("MPICH", &MPICH) } else { ("Open MPI", &STACKS) }
    }

    fn ranks(&self) -> u32 {
        if self.crowd { 4 } else { 2 }
    }

    /// What the windows are over.
    fn windows(&self) -> &'static str {
        match self.created || self.crowd {
            true => "memory of the program's own",
            false => "allocated memory",
        }
    }
}

type Figures = BTreeMap<String, f64>;

#[derive(Serialize)]
struct Report {
    mpi: &'static str,
    ranks: u32,
    windows: &'static str,
    figures: Vec<Figure>,
    stacks: BTreeMap<&'static str, Run>,
}

#[derive(Serialize)]
struct Run {
    flags: String,
    /// Why the last run that failed did.
    error: Option<String>,
    /// Figures in which runs failed; they are left out of those that follow.
    crashed: Vec<String>,
    figures: Figures,
}

#[derive(Serialize)]
struct Figure {
    name: String,
    lower_is_better: bool,
    ours: Option<f64>,
    best: Option<f64>,
    best_stack: Option<&'static str>,
    ratio: Option<f64>,
    bound: Option<f64>,
    met: Option<bool>,
}

fn lower_is_better(name: &str) -> bool {
    name.ends_with("_us")
}

/// The better of two values of a figure.
fn better(name: &str, a: f64, b: f64) -> f64 {
    if lower_is_better(name) { a.min(b) } else { a.max(b) }
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, String> {
    let (mpi, all) = args.family();
    let make = if args.netmod.is_some() { "make bench-mpich" } else { "make bench-mpi" };
    let needed = [
        ("the benchmark", Some(&args.program)),
        ("the components", args.components.as_ref()),
        ("the benchmark of our MPICH", args.netmod.as_ref()),
    ];
    for (what, path) in needed {
        if let Some(path) = path.filter(|path| !path.exists()) {
            return Err(format!("{what} is not at {}; run it as: {make}", path.display()));
        }
    }
    let fits = |stack: &&Stack| !(args.created || args.crowd) || stack.creates;
    let stacks = mpirun::chosen(all.iter().filter(fits), &args.stack)?;
    let bar = match args.json {
        true => indicatif::ProgressBar::hidden(),
        false => output::progress(args.rounds * stacks.len() as u32, String::new()),
    };
    let mut runs: BTreeMap<&'static str, Run> = BTreeMap::new();
    for _ in 0..args.rounds {
        for stack in &stacks {
            bar.set_message(stack.name);
            let run = runs.entry(stack.name).or_insert_with(|| Run {
                flags: stack.flags.to_owned(),
                error: None,
                crashed: Vec::new(),
                figures: Figures::new(),
            });
            // What a library crashes in is left out, and the rest is measured.
            while let Err(why) = once(args, stack, &run.crashed, &mut run.figures) {
                run.error = Some(why.text);
                match why.figure {
                    Some(figure) if run.crashed.len() < 4 && !run.crashed.contains(&figure) => {
                        run.crashed.push(figure);
                    }
                    _ => break,
                }
            }
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    let (ranks, windows) = (args.ranks(), args.windows());
    let figures = compare(args, &stacks, &runs);
    let report = Report { mpi, ranks, windows, figures, stacks: runs };
    output::report(&report, args.json, |out| report.print(&stacks, out))?;
    if report.stacks.values().all(|run| run.figures.is_empty()) {
        return Err("no stack gave a figure (see above, or `error` of --json)".into());
    }
    if let Some(path) = &args.svg {
        report.draw(&stacks, path)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Why a run failed.
struct Failure {
    text: String,
    /// What was being measured.
    figure: Option<String>,
}

/// One run of one stack, without some figures; what it printed before it ended
/// is taken into `figures` where it is better.
fn once(
    args: &Args,
    stack: &Stack,
    omitted: &[String],
    figures: &mut Figures,
) -> Result<(), Failure> {
    let failed = |text, figure| Err(Failure { text, figure });
    let session = match Session::new() {
        Ok(session) => session,
        Err(why) => return failed(why, None),
    };
    let (mut command, program) = match (&args.netmod, &args.components) {
        (Some(ours), _) => {
            let program = if stack.ours { ours } else { &args.program };
            (mpirun::mpiexec(stack, args.ranks()), program)
        }
        (None, Some(components)) => {
            (session.mpirun(stack, components, args.ranks()), &args.program)
        }
        (None, None) => return failed("--components or --netmod is missing".into(), None),
    };
    let half = match args {
        Args { created: true, .. } => "created",
        Args { crowd: true, .. } => "crowd",
        _ => stack.half,
    };
    command
        .arg(program)
        .args([args.slice.to_string(), args.samples.to_string(), half.to_owned()])
        .args(omitted);
    let outcome = mpirun::run(command, args.limit);
    let mut at = None;
    for (name, value) in outcome.out.lines().filter_map(|line| line.split_once(' ')) {
        if name == "at" {
            at = Some(value.to_owned());
        } else if let Ok(value) = value.trim().parse() {
            let known = figures.get(name).copied().unwrap_or(value);
            figures.insert(name.to_owned(), better(name, known, value));
        }
    }
    match (outcome.result, at) {
        (Ok(()), _) => Ok(()),
        (Err(why), Some(at)) => failed(format!("in {at}: {why}"), Some(at)),
        (Err(why), None) => failed(why, None),
    }
}

/// The names of all figures, in the benchmark's order.
const NAMES: [&str; 33] = [
    "send_latency_us",
    "send_rate_M/s",
    "send_bandwidth_MB/s",
    "send_vector_MB/s",
    "send_transposed_MB/s",
    "send_structures_MB/s",
    "put_latency_us",
    "put_rate_M/s",
    "put_bandwidth_MB/s",
    "put_8KiB_MB/s",
    "put_256KiB_MB/s",
    "get_8KiB_MB/s",
    "get_bandwidth_MB/s",
    "put_vector_MB/s",
    "put_transposed_MB/s",
    "put_structures_MB/s",
    "get_latency_us",
    "get_rate_M/s",
    "accumulate_latency_us",
    "accumulate_rate_M/s",
    "accumulate_1MiB_us",
    "accumulate_replace_1MiB_us",
    "get_accumulate_1MiB_us",
    "fetch_and_op_latency_us",
    "compare_and_swap_latency_us",
    "lock_shared_latency_us",
    "lock_exclusive_latency_us",
    "fence_us",
    "barrier_us",
    "allreduce_us",
    "alltoall_us",
    "allgather_us",
    "fences_1000_gets_us",
];

fn compare(args: &Args, stacks: &[&Stack], runs: &BTreeMap<&'static str, Run>) -> Vec<Figure> {
    let first = &args.family().1[0];
    let value = |stack: &Stack, name: &str| runs.get(stack.name)?.figures.get(name).copied();
    let figure = |name: &str| {
        let ours = value(first, name);
        let mut best: Option<(f64, &'static str)> = None;
        for stack in stacks.iter().filter(|stack| !stack.ours) {
            if let Some(v) = value(stack, name)
                && best.is_none_or(|(b, _)| better(name, v, b) == v)
            {
                best = Some((v, stack.name));
            }
        }
        let ratio = ours.zip(best).map(|(ours, (best, _))| ours / best);
        let bound = match args.netmod {
            Some(_) => Some(BOUND_OF_MPICH),
            None => BOUNDS.iter().find(|(n, _)| *n == name).map(|(_, bound)| *bound),
        };
        let meets = |(r, b): (f64, f64)| if lower_is_better(name) { r <= b } else { r >= b };
        Figure {
            name: name.to_owned(),
            lower_is_better: lower_is_better(name),
            ours,
            best: best.map(|(v, _)| v),
            best_stack: best.map(|(_, stack)| stack),
            ratio,
            bound,
            met: ratio.zip(bound).map(meets),
        }
    };
    let all = NAMES.into_iter().map(figure);
    all.filter(|figure| stacks.iter().any(|stack| value(stack, &figure.name).is_some())).collect()
}

impl Report {
    fn title(&self) -> &'static str {
        match self.mpi {
            "MPICH" => "MPI programs on the distribution's MPICH and on one with our netmod",
            _ => "MPI programs on Open MPI's own components and on ours",
        }
    }

    fn print(&self, stacks: &[&Stack], out: &mut impl Write) -> std::io::Result<()> {
        let mut heads = vec!["figure"];
        heads.extend(stacks.iter().map(|stack| stack.name));
        heads.extend(["ours /\nbest", "should\nbe"]);
        let mut table = Table::new(&heads);
        table.title(format!("{}, {} ranks, one node", self.title(), self.ranks));
        table.title(format!("Windows over {}", self.windows));
        table.title("8 bytes, rates with 64 under way, bandwidth of 1 MiB; the best of all runs");
        table.title(
            "Vectors of every second double, a matrix transposed, structures of 16 bytes in 24",
        );
        table.title(
            "Accumulates of 1 MiB: sums of doubles, doubles replaced, the larger of bytes with get",
        );
        let number = |v: f64| if v >= 100.0 { format!("{v:.0}") } else { format!("{v:.3}") };
        for figure in &self.figures {
            let mut cells = vec![figure.name.clone()];
            for stack in stacks {
                let value =
                    self.stacks.get(stack.name).and_then(|run| run.figures.get(&figure.name));
                cells.push(value.map_or_else(|| output::NONE.into(), |&v| number(v)));
            }
            cells.push(output::maybe(figure.ratio.map(|r| format!("{r:.2}"))));
            let sign = if figure.lower_is_better { "<=" } else { ">=" };
            cells.push(output::maybe(figure.bound.map(|b| format!("{sign} {b:.1}"))));
            table.row(&cells);
        }
        for (name, run) in &self.stacks {
            if let Some(why) = &run.error {
                table.note(format!("{name} failed: {why} ({})", run.flags));
            }
        }
        table.print(out)
    }

    /// Speed of every stack, the best of those that are not ours being 1.
    fn draw(&self, stacks: &[&Stack], path: &Path) -> Result<(), String> {
        let names: Vec<&str> = self.figures.iter().map(|f| f.name.as_str()).collect();
        let speed = |stack: &Stack, figure: &Figure| {
            let value = self.stacks.get(stack.name).and_then(|run| run.figures.get(&figure.name));
            match (value, figure.best) {
                (Some(&v), Some(best)) if figure.lower_is_better => best / v,
                (Some(&v), Some(best)) => v / best,
                _ => f64::NAN,
            }
        };
        let series: Vec<(&str, Vec<f64>)> = stacks
            .iter()
            .map(|&stack| (stack.name, self.figures.iter().map(|f| speed(stack, f)).collect()))
            .collect();
        let axis = format!("speed, the best of {}'s own = 1", self.mpi);
        plot::bars(path, self.title(), &names, &series, &axis).map_err(|e| e.to_string())
    }
}
