//! Which receive takes which send, as [`Sequences`] count them, told by each process alone:
//! it sees one side.

use crate::trace::messages::{Sequences, Side};
use rankway::track::{CallClass, DefinitionFlags, NO_PEER, ProcessTrace};
use std::collections::{BTreeMap, HashMap};

/// Numbers of the messages of a process, equal on both ends.
pub(super) struct Flows {
    /// By event, 0 of those that are no message.
    by_thread: BTreeMap<u32, Vec<u64>>,
}

impl Flows {
    pub(super) fn of(trace: &ProcessTrace) -> Flows {
        // When it began, thread, place: small, as there are as many as calls.
        let mut messages: Vec<(u64, u32, u32)> = Vec::new();
        for (&thread, events) in &trace.events {
            for (at, event) in events.iter().enumerate() {
                let class = event.kind().map(|kind| kind.class());
                if !matches!(class, Some(CallClass::Send | CallClass::Receive)) {
                    continue;
                }
                if event.peer != NO_PEER && !event.flags().is_void() {
                    // (They follow each other in the order in which they were begun; an end
                    // that says nothing of that is all there is.)
                    messages.push((event.start, thread, at as u32));
                }
            }
        }
        messages.sort_unstable();
        let defined: HashMap<u32, _> =
            trace.definitions.iter().map(|one| (one.id, &one.definition)).collect();
        let mut sequences: Sequences<(u32, u32, i32, bool), ()> = Sequences::default();
        let mut by_thread: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
        for (_, thread, at) in messages {
            let (events, at) = (&trace.events[&thread], at as usize);
            let event = &events[at];
            let Some(definition) = defined.get(&event.comm) else { continue };
            let sent = event.kind().is_some_and(|kind| kind.class() == CallClass::Send);
            let key = (event.comm, event.peer, event.tag, sent);
            let number = sequences.add(key, Side::Sent, ()).0 as u32;
            let (from, to) = match sent {
                true => (definition.rank, event.peer),
                false => (event.peer, definition.rank),
            };
            // Of the two groups of an intercommunicator: the sender's.
            let second = definition.flags.has(DefinitionFlags::SECOND_GROUP) == sent;
            let second = definition.constructor.object()
                != rankway::track::ObjectKind::Communicator
                && second;
            let ends = u64::from(to) << 32 | u64::from(event.tag as u32);
            let flow = definition.identity.child(from, ends).child(number, second.into()).0;
            by_thread.entry(thread).or_insert_with(|| vec![0; events.len()])[at] = flow;
        }
        Flows { by_thread }
    }

    /// Of the `at`-th event of a thread.
    pub(super) fn get(&self, thread: u32, at: usize) -> Option<u64> {
        self.by_thread.get(&thread)?.get(at).copied().filter(|&flow| flow != 0)
    }
}
