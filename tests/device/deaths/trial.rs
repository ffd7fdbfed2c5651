//! One job of three ranks, of which one is killed: what all rows share.

pub use crate::harness::Held;
use crate::harness::{ALLOCATED, CREATED, Opens, PROVIDED, Result, Watched, pattern};
use rankway::device::Context;
use rankway::msg::MsgError;
use rankway::rma::{Communicator, Error};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

pub const RANKS: usize = 3;
/// A survivor that was not told by then never will be.
const SOON: Duration = Duration::from_secs(10);
/// How long buffers of failed calls are watched for late writes.
const WATCH: Duration = Duration::from_millis(250);

/// Memory that the ranks of a job share beside the library that is tested: who
/// is how far, and what the oracle must know about the others.
#[derive(Default)]
pub struct Board {
    pub pids: [AtomicU32; RANKS],
    pub ready: [AtomicU32; RANKS],
    /// 1 for a rank that could open its device, 2 for one that could not.
    pub opened: [AtomicU32; RANKS],
    pub finished: [AtomicU32; RANKS],
    /// Nanoseconds of the monotonic clock at which the victim dies.
    death: AtomicU64,
    /// The same, once it has begun: for who has to kill it from outside.
    pub end: AtomicU64,
    /// By source and target.
    pub puts: [[Ledger; RANKS]; RANKS],
    pub sums: [[Ledger; RANKS]; RANKS],
    /// Of each of the numbers that one operation changes.
    pub tallies: [[Ledger; RANKS]; RANKS],
    pub locked: [[Ledger; RANKS]; RANKS],
}

/// What was begun, and what is known to be done.
#[derive(Default)]
pub struct Ledger {
    pub begun: AtomicU64,
    pub done: AtomicU64,
}

impl Ledger {
    pub fn begin(&self) -> u64 {
        self.begun.fetch_add(1, SeqCst) + 1
    }

    pub fn read(&self) -> (u64, u64) {
        (self.done.load(SeqCst), self.begun.load(SeqCst))
    }
}

static BOARD: OnceLock<&'static Board> = OnceLock::new();

/// Makes the board, before the ranks are forked.
pub fn make_board() {
    let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a fresh mapping, of zeroes, which are a valid board; it stays.
    let board = unsafe {
        let start = libc::mmap(std::ptr::null_mut(), size_of::<Board>(), access, flags, -1, 0);
        assert!(start != libc::MAP_FAILED, "no memory for the board");
        &*start.cast::<Board>()
    };
    assert!(BOARD.set(board).is_ok(), "one board a process");
}

pub fn board() -> &'static Board {
    BOARD.get().expect("made before the fork")
}

pub fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: fills a live local.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Has the kernel kill this process in so many nanoseconds: no thread, no
/// other process, and no moment at which it could not.
fn die_in(nanoseconds: u64) {
    // SAFETY: all-zero is a valid sigevent; pointers are to live locals.
    unsafe {
        let mut event: libc::sigevent = std::mem::zeroed();
        event.sigev_notify = libc::SIGEV_SIGNAL;
        event.sigev_signo = libc::SIGKILL;
        let mut timer: libc::timer_t = std::mem::zeroed();
        let made = libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, &mut timer);
        assert_eq!(made, 0, "timer_create: {}", std::io::Error::last_os_error());
        let mut when: libc::itimerspec = std::mem::zeroed();
        when.it_value.tv_sec = (nanoseconds / 1_000_000_000) as _;
        when.it_value.tv_nsec = (nanoseconds.max(1) % 1_000_000_000) as _;
        libc::timer_settime(timer, 0, &when, std::ptr::null_mut());
    }
}

/// An error that may be about a peer.
pub trait Named: std::fmt::Display {
    fn named(&self) -> Option<u32>;
}

impl Named for Error {
    fn named(&self) -> Option<u32> {
        self.peer()
    }
}

impl Named for MsgError {
    fn named(&self) -> Option<u32> {
        self.peer()
    }
}

/// A rank's view of the trial before there is a device.
pub struct Trial {
    pub me: u32,
    pub victim: u32,
    /// The rank that lives, beside this one; for the victim, any.
    pub other: u32,
    seed: u64,
    random: Cell<u64>,
    heard: Cell<Option<Instant>>,
    watched: Watched,
}

