//! A call that waits for a busy rank while another is killed: whatever it
//! answers, its buffer is the caller's afterwards, and the living go on.

use super::*;
use crate::harness::{add, pids, signal};
use rankway::datatype::{Basic, Layout};
use rankway::msg::Messenger;
use rankway::netmod::Op;
use rankway::rma::{Error, register_operator};
use std::time::{Duration, Instant};

pub const GET: u8 = 0;
pub const LONG_GET: u8 = 1;
pub const GET_LAYOUT: u8 = 2;
pub const PUT: u8 = 3;
pub const PUT_LAYOUT: u8 = 4;
pub const FETCH: u8 = 5;

const SIZE: usize = 200_000;
/// Where short puts go, behind what is got and put.
const FLAGS: usize = SIZE;
const ROUNDS: usize = 300;
/// Where rank 0 tells rank 2 to go on.
const SIGNAL: usize = FLAGS + 8 * ROUNDS;

/// Where every second block of eight bytes is in the buffer, and of four there.
fn layouts() -> [Layout; 2] {
    let byte = Layout::basic(Basic::U8);
    [(1000, 8), (2000, 4)].map(|(count, len)| {
        Layout::hvector(count, len, 2 * len as i64, &byte).expect("a few thousand bytes")
    })
}

fn len(what: u8) -> usize {
    match what {
        GET | FETCH => 4096,
        PUT => 9000,
        GET_LAYOUT | PUT_LAYOUT => 16_000,
        _ => SIZE,
    }
}

fn call<N: Netmod>(w: &Window<N>, what: u8, buf: &mut [u8]) -> std::result::Result<(), Error> {
    let [here, there] = layouts();
    match what {
        GET | LONG_GET => w.get(buf, 2, 0),
        GET_LAYOUT => w.get_layout(buf, 0, &here, 2, 0, &there),
        PUT => w.put(buf, 2, 0),
        PUT_LAYOUT => w.put_layout(buf, 0, &here, 2, 0, &there),
        _ => w.get_accumulate(&[0; 4096], buf, Op::NoOp, 2, 0),
    }
}

/// Rank 0 calls, rank 1 is killed meanwhile, rank 2 is somewhere else for some
/// time and kills it. `STUCK`: something is under way towards the dead, so that
/// rank 0 goes on with another endpoint at once; else it waits for rank 2 until
/// that looks hopeless.
pub fn writes<const WHAT: u8, const STUCK: bool, N: Opens>(boot: Arc<dyn Boot>) -> Result {
    let context = N::open(boot)?;
    let world = Communicator::world(&context);
    let w = make::<CREATED, N>(&world, SIZE + 8 * ROUNDS + 8, 1).map_err(text)?;
    let pids = pids(&world)?;
    let reads = !matches!(WHAT, PUT | PUT_LAYOUT);
    w.write_local(0, &if reads { pattern(world.rank(), SIZE) } else { vec![0; SIZE] })
        .map_err(text)?;
    w.fence().map_err(text)?;
    w.lock_all().map_err(text)?;
    world.barrier().map_err(text)?;
    match world.rank() {
        0 => {
            if STUCK {
                w.put(&word(0, 2, 1), 1, SIGNAL).map_err(text)?;
                w.flush(1).map_err(text)?;
                // Until it does not answer any more.
                std::thread::sleep(Duration::from_millis(60));
            }
            w.put(&word(0, 2, 1), 2, SIGNAL).map_err(text)?;
            w.flush(2).map_err(text)?;
            if STUCK {
                let kept = Vec::leak(vec![0; 8]);
                // SAFETY: it stays.
                unsafe { w.get_nb(kept.as_mut_ptr(), 8, 1, 0) }.map_err(text)?;
            }
            caller(&w, WHAT, reads)
        }
        1 => {
            if STUCK {
                await_signal(&w, 1)?;
            }
            std::thread::sleep(Duration::from_secs(60));
            Ok(())
        }
        _ => {
            let all = elsewhere(&w, pids[1], Duration::from_millis(2600))?;
            if !reads {
                let late = all[..SIZE].iter().filter(|&&byte| byte == CANARY).count();
                ensure!(late == 0, "{late} bytes that the caller wrote after its put");
            }
            for round in 0..ROUNDS {
                let got = &all[FLAGS + 8 * round..][..8];
                same(&format!("short put {round}"), got, &word(0, 2, round as u32))?;
            }
            // Rank 0's last flush is answered here.
            let start = Instant::now();
            while start.elapsed() < Duration::from_millis(300) {
                context.progress().map_err(text)?;
            }
            Ok(())
        }
    }
}

/// What rank 2 does: it is somewhere else for some time after it killed the victim, and
/// returns its memory as rank 0 says that all is done.
fn elsewhere<N: Netmod>(w: &Window<N>, victim: u32, time: Duration) -> Result<Vec<u8>> {
    await_signal(w, 1)?;
    std::thread::sleep(Duration::from_millis(100));
    signal(victim, libc::SIGKILL);
    std::thread::sleep(time);
    await_signal(w, 2)?;
    own(w)
}

fn await_signal<N: Netmod>(w: &Window<N>, number: u32) -> Result {
    let start = Instant::now();
    let mut got = [0; 8];
    while got != word(0, 2, number) {
        w.context().progress().map_err(text)?;
        w.read_local(SIGNAL, &mut got).map_err(text)?;
        ensure!(start.elapsed() < Duration::from_secs(30), "no signal {number} from rank 0");
    }
    // Rank 0's flush is answered here.
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(20) {
        w.context().progress().map_err(text)?;
    }
    Ok(())
}

