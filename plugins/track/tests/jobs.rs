//! Jobs that meet, that end otherwise than by MPI_Finalize, that have no space, and of which not
//! all processes have the library.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test")]

mod support;

use rankway::track::{Constructor, Kind};
use std::collections::BTreeSet;
use std::path::Path;
use support::mpis::{each, scratch};
use support::processes::told;
use support::{fresh, leaked, made, members_agree, same, settings, sorted, text, traces};

/// A rank that dies in the middle: what the others recorded is there.
#[test]
fn a_rank_that_is_killed_leaves_the_others_records() {
    each("mpicc", |mpi, compiler| {
        let program = mpi.build(compiler, "leaks.c", "dies", &[]);
        let directory = fresh(mpi, "dies");
        let words = [program.as_path(), Path::new("die")];
        let output = mpi.launch(3, &settings(&directory, "on"), &words);
        assert!(!output.status.success(), "{}", told(mpi.name, &output));
        let traces = traces(&directory);
        assert_eq!(traces.len(), 3);
        for trace in traces.iter().filter(|one| one.header.rank != 1) {
            assert_eq!(leaked(trace).get(&Constructor::Dup), Some(&5), "{}", mpi.name);
        }
    });
}

/// Children have the library where the launcher gives it to all it starts; where it is the
/// parents' alone each side's names are its own, and nobody waits for the other.
#[test]
fn spawned_processes_have_a_world_of_their_own() {
    each("mpicc", |mpi, compiler| {
        let program = mpi.build(compiler, "spawns.c", "spawns", &[]);
        let plain = mpi.launch(2, &[], &[&program]);
        if !plain.status.success() {
            return eprintln!("skipped: {} spawns nothing here: {}", mpi.name, told("", &plain));
        }
        for (to_all, processes, jobs) in [(true, 4, 2), (false, 2, 1)] {
            let directory = fresh(mpi, "spawns");
            let settings = settings(&directory, "on");
            let with = match to_all {
                true => mpi.launch_all(2, &settings, &[&program]),
                false => mpi.launch(2, &settings, &[&program]),
            };
            assert!(with.status.success(), "{}", told(mpi.name, &with));
            assert_eq!(text(&plain.stdout), text(&with.stdout));
            let traces = traces(&directory);
            let worlds: BTreeSet<_> = traces.iter().map(|one| one.header.job).collect();
            assert_eq!((traces.len(), worlds.len()), (processes, jobs), "{}", mpi.name);
            if to_all {
                members_agree(mpi, &traces);
                let merged = traces.iter().flat_map(|one| &one.definitions);
                let is = |constructor| {
                    move |one: &&rankway::track::Defined| one.definition.constructor == constructor
                };
                assert_eq!(merged.clone().filter(is(Constructor::IntercommMerge)).count(), 4);
                assert_eq!(merged.filter(is(Constructor::Parent)).count(), 2);
            }
        }
    });
}

/// What cannot be written is told, and the program ends as it does without.
#[test]
fn what_cannot_be_written_harms_no_program() {
    each("mpicc", |mpi, compiler| {
        let program = mpi.build(compiler, "leaks.c", "harmless", &[]);
        let file = scratch().join(format!("no-directory.{}", mpi.name));
        std::fs::write(&file, "a file").unwrap();
        for (directory, events, named) in [
            (file.clone(), "on", "RANKWAY_TRACE"),
            (file.join("below"), "on", "RANKWAY_TRACE"),
            (fresh(mpi, "harmless"), "sometimes", "RANKWAY_TRACE_EVENTS"),
        ] {
            let output = mpi.launch(2, &settings(&directory, events), &[&program]);
            assert!(output.status.success(), "{}", told(mpi.name, &output));
            assert_eq!(sorted(&output.stdout), sorted(b"leaked\nleaked\n"));
            assert!(text(&output.stderr).contains(named), "{}", told(mpi.name, &output));
        }
        // A disk that is full as soon as the file is made; two jobs into one directory.
        let directory = fresh(mpi, "shared");
        for _ in 0..2 {
            let output = mpi.launch(2, &settings(&directory, "on"), &[&program]);
            assert!(output.status.success(), "{}", told(mpi.name, &output));
        }
        let traces = traces(&directory);
        let jobs: BTreeSet<_> = traces.iter().map(|one| one.header.job).collect();
        assert_eq!((traces.len(), jobs.len()), (4, 2));
    });
}

/// Two halves of a job at a port, and two processes by a socket, where MPI has that.
#[test]
fn processes_that_meet_know_each_other() {
    each("mpicc", |mpi, compiler| {
        let program = mpi.build(compiler, "meets.c", "meets", &[]);
        for (how, ranks, times) in [("port", 4, 2), ("join", 2, 1)] {
            let words = [program.as_path(), Path::new(how)];
            let plain = mpi.launch(ranks, &[], &words);
            if !plain.status.success() {
                eprintln!("skipped: {} has no {how} here: {}", mpi.name, told("", &plain));
                continue;
            }
            let (_, traces) = same(mpi, ranks, how, &words);
            assert_eq!(traces.len(), ranks as usize);
            let merged = |one| made(one).get(&Constructor::IntercommMerge).copied();
            for trace in &traces {
                use Constructor::{Accept, Connect, Join};
                let is_upper = trace.header.rank >= ranks / 2;
                let constructor = match (how, is_upper) {
                    ("join", _) => Join,
                    (_, false) => Accept,
                    (_, true) => Connect,
                };
                assert_eq!(made(trace)[&constructor], times, "{} {how}", mpi.name);
                assert_eq!((merged(trace), leaked(trace).len()), (Some(times), 2));
            }
            if how == "port" {
                members_agree(mpi, &traces);
            }
        }
    });
}

