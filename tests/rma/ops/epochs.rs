//! Locks, groups, and calls that do not fit the epoch.

use super::*;
use crate::harness::pattern;
use crate::{ensure, refused};
use rankway::rma::{Assert, ErrorKind, Lock};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

/// While a lock is waited for another thread gives its own back and takes it again, as a
/// progress hook does here: both are held then.
pub fn locked_amidst<N: Opens, const KIND: u8>(boot: Arc<dyn Boot>) -> Result {
    let context = N::open(boot)?;
    let world = Communicator::world(&context);
    let w = Rc::new(make::<N, KIND>(&world, 64, 8)?);
    let (result, window) = (Rc::new(Cell::new(None)), Rc::downgrade(&w));
    let lock = |rank| w.lock(Lock::Exclusive, rank, Assert::NONE).map_err(text);
    if world.rank() == 0 {
        let (told, armed) = (Rc::clone(&result), Cell::new(true));
        context.set_progress_hook(move || {
            // (In the wait for the lock, and not in a barrier.)
            if let Some(w) = window.upgrade()
                && w.is_open()
                && armed.take()
            {
                let again = w.unlock(0).and_then(|()| w.lock(Lock::Exclusive, 0, Assert::NONE));
                told.set(Some(again.map_err(text)));
            }
        });
        for _ in 0..3 {
            lock(0)?;
            w.unlock(0).map_err(text)?;
        }
    }
    // Until rank 0 came before the other's lock was free again.
    loop {
        if world.rank() == 1 {
            lock(1)?;
        }
        world.barrier().map_err(text)?;
        let mut came = false;
        match world.rank() {
            0 => {
                lock(0)?;
                lock(1)?;
                came = result.take().transpose()?.is_some();
                for to in [0, 1] {
                    w.put(&[5; 8], to, 1).map_err(text)?;
                    w.unlock(to).map_err(text)?;
                }
            }
            1 => {
                std::thread::sleep(Duration::from_millis(100));
                w.unlock(1).map_err(text)?;
            }
            _ => {}
        }
        if world.broadcast(0, Some(&[u8::from(came)])).map_err(text)? == [1] {
            break;
        }
    }
    world.barrier().map_err(text)?;
    let there = if world.rank() < 2 { [5; 8] } else { [0; 8] };
    same("what was put", &own(&w)?[8..16], &there)
}

/// What is read and written plainly under an exclusive lock loses nothing;
/// shared locks and lock_all see it whole.
pub fn exclusion<N: Opens, const KIND: u8>(boot: Arc<dyn Boot>) -> Result {
    const ROUNDS: u64 = 25;
    let context = N::open(boot)?;
    let world = Communicator::world(&context);
    let (me, n) = (world.rank(), world.size());
    let mut w = make::<N, KIND>(&world, 64, 8)?;
    let read = |rank: u32| -> Result<[u64; 2]> {
        let mut both = [0; 16];
        w.get(&mut both, rank, 0).map_err(text)?;
        w.flush(rank).map_err(text)?;
        let word = |at: usize| u64::from_ne_bytes(both[at..at + 8].try_into().unwrap());
        Ok([word(0), word(8)])
    };
    for round in 0..ROUNDS {
        let to = (me + round as u32) % n;
        w.lock(Lock::Exclusive, to, Assert::NONE).map_err(text)?;
        let [a, b] = read(to)?;
        ensure!(a == b, "torn under an exclusive lock: {a} {b}");
        w.put(&(a + 1).to_ne_bytes(), to, 0).map_err(text)?;
        w.put(&(a + 1).to_ne_bytes(), to, 1).map_err(text)?;
        w.unlock(to).map_err(text)?;
        let other = (to + 1) % n;
        if round % 3 == 0 {
            w.lock(Lock::Shared, other, Assert::NONE).map_err(text)?;
            if other != to {
                w.lock(Lock::Shared, to, Assert::NONE).map_err(text)?;
                w.unlock(to).map_err(text)?;
            }
            let [a, b] = read(other)?;
            ensure!(a == b, "torn under a shared lock: {a} {b}");
            w.unlock(other).map_err(text)?;
        }
        if round % 4 == 0 {
            w.lock_all().map_err(text)?;
            for rank in 0..n {
                let [a, b] = read(rank)?;
                ensure!(a == b, "torn under lock_all: {a} {b}");
            }
            w.sync().map_err(text)?;
            w.unlock_all().map_err(text)?;
        }
    }
    world.barrier().map_err(text)?;
    // The total: each round of each rank added one somewhere.
    let mine = u64::from_ne_bytes(own(&w)?[..8].try_into().unwrap());
    let all = world.allgather(&mine.to_ne_bytes()).map_err(text)?;
    let total: u64 = all.iter().map(|b| u64::from_ne_bytes(b[..].try_into().unwrap())).sum();
    ensure!(total == ROUNDS * u64::from(n), "{total} of {}", ROUNDS * u64::from(n));
    // Nobody else is there: promised.
    if me == 0 {
        w.lock(Lock::Exclusive, n - 1, Assert::NOCHECK).map_err(text)?;
        w.put(&[7; 8], n - 1, 3).map_err(text)?;
        w.flush(n - 1).map_err(text)?;
        w.flush_local(n - 1).map_err(text)?;
        w.unlock(n - 1).map_err(text)?;
        w.lock_all_with(Assert::NOCHECK).map_err(text)?;
        w.unlock_all().map_err(text)?;
    }
    world.barrier().map_err(text)?;
    if me == n - 1 {
        same("put without a lock", &own(&w)?[24..32], &[7; 8])?;
    }
    w.free().map_err(text)
}

