//! Frees the locks that killed processes took with them in shm before 1.18.
//!
//! Up to libfabric 1.17 a spin lock in shared memory guards the queue of each
//! shm endpoint. A process that is killed while it holds one leaves all others
//! spinning inside the library, where nothing above can interrupt them. So a
//! thread of its own inspects the locks of the endpoints this process knows,
//! and frees one when it is proved that its holder is a process of this job on
//! this node that has ended:
//!
//! 1. one of them has ended, and the others are known ([`Neighbours`]);
//! 2. the holder has not changed since a mark was made: the lock's word counts
//!    holder and waiters, and a large number is taken from it, which changes
//!    nothing for either, and which whoever lets go overwrites;
//! 3. no living one is the holder: since the mark each of its threads was seen
//!    asleep, yielded its processor again and again, or used more processor time than
//!    any holder does ([`ThreadObserver`]). One that is stopped proves nothing, so it
//!    is waited for.
//!
//! A lock that was taken over is given back once the queue is whole again
//! ([`CommandQueue::take_back_half`]); at worst one buffer is lost.
//!
//! Only segments that say of themselves what 1.17's do are looked at: newer
//! libraries have another layout and no such lock.

use super::command_queue::CommandQueue;
use super::threads::ThreadObserver;
use crate::netmod::Neighbours;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A free `pthread_spinlock_t` on x86: holders and waiters count down from it,
/// and waiters look for a positive number.
const FREE: i32 = 1;
/// Marks are multiples of this: more than there are waiters.
const MARK: i32 = 1 << 16;

/// How long proof is looked for before a warning.
const WARN_AFTER: Duration = Duration::from_secs(10);
/// Time from one look to the next.
const INTERVAL: Duration = Duration::from_millis(200);
/// From one search for endpoints that are closed to the next, whose memory would stay as long as it
/// is mapped here.
const LOOKS: u32 = 10;
/// How long each look goes on: living holders let go within microseconds.
const LOOK: Duration = Duration::from_millis(10);

/// Frees the locks of the endpoints it watches, from a thread of its own, which
/// ends when this is dropped.
pub(super) struct LockReaper {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Default)]
struct State {
    segments: Vec<Segment>,
    looks: u32,
    neighbours: Option<Neighbours>,
    running: bool,
    stop: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LockReaper {
    pub(super) fn new() -> LockReaper {
        LockReaper { shared: Arc::default() }
    }

    /// Sets the processes that may hold these locks.
    pub(super) fn set_neighbours(&self, neighbours: Neighbours) {
        self.shared.lock().neighbours = Some(neighbours);
    }

    /// Watches the endpoint with this raw address from now on, if it has such a
    /// lock.
    pub(super) fn watch(&self, raw: &[u8]) {
        let Some(segment) = Segment::of(raw) else { return };
        let mut state = self.shared.lock();
        if state.segments.iter().any(|s| s.inode == segment.inode) {
            return;
        }
        state.segments.push(segment);
        if !state.running {
            let shared = Arc::clone(&self.shared);
            let thread = std::thread::Builder::new().name("rankway-locks".into());
            let thread = thread.stack_size(128 << 10);
            // Without it things are as they were: the library may hang.
            state.running = thread.spawn(move || shared.run()).is_ok();
        }
    }
}

impl Drop for LockReaper {
    fn drop(&mut self) {
        self.shared.lock().stop = true;
        self.shared.wake.notify_all();
    }
}

impl Shared {
    fn run(&self) {
        let mut state = self.lock();
        while !state.stop {
            let waited = self.wake.wait_timeout(state, INTERVAL);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            let State { segments, neighbours, looks, .. } = &mut *state;
            *looks += 1;
            if looks.is_multiple_of(LOOKS) {
                segments.retain(|it| it.is_there() || !it.is_free());
            }
            let Some(neighbours) = neighbours else { continue };
            for segment in segments {
                segment.inspect(neighbours);
            }
        }
    }
}

/// An endpoint's segment.
struct Segment {
    /// Its file in /dev/shm.
    path: PathBuf,
    inode: u64,
    queue: CommandQueue,
    /// A lock that the dead may hold.
    holder: Option<Holder>,
}

/// What is known of a lock's holder.
struct Holder {
    mark: i32,
    since: Instant,
    observer: ThreadObserver,
    warned: bool,
}

impl Segment {
    /// The segment behind `fi_shm://<pid>:<domain>:<endpoint>`, when it is one
    /// of ours and of 1.17's making.
    fn of(raw: &[u8]) -> Option<Segment> {
        let text = std::str::from_utf8(raw.strip_suffix(&[0])?).ok()?;
        let (_, name) = text.split_once("://")?;
        let pid: i32 = name.split(':').next()?.parse().ok()?;
        if cfg!(not(any(target_arch = "x86", target_arch = "x86_64"))) || name.contains('/') {
            return None;
        }
        let path = PathBuf::from("/dev/shm").join(name);
        let file = File::options().read(true).write(true).open(&path).ok()?;
        let inode = file.metadata().ok()?.ino();
        Some(Segment { path, inode, queue: CommandQueue::of(&file, pid)?, holder: None })
    }

