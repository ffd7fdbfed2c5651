//! MPI programs with the library preloaded and without, under Open MPI and MPICH: what they
//! print is the same, and what was recorded is what they did.
//!
//! A compiler or a launcher that is missing is reported and skipped.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test")]

mod support;

use rankway::track::{
    CallClass, Constructor, DefinitionFlags, Event, EventFlags, Kind, NO_PEER, Partial,
    ProcessTrace,
};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use support::mpis::{Mpi, each, scratch};
use support::processes::told;
use support::{fresh, leaked, made, members_agree, same, settings, sorted, text, traces};

/// Every constructor, on different numbers of processes.
fn constructors(mpi: &Mpi, program: &Path) {
    let file = scratch().join(format!("constructors-file.{}", mpi.name));
    for ranks in [4, 7] {
        let (_, traces) = same(mpi, ranks, "constructors", &[program, &file]);
        assert_eq!(traces.len(), ranks as usize);
        members_agree(mpi, &traces);
        for trace in &traces {
            assert!(trace.ended && trace.dropped == 0);
            use Constructor::*;
            let made = made(trace);
            for (what, count) in [
                (World, 1),
                (ItSelf, 1),
                (Dup, 1 + 1 + 20 + 1),
                (DupWithInfo, 1),
                (Idup, 1),
                (SplitType, 1),
                (Create, 1),
                (CreateGroup, 1),
                (CartCreate, 1),
                (DistGraphCreate, 1),
                (DistGraphCreateAdjacent, 1),
                (IntercommCreate, 1),
                (IntercommDup, 1),
                (IntercommSplit, 1),
                (IntercommMerge, 1),
                (WinCreate, 1),
                (WinAllocate, 1),
                (WinAllocateShared, 1),
                (WinCreateDynamic, 1),
                (FileOpen, 1),
            ] {
                let is_left_out = what == CartCreate && ranks == 7 && trace.header.rank == 6;
                let count = if is_left_out { 0 } else { count };
                assert_eq!(
                    made.get(&what).copied().unwrap_or(0),
                    count,
                    "{}: {what}: {made:?}",
                    mpi.name
                );
            }
            let is_first = trace.header.rank == 0;
            assert_eq!(made[&Split], if is_first { 2 } else { 3 });
            let leaked = trace.definitions.iter().filter(|one| one.freed.is_none());
            let leaked: Vec<_> = leaked.map(|one| one.definition.constructor).collect();
            let graph = (made.get(&GraphCreate) == Some(&1)).then_some(GraphCreate);
            assert!(
                leaked.iter().all(|what| [World, ItSelf].contains(what)),
                "{leaked:?} {graph:?}"
            );
            assert!(trace.names.values().any(|name| name == "merged again"));
            assert!(
                trace.sites.values().any(|site| site.contains("constructors")),
                "{:?}",
                trace.sites
            );
        }
    }
}

#[test]
fn members_know_each_communicator_by_one_name() {
    each("mpicc", |mpi, compiler| {
        constructors(mpi, &mpi.build(compiler, "constructors.c", "constructors", &["-g"]));
    });
}

/// An event as a line: what was called, the peer, the tag, bytes.
fn line(event: &Event) -> String {
    let kind = event.kind().unwrap();
    if event.flags().has(EventFlags::CANCELLED) {
        return format!("{kind:?} cancelled");
    }
    let peer = if event.peer == NO_PEER { "-".to_owned() } else { event.peer.to_string() };
    let tag = if event.tag < 0 { "any".to_owned() } else { event.tag.to_string() };
    format!("{kind:?} {peer} {tag} {}", event.bytes())
}

fn lines(trace: &ProcessTrace) -> Vec<String> {
    let wanted = |event: &&Event| {
        !matches!(event.kind().unwrap().class(), CallClass::Other | CallClass::Management)
    };
    trace.events.values().flatten().filter(wanted).map(line).collect()
}

