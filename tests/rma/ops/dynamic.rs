//! Memory that is attached, and memory that is mapped side by side.

use super::*;
use crate::{ensure, refused};
use rankway::netmod::Type;
use rankway::rma::{Assert, ErrorKind, Flavor, Lock};

pub fn attached<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    let context = N::open(boot)?;
    let world = Communicator::world(&context);
    let (me, n) = (world.rank(), world.size());
    let to = (me + 1) % n;
    let mut w = Window::dynamic(&world).map_err(text)?;
    ensure!(w.flavor() == Flavor::Dynamic, "flavor");
    let mut first = vec![0_u64; 10_000];
    let mut second = vec![0_u64; 32];
    let (at, len) = (first.as_mut_ptr().cast::<u8>(), 80_000);
    // SAFETY: both outlive the window, and are looked at when nobody writes.
    unsafe {
        // In pieces that touch: what peers do reaches across.
        w.attach(at.add(20_003), 30_000).map_err(text)?;
        w.attach(at, 20_003).map_err(text)?;
        w.attach(at.add(50_003), len - 50_003).map_err(text)?;
        refused!(w.attach(at.add(79_999), 5), ErrorKind::Arguments(_));
        refused!(w.attach(at, 1), ErrorKind::Arguments(_));
        refused!(w.attach(std::ptr::null_mut(), 8), ErrorKind::Arguments(_));
        w.attach(at, 0).map_err(text)?;
        w.attach(second.as_mut_ptr().cast(), 256).map_err(text)?;
    }
    let mine = [at.addr().to_ne_bytes(), second.as_ptr().addr().to_ne_bytes()].concat();
    let told = world.allgather(&mine).map_err(text)?;
    let place = |rank: u32, which: usize| {
        usize::from_ne_bytes(told[rank as usize][8 * which..][..8].try_into().unwrap())
    };
    w.lock_all().map_err(text)?;
    for rank in [to, me] {
        let seed = 1 + (rank == me) as u8;
        let buf: Vec<u8> = (0..30_000_u32).map(|i| (i % 251) as u8 ^ seed).collect();
        w.put(&buf, rank, place(rank, 0) + 13 + 40_000 * (seed as usize - 1)).map_err(text)?;
        w.accumulate(&[1_u64, 2], Op::Sum, rank, place(rank, 1)).map_err(text)?;
        w.flush(rank).map_err(text)?;
        let mut got = vec![0; buf.len()];
        w.get(&mut got, rank, place(rank, 0) + 13 + 40_000 * (seed as usize - 1)).map_err(text)?;
        same("got", &got, &buf)?;
        // SAFETY: the buffer outlives the flush.
        unsafe { w.get_nb(got.as_mut_ptr(), 100, rank, place(rank, 0) + 13) }.map_err(text)?;
        w.flush(rank).map_err(text)?;
        w.fetch_and_op(3_u64, Op::Sum, rank, place(rank, 1)).map_err(text)?;
        // Beyond the end, between the two, and null.
        for wrong in [place(rank, 0) + len - 7, place(rank, 1) + 256, 0] {
            let world_rank = rank;
            let mut into = [0; 8];
            refused!(w.get(&mut into, rank, wrong), ErrorKind::NotExposed { rank: r } if *r == world_rank);
            refused!(
                w.fetch_and_op(1_u64, Op::Sum, rank, wrong),
                ErrorKind::NotExposed { rank: r } if *r == world_rank
            );
        }
        if rank != me {
            // What nobody waits for singly comes out of the flush.
            w.put(&[1; 8], rank, place(rank, 1) + 256).map_err(text)?;
            refused!(w.flush(rank), ErrorKind::NotExposed { .. });
            w.flush(rank).map_err(text)?;
            let mut old = [7_u64; 3];
            let (results, wrong) = (old.as_mut_ptr().cast(), place(rank, 1) + 256);
            let fetch = |asked: bool| -> Result {
                // SAFETY: they outlive the flush.
                unsafe {
                    let null = std::ptr::null();
                    if asked {
                        let request =
                            w.rget_accumulate(null, results, 3, Type::U64, Op::NoOp, rank, wrong);
                        request.map(drop).map_err(text)
                    } else {
                        w.get_accumulate_raw(null, results, 3, Type::U64, Op::NoOp, rank, wrong)
                            .map_err(text)
                    }
                }
            };
            for asked in [false, true] {
                fetch(asked)?;
                refused!(w.flush(rank), ErrorKind::NotExposed { .. });
                fetch(asked)?;
                // (The answer has come before it is asked for, or not.)
                context.progress().map_err(text)?;
                refused!(w.flush_all(), ErrorKind::NotExposed { .. });
                w.flush(rank).map_err(text)?;
            }
            ensure!(old == [7; 3], "{old:?}");
            // One flush tells of all, however many.
            for _ in 0..3 {
                w.put(&vec![1; 40_000], rank, wrong).map_err(text)?;
                w.accumulate(&[1.5_f64; 9000], Op::Sum, rank, wrong).map_err(text)?;
                w.put(&[1; 8], rank, wrong).map_err(text)?;
            }
            refused!(w.flush(rank), ErrorKind::NotExposed { .. });
            w.flush(rank).map_err(text)?;
        }
    }
    w.unlock_all().map_err(text)?;
    world.barrier().map_err(text)?;
    let word = |at: usize| {
        let mut bytes = [0; 8];
        // SAFETY: within `second`, which others are done with.
        unsafe { std::ptr::copy(second.as_ptr().cast::<u8>().add(at), bytes.as_mut_ptr(), 8) };
        u64::from_ne_bytes(bytes)
    };
    ensure!((word(0), word(8)) == (8, 4), "sums: {} {}", word(0), word(8));
    w.detach(second.as_ptr().cast()).map_err(text)?;
    refused!(w.detach(second.as_ptr().cast()), ErrorKind::Arguments(_));
    world.barrier().map_err(text)?;
    // Gone, while the other is still there.
    w.lock(Lock::Shared, to, Assert::NONE).map_err(text)?;
    let mut into = [0; 8];
    refused!(w.get(&mut into, to, place(to, 1)), ErrorKind::NotExposed { rank } if *rank == to);
    w.get(&mut into, to, place(to, 0)).map_err(text)?;
    w.unlock(to).map_err(text)?;
    world.barrier().map_err(text)?;
    w.free().map_err(text)?;
    let plain = Window::allocate(&world, 8, 8).map_err(text)?;
    // SAFETY: refused.
    refused!(unsafe { plain.attach(at, len) }, ErrorKind::Arguments(_));
    Ok(())
}

