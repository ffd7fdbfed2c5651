//! What the rank-map tests share: a naive model, random maps, a fake address
//! vector.
#![allow(dead_code, unreachable_pub)]

#[path = "../harness/dice.rs"]
mod dice;

pub use dice::Dice;
use std::collections::HashMap;
use std::sync::atomic::{AtomicPtr, AtomicU64};

use rankway::rankmap::{Lookup, Process, RankMap};

pub fn pids(pg: u32, lpids: &[u32]) -> Vec<Process> {
    lpids.iter().map(|&lpid| Process { pg, lpid }).collect()
}

/// Entries of a few process groups, each telling who it is for.
pub struct FakeVectors {
    tables: Vec<Vec<AtomicU64>>,
    directory: Vec<AtomicPtr<AtomicU64>>,
}

impl FakeVectors {
    pub fn new(groups: u32, size: u32) -> FakeVectors {
        let mut tables: Vec<Vec<AtomicU64>> = (0..groups)
            .map(|pg| (0..size).map(|lpid| AtomicU64::new(entry(Process { pg, lpid }))).collect())
            .collect();
        let directory = tables.iter_mut().map(|t| AtomicPtr::new(t.as_mut_ptr())).collect();
        FakeVectors { tables, directory }
    }

    pub fn check(&self, map: &RankMap, list: &[Process]) {
        // SAFETY: every test keeps lpids and groups below those of `new`, and
        // the map outlives the lookup.
        let lookup = unsafe { Lookup::new(map, self.directory.as_ptr()) };
        for (rank, &process) in list.iter().enumerate() {
            // SAFETY: rank is below the size.
            let found = unsafe { lookup.entry(rank) };
            assert_eq!(found, entry(process), "rank {rank} of {map:?}");
        }
    }
}

fn entry(process: Process) -> u64 {
    u64::from(process.pg) << 40 | u64::from(process.lpid) << 1 | 1
}

/// Everything a map answers, against the list.
pub fn check(map: &RankMap, list: &[Process]) {
    assert_eq!(map.len() as usize, list.len());
    assert_eq!(map.is_empty(), list.is_empty());
    assert!(map.iter().eq(list.iter().copied()), "iter of {map:?}, want {list:?}");
    assert_eq!(map.iter().len(), list.len());
    let mut smallest = HashMap::new();
    for (rank, &process) in list.iter().enumerate() {
        assert_eq!(map.get(rank as u32), Some(process), "rank {rank} of {map:?}");
        smallest.entry(process).or_insert(rank as u32);
    }
    assert_eq!(map.get(list.len() as u32), None);
    assert_eq!(map.get(u32::MAX), None);
    for &process in list {
        let Process { pg, lpid } = process;
        for near in [
            process,
            Process { pg, lpid: lpid + 1 },
            Process { pg, lpid: lpid.wrapping_sub(1) },
            Process { pg: pg ^ 1, lpid },
        ] {
            assert_eq!(map.rank_of(near), smallest.get(&near).copied(), "{near} in {map:?}");
        }
    }
    assert!(map.bytes() >= size_of::<RankMap>());
}

/// `Σ stride·digit` for the ranks `skip..skip + len` of a box whose last digit
/// is open, moved to start at `low`.
pub fn mixed_list(digits: &[(i64, i64)], skip: i64, len: usize, low: i64) -> Vec<u32> {
    let raw: Vec<i64> = (skip..skip + len as i64)
        .map(|mut x| {
            let mut lpid = 0;
            for (k, &(extent, stride)) in digits.iter().enumerate() {
                let digit = if k + 1 == digits.len() { x } else { x % extent };
                lpid += stride * digit;
                x /= extent;
            }
            lpid
        })
        .collect();
    let least = raw.iter().min().copied().unwrap_or(0);
    raw.iter().map(|v| u32::try_from(v - least + low).expect("an lpid")).collect()
}

/// A random list of parent ranks below `size`, of one of the shapes programs
/// make; its name and the list.
pub fn child_of(rng: &mut Dice, size: usize) -> (&'static str, Vec<u32>) {
    let n = size as i64;
    match rng.below(13) {
        0 => ("dup", (0..size as u32).collect()),
        1 => {
            let start = rng.range(0, n);
            let end = rng.range(start, n) + 1;
            ("offset", (start as u32..end as u32).collect())
        }
        2 | 3 => {
            let stride = rng.range(2, 9).min(n);
            let start = rng.range(0, stride.min(n));
            ("stride", (start..n).step_by(stride as usize).map(|r| r as u32).collect())
        }
        4 => ("reversed", (0..size as u32).rev().collect()),
        5 | 6 => {
            // Blocks of `width` at every `pitch`: a column of a process grid.
            let pitch = rng.range(2, 33).min(n.max(2));
            let width = rng.range(1, pitch);
            let start = rng.range(0, pitch - width + 1);
            let list: Vec<u32> = (0..n)
                .filter(|r| (start..start + width).contains(&(r % pitch)))
                .map(|r| r as u32)
                .collect();
            ("blocks", list)
        }
        7 => {
            // Round-robin placement read as blocks: a transpose.
            let rows = rng.range(2, 17).min(n);
            let columns = n / rows;
            let list =
                (0..rows * columns).map(|r| ((r % rows) * columns + r / rows) as u32).collect();
            ("transpose", list)
        }
        8 => {
            let (a, b) = (rng.range(2, 9), rng.range(2, 9));
            let (i, j) = (rng.range(1, a + 1), rng.range(1, b + 1));
            let list: Vec<u32> =
                (0..n).filter(|r| r % a < i && (r / a) % b < j).map(|r| r as u32).collect();
            ("box", list)
        }
        9 => {
            let start = rng.range(0, n);
            let len = rng.range(1, 65).min(n - start);
            ("row", (start..start + len).map(|r| r as u32).collect())
        }
        10 => {
            let mut list: Vec<u32> = (0..size as u32).collect();
            let (a, b) = (rng.below(size), rng.below(size));
            list.swap(a, b);
            ("swapped", list)
        }
        11 => {
            // The same disorder on every node.
            let node = rng.range(2, 70).min(n) as usize;
            let mut order: Vec<u32> = (0..node as u32).collect();
            for i in (1..node).rev() {
                order.swap(i, rng.below(i + 1));
            }
            let list = (0..size / node * node).map(|r| (r / node * node) as u32 + order[r % node]);
            ("tiled", list.collect())
        }
        _ => {
            let mut list: Vec<u32> = (0..size as u32).collect();
            for i in (1..list.len()).rev() {
                list.swap(i, rng.below(i + 1));
            }
            list.truncate(rng.below(size) + 1);
            ("shuffled", list)
        }
    }
}
