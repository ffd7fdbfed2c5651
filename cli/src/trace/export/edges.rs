//! The calls of a thread as what begins and ends, in order of time.

use rankway::track::{Event, Kind, ProcessTrace};
use std::cmp::Reverse;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Edge {
    /// The call began.
    Enter,
    /// It returned.
    Leave,
    /// What is no call, but came to its end in one ([`Kind::is_end`]).
    Moment,
}

/// Calls `each` with every edge, its time in ns since 1970 and its event. Times never go
/// back, and what began within a call ends within it: an event that says it ended later
/// (clocks are read before and after what they time) ends with the call. Events of a kind
/// that is not known are left out; returns how many.
pub(super) fn edges<E>(
    trace: &ProcessTrace,
    events: &[Event],
    mut each: impl FnMut(Edge, u64, usize) -> Result<(), E>,
) -> Result<u64, E> {
    let mut calls = Vec::with_capacity(events.len());
    for (at, event) in events.iter().enumerate() {
        let (start, end) = (trace.nanos(event.start), trace.nanos(event.end()));
        match event.kind() {
            Some(kind) if kind.is_end() => calls.push((end, end, at)),
            Some(_) => calls.push((start, end, at)),
            None => (),
        }
    }
    // Calls are recorded as they return: of two that began at once the longer is outside,
    // and of two that are alike the later.
    calls.sort_unstable_by_key(|&(start, end, at)| (start, Reverse(end), Reverse(at)));
    let mut open: Vec<(u64, usize)> = Vec::new();
    for &(start, end, at) in &calls {
        let moment = events[at].kind().is_some_and(Kind::is_end);
        while let Some(&(until, call)) = open.last() {
            if until > start || (moment && until == start) {
                break;
            }
            each(Edge::Leave, until, call)?;
            open.pop();
        }
        if moment {
            each(Edge::Moment, start, at)?;
            continue;
        }
        each(Edge::Enter, start, at)?;
        open.push((open.last().map_or(end, |&(until, _)| end.min(until)), at));
    }
    while let Some((until, call)) = open.pop() {
        each(Edge::Leave, until, call)?;
    }
    Ok((events.len() - calls.len()) as u64)
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{HEADER, written};
    use super::*;

    fn all(events: &[Event]) -> Vec<(Edge, u64, usize)> {
        let trace = ProcessTrace::from_bytes(&written(&HEADER, &[])).unwrap();
        let mut all = Vec::new();
        edges(&trace, events, |edge, time, at| {
            all.push((edge, time - HEADER.unix_nanos, at));
            Ok::<(), ()>(())
        })
        .unwrap();
        all
    }

    #[test]
    fn calls_nest_and_times_never_go_back() {
        use Edge::{Enter, Leave, Moment};
        let of = |kind, start, end| Event::new(kind, start, end);
        let events = [
            of(Kind::Send, 0, 4),
            of(Kind::Received, 10, 12),
            of(Kind::Recv, 10, 18),
            of(Kind::Wait, 10, 20),
            // Longer than what it is in.
            of(Kind::Isend, 22, 31),
            of(Kind::Sendrecv, 21, 30),
            // At the end of a call.
            of(Kind::Waitall, 30, 40),
            of(Kind::Received, 40, 40),
        ];
        let want = [
            (Enter, 0, 0),
            (Leave, 4, 0),
            (Enter, 10, 3),
            (Enter, 10, 2),
            (Moment, 12, 1),
            (Leave, 18, 2),
            (Leave, 20, 3),
            (Enter, 21, 5),
            (Enter, 22, 4),
            (Leave, 30, 4),
            (Leave, 30, 5),
            (Enter, 30, 6),
            (Moment, 40, 7),
            (Leave, 40, 6),
        ];
        assert_eq!(all(&events), want);
    }

    /// Whatever is recorded: a stack, in order of time.
    #[test]
    fn any_events_make_a_stack() {
        let mut seed = 7_u64;
        let mut dice = |most: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % most
        };
        for _ in 0..500 {
            let count = dice(20);
            let events: Vec<Event> = (0..count)
                .map(|_| {
                    let (kind, start) =
                        (Kind::ALL[dice(Kind::ALL.len() as u64) as usize], dice(30));
                    Event::new(kind, start, start + dice(9))
                })
                .collect();
            let (mut open, mut last, mut calls) = (Vec::new(), 0, 0);
            for (edge, time, at) in all(&events) {
                assert!(time >= last, "{events:?}");
                last = time;
                match edge {
                    Edge::Enter => open.push(at),
                    Edge::Leave => assert_eq!(open.pop(), Some(at), "{events:?}"),
                    Edge::Moment => assert!(events[at].kind().is_some_and(Kind::is_end)),
                }
                calls += usize::from(edge != Edge::Leave);
            }
            assert!(open.is_empty() && calls == events.len(), "{events:?}");
        }
    }
}
