//! Operations that the target carries out, asked for from any context.

use super::*;
use crate::ensure;
use rankway::device::Options;
use rankway::rma::{Access, Assert, Lock};

/// Each rank has another number of further contexts, so that none of them can
/// count on the peer's: all ask the peer's first one. In the second round they
/// are opened again, under the numbers of those before.
pub fn contexts<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    const ROUNDS: u64 = 2;
    const TIMES: u64 = 40;
    let context = N::open_with(boot, &Options::default().threads(true))?;
    let world = Communicator::world(&context);
    let (me, n) = (world.rank(), world.size());
    let threads = |rank: u32| u64::from(rank % 3 + 1);
    let all: u64 = (0..n).map(threads).sum();
    // Of each thread of all ranks: 256 bytes; before them a sum, and one that
    // no processor has an instruction for.
    let mut w = make::<N, CREATED>(&world, 64 + 256 * all as usize, 1)?;
    let mut dynamic = Window::dynamic(&world).map_err(text)?;
    let mut memory = vec![0_u64; 256];
    // SAFETY: it outlives the window, and is looked at when nobody writes.
    let at = unsafe { dynamic.attach(memory.as_mut_ptr().cast(), 2048) }.map_err(text)?;
    let told = world.allgather(&at.to_ne_bytes()).map_err(text)?;
    let place =
        |rank: u32| usize::from_ne_bytes(told[rank as usize].as_slice().try_into().unwrap());
    let (state, loose) = (w.state().map_err(text)?, dynamic.state().map_err(text)?);
    let (device, map) = (context.device(), world.map());
    let before: u64 = (0..me).map(threads).sum();
    let work = |number: u64| -> Result {
        let context = device.context().map_err(text)?;
        ensure!(context.index() > 0, "the first context");
        let access = Access::open(&state, &context, map).map_err(text)?;
        let own = 64 + 256 * number as usize;
        access.lock_all().map_err(text)?;
        for to in 0..n {
            let mut sum = 0;
            for time in 1..=TIMES {
                access.accumulate(&[1_u64], Op::Sum, to, 0).map_err(text)?;
                access.accumulate(&[[1.0_f64, -1.0]], Op::Sum, to, 16).map_err(text)?;
                // In order: each sees those before.
                let old = access.fetch_and_op(time as u16, Op::Sum, to, own + 1).map_err(text)?;
                ensure!(u64::from(old) == sum, "{old}, not {sum}");
                sum += time;
            }
            // Long ones, in pieces; then back to nothing.
            let long: Vec<[f64; 2]> = (0..13).map(|i| [f64::from(i), number as f64]).collect();
            access.accumulate(&long, Op::Replace, to, own + 16).map_err(text)?;
            let mut got = vec![[0.0_f64; 2]; 13];
            access.get_accumulate(&[], &mut got, Op::NoOp, to, own + 16).map_err(text)?;
            ensure!(got == long, "{got:?}");
            access.flush(to).map_err(text)?;
            let last = access.compare_and_swap(sum as u16, 0, to, own + 1).map_err(text)?;
            ensure!(u64::from(last) == sum, "{last}");
        }
        access.unlock_all().map_err(text)?;
        let access = Access::open(&loose, &context, map).map_err(text)?;
        for to in 0..n {
            // One at a time, whoever they belong to.
            access.lock(Lock::Exclusive, to, Assert::NONE).map_err(text)?;
            let mut count = [0; 8];
            access.get(&mut count, to, place(to)).map_err(text)?;
            let more = u64::from_ne_bytes(count) + 1;
            access.put(&more.to_ne_bytes(), to, place(to)).map_err(text)?;
            access.unlock(to).map_err(text)?;
        }
        Ok(())
    };
    for _ in 0..ROUNDS {
        in_threads(&context, before..before + threads(me), work)?;
        world.barrier().map_err(text)?;
    }
    let bytes = own(&w)?;
    let number = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap());
    let times = ROUNDS * all * TIMES;
    ensure!(number(0) == times, "{} of {times}", number(0));
    let pair = [f64::from_bits(number(16)), f64::from_bits(number(24))];
    ensure!(pair == [times as f64, -(times as f64)], "{pair:?}");
    world.barrier().map_err(text)?;
    ensure!(memory[0] == ROUNDS * all, "{} under locks, not {}", memory[0], ROUNDS * all);
    drop((state, loose));
    w.free().map_err(text)?;
    dynamic.free().map_err(text)
}

