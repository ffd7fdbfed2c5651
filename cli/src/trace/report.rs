//! `rankway trace report`: all of it as one page, which needs nothing from outside.

use super::calls::Program;
use super::comms::{Comms, Tree};
use super::leaks::Leaks;
use super::load::{Source, Traces};
use super::matrix::{Matrix, Moves};
use super::picture::escape;
use super::replay::{Visitor, replay};
use super::timeline::{Spent, Timeline};
use super::waits::{Waiting, Waits};
use crate::arguments;
use crate::output::{Table, shown};
use crate::target;
use std::fmt::Write;
use std::path::PathBuf;

/// All of it as one page: tree, census, matrix, leaks, timeline, waits
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    source: Source,

    /// The page
    #[arg(short, long, value_name = "FILE", default_value = "report.html", value_parser = arguments::chart)]
    output: PathBuf,
}

const STYLE: &str = "
:root { color-scheme: light dark; --ground: #ffffff; --ink: #222222; --pale: #d8d8d8; --quiet: #666666; }
@media (prefers-color-scheme: dark) {
  :root { --ground: #181a1b; --ink: #e4e4e4; --pale: #3a3d40; --quiet: #a0a0a0; }
}
body { background: var(--ground); color: var(--ink); font: 15px/1.5 Helvetica, Arial, sans-serif;
  max-width: 1240px; margin: 0 auto; padding: 1rem 1.5rem 4rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.2rem; margin-top: 2.5rem; }
nav a { color: inherit; margin-right: 1.2rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: 0.85rem; font-variant-numeric: tabular-nums; }
th, td { border-bottom: 1px solid var(--pale); padding: 0.2rem 0.7rem; text-align: right; white-space: nowrap; }
th { vertical-align: bottom; white-space: pre; }
th:first-child, td:first-child { text-align: left; white-space: pre; }
.note { color: var(--quiet); font-size: 0.9rem; }
svg { width: 100%; height: auto; }
";

pub(crate) fn run(args: &Args) -> Result<(), String> {
    let traces = args.source.load()?;
    let page = page(&traces)?;
    target::replace(&args.output, page.as_bytes())
        .map_err(|e| format!("cannot write the page {}: {e}", args.output.display()))?;
    let said = format!(
        "# page: {} ({})\n",
        args.output.display(),
        crate::output::bytes(page.len() as u64)
    );
    crate::output::emit(said.as_bytes())
}

/// The page.
fn page(traces: &Traces) -> Result<String, String> {
    let program = Program::of(traces);
    let (mut tree, mut moves) = (Tree::new(&program), Moves::new(&program, None)?);
    let mut spent = Spent::new(&program, 0.0, None, true)?;
    let mut waiting = Waiting::default();
    let visitors: &mut [&mut dyn Visitor] = &mut [&mut tree, &mut moves, &mut spent, &mut waiting];
    let unmatched = replay(&program, true, visitors)?;
    let comms = Comms::new(&program, tree);
    let matrix = Matrix::new(&program, moves, false);
    let timeline = Timeline::new(&program, spent);
    let waits = Waits::new(&program, waiting, &unmatched);
    let leaks = Leaks::of(traces);

    let title = traces.jobs.iter().find_map(|job| job.summary().program());
    let title = shown(title.as_deref().unwrap_or("a program"));
    let title = escape(&format!("Trace of {title}"));
    let mut body = format!("<h1>{title}</h1>\n");
    for line in traces.title() {
        paragraph(&mut body, &line);
    }
    let sections = [
        ("communicators", "Communicators", String::new(), vec![comms.tree(false)]),
        ("census", "Maps", String::new(), vec![comms.census_table()]),
        (
            "matrix",
            "Who sent how much to whom",
            matrix.picture().inline("who sent how much to whom"),
            vec![matrix.table(traces)],
        ),
        ("leaks", "What was never freed", String::new(), vec![leaks.table(traces)]),
        (
            "timeline",
            "What each rank did when",
            timeline.picture(&program).inline("calls by rank and time"),
            vec![timeline.table(traces)],
        ),
        ("waits", "Who waited", String::new(), waits.tables(traces)),
    ];
    body.push_str("<nav>");
    for (id, name, ..) in &sections {
        add(&mut body, format_args!("<a href=\"#{id}\">{name}</a>"));
    }
    body.push_str("</nav>\n");
    for (id, name, picture, tables) in &sections {
        add(&mut body, format_args!("<section id=\"{id}\">\n<h2>{name}</h2>\n"));
        if !picture.is_empty() {
            add(&mut body, format_args!("<div class=\"wide\">{picture}</div>\n"));
        }
        tables.iter().for_each(|one| table(&mut body, one));
        body.push_str("</section>\n");
    }
    let version = env!("CARGO_PKG_VERSION");
    Ok(format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <meta name=\"generator\" content=\"rankway {version}\"/>\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n{body}</body>\n</html>\n"
    ))
}

fn add(page: &mut String, what: std::fmt::Arguments<'_>) {
    // A String takes all.
    let _ = page.write_fmt(what);
}

fn paragraph(page: &mut String, line: &str) {
    add(page, format_args!("<p class=\"note\">{}</p>\n", escape(line)));
}

fn table(page: &mut String, table: &Table) {
    let row = |page: &mut String, element: &str, cells: &[String]| {
        page.push_str("<tr>");
        for cell in cells {
            // Lines of a head stay lines.
            let lines: Vec<String> = cell.lines().map(escape).collect();
            add(page, format_args!("<{element}>{}</{element}>", lines.join("\n")));
        }
        page.push_str("</tr>\n");
    };
    if table.cells().next().is_some() {
        page.push_str("<div class=\"wide\"><table>\n<thead>");
        row(page, "th", table.head());
        page.push_str("</thead>\n<tbody>\n");
        table.cells().for_each(|cells| row(page, "td", cells));
        page.push_str("</tbody>\n</table></div>\n");
    }
    table.notes().for_each(|note| paragraph(page, note));
}
