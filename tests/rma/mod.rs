//! What ranks do to each other's windows in the tests, bytes checked. One body
//! serves every provider: which one is the job's environment's affair.

#![allow(dead_code, unreachable_pub, reason = "each test binary uses its part")]

pub mod late;
pub mod maps;

use crate::ensure;
pub use crate::harness::{Opens, pattern, same};
use crate::harness::{Result, Scenario, text};
use rankway::av::Transport;
use rankway::boot::Boot;
use rankway::device::{self, Context, Options};
use rankway::netmod::Netmod;
use rankway::netmod::ofi::Ofi;
use rankway::rankmap::group::RankRange;
use rankway::rma::{Backing, Communicator, ErrorKind, Window};
use std::ops::{Deref, DerefMut};
use std::rc::Rc;
use std::sync::Arc;

/// Fails the scenario unless an operation was refused for this reason.
#[macro_export]
macro_rules! refused {
    ($call:expr, $reason:pat $(if $guard:expr)?) => {
        match $call {
            Ok(_) => return Err(format!("{} went well ({}:{})", stringify!($call), file!(), line!())),
            Err(e) => match e.kind() {
                $reason $(if $guard)? => {}
                other => {
                    let (call, reason) = (stringify!($call), stringify!($reason));
                    return Err(format!("{call}: {other:?}, not {reason} ({}:{})", file!(), line!()));
                }
            },
        }
    };
}

/// Over libfabric, for scenarios about its providers.
pub fn open(boot: Arc<dyn Boot>) -> Result<Rc<Context<Ofi>>> {
    <Ofi as Opens>::open(boot)
}

/// Where a window's memory comes from: the window, the test, the network
/// library with its own puts or with stores.
pub const ALLOCATED: u8 = 0;
pub const CREATED: u8 = 1;
pub const PROVIDED: u8 = 2;
pub const DIRECT: u8 = 3;

/// A window and, when it was created over the test's memory, that memory.
pub struct Held<N: Netmod> {
    window: Window<N>,
    _memory: Vec<u64>,
}

impl<N: Netmod> Deref for Held<N> {
    type Target = Window<N>;

    fn deref(&self) -> &Window<N> {
        &self.window
    }
}

impl<N: Netmod> DerefMut for Held<N> {
    fn deref_mut(&mut self) -> &mut Window<N> {
        &mut self.window
    }
}

pub fn make<const KIND: u8, N: Netmod>(
    comm: &Communicator<N>,
    bytes: usize,
    unit: usize,
) -> std::result::Result<Held<N>, rankway::rma::Error> {
    let backing = match KIND {
        ALLOCATED => Some(Backing::Shared),
        PROVIDED => Some(Backing::Provider),
        DIRECT => Some(Backing::Direct),
        _ => None,
    };
    if let Some(backing) = backing {
        let window = Window::allocate_with(comm, bytes, unit, backing)?;
        return Ok(Held { window, _memory: Vec::new() });
    }
    let mut memory = vec![0_u64; bytes.div_ceil(8)];
    // SAFETY: the memory is dropped after the window, and touched through it.
    let window = unsafe { Window::create(comm, memory.as_mut_ptr().cast(), bytes, unit)? };
    Ok(Held { window, _memory: memory })
}

/// All of this process's own memory of a window.
pub fn own<N: Netmod>(window: &Window<N>) -> Result<Vec<u8>> {
    let mut bytes = vec![0; window.local().map_err(text)?.1];
    window.read_local(0, &mut bytes).map_err(text)?;
    Ok(bytes)
}

/// Eight bytes that say who wrote them, to whom and which time.
pub fn word(from: u32, to: u32, round: u32) -> [u8; 8] {
    (u64::from(from) << 40 | u64::from(to) << 16 | u64::from(round) | 1 << 63).to_le_bytes()
}

/// Every rank puts a word to every rank, in every round; all are checked.
pub fn all_to_all<N: Netmod>(window: &Window<N>) -> Result {
    let comm = window.communicator();
    let (me, n) = (comm.rank(), comm.size());
    window.fence().map_err(text)?;
    for round in 0..3 {
        for to in 0..n {
            let at = (round * n + me) as usize;
            window.put(&word(me, to, round), to, at).map_err(text)?;
        }
        window.fence().map_err(text)?;
        for from in 0..n {
            let at = (round * n + from) as usize * 8;
            let mut got = [0; 8];
            window.read_local(at, &mut got).map_err(text)?;
            ensure!(got == word(from, me, round), "round {round}: from {from} came {got:02x?}");
        }
    }
    // Gets see what was put.
    for from in 0..n {
        let mut got = [0; 8];
        window.get(&mut got, from, me as usize).map_err(text)?;
        ensure!(got == word(me, from, 0), "got {got:02x?} from {from}");
    }
    Ok(())
}