/// A group's access epoch on a further context: its signals arrive too, also where without an
/// operation what completes it is the first packet of that context, which is closed at once.
pub fn signals<N: Opens, const ALONE: bool>(boot: Arc<dyn Boot>) -> Result {
    let context = N::open_with(boot, &Options::default().threads(true))?;
    let world = Communicator::world(&context);
    let (me, n) = (world.rank(), world.size());
    let mut first = make::<N, CREATED>(&world, 8, 8)?;
    let (device, to) = (context.device(), (me + 1) % n);
    let (state, map) = (first.state().map_err(text)?, world.map());
    std::thread::scope(|scope| -> Result {
        let thread = scope.spawn(|| -> Result {
            let context = device.context_at(1).map_err(text)?;
            let access = Access::open(&state, &context, map).map_err(text)?;
            access.start(&[to], Assert::NOCHECK).map_err(text)?;
            if !ALONE {
                access.accumulate(&[[0.5_f32, 2.0]], Op::Sum, to, 0).map_err(text)?;
            }
            access.complete().map_err(text)
        });
        first.post(&[(me + n - 1) % n], Assert::NOCHECK).map_err(text)?;
        first.wait().map_err(text)?;
        while !thread.is_finished() {
            context.progress().map_err(text)?;
            std::thread::yield_now();
        }
        thread.join().map_err(|_| "a thread panicked")?
    })?;
    let bytes = own(&first)?;
    let want = if ALONE { [0.0_f32; 2] } else { [0.5, 2.0] };
    let want = want.map(f32::to_ne_bytes).concat();
    same("by the signal's time", &bytes, &want)?;
    world.barrier().map_err(text)?;
    drop(state);
    first.free().map_err(text)
}

/// The same, where the first contexts, which those signals are for, make no progress until the
/// further ones are closed: each process waits for its thread first.
pub fn signals_behind<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    let context = N::open_with(boot, &Options::default().threads(true))?;
    let world = Communicator::world(&context);
    let (me, n) = (world.rank(), world.size());
    let mut first = make::<N, CREATED>(&world, 8, 8)?;
    let (device, to) = (context.device(), (me + 1) % n);
    for _ in 0..3 {
        let (state, map) = (first.state().map_err(text)?, world.map());
        std::thread::scope(|scope| -> Result {
            let thread = scope.spawn(|| -> Result {
                let context = device.context_at(1).map_err(text)?;
                let access = Access::open(&state, &context, map).map_err(text)?;
                access.start(&[to], Assert::NOCHECK).map_err(text)?;
                access.complete().map_err(text)
            });
            first.post(&[(me + n - 1) % n], Assert::NOCHECK).map_err(text)?;
            thread.join().map_err(|_| "a thread panicked")?
        })?;
        first.wait().map_err(text)?;
        world.barrier().map_err(text)?;
    }
    first.free().map_err(text)
}

/// Windows that several threads make at the same time, each on a communicator
/// of its own: no two take one key for their memory. The first context, which has none,
/// carries out what they ask of it.
pub fn windows_at_once<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    const THREADS: u32 = 3;
    const ROUNDS: u64 = 60;
    let context = N::open_with(boot, &Options::default().threads(true))?;
    let world = Communicator::world(&context);
    let (me, n) = (world.rank(), world.size());
    let (device, map) = (context.device(), world.map());
    let work = |number: u32| -> Result {
        let context = device.context_at(number).map_err(text)?;
        let world = Communicator::with_id(&context, map.clone(), me, u64::from(number));
        let mut memory = [0_u64; 8];
        for round in 0..ROUNDS {
            // SAFETY: the memory outlives the window.
            let w = unsafe { Window::create(&world, memory.as_mut_ptr().cast(), 64, 8) };
            let mut w = w.map_err(text)?;
            w.fence().map_err(text)?;
            let value = |rank: u32| round * 1000 + u64::from(number * 100 + rank) + 1;
            w.put(&value(me).to_ne_bytes(), (me + 1) % n, (round % 8) as usize).map_err(text)?;
            w.fence().map_err(text)?;
            let mut got = [0; 8];
            w.read_local((round % 8) as usize * 8, &mut got).map_err(text)?;
            let want = value((me + n - 1) % n);
            ensure!(u64::from_ne_bytes(got) == want, "{} not {want}", u64::from_ne_bytes(got));
            // (Before another's sum is in it.)
            w.fence().map_err(text)?;
            let (to, at) = ((me + 1) % n, (round % 8) as usize);
            let old = w.fetch_and_op(1_u64, Op::Sum, to, at).map_err(text)?;
            ensure!(old == value(me), "{old} not {}", value(me));
            w.fence().map_err(text)?;
            w.free().map_err(text)?;
        }
        Ok(())
    };
    in_threads(&context, 1..=THREADS, work)?;
    world.barrier().map_err(text)
}

