//! Waits that last, and threads.

use super::{Opens, pattern, same, world};
use crate::ensure;
use crate::harness::{Result, pids, signal, text};
use rankway::boot::Boot;
use rankway::device::{Context, DeviceError, Options, Shared};
use rankway::msg::{Any, Messenger, Request, wait_all};
use rankway::netmod::ofi::Ofi;
use rankway::rma::{Communicator, Window};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Processor time of this process so far.
fn used() -> Duration {
    // SAFETY: a zeroed rusage is one, and getrusage(2) fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    [usage.ru_utime, usage.ru_stime]
        .iter()
        .map(|t| Duration::from_secs(t.tv_sec as u64) + Duration::from_micros(t.tv_usec as u64))
        .sum()
}

/// A wait of two seconds sleeps and ends with its message.
pub fn long_wait<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    world::<N>(boot, |comm, m| {
        let mut buf = [0; 8];
        // Connected before, both ways.
        let peer = 1 - comm.rank();
        m.send(b"hello", peer, 1).map_err(text)?;
        m.recv(&mut buf, peer, 1).map_err(text)?;
        if comm.rank() == 0 {
            let (start, before) = (Instant::now(), used());
            // The peer's two seconds begin after this one's clock.
            m.send(b"now", peer, 3).map_err(text)?;
            m.recv(&mut buf, Any, 2).map_err(text)?;
            let (waited, worked) = (start.elapsed(), used() - before);
            ensure!(waited >= Duration::from_secs(2), "only {waited:?}");
            ensure!(worked * 4 < waited, "{worked:?} of work in {waited:?}");
        } else {
            m.recv(&mut buf, 0, 3).map_err(text)?;
            std::thread::sleep(Duration::from_secs(2));
            m.send(&pattern(1, 8), 0, 2).map_err(text)?;
        }
        Ok(())
    })
}

/// Contexts of the same number talk, each in its own thread, and put.
pub fn vcis<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    const THREADS: u32 = 3;
    let context = N::open_with(boot, &Options::default().threads(true))?;
    let device = Arc::clone(context.device());
    let (me, n) = (device.boot().rank(), device.boot().size());
    let world = Communicator::world(&context);
    let window = Window::allocate(&world, 4096, 8).map_err(text)?;
    let taken = device.context_at(0).map(drop);
    ensure!(matches!(taken, Err(DeviceError::ContextTaken { .. })), "{taken:?}");
    let exchange = move |context: Rc<Context<N>>| -> Result {
        let vci = context.index();
        let world = Communicator::world(&context);
        let m = Messenger::open(&world).map_err(text)?;
        let (to, from) = ((me + 1) % n, (me + n - 1) % n);
        for i in 0..300_u32 {
            let len = [8, 3000, 30_000][i as usize % 3];
            let mut got = vec![0; len];
            let out = pattern(me + vci * 10 + i, len);
            // SAFETY: the buffers outlive the waits.
            let receive = unsafe { m.irecv(got.as_mut_ptr(), len, from, Any) };
            let receive = receive.map_err(text)?;
            m.send(&out, to, vci).map_err(text)?;
            let status = receive.wait().map_err(text)?;
            ensure!(status.tag() == vci, "vci {vci} got {status:?}");
            same("vci", &got, &pattern(from + vci * 10 + i, len))?;
        }
        // Both have all they want before either leaves.
        m.send(&[], to, 99).map_err(text)?;
        m.recv(&mut [], from, 99).map_err(text).map(drop)
    };
    let mut threads = Vec::new();
    for index in 1..THREADS {
        let device = Arc::clone(&device);
        threads.push(std::thread::spawn(move || {
            // The peer's thread may be late: questions for it are repeated.
            std::thread::sleep(Duration::from_millis(u64::from(40 * me * index)));
            exchange(device.context_at(index).map_err(text)?)
        }));
    }
    window.fence().map_err(text)?;
    let word = |from: u32, i: usize| (u64::from(from) << 32 | i as u64).to_le_bytes();
    for i in 0..512 {
        window.put(&word(me, i), (me + 1) % n, i).map_err(text)?;
    }
    exchange(Rc::clone(&context))?;
    window.fence().map_err(text)?;
    let mut got = [0; 8];
    for i in 0..512 {
        window.read_local(i * 8, &mut got).map_err(text)?;
        same("put", &got, &word((me + n - 1) % n, i))?;
    }
    // The first context answers where the others are until all are done.
    while threads.iter().any(|t| !t.is_finished()) {
        context.progress().map_err(text)?;
        std::thread::yield_now();
    }
    for thread in threads {
        thread.join().map_err(|_| "a thread panicked")??;
    }
    world.barrier().map_err(text)
}