/// Every request that a call began has its end, which names the call by the time it began.
fn requests_end(mpi: &Mpi, trace: &ProcessTrace) {
    let mut ends = BTreeMap::<u64, Vec<Kind>>::new();
    for event in trace.events.values().flatten() {
        if event.kind().is_some_and(Kind::is_end) && event.ticks() > 0 {
            ends.entry(event.start).or_default().push(event.kind().unwrap());
        }
    }
    for event in trace.events.values().flatten() {
        let Some(kind) = event.kind().filter(|kind| kind.begins()) else { continue };
        let expected = match kind.class() {
            CallClass::Post => vec![Kind::Received],
            _ if matches!(kind, Kind::Isendrecv | Kind::IsendrecvReplace) => {
                vec![Kind::Completed, Kind::Received]
            }
            _ => vec![Kind::Completed],
        };
        assert_eq!(ends.remove(&event.start), Some(expected), "{}: {event:?}", mpi.name);
    }
    assert!(ends.is_empty(), "{}: {ends:?}", mpi.name);
}

/// Every call of point-to-point, as the program makes them.
fn calls(mpi: &Mpi, program: &Path) {
    let after = |rank: u32| {
        let peer = 1 - rank;
        let mut lines = vec![
            format!("Sendrecv {peer} 20 8"),
            format!("Received {peer} 20 8"),
            format!("SendrecvReplace {peer} 21 12"),
            format!("Received {peer} 21 12"),
        ];
        if rank == 1 {
            lines.extend(
                ["Irecv 0 99 0", "Cancel - 0 0", "Wait - 0 0", "Received cancelled"]
                    .map(str::to_owned),
            );
        }
        let root = if rank == 1 { 16 } else { 0 };
        lines.extend([
            "Barrier - 0 0".to_owned(),
            format!("Bcast 1 0 {root}"),
            "Allreduce - 0 12".to_owned(),
            "Alltoall - 0 16".to_owned(),
            "Iallreduce - 0 20".to_owned(),
            "Wait - 0 0".to_owned(),
            "Fence - 0 0".to_owned(),
            format!("Put {peer} 0 24"),
            "Fence - 0 0".to_owned(),
        ]);
        lines
    };
    let mut sends: Vec<String> = vec![
        "Send 1 1 4",
        "Bsend 1 2 8",
        "Ssend 1 3 12",
        "Isend 1 4 16",
        "Issend 1 5 20",
        "Ibsend 1 6 24",
        "Waitall - 0 0",
    ]
    .into_iter()
    .map(str::to_owned)
    .collect();
    sends.extend((7..15).map(|tag| format!("Send 1 {tag} {}", tag * 4)));
    sends.extend(
        [
            "Send - 40 0",
            "StartSend 1 15 60",
            "Wait - 0 0",
            "StartSend 1 15 60",
            "Wait - 0 0",
            "RequestFree - 0 0",
        ]
        .map(str::to_owned),
    );
    sends.extend(after(0));
    let mut receives: Vec<String> = vec![
        "Recv 0 1 4",
        "Recv 0 2 8",
        "Probe 0 3 12",
        "Recv 0 3 12",
        "Irecv - 4 0",
        "Wait - 0 0",
        "Received 0 4 16",
        "Mprobe 0 5 20",
        "Mrecv 0 5 20",
        "Mprobe 0 6 24",
        "Imrecv - 0 0",
        "Wait - 0 0",
        "Received 0 6 24",
        "Irecv 0 any 0",
        "Test - 0 0",
        "Received 0 7 28",
        "Irecv 0 8 0",
        "Irecv 0 9 0",
        "Irecv 0 10 0",
        "Waitall - 0 0",
        "Received 0 8 32",
        "Received 0 9 36",
        "Received 0 10 40",
        "Irecv 0 11 0",
        "Waitany - 0 0",
        "Received 0 11 44",
        "Irecv 0 12 0",
        "Testsome - 0 0",
        "Received 0 12 48",
        "Irecv 0 13 0",
        "Waitsome - 0 0",
        "Received 0 13 52",
        "Iprobe 0 14 56",
        "Recv 0 14 56",
        "StartRecv 0 15 0",
        "Waitall - 0 0",
        "Received 0 15 60",
        "StartRecv 0 15 0",
        "Waitall - 0 0",
        "Received 0 15 60",
        "RequestFree - 0 0",
        "Recv - any 0",
    ]
    .into_iter()
    .map(str::to_owned)
    .collect();
    receives.extend(after(1));
    let (_, traces) = same(mpi, 2, "calls", &[program]);
    members_agree(mpi, &traces);
    for (trace, expected) in traces.iter().zip([&sends, &receives]) {
        assert_eq!(&lines(trace), expected, "{}", mpi.name);
        requests_end(mpi, trace);
        let ends: Vec<_> = trace.events.values().flatten().map(Event::end).collect();
        assert!(ends.is_sorted());
        // All of it was on the duplicate, but for the window's and the waits.
        let dup =
            trace.definitions.iter().find(|one| one.definition.constructor == Constructor::Dup);
        let dup = dup.unwrap().id;
        for event in trace.events.values().flatten() {
            use CallClass::*;
            let class = event.kind().unwrap().class();
            if matches!(class, Send | Receive | Post | Collective | CollectiveStart) {
                let is_own = event.comm == dup || event.kind() == Some(Kind::Imrecv);
                assert!(is_own, "{event:?}");
            }
        }
    }
}