/// Rings, stars and all to all, several times, with tests and waits.
pub fn groups<N: Opens, const KIND: u8>(boot: Arc<dyn Boot>) -> Result {
    let context = N::open(boot)?;
    let world = Communicator::world(&context);
    let (me, n) = (world.rank(), world.size());
    let mut w = make::<N, KIND>(&world, 8 * n as usize, 8)?;
    let value =
        |from: u32, round: u32| (u64::from(from) * 1000 + u64::from(round) + 1).to_ne_bytes();
    for round in 0..12 {
        let (left, right) = ((me + n - 1) % n, (me + 1) % n);
        let (targets, origins) = match round % 3 {
            // Everybody, this process too.
            0 => ((0..n).rev().collect(), (0..n).collect()),
            1 => (vec![right], vec![left]),
            // One reads what the others have; they only expose.
            _ if me == round % n => ((0..n).filter(|&r| r != me).collect(), vec![]),
            _ => (vec![], vec![round % n]),
        };
        let check = round % 2 == 0;
        let posted = if check { Assert::NONE } else { Assert::NOSTORE };
        if !origins.is_empty() {
            w.post(&origins, posted).map_err(text)?;
        }
        w.start(&targets, Assert::NONE).map_err(text)?;
        for &to in &targets {
            w.put(&value(me, round), to, me as usize).map_err(text)?;
            w.accumulate(&[0_u64], Op::Sum, to, me as usize).map_err(text)?;
        }
        for rank in (0..n).filter(|r| !targets.contains(r)) {
            refused!(w.put(&[1; 8], rank, 0), ErrorKind::NotInEpoch { rank: r, .. } if *r == rank);
        }
        w.complete().map_err(text)?;
        if !origins.is_empty() {
            if check {
                while !w.test().map_err(text)? {
                    std::thread::yield_now();
                }
            } else {
                w.wait().map_err(text)?;
            }
        }
        let all = own(&w)?;
        for &from in &origins {
            same("of a group", &all[8 * from as usize..][..8], &value(from, round))?;
        }
        world.barrier().map_err(text)?;
    }
    // Both sides promise that post came first.
    w.post(&[(me + 1) % n], Assert::NOCHECK).map_err(text)?;
    world.barrier().map_err(text)?;
    w.start(&[(me + n - 1) % n], Assert::NOCHECK).map_err(text)?;
    w.put(&[9; 8], (me + n - 1) % n, 0).map_err(text)?;
    w.complete().map_err(text)?;
    w.wait().map_err(text)?;
    same("without a check", &own(&w)?[..8], &[9; 8])?;
    w.free().map_err(text)
}

