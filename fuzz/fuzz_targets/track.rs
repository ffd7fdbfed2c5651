//! Bytes → a process's trace or definitions that were put together: refused, or read, and
//! then consistent: what is read again is the same, and no answer panics.
//!
//! The first byte says which: a file, a file behind a header that is right, definitions, the
//! same behind their magic number, or two files that are merged.
//!
//! `ci/proof/fuzz.sh track`

#![no_main]

use libfuzzer_sys::fuzz_target;
use rankway::rankmap::Process;
use rankway::track::{Partial, ProcessTrace, ThreadEvents, Unified};
use std::io::Cursor;

/// A formula of many members is right, and takes long to walk.
const MANY: u64 = 1 << 16;

/// A header that is right: of rank `rank` of 8.
fn header(rank: u8) -> Vec<u8> {
    let mut header = b"RWTRACE\x01".to_vec();
    header.extend(1u64.to_le_bytes());
    header.extend([u32::from(rank % 8), 8, 77, 0].map(u32::to_le_bytes).concat());
    header.extend([5u64, 1_000_000, 0.5f64.to_bits(), 0].map(u64::to_le_bytes).concat());
    header
}

fn trace(bytes: &[u8]) -> Option<ProcessTrace> {
    let trace = ProcessTrace::from_bytes(bytes).ok()?;
    let len = bytes.len() as u64;
    for (&thread, events) in &trace.events {
        // Read a piece at a time it has the same.
        let mut again = ThreadEvents::new(Cursor::new(bytes), len, thread, 0);
        for event in events {
            let _ = (event.kind(), event.flags(), trace.nanos(event.end()));
            assert_eq!(again.next(), Ok(Some(*event)));
        }
        assert_eq!(again.next(), Ok(None));
    }
    Some(trace)
}

fn partial(partial: Partial) {
    let again = Partial::from_bytes(&partial.to_bytes()).expect("bytes of ours");
    assert_eq!(again, partial);
    if partial.members() < MANY && partial.processes() < MANY {
        unified(&partial.finish());
    }
}

fn unified(unified: &Unified) {
    for object in &unified.objects {
        assert!(object.parent.is_none_or(|parent| parent < unified.objects.len()));
        for group in object.groups.into_iter().flatten() {
            let group = &unified.groups[group];
            assert!(object.family || object.sizes.contains(&group.size()));
            assert_eq!(group.get(group.size()), None);
            for rank in 0..group.size().min(64) {
                let Some(process) = group.get(rank) else { continue };
                assert!(process.pg < unified.jobs.len() as u32);
                assert!(group.rank_of(process).is_some_and(|first| first <= rank));
            }
            assert_eq!(group.rank_of(Process::new(u32::MAX, 0)), None);
        }
    }
    for job in &unified.jobs {
        for id in 0..8 {
            let of = unified.object_of(job.number, id, id);
            assert!(of.is_none_or(|object| object < unified.objects.len()));
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((&which, data)) = data.split_first() else { return };
    match which % 5 {
        0 => trace(data).iter().map(Partial::of).for_each(partial),
        1 => {
            let file = [header(which / 5), data.to_vec()].concat();
            trace(&file).iter().map(Partial::of).for_each(partial);
        }
        2 => Partial::from_bytes(data).into_iter().for_each(partial),
        3 => {
            let whole = [b"RWUNIFY\x01", data].concat();
            Partial::from_bytes(&whole).into_iter().for_each(partial);
        }
        _ => {
            let (one, other) = data.split_at(data.len() / 2 & !7);
            let of = |rank, body: &[u8]| trace(&[header(rank), body.to_vec()].concat());
            let traces = [of(which / 5, one), of(which / 5 + 1, other)];
            let partials = traces.iter().flatten().map(Partial::of);
            partial(Partial::merge_all(partials));
        }
    }
});