/// SIGTERM in the middle of a receive: the file has its end, and the process ends by it.
#[test]
fn a_rank_that_is_terminated_ends_its_file() {
    each("mpicc", |mpi, compiler| {
        let program = mpi.build(compiler, "leaks.c", "terminated", &[]);
        let directory = fresh(mpi, "terminated");
        let words = [program.as_path(), Path::new("term")];
        let output = mpi.launch(3, &settings(&directory, "on"), &words);
        assert!(!output.status.success(), "{}", told(mpi.name, &output));
        let traces = traces(&directory);
        assert_eq!(traces.len(), 3);
        // (The launcher may kill the others at once.)
        let one = traces.iter().find(|one| one.header.rank == 1).unwrap();
        assert_eq!(leaked(one).get(&Constructor::Dup), Some(&5), "{}", mpi.name);
        let kinds: Vec<_> =
            one.events.values().flatten().filter_map(|event| event.kind()).collect();
        assert!(one.ended && kinds.contains(&Kind::Barrier), "{}: {kinds:?}", mpi.name);
    });
}

/// A file system of 200 KiB, or files that may have as many, for three megabytes of events each.
#[test]
fn a_full_disk_harms_no_program() {
    each("mpicc", |mpi, compiler| {
        let program = mpi.build(compiler, "leaks.c", "busy", &[]);
        let directory = fresh(mpi, "full");
        let kept = fresh(mpi, "full-kept");
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::create_dir_all(&kept).unwrap();
        // Mounted for this job alone, and gone with it.
        let script = scratch().join(format!("full.{}.sh", mpi.name));
        let words = "mount -t tmpfs -o size=200k full \"$1\" || exit 77\n\
                     to=$2; from=$1; shift 2; \"$@\"; status=$?; cp \"$from\"/* \"$to\"; exit $status\n";
        std::fs::write(&script, words).unwrap();
        let settings = settings(&directory, "on");
        let before =
            [Path::new("unshare"), Path::new("-m"), Path::new("sh"), &script, &directory, &kept];
        let output = mpi.launch_by(&before, 2, &settings, &[&program, Path::new("busy")]);
        if [Some(77), Some(1)].contains(&output.status.code()) && output.stdout.is_empty() {
            return eprintln!("skipped: nothing can be mounted here: {}", told("", &output));
        }
        assert!(output.status.success(), "{}", told(mpi.name, &output));
        assert_eq!(sorted(&output.stdout), sorted(b"leaked\nleaked\n"));
        let said = text(&output.stderr);
        assert_eq!(said.matches("the file system is full").count(), 2, "{said}");
        let limited = fresh(mpi, "limited");
        let words = [program.as_path(), Path::new("limited")];
        let output = mpi.launch(2, &self::settings(&limited, "on"), &words);
        assert!(output.status.success(), "{}", told(mpi.name, &output));
        for directory in [kept, limited] {
            let traces = traces(&directory);
            assert_eq!(traces.len(), 2);
            for trace in &traces {
                assert!(trace.dropped > 10_000, "{}: {} dropped", mpi.name, trace.dropped);
                // What was made and freed has space that events leave.
                assert!(trace.ended && trace.lost == 0, "{}: {} lost", mpi.name, trace.lost);
                assert_eq!(leaked(trace).get(&Constructor::Dup), Some(&5), "{}", mpi.name);
            }
        }
    });
}

/// Two of four processes have the library: all go on, and those two are jobs of their own.
#[test]
fn processes_without_the_library_hold_nobody_up() {
    each("mpicc", |mpi, compiler| {
        let program = mpi.build(compiler, "meets.c", "apart", &[]);
        let without = ["apart", ":", "-n", "2"].map(Path::new);
        let words = [&[program.as_path()], &without[..], &[&program, without[0]]].concat();
        let plain = mpi.launch(2, &[], &words);
        assert_eq!(text(&plain.stdout), "apart: 4 processes, 6\n", "{}", told(mpi.name, &plain));
        let directory = fresh(mpi, "apart");
        let output = mpi.launch(2, &settings(&directory, "on"), &words);
        assert!(output.status.success(), "{}", told(mpi.name, &output));
        assert_eq!(output.stdout, plain.stdout);
        let said = text(&output.stderr);
        assert_eq!(said.matches("not all of MPI_COMM_WORLD").count(), 2, "{said}");
        let traces = traces(&directory);
        let jobs: BTreeSet<_> = traces.iter().map(|one| one.header.job).collect();
        assert_eq!((traces.len(), jobs.len()), (2, 2), "{}", mpi.name);
        for trace in &traces {
            let created = made(trace).get(&Constructor::CreateGroup).copied().unwrap_or(0);
            assert_eq!(created, trace.header.rank.min(1) as usize, "{}", mpi.name);
            assert_eq!((made(trace)[&Constructor::IntercommCreate], leaked(trace).len()), (1, 2));
        }
    });
}
