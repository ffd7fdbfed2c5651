//! `rankway simulate`: what one process of a large job does from its start to its end, and how
//! that grows with the job.

mod growth;
mod process;

use crate::arguments;
use crate::output::{self, Table, count};
use crate::plot;
use growth::Growth;
use process::{Counts, Process, STEPS, Steps};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What one process of a large job does, step by step, and how it grows with the job
///
/// The process is real: device, address vector, communicators, windows and the null netmod, which
/// completes at once. The other processes are not there: the launcher's store answers with this
/// process's own values, and in collectives they say what a function of their rank says; what
/// they would compute is not counted in times. Messages are those of the set-up channel that this
/// process sends, questions the values it asks the launcher for. Peak bytes are the most that a
/// step needs on the heap at a time; kept bytes are what stays, pages of the address vector too.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Processes of the largest job: 1024 to 16M; k is 1024, M is 1024k
    #[arg(short, long, value_name = "P", default_value = "16M", value_parser = processes)]
    processes: u32,

    /// Ranks on each node
    #[arg(long, value_name = "N", default_value = "64", value_parser = per_node)]
    ppn: u32,

    /// Odd/even splits of the world, one after the other, all kept
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = arguments::within::<u32>(1..=10_000))]
    splits: u32,

    /// For programs: one JSON object
    #[arg(long)]
    json: bool,

    /// Draws the time of each step by processes
    #[arg(long, value_name = "FILE", value_parser = arguments::chart)]
    svg: Option<PathBuf>,
}

const SMALLEST: u32 = 1 << 10;
const LARGEST: u32 = 16 << 20;

fn processes(text: &str) -> Result<u32, String> {
    let size = arguments::number(text)?;
    let possible = (SMALLEST..=LARGEST).contains(&size);
    possible.then_some(size).ok_or_else(|| "from 1k to 16M processes".into())
}

fn per_node(text: &str) -> Result<u32, String> {
    let ranks = arguments::number(text)?;
    let possible = (1..=SMALLEST).contains(&ranks);
    possible.then_some(ranks).ok_or_else(|| "from 1 to 1024 ranks on a node".into())
}

/// A step at each size of the job.
#[derive(Serialize)]
struct Step {
    step: &'static str,
    counts: Vec<Counts>,
    growth: Grown,
}

/// How each count grows with the job.
#[derive(Serialize)]
struct Grown {
    microseconds: Option<Growth>,
    kept_bytes: Option<Growth>,
    peak_bytes: Option<Growth>,
    questions: Option<Growth>,
    messages: Option<Growth>,
    message_bytes: Option<Growth>,
}

#[derive(Serialize)]
struct Report {
    processes: Vec<u32>,
    ppn: u32,
    splits: u32,
    simulated: &'static str,
    steps: Vec<Step>,
}

const SIMULATED: &str = "other processes, the launcher's store and the network";

/// A count, by the name of its table.
type Count = (&'static str, fn(&Counts) -> f64, fn(&Grown) -> Option<Growth>);

const TABLES: [Count; 6] = [
    ("microseconds", |it| it.microseconds, |it| it.microseconds),
    ("bytes kept", |it| it.kept_bytes as f64, |it| it.kept_bytes),
    ("peak bytes", |it| it.peak_bytes as f64, |it| it.peak_bytes),
    ("questions to the launcher", |it| it.questions as f64, |it| it.questions),
    ("messages", |it| it.messages as f64, |it| it.messages),
    ("bytes in messages", |it| it.message_bytes as f64, |it| it.message_bytes),
];

pub(crate) fn run(args: &Args) -> Result<ExitCode, String> {
    let mut sizes: Vec<u32> = std::iter::successors(Some(SMALLEST), |size| size.checked_mul(4))
        .take_while(|&size| size < args.processes)
        .collect();
    sizes.push(args.processes);
    let bar = output::progress(sizes.len() as u64, "jobs".to_owned());
    let mut all: Vec<Steps> = Vec::new();
    for &size in &sizes {
        bar.set_message(format!("a job of {}", count(u64::from(size))));
        all.push(Process::new(size, args.ppn, args.splits).lives()?);
        bar.inc(1);
    }
    bar.finish_and_clear();
    let steps = STEPS.iter().enumerate().map(|(at, step)| {
        let counts: Vec<Counts> = all.iter().map(|steps| steps[at]).collect();
        Step { step, growth: grown(&sizes, &counts), counts }
    });
    let report = Report {
        steps: steps.collect(),
        processes: sizes,
        ppn: args.ppn,
        splits: args.splits,
        simulated: SIMULATED,
    };
    if let Some(path) = &args.svg {
        draw(&report, path)?;
    }
    output::report(&report, args.json, |out| table(&report).print(out))?;
    Ok(ExitCode::SUCCESS)
}

fn grown(sizes: &[u32], counts: &[Counts]) -> Grown {
    let of = |count: fn(&Counts) -> f64, resolution: f64| {
        let points = sizes.iter().zip(counts).map(|(&size, counts)| (size, count(counts)));
        Growth::of(&points.collect::<Vec<_>>(), resolution)
    };
    Grown {
        // Below that the clock and the processor's caches decide.
        microseconds: of(|it| it.microseconds, 50.0),
        kept_bytes: of(|it| it.kept_bytes as f64, 256.0),
        peak_bytes: of(|it| it.peak_bytes as f64, 1024.0),
        questions: of(|it| it.questions as f64, 1.0),
        messages: of(|it| it.messages as f64, 1.0),
        message_bytes: of(|it| it.message_bytes as f64, 256.0),
    }
}

fn table(report: &Report) -> Table {
    let sizes = report.processes.iter().map(|&size| output::short(size));
    let head: Vec<String> =
        ["".to_owned()].into_iter().chain(sizes).chain(["growth".to_owned()]).collect();
    let mut table = Table::new(&head);
    let Report { ppn, splits, .. } = report;
    table
        .title(format!("rankway simulate: one process, {ppn} on a node; by processes of the job"))
        .title(format!("Simulated: {SIMULATED}. Splits: each of {splits}, odd and even ranks."));
    for (name, value, growth) in TABLES {
        table.note("").note(name);
        for step in &report.steps {
            let mut cells = vec![step.step.to_owned()];
            cells.extend(step.counts.iter().map(|counts| figure(value(counts))));
            cells.push(growth(&step.growth).map_or(output::NONE.to_owned(), |it| it.to_string()));
            table.row(&cells);
        }
    }
    table
}

fn figure(value: f64) -> String {
    if value.fract() == 0.0 || value >= 100.0 {
        count(value.round() as u64)
    } else {
        format!("{value:.1}")
    }
}

fn draw(report: &Report, path: &Path) -> Result<(), String> {
    let series: Vec<(&str, Vec<(f64, f64)>)> = report
        .steps
        .iter()
        .map(|step| {
            let points = report.processes.iter().zip(&step.counts);
            let points = points.map(|(&size, counts)| (f64::from(size), counts.microseconds));
            (step.step, points.collect())
        })
        .collect();
    let title = "One process of a simulated job: time of each step";
    plot::lines(path, title, &series, "processes of the job", "microseconds")
        .map_err(|e| e.to_string())
}