#[test]
fn each_call_is_an_event() {
    each("mpicc", |mpi, compiler| {
        calls(mpi, &mpi.build(compiler, "calls.c", "calls", &[]));
    });
}

/// A message that was too long has come, and those that completed beside it: each send has
/// its receive.
#[test]
fn messages_that_are_cut_are_received() {
    each("mpicc", |mpi, compiler| {
        let program = mpi.build(compiler, "cut.c", "cut", &[]);
        let (_, traces) = same(mpi, 2, "cut", &[&program]);
        for trace in &traces {
            // (How long it was, or how much of it came: each MPI says what it likes.)
            let messages = trace.events.values().flatten().filter(|event| {
                let kind = event.kind().unwrap();
                matches!(kind, Kind::Send | Kind::Recv | Kind::Received | Kind::Sendrecv)
            });
            let shown = messages.map(|event| {
                assert!(!event.flags().is_void(), "{}: {}", mpi.name, line(event));
                format!("{:?} {} {}", event.kind().unwrap(), event.peer, event.tag)
            });
            let shown: Vec<_> = shown.collect();
            let between: &[&str] = match trace.header.rank {
                0 => &["Send 1 1", "Send 1 2", "Send 1 3", "Send 1 4", "Send 1 5"],
                _ => &["Recv 0 1", "Received 0 2", "Received 0 3", "Received 0 4", "Received 0 5"],
            };
            let peer = 1 - trace.header.rank;
            let exchange = [format!("Sendrecv {peer} 6"), format!("Received {peer} 6")];
            let expected = between.iter().map(|line| (*line).to_owned()).chain(exchange);
            assert_eq!(shown, expected.collect::<Vec<_>>(), "{}", mpi.name);
        }
    });
}

/// Arguments that MPI does not look at, errors without statuses, tests that find nothing.
#[test]
fn what_few_programs_do_is_recorded_too() {
    each("mpicc", |mpi, compiler| {
        let program = mpi.build(compiler, "corners.c", "corners", &[]);
        let (output, traces) = same(mpi, 2, "corners", &[&program]);
        assert!(output.status.success(), "{}", told(mpi.name, &output));
        assert_eq!(text(&output.stdout).matches(": 1\n").count(), 8, "{}", told("", &output));
        for trace in &traces {
            use Kind::{Bcast, Gather, Gatherv, Reduce, Scatter, WinTest};
            let is = |event: &&Event| {
                [Bcast, Gather, Gatherv, Reduce, Scatter, WinTest].contains(&event.kind().unwrap())
            };
            let lines: Vec<_> = trace.events.values().flatten().filter(is).map(line).collect();
            let expected: &[&str] = match trace.header.rank {
                0 => &[
                    "Gather - 0 0",
                    "Gatherv - 0 0",
                    "Reduce - 0 0",
                    "Scatter - 0 4",
                    "WinTest - 0 0",
                    "Bcast 0 0 4294967296",
                ],
                _ => &[
                    "Gather 0 0 8",
                    "Gatherv 0 0 4",
                    "Reduce 0 0 12",
                    "Scatter 0 0 0",
                    "Bcast 0 0 4294967296",
                ],
            };
            assert_eq!(lines, expected, "{}", mpi.name);
        }
    });
}

