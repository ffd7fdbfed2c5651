//! Packets between processes of one node, over shared memory of our own.
//!
//! Every context has an inbox: an anonymous memory file with a
//! [ring](ring) for each process of the node. A process that sends to it for
//! the first time maps the file, through `/proc/<pid>/fd`, and signs its own
//! ring; the pages of rings that nobody signed are never touched. So a peer
//! costs nothing before the first packet and 64 KiB of shared memory after it,
//! no process waits for another's lock, and nothing is left behind, however
//! the processes end.
//!
//! Where a memory file cannot be shared (another pid namespace, a job of one),
//! packets take the provider; each direction goes by itself.
//! `RANKWAY_NODE_QUEUES=0` turns them off.
//!
//! Carries packets only: puts and bulk messages are for windows and netmods.

mod ring;

use super::segment::{self, PAGE, Segment};
use crate::netmod::HEAD;
use ring::{BYTES, Reader, Writer};
use std::cell::{Cell, OnceCell, RefCell};
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering, fence};
use std::time::Duration;

/// The longest body of a packet.
pub(super) const LONGEST: usize = ring::LONGEST;
/// The environment variable that turns them off.
const ENV: &str = "RANKWAY_NODE_QUEUES";
/// "rankway1", as a number.
const MAGIC: u64 = u64::from_le_bytes(*b"rankway1");
/// Processes of a node that fit in the head's bits.
const MOST: u32 = 8192;
/// Packets of one sender before the others get a turn.
const TURN: u32 = 32;
/// Longer than a store stays in a processor's buffer.
const STORES_SHOW: Duration = Duration::from_micros(50);

/// The first page of an inbox.
#[repr(C)]
struct Head {
    magic: u64,
    job: u64,
    world: u32,
    context: u32,
    places: u32,
    pid: u32,
    /// The receiver sleeps: whoever sends writes to the pipe.
    asleep: Apart<AtomicU32>,
    /// The pipe's descriptor, in the receiver's process.
    pipe: AtomicI32,
    /// Rings signed so far.
    signed: Apart<AtomicU32>,
    /// Which ones, by rank on the node.
    which: [AtomicU64; MOST as usize / 64],
}

#[repr(C, align(64))]
struct Apart<T>(T);

const _: () = assert!(size_of::<Head>() <= PAGE);

/// What a peer needs to find an inbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) pid: u32,
    pub(super) fd: i32,
}

/// Whose inbox it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) job: u64,
    pub(super) world: u32,
    pub(super) context: u32,
    /// Processes of the node.
    pub(super) places: u32,
}

/// An inbox in memory: a page that says whose it is, then the rings.
struct Map(Segment);

impl Map {
    fn bytes(places: u32) -> usize {
        PAGE + places as usize * BYTES
    }

    #[inline]
    fn head(&self) -> &Head {
        // SAFETY: a page of zeros or a head; all that changes is atomic.
        unsafe { &*self.0.start().cast::<Head>() }
    }

    /// The ring of a rank on the node.
    fn ring(&self, place: u32) -> *mut u8 {
        self.0.start().wrapping_add(Map::bytes(place))
    }
}

/// Where packets of this node's processes arrive.
pub(super) struct Inbox {
    readers: RefCell<Vec<Reader>>,
    /// Signatures seen so far.
    signed: Cell<u32>,
    /// Marked asleep.
    armed: Cell<bool>,
    pipe: OnceCell<(File, OwnedFd)>,
    file: File,
    map: Map,
}

