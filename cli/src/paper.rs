//! `rankway paper`: tables and figures of five papers beside ours from this machine.
//!
//! ```text
//! item      a table or figure, its lines, what is worse
//! answers   what the other commands answer, each asked once
//! guo, goodell, geimer, byna, taheri   the items of each paper
//! text      all of it as text and as the page docs/papers.md
//! check     a page beside another one, times aside
//! charts    the figures as SVG
//! ```

mod answers;
mod byna;
mod charts;
mod check;
mod geimer;
mod goodell;
mod guo;
mod item;
mod taheri;
mod text;

use crate::fixture;
use crate::output::{self, Table};
use crate::trace;
use answers::Answers;
use item::{Item, Line, Outcome, Paper};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const HELP: &str = "\
Examples:
  rankway paper                            all, in some minutes
  rankway paper --quick                    within a minute or so: times of few rounds
  rankway paper --only guo/table-4,byna    a table of one paper, and all of another
  rankway paper --svg charts               the figures, a file each
  rankway paper --traces run1,run2         the census of Table I, of what `rankway trace record` wrote
  rankway paper --list                     all names

Papers: guo (Guo et al. 2017, Memory Compression Techniques for Network Address Management in MPI), \
goodell (Goodell et al. 2011, Scalable Memory Use in MPI: A Case Study with MPICH2), taheri (Mir \
Taheri 2011, Scalability of Communicators in MPI), geimer (Geimer et al. 2011, Scaling Performance \
Tool MPI Communicator Management), byna (Byna et al. 2004, Improving the Performance of MPI Derived \
Datatypes by Optimizing Memory-Access Cost).

Each line says where it is from: paper (its own figure), measured (timed here), counted (the same \
each time), simulated (of processes, caches or a network that are not there), computed (by formula). \
! is a figure that is worse than the paper's of the line that it is held against.

Keys of --json: command, version, quick, compiler; items [{paper, item, label, title, unit, columns, \
lines [{name, how, values, worse}], notes, commands, not_had}]; worse [{paper, item, line, column}]. \
An absent figure is null.";

/// Tables and figures of the papers that this is built on, beside ours from this machine
#[derive(clap::Args)]
#[command(after_long_help = HELP, after_help = "More, with examples: rankway paper --help")]
pub(crate) struct Args {
    /// Papers, or PAPER/ITEM, as --list has them [default: all]
    #[arg(long, value_name = "PAPER[/ITEM]", value_delimiter = ',', value_parser = selected)]
    only: Vec<Selected>,

    /// Times of few rounds, and none of what takes long
    #[arg(long)]
    quick: bool,

    /// Programs that were recorded, for the census: directories of `rankway trace record`
    #[arg(long, value_name = "DIR,...", value_delimiter = ',')]
    traces: Vec<PathBuf>,

    /// Draws the figures into this folder, which is made if it is not there
    #[arg(long, value_name = "DIR", value_parser = folder)]
    svg: Option<PathBuf>,

    /// For programs: one JSON object, keys as in --help
    #[arg(long, conflicts_with_all = ["markdown", "check"])]
    json: bool,

    /// As the page docs/papers.md
    #[arg(long, conflicts_with = "check")]
    markdown: bool,

    /// Compares with a page that --markdown printed, times aside, and exits with an error where
    /// they differ
    #[arg(long, value_name = "FILE")]
    check: Option<PathBuf>,

    /// Shows the names
    #[arg(short, long, conflicts_with_all = ["only", "svg", "json", "markdown", "check"])]
    list: bool,
}

const PAPERS: [Paper; 5] = [guo::PAPER, goodell::PAPER, taheri::PAPER, geimer::PAPER, byna::PAPER];

/// Models of Guo et al.'s tables.
const MODELS: [&str; 5] = ["direct", "offset", "stride", "lut", "mlut"];

/// What Guo et al. and Mir Taheri call MB: their figures are whole numbers of it.
fn mib(bytes: f64) -> f64 {
    bytes / f64::from(1 << 20)
}

/// A paper, or one of its items.
#[derive(Clone, Debug)]
struct Selected {
    paper: &'static str,
    item: Option<&'static str>,
}

fn selected(text: &str) -> Result<Selected, String> {
    let (paper, item) = match text.split_once('/') {
        Some((paper, item)) => (paper, Some(item)),
        None => (text, None),
    };
    let none = || format!("there is no '{text}'; rankway paper --list has the names");
    let paper = PAPERS.iter().find(|one| one.key == paper).ok_or_else(none)?;
    let item = match item {
        Some(item) => Some(paper.items.iter().find(|one| one.key == item).ok_or_else(none)?.key),
        None => None,
    };
    Ok(Selected { paper: paper.key, item })
}

