//! All of it as text for people, and as the page `docs/papers.md`.

use super::item::{Cell, How, Line};
use super::{PAPERS, Report, Shown};
use crate::output::{NONE, Table, wrap};

/// Columns of notes.
const WIDTH: usize = 110;

/// Commands that are shown of an item.
const SHOWN: usize = 2;

/// A figure, marked where it is worse.
fn cells(line: &Line) -> impl Iterator<Item = String> {
    line.values.iter().enumerate().map(|(column, cell)| {
        let mark = if line.worse.get(column) == Some(&true) { "!" } else { "" };
        format!("{}{mark}", cell.text())
    })
}

pub(super) fn plain(report: &Report) -> Result<String, String> {
    let mut out = Vec::new();
    for item in &report.items {
        let mut head = vec![item.unit.to_owned(), "from".to_owned()];
        head.extend(item.columns.iter().cloned());
        let mut table = Table::new(&head);
        table.title(format!("{}: {}", item.label, item.title));
        for line in &item.lines {
            let mut row = vec![line.name.clone(), line.how.name().to_owned()];
            row.extend(
                cells(line).map(|cell| if cell.is_empty() { NONE.to_owned() } else { cell }),
            );
            table.row(&row);
        }
        let not_had = item.not_had.iter().map(|why| format!("Not had: {why}"));
        // Many are alike.
        let more = item.commands.len().saturating_sub(SHOWN);
        let commands = item.commands.iter().take(SHOWN).map(|command| format!("rankway {command}"));
        let more = (more > 0).then(|| format!("and {more} like it (--json has them)"));
        let commands = commands.chain(more);
        for note in item.notes.iter().cloned().chain(not_had).chain(commands) {
            wrap(&note, WIDTH, WIDTH).into_iter().for_each(|line| {
                table.note(line);
            });
        }
        table.print(&mut out).map_err(|e| e.to_string())?;
        out.push(b'\n');
    }
    let mut out = String::from_utf8_lossy(&out).into_owned();
    out.push_str(&format!("# ! is worse than the paper's: {} figures\n", report.worse.len()));
    for worse in &report.worse {
        let super::Worse { paper, item, line, column } = worse;
        out.push_str(&format!("#   {paper}/{item}: {line}: {column}\n"));
    }
    Ok(out)
}

/// How the page says where a line is from.
pub(super) const fn abbreviation(how: How) -> &'static str {
    match how {
        How::Quoted => "p",
        How::Measured => "m",
        How::Counted => "c",
        How::Simulated => "s",
        How::Computed => "f",
    }
}

/// Items of more columns are the least and the most of them on the page.
const COLUMNS: usize = 10;

pub(super) fn page(report: &Report) -> String {
    let mut out = format!(
        "# The papers' figures beside ours\n\n\
         By `make papers`. p: the paper's, if it has a number; m: measured here, c: counted ({}), s: \
         simulated (processes, caches, networks that are not there), f: by formula; **!** worse than \
         the paper's. Commands, and more lines: `rankway paper`.\n",
        report.compiler
    );
    for paper in &PAPERS {
        let items = report.items.iter().filter(|item| item.paper == paper.key);
        let items: Vec<&Shown> = items.collect();
        // A table for each paper: what is beyond its first row would not be shown.
        let Some(columns) = items.iter().map(|item| columns(item).len()).max() else { continue };
        out.push_str(&format!(
            "\n|{}|{}\n{}\n",
            paper.label,
            "|".repeat(columns),
            "|-".repeat(columns + 2)
        ));
        items.iter().for_each(|item| out.push_str(&rows(item, paper.label)));
        out.push('\n');
        items.iter().for_each(|item| out.push_str(&notes(item, paper.label)));
    }
    out
}

fn is_wide(item: &Shown) -> bool {
    item.columns.len() > COLUMNS
}

fn columns(item: &Shown) -> Vec<String> {
    match is_wide(item) {
        true => ["least", "most", "worse"].map(str::to_owned).into(),
        false => item.columns.clone(),
    }
}

fn label<'a>(item: &'a Shown, paper: &str) -> &'a str {
    item.label.strip_prefix(paper).unwrap_or(&item.label).trim_start_matches(", ")
}

/// One item: a row that says what it is, and its lines.
fn rows(item: &Shown, paper: &str) -> String {
    // (What is empty at the end need not be there.)
    let row = |cells: String| format!("{}\n", cells.trim_end_matches('|'));
    let unit = if item.unit.is_empty() { String::new() } else { format!(", {}", item.unit) };
    let (label, title) = (label(item, paper), item.title);
    let mut out = row(format!("|**{label}**: {title}{unit}||{}", columns(item).join("|")));
    let mut lines = item.lines.iter().filter(|line| !line.aside).peekable();
    while let Some(line) = lines.next() {
        let mut from = abbreviation(line.how).to_owned();
        let mut of_line = if is_wide(item) { range(line) } else { cells(line).collect() };
        // Words of the paper and ours of one name are one row.
        if let Some(ours) = lines.next_if(|ours| ours.name == line.name) {
            from.push_str(abbreviation(ours.how));
            for (cell, ours) in of_line.iter_mut().zip(cells(ours)) {
                if *cell != ours {
                    *cell = format!("{cell}→{ours}");
                }
            }
        }
        let name = line.name.replace(" processes", "");
        out.push_str(&row(format!("|{name}|{from}|{}", of_line.join("|"))));
    }
    out
}

fn notes(item: &Shown, paper: &str) -> String {
    let not_had = item.not_had.iter().map(|why| format!("Not had: {why}."));
    let notes: Vec<String> = item.notes.iter().cloned().chain(not_had).collect();
    match notes.is_empty() {
        true => String::new(),
        false => format!("**{}**: {}\n", label(item, paper), notes.join(" ")),
    }
}

/// The least and the most of a line, and how many of it are worse.
fn range(line: &Line) -> Vec<String> {
    let finite = line.values.iter().filter(|cell| cell.number().is_finite());
    let by = |a: &&Cell, b: &&Cell| a.number().total_cmp(&b.number());
    let ends = [finite.clone().min_by(by), finite.max_by(by)];
    let worse = line.worse.iter().filter(|worse| **worse).count();
    let worse = if worse > 0 { format!("{worse} of {}!", line.worse.len()) } else { String::new() };
    let ends = ends.map(|cell| cell.map(Cell::text).unwrap_or_default());
    ends.into_iter().chain([worse]).collect()
}