/// No error is told before the death that it is about.
fn told_after_death(what: &str, error: &str) -> Result {
    if now() < board().death.load(SeqCst) {
        return Err(format!("name: {what}: told before it died: {error}"));
    }
    Ok(())
}

/// Returns true for the error of an operation with the living that was lost with
/// what the dead held back, and is to be repeated.
pub fn is_held_back(error: &dyn std::fmt::Display) -> bool {
    error.to_string().contains("held back by a peer that died; repeat it")
}

impl Trial {
    pub fn new(me: u32, seed: u64) -> Trial {
        let victim = (mix(seed) % RANKS as u64) as u32;
        let other = if me == victim { (me + 1) % 3 } else { 3 - me - victim };
        board().pids[me as usize].store(std::process::id(), SeqCst);
        let random = Cell::new(mix(seed ^ u64::from(me) << 32 ^ 0x5eed));
        let (heard, watched) = Default::default();
        Trial { me, victim, other, seed, random, heard, watched }
    }

    /// The same trial for a thread of this rank, which hears for itself.
    pub fn of_thread(&self, thread: u32) -> Trial {
        let t = Trial::new(self.me, self.seed);
        t.random.set(mix(t.random.get() ^ u64::from(thread + 1)));
        t
    }

    /// The two others, in any order.
    pub fn others(&self) -> [u32; 2] {
        let first = 1 + self.random(2) as u32;
        [(self.me + first) % 3, (self.me + 3 - first) % 3]
    }

    /// A number below `bound`.
    pub fn random(&self, bound: u64) -> u64 {
        self.random.set(mix(self.random.get()));
        (self.random.get() >> 16) % bound
    }

    /// The same in all ranks.
    pub fn common(&self, what: u64, bound: u64) -> u64 {
        (mix(self.seed ^ what << 48) >> 16) % bound
    }

    pub fn is_victim(&self) -> bool {
        self.me == self.victim
    }

    /// Meets the other ranks, and sets the victim's last moment: anywhere in
    /// the next `window` milliseconds, as likely in its first hundredth as later.
    pub fn go(&self, window: u64, idle: &mut dyn FnMut()) -> Result {
        let board = board();
        if self.is_victim() {
            let nanoseconds = window * 1_000_000;
            let delay = match self.random(2) {
                0 => self.random(nanoseconds),
                _ => self.random(nanoseconds) >> self.random(12),
            };
            board.death.store(now() + delay, SeqCst);
            board.ready[self.me as usize].store(1, SeqCst);
            self.wait("the start", || board.ready.iter().all(|r| r.load(SeqCst) > 0), idle)?;
            board.death.store(now() + delay, SeqCst);
            board.end.store(now() + delay, SeqCst);
            die_in(delay);
            return Ok(());
        }
        board.ready[self.me as usize].store(1, SeqCst);
        self.wait("the start", || board.ready.iter().all(|r| r.load(SeqCst) > 0), idle)
    }

    /// Waits for something on the board.
    pub fn wait(&self, what: &str, ready: impl Fn() -> bool, idle: &mut dyn FnMut()) -> Result {
        let start = Instant::now();
        while !ready() {
            idle();
            std::thread::yield_now();
            if start.elapsed() > SOON {
                return Err(format!("late: {what} did not come"));
            }
        }
        Ok(())
    }

    /// Looks at what a call answered: `None` is an error about the victim.
    pub fn hear<T, E: Named>(
        &self,
        what: &str,
        result: std::result::Result<T, E>,
    ) -> Result<Option<T>> {
        let error = match result {
            Ok(value) => return Ok(Some(value)),
            Err(error) => error,
        };
        if is_held_back(&error) {
            return told_after_death(what, &error.to_string()).map(|()| None);
        }
        if error.named() != Some(self.victim) {
            return Err(format!("name: {what}: rank {} died, told: {error}", self.victim));
        }
        self.told(what, &error.to_string())?;
        Ok(None)
    }

