//! Operations and calls that are refused, and what they leave as it was.

use super::*;

/// Operations that leave the communicator or the target's memory are refused
/// and change nothing; those that end at its last byte are carried out.
pub fn bounds<const KIND: u8, N: Opens>(boot: Arc<dyn Boot>) -> Result {
    use ErrorKind::{NullBuffer, OutOfBounds, Rank};
    let context = <N as Opens>::open(boot)?;
    for comm in communicators(&Communicator::world(&context))? {
        let n = comm.size();
        let to = (comm.rank() + 1) % n;
        // Seven units and a half.
        let mut w = make::<KIND, _>(&comm, 60, 8).map_err(text)?;
        w.fence().map_err(text)?;
        let long = [0xee_u8; 128];
        let mut into = [0x55_u8; 128];
        for rank in [u32::MAX, n, n + 1] {
            refused!(w.put(&long[..8], rank, 0), Rank { rank: r, size } if (*r, *size) == (rank, n));
            refused!(w.put(&[], rank, 0), Rank { .. });
            refused!(w.get(&mut into[..8], rank, 0), Rank { .. });
            refused!(w.flush(rank), Rank { .. });
            refused!(w.flush_local(rank), Rank { .. });
            // SAFETY: nothing is issued for a rank that is not there.
            unsafe {
                refused!(w.put_nb(long.as_ptr(), 8, rank, 0), Rank { .. });
                refused!(w.get_nb(into.as_mut_ptr(), 8, rank, 0), Rank { .. });
            }
        }
        // Past the end, at it with a byte, and where displacement times unit
        // comes round to 0, 8 and 56.
        let round = usize::MAX / 8 + 1;
        let wrong = [(8, 1), (8, 0), (7, 5), (0, 61), (0, 128), (6, 13), (9, 8), (1 << 40, 8)];
        let wrapped = [(usize::MAX, 8), (round, 8), (round + 1, 8), (round + 7, 4), (round, 0)];
        for (disp, len) in wrong.into_iter().chain(wrapped) {
            refused!(w.put(&long[..len], to, disp), OutOfBounds { rank, bytes: 60, .. } if *rank == to);
            refused!(w.get(&mut into[..len], to, disp), OutOfBounds { .. });
            // SAFETY: the buffers hold what is asked for.
            unsafe {
                refused!(w.put_nb(long.as_ptr(), len, to, disp), OutOfBounds { .. });
                refused!(w.get_nb(into.as_mut_ptr(), len, to, disp), OutOfBounds { .. });
            }
        }
        // Lengths that come round to the start of the window are refused
        // before a byte is read.
        for (disp, len) in [(0, usize::MAX), (1, usize::MAX - 7), (7, usize::MAX - 50)] {
            // SAFETY: refused by length.
            unsafe {
                refused!(w.put_nb(long.as_ptr(), len, to, disp), OutOfBounds { .. });
                refused!(w.get_nb(into.as_mut_ptr(), len, to, disp), OutOfBounds { .. });
            }
        }
        let null = std::ptr::null_mut::<u8>();
        // SAFETY: null is allowed, and refused with a length.
        unsafe {
            refused!(w.put_nb(null, 8, to, 0), NullBuffer { len: 8 });
            refused!(w.get_nb(null, 8, to, 0), NullBuffer { len: 8 });
            refused!(w.put_nb(null, 0, n, 0), Rank { .. });
            w.put_nb(null, 0, to, 7).map_err(text)?;
            w.get_nb(null, 0, to, 7).map_err(text)?;
        }
        w.put(&[], to, 0).map_err(text)?;
        w.get(&mut [], to, 7).map_err(text)?;
        w.fence().map_err(text)?;
        same("after refusals", &own(&w)?, &[0; 60])?;
        ensure!(into == [0x55; 128], "a refused get wrote into its buffer");
        w.fence().map_err(text)?;
        // The last half unit.
        w.put(&[1, 2, 3, 4], to, 7).map_err(text)?;
        w.fence().map_err(text)?;
        same("the end", &own(&w)?[52..], &[0, 0, 0, 0, 1, 2, 3, 4])?;
        w.free().map_err(text)?;

        // Lengths about what a put may have to be tested by a comparison for each of
        // displacement and length, up to the last byte and past it.
        let (bytes, unit) = (8 * 515 + 5, 8);
        let mut w = make::<KIND, _>(&comm, bytes, unit).map_err(text)?;
        refused!(w.put(&long[..8], to, 0), ErrorKind::NoEpoch);
        refused!(w.put(&long[..8], n, 0), ErrorKind::NoEpoch);
        w.fence().map_err(text)?;
        for len in [1, 7, 8, 9, 63, 64, 65, 127, 128] {
            refused!(w.put(&long[..len], n, 0), Rank { .. });
            let last = (bytes - len) / unit;
            refused!(w.put(&long[..len], to, last + 1), OutOfBounds { rank, .. } if *rank == to);
            refused!(w.put(&long[..len], to, round), OutOfBounds { .. });
            // SAFETY: null is refused.
            unsafe { refused!(w.put_nb(null, len, to, last), NullBuffer { .. }) };
            for disp in [0, last - 1, last] {
                let buf = pattern((len + disp) as u32, len);
                w.put(&buf, to, disp).map_err(text)?;
                w.fence().map_err(text)?;
                same("at the end", &own(&w)?[disp * unit..][..len], &buf)?;
                w.fence().map_err(text)?;
            }
        }
        w.free().map_err(text)?;

        // Zero bytes may stand at the very end, not behind it.
        let mut w = make::<KIND, _>(&comm, 61, 1).map_err(text)?;
        w.fence().map_err(text)?;
        w.put(&[], to, 61).map_err(text)?;
        w.get(&mut [], to, 61).map_err(text)?;
        refused!(w.put(&[], to, 62), OutOfBounds { .. });
        refused!(w.get(&mut [], to, 62), OutOfBounds { .. });
        refused!(w.put(&[1], to, 61), OutOfBounds { .. });
        w.put(&[9], to, 60).map_err(text)?;
        w.fence().map_err(text)?;
        ensure!(own(&w)?[60] == 9, "the last byte did not arrive");
        refused!(w.read_local(61, &mut [0]), OutOfBounds { .. });
        refused!(w.write_local(usize::MAX, &[0, 0]), OutOfBounds { .. });
        w.free().map_err(text)?;
    }
    Ok(())
}

