//! Bytes → a map and a chain of selections from it, against plain lists.
//!
//! `ci/proof/fuzz.sh rankmap`

#![no_main]

use std::collections::HashMap;
use std::sync::atomic::{AtomicPtr, AtomicU64};

use libfuzzer_sys::fuzz_target;
use rankway::rankmap::{Lookup, Process, RankMap};

const LPIDS: u32 = 1 << 12;

struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn next(&mut self) -> Option<u32> {
        let (&byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(u32::from(byte))
    }
}

/// A list below `limit`: a few instructions make runs, boxes and repetitions,
/// so that near-regular maps are near in bytes too.
fn list(bytes: &mut Bytes<'_>, limit: u32) -> Option<Vec<u32>> {
    let mut list = vec![bytes.next()? % limit];
    for _ in 0..bytes.next()? % 12 {
        let (op, argument) = (bytes.next()?, bytes.next()?);
        match op % 4 {
            // One more rank, anywhere.
            0 => list.push((bytes.next()? << 8 | argument) % limit),
            // A run.
            1 => {
                let step = bytes.next()? as u8 as i8;
                let mut last = i64::from(*list.last()?);
                for _ in 0..argument % 32 {
                    last = (last + i64::from(step)).rem_euclid(i64::from(limit));
                    list.push(last as u32);
                }
            }
            // All of it again, shifted: one more digit.
            2 => {
                let shift = bytes.next()? << 8 | bytes.next()?;
                let once = list.clone();
                for k in 1..=argument % 6 {
                    if list.len() < 2_000 {
                        list.extend(once.iter().map(|v| (v + k * shift) % limit));
                    }
                }
            }
            // Drop the first ranks: a phase.
            _ => drop(list.drain(..(argument as usize).min(list.len() - 1))),
        }
    }
    Some(list)
}

fn check(map: &RankMap, list: &[Process], directory: &[AtomicPtr<AtomicU64>; 2]) {
    assert_eq!(map.len() as usize, list.len());
    assert!(map.iter().eq(list.iter().copied()));
    // SAFETY: both groups have an entry for every lpid below LPIDS.
    let lookup = unsafe { Lookup::new(map, directory.as_ptr()) };
    let mut smallest = HashMap::new();
    for (rank, &process) in list.iter().enumerate() {
        assert_eq!(map.get(rank as u32), Some(process));
        // SAFETY: rank is below the size.
        let entry = unsafe { lookup.entry(rank) };
        assert_eq!(entry, u64::from(process.pg) << 32 | u64::from(process.lpid));
        smallest.entry(process).or_insert(rank as u32);
    }
    for &process in list {
        for near in [process, Process { lpid: process.lpid + 1, ..process }] {
            assert_eq!(map.rank_of(near), smallest.get(&near).copied());
        }
    }
    assert_eq!(*map, RankMap::from_processes(list.iter().copied()).unwrap());
}

fuzz_target!(|data: &[u8]| {
    let mut tables: [Vec<AtomicU64>; 2] = [0u64, 1]
        .map(|pg| (0..u64::from(LPIDS)).map(|lpid| AtomicU64::new(pg << 32 | lpid)).collect());
    let directory = tables.each_mut().map(|table| AtomicPtr::new(table.as_mut_ptr()));
    let mut bytes = Bytes(data);
    let Some(mixed) = bytes.next() else { return };
    let Some(lpids) = list(&mut bytes, LPIDS) else { return };
    let group = |rank: usize| u32::from(mixed != 0 && rank as u32 % mixed == mixed - 1);
    let mut processes: Vec<Process> =
        lpids.iter().enumerate().map(|(rank, &lpid)| Process { pg: group(rank), lpid }).collect();
    let mut map = RankMap::from_processes(processes.iter().copied()).unwrap();
    check(&map, &processes, &directory);
    for _ in 0..4 {
        let Some(ranks) = list(&mut bytes, map.len()) else { return };
        let child = RankMap::from_lpids(0, ranks.iter().copied()).unwrap();
        map = map.compose(&child).unwrap();
        processes = ranks.iter().map(|&rank| processes[rank as usize]).collect();
        check(&map, &processes, &directory);
    }
});