/// Opens context 1 in a thread, for as long as it does something with its messages; the first
/// context answers meanwhile.
pub(super) fn beside<N: Opens>(
    context: &Context<N>,
    act: impl FnOnce(&Messenger<'_, N>) -> Result + Send + 'static,
) -> Result {
    beside_with(context, act, || Ok(()))
}

/// The same, and does something here meanwhile.
pub(super) fn beside_with<N: Opens>(
    context: &Context<N>,
    act: impl FnOnce(&Messenger<'_, N>) -> Result + Send + 'static,
    mut here: impl FnMut() -> Result,
) -> Result {
    let device = Arc::clone(context.device());
    let thread = std::thread::spawn(move || -> Result {
        let open = || device.context_at(1).map_err(text);
        // (The library looks for a port among those it may have with luck.)
        let held = |e: &String| e.contains("Address already in use");
        let opened = (0..50).map(|_| open()).find(|opened| !opened.as_ref().is_err_and(held));
        let context = opened.unwrap_or_else(open)?;
        let world = Communicator::world(&context);
        act(&Messenger::open(&world).map_err(text)?)
    });
    while !thread.is_finished() {
        context.progress().map_err(text)?;
        here()?;
        std::thread::yield_now();
    }
    thread.join().map_err(|_| "a thread panicked")?
}

/// Contexts that are closed and opened again speak to those opened again, and what was sent
/// on one that is closed at once arrives; more often than the first context has places
/// for senders. Nothing is left of those that were closed: no round takes a descriptor.
pub fn reopened<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    const ROUNDS: u32 = 50;
    let descriptors = || std::fs::read_dir("/proc/self/fd").map(Iterator::count).map_err(text);
    let mut begun = 0;
    let context = N::open_with(boot, &Options::default().threads(true))?;
    let world = Communicator::world(&context);
    let (me, n) = (world.rank(), world.size());
    let (to, from) = ((me + 1) % n, (me + n - 1) % n);
    for round in 0..ROUNDS {
        beside(&context, move |m| {
            if (me + round).is_multiple_of(2) {
                return m.send(&pattern(round, 40), to, round).map_err(text);
            }
            let mut got = [0; 40];
            m.recv(&mut got, from, round).map_err(text)?;
            same("of a closed context", &got, &pattern(round, 40))
        })?;
        world.barrier().map_err(text)?;
        if round == ROUNDS / 5 {
            begun = descriptors()?;
        }
    }
    let (most, all) = (begun + ROUNDS as usize / 5, descriptors()?);
    ensure!(all < most, "{begun} descriptors, and {all} later");
    Ok(())
}

/// What was sent on a context that is closed at once arrives also where the receiver's has
/// been open for a while and does nothing yet; and where that is so much that the receiver
/// gives leave for more, it closes its own all the same.
pub fn late<N: Opens>(boot: Arc<dyn Boot>, lengths: &'static [usize], seconds: u64) -> Result {
    let context = N::open_with(boot, &Options::default().threads(true))?;
    let world = Communicator::world(&context);
    let me = world.rank();
    for round in 0..2 {
        beside(&context, move |m| {
            let mut lengths = lengths.iter().copied();
            if me == round {
                let send = |len| m.send(&pattern(round, len), 1 - me, round).map_err(text);
                return lengths.try_for_each(send);
            }
            std::thread::sleep(Duration::from_secs(seconds));
            for len in lengths {
                let mut got = vec![0; len];
                m.recv(&mut got, 1 - me, round).map_err(text)?;
                same("of a closed context", &got, &pattern(round, len))?;
            }
            Ok(())
        })?;
        world.barrier().map_err(text)?;
    }
    Ok(())
}

/// Sends that nobody waits for go on while their context closes: more than there is credit for,
/// and long ones.
pub fn freed<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    let context = N::open(boot)?;
    let world = Communicator::world(&context);
    let m = Messenger::open(&world).map_err(text)?;
    let lengths = [3000, 3000, 8, 100_000].into_iter().cycle().take(1000).zip(1..);
    if world.rank() == 0 {
        for (len, seed) in lengths {
            let bytes = pattern(seed, len).leak();
            // SAFETY: the buffer is there for ever.
            drop(unsafe { m.isend(bytes.as_ptr(), len, 1, seed) }.map_err(text)?);
        }
        return Ok(());
    }
    std::thread::sleep(Duration::from_millis(300));
    for (len, seed) in lengths {
        let mut got = vec![0; len];
        m.recv(&mut got, 0, seed).map_err(text)?;
        same("of who left", &got, &pattern(seed, len))?;
    }
    Ok(())
}

