//! An archive for the tools of OTF2, written by its C library: `otf2-print`, Vampir, Scalasca.
//!
//! ```text
//! ffi          the library, opened at run time
//! events       the calls of a thread as records
//! requests     what a call began and another ended
//! pending      accesses to windows that are not over
//! numbers      what objects and processes are called in it
//! definitions  what all share: processes, groups, communicators, windows
//! ```
//!
//! One process writes all of it after the run: events of one location after another, a file
//! of definitions for each, and then what they share.

mod definitions;
mod events;
mod ffi;
mod numbers;
mod pending;
mod requests;

use super::{Export, Survey};
use crate::target::Target;
use definitions::Recorded;
use events::{Objects, Used};
use ffi::Archive;
use numbers::Numbers;
use rankway::track::{ProcessTrace, Unified};
use requests::Requests;
use std::collections::HashSet;
use std::fs;
use std::path::Path;

/// What is not there, in every numbering.
const UNDEFINED: u32 = u32::MAX;

pub(super) struct Otf2 {
    target: Target,
    archive: Archive,
    numbers: Numbers,
    recorded: Vec<Recorded>,
    used: Used,
    records: u64,
}

impl Otf2 {
    pub(super) fn create(target: Target, survey: &Survey) -> Result<Otf2, String> {
        let archive = Archive::create(target.path()).map_err(|e| at(&target, &e))?;
        let numbers = Numbers::new(&survey.unified);
        let (recorded, used) = (Vec::new(), Used::default());
        Ok(Otf2 { target, archive, numbers, recorded, used, records: 0 })
    }

    fn write(&mut self, survey: &Survey, trace: &ProcessTrace) -> Result<(), String> {
        let header = &trace.header;
        let Some(process) = self.numbers.process(&survey.unified, header.job, header.rank) else {
            return Err(format!("rank {} is in no job; was the trace overwritten?", header.rank));
        };
        let objects = Objects::new(&survey.unified, &self.numbers, trace);
        let requests = Requests::of(trace);
        let mut locations = Vec::new();
        // (A process without events has a location for its place in groups.)
        let first = trace.events.keys().next().copied().unwrap_or(0);
        let none = (first, Vec::new());
        let threads = trace.events.iter().map(|(thread, events)| (*thread, events));
        let threads: Vec<_> = match trace.events.is_empty() {
            true => vec![(none.0, &none.1)],
            false => threads.collect(),
        };
        for (thread, events) in threads {
            let location = match thread == first {
                true => u64::from(process),
                false => self.numbers.further_location(),
            };
            let writer = self.archive.events(location)?;
            let untold = if thread == first { objects.untold(trace) } else { Vec::new() };
            objects.write(&writer, trace, events, &untold, &requests, &mut self.used)?;
            let written = writer.close()?;
            self.records += written;
            locations.push((thread, location, written));
        }
        self.recorded.push(Recorded {
            process,
            host: trace.facts.get("host").cloned(),
            locations,
            dropped: trace.dropped,
            lost: trace.lost,
            ended: trace.ended,
        });
        Ok(())
    }
}

/// Writes an archive without events, of what processes say together, into a directory that is
/// there. Returns the bytes of its definitions.
pub(crate) fn write_definitions(unified: &Unified, directory: &Path) -> Result<u64, String> {
    let archive = Archive::create(directory)?;
    let numbers = Numbers::new(unified);
    archive.end_events([], 0)?;
    let label = |_: usize, rank: u32| rank.to_string();
    definitions::write(&archive, unified, &numbers, &[], &Used::default(), 0, &label)?;
    archive.close()?;
    let file = directory.join("traces.def");
    Ok(fs::metadata(&file).map_err(|e| format!("{}: {e}", file.display()))?.len())
}

fn at(target: &Target, why: &str) -> String {
    format!("{}: {why}", target.place().display())
}

impl Export for Otf2 {
    fn process(&mut self, survey: &Survey, _: usize, trace: &ProcessTrace) -> Result<(), String> {
        self.write(survey, trace).map_err(|e| at(&self.target, &e))
    }

    fn finish(self: Box<Self>, survey: &Survey) -> Result<(u64, u64), String> {
        let Otf2 { target, archive, numbers, recorded, used, records } = *self;
        let label = |job, rank| survey.label(job, rank);
        let begin = used.begin().unwrap_or(survey.begin);
        // Readers want a file of events of every location, also where there are none.
        let there: HashSet<u64> =
            recorded.iter().flat_map(|one| &one.locations).map(|&(_, at, _)| at).collect();
        let mut silent = numbers.locations().filter(|location| !there.contains(location));
        let written = silent
            .try_for_each(|location| archive.events(location)?.close().map(drop))
            .and_then(|()| archive.end_events(numbers.locations(), begin))
            .and_then(|()| {
                definitions::write(
                    &archive,
                    &survey.unified,
                    &numbers,
                    &recorded,
                    &used,
                    begin,
                    &label,
                )
            })
            .and_then(|definitions| archive.close().map(|()| definitions));
        let written = written.map_err(|e| at(&target, &e))?;
        Ok((records + written, target.put()?.unwrap_or(0)))
    }
}
