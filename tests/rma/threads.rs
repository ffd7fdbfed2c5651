//! Windows seen through a view, and through contexts of threads.

use super::*;

/// The same checks and bytes through a view, where all is mapped.
pub fn views<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    use ErrorKind::{OutOfBounds, Rank};
    let context = <N as Opens>::open(boot)?;
    let world = Communicator::world(&context);
    for comm in [world.dup(), world.reversed().map_err(text)?] {
        let (me, n) = (comm.rank(), comm.size());
        let part = 16;
        let mut w = make::<ALLOCATED, _>(&comm, part * n as usize + 4, 4).map_err(text)?;
        w.fence().map_err(text)?;
        let end = part / 4 * n as usize + 1;
        let view = w.view().map_err(text)?.ok_or("the window is not mapped")?;
        for rank in [n, u32::MAX] {
            refused!(view.put(&[1; 8], rank, 0), Rank { .. });
            refused!(view.put(&[], rank, 0), Rank { .. });
        }
        let round = usize::MAX / 4 + 1;
        let wrong = [(end, 1), (end - 1, 5), (0, part * n as usize + 5), (end + 1, 0)];
        for (disp, len) in wrong.into_iter().chain([(usize::MAX, 1), (round, 4), (round + 1, 0)]) {
            refused!(view.put(&vec![1; len], 0, disp), OutOfBounds { .. });
        }
        view.put(&[], 0, end).map_err(text)?;
        for to in 0..n {
            for (i, len) in [(0, 8), (2, 5)] {
                let buf = pattern(me * 16 + to, len);
                view.put(&buf, to, me as usize * part / 4 + i).map_err(text)?;
            }
            view.put(&[3; 4], to, end - 1).map_err(text)?;
        }
        w.flush_all().map_err(text)?;
        w.fence().map_err(text)?;
        let mut want = Vec::new();
        for from in 0..n {
            want.extend(pattern(from * 16 + me, 8));
            want.extend(pattern(from * 16 + me, 5));
            want.extend([0; 3]);
        }
        want.extend([3; 4]);
        same("through a view", &own(&w)?, &want)?;
        w.free().map_err(text)?;
    }
    Ok(())
}

/// Every thread puts through a context of its own; bytes checked.
pub fn threads<const KIND: u8, N: Opens>(boot: Arc<dyn Boot>) -> Result {
    use rankway::rma::Access;
    const THREADS: usize = 2;
    const PUTS: usize = 500;
    let options = Options::default().threads(true);
    let context = N::open_with(boot, &options)?;
    let world = Communicator::world(&context);
    let (me, n) = (world.rank(), world.size());
    let to = (me + 1) % n;
    let mut w = make::<KIND, _>(&world, THREADS * PUTS * 8 + THREADS * 10_000, 1).map_err(text)?;
    w.fence().map_err(text)?;
    let (state, device, map) = (w.state().map_err(text)?, context.device(), world.map());
    in_threads(&context, 0..THREADS, |thread| {
        let context = device.context().map_err(text)?;
        let access = Access::open(&state, &context, map).map_err(text)?;
        refused!(access.put(&[1], to, 0), ErrorKind::NoEpoch);
        access.lock_all().map_err(text)?;
        for i in 0..PUTS {
            let at = (thread * PUTS + i) * 8;
            let bytes = word(me, thread as u32, i as u32);
            access.put(&bytes, to, at).map_err(text)?;
            if i % 64 == 0 {
                access.flush(to).map_err(text)?;
                let mut got = [0; 8];
                access.get(&mut got, to, at).map_err(text)?;
                same("got by a thread", &got, &bytes)?;
            }
        }
        let long = THREADS * PUTS * 8 + thread * 10_000;
        access.put(&pattern(thread as u32, 10_000), to, long).map_err(text)?;
        access.unlock_all().map_err(text)
    })?;
    w.fence().map_err(text)?;
    let from = (me + n - 1) % n;
    let mut want: Vec<u8> = (0..THREADS * PUTS)
        .flat_map(|i| word(from, (i / PUTS) as u32, (i % PUTS) as u32))
        .collect();
    (0..THREADS).for_each(|thread| want.extend(pattern(thread as u32, 10_000)));
    same("put by threads", &own(&w)?, &want)?;
    w.free().map_err(text)
}

/// Locks of an access that is dropped in its epoch are given back: others lock after it.
pub fn dropped<const KIND: u8, N: Opens>(boot: Arc<dyn Boot>) -> Result {
    use rankway::rma::{Access, Assert, Lock};
    let context = <N as Opens>::open(boot)?;
    let world = Communicator::world(&context);
    let (me, n) = (world.rank(), world.size());
    let mut w = make::<KIND, _>(&world, 16, 8).map_err(text)?;
    for round in 0..4 {
        let access = Access::open(&w.state().map_err(text)?, &context, world.map());
        let access = access.map_err(text)?;
        if round == 0 {
            access.lock_all().map_err(text)?;
        } else if me == round % n {
            let kind = [Lock::Shared, Lock::Exclusive][round as usize % 2];
            for rank in (0..n).filter(|rank| (rank + round) % 3 > 0) {
                access.lock(kind, rank, Assert::NONE).map_err(text)?;
                access.put(&word(me, rank, round), rank, 0).map_err(text)?;
                access.flush(rank).map_err(text)?;
            }
        }
        world.barrier().map_err(text)?;
        drop(access);
        for rank in 0..n {
            w.lock(Lock::Exclusive, rank, Assert::NONE).map_err(text)?;
            w.put(&word(me, rank, round), rank, 1).map_err(text)?;
            w.unlock(rank).map_err(text)?;
        }
        world.barrier().map_err(text)?;
    }
    w.free().map_err(text)
}

/// The worlds of contexts are communicators of their own: threads make windows on them and
/// put, on some ranks one first and on others the other.
pub fn worlds<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    let context = N::open_with(boot, &Options::default().threads(true))?;
    let world = Communicator::world(&context);
    let (device, first) = (context.device(), world.id());
    in_threads(&context, 1..3, |index| {
        let context = device.context_at(index).map_err(text)?;
        let own = Communicator::world(&context);
        let (me, n) = (own.rank(), own.size());
        ensure!(own.id() != first, "one id");
        if (me + index).is_multiple_of(2) {
            std::thread::sleep(std::time::Duration::from_millis(30));
        }
        for round in 0..5 {
            let mut w = make::<ALLOCATED, _>(&own, n as usize * 8, 8).map_err(text)?;
            w.fence().map_err(text)?;
            for to in 0..n {
                w.put(&word(me, index, round), to, me as usize).map_err(text)?;
            }
            w.fence().map_err(text)?;
            let want: Vec<u8> = (0..n).flat_map(|from| word(from, index, round)).collect();
            same("of a world's window", &super::own(&w)?, &want)?;
            w.free().map_err(text)?;
        }
        Ok(())
    })?;
    world.barrier().map_err(text)
}

/// A second context needs the option.
pub fn one_thread<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    let context = <N as Opens>::open(boot)?;
    match context.device().context() {
        Err(device::DeviceError::OneThread) => Ok(()),
        other => Err(format!("{:?}", other.map(drop))),
    }
}
