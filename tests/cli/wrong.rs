//! What the command and the examples answer to nonsense: an error that names
//! what was wrong, a status, no backtrace, and nothing measured before.
#![cfg(target_os = "linux")]

use std::fs::OpenOptions;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rankway"));
    command.env("RUST_BACKTRACE", "1").env_remove("COLUMNS").stdin(Stdio::null());
    command
}

/// Status and stderr; a panic is never an answer.
fn answer(output: &Output) -> (Option<i32>, String) {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!said.contains("panicked") && !said.contains("backtrace"), "{said}");
    (output.status.code(), said)
}

/// Arguments, the status, and words that the error has.
const WRONG: &[(&[&str], i32, &[&str])] = &[
    (&[], 2, &["Usage"]),
    (&["nonsense"], 2, &["nonsense"]),
    (&["count-mpi"], 2, &["--program", "--components"]),
    (&["count-mpi", "--program", "/nonexistent", "--components", "/"], 1, &["make count-mpi"]),
    (&["count-mpi", "--program", "/", "--components", "/", "--stack", "a"], 1, &["osc-pt2pt"]),
    (&["info", "extra"], 2, &["extra"]),
    (&["info", "--json=3"], 2, &["--json"]),
    (&["rate", "--network", ""], 2, &["--network", "rankway info"]),
    (&["rate", "--network", "shm,"], 2, &["--network", "rankway info"]),
    (&["rate", "--network", "nonsense"], 1, &["nonsense", "libfabric offers"]),
    (&["rate", "--netmod", "ucx", "--network", "tcp"], 1, &["tcp", "UCX_TLS"]),
    (&["rate", "--netmod", "mpi"], 2, &["--netmod", "ucx"]),
    (&["rate", "--size", "10GiB"], 2, &["--size", "4 MiB"]),
    (&["rate", "--size", "0"], 2, &["--size", "4 MiB"]),
    (&["rate", "--size", "-1"], 2, &["--size", "-1", "64k"]),
    (&["rate", "--size", ""], 2, &["--size", "64k"]),
    (&["rate", "--models", "nonsense"], 2, &["--models", "blockstride"]),
    (&["rate", "--processes", "0"], 2, &["--processes", "1..=64"]),
    (&["rate", "--processes", "-2"], 2, &["--processes", "1..=64"]),
    (&["rate", "--ranks", "99999999999"], 2, &["--ranks"]),
    (&["rate", "--window", "4294967295"], 2, &["--window"]),
    (&["rate", "--iterations", "4294967295"], 2, &["--iterations"]),
    (&["rate", "--rounds", "0"], 2, &["--rounds"]),
    (&["rate", "--rounds", "4294967295"], 2, &["--rounds"]),
    (&["rate", "--svg", "/nonexistent/a.svg"], 2, &["--svg", "/nonexistent/a.svg", "No such file"]),
    (&["rate", "--svg", "/"], 2, &["--svg", "directory"]),
    (&["rate", "--svg", ""], 2, &["--svg"]),
    (&["rate", "--json", "--csv"], 2, &["--json", "--csv"]),
    (&["operations", "--network", ""], 2, &["--network"]),
    (&["operations", "--network", "nonsense"], 1, &["nonsense", "libfabric offers"]),
    (&["operations", "--window", "0"], 2, &["--window"]),
    (&["operations", "--rounds", "-1"], 2, &["--rounds", "1..=1000000"]),
    (&["operations", "--rounds", "x"], 2, &["--rounds", "'x' is not a number"]),
    (&["operations", "--window", "1.5"], 2, &["--window", "no whole number"]),
    (&["grid", "--ranks", "99999999999"], 2, &["--ranks", "too large", "2147483647"]),
    (&["count", "--listing", "nonsense"], 2, &["--listing", "direct"]),
    (&["count", "--c", "/nonexistent"], 1, &["/nonexistent", "make count-c"]),
    (&["count", "--c", "/etc/passwd"], 1, &["/etc/passwd"]),
    (&["count", "--d1", "32KiB/8"], 2, &["--cache"]),
    (&["count", "--cache", "--d1", "32KiB"], 2, &["--d1", "32KiB/8"]),
    (&["count", "--cache", "--d1", "100/3"], 2, &["--d1", "whole sets"]),
    (&["count", "--cache", "--l2", "0/8"], 2, &["--l2", "whole sets"]),
    (&["count", "--cache", "--l3", "99999999999G/8"], 2, &["--l3"]),
    (&["count", "--cache", "--ranks", "1"], 2, &["--ranks", "1M"]),
    (&["count", "--cache", "--ranks", "2M"], 2, &["--ranks", "1M"]),
    (&["count", "--cache", "--communicators", "0"], 2, &["--communicators", "1..=256"]),
    (&["count", "--cache", "--models", "nonsense"], 2, &["--models", "direct"]),
    (&["count", "--cache", "--listing", "direct"], 2, &["--listing", "--cache"]),
    (&["count", "--cache", "--puts", "-1"], 2, &["--puts", "786432"]),
    (&["count", "--puts", "8"], 2, &["--cache"]),
    (&["memory", "--processes", "1"], 2, &["--processes", "at least 2"]),
    (&["memory", "--processes", "-3"], 2, &["--processes", "-3"]),
    (&["memory", "--processes", "10GiB"], 2, &["--processes", "16M"]),
    (&["memory", "--communicators", "0"], 2, &["--communicators"]),
    (&["memory", "--ppn", "0"], 2, &["--ppn"]),
    (&["memory", "--kind", "nonsense"], 2, &["--kind", "stride"]),
    (&["memory", "--touch", "some"], 2, &["--touch", "none"]),
    (&["memory", "--svg", "/nonexistent/a.svg"], 2, &["--svg", "No such file"]),
    (&["memory", "--live", "3"], 2, &["--live", "4..=256"]),
    (&["memory", "--live", "4", "--svg", "/tmp/a.svg"], 2, &["--live", "--svg"]),
    (&["memory", "--live", "4", "--network", ""], 2, &["--network"]),
    (&["memory", "--network", "tcp"], 2, &["--live"]),
    (&["maps", ""], 2, &["no communicator", "--list"]),
    (&["maps", "nonsense"], 2, &["nonsense", "--list"]),
    (&["maps", "--ranks", ""], 2, &["--ranks"]),
    (&["maps", "--ranks", "a"], 2, &["--ranks", "8-15"]),
    (&["maps", "--ranks", "99999999999"], 2, &["--ranks"]),
    (&["maps", "--file", "/nonexistent"], 1, &["/nonexistent"]),
    (&["maps", "--file", "/dev/null"], 1, &["/dev/null", "no ranks"]),
    (&["maps", "--file", "/"], 1, &["directory"]),
    (&["maps", "--universe", "0"], 2, &["--universe"]),
    (&["maps", "--radices", "1x2"], 2, &["--radices", "100x100x100"]),
    (&["maps", "--radices", "99999x99999x99999"], 2, &["999970000299999", "1000000"]),
    (&["maps", "--strategy", "nonsense"], 2, &["--strategy"]),
    (&["maps", "--seed", "-1"], 2, &["--seed", "whole number from 0"]),
    (&["maps", "A", "--svg", "/nonexistent/a.svg"], 2, &["--svg", "No such file"]),
    (&["paper", "--only", "nonsense"], 2, &["--only", "nonsense", "--list"]),
    (&["paper", "--only", "guo/"], 2, &["--only", "--list"]),
    (&["paper", "--traces"], 2, &["--traces"]),
    (&["paper", "--traces", "/nonexistent"], 1, &["--traces", "/nonexistent", "trace record"]),
    (&["paper", "--svg", ""], 2, &["--svg", "cannot be made"]),
    (&["paper", "--svg", "/dev/null"], 2, &["--svg", "cannot be made"]),
    (&["paper", "--check", "/nonexistent"], 1, &["/nonexistent"]),
    (&["paper", "--check", "/"], 1, &["directory"]),
    (&["mpi"], 2, &["--program", "--components"]),
    (&["mpi", "--program", "/nonexistent", "--components", "/"], 1, &["make bench-mpi"]),
    (&["mpi", "--program", "/", "--netmod", "/nonexistent"], 1, &["make bench-mpich"]),
    (&["mpi", "--program", "/", "--netmod", "/", "--stack", "osc-sm"], 1, &["netmod-ucx"]),
    (&["mpi", "--program", "/", "--netmod", "/", "--components", "/"], 2, &["--netmod"]),
    (&["mpi", "--program", "/", "--components", "/", "--stack", ""], 1, &["osc-sm"]),
    (&["mpi", "--program", "/", "--components", "/", "--limit", "0"], 2, &["--limit"]),
    (&["mpi", "--program", "/", "--components", "/", "--slice", "0"], 2, &["--slice"]),
];

