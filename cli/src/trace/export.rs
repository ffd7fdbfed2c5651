//! `rankway trace export`: traces in the forms that other tools read.
//!
//! ```text
//! edges      the calls of a thread as what begins and ends
//! flows      which receive takes which send
//! csv        tables
//! perfetto   a timeline for ui.perfetto.dev
//! otf2       an archive for the tools of OTF2
//! ```
//!
//! Files are read twice: first for definitions, which stay, then one process after another
//! for its events, which do not.

mod csv;
mod edges;
#[cfg(test)]
mod fixture;
mod flows;
mod otf2;
mod perfetto;

pub(super) use otf2::write_definitions;

use super::load::{Recorded, Source, Traces};
use crate::clock::thread_ns;
use crate::output::{NONE, Table, bytes, count, number, progress, several};
use crate::target::Target;
use rankway::track::{Constructor, Identity, Kind, ProcessTrace, Unified};
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt::Display;
use std::fs::File;
use std::path::PathBuf;

/// Traces in the forms that other tools read: OTF2's archives, Perfetto's timeline, tables
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    source: Source,

    #[command(flatten)]
    targets: Targets,

    /// Replaces what is there already
    #[arg(long)]
    force: bool,

    /// For programs: one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
#[group(required = true, multiple = true)]
struct Targets {
    /// An archive for otf2-print, Vampir, Scalasca, in a directory; by the OTF2 library
    #[arg(long, value_name = "DIR")]
    otf2: Option<PathBuf>,

    /// A timeline for https://ui.perfetto.dev, with an arrow for each message
    #[arg(long, value_name = "FILE")]
    perfetto: Option<PathBuf>,

    /// Tables of events, communicators, definitions and processes, in a directory
    #[arg(long, value_name = "DIR")]
    csv: Option<PathBuf>,
}

/// What is known before events are written.
struct Survey {
    /// Without events.
    traces: Traces,
    /// What all of them say together.
    unified: Unified,
    /// When the first process began to record, in ns since 1970.
    begin: u64,
    /// No two processes have the same number.
    pids_differ: bool,
}

/// A form that is written.
trait Export {
    /// Takes the `at`-th process, with its events.
    fn process(&mut self, survey: &Survey, at: usize, trace: &ProcessTrace) -> Result<(), String>;

    /// Puts it in its place. Returns how many records it has, and bytes.
    fn finish(self: Box<Self>, survey: &Survey) -> Result<(u64, u64), String>;
}

#[derive(Serialize)]
struct Answer {
    events: u64,
    exports: Vec<Written>,
}

#[derive(Serialize)]
struct Written {
    format: &'static str,
    target: String,
    records: u64,
    bytes: u64,
    cpu_seconds: f64,
    events_per_second: Option<f64>,
    bytes_per_event: Option<f64>,
}

struct Writing {
    format: &'static str,
    target: String,
    export: Box<dyn Export>,
    nanos: u64,
}

impl Writing {
    fn timed<T>(&mut self, does: impl FnOnce(&mut Box<dyn Export>) -> T) -> T {
        let begun = thread_ns();
        let done = does(&mut self.export);
        self.nanos += thread_ns() - begun;
        done
    }
}

pub(crate) fn run(args: &Args) -> Result<(), String> {
    let targets = open(args)?;
    let survey = Survey::of(&args.source)?;
    let mut all = Vec::new();
    for (format, target) in targets {
        let place = target.place().display().to_string();
        let begun = thread_ns();
        let export: Box<dyn Export> = match format {
            "otf2" => Box::new(otf2::Otf2::create(target, &survey)?),
            "perfetto" => Box::new(perfetto::Perfetto::create(target)?),
            _ => Box::new(csv::Csv::create(target)?),
        };
        all.push(Writing { format, target: place, export, nanos: thread_ns() - begun });
    }
    let mut events = 0;
    let bar = progress(survey.files().map(|file| file.len).sum::<u64>(), "exporting".to_owned());
    for (at, file) in survey.files().enumerate() {
        let trace = with_events(file)?;
        events += trace.events.values().map(|events| events.len() as u64).sum::<u64>();
        for one in &mut all {
            one.timed(|export| export.process(&survey, at, &trace))?;
        }
        bar.inc(file.len);
    }
    bar.finish_and_clear();
    let mut exports = Vec::new();
    for Writing { format, target, export, nanos } in all {
        let begun = thread_ns();
        let (records, bytes) = export.finish(&survey)?;
        let cpu_seconds = (nanos + thread_ns() - begun) as f64 / 1e9;
        let each = |value: f64| (events > 0 && value.is_finite()).then_some(value);
        let events_per_second = each(events as f64 / cpu_seconds);
        let bytes_per_event = each(bytes as f64 / events as f64);
        exports.push(Written {
            format,
            target,
            records,
            bytes,
            cpu_seconds,
            events_per_second,
            bytes_per_event,
        });
    }
    answer(args, &survey, events, exports)
}

