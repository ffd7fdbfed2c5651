//! A real program under each MPI, from `record` to the page.
#![allow(clippy::unwrap_used, reason = "a test")]

use crate::command::{array, command, has, json, run};
use crate::job::Directory;
use crate::mpis::{Mpi, each};
use crate::processes::{OWN_SESSION, bounded, told};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/cli/trace/grid.c");
const RANKS: u32 = 4;
const STEPS: u64 = 5;

/// The library that records, which cargo builds for this test.
fn library() -> PathBuf {
    let deps = std::env::current_exe().unwrap().parent().unwrap().to_path_buf();
    let library = deps.join("librankway_track.so");
    assert!(library.exists(), "{} is not there", library.display());
    library
}

/// `rankway trace record -o DIRECTORY options -- launcher -n 4 PROGRAM`.
fn recorded(mpi: &Mpi, program: &Path, directory: &Directory, options: &[&str]) {
    let ours = command("trace", &[]);
    let mut command = Command::new(OWN_SESSION[0]);
    command.args(&OWN_SESSION[1..]).arg(ours.get_program());
    command.args(["trace", "record", "-o", directory.text()]).args(options);
    command.arg("--").arg(mpi.launcher);
    if mpi.name == "openmpi" {
        // (As root in a container.)
        command.args(["--allow-run-as-root", "--oversubscribe"]);
    }
    command.args(["-n", &RANKS.to_string()]).arg(program);
    command.env("RANKWAY_TRACK_LIBRARY", library());
    let output = bounded(command).unwrap();
    assert!(output.status.success(), "{}", told(mpi.name, &output));
    let said = String::from_utf8_lossy(&output.stderr);
    has(&said, &["4 processes", "rankway trace leaks"]);
}

fn sum(report: &Value, list: &str, key: &str) -> u64 {
    array(report, list).iter().filter_map(|one| one[key].as_u64()).sum()
}

/// Bytes from rank to rank, as the program moves them.
fn expected() -> BTreeMap<(u32, u32), (u64, u64)> {
    let mut moved = BTreeMap::<_, (u64, u64)>::new();
    for rank in 0..RANKS {
        moved.entry((rank, rank ^ 1)).or_default().0 += STEPS * 8000;
        moved.entry((rank, rank ^ 2)).or_default().0 += STEPS * 400;
        moved.entry((rank, (rank + 1) % RANKS)).or_default().1 += STEPS * 64;
    }
    moved
}

fn line_of(text: &str) -> String {
    let source = std::fs::read_to_string(SOURCE).unwrap();
    let at = source.lines().position(|line| line.contains(text)).unwrap();
    format!("grid.c:{}", at + 1)
}

#[test]
fn a_program_is_told_from_record_to_report() {
    each("mpicc", |mpi, compiler| {
        let program = mpi.build(compiler, SOURCE, "grid", &["-g"]);
        let directory = Directory::new();
        recorded(mpi, &program, &directory, &[]);
        let answer = |what: &str| json("trace", &[what, directory.text()]);

        let comms = answer("comms");
        let named = |name: &str| -> Vec<&Value> {
            array(&comms, "communicators").iter().filter(|one| one["name"] == name).collect()
        };
        for (name, count, size) in [("grid", 1, 4), ("row", 2, 2), ("column", 2, 2)] {
            let found = named(name);
            assert_eq!(found.len(), count, "{}: {name}: {comms}", mpi.name);
            assert!(found.iter().all(|one| one["size"] == size && one["reported"] == size));
            assert!(found.iter().all(|one| one["freed"] == size), "{}: {found:?}", mpi.name);
        }
        let grid = named("grid")[0];
        assert_eq!((&grid["messages"], &grid["message_bytes"]), (&20.into(), &160_000.into()));
        assert_eq!(grid["maps"][0]["model"], "direct");
        let parents = named("row").into_iter().chain(named("column"));
        assert!(parents.into_iter().all(|one| one["parent"] == grid["id"]), "{comms}");
        // In the order in which they were made, which is chance.
        let models = |name: &str| -> Vec<String> {
            let mut models: Vec<String> = (named(name).iter())
                .map(|one| one["maps"][0]["model"].as_str().unwrap().to_owned())
                .collect();
            models.sort();
            models
        };
        assert_eq!(models("row"), ["direct", "offset"]);
        assert_eq!(models("column"), ["stride", "stride"]);

        let leaks = answer("leaks");
        let [leak] = &array(&leaks, "leaks")[..] else { panic!("{}: {leaks}", mpi.name) };
        assert_eq!(
            (&leak["constructor"], &leak["most_on_a_rank"]),
            (&"MPI_Comm_dup".into(), &3.into())
        );
        assert_eq!((&leak["objects"], &leak["ranks"]), (&6.into(), &4.into()), "{leaks}");
        assert!(leak["site"].as_str().unwrap().ends_with(&line_of("// never freed")), "{leak}");
        assert!(["leak", "main"].iter().any(|name| leak["function"] == *name), "{leak}");
        assert!(leaks["communicators"]["limit"].as_u64() > Some(1000), "{leaks}");

        let matrix = answer("matrix");
        let rank = |text: &Value| -> u32 { text.as_str().unwrap().parse().unwrap() };
        let moved: BTreeMap<_, _> = (array(&matrix, "pairs").iter())
            .map(|pair| {
                let bytes = |key: &str| pair[key].as_u64().unwrap();
                let moved = (bytes("message_bytes"), bytes("put_bytes"));
                ((rank(&pair["source"]), rank(&pair["destination"])), moved)
            })
            .collect();
        assert_eq!(moved, expected(), "{}", mpi.name);

        let waits = answer("waits");
        assert_eq!(waits["messages"], 2 * STEPS * u64::from(RANKS), "{}: {waits}", mpi.name);
        assert!(array(&waits, "unmatched").is_empty(), "{}: {waits}", mpi.name);
        // Fences, sums of both rows and barriers.
        assert_eq!(waits["collectives"], (STEPS + 1) + 2 * STEPS + STEPS, "{}: {waits}", mpi.name);
        assert_eq!(waits["unmatched_collectives"], 0);
        assert!(sum(&answer("timeline"), "shares", "calls") > 200);

        let page = directory.path().join("page.html");
        let args = ["report", directory.text(), "-o", page.to_str().unwrap()];
        assert!(run("trace", &args).status.success());
        has(&std::fs::read_to_string(page).unwrap(), &["MPI_Cart_sub", "grid.c:"]);
    });
}

/// Without calls communicators and what was not freed are known all the same.
#[test]
fn without_events() {
    each("mpicc", |mpi, compiler| {
        let program = mpi.build(compiler, SOURCE, "grid-quiet", &["-g"]);
        let directory = Directory::new();
        recorded(mpi, &program, &directory, &["--no-events"]);
        let comms = json("trace", &["comms", directory.text()]);
        assert_eq!(sum(&comms, "jobs", "events"), 0, "{comms}");
        assert!(array(&comms, "communicators").iter().any(|one| one["name"] == "grid"));
        let leaks = json("trace", &["leaks", directory.text()]);
        assert_eq!(leaks["leaks"][0]["objects"], 6, "{leaks}");
    });
}