#[test]
fn nonsense_is_named() {
    for (arguments, status, words) in WRONG {
        let start = Instant::now();
        let output = command().args(*arguments).output().expect("the command runs");
        let (code, said) = answer(&output);
        assert_eq!(code, Some(*status), "{arguments:?}: {said}");
        assert!(output.stdout.is_empty(), "{arguments:?} printed something");
        for word in *words {
            assert!(said.contains(word), "{arguments:?}: no '{word}' in: {said}");
        }
        assert!(start.elapsed() < Duration::from_secs(60), "{arguments:?} measured first");
    }
}

/// A reader that has gone away has seen enough; a disk that is full is an error.
#[test]
fn stdout_ends_early() {
    let lists =
        [&["--help"][..], &["--version"], &["info"], &["info", "--json"], &["maps", "--list"]];
    for arguments in lists {
        let (read, write) = std::io::pipe().expect("a pipe");
        drop(read);
        let output = command().args(arguments).stdout(write).output().expect("the command runs");
        assert_eq!(answer(&output), (Some(0), String::new()), "{arguments:?}");

        let full = OpenOptions::new().write(true).open("/dev/full").expect("Linux has it");
        let output = command().args(arguments).stdout(full).output().expect("the command runs");
        let (code, said) = answer(&output);
        assert_eq!(code, Some(1), "{arguments:?}");
        assert!(said.contains("cannot write") && said.contains("space"), "{said}");
    }
}