fn caller<N: Netmod>(w: &Window<N>, what: u8, reads: bool) -> Result {
    let mut buf = if reads { vec![0; len(what)] } else { vec![0x3c; len(what)] };
    match call(w, what, &mut buf) {
        Ok(()) if what == GET_LAYOUT => {}
        Ok(()) if reads => same("got", &buf, &pattern(2, SIZE)[..len(what)])?,
        Ok(()) => {}
        Err(e) => println!("the call failed: {e}"),
    }
    // The buffer is the program's again.
    let watched = Watched::default();
    watched.keep("call, or one that went well", buf);
    let mut failed = Ok(());
    watched.unwritten(Duration::from_millis(3200), &mut || {
        failed = w.context().progress().map_err(text);
    })?;
    failed?;
    let puts = || -> Result {
        let start = Instant::now();
        for round in 0..ROUNDS {
            let put = w.put(&word(0, 2, round as u32), 2, FLAGS + 8 * round);
            put.map_err(|e| format!("put {round} to the living after {:?}: {e}", start.elapsed()))?;
        }
        w.flush(2).map_err(|e| format!("flush of the living: {e}"))
    };
    // Where the call was over before the death, this wait is the first to hear
    // of it, and cannot say what became of what was under way; the next can.
    if let Err(why) = puts() {
        ensure!(why.contains("repeat it"), "{why}");
        puts()?;
    }
    w.put(&word(0, 2, 2), 2, SIGNAL).map_err(text)?;
    w.flush(2).map_err(text)
}

/// An operator's work that waits for a busy rank while another is killed: once
/// a flush has ended it is done or never will be, whatever the call said.
pub fn operator<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    const WORD: usize = 8;
    let context = N::open(boot)?;
    register_operator(&context, add);
    let world = Communicator::world(&context);
    let w = make::<ALLOCATED, N>(&world, SIGNAL + 8, 1).map_err(text)?;
    let pids = pids(&world)?;
    w.fence().map_err(text)?;
    w.lock_all().map_err(text)?;
    world.barrier().map_err(text)?;
    match world.rank() {
        0 => {
            w.put(&word(0, 2, 1), 2, SIGNAL).map_err(text)?;
            w.flush(2).map_err(text)?;
            // Until it does not answer any more.
            std::thread::sleep(Duration::from_millis(60));
            let watched = Watched::default();
            let one = 1_u64.to_ne_bytes();
            if let Err(e) = watched.filling("custom", 8, |old| w.custom(1, &one, old, 2, WORD, 8)) {
                println!("the call failed: {e}");
            }
            let start = Instant::now();
            while let Err(e) = w.flush(2) {
                ensure!(start.elapsed() < Duration::from_secs(10), "flush of the living: {e}");
            }
            let mut seen = [0; 8];
            w.get(&mut seen, 2, WORD).map_err(text)?;
            w.put(&seen, 2, WORD + 8).map_err(text)?;
            w.put(&word(0, 2, 2), 2, SIGNAL).map_err(text)?;
            w.flush(2).map_err(text)?;
            watched.unwritten(Duration::from_millis(300), &mut || drop(context.progress()))
        }
        1 => {
            std::thread::sleep(Duration::from_secs(60));
            Ok(())
        }
        _ => {
            let all = elsewhere(&w, pids[1], Duration::from_millis(1500))?;
            same("the word after the flush", &all[WORD..][..8], &all[WORD + 8..][..8])
        }
    }
}

/// Rank 1 is killed while it sends long messages to rank 0, whose buffer is its
/// own when the receive has failed; the same for a send to it.
pub fn message<const SENDS: bool, N: Opens>(boot: Arc<dyn Boot>) -> Result {
    const LEN: usize = 24 << 20;
    let context = N::open(boot)?;
    let world = Communicator::world(&context);
    let pids = pids(&world)?;
    let messages = Messenger::open(&world).map_err(text)?;
    let mut buf = pattern(world.rank(), LEN);
    match world.rank() {
        0 => {
            let error = loop {
                let result = if SENDS {
                    messages.send(&buf, 1, 0)
                } else {
                    messages.recv(&mut buf, 1, 0).map(drop)
                };
                match result {
                    Ok(()) if !SENDS => same("received", &buf, &pattern(1, LEN))?,
                    Ok(()) => {}
                    Err(e) => break e,
                }
            };
            ensure!(error.to_string().contains("rank 1"), "not about rank 1: {error}");
            let watched = Watched::default();
            watched.keep("message", buf);
            let mut failed = Ok(());
            watched.unwritten(Duration::from_millis(1000), &mut || {
                failed = context.progress().map_err(text);
            })?;
            failed
        }
        1 => loop {
            if SENDS {
                messages.recv(&mut buf, 0, 0).map_err(text)?;
                same("received", &buf, &pattern(0, LEN))?;
            } else {
                messages.send(&buf, 0, 0).map_err(text)?;
            }
        },
        _ => {
            std::thread::sleep(Duration::from_millis(250));
            signal(pids[1], libc::SIGKILL);
            // There for as long as rank 0 looks at its buffer.
            std::thread::sleep(Duration::from_secs(3));
            Ok(())
        }
    }
}