/// A folder that charts can be written into; only its last part is made.
fn folder(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    if path.is_dir() {
        return Ok(path);
    }
    std::fs::create_dir(&path).map_err(|e| format!("cannot be made: {e}"))?;
    Ok(path)
}

/// An item as it came out.
#[derive(Serialize)]
struct Shown {
    paper: &'static str,
    item: &'static str,
    label: String,
    title: &'static str,
    unit: &'static str,
    columns: Vec<String>,
    lines: Vec<Line>,
    notes: Vec<String>,
    /// What was asked for it.
    commands: Vec<String>,
    /// Why figures of ours are missing.
    not_had: Option<String>,
    #[serde(skip)]
    chart: Option<item::Chart>,
}

/// A figure of ours that is worse than the paper's.
#[derive(Serialize)]
struct Worse {
    paper: &'static str,
    item: &'static str,
    line: String,
    column: String,
}

#[derive(Serialize)]
struct Report {
    command: &'static str,
    version: &'static str,
    quick: bool,
    compiler: &'static str,
    items: Vec<Shown>,
    worse: Vec<Worse>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, String> {
    if args.list {
        return list();
    }
    fixture::find_null_provider();
    // (What cannot be read is said before anything is measured.)
    for directory in &args.traces {
        trace::recorded(directory).map_err(|why| format!("--traces: {why}"))?;
    }
    let page = args.check.as_deref().map(check::read).transpose()?;
    let report = report(args);
    if let Some(folder) = &args.svg {
        charts::draw(&report, folder)?;
    }
    if let (Some(page), Some(path)) = (page, &args.check) {
        return check::compare(&page, &report, path);
    }
    let out = match (args.json, args.markdown) {
        (true, _) => output::json(&report)?,
        (_, true) => text::page(&report).into_bytes(),
        _ => text::plain(&report)?.into_bytes(),
    };
    output::emit(&out)?;
    Ok(ExitCode::SUCCESS)
}

fn list() -> Result<ExitCode, String> {
    let mut table = Table::new(&["paper/item", "is", "of"]);
    for paper in &PAPERS {
        table.note(format!("{}: {}", paper.key, paper.label));
        for item in paper.items {
            table.row(&[&format!("{}/{}", paper.key, item.key), item.label, item.title]);
        }
    }
    output::print(|out| table.print(out))?;
    Ok(ExitCode::SUCCESS)
}

fn report(args: &Args) -> Report {
    let wanted = |paper: &Paper, item: &Item| {
        let of = |one: &Selected| {
            one.paper == paper.key && one.item.is_none_or(|wanted| wanted == item.key)
        };
        args.only.is_empty() || args.only.iter().any(of)
    };
    let items = PAPERS.iter().flat_map(|paper| paper.items.iter().map(move |item| (paper, item)));
    let items: Vec<(&Paper, &Item)> = items.filter(|(paper, item)| wanted(paper, item)).collect();
    let mut answers = Answers::new(args.quick, args.traces.clone());
    let bar = output::progress(items.len() as u64, String::new());
    let mut shown = Vec::with_capacity(items.len());
    for (paper, item) in items {
        bar.set_message(format!("{}, {}", paper.label, item.label));
        let mut outcome = Outcome::default();
        let measured = (item.measure)(&mut answers, &mut outcome);
        shown.push(Shown {
            paper: paper.key,
            item: item.key,
            label: format!("{}, {}", paper.label, item.label),
            title: item.title,
            unit: outcome.unit,
            columns: outcome.columns,
            lines: outcome.lines,
            notes: outcome.notes,
            commands: answers.take_asked(),
            not_had: measured.err(),
            chart: outcome.chart,
        });
        bar.inc(1);
    }
    bar.finish_and_clear();
    let worse = shown.iter().flat_map(Shown::worse).collect();
    Report {
        command: "paper",
        version: env!("CARGO_PKG_VERSION"),
        quick: args.quick,
        compiler: env!("RANKWAY_RUSTC"),
        items: shown,
        worse,
    }
}

impl Shown {
    fn worse(&self) -> impl Iterator<Item = Worse> {
        let of = |line: &'_ Line| {
            let columns = self.columns.iter().zip(&line.worse).filter(|(_, worse)| **worse);
            let name = line.name.clone();
            let columns = columns.map(|(column, _)| column.clone()).collect::<Vec<_>>();
            columns.into_iter().map(move |column| (name.clone(), column))
        };
        let (paper, item) = (self.paper, self.item);
        self.lines.iter().flat_map(of).map(move |(line, column)| Worse {
            paper,
            item,
            line,
            column,
        })
    }

    /// What the file of its chart is called.
    fn file(&self, folder: &Path) -> PathBuf {
        folder.join(format!("{}-{}.svg", self.paper, self.item))
    }
}