/// Calls that do not fit the epoch, and windows after their end.
pub fn epochs<const KIND: u8, N: Opens>(boot: Arc<dyn Boot>) -> Result {
    use ErrorKind::{Epoch, Freed, Member, NoEpoch, NullBuffer};
    let context = <N as Opens>::open(boot)?;
    let world = Communicator::world(&context);
    let (me, n) = (world.rank(), world.size());
    let to = (me + 1) % n;
    let mut into = [0; 8];
    let mut w = make::<KIND, _>(&world, 64, 8).map_err(text)?;
    for _ in 0..2 {
        refused!(w.put(&[1; 8], to, 0), NoEpoch);
        refused!(w.get(&mut into, to, 0), NoEpoch);
        refused!(w.flush(to), NoEpoch);
        refused!(w.flush_all(), NoEpoch);
        refused!(w.flush_local(to), NoEpoch);
        refused!(w.flush_local_all(), NoEpoch);
        refused!(w.view(), NoEpoch);
        // SAFETY: refused; the buffers hold 8 bytes.
        unsafe {
            refused!(w.put_nb(into.as_ptr(), 8, to, 0), NoEpoch);
            refused!(w.get_nb(into.as_mut_ptr(), 8, to, 0), NoEpoch);
        }
        refused!(w.unlock_all(), Epoch { call: "unlock_all", .. });
        w.lock_all().map_err(text)?;
        refused!(w.lock_all(), Epoch { call: "lock_all", .. });
        refused!(w.fence(), Epoch { call: "fence", .. });
        refused!(w.free(), Epoch { call: "free", .. });
        w.put(&word(me, to, 9), to, 1).map_err(text)?;
        w.unlock_all().map_err(text)?;
    }
    w.fence().map_err(text)?;
    let from = (me + n - 1) % n;
    w.read_local(8, &mut into).map_err(text)?;
    same("put under lock_all", &into, &word(from, me, 9))?;
    refused!(w.unlock_all(), Epoch { .. });
    w.put(&[2; 8], to, 2).map_err(text)?;
    refused!(w.lock_all(), Epoch { call: "lock_all", .. });
    w.fence().map_err(text)?;
    // A fence epoch without operations gives way to another.
    w.lock_all().map_err(text)?;
    w.unlock_all().map_err(text)?;
    w.free().map_err(text)?;
    refused!(w.free(), Freed);
    refused!(w.fence(), Freed);
    refused!(w.put(&[1; 8], to, 0), Freed);
    refused!(w.get(&mut into, to, 0), Freed);
    refused!(w.lock_all(), Freed);
    refused!(w.unlock_all(), Freed);
    refused!(w.flush(to), Freed);
    refused!(w.flush_all(), Freed);
    refused!(w.view(), Freed);
    refused!(w.local(), Freed);
    refused!(w.read_local(0, &mut into), Freed);
    drop(w);

    // Dropped without free, in an epoch and out of it.
    drop(make::<KIND, _>(&world, 64, 8).map_err(text)?);
    let w = make::<KIND, _>(&world, 64, 8).map_err(text)?;
    w.fence().map_err(text)?;
    w.put(&[7; 8], to, 0).map_err(text)?;
    w.fence().map_err(text)?;
    drop(w);

    // What one member gives wrong, all hear of, and the next window is made.
    let last = n - 1;
    let made = make::<KIND, _>(&world, 64, if me == last { 0 } else { 8 });
    refused!(made, Member { rank, peer, .. } if *rank == last && *peer == Some(last));
    let made = make::<KIND, _>(&world, 64, 0);
    refused!(made, Member { rank: 0, why, .. } if why.contains("displacement unit"));
    let mut one = [0_u64; 8];
    let start = if me == 0 { std::ptr::null_mut() } else { one.as_mut_ptr().cast() };
    // SAFETY: null is refused, and the rest outlives the call, which fails.
    let made = unsafe { Window::create(&world, start, 64, 8) };
    if me == 0 {
        refused!(made, NullBuffer { len: 64 });
    } else {
        refused!(made, Member { rank: 0, peer: Some(0), why } if why.contains("null memory"));
    }
    // Null without a length is a window like any other.
    let start = if me == 0 { std::ptr::null_mut() } else { one.as_mut_ptr().cast() };
    // SAFETY: `one` outlives the window.
    let mut w =
        unsafe { Window::create(&world, start, if me == 0 { 0 } else { 64 }, 8) }.map_err(text)?;
    w.fence().map_err(text)?;
    if to == 0 {
        refused!(w.put(&[1; 8], to, 0), ErrorKind::OutOfBounds { bytes: 0, .. });
        w.put(&[], to, 0).map_err(text)?;
    } else {
        w.put(&word(me, to, 1), to, 7).map_err(text)?;
    }
    w.fence().map_err(text)?;
    if me != 0 {
        same("beside null", &own(&w)?[56..], &word((me + n - 1) % n, me, 1))?;
    }
    w.free().map_err(text)?;
    let mut last = make::<KIND, _>(&world, n as usize * 3 * 8, 8).map_err(text)?;
    all_to_all(&last)?;
    last.free().map_err(text)
}