/// Both ranks of a job fail at once: one reason is told, in words.
#[test]
fn failures_of_several_ranks_are_told_as_one() {
    for _ in 0..20 {
        let arguments = ["rate", "--network", "nonsense", "--json"];
        let output = command().args(arguments).output().expect("the command runs");
        let (code, said) = answer(&output);
        assert_eq!(code, Some(1), "{said}");
        assert!(output.stdout.is_empty());
        assert_eq!(said.matches("is not there").count(), 1, "{said}");
        let parts_of_messages = ['{', '}', '"'];
        assert!(!said.contains(parts_of_messages) && !said.contains("cannot be read"), "{said}");
    }
}

/// A page that does not fit leaves the one before.
#[test]
fn a_full_disk_keeps_the_old_page() {
    let folder = std::env::temp_dir().join(format!("rankway-full-{}", std::process::id()));
    std::fs::create_dir(&folder).expect("made");
    let chart = folder.join("chart.svg");
    std::fs::write(&chart, "before").expect("written");
    let program = env!("CARGO_BIN_EXE_rankway");
    // (No file may be longer than this, of which the signal is ignored.)
    let run = format!(
        "trap '' XFSZ; ulimit -f 1; exec {program} trace simulate --processes 2 --svg {}",
        chart.display()
    );
    let output = Command::new("bash").args(["-c", &run]).output().expect("a shell");
    let (code, said) = answer(&output);
    let there = std::fs::read_to_string(&chart).expect("still there");
    let names = std::fs::read_dir(&folder).expect("there").count();
    std::fs::remove_dir_all(&folder).expect("ours");
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("chart.svg"), "{said}");
    assert_eq!((there.as_str(), names), ("before", 1));
}

/// One that cannot be measured leaves no chart behind.
#[test]
fn no_chart_of_nothing() {
    let chart = std::env::temp_dir().join(format!("rankway-wrong-{}.svg", std::process::id()));
    let path = chart.to_str().expect("text");
    let arguments = ["rate", "--network", "nonsense", "--svg", path];
    let output = command().args(arguments).output().expect("the command runs");
    assert_eq!(answer(&output).0, Some(1));
    assert!(!chart.exists());
}

#[test]
fn examples_take_what_they_say() {
    let me = std::env::current_exe().expect("a path");
    let examples: PathBuf = me.ancestors().nth(2).expect("target/profile").join("examples");
    let wrong: [&[&str]; 6] = [&["nonsense"], &["0"], &["-1"], &[""], &["4294967295"], &["2", "3"]];
    for name in ["hello", "put"] {
        let program = examples.join(name);
        if !program.exists() {
            println!("skipped: {} was not built (cargo test builds it)", program.display());
            continue;
        }
        for arguments in wrong {
            let output = Command::new(&program).args(arguments).output().expect("it runs");
            let (code, said) = answer(&output);
            assert_eq!(code, Some(2), "{name} {arguments:?}: {said}");
            assert!(said.contains("usage"), "{name} {arguments:?}: {said}");
        }
    }
}

/// With little address space ranks measure, or say which limit to raise: a
/// library that maps a peer's segment without looking must not come to that,
/// nor an allocation that is refused to a crash.
#[test]
fn little_address_space_is_said() {
    let program = env!("CARGO_BIN_EXE_rankway");
    let under = |kib: usize, arguments: &str| {
        let run = format!("ulimit -v {kib}; exec timeout -k 1 60 {program} {arguments}");
        let mut shell = Command::new("sh");
        shell.args(["-c", &run]).env("RUST_BACKTRACE", "1").output().expect("a shell")
    };
    // With less the system's loader ends, before anything of ours.
    let starts = |kib: usize| under(kib, "--version").status.code() == Some(0);
    let least = (5_000..50_000).step_by(100).find(|&kib| starts(kib)).expect("it starts");
    for network in ["shm", "tcp"] {
        let job = format!("rate --network {network} --models direct --rounds 1 --iterations 1000");
        let close = (least..least + 8_000).step_by(200);
        let wide = [20, 30, 40, 45, 50, 60, 4000].map(|mib| mib * 1000);
        let (mut refused, mut measured) = (0, 0);
        for kib in close.chain(wide) {
            let (code, said) = answer(&under(kib, &job));
            match code {
                Some(0) => measured += 1,
                _ => {
                    assert_eq!(code, Some(1), "{network}, {kib} KiB: {said}");
                    assert!(said.contains("ulimit -v"), "{network}, {kib} KiB: {said}");
                    refused += 1;
                }
            }
        }
        assert!(refused > 0 && measured > 0, "{network}: {refused} refused, {measured} measured");
    }
}