    /// The same for errors that are text already.
    pub fn told(&self, what: &str, error: &str) -> Result {
        if !error.contains(&format!("rank {}", self.victim)) {
            return Err(format!("name: {what}: rank {} died, told: {error}", self.victim));
        }
        told_after_death(what, error)?;
        if self.heard.get().is_none() {
            self.heard.set(Some(Instant::now()));
        }
        Ok(())
    }

    pub fn heard(&self) -> bool {
        self.heard.get().is_some()
    }

    /// Returns true if the wait for the news is to go on.
    pub fn going(&self) -> Result<bool> {
        let late = now().saturating_sub(board().death.load(SeqCst));
        if !self.heard() && !self.is_victim() && late > SOON.as_nanos() as u64 {
            return Err(format!("late: not told within {SOON:?}"));
        }
        Ok(!self.heard())
    }

    /// A buffer that was handed to a call that failed: nobody writes to it now.
    pub fn watch(&self, what: &'static str, buf: impl Into<Box<[u8]>>) {
        self.watched.keep(what, buf);
    }

    /// The result of a call into a fresh buffer, which is watched if it failed.
    pub fn filling<T, E: Named>(
        &self,
        what: &'static str,
        len: usize,
        call: impl FnOnce(&mut [u8]) -> std::result::Result<T, E>,
    ) -> Result<Option<Box<[u8]>>> {
        self.hear(what, self.watched.filling(what, len, call))
    }

    /// The result of a call that reads a buffer, which nobody reads any more if it
    /// failed.
    pub fn reading<T, E: Named>(
        &self,
        what: &'static str,
        buf: Vec<u8>,
        call: impl FnOnce(&[u8]) -> std::result::Result<T, E>,
    ) -> Result<Option<T>> {
        self.hear(what, self.watched.reading(what, buf, call))
    }

    /// Nobody wrote where a call had failed.
    pub fn unwritten(&self, idle: &mut dyn FnMut()) -> Result {
        self.watched.unwritten(WATCH, idle)
    }

    /// Stays until the other survivor is done: its own end is not what that one
    /// should hear of. The victim, which may have come as far, until it is killed.
    pub fn finish(&self, idle: &mut dyn FnMut()) -> Result {
        let board = board();
        if self.is_victim() {
            return self.wait("the victim's death", || false, idle);
        }
        board.finished[self.me as usize].store(1, SeqCst);
        let other = &board.finished[self.other as usize];
        self.wait("the other's end", || other.load(SeqCst) > 0, idle)
    }
}

/// A rank with its device open.
pub struct Run<'t, N: Opens> {
    pub t: &'t Trial,
    pub context: Rc<Context<N>>,
    pub world: Communicator<N>,
}

impl<N: Opens> Run<'_, N> {
    pub fn idle(&self) {
        // What failed is heard of where it is waited for.
        let _ = self.context.progress();
    }

    pub fn go(&self, window: u64) -> Result {
        self.t.go(window, &mut || self.idle())
    }

    pub fn others(&self) -> [u32; 2] {
        self.t.others()
    }
}

/// A window over memory of the window's, the library's or the test's own.
pub fn make<N: Opens>(
    communicator: &Communicator<N>,
    kind: u64,
    bytes: usize,
) -> std::result::Result<Held<N>, Error> {
    let kind = match kind {
        0 => ALLOCATED,
        1 => PROVIDED,
        _ => CREATED,
    };
    Held::new(communicator, kind, bytes, 1)
}

/// Bytes of a source's share in every member's memory, and where what lies.
pub const SLOTS: u64 = 64;
pub const SUM: usize = 0x1000;
pub const LOCKED: usize = 0x1010;
pub const LONG: usize = 0x2000;
pub const LONG_LEN: usize = 20_000;
pub const READ: usize = 0x8000;
pub const PAIR: usize = 0xd000;
pub const TALLY: usize = 0x1_0800;
pub const TALLIES: usize = 5000;
pub const NUMBERS: usize = TALLY + 8 * TALLIES;
pub const SHARE: usize = NUMBERS + 0x1000;
pub const BYTES: usize = SHARE * RANKS;

/// Where a source's share begins.
pub fn share(of: u32) -> usize {
    of as usize * SHARE
}

/// The bytes to get from a rank.
pub fn readable(rank: u32) -> Vec<u8> {
    pattern(rank * 3 + 5, LONG_LEN)
}

pub fn mix(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}
