//! Requests: what a call began, and what ended in another.
//!
//! An end says when what it ends was begun, which names it in its process
//! ([`Kind::is_end`]). Requests that have both are numbered from 1 in the order of those times.

use rankway::track::{Event, Kind, ProcessTrace};
use std::collections::HashMap;

/// What a request is of.
#[derive(Clone, Copy)]
pub(super) struct Started {
    pub(super) kind: Kind,
    pub(super) peer: u32,
    pub(super) bytes: u64,
    /// A message comes by it.
    pub(super) receives: bool,
}

/// Requests of a process, by the time of the call.
pub(super) struct Requests(HashMap<u64, (u64, Started)>);

impl Requests {
    pub(super) fn of(trace: &ProcessTrace) -> Requests {
        let all = || {
            let events = trace.events.values().flatten();
            events.filter_map(|event| event.kind().map(|kind| (event, kind)))
        };
        let ends = all().filter(|(event, kind)| kind.is_end() && event.ticks() > 0);
        let mut ended: HashMap<u64, bool> = HashMap::new();
        for (event, kind) in ends {
            *ended.entry(event.start).or_default() |= kind == Kind::Received;
        }
        let begins = all().filter(|(event, kind)| kind.begins() && !event.flags().is_void());
        let begun = begins.filter_map(|(event, kind)| {
            let &receives = ended.get(&event.start)?;
            let (peer, bytes) = (event.peer, event.bytes());
            Some((event.start, Started { kind, peer, bytes, receives }))
        });
        let mut begun: Vec<(u64, Started)> = begun.collect();
        begun.sort_by_key(|&(start, _)| start);
        let numbered = (1..).zip(begun).map(|(number, (start, begun))| (start, (number, begun)));
        Requests(numbered.collect())
    }

    /// The number of the request that a call made or started.
    pub(super) fn begun(&self, event: &Event) -> Option<(u64, Started)> {
        event.kind().filter(|kind| kind.begins())?;
        self.0.get(&event.start).copied()
    }

    /// That of the one that ended.
    pub(super) fn ended(&self, event: &Event) -> Option<(u64, Started)> {
        event.kind().filter(|kind| kind.is_end() && event.ticks() > 0)?;
        self.0.get(&event.start).copied()
    }
}
