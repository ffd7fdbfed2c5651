//! A page beside another one: all has to be the same but times, and what cannot be had where
//! it is compared.

use super::Report;
use super::item::How;
use super::text::{abbreviation, page};
use crate::output;
use std::path::Path;
use std::process::ExitCode;

pub(super) fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))
}

/// An item of a page by its paper and label; its rows and notes.
type Section<'a> = ((&'a str, &'a str), Vec<&'a str>);

fn sections(page: &str) -> Vec<Section<'_>> {
    let mut all: Vec<Section<'_>> = Vec::new();
    let (mut paper, mut current) = ("", None);
    for line in page.lines().filter(|line| !line.is_empty() && !line.starts_with("|-")) {
        let label = line.trim_start_matches('|').strip_prefix("**");
        let label = label.and_then(|rest| rest.split("**").next());
        match label {
            Some(label) => {
                let at = all.iter().position(|(of, _)| *of == (paper, label));
                current = Some(at.unwrap_or(all.len()));
                if at.is_none() {
                    all.push(((paper, label), Vec::new()));
                }
            }
            // The first row of a paper's table.
            None if line.ends_with("||") => {
                (paper, current) = (line.trim_matches('|'), None);
            }
            None => {}
        }
        if let Some(at) = current {
            all[at].1.push(line);
        }
    }
    all
}

/// A row without what is another one each time.
fn masked(line: &str, exact: bool) -> String {
    let cells: Vec<&str> = line.split('|').collect();
    let from = cells.get(2).copied().unwrap_or_default();
    // (Caches are simulated with what a build's code accesses.)
    let built = [How::Counted, How::Simulated].map(abbreviation).contains(&from);
    let timed = from == abbreviation(How::Measured) || (built && !exact);
    match line.starts_with('|') && timed {
        true => format!("|{}|{from}|", cells[1]),
        false => line.to_owned(),
    }
}

/// What differs, a line for each; and items that could not be compared.
fn differences(committed: &str, now: &str, compiler: &str) -> (Vec<String>, Vec<String>) {
    let exact = committed.contains(compiler);
    let old = sections(committed);
    let (mut faults, mut skipped) = (Vec::new(), Vec::new());
    for ((paper, label), lines) in sections(now) {
        let name = format!("{paper}, {label}");
        let found = old.iter().find(|(of, _)| *of == (paper, label));
        let Some((_, before)) = found else {
            faults.push(format!("{name}: it is not in the page"));
            continue;
        };
        let mask = |lines: &[&str]| -> Vec<String> {
            lines.iter().map(|line| masked(line, exact)).collect()
        };
        let (before, lines) = (mask(before), mask(&lines));
        if before == lines {
            continue;
        }
        if lines.iter().any(|line| line.contains("Not had: ") && !before.contains(line)) {
            skipped.push(name);
            continue;
        }
        let not = |line: &&String, other: &[String]| !other.contains(line);
        let now = lines.iter().filter(|line| not(line, &before));
        let then = before.iter().filter(|line| not(line, &lines));
        let told = faults.len();
        faults.extend(now.map(|line| format!("{name}: not in the page: {line}")));
        faults.extend(then.map(|line| format!("{name}: only in the page: {line}")));
        if faults.len() == told {
            faults.push(format!("{name}: its lines are in another order"));
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

    const PAGE: &str = "# T\n\nrustc 1\n\n|A|||\n|-|-|-|-\n|**Table I**: x||a|b\n|p|p|1|2\n\
                        |ours|m|3|4!\n|bytes|s|5|6\n|count|c|7|8\n\n**Table I**: A note.\n";

    fn faults(now: &str) -> Vec<String> {
        differences(PAGE, now, "rustc 1").0
    }

    #[test]
    fn times_may_differ_and_nothing_else() {
        assert!(faults(PAGE).is_empty());
        assert!(faults(&PAGE.replace("|ours|m|3|4!", "|ours|m|9.1|0")).is_empty());
        for (old, new) in [
            ("|p|p|1|2", "|p|p|1|3"),
            ("|ours|m|3|4!", "|theirs|m|3|4"),
            ("|bytes|s|5|6", "|bytes|s|5|7"),
            ("|count|c|7|8", "|count|c|7|9"),
            ("A note.", "Another."),
            ("**Table I**: x", "**Table II**: x"),
            ("|A|||", "|B|||"),
        ] {
            assert!(!faults(&PAGE.replace(old, new)).is_empty(), "{old} {new}");
        }
        let swapped = "|bytes|s|5|6\n|count|c|7|8";
        let moved = PAGE.replace(swapped, "|count|c|7|8\n|bytes|s|5|6");
        assert!(!faults(&moved).is_empty());
    }

    #[test]
    fn counts_are_of_a_compiler_and_what_is_missing_is_skipped() {
        let other = PAGE.replace("|count|c|7|8", "|count|c|1|1");
        assert!(differences(PAGE, &other, "rustc 2").0.is_empty());
        let missing =
            "|A|||\n|-|-|-|-\n|**Table I**: x||a|b\n|p|p|1|2\n\n**Table I**: Not had: why.\n";
        let (faults, skipped) = differences(PAGE, missing, "rustc 1");
        assert!(faults.is_empty() && skipped.len() == 1, "{faults:?}");
    }
}