/// Who has sent may leave, and has others receive what it sent: so many messages, of which the
/// last ones go nowhere until the receiver, who is late, makes progress. It is slow with some
/// before the last, by then of one that would be gone.
pub fn left<N: Opens, const COUNT: usize, const SLOW: u32>(boot: Arc<dyn Boot>) -> Result {
    let context = N::open(boot)?;
    let world = Communicator::world(&context);
    let m = Messenger::open(&world).map_err(text)?;
    let lengths = [8, 3000].into_iter().cycle().take(COUNT).zip(1..);
    if world.rank() == 0 {
        // What a device layer has called while it waits may be gone before the context.
        let (leaves, called) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(false)));
        let (is_late, late) = (Rc::clone(&leaves), Rc::clone(&called));
        context.set_progress_hook(move || late.set(late.get() || is_late.get()));
        for (len, seed) in lengths {
            m.send(&pattern(seed, len), 1, seed).map_err(text)?;
        }
        leaves.set(true);
        drop(m);
        drop(world);
        drop(context);
        ensure!(!called.get(), "progress of a device layer while a context closes");
        return Ok(());
    }
    std::thread::sleep(Duration::from_millis(300));
    for (len, seed) in lengths {
        let mut got = vec![0; len];
        m.recv(&mut got, Any, seed).map_err(text)?;
        if seed + SLOW > COUNT as u32 {
            std::thread::sleep(Duration::from_millis(2));
        }
        same("of who left", &got, &pattern(seed, len))?;
    }
    Ok(())
}

/// What is sent on a context arrives after a death, too, though the context is closed at once:
/// rank 1, which had spoken to it, is killed, and then rank 2 is spoken to for the first time.
pub fn closed_after_a_death<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    let context = N::open_with(boot, &Options::default().threads(true))?;
    let world = Communicator::world(&context);
    let (me, victim) = (world.rank(), pids(&world)?[1]);
    let (meet, lengths) = (Messenger::open(&world).map_err(text)?, [40, 3000]);
    match me {
        0 => {
            beside(&context, move |m| {
                m.send(&[1], 1, 1).map_err(text)?;
                m.recv(&mut [0], 1, 2).map_err(text)?;
                signal(victim, libc::SIGKILL);
                let told = m.recv(&mut [0], 1, 3);
                ensure!(told.is_err(), "{told:?}");
                let told = m.send(&[1], 1, 4);
                ensure!(told.is_err(), "{told:?}");
                for len in lengths {
                    m.send(&pattern(7, len), 2, 5).map_err(text)?;
                }
                Ok(())
            })?;
            meet.recv(&mut [], 2, 6).map_err(text)?;
            meet.send(&[], 2, 8).map_err(text)
        }
        1 => beside(&context, |m| {
            m.recv(&mut [0], 0, 1).map_err(text)?;
            m.send(&[1], 0, 2).map_err(text)?;
            m.recv(&mut [0], 0, 7).map(drop).map_err(text)
        }),
        _ => {
            beside(&context, move |m| {
                for len in lengths {
                    let mut got = vec![0; len];
                    m.recv(&mut got, 0, 5).map_err(text)?;
                    same("after a death", &got, &pattern(7, len))?;
                }
                Ok(())
            })?;
            meet.send(&[], 0, 6).map_err(text)?;
            meet.recv(&mut [], 0, 8).map(drop).map_err(text)
        }
    }
}

/// Addresses come again, too: a process listens on four ports, one of which its first
/// context has.
pub fn readdressed(boot: Arc<dyn Boot>) -> Result {
    let first = 27_300 + 4 * boot.rank();
    for (name, port) in [("LOW", first), ("HIGH", first + 3)] {
        // SAFETY: this process has one thread so far.
        unsafe { std::env::set_var(format!("FI_TCP_PORT_{name}_RANGE"), port.to_string()) };
    }
    reopened::<Ofi>(boot)
}

