//! Ranks that die with a lock in hand, or while they are worked on.

use super::*;
use crate::ensure;
use crate::harness::{die, leave_together};
use rankway::device::Context;
use rankway::rma::{Assert, Lock};
use std::process::Output;
use std::time::{Duration, Instant};

/// The rank that is killed.
const VICTIM: u32 = 1;

/// Every rank but the victim ends well.
pub fn verdict(output: &Output) -> Result {
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let content = said.matches("content.").count();
    ensure!(content == 2, "{content} of 2 survivors are content");
    Ok(())
}

/// Makes progress for so many milliseconds.
fn idle<N: Opens>(context: &Context<N>, millis: u64) -> Result {
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(millis) {
        context.progress().map_err(text)?;
    }
    Ok(())
}

/// Says that this rank is content, and stays until the others are too: its
/// own end is not what they should hear of.
fn survive<N: Opens>(context: &Context<N>) -> Result {
    println!("content.");
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(3) {
        context.progress().map_err(text)?;
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

fn names_victim<T>(what: &str, result: std::result::Result<T, rankway::rma::Error>) -> Result {
    match result {
        Ok(_) => Err(format!("{what} went well")),
        Err(e) if e.peer() == Some(VICTIM) => Ok(()),
        Err(e) => Err(format!("{what}: {e}")),
    }
}

/// A dead holder is named, whatever it held, and not waited for.
pub fn holder<N: Opens, const KIND: u8>(boot: Arc<dyn Boot>) -> Result {
    let context = N::open(boot.clone())?;
    let world = Communicator::world(&context);
    let me = world.rank();
    let w = make::<N, KIND>(&world, 64, 8)?;
    let v = make::<N, KIND>(&world, 64, 8)?;
    let free = make::<N, KIND>(&world, 64, 8)?;
    if me == VICTIM {
        w.lock(Lock::Exclusive, 0, Assert::NONE).map_err(text)?;
        v.lock(Lock::Shared, 2, Assert::NONE).map_err(text)?;
    }
    world.barrier().map_err(text)?;
    leave_together(&*boot, &context)?;
    if me == VICTIM {
        die();
    }
    let start = Instant::now();
    names_victim("a shared lock", w.lock(Lock::Shared, 0, Assert::NONE))?;
    names_victim("an exclusive lock", w.lock(Lock::Exclusive, 0, Assert::NONE))?;
    names_victim("lock_all", w.lock_all())?;
    names_victim("a lock beside a shared one", v.lock(Lock::Exclusive, 2, Assert::NONE))?;
    ensure!(start.elapsed() < Duration::from_secs(20), "that took {:?}", start.elapsed());
    // Where the dead held nothing, life goes on.
    let to = 2 - me;
    free.lock(Lock::Exclusive, to, Assert::NONE).map_err(text)?;
    free.put(&[1; 8], to, 0).map_err(text)?;
    free.fetch_and_op(1_u64, Op::Sum, to, 1).map_err(text)?;
    free.unlock(to).map_err(text)?;
    survive(&context)
}

/// A target that dies during accumulates: its name comes out, and others are
/// reached all the same.
pub fn target<N: Opens, const KIND: u8>(boot: Arc<dyn Boot>) -> Result {
    let context = N::open(boot.clone())?;
    let world = Communicator::world(&context);
    let me = world.rank();
    let w = make::<N, KIND>(&world, 4096, 1)?;
    w.lock_all().map_err(text)?;
    world.barrier().map_err(text)?;
    leave_together(&*boot, &context)?;
    if me == VICTIM {
        idle(&context, 100)?;
        die();
    }
    let start = Instant::now();
    let ended = loop {
        // By packets, by whatever path 64-bit sums take, and with results.
        let step = w
            .accumulate(&[[1.0_f64, 2.0]; 16], Op::Sum, VICTIM, 0)
            .and_then(|()| w.accumulate(&[1_u64; 16], Op::Sum, VICTIM, 512))
            .and_then(|()| w.fetch_and_op(1_u32, Op::Prod, VICTIM, 1024))
            .and_then(|_| w.flush(VICTIM));
        if step.is_err() {
            break step;
        }
        ensure!(start.elapsed() < Duration::from_secs(20), "it does not die");
    };
    names_victim("accumulates", ended)?;
    let to = 2 - me;
    w.accumulate(&[[1.0_f64, 2.0]; 16], Op::Sum, to, 0).map_err(text)?;
    w.accumulate(&[1_u64; 16], Op::Sum, to, 512).map_err(text)?;
    w.flush(to).map_err(text)?;
    ensure!(w.fetch_and_op(0_u64, Op::NoOp, to, 512).map_err(text)? == 1, "a sum");
    survive(&context)
}

/// An exposure epoch that a death ended is over for the living, too: what they complete of it is
/// not the next one's.
pub fn group<N: Opens, const KIND: u8>(boot: Arc<dyn Boot>) -> Result {
    let context = N::open(boot.clone())?;
    let world = Communicator::world(&context);
    let me = world.rank();
    let w = make::<N, KIND>(&world, 64, 8)?;
    if me == 0 {
        w.post(&[VICTIM, 2], Assert::NONE).map_err(text)?;
    }
    world.barrier().map_err(text)?;
    leave_together(&*boot, &context)?;
    match me {
        VICTIM => die(),
        0 => {
            names_victim("wait", w.wait())?;
            w.post(&[2], Assert::NONE).map_err(text)?;
            w.wait().map_err(text)?;
            same("of the second epoch", &own(&w)?[..8], &[9; 8])?;
        }
        _ => {
            for (value, pause) in [(7, 0), (9, 1000)] {
                w.start(&[0], Assert::NONE).map_err(text)?;
                idle(&context, pause)?;
                w.put(&[value; 8], 0, 0).map_err(text)?;
                w.complete().map_err(text)?;
            }
        }
    }
    survive(&context)
}

/// Epochs of both kinds that a death kept from opening, or ended: the next ones of the living are
/// their own.
pub fn both<N: Opens, const KIND: u8>(boot: Arc<dyn Boot>) -> Result {
    let context = N::open(boot.clone())?;
    let world = Communicator::world(&context);
    let (me, other) = (world.rank(), 2_u32.wrapping_sub(world.rank()));
    let w = make::<N, KIND>(&world, 64, 8)?;
    if me != VICTIM {
        w.post(&[VICTIM, other], Assert::NONE).map_err(text)?;
    }
    world.barrier().map_err(text)?;
    leave_together(&*boot, &context)?;
    if me == VICTIM {
        die();
    }
    names_victim("start", w.start(&[VICTIM, other], Assert::NONE))?;
    names_victim("wait", w.wait())?;
    // (Until both have given up.)
    idle(&context, 1000)?;
    for value in [8, 9] {
        w.post(&[other], Assert::NONE).map_err(text)?;
        w.start(&[other], Assert::NONE).map_err(text)?;
        w.put(&[value; 8], other, 0).map_err(text)?;
        w.complete().map_err(text)?;
        w.wait().map_err(text)?;
        same("of the next epoch", &own(&w)?[..8], &[value; 8])?;
    }
    survive(&context)
}