/// Calls that MPI 3 and 4 added, as two processes make them: `rank`'s lines, and those that
/// an MPI 4 has behind them.
fn later_lines(rank: u32) -> (Vec<String>, Vec<String>) {
    let (peer, elements) = (1 - rank, 4 * (rank + 1));
    let mut lines = vec![if rank == 0 { "Send 1 1 12" } else { "Recv 0 1 12" }.to_owned()];
    let mut add = |line: &str| lines.push(line.to_owned());
    add("Alltoallv - 0 12");
    for _ in 0..3 {
        add("Ialltoallv - 0 12");
        add("Wait - 0 0");
    }
    add(&format!("Gatherv 1 0 {elements}"));
    add(&format!("Sendrecv {peer} 2 12"));
    add(&format!("Received {peer} 2 12"));
    for (kind, bytes) in
        [("Allgather", 4), ("Allgatherv", 4), ("Alltoall", 16), ("Alltoallv", 8), ("Alltoallw", 8)]
    {
        add(&format!("Ineighbor{kind} - 0 {bytes}"));
        add("Wait - 0 0");
    }
    let mut later = Vec::new();
    let mut add = |line: &str| later.push(line.to_owned());
    for _ in 0..2 {
        add(&format!("Ibcast 1 0 {}", 16 * rank));
        add("Wait - 0 0");
    }
    add("RequestFree - 0 0");
    add(&format!("Isendrecv {peer} 20 4"));
    add("Wait - 0 0");
    // (No MPI that has it tells of how many bytes.)
    add(&format!("Received {peer} 20 0"));
    let parts: &[&str] = match rank {
        0 => &["StartSend 1 9 24", "Wait - 0 0"],
        _ => &["StartRecv 0 9 0", "Parrived 0 9 0", "Wait - 0 0", "Received 0 9 24"],
    };
    parts.iter().for_each(|line| add(line));
    add("RequestFree - 0 0");
    (lines, later)
}

fn later_calls(mpi: &Mpi, program: &Path, is_mpi_4: bool) {
    let (_, traces) = same(mpi, 2, "calls4", &[program]);
    members_agree(mpi, &traces);
    for trace in &traces {
        let (mut expected, later) = later_lines(trace.header.rank);
        if is_mpi_4 {
            expected.extend(later);
        }
        assert_eq!(lines(trace), expected, "{}", mpi.name);
        requests_end(mpi, trace);
        let made = made(trace);
        let requests = if is_mpi_4 { 2 } else { 0 };
        assert_eq!(made.get(&Constructor::PersistentRequest).copied().unwrap_or(0), requests);
        assert_eq!(made[&Constructor::TypeConstruct], 1);
        assert_eq!(leaked(trace).len(), 2, "{}: {:?}", mpi.name, leaked(trace));
        let all = trace.events.values().flatten();
        let ready = all.filter(|event| {
            matches!(event.kind(), Some(Kind::Pready | Kind::PreadyRange)) && event.bytes() == 0
        });
        let parts = if is_mpi_4 && trace.header.rank == 0 { 2 } else { 0 };
        assert_eq!(ready.count(), parts, "{}", mpi.name);
    }
}