/// Contexts opened again until the library takes their addresses no more, if it ever does: who
/// cannot go on is told, and none waits for ever.
pub fn exhausted<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    const ROUNDS: u32 = 140;
    let context = N::open_with(boot, &Options::default().threads(true))?;
    let world = Communicator::world(&context);
    let peer = 1 - world.rank();
    for round in 0..ROUNDS {
        let failed = beside(&context, move |m| {
            let (ours, mut got) = (pattern(round, 40), [0; 40]);
            m.scope(|s| {
                s.recv(&mut got, peer, round)?;
                s.send(&ours, peer, round)
            })
            .map_err(text)?;
            same("of a context opened again", &got, &ours)
        });
        let failed = failed.err();
        let m = Messenger::open(&world).map_err(text)?;
        let mut theirs = [0_u8];
        m.send(&[u8::from(failed.is_some())], peer, 0).map_err(text)?;
        m.recv(&mut theirs, peer, 0).map_err(text)?;
        if let Some(why) = &failed {
            ensure!(why.contains("contexts opened again are new ones"), "round {round}: {why}");
        }
        // (What one still received may be what the other could not send again.)
        if failed.is_some() || theirs != [0] {
            break;
        }
    }
    world.barrier().map_err(text)
}

/// One context for three threads, with a progress thread.
pub fn shared<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    struct Held<N: Opens> {
        // Requests first: they go before what they are made on.
        requests: Vec<Option<[Request<N>; 2]>>,
        world: Communicator<N>,
        context: Rc<Context<N>>,
    }
    const THREADS: u32 = 3;
    // SAFETY: neither this closure nor those below leave a part of the value
    // anywhere else.
    let shared = unsafe {
        Shared::open(move || {
            let context = N::open_with(boot, &Options::default().threads(true))?;
            let world = Communicator::world(&context);
            let requests = (0..THREADS).map(|_| None).collect();
            Ok::<_, String>(Held { requests, world, context })
        })?
    };
    let progress = shared.progress_thread(|held| &held.context).expect("a thread");
    let threads: Vec<_> = (0..THREADS)
        .map(|at| {
            let shared = shared.clone();
            std::thread::spawn(move || -> Result {
                let mut got = vec![0_u8; 20_000];
                for i in 0..100_u32 {
                    let len = [8, 20_000][i as usize % 2];
                    let start = got.as_mut_ptr() as usize;
                    let (seed, sent) = shared.with(|held| -> Result<(u32, Vec<u8>)> {
                        let (me, n) = (held.world.rank(), held.world.size());
                        let m = Messenger::open(&held.world).map_err(text)?;
                        let (to, from) = ((me + 1) % n, (me + n - 1) % n);
                        let sent = pattern(me + at + i, len);
                        // SAFETY: `got` and `sent` outlive the requests, which
                        // are waited for below; nobody else touches them.
                        let pair = unsafe {
                            [
                                m.irecv(start as *mut u8, len, from, at).map_err(text)?,
                                m.isend(sent.as_ptr(), len, to, at).map_err(text)?,
                            ]
                        };
                        held.requests[at as usize] = Some(pair);
                        Ok((from + at + i, sent))
                    })?;
                    // The progress thread completes them; waiting here would
                    // keep the other threads out.
                    let done = || {
                        shared.with(|held| {
                            let pair = held.requests[at as usize].as_ref();
                            pair.is_none_or(|pair| pair.iter().all(Request::is_complete))
                        })
                    };
                    while !done() {
                        std::thread::sleep(Duration::from_micros(100));
                    }
                    shared.with(|held| match held.requests[at as usize].take() {
                        Some(pair) => wait_all(pair).map(drop).map_err(text),
                        None => Err("no requests".into()),
                    })?;
                    drop(sent);
                    same("shared", &got[..len], &pattern(seed, len))?;
                }
                Ok(())
            })
        })
        .collect();
    for thread in threads {
        thread.join().map_err(|_| "a thread panicked")??;
    }
    shared.with(|held| held.world.barrier().map_err(text))?;
    // Asleep when nothing comes.
    let (start, before) = (Instant::now(), used());
    std::thread::sleep(Duration::from_millis(500));
    let (waited, worked) = (start.elapsed(), used() - before);
    ensure!(worked * 4 < waited, "{worked:?} of work in {waited:?}");
    // Also by who holds what its thread wants.
    shared.with(move |held| {
        std::thread::sleep(Duration::from_millis(50));
        drop(progress);
        held.world.barrier().map_err(text)
    })
}
