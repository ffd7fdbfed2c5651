//! An archive of OTF2, read back by `otf2-print`, record by record.

use crate::command::{command, has, named, number, run};
use crate::made::{BEGIN, Made};
use crate::text;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// What `otf2-print` prints, blanks made one; it may have nothing to complain of. `None` if
/// it is not there.
fn printed(archive: &Path, args: &[&str]) -> Option<Vec<String>> {
    let out = Command::new("otf2-print").args(args).arg(archive.join("traces.otf2")).output();
    let Ok(out) = out else {
        println!("skipped: no otf2-print, which reads what was written (ci/deps --otf2 brings it)");
        return None;
    };
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success() && said.is_empty(), "{said}");
    let text = String::from_utf8(out.stdout).expect("text");
    let plain = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    Some(text.lines().map(plain).collect())
}

#[test]
fn an_archive_has_every_record() {
    let made = Made::new();
    let to = made.beside("archive");
    let out = run("trace", &["export", made.path(), "--otf2", text(&to), "--json"]);
    if !out.status.success() {
        // Without the library: with it, this cannot be.
        let said = String::from_utf8_lossy(&out.stderr);
        has(&said, &["libopen-trace-format2.so", "otf2-tools", "RANKWAY_OTF2_LIBRARY"]);
        println!("skipped: no OTF2 library (ci/deps --otf2 brings it)");
        return;
    }
    let answer: serde_json::Value = serde_json::from_slice(&out.stdout).expect("JSON");
    let written = named(&answer, "exports", "format", "otf2");
    let Some(lines) = printed(&to, &[]) else { return };
    // Events of each location, with times since the beginning.
    let mut events: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    for line in lines {
        let mut words = line.split_whitespace();
        let (name, location, time) = (words.next(), words.next(), words.next());
        let Some(location) = location.and_then(|word| word.parse().ok()) else { continue };
        let time: u64 = time.and_then(|word| word.parse().ok()).expect("a time");
        let rest = words.collect::<Vec<_>>().join(" ");
        let line = format!("{} {} {rest}", time - BEGIN, name.expect("a name"));
        events.entry(location).or_default().push(line.trim_end().to_owned());
    }
    let mut all = String::new();
    for (location, lines) in &events {
        all += &format!("location {location}\n{}\n", lines.join("\n"));
    }
    assert_eq!(all, include_str!("archive.txt"), "\n{all}");

    let Some(mut lines) = printed(&to, &["-G"]) else { return };
    let first = lines.iter().position(|line| line.starts_with("CLOCK_PROPERTIES"));
    let mut definitions = lines.split_off(first.expect("a clock"));
    definitions.retain(|line| !line.is_empty() && !line.starts_with("STRING"));
    let definitions = definitions.join("\n") + "\n";
    assert_eq!(definitions, include_str!("definitions.txt"), "\n{definitions}");
    assert!(number(written, "records") > events.values().map(Vec::len).sum::<usize>() as f64);
}

#[test]
fn a_library_that_is_not_there_is_named() {
    let made = Made::new();
    let to = made.beside("archive");
    for (library, why) in [("/nonexistent/otf2", "/nonexistent/otf2"), ("libc.so.6", "OTF2_")] {
        let mut command = command("trace", &["export", made.path(), "--otf2", text(&to)]);
        let out = command.env("RANKWAY_OTF2_LIBRARY", library).output().expect("runs");
        assert_eq!(out.status.code(), Some(1));
        let said = String::from_utf8_lossy(&out.stderr);
        has(&said, &["RANKWAY_OTF2_LIBRARY", why, "install otf2-tools"]);
    }
    made.holds(&[]);
}
