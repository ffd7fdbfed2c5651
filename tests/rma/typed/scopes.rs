//! Scopes of operations: over when they return, whatever happened in them.

use super::{CREATED, VICTIM, make};
use crate::ensure;
use crate::harness::{Opens, Result, die, leave_together, panic_of, text};
use rankway::boot::Boot;
use rankway::netmod::Op;
use rankway::rma::{Communicator, TypedWindow};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Longer than what any provider injects.
const LONG: usize = 40_000;

fn values(seed: u32, len: usize) -> Vec<u64> {
    (0..len as u64).map(|i| i.wrapping_mul(0x9e37_79b9) ^ u64::from(seed) << 40).collect()
}

/// Short and long puts and gets under way together, more than a scope keeps.
pub fn exchange<const KIND: bool, N: Opens>(boot: Arc<dyn Boot>) -> Result {
    const LENS: [usize; 6] = [1, 3, 700, 5000, LONG, 2_200_000];
    let context = N::open(boot)?;
    let world = Communicator::world(&context);
    let (me, size) = (world.rank(), world.size());
    let (left, right) = ((me + size - 1) % size, (me + 1) % size);
    let all: usize = LENS.iter().sum();
    let mut window = make::<KIND, N, u64>(&world, 2 * all + 8, 0)?;
    window.local().map_err(text)?.copy_from(all, &values(me, all)).map_err(text)?;
    window.fence().map_err(text)?;
    let ours: Vec<Vec<u64>> = LENS.iter().map(|&len| values(me + 10, len)).collect();
    let mut theirs: Vec<Vec<u64>> = LENS.iter().map(|&len| vec![0; len]).collect();
    let mut was = [0; 2];
    let issued = window.scope(|s| {
        let (mut at, mut issued) = (0, 0);
        for (ours, theirs) in ours.iter().zip(&mut theirs) {
            let len = ours.len();
            s.put(ours, right, at)?;
            s.get(theirs, right, all + at)?;
            at += len;
            issued += 2;
        }
        s.accumulate(&[1, 2], Op::Sum, right, 2 * all)?;
        s.get_accumulate(&[5, 6], &mut was, Op::Sum, right, 2 * all + 4)?;
        Ok(issued)
    });
    ensure!(issued.map_err(text)? == 2 * LENS.len(), "issued");
    ensure!(was == [0, 0], "{was:?}");
    let mut at = 0;
    for theirs in &theirs {
        let want = &values(right, all)[at..at + theirs.len()];
        ensure!(theirs == want, "{} elements from rank {right}", theirs.len());
        at += theirs.len();
    }
    // They are there without a fence: it came back that they are.
    let mut back = vec![0; LONG];
    window.get_slice(&mut back, right, LENS[..4].iter().sum()).map_err(text)?;
    ensure!(back == values(me + 10, LONG), "what was put is not there");
    window.fence().map_err(text)?;
    let got = window.local().map_err(text)?.to_vec();
    let mut at = 0;
    for len in LENS {
        ensure!(got[at..at + len] == values(left + 10, len), "{len} elements of rank {left}");
        at += len;
    }
    ensure!(got[2 * all..] == [1, 2, 0, 0, 5, 6, 0, 0], "{:?}", &got[2 * all..]);
    window.free().map_err(text)
}

/// Makes progress for some time, in which nobody may write into these.
fn stay<N: Opens>(window: &TypedWindow<N, u64>, buffers: &[&[u64]], time: Duration) -> Result {
    let start = Instant::now();
    while start.elapsed() < time {
        window.context().progress().map_err(text)?;
        std::thread::yield_now();
    }
    let late = buffers.iter().flat_map(|b| b.iter()).filter(|&&value| value != !0).count();
    ensure!(late == 0, "{late} elements were written after the scope had returned");
    Ok(())
}