impl Inbox {
    /// Makes one; `None` where there is nobody else, where the environment
    /// says so, or where the system has no memory files.
    pub(super) fn open(owner: Owner) -> Option<Inbox> {
        let off = std::env::var(ENV).is_ok_and(|v| matches!(v.trim(), "0" | "off" | "no"));
        if owner.places < 2 || owner.places > MOST || off {
            return None;
        }
        let file = segment::create(c"rankway-inbox").ok()?;
        let map = Map(Segment::map(&file, Map::bytes(owner.places)).ok()?);
        // SAFETY: nobody else knows of the page yet.
        unsafe {
            let head = map.0.start().cast::<Head>();
            (*head).magic = MAGIC;
            (*head).job = owner.job;
            (*head).world = owner.world;
            (*head).context = owner.context;
            (*head).places = owner.places;
            (*head).pid = std::process::id();
            (*head).pipe = AtomicI32::new(-1);
        }
        Some(Inbox {
            readers: RefCell::default(),
            signed: Cell::new(0),
            armed: Cell::new(false),
            pipe: OnceCell::new(),
            file,
            map,
        })
    }

    /// For the peers.
    pub(super) fn place(&self) -> Place {
        Place { pid: std::process::id(), fd: self.file.as_raw_fd() }
    }

    /// Hands out packets: sender, first word, the others, body. Whether there
    /// were any.
    #[inline]
    pub(super) fn poll(&self, mut take: impl FnMut(u32, u64, [u64; 3], &[u8])) -> bool {
        if self.map.head().signed.0.load(Ordering::Relaxed) != self.signed.get() {
            self.welcome();
        }
        if self.armed.get() {
            self.wake_up();
        }
        let mut count = 0;
        for reader in self.readers.borrow_mut().iter_mut() {
            let world = reader.world();
            count += reader.poll(TURN, |first, words, body| take(world, first, words, body));
        }
        count > 0
    }

    /// Finds the rings that were signed since.
    #[cold]
    fn welcome(&self) {
        let head = self.map.head();
        self.signed.set(head.signed.0.load(Ordering::Acquire));
        let mut readers = self.readers.borrow_mut();
        let bit = |place: u32| {
            head.which[place as usize / 64].load(Ordering::Acquire) >> (place % 64) & 1
        };
        for place in (0..head.places).filter(|&place| bit(place) != 0) {
            let start = self.map.ring(place);
            if !readers.iter().any(|reader| reader.reads(start)) {
                // SAFETY: a ring of the map, which lives as long; this inbox
                // is its receiver.
                readers.extend(unsafe { Reader::new(start) });
            }
        }
    }

    /// Whether this thread may sleep now, and on what: a descriptor that
    /// becomes readable when a packet comes.
    pub(super) fn arm(&self) -> Option<RawFd> {
        let head = self.map.head();
        if self.pipe.get().is_none() {
            let (read, write) = pipe().ok()?;
            head.pipe.store(read.as_raw_fd(), Ordering::Relaxed);
            let _ = self.pipe.set((read, write));
        }
        self.armed.set(true);
        head.asleep.0.store(1, Ordering::Release);
        fence(Ordering::SeqCst);
        // A sender that did not see the mark has written its packet before
        // and, a moment later, for all to see: so it needs no fence.
        std::thread::sleep(STORES_SHOW);
        let news = head.signed.0.load(Ordering::Acquire) != self.signed.get()
            || self.readers.borrow().iter().any(Reader::has_some);
        if news {
            self.wake_up();
            return None;
        }
        self.pipe.get().map(|(read, _)| read.as_raw_fd())
    }

    #[cold]
    fn wake_up(&self) {
        self.armed.set(false);
        self.map.head().asleep.0.store(0, Ordering::Relaxed);
        if let Some((read, _)) = self.pipe.get() {
            // What is left wakes the next sleep for nothing, once.
            let _ = (&*read).read(&mut [0; 64]);
        }
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        // The descriptor's number may be another file's soon.
        self.map.head().asleep.0.store(0, Ordering::Relaxed);
    }
}

/// A pipe whose ends do not block.
fn pipe() -> io::Result<(File, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: room for two descriptors.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just opened, ours alone.
    Ok(unsafe { (File::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) })
}

