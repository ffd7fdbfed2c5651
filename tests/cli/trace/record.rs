//! `rankway trace record`: the program's environment, signals and status.

use crate::command::command;
use crate::job::{Directory, Process};
use crate::leaks::leaking;
use crate::mpis::preloaded;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// `rankway trace record args`, with a file in place of the library.
fn record(library: &Path, args: &[&str]) -> Command {
    let mut command = command("trace", &[&["record"], args].concat());
    command.env("RANKWAY_TRACK_LIBRARY", library).env_remove("LD_PRELOAD");
    command
}

fn output(command: &mut Command) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = command.output().expect("the command runs");
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    (status.code(), text(&stdout), text(&stderr))
}

/// The library that records: in a shell it has nothing to do.
fn harmless() -> std::path::PathBuf {
    preloaded("librankway_track.so")
}

#[test]
fn the_program_gets_library_and_directory() {
    let directory = Directory::new();
    let traces = directory.path().join("new");
    let script = "echo $LD_PRELOAD; echo $RANKWAY_TRACE; echo $RANKWAY_TRACE_EVENTS; exit 7";
    let args = ["-o", traces.to_str().expect("text"), "--", "sh", "-c", script];
    let (code, out, said) = output(&mut record(&harmless(), &args));
    assert_eq!(code, Some(7), "{said}");
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(Path::new(lines[0]), harmless().canonicalize().expect("there"));
    assert_eq!(Path::new(lines[1]), traces);
    assert_eq!(lines[2], "");
    assert!(said.contains("nothing was recorded"), "{said}");

    let args = [&["--no-events"], &args[..]].concat();
    let mut command = record(&harmless(), &args);
    let (_, out, _) = output(command.env("LD_PRELOAD", harmless()));
    assert_eq!(out.lines().nth(2), Some("off"));
    assert_eq!(out.lines().next().map(|line| line.split(':').count()), Some(2));
}

/// Open MPI's launcher is told what to pass on; others are not.
#[test]
fn open_mpi_s_launcher_gets_x() {
    let directory = Directory::new();
    for (name, says, expected) in [
        ("mpirun", "mpirun (Open MPI) 4.1.4", "-x LD_PRELOAD -x RANKWAY_TRACE -n 2 a"),
        ("mpiexec", "HYDRA build details", "-n 2 a"),
        ("other", "mpirun (Open MPI) 4.1.4", "-n 2 a"),
    ] {
        let path = directory.path().join(name);
        let script = format!(
            "#!/bin/sh\n[ \"$1\" = --version ] && echo '{says}' || printf '%s\\n' \"$*\"\n"
        );
        std::fs::write(&path, script).expect("written");
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&path, mode).expect("ours");
        let args = ["-o", directory.text(), "--", path.to_str().expect("text"), "-n", "2", "a"];
        let (code, out, said) = output(&mut record(&harmless(), &args));
        assert_eq!((code, out.trim()), (Some(0), expected), "{name}: {said}");
    }
}