/// What was begun before an error is over, and the error is the scope's.
pub fn error<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    let context = N::open(boot)?;
    let world = Communicator::world(&context);
    let other = 1 - world.rank();
    let mut window = make::<CREATED, N, u64>(&world, LONG, 0)?;
    window.local().map_err(text)?.copy_from(0, &values(world.rank(), LONG)).map_err(text)?;
    world.barrier().map_err(text)?;
    window.lock_all().map_err(text)?;
    let mut theirs = vec![0; LONG];
    let why = window.scope(|s| {
        s.get(&mut theirs, other, 0)?;
        s.put(&[1; 2], other, LONG - 1)
    });
    let why = why.map_err(text).err().ok_or("no error")?;
    ensure!(why.contains("displacements up to"), "{why}");
    ensure!(theirs == values(other, LONG), "what was begun did not end");
    // An error of the program's own.
    let none: std::result::Result<(), _> =
        window.scope(|_| Err(rankway::rma::ErrorKind::Freed.into()));
    ensure!(none.is_err(), "the error is lost");
    window.unlock_all().map_err(text)?;
    world.barrier().map_err(text)?;
    let why = window.scope(|s| s.put(&[1], other, 0)).map_err(text);
    ensure!(why.as_ref().is_err_and(|why| why.contains("epoch")), "{why:?}");
    window.free().map_err(text)
}

/// A panic goes on when what was begun is over.
pub fn panic<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    let context = N::open(boot)?;
    let world = Communicator::world(&context);
    let (me, other) = (world.rank(), 1 - world.rank());
    let mut window = make::<CREATED, N, u64>(&world, 2 * LONG, 0)?;
    window.local().map_err(text)?.copy_from(0, &values(me, LONG)).map_err(text)?;
    world.barrier().map_err(text)?;
    window.lock_all().map_err(text)?;
    let mut ours = values(me + 10, LONG);
    let mut theirs = vec![0; LONG];
    let said = panic_of(|| {
        window.scope(|s| -> std::result::Result<(), _> {
            s.put(&ours, other, LONG)?;
            s.get(&mut theirs, other, 0)?;
            panic!("amidst");
        })
    })?;
    ensure!(said == "amidst", "it said {said:?}");
    ensure!(theirs == values(other, LONG), "what was begun did not end");
    ours.fill(!0);
    theirs.fill(!0);
    stay(&window, &[&theirs], Duration::from_millis(200))?;
    window.unlock_all().map_err(text)?;
    world.barrier().map_err(text)?;
    let mut got = vec![0; LONG];
    window.local().map_err(text)?.copy_to(LONG, &mut got).map_err(text)?;
    ensure!(got == values(other + 10, LONG), "what was put is not there");
    window.free().map_err(text)
}

/// A peer dies amidst scopes: it is named, the buffers are the caller's again,
/// and scopes with the living go on.
pub fn dead<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    let context = N::open(boot.clone())?;
    let world = Communicator::world(&context);
    let me = world.rank();
    let window = make::<CREATED, N, u64>(&world, 3 * LONG, 0)?;
    window.local().map_err(text)?.copy_from(0, &values(me, LONG)).map_err(text)?;
    world.barrier().map_err(text)?;
    window.lock_all().map_err(text)?;
    leave_together(&*boot, &context)?;
    let start = Instant::now();
    if me == VICTIM {
        while start.elapsed() < Duration::from_millis(150) {
            context.progress().map_err(text)?;
        }
        die();
    }
    let other = 2 - me;
    let mut ours = values(me + 10, LONG);
    let (mut theirs, mut lost) = (vec![0; LONG], vec![0; LONG]);
    let why = loop {
        let round = window.scope(|s| {
            s.put(&ours, VICTIM, LONG + me as usize / 2 * LONG)?;
            s.get(&mut lost, VICTIM, 0)?;
            s.put(&ours, other, LONG)?;
            s.get(&mut theirs, other, 0)
        });
        if let Err(e) = round {
            break e;
        }
        ensure!(theirs == values(other, LONG), "got from the living");
        ensure!(start.elapsed() < Duration::from_secs(20), "it does not die");
    };
    ensure!(why.peer() == Some(VICTIM), "{why}");
    ours.fill(!0);
    theirs.fill(!0);
    lost.fill(!0);
    stay(&window, &[&theirs, &lost], Duration::from_millis(1000))?;
    let ours = values(me + 20, LONG);
    let living = || {
        let mut theirs = vec![0; LONG];
        window.scope(|s| {
            s.put(&ours, other, LONG)?;
            s.get(&mut theirs, other, 0)
        })?;
        Ok::<_, rankway::rma::WindowError>(theirs)
    };
    // Where the death was heard of elsewhere, one call more may tell of it.
    let theirs = living().or_else(|_| living()).map_err(text)?;
    ensure!(theirs == values(other, LONG), "got from the living after the death");
    println!("content.");
    // Its own end is not what the other should hear of.
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(3) {
        context.progress().map_err(text)?;
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}
