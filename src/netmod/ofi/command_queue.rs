//! The queue of commands in a shm segment of libfabric 1.17, and what a process
//! leaves of it that is killed while it writes there.
//!
//! ```text
//! segment   version 1 | … | pid 4 | … | lock | … | size 8 | free 8 | … | queue 8 | answers 8 | …
//! queue     entries 8 | mask 8 | read 8 | written 8 | entries × 256
//! ```
//!
//! Puts and gets are two entries, each of which counts as written by
//! itself. Who reads the first takes what lies behind it for the second and counts
//! both as read: where the second never came, that is an entry of a lap before, and
//! from then on the reader is ahead of the writers and carries out old commands
//! again and again.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

/// `SMR_VERSION` of libfabric 1.17, in the segment's first byte.
const VERSION: u8 = 4;
/// Where 1.17 keeps these in a segment.
const PID: usize = 4;
const LOCK: usize = 24;
const SIZE: usize = 40;
const FREE: usize = 48;
const QUEUE: usize = 64;
const ANSWERS: usize = 72;
const HEADER: usize = 80;
/// The same in a queue.
const MASK: usize = 8;
const READ: usize = 16;
const WRITTEN: usize = 24;
const ENTRIES: usize = 32;
/// Bytes of an entry, and where it says what it is.
const ENTRY: usize = 256;
const KIND: usize = 16;
/// More than any queue has.
const MOST: u64 = 1 << 20;

/// Returns true for a command that is in two entries: a read, a write. (Atomics, 6 to
/// 8, are never handed to shm.)
fn has_two_entries(kind: u32) -> bool {
    matches!(kind, 2 | 4)
}

/// A segment's lock and queue, mapped.
#[derive(Debug)]
pub(super) struct CommandQueue {
    start: NonNull<u8>,
    len: usize,
    queue: usize,
}

// SAFETY: a mapping of its own, of which only atomics are touched.
unsafe impl Send for CommandQueue {}