    /// Returns true if the endpoint is not closed. (A killed process's file stays until it is swept.)
    fn is_there(&self) -> bool {
        std::fs::metadata(&self.path).is_ok_and(|it| it.ino() == self.inode)
    }

    fn is_free(&self) -> bool {
        self.lock().load(Ordering::Relaxed) == FREE
    }

    fn lock(&self) -> &AtomicI32 {
        self.queue.lock()
    }

    fn inspect(&mut self, neighbours: &Neighbours) {
        if !self.held_throughout() {
            self.holder = None;
            return;
        }
        let known = neighbours().unwrap_or_default();
        let dead = known.iter().find(|n| n.ended).map(|n| n.rank);
        let Some((dead, mark)) = dead.zip(self.mark()) else {
            self.holder = None;
            return;
        };
        // What is known of another holder is forgotten.
        let holder = self.holder.take().filter(|holder| holder.mark == mark);
        let mut holder = holder.unwrap_or_else(|| Holder::new(mark));
        let mut unproved = Vec::new();
        for living in known.iter().filter(|n| !n.ended) {
            if !holder.observer.all_seen_outside(living.pid) {
                unproved.push(living.rank);
            }
        }
        if unproved.is_empty() {
            return self.free(mark);
        }
        holder.warn(dead, &unproved);
        self.holder = Some(holder);
    }

    /// The mark of the lock's holder, made now if it has none; `None` when it
    /// is free.
    fn mark(&self) -> Option<i32> {
        let mut word = self.lock().load(Ordering::Acquire);
        while word < FREE {
            match mark_in(word) {
                0 => {
                    let marked = word - new_mark() * MARK;
                    let (to, not) = (Ordering::AcqRel, Ordering::Acquire);
                    match self.lock().compare_exchange(word, marked, to, not) {
                        Ok(_) => word = marked,
                        Err(now) => word = now,
                    }
                }
                mark => return Some(mark),
            }
        }
        None
    }

    /// Takes the lock over if its holder is still the one that was marked, and gives
    /// it back.
    fn free(&self, mark: i32) {
        // Who is killed in here leaves a holder of another mark, for whom all this
        // begins anew.
        let next = new_mark();
        let own = -MARK * if next == mark { mark + 1 } else { next };
        let take = |word| (word < FREE && mark_in(word) == mark).then_some(own);
        // Waiters count down once, when they come.
        if self.lock().fetch_update(Ordering::AcqRel, Ordering::Acquire, take).is_ok() {
            self.queue.take_back_half();
            self.lock().store(FREE, Ordering::Release);
        }
    }

    /// Most holders let go within the look, or did before.
    fn held_throughout(&self) -> bool {
        let start = Instant::now();
        while start.elapsed() < LOOK {
            if self.lock().load(Ordering::Relaxed) == FREE {
                return false;
            }
            std::thread::sleep(Duration::from_micros(50));
        }
        true
    }
}

/// The mark in a lock's word; 0 for none.
fn mark_in(word: i32) -> i32 {
    word.wrapping_neg() / MARK
}

/// A mark that no other process makes at the same moment.
fn new_mark() -> i32 {
    use std::hash::{BuildHasher as _, RandomState};
    let random = RandomState::new().hash_one(std::process::id());
    // Far from the end of the word's range, and not 0.
    (random % 16_000) as i32 + 1
}

impl Holder {
    fn new(mark: i32) -> Holder {
        Holder { mark, since: Instant::now(), observer: ThreadObserver::default(), warned: false }
    }