/// Copies from another process's memory; process_vm_readv(2).
///
/// # Errors
/// What the system refuses: it may be forbidden (ptrace_scope), the process
/// may be gone, or `from` not its memory. Part may have been copied.
///
/// # Safety
/// `to` is writable for `len` bytes.
pub(super) unsafe fn pull(pid: u32, from: u64, to: *mut u8, len: usize) -> io::Result<()> {
    let mut done = 0;
    while done < len {
        let local = libc::iovec { iov_base: to.wrapping_add(done).cast(), iov_len: len - done };
        let remote = libc::iovec {
            iov_base: (from as usize + done) as *mut libc::c_void,
            iov_len: len - done,
        };
        // SAFETY: the caller's duty; the system checks the other side.
        let n = unsafe { libc::process_vm_readv(pid as i32, &local, 1, &remote, 1, 0) };
        match n {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n if n < 0 => return Err(io::Error::last_os_error()),
            n => done += n as usize,
        }
    }
    Ok(())
}

/// Packets to one inbox.
pub(super) struct Outbox {
    writer: Writer,
    map: Map,
}

impl Outbox {
    /// Opens a peer's inbox and signs the ring of this process, rank `mine` on
    /// the node and `me` in the world. `None` where it cannot be reached or
    /// is somebody else's.
    pub(super) fn open(at: Place, owner: &Owner, mine: u32, me: u32) -> Option<Outbox> {
        let file = segment::open(at.pid, at.fd).ok()?;
        let len = Map::bytes(owner.places);
        // Somebody else's file is left as it is.
        if file.metadata().ok()?.len() != len as u64 || mine >= owner.places {
            return None;
        }
        let map = Map(Segment::map(&file, len).ok()?);
        let head = map.head();
        let found =
            Owner { job: head.job, world: head.world, context: head.context, places: head.places };
        let bit = 1 << (mine % 64);
        let word = head.which.get(mine as usize / 64)?;
        // A second context of this process must not write to a ring that is
        // in use.
        if head.magic != MAGIC || found != *owner || word.fetch_or(0, Ordering::Relaxed) & bit != 0
        {
            return None;
        }
        // SAFETY: a ring of the map, which lives as long; its place is this
        // process's alone, and nothing was signed there.
        let writer = unsafe { Writer::new(map.ring(mine), me)? };
        word.fetch_or(bit, Ordering::Release);
        head.signed.0.fetch_add(1, Ordering::Release);
        Some(Outbox { writer, map })
    }

    /// Sends a packet; `false`: there is no room now.
    ///
    /// # Safety
    /// `body` is readable for `len` bytes, at most [`LONGEST`].
    #[inline]
    pub(super) unsafe fn put(
        &self,
        first: u64,
        words: [u64; 3],
        body: *const u8,
        len: usize,
    ) -> bool {
        // SAFETY: the caller's duty.
        let sent = unsafe { self.writer.put(first, words, body, len) };
        if self.map.head().asleep.0.load(Ordering::Relaxed) != 0 {
            self.wake();
        }
        sent
    }

    /// The same with a head as it goes to providers.
    ///
    /// # Safety
    /// As [`Outbox::put`].
    #[inline]
    pub(super) unsafe fn put_encoded(
        &self,
        head: &[u8; HEAD],
        body: *const u8,
        len: usize,
    ) -> bool {
        let word = |i: usize| u64::from_le_bytes(std::array::from_fn(|k| head[8 * i + k]));
        // SAFETY: the caller's duty.
        unsafe { self.put(word(0), [word(1), word(2), word(3)], body, len) }
    }

    /// The receiver's process.
    pub(super) fn pid(&self) -> u32 {
        self.map.head().pid
    }

    /// Wakes the receiver, which may just have woken.
    #[cold]
    #[inline(never)]
    fn wake(&self) {
        let head = self.map.head();
        if head.asleep.0.swap(0, Ordering::AcqRel) == 0 {
            return;
        }
        let path = format!("/proc/{}/fd/{}", head.pid, head.pipe.load(Ordering::Relaxed));
        let mut options = File::options();
        options.write(true).custom_flags(libc::O_NONBLOCK);
        // What cannot be opened belongs to the dead.
        if let Ok(mut pipe) = options.open(path) {
            let _ = pipe.write(&[1]);
        }
    }
}
