//! What tests of the library share: programs run with it and without, and what they recorded.
#![allow(dead_code, unreachable_pub, reason = "not all have a use for all")]

#[path = "../../../../tests/harness/mpis.rs"]
pub mod mpis;
#[path = "../../../../tests/harness/processes.rs"]
pub mod processes;

use mpis::{Mpi, preloaded, scratch};
use processes::told;
use rankway::track::{
    Constructor, Definition, DefinitionFlags, FILE_ENDING, ObjectKind, ProcessTrace,
};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Output;

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The bytes that all ranks printed: launchers mix them.
pub fn sorted(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes.sort_unstable();
    bytes
}

/// A directory that is not there yet.
pub fn fresh(mpi: &Mpi, name: &str) -> PathBuf {
    let directory = scratch().join(format!("trace-{name}.{}", mpi.name));
    let _ = std::fs::remove_dir_all(&directory);
    directory
}

pub fn settings(directory: &Path, events: &str) -> Vec<String> {
    vec![
        format!("LD_PRELOAD={}", preloaded("librankway_track.so").display()),
        format!("RANKWAY_TRACE={}", directory.display()),
        format!("RANKWAY_TRACE_EVENTS={events}"),
    ]
}

/// What the processes of a run recorded, by rank; nothing else is in the directory.
pub fn traces(directory: &Path) -> Vec<ProcessTrace> {
    let mut all = Vec::new();
    for file in std::fs::read_dir(directory).unwrap() {
        let path = file.unwrap().path();
        assert!(path.to_string_lossy().ends_with(FILE_ENDING), "{} was left", path.display());
        all.push(ProcessTrace::from_bytes(&std::fs::read(path).unwrap()).unwrap());
    }
    all.sort_by_key(|one| (one.header.job, one.header.rank));
    all
}

/// Runs a program with the library and without: it prints the same and ends the same.
pub fn same(mpi: &Mpi, ranks: u32, name: &str, words: &[&Path]) -> (Output, Vec<ProcessTrace>) {
    let plain = mpi.launch(ranks, &[], words);
    let directory = fresh(mpi, name);
    let with = mpi.launch(ranks, &settings(&directory, "on"), words);
    let both = format!("{}\n{}", told(mpi.name, &plain), told("with the library", &with));
    assert_eq!(sorted(&plain.stdout), sorted(&with.stdout), "{both}");
    assert_eq!(plain.status.code(), with.status.code(), "{both}");
    (with, traces(&directory))
}

/// Whoever has an object has the same name for it as its other members, and nobody else
/// has: of each name there are as many as its size says, with different ranks.
pub fn members_agree(mpi: &Mpi, traces: &[ProcessTrace]) {
    let mut objects = BTreeMap::<_, Vec<&Definition>>::new();
    for defined in traces.iter().flat_map(|one| &one.definitions) {
        let of = &defined.definition;
        use ObjectKind::{Communicator, File, Intercommunicator, Window};
        if matches!(of.constructor.object(), Communicator | Intercommunicator | Window | File) {
            objects.entry(of.identity).or_default().push(of);
        }
    }
    for (identity, members) in objects {
        let constructors: BTreeSet<_> = members.iter().map(|of| of.constructor).collect();
        let (spawned, met) = (
            BTreeSet::from([Constructor::Spawn, Constructor::Parent]),
            BTreeSet::from([Constructor::Accept, Constructor::Connect]),
        );
        let what = format!("{}: {identity:?}: {members:?}", mpi.name);
        assert!(constructors.len() == 1 || [spawned, met].contains(&constructors), "{what}");
        let groups = match members[0].constructor.object() {
            ObjectKind::Intercommunicator => vec![false, true],
            _ => vec![false],
        };
        for second in groups {
            let is_here = |of: &&&Definition| of.flags.has(DefinitionFlags::SECOND_GROUP) == second;
            let here: Vec<_> = members.iter().filter(is_here).collect();
            let ranks: BTreeSet<_> = here.iter().map(|of| of.rank).collect();
            assert!(!here.is_empty(), "{what}");
            assert!(here.iter().all(|of| of.size as usize == here.len()), "{what}");
            assert_eq!(ranks.len(), here.len(), "{what}");
        }
    }
}

/// How many of each a process has made.
pub fn made(trace: &ProcessTrace) -> BTreeMap<Constructor, usize> {
    let mut made = BTreeMap::new();
    for defined in &trace.definitions {
        if !defined.definition.flags.has(DefinitionFlags::INTERNAL) {
            *made.entry(defined.definition.constructor).or_default() += 1;
        }
    }
    made
}

/// What was never freed.
pub fn leaked(trace: &ProcessTrace) -> BTreeMap<Constructor, usize> {
    let mut leaked = BTreeMap::new();
    for defined in trace.definitions.iter().filter(|one| one.freed.is_none()) {
        *leaked.entry(defined.definition.constructor).or_default() += 1;
    }
    leaked
}