    /// Warns once when the proof takes long.
    fn warn(&mut self, dead: u32, unproved: &[u32]) {
        if self.since.elapsed() > WARN_AFTER && !self.warned {
            self.warned = true;
            // (Who has closed its standard error is no worse off.)
            let _ = writeln!(
                std::io::stderr(),
                "rankway: rank {dead} died, maybe with a lock of libfabric's shared memory; waiting \
                 for ranks {unproved:?}, which may hold it too: are they stopped? A newer libfabric \
                 has no such locks"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::command_queue::tests::segment;
    use super::*;
    use crate::netmod::Neighbour;
    use std::process::Command;

    static COUNT: AtomicI32 = AtomicI32::new(0);

    /// A segment as 1.17 makes them, of a process that has ended; locked.
    fn left_behind() -> (Vec<u8>, PathBuf) {
        let pid = crate::process::one_that_ended();
        let unique = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{pid}:{}:{unique}", std::process::id());
        let path = PathBuf::from("/dev/shm").join(&name);
        // Half of a write is in its queue.
        let bytes = segment(pid, &[4, 0, 4], 6);
        std::fs::write(&path, bytes).unwrap();
        (format!("fi_shm://{name}\0").into_bytes(), path)
    }

    fn neighbours(known: &[(u32, bool)]) -> Neighbours {
        let known: Vec<_> = known.to_vec();
        let neighbour = |(rank, &(pid, ended)): (u32, &(u32, bool))| Neighbour { rank, pid, ended };
        Box::new(move || Some((0..).zip(&known).map(neighbour).collect()))
    }

    fn freed_within(segment: &Segment, limit: Duration) -> bool {
        let start = Instant::now();
        while start.elapsed() < limit {
            if segment.lock().load(Ordering::Relaxed) == FREE {
                return true;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        false
    }

    #[test]
    fn the_lock_of_a_dead_process_is_given_back() {
        let (raw, path) = left_behind();
        let segment = Segment::of(&raw).expect("one of 1.17's");
        let lock_reaper = LockReaper::new();
        lock_reaper.set_neighbours(neighbours(&[(1 << 23, true)]));
        lock_reaper.watch(&raw);
        assert!(freed_within(&segment, Duration::from_secs(20)), "still held");
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_lock_is_not_given_back_without_proof() {
        let (raw, path) = left_behind();
        let segment = Segment::of(&raw).expect("one of 1.17's");
        let mut stopped = Command::new("sleep").arg("60").spawn().unwrap();
        // SAFETY: a child of this test's.
        unsafe { libc::kill(stopped.id() as i32, libc::SIGSTOP) };
        std::thread::sleep(Duration::from_millis(100));
        // Nobody is known, nobody has ended, or a living one may be it.
        let living = (stopped.id(), false);
        for known in [&[][..], &[living], &[(1 << 23, true), living]] {
            let lock_reaper = LockReaper::new();
            lock_reaper.set_neighbours(neighbours(known));
            lock_reaper.watch(&raw);
            assert!(!freed_within(&segment, Duration::from_secs(2)), "{known:?}");
        }
        // Waiters count down and change nothing.
        let word = segment.lock().fetch_sub(1, Ordering::Relaxed);
        assert_eq!(mark_in(word), mark_in(word - 1));
        stopped.kill().unwrap();
        stopped.wait().unwrap();
        std::fs::remove_file(path).unwrap();
    }

    /// Two threads hand a lock to each other, while one is dead and a stale
    /// name lies about: never has it two owners.
    #[test]
    fn a_lock_that_is_handed_on_has_one_owner() {
        let (raw, path) = left_behind();
        let segment = Segment::of(&raw).expect("one of 1.17's");
        segment.lock().store(FREE, Ordering::Release);
        let lock_reaper = LockReaper::new();
        lock_reaper.set_neighbours(neighbours(&[(1 << 23, true), (std::process::id(), false)]));
        lock_reaper.watch(&raw);
        let (inside, doubled, times) = (AtomicI32::new(0), AtomicI32::new(0), AtomicI32::new(0));
        let (end, word) = (Instant::now() + Duration::from_secs(4), segment.lock());
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let lock = word.as_ptr().cast();
                    while Instant::now() < end {
                        // SAFETY: a spin lock in mapped memory.
                        unsafe { libc::pthread_spin_lock(lock) };
                        let others = inside.fetch_add(1, Ordering::AcqRel);
                        doubled.fetch_add(i32::from(others != 0), Ordering::Relaxed);
                        times.fetch_add(1, Ordering::Relaxed);
                        for _ in 0..200 {
                            std::hint::spin_loop();
                        }
                        inside.fetch_sub(1, Ordering::AcqRel);
                        // SAFETY: taken above.
                        unsafe { libc::pthread_spin_unlock(lock) };
                    }
                });
            }
        });
        std::fs::remove_file(path).unwrap();
        let (doubled, times) = (doubled.into_inner(), times.into_inner());
        assert!(times > 1000 && doubled == 0, "{doubled} of {times} had two owners");
    }

    #[test]
    fn other_layouts_and_garbage_are_left_alone() {
        let (raw, path) = left_behind();
        std::fs::write(&path, [0; 8192]).unwrap();
        assert!(Segment::of(&raw).is_none());
        std::fs::remove_file(path).unwrap();
        for raw in [b"".as_slice(), b"fi_shm://\0", b"fi_shm://1:0:0\0", b"fi_shm://../x:1\0"] {
            assert!(Segment::of(raw).is_none(), "{raw:?}");
        }
    }
}