/// Open MPI 4 has no functions with large counts: a program that asks finds those of the
/// library, which call the others.
#[test]
fn later_calls_are_events_too() {
    each("mpicc", |mpi, compiler| {
        let program = mpi.build(compiler, "calls4.c", "calls4", &[]);
        later_calls(mpi, &program, mpi.name != "openmpi");
    });
}

/// A program that never calls `MPI_Init`, of `ranks` processes; `parts` where those of a part
/// can meet, and again.
fn sessions(mpi: &Mpi, ranks: u32, program: &Path, parts: bool) {
    let (_, traces) = same(mpi, ranks, "sessions", &[program]);
    members_agree(mpi, &traces);
    let jobs: BTreeSet<_> = traces.iter().map(|one| one.header.job).collect();
    assert_eq!((traces.len(), jobs.len()), (ranks as usize, 1), "{}", mpi.name);
    for trace in &traces {
        assert!(trace.ended, "{}", mpi.name);
        let is_upper = parts && trace.header.rank >= ranks / 2;
        use Constructor::*;
        let (made, times) = (made(trace), if parts { 2 } else { 1 });
        assert_eq!(made[&CreateFromGroup], times + times * usize::from(is_upper));
        assert_eq!([made[&Split], made[&GroupFromSessionPset]], [times; 2]);
        assert_eq!([made[&IntercommCreate], made[&GroupRangeIncl]], [times, 2 * times]);
        let group = made.get(&CreateGroup).copied().unwrap_or(0);
        assert_eq!(group, times * trace.header.rank.min(1) as usize);
        let between = made.get(&IntercommCreateFromGroups).copied();
        assert_eq!(between, parts.then_some(times), "{}", mpi.name);
        assert_eq!((made.get(&World), leaked(trace).len()), (None, 0));
        let of = |kind| {
            let is = |event: &&Event| event.kind() == Some(kind);
            trace.events.values().flatten().filter(is).count()
        };
        assert_eq!([Kind::Init, Kind::Allreduce].map(of), [1, 2 * times], "{}", mpi.name);
    }
}

/// Two of four processes have the library: no constructor waits for the others, who are missing
/// in what is put together.
fn sessions_of_some(mpi: &Mpi, program: &Path) {
    let words = [program, Path::new(":"), Path::new("-n"), Path::new("2"), program];
    let plain = mpi.launch(2, &[], &words);
    let directory = fresh(mpi, "sessions-of-some");
    let with = mpi.launch(2, &settings(&directory, "on"), &words);
    let both = format!("{}\n{}", told(mpi.name, &plain), told("with the library", &with));
    assert!(plain.status.success() && with.status.success(), "{both}");
    assert_eq!(sorted(&plain.stdout), sorted(&with.stdout), "{both}");
    assert_eq!(text(&with.stderr).matches("not all of a communicator").count(), 2, "{both}");
    let traces = traces(&directory);
    let unified = Partial::merge_all(traces.iter().map(Partial::of)).finish();
    let seen: Vec<_> = unified.jobs.iter().map(|job| (job.size, job.seen)).collect();
    assert_eq!(seen, [(4, 2)], "{both}");
    // Nobody has told what the members call it: each has it alone.
    for object in &unified.objects {
        let told = object.constructor == Constructor::CreateFromGroup;
        assert!(!told || (object.size, object.seen) == (4, 1), "{object:?}");
    }
}

#[test]
fn programs_of_sessions_alone_are_recorded() {
    each("mpicc", |mpi, compiler| {
        if mpi.name == "openmpi" {
            return; // Version 4 has no sessions.
        }
        let program = mpi.build(compiler, "sessions.c", "sessions", &[]);
        sessions(mpi, 4, &program, false);
        sessions_of_some(mpi, &program);
    });
}