/// Peers that several threads speak to for the first time, while those speak to this
/// process for the first time: each rank by threads of their own contexts, in another
/// order, as the first one is polled.
pub fn first_contact<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    const THREADS: u32 = 3;
    let context = N::open_with(boot, &Options::default().threads(true))?;
    let world = Communicator::world(&context);
    let (me, n) = (world.rank(), world.size());
    let mut w = make::<N, CREATED>(&world, 8 * (n * THREADS) as usize, 8)?;
    let state = w.state().map_err(text)?;
    let (device, map) = (context.device(), world.map());
    let all_open = std::sync::Barrier::new(THREADS as usize);
    in_threads(&context, 0..THREADS, |number| -> Result {
        let context = device.context_at(number + 1);
        all_open.wait();
        let access = Access::open(&state, &context.map_err(text)?, map).map_err(text)?;
        access.lock_all().map_err(text)?;
        for step in 0..n {
            let to = (me + 1 + step * (number + 1)) % n;
            // (Where the step divides the ranks, some come twice and others in the end.)
            for to in [to, (me + 1 + step) % n] {
                let (value, at) = (u64::from(me) + 1, (me * THREADS + number) as usize);
                access.put(&value.to_ne_bytes(), to, at).map_err(text)?;
            }
        }
        access.flush_all().map_err(text)?;
        access.unlock_all().map_err(text)
    })?;
    world.barrier().map_err(text)?;
    let want: Vec<u8> =
        (0..n * THREADS).flat_map(|at| u64::from(at / THREADS + 1).to_ne_bytes()).collect();
    same("of all threads of all", &own(&w)?, &want)?;
    drop(state);
    w.free().map_err(text)
}

/// A further context after the other asks a peer for what is answered, until the library there
/// takes in no more of their addresses, if it ever does: who asks is told, and none waits for ever.
pub fn unanswered<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    const MOST: u32 = 300;
    let context = N::open_with(boot, &Options::default().threads(true))?;
    let world = Communicator::world(&context);
    let mut w = make::<N, CREATED>(&world, 16, 8)?;
    let (state, device, map) = (w.state().map_err(text)?, context.device(), world.map());
    let get = |index: u32| -> Result<bool> {
        let context = device.context_at(index).map_err(text)?;
        let access = Access::open(&state, &context, map).map_err(text)?;
        access.lock_all_with(Assert::NOCHECK).map_err(text)?;
        let mut old = [[0.0_f64; 2]];
        let got = access.get_accumulate(&[[1.0_f64, -1.0]], &mut old, Op::Sum, 1, 0);
        let Err(why) = got else { return access.unlock_all().map(|()| true).map_err(text) };
        println!("context {index}: {why}");
        let told = why.to_string().contains("contexts opened again are new ones");
        ensure!(told && why.peer() == Some(1), "context {index}: {why}");
        // The link says so from now on.
        let again = access.accumulate(&[[1.0_f64, -1.0]], Op::Sum, 1, 0).map_err(text);
        ensure!(again == Err(why.to_string()), "{again:?} after {why}");
        Ok(false)
    };
    if world.rank() == 0 {
        in_threads(&context, [()], |()| {
            (1..=MOST).map(get).find(|got| *got != Ok(true)).unwrap_or(Ok(true)).map(drop)
        })?;
    }
    world.barrier().map_err(text)?;
    drop(state);
    w.free().map_err(text)
}