/// Communicators of every shape, so that puts take every path.
pub fn communicators<N: Netmod>(world: &Communicator<N>) -> Result<Vec<Communicator<N>>> {
    let (me, n) = (world.rank(), world.size());
    let mut all = vec![world.dup(), world.reversed().map_err(text)?];
    let half = world.split(Some(u32::from(me >= n / 2)), 0).map_err(text)?;
    let odd = world.split(Some(me % 2), 0).map_err(text)?;
    let back = world.split(Some(0), -(me as i32)).map_err(text)?;
    let pairs = world.split(Some(me / 2 % 2), 0).map_err(text)?;
    // 1 and 0 change places: no line, so a table.
    let swapped = world.create((0..n).map(|r| if n > 2 && r < 2 { 1 - r } else { r }));
    // Even and odd ranks at once, each group from its last to its first.
    let last = (n - 1 - (n - 1 - me) % 2) as i32;
    let turned = world.group().range_incl(&[RankRange::new(last, 0, -2)]).map_err(text)?;
    let turned = world.create_group(&turned).map_err(text)?.ok_or("not in its own group")?;
    ensure!(turned.rank() == (last as u32 - me) / 2, "rank {} of {turned:?}", turned.rank());
    ensure!(turned.group().translate(turned.rank(), &world.group()) == Ok(Some(me)), "{turned:?}");
    let mine = world.group().incl(&[0]).map_err(text)?;
    ensure!(world.create_group(&mine).map_err(text)?.is_some() == (me == 0), "group of rank 0");
    if n > 1 {
        refused!(turned.create_group(&world.group()), ErrorKind::Arguments(_));
    }
    all.extend([half, odd, back, pairs, swapped.map_err(text)?].into_iter().flatten());
    all.push(turned);
    Ok(all)
}

pub fn words<const KIND: u8, N: Opens>(boot: Arc<dyn Boot>) -> Result {
    let context = <N as Opens>::open(boot)?;
    for comm in communicators(&Communicator::world(&context))? {
        let mut window = make::<KIND, _>(&comm, comm.size() as usize * 3 * 8, 8).map_err(text)?;
        all_to_all(&window)?;
        window.free().map_err(text)?;
    }
    Ok(())
}

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
    use ErrorKind::{Arguments, Epoch, Freed, NoEpoch, NullBuffer};
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
    same("put under lock_all", &own(&w)?[8..16], &word(from, me, 9))?;
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
    refused!(make::<KIND, _>(&world, 64, if me == n - 1 { 0 } else { 8 }), Arguments(_));
    refused!(make::<KIND, _>(&world, 64, 0), Arguments(_));
    let mut one = [0_u64; 8];
    let start = if me == 0 { std::ptr::null_mut() } else { one.as_mut_ptr().cast() };
    // SAFETY: null is refused, and the rest outlives the call, which fails.
    let made = unsafe { Window::create(&world, start, 64, 8) };
    if me == 0 {
        refused!(made, NullBuffer { len: 64 });
    } else {
        refused!(made, Arguments(_));
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
    let bytes = if me == 0 { usize::MAX - 5000 } else { 64 };
    let made = Window::allocate(&world, bytes, 1);
    if me == 0 {
        refused!(made, ErrorKind::Memory { .. });
    } else {
        refused!(made, ErrorKind::Arguments(why) if why.contains("rank 0"));
    }
    let mut last = make::<ALLOCATED, _>(&world, n as usize * 3 * 8, 8).map_err(text)?;
    all_to_all(&last)?;
    last.free().map_err(text)
}