/// Calls that do not fit are refused and leave the epoch as it is.
pub fn misuse<N: Opens, const KIND: u8>(boot: Arc<dyn Boot>) -> Result {
    use ErrorKind::{Arguments, Epoch, Freed, NoEpoch, NotInEpoch, Rank};
    let context = N::open(boot)?;
    let world = Communicator::world(&context);
    let (me, n) = (world.rank(), world.size());
    let (to, other) = ((me + 1) % n, (me + 2) % n);
    let mut w = make::<N, KIND>(&world, 64, 8)?;
    refused!(w.unlock(to), Epoch { call: "unlock", .. });
    refused!(w.complete(), Epoch { call: "complete", .. });
    refused!(w.wait(), Epoch { call: "wait", .. });
    refused!(w.test(), Epoch { call: "test", .. });
    refused!(w.lock(Lock::Shared, n, Assert::NONE), Rank { .. });
    refused!(w.start(&[n], Assert::NONE), Rank { .. });
    refused!(w.post(&[n], Assert::NONE), Rank { .. });
    refused!(w.post(&[1, 0, 1], Assert::NONE), Arguments(_));
    refused!(w.put(&[1; 8], to, 0), NoEpoch);

    w.lock(Lock::Shared, to, Assert::NONE).map_err(text)?;
    refused!(w.lock(Lock::Shared, to, Assert::NONE), Epoch { call: "lock", .. });
    refused!(w.lock_all(), Epoch { .. });
    refused!(w.start(&[to], Assert::NONE), Epoch { call: "start", .. });
    refused!(w.fence(), Epoch { call: "fence", .. });
    refused!(w.free(), Epoch { call: "free", .. });
    refused!(w.unlock_all(), Epoch { .. });
    refused!(w.unlock(other), Epoch { .. });
    refused!(w.put(&[1; 8], other, 0), NotInEpoch { rank, .. } if *rank == other);
    refused!(w.accumulate(&[1_u64], Op::Sum, other, 0), NotInEpoch { .. });
    refused!(w.flush(other), NotInEpoch { .. });
    refused!(w.fetch_and_op(1_u64, Op::Sum, other, 0), NotInEpoch { .. });
    refused!(w.put(&[1; 8], to, 8), ErrorKind::OutOfBounds { .. });
    w.accumulate(&[1_u64], Op::Sum, to, 0).map_err(text)?;
    w.flush_all().map_err(text)?;
    w.lock(Lock::Shared, other, Assert::NONE).map_err(text)?;
    w.put(&[1; 8], other, 1).map_err(text)?;
    w.unlock(to).map_err(text)?;
    refused!(w.put(&[1; 8], to, 0), NotInEpoch { .. });
    w.unlock(other).map_err(text)?;
    refused!(w.put(&[1; 8], other, 0), NoEpoch);

    w.lock_all().map_err(text)?;
    refused!(w.lock(Lock::Shared, to, Assert::NONE), Epoch { call: "lock", .. });
    refused!(w.start(&[to], Assert::NONE), Epoch { .. });
    refused!(w.complete(), Epoch { .. });
    w.unlock_all().map_err(text)?;

    w.post(&[], Assert::NONE).map_err(text)?;
    refused!(w.post(&[], Assert::NONE), Epoch { call: "post", .. });
    refused!(w.fence(), Epoch { .. });
    refused!(w.free(), Epoch { .. });
    w.wait().map_err(text)?;
    w.start(&[], Assert::NONE).map_err(text)?;
    refused!(w.start(&[], Assert::NONE), Epoch { call: "start", .. });
    refused!(w.lock_all(), Epoch { .. });
    refused!(w.put(&[1; 8], to, 0), NotInEpoch { .. });
    refused!(w.free(), Epoch { .. });
    w.complete().map_err(text)?;
    world.barrier().map_err(text)?;

    // Asserts of a fence.
    w.fence_with(Assert::NOPRECEDE | Assert::NOPUT).map_err(text)?;
    w.put(&[1; 8], to, 0).map_err(text)?;
    refused!(w.lock(Lock::Shared, to, Assert::NONE), Epoch { .. });
    w.fence_with(Assert::NOSUCCEED).map_err(text)?;
    refused!(w.put(&[1; 8], to, 0), NoEpoch);
    w.free().map_err(text)?;
    refused!(w.lock(Lock::Shared, to, Assert::NONE), Freed);
    refused!(w.unlock(to), Freed);
    refused!(w.start(&[], Assert::NONE), Freed);
    refused!(w.complete(), Freed);
    refused!(w.post(&[], Assert::NONE), Freed);
    refused!(w.wait(), Freed);
    refused!(w.test(), Freed);
    refused!(w.sync(), Freed);
    Ok(())
}

/// What a flush has told is in the target's memory: the target looks at the moment that
/// it hears of the flush by other ways, and makes no progress in between.
pub fn flushed<N: Opens, const KIND: u8>(boot: Arc<dyn Boot>) -> Result {
    const LENGTHS: [usize; 6] = [8, 60, 65, 4096, 70_000, 1 << 20];
    const ROUNDS: usize = 20;
    let context = N::open(boot)?;
    let world = Communicator::world(&context);
    let mut w = make::<N, KIND>(&world, 1 << 20, 1)?;
    let pid = world.broadcast(0, Some(&std::process::id().to_ne_bytes())).map_err(text)?;
    let pid = u32::from_ne_bytes(pid.as_slice().try_into().map_err(text)?);
    let told = |step: usize| std::env::temp_dir().join(format!("rankway-flushed-{pid}-{step}"));
    for (step, len) in LENGTHS.into_iter().flat_map(|len| [len; ROUNDS]).enumerate() {
        let bytes = pattern(step as u32, len);
        if world.rank() == 0 {
            w.lock(Lock::Shared, 1, Assert::NONE).map_err(text)?;
            for _ in 0..2 {
                w.put(&bytes, 1, 0).map_err(text)?;
            }
            // SAFETY: the bytes stay until the flush.
            unsafe { w.put_nb(bytes.as_ptr(), len, 1, 0).map_err(text)? };
            w.flush(1).map_err(text)?;
            std::fs::write(told(step), []).map_err(text)?;
            w.unlock(1).map_err(text)?;
        } else {
            while !told(step).exists() {
                context.progress().map_err(text)?;
            }
            let mut got = vec![0; len];
            w.read_local(0, &mut got).map_err(text)?;
            same(&format!("{len} bytes, round {step}"), &got, &bytes)?;
        }
        world.barrier().map_err(text)?;
        if world.rank() == 0 {
            std::fs::remove_file(told(step)).map_err(text)?;
        }
    }
    w.free().map_err(text)
}