/// Without events nothing stands between a program and MPI's own functions but a jump.
#[test]
#[cfg(target_arch = "x86_64")]
fn without_events_calls_are_a_jump_away() {
    each("mpicc", |mpi, compiler| {
        let program = mpi.build(compiler, "jumps.c", "jumps", &[]);
        for (events, goes_to) in [("off", "MPI's own"), ("on", "others")] {
            let directory = fresh(mpi, "jumps");
            let output = mpi.launch(1, &settings(&directory, events), &[&program]);
            let names = ["MPI_Send", "PMPI_Send", "MPI_Isend", "MPI_Recv", "MPI_Allreduce"];
            let expected = names.map(|name| format!("{name}: 2 instructions, then {goes_to}\n"));
            assert_eq!(text(&output.stdout), expected.concat(), "{}", told(mpi.name, &output));
        }
    });
}

/// The standard ABI, as a package of Python's has it.
#[test]
fn the_standard_abi_is_recorded_too() {
    let prefix = scratch().join("mpich-wheel");
    let mut install = Command::new("timeout");
    install.args(["50", "python3", "-m", "pip", "install", "--quiet", "--no-deps", "--prefix"]);
    install.arg(&prefix).arg("mpich==5.0.2");
    let library = prefix.join("lib/libmpi_abi.so.1");
    if !library.exists() && !install.output().is_ok_and(|output| output.status.success()) {
        return eprintln!("skipped: the package mpich, which has libmpi_abi.so.1, cannot be had");
    }
    let launcher = prefix.join("bin/mpiexec.hydra").display().to_string();
    let abi = Mpi { name: "abi", library: "libmpi_abi.so.1", launcher: launcher.leak() };
    let (include, lib) = (prefix.join("include"), prefix.join("lib"));
    let build = |source: &str, name: &str| {
        let include = format!("-I{}", include.display());
        let (path, from) =
            (format!("-L{}", lib.display()), format!("-Wl,-rpath,{}", lib.display()));
        // (mpi.h includes the header of the ABI where it is asked to.)
        let flags = ["-g", "-w", "-DMPI_ABI", "-DPARTS", &include, &path, &from, "-lmpi_abi"];
        abi.build("gcc", source, name, &flags)
    };
    constructors(&abi, &build("constructors.c", "constructors"));
    calls(&abi, &build("calls.c", "calls"));
    later_calls(&abi, &build("calls4.c", "calls4"), true);
    let program = build("sessions.c", "sessions");
    sessions(&abi, 4, &program, true);
    sessions_of_some(&abi, &program);
}

/// With `RANKWAY_TRACE_EVENTS=off` definitions alone.
#[test]
fn tracking_alone_records_no_calls() {
    each("mpicc", |mpi, compiler| {
        let program = mpi.build(compiler, "calls.c", "quiet", &[]);
        let directory = fresh(mpi, "quiet");
        let output = mpi.launch(2, &settings(&directory, "off"), &[&program]);
        assert!(output.status.success(), "{}", told(mpi.name, &output));
        let traces = traces(&directory);
        members_agree(mpi, &traces);
        assert_eq!(traces.len(), 2);
        assert!(traces.iter().all(|one| one.ended && one.events.values().all(Vec::is_empty)));
        assert!(traces.iter().all(|one| made(one)[&Constructor::WinCreate] == 1));
    });
}

#[test]
fn leaks_are_what_was_never_freed() {
    each("mpicc", |mpi, compiler| {
        let program = mpi.build(compiler, "leaks.c", "leaks", &["-g"]);
        for how in ["", "exit"] {
            let (_, traces) = match how {
                "" => same(mpi, 2, "leaks", &[&program]),
                how => {
                    let directory = fresh(mpi, how);
                    let words = [program.as_path(), Path::new(how)];
                    let output = mpi.launch(1, &settings(&directory, "on"), &words);
                    assert_eq!(text(&output.stdout), "leaked\n", "{}", told(mpi.name, &output));
                    (output, traces(&directory))
                }
            };
            for trace in &traces {
                assert!(trace.ended, "{} {how}", mpi.name);
                use Constructor::*;
                let expected = [
                    (World, 1),
                    (ItSelf, 1),
                    (Dup, 5),
                    (CommGroup, 1),
                    (TypeConstruct, 1),
                    (PersistentRequest, 1),
                ];
                assert_eq!(leaked(trace), BTreeMap::from(expected), "{} {how}", mpi.name);
            }
        }
    });
}