/// Sizes and units that differ between ranks, some with nothing at all.
pub fn uneven<const KIND: u8, N: Opens>(boot: Arc<dyn Boot>) -> Result {
    let context = <N as Opens>::open(boot)?;
    for comm in communicators(&Communicator::world(&context))? {
        let (me, n) = (comm.rank(), comm.size());
        // By rank: bytes and unit; 8 x 9, 100 x 1, nothing, 3 x 1366 + 2.
        let shape = |rank: u32| [(72, 8), (100, 1), (0, 5), (4100, 3)][rank as usize % 4];
        let (bytes, unit) = shape(me);
        let mut w = make::<KIND, _>(&comm, bytes, unit).map_err(text)?;
        w.fence().map_err(text)?;
        let part = |rank: u32| shape(rank).0 / shape(rank).1 / n as usize;
        for to in 0..n {
            let (bytes, unit) = shape(to);
            let buf = pattern(me * 16 + to, part(to) * unit);
            w.put(&buf, to, me as usize * part(to)).map_err(text)?;
            refused!(w.put(&[1], to, bytes.div_ceil(unit)), ErrorKind::OutOfBounds { .. });
            refused!(w.put(&vec![1; bytes + 1], to, 0), ErrorKind::OutOfBounds { .. });
            w.put(&[], to, bytes / unit).map_err(text)?;
        }
        w.fence().map_err(text)?;
        let mut want = vec![0; bytes];
        for from in 0..n {
            let buf = pattern(from * 16 + me, part(me) * unit);
            let at = from as usize * part(me) * unit;
            want[at..at + buf.len()].copy_from_slice(&buf);
        }
        same("uneven", &own(&w)?, &want)?;
        for from in 0..n {
            let buf = pattern(me * 16 + from, part(from) * shape(from).1);
            let mut got = vec![0; buf.len()];
            w.get(&mut got, from, me as usize * part(from)).map_err(text)?;
            same("uneven, got", &got, &buf)?;
        }
        w.free().map_err(text)?;
    }
    Ok(())
}

/// Lengths 1 to 17 at odd displacements, with nothing written beside them.
pub fn unaligned<const KIND: u8, N: Opens>(boot: Arc<dyn Boot>) -> Result {
    const PART: usize = 256;
    let context = <N as Opens>::open(boot)?;
    for comm in communicators(&Communicator::world(&context))? {
        let (me, n) = (comm.rank(), comm.size());
        let mut w = make::<KIND, _>(&comm, PART * n as usize, 1).map_err(text)?;
        let places = || {
            (1..=17).scan(1, |at, len| {
                let this = *at | 1;
                *at = this + len + 1;
                Some((this, len))
            })
        };
        w.fence().map_err(text)?;
        for to in 0..n {
            for (at, len) in places() {
                let buf = pattern(me * 16 + to, len + 1);
                // From an odd address too.
                w.put(&buf[1..], to, me as usize * PART + at).map_err(text)?;
            }
        }
        w.fence().map_err(text)?;
        let mut want = vec![0; PART * n as usize];
        for from in 0..n {
            for (at, len) in places() {
                let at = from as usize * PART + at;
                want[at..at + len].copy_from_slice(&pattern(from * 16 + me, len + 1)[1..]);
            }
        }
        same("unaligned", &own(&w)?, &want)?;
        for from in 0..n {
            for (at, len) in places() {
                let mut got = vec![0; len + 2];
                w.get(&mut got[1..=len], from, me as usize * PART + at).map_err(text)?;
                let want = [&[0], &pattern(me * 16 + from, len + 1)[1..], &[0]].concat();
                same("unaligned, got", &got, &want)?;
            }
        }
        w.free().map_err(text)?;
    }
    Ok(())
}

const MIB: usize = 1 << 20;

