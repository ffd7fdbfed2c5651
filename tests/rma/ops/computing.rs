//! A target that computes: nobody waits for it, and what others and it change at once comes
//! out as if one after the other.

use super::*;
use crate::ensure;
use rankway::datatype::{Basic, Layout};
use std::time::{Duration, Instant};

/// Times that each rank changes each element.
const TIMES: u64 = 300;
/// Longer than anything takes.
const PATIENCE: Duration = Duration::from_secs(20);

/// Places in the target's window, in bytes; those that are odd no processor changes at once.
mod place {
    pub const SUM: usize = 0;
    pub const DRAWN: usize = 8;
    pub const SWAPPED: usize = 16;
    pub const BYTES: usize = 24;
    pub const ODD: usize = 61;
    pub const COMPLEX: usize = 80;
    pub const SPREAD: usize = 128;
    /// Of the next two one for each origin.
    pub const LAST: usize = 256;
    pub const DONE: usize = 320;
    pub const ALL: usize = 16 << 10;
}

/// The others change elements of the last rank's, which computes, and changes them too.
pub fn target<N: Opens, const KIND: u8>(boot: Arc<dyn Boot>) -> Result {
    let context = N::open(boot)?;
    let world = Communicator::world(&context);
    let (me, target) = (world.rank(), world.size() - 1);
    let mut w = make::<N, KIND>(&world, place::ALL, 1)?;
    w.lock_all().map_err(text)?;
    world.barrier().map_err(text)?;
    let mut drawn = Vec::new();
    if me == target {
        computes(&w, me, &mut drawn)?;
    } else {
        let start = Instant::now();
        for round in 0..TIMES {
            change(&w, me, target, round, &mut drawn)?;
        }
        w.flush(target).map_err(text)?;
        w.put(&1_u64.to_ne_bytes(), target, place::DONE + 8 * me as usize).map_err(text)?;
        w.flush(target).map_err(text)?;
        ensure!(start.elapsed() < PATIENCE, "rank {me} waited for the target");
    }
    w.unlock_all().map_err(text)?;
    world.barrier().map_err(text)?;
    let told = world.allgather(bytes_of(&drawn)).map_err(text)?;
    let mut told: Vec<u64> = told.concat().chunks(8).map(word_of).collect();
    told.sort_unstable();
    let all = u64::from(target) * TIMES + OWN;
    ensure!(told.into_iter().eq(0..all), "numbers were drawn twice");
    if me == target {
        check(&own(&w)?, u64::from(target))?;
    }
    w.free().map_err(text)
}

/// Times that the target changes elements of its own: too few for it to make progress.
const OWN: u64 = 20;

fn computes<N: Netmod>(w: &Window<N>, me: u32, drawn: &mut Vec<u64>) -> Result {
    let start = Instant::now();
    let done = |rank: u32| -> Result<bool> {
        let all = own(w)?;
        let at = place::DONE + 8 * rank as usize;
        Ok(word_of(&all[at..at + 8]) == 1)
    };
    let mut round = 0;
    while !(0..me).map(done).collect::<Result<Vec<_>>>()?.into_iter().all(|done| done) {
        ensure!(start.elapsed() < PATIENCE, "the others waited for this one");
        if round < OWN {
            change_own(w, me, drawn)?;
            round += 1;
        }
    }
    (round..OWN).try_for_each(|_| change_own(w, me, drawn))
}

/// Elements that the others change, too.
fn change_own<N: Netmod>(w: &Window<N>, me: u32, drawn: &mut Vec<u64>) -> Result {
    w.accumulate(&[1_u64], Op::Sum, me, place::SUM).map_err(text)?;
    drawn.push(w.fetch_and_op(1_u64, Op::Sum, me, place::DRAWN).map_err(text)?);
    w.accumulate(&[1.0_f64], Op::Sum, me, place::ODD).map_err(text)?;
    w.accumulate(&[[1.0_f64, -1.0]], Op::Sum, me, place::COMPLEX).map_err(text)
}

