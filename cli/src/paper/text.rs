//! All of it as text for people, and as the page `docs/papers.md`.

use super::item::{How, Line};
use super::{PAPERS, Report, Shown};
use crate::output::{NONE, Table, wrap};

/// Columns of notes.
const WIDTH: usize = 110;

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
        let commands = item.commands.iter().map(|command| format!("rankway {command}"));
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
pub(super) const fn letter(how: How) -> &'static str {
    match how {
        How::Quoted => "p",
        How::Measured => "m",
        How::Counted => "c",
        How::Simulated => "s",
        How::Computed => "f",
    }
}

pub(super) fn page(report: &Report) -> String {
    let mut out = format!(
        "# The papers' figures beside ours\n\n\
         `make papers` writes this page. p: the paper's own figure; m: measured here, c: counted (exact, \
         {}), s: simulated (processes, caches or networks that are not there), f: by formula. **!** is \
         worse than the paper's. Commands of an item, and each paper's title: `rankway paper --only \
         guo/table-4`, `rankway paper --help`.\n",
        report.compiler
    );
    for paper in &PAPERS {
        let of_paper: Vec<&Shown> =
            report.items.iter().filter(|item| item.paper == paper.key).collect();
        if !of_paper.is_empty() {
            out.push_str(&format!("\n## {}\n", paper.label));
        }
        for item in of_paper {
            out.push_str(&section(item, paper.label));
        }
    }
    out
}

/// One item: its head, a table, notes.
fn section(item: &Shown, paper: &str) -> String {
    let label = item.label.strip_prefix(paper).unwrap_or(&item.label).trim_start_matches(", ");
    let mut out = format!("\n**{label}**: {}\n", item.title);
    if !item.lines.is_empty() {
        let columns = item.columns.join("|");
        out.push_str(&format!("\n|{}||{columns}|\n", item.unit));
        out.push_str(&format!("|-|-|{}\n", "-:|".repeat(item.columns.len())));
        for line in &item.lines {
            let cells: Vec<String> = cells(line).collect();
            let row = format!("|{}|{}|{}|\n", line.name, letter(line.how), cells.join("|"));
            out.push_str(&row);
        }
    }
    let not_had = item.not_had.iter().map(|why| format!("Not had: {why}."));
    let notes: Vec<String> = item.notes.iter().cloned().chain(not_had).collect();
    if !notes.is_empty() {
        out.push_str(&format!("\n{}\n", notes.join(" ")));
    }
    out
}