impl CommandQueue {
    /// That of the segment in a file, if a process of this number made it with 1.17.
    pub(super) fn of(file: &File, pid: i32) -> Option<CommandQueue> {
        let size = file.metadata().ok()?.len();
        let mut header = [0; HEADER];
        file.read_exact_at(&mut header, 0).ok()?;
        let word = |at: usize| Some(u64::from_ne_bytes(header[at..at + 8].try_into().ok()?));
        let (queue, answers) = (word(QUEUE)?, word(ANSWERS)?);
        let mut head = [0; ENTRIES];
        file.read_exact_at(&mut head, queue).ok()?;
        let of = |at: usize| Some(u64::from_ne_bytes(head[at..at + 8].try_into().ok()?));
        let entries = of(0)?;
        let known = header[0] == VERSION
            && header[PID..PID + 4] == pid.to_ne_bytes()
            && word(SIZE)? == size
            && queue.is_multiple_of(8)
            && entries.is_power_of_two()
            && entries <= MOST
            && of(MASK)? == entries - 1
            && queue.checked_add(ENTRIES as u64 + entries * ENTRY as u64) == Some(answers)
            && answers <= size;
        if !known {
            return None;
        }
        let (len, prot) = (answers as usize, libc::PROT_READ | libc::PROT_WRITE);
        // SAFETY: a new mapping of the kernel's choice, of what the file has.
        let start = unsafe {
            libc::mmap(std::ptr::null_mut(), len, prot, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        if start == libc::MAP_FAILED {
            return None;
        }
        Some(CommandQueue { start: NonNull::new(start.cast())?, len, queue: queue as usize })
    }

    /// The spin lock of the queue.
    pub(super) fn lock(&self) -> &AtomicI32 {
        // SAFETY: within the mapping, aligned; a spin lock is only ever used by
        // atomic instructions, here as in the library.
        unsafe { self.start.add(LOCK).cast::<AtomicI32>().as_ref() }
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        // SAFETY: callers pass multiples of 8 within what `of` looked at.
        unsafe { self.start.add(at).cast::<AtomicU64>().as_ref() }
    }

    /// What the entry of this count is.
    fn kind(&self, count: u64) -> u32 {
        let index = (count & self.word(self.queue + MASK).load(Ordering::Acquire)) as usize;
        let at = self.queue + ENTRIES + index * ENTRY + KIND;
        // (The mask is memory that peers can write.)
        if at + 4 > self.len {
            return 0;
        }
        // SAFETY: within the mapping, as just seen; a multiple of 8.
        unsafe { self.start.add(at).cast::<AtomicU32>().as_ref() }.load(Ordering::Acquire)
    }

    /// Makes the queue what it was before the last writer, or after it. To be called
    /// by who holds the lock, which the last writer had when it was killed.
    pub(super) fn take_back_half(&self) {
        let [read, written] = [READ, WRITTEN].map(|at| self.word(self.queue + at));
        let end = written.load(Ordering::Acquire);
        let mut at = read.load(Ordering::Acquire);
        // Whose counts are further apart than its entries has another trouble.
        if end.wrapping_sub(at) > MOST {
            return;
        }
        while at != end {
            let two = has_two_entries(self.kind(at));
            at = at.wrapping_add(1);
            if two && at == end {
                // Nobody has seen it: readers need the lock.
                written.store(end.wrapping_sub(1), Ordering::Release);
                return;
            }
            at = at.wrapping_add(u64::from(two));
        }
        // What was written last may not be counted off yet. One too few does no harm.
        let free = self.word(FREE);
        free.store(free.load(Ordering::Acquire).saturating_sub(1), Ordering::Release);
    }
}

impl Drop for CommandQueue {
    fn drop(&mut self) {
        // SAFETY: mapped by `of`, unmapped once.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::path::PathBuf;

    const COUNT: usize = 8;
    const START: usize = 128;

    /// A segment as 1.17 makes them, with a queue of eight entries, of which these
    /// kinds are written, from this count on.
    pub(in crate::netmod::ofi) fn segment(pid: u32, kinds: &[u32], from: u64) -> Vec<u8> {
        let answers = START + ENTRIES + COUNT * ENTRY;
        let mut bytes = vec![0_u8; answers + 4096];
        let size = bytes.len() as u64;
        bytes[0] = VERSION;
        bytes[PID..PID + 4].copy_from_slice(&pid.to_ne_bytes());
        let words = [
            (SIZE, size),
            (FREE, 5),
            (QUEUE, START as u64),
            (ANSWERS, answers as u64),
            (START, COUNT as u64),
            (START + MASK, COUNT as u64 - 1),
            (START + READ, from),
            (START + WRITTEN, from + kinds.len() as u64),
        ];
        for (at, word) in words {
            bytes[at..at + 8].copy_from_slice(&word.to_ne_bytes());
        }
        for (kind, count) in kinds.iter().zip(from as usize..) {
            let at = START + ENTRIES + count % COUNT * ENTRY + KIND;
            bytes[at..at + 4].copy_from_slice(&kind.to_ne_bytes());
        }
        bytes
    }

    fn opened(bytes: &[u8]) -> Option<CommandQueue> {
        use std::io::Write as _;
        use std::sync::atomic::AtomicU32;
        static MADE: AtomicU32 = AtomicU32::new(0);
        let unique = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("rankway-queue-{}-{unique}", std::process::id());
        let path: PathBuf = std::env::temp_dir().join(name);
        let mut file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        file.write_all(bytes).unwrap();
        CommandQueue::of(&file, 77)
    }

    #[test]
    #[cfg_attr(miri, ignore = "a mapped file")]
    fn half_a_command_is_taken_back() {
        // A message; a write and where to; a read that came without; counts that wrap
        // around the ring.
        let cases: [(&[u32], bool); 9] = [
            (&[], false),
            (&[0], false),
            (&[4, 0], false),
            (&[4], true),
            (&[0, 4, 4, 2], true),
            (&[0, 4, 4, 2, 2], false),
            (&[1, 5, 9, 2], true),
            (&[2, 4, 4], true),
            (&[16, 2, 7, 4, 2, 1, 4, 4], false),
        ];
        for from in [0, 5, 1 << 40] {
            for (kinds, half) in cases {
                let queue = opened(&segment(77, kinds, from)).expect("one of 1.17's");
                queue.take_back_half();
                let [read, written] = [READ, WRITTEN].map(|at| queue.word(START + at));
                let left = from + kinds.len() as u64 - u64::from(half);
                assert_eq!(written.load(Ordering::Relaxed), left, "{kinds:?} from {from}");
                assert_eq!(read.load(Ordering::Relaxed), from);
                let free = 5 - u64::from(!half);
                assert_eq!(queue.word(FREE).load(Ordering::Relaxed), free, "{kinds:?}");
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "a mapped file")]
    fn other_layouts_are_left_alone() {
        let whole = segment(77, &[4], 3);
        assert!(opened(&whole).is_some());
        assert!(opened(&segment(78, &[4], 3)).is_none(), "another's");
        assert!(opened(&whole[..100]).is_none(), "a short one");
        for at in [0, PID, SIZE, QUEUE, QUEUE + 7, ANSWERS, START, START + MASK] {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x21;
            assert!(opened(&bytes).is_none(), "byte {at}");
        }
    }
}