/// A member that has no memory for the window fails in all members.
pub fn no_memory<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    let context = <N as Opens>::open(boot)?;
    let world = Communicator::world(&context);
    let (me, n) = (world.rank(), world.size());
    let nodes = world.nodes().map_err(text)?;
    let on_one_node = nodes.iter().all(|node| Some(node) == nodes.get(0));
    for bytes in [usize::MAX - 5000, isize::MAX as usize, 1 << 62] {
        let made = Window::allocate(&world, if me == 0 { bytes } else { 64 }, 1);
        if me == 0 {
            refused!(made, ErrorKind::Memory { .. });
        } else {
            refused!(made, ErrorKind::MemberMemory { rank: 0, peer: Some(0), .. });
        }
        let made = Window::shared(&world, if me == 0 { bytes } else { 64 }, 1);
        match bytes > isize::MAX as usize {
            true if me == 0 => refused!(made, ErrorKind::Length { .. }),
            true => {
                refused!(made, ErrorKind::Member { rank: 0, peer: Some(0), why } if why.contains("length"));
            }
            false if on_one_node => {
                refused!(made, ErrorKind::MemberMemory { rank: 0, peer: Some(0), .. });
            }
            false => refused!(made, ErrorKind::Arguments(why) if why.contains("on one node")),
        }
    }
    let mut last = make::<ALLOCATED, _>(&world, n as usize * 3 * 8, 8).map_err(text)?;
    all_to_all(&last)?;
    last.free().map_err(text)
}

