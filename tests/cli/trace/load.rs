//! Which traces are read: damaged and missing ones, several jobs, nothing.

use crate::command::{array, command, refuses, run};
use crate::halo::took;
use crate::job::{Directory, Process};
use std::fs;
use std::process::Command;

fn fails(args: &[&str], parts: &[&str]) {
    let out = run("trace", args);
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(1), "{args:?}: {said}");
    for part in parts {
        assert!(said.contains(part), "{args:?}: no {part} in {said}");
    }
    assert!(out.stdout.is_empty());
}

#[test]
fn nothing_to_read_is_named() {
    let directory = Directory::new();
    fails(&["leaks", "/nonexistent"], &["/nonexistent", "No such file", "record"]);
    fails(&["leaks", directory.text()], &[directory.text(), "no traces", "record"]);
    fs::write(directory.path().join("a.rwt"), "nonsense").expect("written");
    fails(&["leaks", directory.text()], &["a.rwt", "not a trace of Rankway"]);
    let file = directory.path().join("a.rwt");
    fails(&["leaks", file.to_str().expect("text")], &["a.rwt is a file", "directory"]);
    // Without an argument it is where `record` puts them.
    let mut command = command("trace", &["leaks"]);
    let out = command.current_dir(directory.path()).output().expect("runs");
    assert!(String::from_utf8_lossy(&out.stderr).contains("rankway-trace"), "{out:?}");
    refuses("trace", &[(&["leaks", "--nonsense"], "--nonsense"), (&["nonsense"], "nonsense")]);
}

/// Ranks that left no trace, were killed or whose file is cut off are told of.
#[test]
fn what_is_missing_is_told() {
    let directory = Directory::new();
    Process::new(9, 0, 6).end(&directory);
    Process::new(9, 1, 6).killed(&directory);
    Process::new(9, 4, 6).end(&directory);
    fs::write(directory.path().join("bad.rwt"), [0; 70]).expect("written");
    let report = directory.json("leaks", &[]);
    let [job] = &array(&report, "jobs")[..] else { panic!("{report}") };
    assert_eq!((&job["size"], &job["processes"]), (&6.into(), &3.into()));
    assert_eq!(job["missing"], serde_json::json!([2, 3, 5]));
    assert_eq!(job["not_ended"], serde_json::json!([1]));
    assert_eq!(job["hosts"], serde_json::json!(["node1"]));
    let [damaged] = &array(&report, "damaged")[..] else { panic!("{report}") };
    assert_eq!(damaged["file"], "bad.rwt");
    let out = run("trace", &["leaks", directory.text()]);
    let text = String::from_utf8(out.stdout).expect("text");
    for part in ["no trace of ranks 2-3 and 5", "rank 1 did not come to the end", "bad.rwt"] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
}

/// What is no file is left out, and not waited for.
#[test]
fn pipes_are_left_out() {
    let directory = Directory::new();
    Process::new(9, 0, 1).end(&directory);
    for (name, make) in [("pipe.rwt", "mkfifo"), ("folder.rwt", "mkdir")] {
        let made = Command::new(make).arg(directory.path().join(name)).status();
        assert!(made.expect("it runs").success());
    }
    let report = directory.json("leaks", &[]);
    let damaged = array(&report, "damaged");
    assert_eq!(damaged.len(), 2, "{report}");
    assert!(damaged.iter().all(|one| one["why"] == "not a regular file"), "{report}");
}

/// A job that no machine has is refused; of one whose traces are nearly all missing the first
/// are named.
#[test]
fn much_that_is_missing_takes_little() {
    let directory = Directory::new();
    Process::new(9, 0, i32::MAX as u32).killed(&directory);
    fails(&["leaks", directory.text()], &["2147483647 processes", "at most 16777216"]);
    let directory = Directory::new();
    Process::new(9, 1, 1 << 24).end(&directory);
    let report = directory.json("leaks", &[]);
    let [job] = &array(&report, "jobs")[..] else { panic!("{report}") };
    let missing = array(job, "missing");
    assert_eq!((missing.len(), &missing[1]), (1 << 16, &2.into()));
    let out = run("trace", &["leaks", directory.text()]);
    let text = String::from_utf8(out.stdout).expect("text");
    assert!(text.contains("no trace of ranks 0 and 2-16777215"), "{text}");
    // What is not there takes no memory either.
    let page = directory.path().join("page");
    let page = page.to_str().expect("a plain path");
    for args in [&["matrix"][..], &["matrix", "--svg", page], &["waits"], &["report", "-o", page]] {
        let args = [&args[..1], &[directory.text()], &args[1..]].concat();
        let peak = took(&mut command("trace", &args)).peak;
        assert!(peak < 100 << 20, "{args:?}: {peak} bytes");
    }
}

#[test]
fn of_several_jobs_one_is_chosen() {
    let directory = Directory::new();
    for (job, size) in [(0x20, 1), (0x1f, 2)] {
        (0..size).for_each(|rank| Process::new(job, rank, size).end(&directory));
    }
    let jobs = |args: &[&str]| -> Vec<String> {
        let report = directory.json("leaks", args);
        array(&report, "jobs").iter().map(|j| j["job"].as_str().expect("text").into()).collect()
    };
    assert_eq!(jobs(&[]), ["1f", "20"]);
    assert_eq!(jobs(&["--job", "2"]), ["20"]);
    assert_eq!(jobs(&["--job", "1f"]), ["1f"]);
    fails(&["leaks", directory.text(), "--job", "x"], &["--job", "'x'", "1f and 20"]);
}
