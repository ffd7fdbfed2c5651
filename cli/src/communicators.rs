//! `rankway communicators`: the catalogue's communicators in a real job of many ranks.

mod job;

use crate::output::{self, Table, count, several};
use crate::{maps, ranks};
use job::{Experiment, GATHERS, Job, MESSAGES, STEPS};
use rankway_cli::observe::figures::thesis::{TABLE_6_2, TABLE_6_3, TABLE_6_4};
use rankway_cli::observe::maps::{Builtin, CATALOG, Group};
use serde::Serialize;
use std::process::ExitCode;
use std::sync::Arc;

/// Communicators in a real job of many ranks in this process: made, sent through, gathered in
///
/// Every rank is there, as in `rankway grid`, and makes each communicator from the list of its
/// ranks, with the map that a process has. Then 10,000 messages go between random members, and
/// ten are gathered from all at the first; all are checked. Of the catalogue's communicators
/// (`rankway maps --list`) are taken the members that the job has.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Built-in communicators or groups of them
    #[arg(value_name = "MAP", default_value = "table6.1", value_parser = maps::named)]
    maps: Vec<Vec<&'static Builtin>>,

    /// Ranks: 1 to 1M; k is 1024, M is 1024k
    #[arg(short, long, value_name = "P", default_value = "20000", value_parser = ranks::number)]
    ranks: u32,

    #[command(flatten)]
    threads: ranks::Threads,

    /// For programs: one JSON object
    #[arg(long)]
    json: bool,
}

/// What one communicator took, of all ranks.
#[derive(Serialize)]
struct Made {
    name: &'static str,
    what: &'static str,
    members: usize,
    create_seconds: f64,
    messages_seconds: f64,
    gathers_seconds: f64,
    /// Of each member.
    heap_bytes: f64,
    /// What the thesis has of it.
    thesis: Option<Thesis>,
}

/// Seconds of 200,000 ranks on 8 machines, its canonical representation.
#[derive(Clone, Copy, Serialize)]
struct Thesis {
    create: f64,
    messages: f64,
    gathers: f64,
}

#[derive(Serialize)]
struct Report {
    ranks: u32,
    threads: u32,
    messages: usize,
    gathers: u32,
    start_seconds: f64,
    communicators: Vec<Made>,
}

pub(crate) fn value(args: &Args) -> Result<serde_json::Value, String> {
    output::value(&measured(args)?)
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, String> {
    let report = measured(args)?;
    output::report(&report, args.json, |out| table(&report).print(out))?;
    Ok(ExitCode::SUCCESS)
}

/// What the thesis has of a communicator of its table 6.1.
fn thesis(of: &Builtin) -> Option<Thesis> {
    let mut table = CATALOG.iter().filter(|one| one.group == Group::Table61);
    let at = table.position(|one| one.name == of.name)?;
    let [create, messages, gathers] = [TABLE_6_2, TABLE_6_3, TABLE_6_4].map(|it| it[at][0]);
    Some(Thesis { create, messages, gathers })
}

fn measured(args: &Args) -> Result<Report, String> {
    let all: Vec<&'static Builtin> = args.maps.iter().flatten().copied().collect();
    let experiments = all.iter().map(|one| Experiment::new(one, args.ranks));
    let experiments = experiments.collect::<Result<Vec<_>, _>>()?;
    let threads = args.threads.of(args.ranks);
    let bar = output::progress(1 + (STEPS * all.len()) as u64, "steps".to_owned());
    bar.set_message("start");
    let (told, names) = (bar.clone(), all.clone());
    let job = Job::new(args.ranks, experiments, move |ended| {
        told.set_position(ended as u64);
        told.set_message(names.get((ended - 1) / STEPS).map_or("end", |one| one.name));
    })?;
    let each = Arc::clone(&job);
    ranks::run(args.ranks, threads, move |rank| each.rank(rank))?;
    bar.finish_and_clear();
    let counts = job.steps.counts();
    let steps = counts[1..].chunks_exact(STEPS);
    let made = all.iter().zip(&job.experiments).zip(steps).map(|((one, experiment), steps)| Made {
        name: one.name,
        what: one.what,
        members: experiment.lpids.len(),
        create_seconds: steps[0].seconds,
        messages_seconds: steps[1].seconds,
        gathers_seconds: steps[2].seconds,
        heap_bytes: steps[0].heap_bytes as f64 / experiment.lpids.len() as f64,
        thesis: thesis(one),
    });
    Ok(Report {
        communicators: made.collect(),
        ranks: args.ranks,
        threads,
        messages: MESSAGES,
        gathers: GATHERS,
        start_seconds: counts[0].seconds,
    })
}

fn table(report: &Report) -> Table {
    let theirs = report.communicators.iter().any(|made| made.thesis.is_some());
    let mut head =
        vec!["seconds", "members", "create", "messages", "gathers", "heap bytes\na member"];
    if theirs {
        head.extend(["thesis:\ncreate", "\nmessages", "\ngathers"]);
    }
    let mut table = Table::new(&head);
    let Report { ranks, threads, messages, gathers, .. } = report;
    table
        .title(format!(
            "rankway communicators: {} ranks in this process, run by {}",
            count(u64::from(*ranks)),
            several(u64::from(*threads), "thread", "threads")
        ))
        .title(format!(
            "Each: {} messages between random members and {gathers} gathers, all checked; 0 wrong.",
            count(*messages as u64)
        ));
    for made in &report.communicators {
        let mut row = vec![
            made.name.to_owned(),
            count(made.members as u64),
            output::number(made.create_seconds, 2),
            output::number(made.messages_seconds, 2),
            output::number(made.gathers_seconds, 2),
            output::number(made.heap_bytes, 0),
        ];
        if let Some(Thesis { create, messages, gathers }) = made.thesis {
            row.extend([create, messages, gathers].map(|seconds| output::number(seconds, 2)));
        }
        table.row(&row);
    }
    if theirs {
        table.note(
            "Thesis: Mir Taheri (2011), tables 6.2 to 6.4, canonical: 200,000 ranks on 8 machines.",
        );
    }
    table
}
