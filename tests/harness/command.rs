//! The command `rankway` as its tests run it: answers, keys, nonsense, a reader
//! that leaves. Only for tests of the command's own package.

use serde_json::Value;
use std::io::Read;
use std::process::{Command, Output, Stdio};

/// `rankway SUBCOMMAND args`, not started yet.
pub fn command(subcommand: &str, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rankway"));
    command.arg(subcommand).args(args);
    command
}

/// What it answers.
pub fn run(subcommand: &str, args: &[&str]) -> Output {
    command(subcommand, args).output().expect("the command runs")
}

/// What it prints with `--json`, which has to succeed.
pub fn json(subcommand: &str, args: &[&str]) -> Value {
    json_of(&mut command(subcommand, &[args, &["--json"]].concat()))
}

/// The same of a command that has `--json` already.
pub fn json_of(command: &mut Command) -> Value {
    let out = command.output().expect("the command runs");
    assert!(out.status.success(), "{command:?}: {}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).expect("JSON")
}

/// The number at `key`.
pub fn number(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap_or_else(|| panic!("{key} is no number in {value}"))
}

/// The list at `key`.
pub fn array<'a>(value: &'a Value, key: &str) -> &'a Vec<Value> {
    value[key].as_array().unwrap_or_else(|| panic!("{key} is no array in {value}"))
}

/// That of the objects in list `list` whose `key` is `name`.
pub fn named<'a>(report: &'a Value, list: &str, key: &str, name: &str) -> &'a Value {
    let mut all = array(report, list).iter();
    all.find(|one| one[key] == name).unwrap_or_else(|| panic!("no {name} in {list}"))
}

/// Text that has all of these parts.
pub fn has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
}

/// What it prints, which has to have all of these parts; it warns of nothing.
pub fn prints(subcommand: &str, args: &[&str], parts: &[&str]) -> String {
    let out = run(subcommand, args);
    assert!(out.status.success() && out.stderr.is_empty(), "{args:?}: {out:?}");
    let text = String::from_utf8(out.stdout).expect("text");
    has(&text, parts);
    text
}

/// Wrong arguments are refused with status 2, the hint and where to read on, and
/// nothing is printed; so they are where nobody reads that.
pub fn refuses(subcommand: &str, cases: &[(&[&str], &str)]) {
    for (args, hint) in cases {
        let out = run(subcommand, args);
        let said = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(hint) && said.contains("--help"), "{args:?}: {said}");
        assert!(out.stdout.is_empty(), "{args:?}");
        let (reader, unread) = std::io::pipe().expect("a pipe");
        drop(reader);
        let status = command(subcommand, args).stderr(unread).status().expect("the command runs");
        assert_eq!(status.code(), Some(2), "{args:?}");
    }
}

/// A chart to a place that cannot be written is refused before anything is
/// measured.
pub fn refuses_chart(subcommand: &str, args: &[&str]) {
    let place = "/nonexistent/chart.svg";
    let out = run(subcommand, &[args, &["--svg", place]].concat());
    assert_eq!(out.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&out.stderr).contains(place));
}

/// Writes a chart, which has all of these parts; returns what is printed.
pub fn chart(subcommand: &str, args: &[&str], parts: &[&str]) -> String {
    let name = format!("rankway-{subcommand}-{}.svg", std::process::id());
    let path = std::env::temp_dir().join(name);
    let args = [args, &["--svg", path.to_str().expect("a plain path")]].concat();
    let text = prints(subcommand, &args, &[]);
    let svg = std::fs::read_to_string(&path).expect("written");
    // Among temporary files.
    let _ = std::fs::remove_file(&path);
    has(&svg, &[&["<svg"], parts].concat());
    text
}

/// A reader that leaves at once has seen enough: no error, no word.
pub fn closed_pipe(subcommand: &str, args: &[&str]) {
    let mut command = command(subcommand, args);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.expect("the command starts");
    drop(child.stdout.take());
    let mut said = String::new();
    child.stderr.take().expect("piped").read_to_string(&mut said).expect("text");
    assert!(child.wait().expect("ends").success() && said.is_empty(), "{said}");
}
