//! Windows of elements: what is put is found, what is wrong is named.

use super::make;
use crate::ensure;
use crate::harness::{Opens, Result, text};
use rankway::boot::Boot;
use rankway::netmod::Op;
use rankway::rma::{Communicator, ErrorKind, Hints, Pod};
use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
struct Particle {
    position: [f64; 3],
    charge: f32,
    kind: u32,
}

// SAFETY: 32 bytes of numbers, without padding.
unsafe impl Pod for Particle {}

impl Particle {
    fn of(rank: u32, i: usize) -> Particle {
        let at = f64::from(rank) + i as f64 / 64.0;
        Particle { position: [at, -at, 2.0 * at], charge: 0.5, kind: rank * 1000 + i as u32 }
    }
}

/// Slices and single elements arrive at the index they were put to; a wrong
/// index or rank is an error that says what would fit, and moves nothing.
pub fn elements<const KIND: bool, N: Opens>(boot: Arc<dyn Boot>) -> Result {
    const LEN: usize = 700;
    let context = N::open(boot)?;
    let world = Communicator::world(&context);
    let (me, size) = (world.rank(), world.size());
    let (left, right) = ((me + size - 1) % size, (me + 1) % size);
    let mut window = make::<KIND, N, Particle>(&world, LEN, Particle::of(0, 0))?;
    ensure!(window.len_of(right).map_err(text)? == LEN, "length");
    let local = window.local().map_err(text)?;
    local.fill(Particle::of(99, 0));
    window.fence().map_err(text)?;
    let ours: Vec<Particle> = (0..500).map(|i| Particle::of(me, i)).collect();
    window.put_slice(&ours, right, 100).map_err(text)?;
    window.put_value(Particle::of(me, 600), right, LEN - 1).map_err(text)?;
    for (index, count) in [(LEN, 1), (LEN - 4, 5), (usize::MAX, 1), (0, LEN + 1)] {
        let values = vec![Particle::of(me, 7); count];
        match window.put_slice(&values, right, index) {
            Err(e) if matches!(e.kind(), ErrorKind::OutOfBounds { .. }) => {
                let why = e.to_string();
                ensure!(why.contains(&format!("rank {right}")), "{why}");
            }
            other => return Err(format!("{count} elements at {index}: {other:?}")),
        }
    }
    let wrong = window.put_slice(&ours, size, 0).map_err(text);
    ensure!(wrong.as_ref().is_err_and(|why| why.contains("0 to")), "{wrong:?}");
    window.fence().map_err(text)?;
    let local = window.local().map_err(text)?;
    for (i, got) in local.to_vec().into_iter().enumerate() {
        let want = match i {
            100..600 => Particle::of(left, i - 100),
            699 => Particle::of(left, 600),
            _ => Particle::of(99, 0),
        };
        ensure!(got == want, "element {i}: {got:?}, not {want:?}");
    }
    let mut theirs = vec![Particle::of(0, 0); 500];
    window.get_slice(&mut theirs, right, 100).map_err(text)?;
    ensure!(theirs == ours, "what was got is not what was put");
    let last = window.get_value(right, LEN - 1).map_err(text)?;
    ensure!(last == Particle::of(me, 600), "{last:?}");
    window.fence().map_err(text)?;
    window.free().map_err(text)?;
    ensure!(window.local().is_err() && window.put_slice(&ours, right, 0).is_err(), "freed");
    Ok(())
}

/// Every rank counts up in every other.
pub fn atomics<const KIND: bool, N: Opens>(boot: Arc<dyn Boot>) -> Result {
    let context = N::open(boot)?;
    let world = Communicator::world(&context);
    let (me, size) = (world.rank(), world.size());
    let mut window = make::<KIND, N, u64>(&world, 4, 0)?;
    window.lock_all().map_err(text)?;
    for rank in 0..size {
        window.accumulate(&[1, 10], Op::Sum, rank, 0).map_err(text)?;
        window.fetch_and_op(100, Op::Sum, rank, 2).map_err(text)?;
        let mut was = [0; 2];
        window.get_accumulate(&[1, 10], &mut was, Op::Sum, rank, 0).map_err(text)?;
        ensure!(was[0] >= 1 && was[1] >= 10, "{was:?}");
        loop {
            let seen = window.compare_and_swap(0, u64::from(me) + 1, rank, 3).map_err(text)?;
            if seen == 0 {
                window.compare_and_swap(u64::from(me) + 1, 0, rank, 3).map_err(text)?;
                break;
            }
        }
    }
    window.unlock_all().map_err(text)?;
    world.barrier().map_err(text)?;
    let n = u64::from(size);
    let got = window.local().map_err(text)?.to_vec();
    ensure!(got == [2 * n, 20 * n, 100 * n, 0], "{got:?}");
    window.free().map_err(text)
}

/// Each rank writes into its neighbours' elements by itself.
pub fn shared<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    let context = N::open(boot)?;
    let world = Communicator::world(&context);
    let (me, size) = (world.rank(), world.size());
    let mut unordered = Hints::default();
    unordered.ordered = false;
    let window = world.window::<i32>().len(5 + me as usize).hints(unordered).shared();
    let mut window = window.map_err(text)?;
    ensure!(!window.hints().map_err(text)?.ordered, "the hints are lost");
    window.fence().map_err(text)?;
    for rank in 0..size {
        let theirs = window.local_of(rank).map_err(text)?;
        ensure!(theirs.len() == 5 + rank as usize && theirs.rank() == rank, "{theirs:?}");
        theirs.write(me as usize, -(me as i32) - 1).map_err(text)?;
    }
    window.fence().map_err(text)?;
    let mine = window.local().map_err(text)?;
    for rank in 0..size {
        ensure!(mine.read(rank as usize).map_err(text)? == -(rank as i32) - 1, "{mine:?}");
    }
    ensure!(window.local_of(size).is_err(), "a rank that is not there");
    window.free().map_err(text)
}

/// A vector that was given to a window comes back with what peers put.
pub fn memory_comes_back<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    let context = N::open(boot)?;
    let world = Communicator::world(&context);
    let other = 1 - world.rank();
    let memory: Vec<u32> = (0..1000).collect();
    let start = memory.as_ptr();
    let window = world.window::<u32>().create(memory).map_err(text)?;
    window.fence().map_err(text)?;
    window.put_slice(&[7; 10], other, 990).map_err(text)?;
    window.fence().map_err(text)?;
    let memory = window.into_memory().map_err(text)?.ok_or("the memory did not come back")?;
    ensure!(memory.as_ptr() == start && memory.len() == 1000, "another vector came back");
    ensure!(memory[..990].iter().copied().eq(0..990), "what nobody put to changed");
    ensure!(memory[990..] == [7; 10], "what was put is not there");
    // Held by another access: not to be had.
    let window = world.window::<u32>().create(memory).map_err(text)?;
    let state = window.state().map_err(text)?;
    ensure!(window.into_memory().map_err(text)?.is_none(), "memory that is in use came back");
    drop(state);
    Ok(())
}