/// Who has the most communicators is told where there are no more.
#[test]
fn exhaustion_names_who_made_them() {
    each("mpicc", |mpi, compiler| {
        if mpi.name != "mpich" {
            return; // Open MPI has 65,532 of them, some 9 kB each.
        }
        let program = mpi.build(compiler, "leaks.c", "exhausts", &["-g"]);
        let directory = fresh(mpi, "exhausts");
        let words = [program.as_path(), Path::new("exhaust")];
        let output = mpi.launch(1, &settings(&directory, "on"), &words);
        assert!(text(&output.stdout).contains("failed: 1"), "{}", told(mpi.name, &output));
        let said = text(&output.stderr);
        assert_eq!(said.matches("MPI_Comm_dup is called with 20").count(), 1, "{said}");
        assert!(said.contains("exhausts.mpich+0x"), "{said}");
        // MPI ends the job within the call, where errors do that: who made them is told before,
        // and in the files. The rank whose call is the first to fail ends the other, told or not.
        let directory = fresh(mpi, "exhausts-fatally");
        let words = [program.as_path(), Path::new("fatal")];
        let output = mpi.launch(2, &settings(&directory, "on"), &words);
        let said = told(mpi.name, &output);
        assert!(!output.status.success(), "{said}");
        let mut who = traces(&directory);
        who.retain(|trace| {
            said.contains(&format!("rank {}: MPI_Comm_dup is called with 20", trace.header.rank))
        });
        assert!(!who.is_empty(), "{said}");
        for trace in who {
            assert!(leaked(&trace).get(&Constructor::Dup) > Some(&2_000), "{said}");
        }
    });
}

#[test]
fn threads_record_at_once() {
    each("mpicc", |mpi, compiler| {
        let program = mpi.build(compiler, "threads.c", "threads", &[]);
        let (_, traces) = same(mpi, 2, "threads", &[&program]);
        for trace in &traces {
            assert!(trace.ended && trace.dropped == 0);
            let all: Vec<_> = trace.events.values().flatten().collect();
            let of = |kind| all.iter().filter(|event| event.kind() == Some(kind)).count();
            for kind in [Kind::Send, Kind::Irecv, Kind::Wait, Kind::Received] {
                assert_eq!(of(kind), 4 * 200, "{} {kind}", mpi.name);
            }
            assert_eq!(made(trace)[&Constructor::Dup], 4 + 4 * 4);
            assert_eq!(leaked(trace).len(), 2);
        }
    });
}

#[test]
fn fortran_comes_by_its_own_names() {
    each("mpifort", |mpi, compiler| {
        for (name, flags) in [("mpi", &["-w"][..]), ("f08", &["-w", "-DF08"])] {
            let flags = [flags, &["-fallow-argument-mismatch", "-g"]].concat();
            let program = mpi.build(compiler, "halo.F90", name, &flags);
            let (_, traces) = same(mpi, 4, name, &[&program]);
            members_agree(mpi, &traces);
            for trace in &traces {
                let all: Vec<_> = trace.events.values().flatten().collect();
                let of = |kind| all.iter().filter(|event| event.kind() == Some(kind)).count();
                let counts = [Kind::Isend, Kind::Received, Kind::Waitall, Kind::Allreduce].map(of);
                assert_eq!(counts, [40, 40, 20, 41], "{} {name}", mpi.name);
                let cart = trace
                    .definitions
                    .iter()
                    .find(|one| one.definition.constructor == Constructor::CartCreate);
                let cart = cart.unwrap();
                assert!(
                    cart.freed.is_some() && !cart.definition.flags.has(DefinitionFlags::INTERNAL)
                );
                let site = &trace.sites[&cart.definition.site];
                assert!(site.contains(&format!("{name}.{}", mpi.name)), "{site}");
            }
        }
    });
}