/// A process with its events, as far as they were there when it was read first.
fn with_events(file: &Recorded) -> Result<ProcessTrace, String> {
    let fails = |why: &dyn Display| format!("{}: {why}", file.path.display());
    let opened = File::open(&file.path).map_err(|e| fails(&e))?;
    ProcessTrace::with_events(opened, file.len).map_err(|e| fails(&e))
}

/// Every target, before anything is read.
fn open(args: &Args) -> Result<Vec<(&'static str, Target)>, String> {
    let mut targets = Vec::new();
    if let Some(directory) = &args.targets.otf2 {
        targets.push(("otf2", Target::directory(directory, args.force)?));
    }
    if let Some(file) = &args.targets.perfetto {
        targets.push(("perfetto", Target::file(file, args.force)?));
    }
    if let Some(directory) = &args.targets.csv {
        targets.push(("csv", Target::directory(directory, args.force)?));
    }
    Ok(targets)
}

fn answer(args: &Args, survey: &Survey, events: u64, exports: Vec<Written>) -> Result<(), String> {
    if args.json {
        return survey.traces.json("export", Answer { events, exports });
    }
    let mut table =
        Table::new(&["", "records", "size", "bytes an\nevent", "M events\na CPU second"]);
    survey.traces.head(&mut table);
    let maybe = |value: Option<f64>, scale: f64| {
        value.map_or_else(|| NONE.to_owned(), |value| number(value / scale, 1))
    };
    for one in &exports {
        table.row(&[
            one.target.clone(),
            count(one.records),
            bytes(one.bytes),
            maybe(one.bytes_per_event, 1.0),
            maybe(one.events_per_second, 1e6),
        ]);
    }
    table.note(format!(
        "{} of {}",
        several(events, "event", "events"),
        several(survey.files().count() as u64, "process", "processes")
    ));
    crate::output::print(|out| table.print(out))
}

impl Survey {
    fn of(source: &Source) -> Result<Survey, String> {
        let traces = source.load()?;
        let headers = || traces.processes().map(|one| &one.header);
        let pids: BTreeSet<u32> = headers().map(|one| one.pid).collect();
        Ok(Survey {
            begin: headers().map(|one| one.unix_nanos).min().unwrap_or(0),
            pids_differ: pids.len() == headers().count(),
            unified: traces.unified(),
            traces,
        })
    }

    /// How a process is called: by the place of its job in what all say together, and rank.
    fn label(&self, job: usize, rank: u32) -> String {
        self.traces.label(self.unified.jobs.get(job).map_or(0, |job| job.number), rank)
    }

    /// Files of the processes, in the order of the traces.
    fn files(&self) -> impl Iterator<Item = &Recorded> {
        self.traces.jobs.iter().flat_map(|job| &job.files)
    }
}

/// What an object is called: as the program named it, or by what made it and what names it
/// on all its members.
fn object_name(name: Option<&str>, made_by: Constructor, identity: Identity) -> String {
    match (name, made_by) {
        (Some(name), _) => name.to_owned(),
        (None, Constructor::World | Constructor::ItSelf) => made_by.name().to_owned(),
        (None, _) => format!("{made_by} {:016x}", identity.0),
    }
}

/// What was called where the kind alone does not say: the constructor.
fn called(kind: Kind, made_by: Option<Constructor>) -> Option<Constructor> {
    made_by.filter(|_| matches!(kind, Kind::CommConstruct | Kind::WinConstruct))
}