/// Every element once.
fn change<N: Netmod>(w: &Window<N>, me: u32, to: u32, round: u64, drawn: &mut Vec<u64>) -> Result {
    w.accumulate(&[1_u64], Op::Sum, to, place::SUM).map_err(text)?;
    w.accumulate(&[1_i8; 30], Op::Sum, to, place::BYTES).map_err(text)?;
    w.accumulate(&[1.0_f64], Op::Sum, to, place::ODD).map_err(text)?;
    w.accumulate(&[[1.0_f64, -1.0]], Op::Sum, to, place::COMPLEX).map_err(text)?;
    let element = Layout::basic(Basic::U64);
    let (every, dense) = (Layout::vector(8, 1, 2, &element), Layout::contiguous(8, &element));
    let (every, dense) = (every.map_err(text)?, dense.map_err(text)?);
    let ones = [1_u64; 8];
    w.accumulate_layout(bytes_of(&ones), 0, &dense, Op::Sum, to, place::SPREAD, &every)
        .map_err(text)?;
    drawn.push(w.fetch_and_op(1_u64, Op::Sum, to, place::DRAWN).map_err(text)?);
    loop {
        let old = w.fetch_and_op(0_u64, Op::NoOp, to, place::SWAPPED).map_err(text)?;
        let seen = w.compare_and_swap(old, old + 1, to, place::SWAPPED).map_err(text)?;
        if seen == old {
            break;
        }
    }
    // What one origin does to one element is in order, fetched or not.
    let at = place::LAST + 8 * me as usize;
    w.accumulate(&[round], Op::Replace, to, at).map_err(text)?;
    w.accumulate(&[1_u64], Op::Sum, to, at).map_err(text)?;
    let mut old = [0_u64];
    w.get_accumulate(&[2], &mut old, Op::Prod, to, at).map_err(text)?;
    ensure!(old == [round + 1], "{old:?} behind {round} and 1");
    let last = w.fetch_and_op(0_u64, Op::NoOp, to, at).map_err(text)?;
    ensure!(last == 2 * (round + 1), "{last} behind twice {}", round + 1);
    Ok(())
}

fn check(all: &[u8], origins: u64) -> Result {
    let word = |at: usize| word_of(&all[at..at + 8]);
    let (theirs, all_times) = (origins * TIMES, origins * TIMES + OWN);
    ensure!(word(place::SUM) == all_times, "sum {}, not {all_times}", word(place::SUM));
    ensure!(word(place::DRAWN) == all_times, "drawn {}", word(place::DRAWN));
    ensure!(word(place::SWAPPED) == theirs, "swapped {}, not {theirs}", word(place::SWAPPED));
    same("bytes", &all[place::BYTES..][..30], &[theirs as u8; 30])?;
    same("odd", &all[place::ODD..][..8], &(all_times as f64).to_ne_bytes())?;
    let complex = [all_times as f64, -(all_times as f64)].map(f64::to_ne_bytes).concat();
    same("complex", &all[place::COMPLEX..][..16], &complex)?;
    for i in 0..8 {
        let (some, none) = (word(place::SPREAD + 16 * i), word(place::SPREAD + 16 * i + 8));
        ensure!(some == theirs && none == 0, "spread {i}: {some} and {none}");
    }
    Ok(())
}

fn word_of(bytes: &[u8]) -> u64 {
    u64::from_ne_bytes(bytes.try_into().unwrap())
}

fn bytes_of(words: &[u64]) -> &[u8] {
    // SAFETY: the words' bytes.
    unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), size_of_val(words)) }
}

extern "C" fn interrupt(_: libc::c_int) {}

/// A process that signals interrupt all the time carries out what others ask of it while it waits
/// for them.
pub fn interrupted<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    let context = N::open(boot)?;
    let world = Communicator::world(&context);
    let mut w = make::<N, CREATED>(&world, 64, 1)?;
    w.lock_all().map_err(text)?;
    world.barrier().map_err(text)?;
    let each = |usec| libc::timeval { tv_sec: 0, tv_usec: usec };
    let every = |usec| libc::itimerval { it_interval: each(usec), it_value: each(usec) };
    if world.rank() == 1 {
        let handler = interrupt as extern "C" fn(libc::c_int);
        // SAFETY: a handler that does nothing, and a timer of this process.
        unsafe {
            libc::signal(libc::SIGALRM, handler as libc::sighandler_t);
            libc::setitimer(libc::ITIMER_REAL, &every(300), std::ptr::null_mut());
        }
    } else {
        // (The other is in the barrier by then.)
        std::thread::sleep(Duration::from_millis(100));
        w.put(&7_u64.to_ne_bytes(), 1, 8).map_err(text)?;
        w.flush(1).map_err(text)?;
    }
    world.barrier().map_err(text)?;
    // SAFETY: as above.
    unsafe { libc::setitimer(libc::ITIMER_REAL, &every(0), std::ptr::null_mut()) };
    ensure!(world.rank() == 0 || word_of(&own(&w)?[8..16]) == 7, "not there");
    w.unlock_all().map_err(text)?;
    w.free().map_err(text)
}
