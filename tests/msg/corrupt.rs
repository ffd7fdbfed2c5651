//! A peer whose queue on the node holds what no packet looks like.

use super::{Opens, pattern, same, world};
use crate::ensure;
use crate::harness::{Result, text};
use rankway::boot::Boot;
use std::fs;
use std::sync::Arc;
use std::time::Duration;

/// An inbox: a page, then a ring of so many bytes for each rank of the node, and for guests.
const PAGE: usize = 4096;
const RING: usize = 64 << 10;
const GUESTS: usize = 64;

/// Where this process's own inbox is mapped: the first of its kind.
fn inbox(ranks: usize) -> Result<*mut u8> {
    let maps = fs::read_to_string("/proc/self/maps").map_err(text)?;
    for line in maps.lines().filter(|line| line.contains("/memfd:rankway-inbox")) {
        let range = line.split(' ').next().and_then(|range| range.split_once('-'));
        let (from, to) = range.ok_or("no range")?;
        let number = |s| usize::from_str_radix(s, 16).map_err(text);
        let (from, to) = (number(from)?, number(to)?);
        ensure!(to - from == PAGE + (ranks + GUESTS) * RING, "{line}");
        // Its head: magic, job, world.
        let at = from as *mut u8;
        // SAFETY: mapped, and readable.
        if unsafe { at.add(16).cast::<u32>().read() } == 0 {
            return Ok(at);
        }
    }
    Err("no inbox".into())
}

/// Rank 0's queue from rank 1 is overwritten: rank 0 is told, by rank 1's name,
/// sleeps where it waits, and goes on with rank 2.
pub fn queue<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    world::<N>(boot, |comm, m| {
        let me = comm.rank();
        let mut buf = [0; 8];
        if me > 0 {
            m.send(b"hello", 0, 1).map_err(text)?;
            m.recv(&mut buf, 0, 2).map_err(text)?;
        } else {
            for rank in [1, 2] {
                m.recv(&mut buf, rank, 1).map_err(text)?;
                m.send(b"hello", rank, 2).map_err(text)?;
            }
            let ring = inbox(3)?.wrapping_add(PAGE + RING).cast::<u64>();
            for word in 16..RING / 8 {
                // SAFETY: rank 1's ring, in which no packet is under way.
                unsafe { ring.add(word).write_volatile(0x7777_7777_7777_7777) };
            }
            let told = m.recv(&mut buf, 1, 3).map(drop).map_err(text);
            let told = told.err().ok_or("rank 1's message came")?;
            ensure!(told.contains("rank 1: its queue"), "{told}");
            let again = m.send(&[], 1, 3).map_err(text).err().unwrap_or_default();
            ensure!(again.contains("rank 1: its queue"), "{again}");
        }
        // Rank 1 knows nothing of it, and leaves.
        if me != 1 {
            let peer = 2 - me;
            for i in 0..200 {
                let out = pattern(i, 700);
                let mut got = vec![0; 700];
                if me == 0 {
                    m.send(&out, peer, 4).map_err(text)?;
                }
                m.recv(&mut got, peer, 4).map_err(text)?;
                same("rank 2's", &got, &out)?;
                if me == 2 {
                    m.send(&out, peer, 4).map_err(text)?;
                    if i == 100 {
                        std::thread::sleep(Duration::from_millis(1000));
                    }
                }
            }
        }
        Ok(())
    })
}
