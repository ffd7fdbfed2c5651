//! `rankway grid`: a job of many ranks, all of them real and in this process, on a grid of three
//! dimensions.

mod job;

use crate::output::{self, Table, count, several};
use crate::ranks::{self, Counts};
use job::{Grid, STEPS};
use serde::Serialize;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A real job of up to a million ranks in this process: what it makes and puts, checked
///
/// Every rank is there, with a device, address vector, communicators and windows of its own, as a
/// coroutine; few threads run all of them. The network copies between them, the launcher's store
/// and the set-up channel stay in memory, and each rank is on a node of its own. What each says to
/// others is what one of as many processes says. Messages are those of the set-up channel, heap
/// bytes what a step leaves behind.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Ranks: 1 to 1M; k is 1024, M is 1024k
    #[arg(short, long, value_name = "P", default_value = "100000", value_parser = ranks::number)]
    ranks: u32,

    #[command(flatten)]
    threads: ranks::Threads,

    /// For programs: one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Step {
    step: &'static str,
    #[serde(flatten)]
    counts: Counts,
}

#[derive(Serialize)]
struct Report {
    ranks: u32,
    dims: [u32; 3],
    threads: u32,
    /// All checked.
    puts: u64,
    messages: u64,
    steps: Vec<Step>,
    /// Touched, of all ranks.
    stack_bytes: usize,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, String> {
    let threads = args.threads.of(args.ranks);
    let bar = output::progress(STEPS.len() as u64, "steps".to_owned());
    bar.set_message(STEPS[0]);
    let told = bar.clone();
    let grid = Grid::new(args.ranks, move |ended| {
        told.set_position(ended as u64);
        told.set_message(STEPS[ended]);
    })?;
    let each = Arc::clone(&grid);
    let stack_bytes = ranks::run(args.ranks, threads, move |rank| each.rank(rank))?;
    bar.finish_and_clear();
    let steps = STEPS.iter().zip(grid.steps.counts()).map(|(step, counts)| Step { step, counts });
    let report = Report {
        ranks: args.ranks,
        dims: grid.dims,
        threads,
        puts: grid.puts.load(Ordering::Relaxed),
        messages: grid.messages.load(Ordering::Relaxed),
        steps: steps.collect(),
        stack_bytes,
    };
    output::report(&report, args.json, |out| table(&report).print(out))?;
    Ok(ExitCode::SUCCESS)
}

fn table(report: &Report) -> Table {
    let head =
        ["", "seconds", "us a rank", "messages\na rank", "bytes in\nthem", "heap bytes\na rank"];
    let mut table = Table::new(&head);
    let Report { ranks, dims: [x, y, z], threads, .. } = report;
    table
        .title(format!(
            "rankway grid: {} ranks in this process, {x} x {y} x {z}, run by {}",
            count(u64::from(*ranks)),
            several(u64::from(*threads), "thread", "threads")
        ))
        .title(format!(
            "Checked: {} puts and {} messages; 0 wrong.",
            count(report.puts),
            count(report.messages)
        ));
    let each = |of: f64| of / f64::from(*ranks);
    for Step { step, counts } in &report.steps {
        table.row(&[
            (*step).to_owned(),
            output::number(counts.seconds, 2),
            output::number(each(counts.seconds * 1e6), 1),
            output::number(each(counts.messages as f64), 1),
            output::number(each(counts.message_bytes as f64), 0),
            output::number(each(counts.heap_bytes as f64), 0),
        ]);
    }
    let stacks = output::number(each(report.stack_bytes as f64), 0);
    table.note(format!("Stacks: {stacks} bytes a rank touched."));
    table
}