/// Puts around the inject size, of a megabyte and of 64, and gets of them.
pub fn lengths<const KIND: u8, N: Opens>(boot: Arc<dyn Boot>) -> Result {
    let context = <N as Opens>::open(boot)?;
    let world = Communicator::world(&context);
    let me = world.rank();
    let endpoint =
        context.endpoint(Transport::Network).or_else(|| context.endpoint(Transport::Local));
    let inject = endpoint.ok_or("no provider")?.0.caps().inject_size;
    let capacity = 64 * MIB + 4096;
    let mut w = make::<KIND, _>(&world, capacity, 1).map_err(text)?;
    w.fence().map_err(text)?;
    for (seed, len) in (1..).zip([inject - 1, inject, inject + 1, 4097, MIB, 64 * MIB]) {
        let buf = pattern(seed, len);
        let at = seed as usize * 3;
        if me == 0 {
            w.put(&buf, 1, at).map_err(text)?;
            w.flush(1).map_err(text)?;
        }
        w.fence().map_err(text)?;
        if me == 1 {
            let mut got = vec![0; len + 2];
            w.read_local(at - 1, &mut got).map_err(text)?;
            same(&format!("{len} bytes put"), &got[1..=len], &buf)?;
        }
        if me == 0 && len <= MIB {
            let mut got = vec![0; len];
            w.get(&mut got, 1, at).map_err(text)?;
            same(&format!("{len} bytes got"), &got, &buf)?;
        }
        w.fence().map_err(text)?;
    }
    // Several under way at one time; the buffers are kept until the flush.
    let each = MIB / 2 + 13;
    let buffers: Vec<Vec<u8>> = (20..36).map(|seed| pattern(seed, each)).collect();
    if me == 0 {
        for (i, buf) in buffers.iter().enumerate() {
            // SAFETY: `buffers` outlives the flush.
            unsafe { w.put_nb(buf.as_ptr(), each, 1, i * each) }.map_err(text)?;
        }
        w.flush(1).map_err(text)?;
        let mut back = vec![vec![0; each]; buffers.len()];
        for (i, buf) in back.iter_mut().enumerate() {
            // SAFETY: `back` outlives the flush and is not looked at before.
            unsafe { w.get_nb(buf.as_mut_ptr(), each, 1, i * each) }.map_err(text)?;
        }
        w.flush(1).map_err(text)?;
        for (i, (got, want)) in back.iter().zip(&buffers).enumerate() {
            same(&format!("get {i} under way with others"), got, want)?;
        }
    }
    w.fence().map_err(text)?;
    if me == 1 {
        let all = own(&w)?;
        for (i, buf) in buffers.iter().enumerate() {
            same(&format!("put {i} under way with others"), &all[i * each..][..each], buf)?;
        }
    }
    w.free().map_err(text)
}

/// A hundred windows at one time, each with its own bytes.
pub fn many<const KIND: u8, N: Opens>(boot: Arc<dyn Boot>) -> Result {
    let context = <N as Opens>::open(boot)?;
    let world = Communicator::world(&context);
    let (me, n) = (world.rank(), world.size());
    let to = (me + 1) % n;
    let mut all = Vec::new();
    for _ in 0..100 {
        all.push(make::<KIND, _>(&world, 16, 8).map_err(text)?);
    }
    for (round, w) in (0..).zip(&all) {
        w.lock_all().map_err(text)?;
        w.put(&word(me, to, round), to, 1).map_err(text)?;
        w.unlock_all().map_err(text)?;
    }
    world.barrier().map_err(text)?;
    for (round, mut w) in (0..).zip(all) {
        let want = word((me + n - 1) % n, me, round);
        same("one of many", &own(&w)?, &[[0; 8], want].concat())?;
        w.free().map_err(text)?;
    }
    Ok(())
}

