//! A page beside another one: all has to be the same but times, and what cannot be had where
//! it is compared.

use super::Report;
use super::item::How;
use super::text::{letter, page};
use crate::output;
use std::path::Path;
use std::process::ExitCode;

pub(super) fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))
}

/// An item of a page: its head, and its lines.
type Section<'a> = (&'a str, Vec<&'a str>);

/// Of all papers, heads by paper.
fn sections(page: &str) -> Vec<(String, Section<'_>)> {
    let mut all: Vec<(String, Section<'_>)> = Vec::new();
    let mut paper = "";
    for line in page.lines().filter(|line| !line.is_empty()) {
        if let Some(name) = line.strip_prefix("## ") {
            paper = name;
        } else if line.starts_with("**") {
            all.push((paper.to_owned(), (line, Vec::new())));
        } else if let Some((_, (_, lines))) = all.last_mut() {
            lines.push(line);
        }
    }
    all
}

/// A row without what is another one each time; of times as many figures as there are.
fn masked(line: &str, exact: bool) -> String {
    let cells: Vec<&str> = line.split('|').collect();
    let from = cells.get(2).copied().unwrap_or_default();
    let timed = from == letter(How::Measured) || (from == letter(How::Counted) && !exact);
    match line.starts_with('|') && timed {
        true => format!("|{}|{from}|{}", cells[1], cells.len()),
        false => line.to_owned(),
    }
}

/// What differs, a line for each; and items that could not be compared.
fn differences(committed: &str, now: &str, compiler: &str) -> (Vec<String>, Vec<String>) {
    let exact = committed.contains(compiler);
    let old = sections(committed);
    let (mut faults, mut skipped) = (Vec::new(), Vec::new());
    for (paper, (head, lines)) in sections(now) {
        let found = old.iter().find(|(of, (other, _))| *of == paper && *other == head);
        let Some((_, (_, before))) = found else {
            faults.push(format!("{paper}: there is no {head}"));
            continue;
        };
        if lines.iter().any(|line| line.contains("Not had: ")) && !lines.eq(before) {
            skipped.push(format!("{paper}: {head}"));
            continue;
        }
        let mask = |lines: &[&str]| -> Vec<String> {
            lines.iter().map(|line| masked(line, exact)).collect()
        };
        let (before, lines) = (mask(before), mask(&lines));
        faults.extend(
            lines
                .iter()
                .filter(|line| !before.contains(line))
                .map(|line| format!("{paper}: {head}: not in the page: {line}")),
        );
        faults.extend(
            before
                .iter()
                .filter(|line| !lines.contains(line))
                .map(|line| format!("{paper}: {head}: only in the page: {line}")),
        );
        if faults.is_empty() && before != lines {
            faults.push(format!("{paper}: {head}: lines in another order"));
        }
    }
    (faults, skipped)
}

pub(super) fn compare(committed: &str, report: &Report, path: &Path) -> Result<ExitCode, String> {
    let (faults, skipped) = differences(committed, &page(report), report.compiler);
    let mut out = String::new();
    for item in skipped {
        out.push_str(&format!("skipped, not had here: {item}\n"));
    }
    if faults.is_empty() {
        out.push_str(&format!("{}: as it would be written, times aside\n", path.display()));
        output::emit(out.as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    }
    output::emit(out.as_bytes())?;
    Err(format!("{} is not what `make papers` writes:\n  {}", path.display(), faults.join("\n  ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# T\n\nrustc 1\n\n## A\n\n**Table I**: x\n\n|u||a|b|\n|-|-|-:|-:|\n|p|p|1|2|\n\
                        |ours|m|3|4!|\n|bytes|s|5|6|\n|count|c|7|8|\n\nA note.\n";

    fn faults(now: &str) -> Vec<String> {
        differences(PAGE, now, "rustc 1").0
    }

    #[test]
    fn times_may_differ_and_nothing_else() {
        assert!(faults(PAGE).is_empty());
        assert!(faults(&PAGE.replace("|ours|m|3|4!|", "|ours|m|9.1|0|")).is_empty());
        for (old, new) in [
            ("|p|p|1|2|", "|p|p|1|3|"),
            ("|ours|m|3|4!|", "|ours|m|3|"),
            ("|ours|m|3|4!|", "|theirs|m|3|4|"),
            ("|bytes|s|5|6|", "|bytes|s|5|7|"),
            ("|count|c|7|8|", "|count|c|7|9|"),
            ("A note.", "Another."),
            ("**Table I**: x", "**Table II**: x"),
        ] {
            assert!(!faults(&PAGE.replace(old, new)).is_empty(), "{old} {new}");
        }
        let swapped = "|bytes|s|5|6|\n|count|c|7|8|";
        let moved = PAGE.replace(swapped, "|count|c|7|8|\n|bytes|s|5|6|");
        assert!(!faults(&moved).is_empty());
    }

    #[test]
    fn counts_are_of_a_compiler_and_what_is_missing_is_skipped() {
        let other = PAGE.replace("|count|c|7|8|", "|count|c|1|1|");
        assert!(differences(PAGE, &other, "rustc 2").0.is_empty());
        let missing = "## A\n\n**Table I**: x\n\n|u||a|b|\n|p|p|1|2|\n\nNot had: no program.\n";
        let (faults, skipped) = differences(PAGE, missing, "rustc 1");
        assert!(faults.is_empty() && skipped.len() == 1, "{faults:?}");
    }
}
