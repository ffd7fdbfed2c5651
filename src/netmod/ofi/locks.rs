//! Frees the locks that killed processes took with them in shm before 1.18.
//!
//! Up to libfabric 1.17 a spin lock in shared memory guards the queue of each
//! shm endpoint. Whoever is killed while it holds one leaves all others
//! spinning inside the library, where nothing above can reach them. So a
//! thread beside them looks at the locks of the endpoints this process knows.
//! It gives one back when it was held without a break for [`ROUNDS`] looks
//! while an owner of such endpoints is dead and none is stopped. A lock that
//! was taken over is safe to give back: a command becomes visible only with
//! the store that ends its making, so at worst one buffer is lost.
//!
//! Only segments that say of themselves what 1.17's do are looked at: newer
//! libraries have another layout and no such lock.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::PathBuf;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// `SMR_VERSION` of libfabric 1.17, in the segment's first byte.
const VERSION: u8 = 4;
/// Where 1.17 keeps the owner's pid, the lock and the segment's size.
const PID: usize = 4;
const LOCK: usize = 24;
const SIZE: usize = 40;
/// A free `pthread_spinlock_t` on x86: holders and waiters count down.
const FREE: i32 = 1;
const PAGE: usize = 4096;

/// Looks in which a lock must be held before it is given back.
const ROUNDS: u32 = 5;
/// Time from one look to the next.
const INTERVAL: Duration = Duration::from_millis(200);
/// How long each look goes on: living holders let go within microseconds.
const LOOK: Duration = Duration::from_millis(10);

/// Looks after the locks of the endpoints it is told of, from a thread of its
/// own; both end with it.
pub(super) struct Warden {
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
    running: bool,
    stop: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Warden {
    pub(super) fn new() -> Warden {
        Warden { shared: Arc::default() }
    }

    /// Looks after the endpoint with this raw address from now on, if it has
    /// such a lock.
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
            // Without it things are as they were: the library may hang.
            state.running = thread.spawn(move || shared.patrol()).is_ok();
        }
    }
}

impl Drop for Warden {
    fn drop(&mut self) {
        self.shared.lock().stop = true;
        self.shared.wake.notify_all();
    }
}

impl Shared {
    fn patrol(&self) {
        let mut state = self.lock();
        while !state.stop {
            let waited = self.wake.wait_timeout(state, INTERVAL);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            for segment in &mut state.segments {
                segment.look();
            }
        }
    }
}

/// The first page of an endpoint's segment.
struct Segment {
    /// Of its file in /dev/shm; a name would be longer, and is seldom needed.
    inode: u64,
    page: NonNull<u8>,
    /// Looks in a row in which the lock was held throughout.
    held: u32,
}

// SAFETY: a mapping of its own, in which only the lock is touched, atomically.
unsafe impl Send for Segment {}

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
        let metadata = file.metadata().ok()?;
        let (len, inode) = (metadata.len(), metadata.ino());
        if len < PAGE as u64 {
            return None;
        }
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping of the kernel's choice.
        let page = unsafe {
            libc::mmap(std::ptr::null_mut(), PAGE, prot, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        if page == libc::MAP_FAILED {
            return None;
        }
        let segment = Segment { inode, page: NonNull::new(page.cast())?, held: 0 };
        // SAFETY: all within the mapped page and aligned to their size; what
        // the library writes there does not change once an address is told.
        let says = unsafe {
            (
                segment.page.read(),
                segment.page.add(PID).cast::<i32>().read(),
                segment.page.add(SIZE).cast::<u64>().read(),
            )
        };
        (says == (VERSION, pid, len)).then_some(segment)
    }

    fn lock(&self) -> &AtomicI32 {
        // SAFETY: within the page, aligned; a spin lock is only ever used by
        // atomic instructions, here as in the library.
        unsafe { self.page.add(LOCK).cast::<AtomicI32>().as_ref() }
    }

    fn look(&mut self) {
        if self.lock().load(Ordering::Relaxed) == FREE || !self.held_throughout() {
            self.held = 0;
            return;
        }
        self.held += 1;
        if self.held >= ROUNDS && a_holder_may_be_dead() {
            self.held = 0;
            self.give_back();
        }
    }

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

    /// Frees the lock, one process at a time: a second one must not free it
    /// under whoever got it from the first.
    fn give_back(&self) {
        // Opened anew: a descriptor for each peer would be too much.
        let Ok(entries) = std::fs::read_dir("/dev/shm") else { return };
        let mine = |entry: &std::fs::DirEntry| entry.ino() == self.inode;
        let path = entries.flatten().find(mine).map(|entry| entry.path());
        let Some(Ok(file)) = path.map(File::open) else { return };
        // SAFETY: a descriptor of ours; the lock ends with it.
        let alone = unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0;
        if alone && self.held_throughout() {
            self.lock().store(FREE, Ordering::Release);
        }
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // SAFETY: mapped by `of`, unmapped once.
        unsafe { libc::munmap(self.page.as_ptr().cast(), PAGE) };
    }
}

/// Whether some process with a shm endpoint is dead and none is stopped: a
/// stopped one may hold the lock and go on.
fn a_holder_may_be_dead() -> bool {
    // SAFETY: reads the process's credentials.
    let me = unsafe { libc::geteuid() };
    let Ok(entries) = std::fs::read_dir("/dev/shm") else { return false };
    let mut dead = false;
    for entry in entries.flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|n| n.split_once(':')).map(|(pid, _)| pid);
        let Some(pid) = pid.and_then(|pid| pid.parse::<u32>().ok()) else { continue };
        if entry.metadata().is_ok_and(|m| m.uid() != me) {
            continue;
        }
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        match stat.rsplit_once(") ").and_then(|(_, behind)| behind.chars().next()) {
            None | Some('Z' | 'X') => dead = true,
            Some('T' | 't') => return false,
            Some(_) => {}
        }
    }
    dead
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// A segment as 1.17 makes them, of a process that has ended.
    fn left_behind(version: u8) -> (Vec<u8>, PathBuf) {
        let mut child = Command::new("true").spawn().unwrap();
        let pid = child.id();
        child.wait().unwrap();
        let name = format!("{pid}:{}:{version}", std::process::id());
        let path = PathBuf::from("/dev/shm").join(&name);
        let mut bytes = vec![0_u8; 2 * PAGE];
        bytes[0] = version;
        bytes[PID..PID + 4].copy_from_slice(&pid.to_ne_bytes());
        bytes[SIZE..SIZE + 8].copy_from_slice(&(2 * PAGE as u64).to_ne_bytes());
        std::fs::write(&path, bytes).unwrap();
        (format!("fi_shm://{name}\0").into_bytes(), path)
    }

    #[test]
    fn the_lock_of_a_dead_process_is_given_back() {
        let (raw, path) = left_behind(VERSION);
        let segment = Segment::of(&raw).expect("one of 1.17's");
        let warden = Warden::new();
        warden.watch(&raw);
        let start = Instant::now();
        while segment.lock().load(Ordering::Relaxed) != FREE {
            assert!(start.elapsed() < Duration::from_secs(20), "still held");
            std::thread::sleep(Duration::from_millis(20));
        }
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn other_layouts_and_garbage_are_left_alone() {
        let (raw, path) = left_behind(VERSION + 1);
        assert!(Segment::of(&raw).is_none());
        std::fs::remove_file(path).unwrap();
        for raw in [b"".as_slice(), b"fi_shm://\0", b"fi_shm://1:0:0\0", b"fi_shm://../x:1\0"] {
            assert!(Segment::of(raw).is_none(), "{raw:?}");
        }
    }
}