/// Memory that goes back to the system and comes again at the same address:
/// what a network keeps registered of before is of other pages.
pub fn given_back<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    const LEN: usize = 600_000;
    let context = <N as Opens>::open(boot)?;
    let world = Communicator::world(&context);
    let (me, n) = (world.rank(), world.size());
    let (to, from) = ((me + 1) % n, (me + n - 1) % n);
    for round in 0..8 {
        let mut memory = vec![0_u8; LEN];
        // SAFETY: freed before the memory is.
        let w = unsafe { Window::create(&world, memory.as_mut_ptr(), LEN, 1) };
        let mut w = w.map_err(text)?;
        let buf = pattern(me * 16 + round, LEN);
        let mut back = vec![0_u8; LEN];
        w.fence().map_err(text)?;
        // SAFETY: both buffers outlive the flushes.
        unsafe {
            w.put_nb(buf.as_ptr(), LEN, to, 0).map_err(text)?;
            w.flush(to).map_err(text)?;
            w.get_nb(back.as_mut_ptr(), LEN, to, 0).map_err(text)?;
            w.flush(to).map_err(text)?;
        }
        same(&format!("got back in round {round}"), &back, &buf)?;
        w.fence().map_err(text)?;
        w.free().map_err(text)?;
        same(&format!("put in round {round}"), &memory, &pattern(from * 16 + round, LEN))?;
        drop((memory, buf, back));
        // SAFETY: no arguments to speak of; glibc's alone gives memory back so.
        #[cfg(target_env = "gnu")]
        unsafe {
            libc::malloc_trim(0)
        };
    }
    Ok(())
}

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
    let options = Options { threads: true, ..Options::default() };
    let context = N::open_with(boot, &options)?;
    let world = Communicator::world(&context);
    let (me, n) = (world.rank(), world.size());
    let to = (me + 1) % n;
    let mut w = make::<KIND, _>(&world, THREADS * PUTS * 8 + THREADS * 10_000, 1).map_err(text)?;
    w.fence().map_err(text)?;
    let (state, device, map) = (w.state().map_err(text)?, context.device(), world.map());
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::scope(|scope| -> Result {
        for thread in 0..THREADS {
            let (state, tell) = (state.clone(), tell.clone());
            scope.spawn(move || {
                let body = || -> Result {
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
                };
                let _ = tell.send(body());
            });
        }
        // Peers' threads send to this context: progress until ours are done.
        let mut left = THREADS;
        while left > 0 {
            context.progress().map_err(text)?;
            match told.try_recv() {
                Ok(result) => {
                    result?;
                    left -= 1;
                }
                Err(_) => std::thread::yield_now(),
            }
        }
        Ok(())
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

/// A second context needs the option.
pub fn one_thread<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    let context = <N as Opens>::open(boot)?;
    match context.device().context() {
        Err(device::DeviceError::OneThread) => Ok(()),
        other => Err(format!("{:?}", other.map(drop))),
    }
}

/// Everything above over one choice of providers. `mapped` says whether all
/// windows a job allocates are mapped.
pub fn all<N: Opens>(name: &str, env: &[(&'static str, &str)]) -> Vec<Scenario> {
    let mut all = Vec::new();
    let mut add = |what: &str, ranks: u32, body: fn(Arc<dyn Boot>) -> Result| {
        let scenario = Scenario::new(format!("{what}/{name}/{ranks}"), ranks, body);
        all.push(env.iter().fold(scenario, |s, (key, value)| s.env(key, *value)));
    };
    for ranks in [1, 2, 4] {
        add("allocated/words", ranks, words::<ALLOCATED, N>);
        add("created/words", ranks, words::<CREATED, N>);
    }
    add("allocated/bounds", 4, bounds::<ALLOCATED, N>);
    add("created/bounds", 4, bounds::<CREATED, N>);
    add("allocated/epochs", 3, epochs::<ALLOCATED, N>);
    add("created/epochs", 3, epochs::<CREATED, N>);
    add("allocated/no memory", 3, no_memory::<N>);
    add("allocated/uneven", 4, uneven::<ALLOCATED, N>);
    add("created/uneven", 4, uneven::<CREATED, N>);
    add("allocated/unaligned", 4, unaligned::<ALLOCATED, N>);
    add("created/unaligned", 4, unaligned::<CREATED, N>);
    add("allocated/lengths", 2, lengths::<ALLOCATED, N>);
    add("created/lengths", 2, lengths::<CREATED, N>);
    add("allocated/many", 2, many::<ALLOCATED, N>);
    add("created/many", 2, many::<CREATED, N>);
    add("created/given back", 2, given_back::<N>);
    add("allocated/threads", 2, threads::<ALLOCATED, N>);
    add("created/threads", 2, threads::<CREATED, N>);
    all
}

/// What is different over memory of the network library's.
pub fn provided<N: Opens>(name: &str, env: &[(&'static str, &str)]) -> Vec<Scenario> {
    let mut all = Vec::new();
    let mut add = |what: &str, ranks: u32, body: fn(Arc<dyn Boot>) -> Result| {
        let scenario = Scenario::new(format!("{what}/{name}/{ranks}"), ranks, body);
        all.push(env.iter().fold(scenario, |s, (key, value)| s.env(key, *value)));
    };
    for ranks in [1, 4] {
        add("provided/words", ranks, words::<PROVIDED, N>);
        add("direct/words", ranks, words::<DIRECT, N>);
    }
    add("provided/bounds", 4, bounds::<PROVIDED, N>);
    add("direct/bounds", 4, bounds::<DIRECT, N>);
    add("provided/epochs", 3, epochs::<PROVIDED, N>);
    add("provided/uneven", 4, uneven::<PROVIDED, N>);
    add("direct/uneven", 4, uneven::<DIRECT, N>);
    add("provided/unaligned", 4, unaligned::<PROVIDED, N>);
    add("direct/unaligned", 4, unaligned::<DIRECT, N>);
    add("provided/lengths", 2, lengths::<PROVIDED, N>);
    add("provided/many", 2, many::<PROVIDED, N>);
    add("provided/threads", 2, threads::<PROVIDED, N>);
    add("direct/threads", 2, threads::<DIRECT, N>);
    all
}
