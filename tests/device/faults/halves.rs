//! A rank that is killed with the lock of another's queue in libfabric's shared
//! memory: exactly when so many entries of an operation's two are there.

use crate::Body;
use crate::deaths::survivors;
use crate::ensure;
use crate::harness::{Opens, Result, Scenario, die, ended, leave_together, leftovers, pids, text};
use crate::rma::{CREATED, make, pattern, same, word};
use rankway::boot::Boot;
use rankway::netmod::ofi::Ofi;
use rankway::rma::{Communicator, Error, Window};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU64};
use std::time::{Duration, Instant};

const PUT: u8 = 0;
const LONG_PUT: u8 = 1;
const GET: u8 = 2;
/// Longer than what is copied through the queue.
const LONG: usize = 20_000;
/// Where it lies.
const LONG_AT: usize = 0x4000;

/// What libfabric 1.17 says its segments are, where they have the lock and the
/// queue's place, and where that counts the entries written.
const VERSION: u8 = 4;
const LOCK: usize = 24;
const QUEUE: usize = 64;
const WRITTEN: usize = 24;

/// The lock and the count of the queue that is watched, and the count to die at.
static WATCHED: (AtomicPtr<AtomicI32>, AtomicPtr<AtomicU64>) =
    (AtomicPtr::new(null_mut()), AtomicPtr::new(null_mut()));
static LAST: AtomicU64 = AtomicU64::new(0);

/// After each instruction.
extern "C" fn step(_: i32) {
    // SAFETY: both were set before the first step, within a mapping that stays.
    let (lock, written) = unsafe { (&*WATCHED.0.load(SeqCst), &*WATCHED.1.load(SeqCst)) };
    if lock.load(SeqCst) < 1 && written.load(SeqCst) == LAST.load(SeqCst) {
        die();
    }
}

/// From now on this process is looked at after each instruction, and killed when it
/// has the lock of that process's queue and so many entries more are there. Returns
/// false where the library has no such lock.
fn die_at(pid: u32, entries: u64) -> Result<bool> {
    let mut names = leftovers();
    names.retain(|name| name.starts_with(&format!("{pid}:")));
    let [name] = &names[..] else { return Err(format!("segments {names:?} of {pid}")) };
    let file = File::options().read(true).write(true).open(format!("/dev/shm/{name}"));
    let file = file.map_err(text)?;
    let len = file.metadata().map_err(text)?.len() as usize;
    let prot = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping, which stays; what is read and pointed to lies within.
    unsafe {
        let start = libc::mmap(null_mut(), len, prot, libc::MAP_SHARED, file.as_raw_fd(), 0);
        ensure!(start != libc::MAP_FAILED, "no memory");
        let start = start.cast::<u8>();
        if start.read() != VERSION {
            return Ok(false);
        }
        let queue = start.add(QUEUE).cast::<usize>().read();
        ensure!(queue + WRITTEN + 8 <= len, "a queue at {queue} of {len}");
        let written = start.add(queue + WRITTEN).cast::<AtomicU64>();
        LAST.store((*written).load(SeqCst) + entries, SeqCst);
        WATCHED.0.store(start.add(LOCK).cast(), SeqCst);
        WATCHED.1.store(written, SeqCst);
        let handler = step as extern "C" fn(i32);
        libc::signal(libc::SIGTRAP, handler as libc::sighandler_t);
        // The trap flag.
        std::arch::asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq");
    }
    Ok(true)
}

/// A word put and got back, and what lies there. What rank 1's death ended is begun
/// again, a few times.
fn check(w: &Window<Ofi>, to: u32, round: u32) -> Result {
    let me = w.context().device().boot().rank();
    let (at, word) = (me as usize * 0x1000, word(me, to, round));
    let (mut got, mut long) = ([0; 8], vec![0; LONG]);
    let mut turn = || {
        w.put(&word, to, at)?;
        w.flush(to)?;
        w.get(&mut got, to, at)?;
        w.get(&mut long, to, LONG_AT)
    };
    let ended = |e: &Error| e.peer() == Some(1) || e.to_string().contains("held back");
    let mut done = turn();
    for _ in 0..3 {
        done = if done.as_ref().is_err_and(ended) { turn() } else { break };
    }
    done.map_err(|e| format!("round {round}: {e}"))?;
    same("put and got back", &got, &word)?;
    same("got", &long, &pattern(to, LONG))
}

/// Rank 1 is killed amidst an operation with rank 0, when `ENTRIES` of it are in the
/// queue, and the others go on with each other.
fn killed_amidst<const OP: u8, const ENTRIES: u64>(boot: Arc<dyn Boot>) -> Result {
    let context = <Ofi as Opens>::open(boot)?;
    let world = Communicator::world(&context);
    let me = world.rank();
    let w = make::<CREATED, Ofi>(&world, 0x1_0000, 1).map_err(text)?;
    w.write_local(LONG_AT, &pattern(me, LONG)).map_err(text)?;
    let pids = pids(&world)?;
    w.fence().map_err(text)?;
    w.lock_all().map_err(text)?;
    // The queues, of 1024 entries, were full of others' once.
    let before = 400;
    for round in 0..before {
        for to in (0..3).filter(|&to| to != me) {
            check(&w, to, round)?;
        }
    }
    leave_together(&**w.context().device().boot(), &context)?;
    if me == 1 {
        // Nobody else does anything any more.
        std::thread::sleep(Duration::from_millis(50));
        let buf = Vec::leak(vec![7; LONG]);
        if die_at(pids[0], ENTRIES)? {
            // SAFETY: the buffer stays.
            let done = unsafe {
                match OP {
                    PUT => w.put_nb(buf.as_ptr(), 8, 0, 0xc000),
                    LONG_PUT => w.put_nb(buf.as_ptr(), LONG, 0, 0x9000),
                    _ => w.get_nb(buf.as_mut_ptr(), LONG, 0, LONG_AT),
                }
            };
            return Err(format!("it lives: {done:?}"));
        }
        die();
    }
    ended(&pids[1..2])?;
    let to = 2 - me;
    for round in before..2 * before {
        check(&w, to, round)?;
    }
    let last = 2 * before - 1;
    let mut told = [0; 8];
    while told != word(to, me, last) {
        context.progress().map_err(text)?;
        w.read_local(to as usize * 0x1000, &mut told).map_err(text)?;
    }
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(300) {
        context.progress().map_err(text)?;
    }
    Ok(())
}

/// Each kind of operation, with none, one and both of its entries written.
pub fn halves() -> Vec<Scenario> {
    let all: [(&str, Body); 6] = [
        ("put, 0", killed_amidst::<PUT, 0>),
        ("put, 1", killed_amidst::<PUT, 1>),
        ("put, 2", killed_amidst::<PUT, 2>),
        ("get, 1", killed_amidst::<GET, 1>),
        ("get, 2", killed_amidst::<GET, 2>),
        ("long put, 1", killed_amidst::<LONG_PUT, 1>),
    ];
    let scenario = |(what, body): (&str, Body)| {
        let s = Scenario::new(format!("killed amidst a {what} of 2/shm"), 3, body);
        s.env("RANKWAY_PROVIDER", "shm").verdict(survivors)
    };
    all.into_iter().map(scenario).collect()
}