/// Regions of different sizes, contiguous, loaded and stored in directly.
pub fn shared<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    let context = N::open(boot)?;
    let world = Communicator::world(&context);
    for comm in [world.dup(), world.reversed().map_err(text)?] {
        for uneven in [false, true] {
            let (me, n) = (comm.rank(), comm.size());
            let bytes = |rank: u32| if uneven { 8 * (rank as usize % 3) + 4 } else { 24 };
            let mut w = Window::shared(&comm, bytes(me), 4).map_err(text)?;
            ensure!(w.flavor() == Flavor::Shared, "flavor");
            let (start, ..) = w.shared_query(0).map_err(text)?;
            let mut end = start.addr();
            for rank in 0..n {
                let (at, len, unit) = w.shared_query(rank).map_err(text)?;
                ensure!(
                    (at.addr(), len, unit) == (end, bytes(rank), 4),
                    "rank {rank}: {at:?} {len}"
                );
                end += len;
            }
            refused!(w.shared_query(n), ErrorKind::Rank { .. });
            w.fence().map_err(text)?;
            for to in 0..n {
                // Adds up to the same from every rank.
                w.accumulate(&[me + 1], Op::Sum, to, 0).map_err(text)?;
            }
            w.fence().map_err(text)?;
            let to = (me + 1) % n;
            let (at, ..) = w.shared_query(to).map_err(text)?;
            // SAFETY: within the region; the fences keep others away.
            let seen = unsafe { at.cast::<u32>().read_unaligned() };
            ensure!(seen == n * (n + 1) / 2, "sum {seen}");
            w.fence().map_err(text)?;
            w.put(&me.to_ne_bytes(), to, bytes(to) / 4 - 1).map_err(text)?;
            refused!(w.put(&[1; 8], to, bytes(to) / 4 - 1), ErrorKind::OutOfBounds { .. });
            w.fence().map_err(text)?;
            same("last word", &own(&w)?[bytes(me) - 4..], &((me + n - 1) % n).to_ne_bytes())?;
            w.free().map_err(text)?;
        }
    }
    Ok(())
}

/// The communicators of all of one context are one: windows that are made on each are different
/// windows.
pub fn two_worlds<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    let context = N::open(boot)?;
    let [one, two] = [(); 2].map(|()| Communicator::world(&context));
    let first = Window::dynamic(&one).map_err(text)?;
    let second = Window::dynamic(&two).map_err(text)?;
    let mut memory = vec![0_u64; 8];
    // SAFETY: it outlives the window.
    unsafe { first.attach(memory.as_mut_ptr().cast(), 64) }.map_err(text)?;
    let at = memory.as_ptr().addr();
    let told = one.allgather(&at.to_ne_bytes()).map_err(text)?;
    let place = usize::from_ne_bytes(told[0][..].try_into().map_err(text)?);
    for gone in [None, Some(second)] {
        drop(gone);
        first.lock_all().map_err(text)?;
        if one.rank() == 1 {
            first.put(&[5; 8], 0, place).map_err(text)?;
            first.flush(0).map_err(text)?;
        }
        first.unlock_all().map_err(text)?;
        two.barrier().map_err(text)?;
    }
    if one.rank() == 0 {
        let ours = std::hint::black_box(&memory)[0];
        ensure!(ours == 0x0505_0505_0505_0505, "{ours:#x}");
    }
    one.barrier().map_err(text)
}