#[test]
fn signals_and_their_status_are_passed_on() {
    let directory = Directory::new();
    let script = "trap 'exit 42' USR1; echo ready; while :; do sleep 0.05; done";
    let mut command = record(&harmless(), &["-o", directory.text(), "--", "sh", "-c", script]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("starts");
    let mut line = String::new();
    let mut out = BufReader::new(child.stdout.take().expect("piped"));
    out.read_line(&mut line).expect("a line");
    // SAFETY: a process of ours that nobody has waited for.
    unsafe { libc::kill(child.id() as i32, libc::SIGUSR1) };
    assert_eq!(child.wait().expect("ends").code(), Some(42));

    let args = ["-o", directory.text(), "--", "sh", "-c", "kill -KILL $$"];
    assert_eq!(output(&mut record(&harmless(), &args)).0, Some(128 + 9));
}

/// As under `nohup`.
#[test]
fn ignored_signals_stay_ignored() {
    let directory = Directory::new();
    let script = "for signal in HUP INT QUIT TERM USR1 USR2; do kill -$signal $$; done; exit 9";
    let mut command = record(&harmless(), &["-o", directory.text(), "--", "sh", "-c", script]);
    let ignore = || {
        for signal in
            [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGUSR1, libc::SIGUSR2]
        {
            // SAFETY: signal(2) may be called between fork and exec.
            unsafe { libc::signal(signal, libc::SIG_IGN) };
        }
        Ok(())
    };
    // SAFETY: as above; it allocates nothing.
    unsafe { command.pre_exec(ignore) };
    let (code, _, said) = output(&mut command);
    assert_eq!(code, Some(9), "{said}");
}

/// Standard error that nobody reads is no other status.
#[test]
fn stderr_that_ends_early_changes_no_status() {
    let directory = Directory::new();
    let program = ["-o", directory.text(), "--", "sh", "-c", "exit 7"];
    for (mut command, expected) in
        [(record(&harmless(), &program), 7), (command("trace", &["leaks", "/nonexistent"]), 1)]
    {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let status = command.stdout(Stdio::null()).stderr(writer).status().expect("runs");
        assert_eq!(status.code(), Some(expected));
    }
}

#[test]
fn what_cannot_be_is_named() {
    let directory = Directory::new();
    let own = std::env::current_exe().expect("there");
    for (library, why) in [
        (Path::new("/nonexistent/lib.so"), "No such file"),
        (Path::new("/"), "directory"),
        (&own, "this is not librankway_track.so"),
    ] {
        let mut command = record(library, &["-o", directory.text(), "--", "echo", "runs"]);
        let (code, out, said) = output(&mut command);
        assert_eq!((code, &*out), (Some(1), ""), "{said}");
        let library = library.to_str().expect("text");
        for part in ["RANKWAY_TRACK_LIBRARY", library, why, "make preload"] {
            assert!(said.contains(part), "no {part} in {said}");
        }
        assert!(!said.contains("MPI_Init"), "{said}");
    }
    // What the library would not take is said before the program runs.
    for (options, status, ran) in [(&[][..], 1, ""), (&["--no-events"], 0, "runs\n")] {
        let args = [options, &["-o", directory.text(), "--", "echo", "runs"]].concat();
        let mut command = record(&harmless(), &args);
        let (code, out, said) = output(command.env("RANKWAY_TRACE_EVENTS", "maybe"));
        assert_eq!((code, &*out), (Some(status), ran), "{said}");
        assert_eq!(said.contains("RANKWAY_TRACE_EVENTS is 'maybe'; it takes on"), status == 1);
        assert_eq!(said.contains("MPI_Init"), status == 0, "{said}");
    }
    for (args, parts) in [
        (["-o", "/dev/null/x", "--", "true"], ["--output", "/dev/null/x"]),
        (["-o", directory.text(), "--", "/nonexistent/program"], ["cannot start", "/nonexistent"]),
    ] {
        let (code, _, said) = output(&mut record(&harmless(), &args));
        assert_eq!(code, Some(1), "{said}");
        assert!(parts.iter().all(|part| said.contains(part)), "{said}");
    }
    // What was made for nothing goes again.
    let fresh = format!("{}/fresh", directory.text());
    for program in ["/nonexistent/program", "false"] {
        output(&mut record(&harmless(), &["-o", &fresh, "--", program]));
        assert!(!Path::new(&fresh).exists(), "after {program}");
    }
    let (code, _, said) = output(&mut record(&harmless(), &[]));
    assert!(code == Some(2) && said.contains("COMMAND"), "{said}");
}

/// What another job recorded meanwhile is told as another's.
#[test]
fn what_others_record_is_told_apart() {
    let century = 100 * 365 * 24 * 3600 * 1_000_000_000;
    let (one, other) = (Directory::new(), Directory::new());
    leaking(&one, 30, century);
    Process::with_clock(6, 0, 1, century).end(&other);
    let (one, other) = (one.text(), other.text());
    for (files, expected) in [
        (format!("{one}/*"), "3 processes and"),
        (format!("{one}/* {other}/*"), "4 processes of 2 jobs and"),
    ] {
        let (directory, script) = (Directory::new(), format!("cp {files} $RANKWAY_TRACE"));
        let args = ["-o", directory.text(), "--", "sh", "-c", &script];
        let (code, _, said) = output(&mut record(&harmless(), &args));
        assert!(code == Some(0) && said.contains(expected), "{said}");
    }
}

/// The program leaves what others recorded, after it began by their clock: a third of what they
/// made is freed at once.
#[test]
fn a_limit_that_is_near_is_told() {
    let century = 100 * 365 * 24 * 3600 * 1_000_000_000;
    for (copies, is_near) in [(3_000, true), (300, false)] {
        let (made, directory) = (Directory::new(), Directory::new());
        leaking(&made, copies, century);
        let script = format!("cp {}/* $RANKWAY_TRACE", made.text());
        let args = ["-o", directory.text(), "--", "sh", "-c", &script];
        let (code, _, said) = output(&mut record(&harmless(), &args));
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains("3 processes and"), "{said}");
        assert_eq!(said.contains("the MPI's limit: 2,048"), is_near, "{said}");
    }
}