/// Where a provider has no messages a process cannot ask the first member, which
/// can lock itself exclusively all the same: lock_all is refused, unless it is
/// promised that nobody locks.
pub fn no_messages(boot: Arc<dyn Boot>) -> Result {
    use ErrorKind::Arguments;
    let context = device::open_null(boot).map_err(text)?;
    let world = Communicator::world(&context);
    let shared = Window::shared(&world, 64, 1);
    refused!(shared, Arguments(why) if why.contains("1 of 2 on this one; split the communicator"));
    let mut memory = [0_u8; 64];
    // SAFETY: the memory outlives the window.
    let w = unsafe { Window::create(&world, memory.as_mut_ptr(), 64, 1) };
    let mut w = w.map_err(text)?;
    if world.rank() == 0 {
        w.lock(Lock::Exclusive, 0, Assert::NONE).map_err(text)?;
        world.barrier().map_err(text)?;
        world.barrier().map_err(text)?;
        w.unlock(0).map_err(text)?;
        w.lock_all().map_err(text)?;
        w.unlock_all().map_err(text)?;
    } else {
        world.barrier().map_err(text)?;
        refused!(w.lock_all(), Arguments(why) if why.contains("rank 0"));
        refused!(w.lock(Lock::Exclusive, 0, Assert::NONE), Arguments(_));
        refused!(w.lock(Lock::Exclusive, 1, Assert::NONE), Arguments(_));
        w.lock_all_with(Assert::NOCHECK).map_err(text)?;
        w.unlock_all().map_err(text)?;
        world.barrier().map_err(text)?;
    }
    w.free().map_err(text)
}

/// An access over a map of processes that no job has is refused, and one over some that the
/// job has does what it can.
pub fn strangers<const KIND: u8, N: Opens>(boot: Arc<dyn Boot>) -> Result {
    use rankway::rankmap::RankMap;
    use rankway::rma::Access;
    let context = <N as Opens>::open(boot)?;
    let world = Communicator::world(&context);
    let n = world.size();
    let mut w = make::<KIND, _>(&world, 64, 8).map_err(text)?;
    let state = w.state().map_err(text)?;
    let maps = [
        RankMap::affine(0, 1_000_000, 1, 5),
        RankMap::affine(0, n - 1, 1, 2),
        RankMap::affine(0, 1000, -500, 3),
        RankMap::from_lpids(0, [0, 77, 5, 900, 12]),
        RankMap::affine(7, 0, 1, 2),
    ];
    for map in maps {
        let map = map.map_err(text)?;
        let opened = Access::open(&state, &context, &map);
        ensure!(opened.is_err(), "over {map:?}");
    }
    let turned = RankMap::affine(0, n - 1, -1, n).map_err(text)?;
    let access = Access::open(&state, &context, &turned).map_err(text)?;
    access.lock_all().map_err(text)?;
    access.put(&[7; 8], n - 1 - world.rank(), 3).map_err(text)?;
    access.unlock_all().map_err(text)?;
    same("put to itself", &own(&w)?[24..32], &[7; 8])?;
    drop((access, state));
    w.free().map_err(text)
}
