//! A ring of packets in shared memory, from one process to another.
//!
//! ```text
//! line 0       taken: lines the receiver gave back, written by it now and then
//! line 1       sender: world rank + 1, written once
//! line 2 ...   packets: head and body, each from the start of a line
//! ```
//!
//! The first word of a packet is its flag: class, kind and length, never 0.
//! The sender clears the first word behind a packet, writes the packet, and
//! its first word last; the receiver looks at one word, in the line that holds
//! the packet too. So a short message moves one cache line, and a full ring is
//! the only time the sender looks at the receiver's count.
//!
//! One sender, one receiver, no lock: whichever dies, the other goes on.

use crate::netmod::HEAD;
use std::cell::{Cell, UnsafeCell};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Bytes of a ring; a multiple of the page.
pub(super) const BYTES: usize = 64 << 10;
/// The longest body. Two such packets and the end of the ring that the second
/// one leaves out are half a ring, so the count may lag behind by a quarter.
pub(super) const LONGEST: usize = 16 * 1024 - HEAD;

const LINE: usize = 64;
const LINES: u32 = (BYTES / LINE) as u32 - 2;
/// Lines the receiver keeps before it gives them back.
const LAG: u32 = LINES / 4;
/// Instead of a packet: go on at the first line. No packet's class.
const WRAP: u64 = 0xff;

#[repr(C, align(64))]
struct Line {
    first: AtomicU64,
    /// Written by the sender while the line is its own.
    _rest: UnsafeCell<[u8; LINE - 8]>,
}

#[repr(C)]
struct Ring {
    taken: Count,
    sender: Count,
    lines: [Line; LINES as usize],
}

#[repr(C, align(64))]
struct Count(AtomicU32);

const _: () = assert!(size_of::<Ring>() == BYTES);

fn lines_of(len: usize) -> u32 {
    (HEAD + len).div_ceil(LINE) as u32
}

/// The sending end.
pub(super) struct Writer {
    ring: NonNull<Ring>,
    /// The line of the next packet.
    at: Cell<u32>,
    /// Lines used so far, those left out at the end too; wraps.
    sent: Cell<u32>,
    /// What `taken` was when last looked at.
    taken: Cell<u32>,
}

impl Writer {
    /// The sending end of a ring nobody sent through yet.
    ///
    /// # Safety
    /// `start` is a ring of [`BYTES`], zeroed when it was made, at a multiple
    /// of 64, mapped as long as this lives, and has no other sender.
    pub(super) unsafe fn new(start: *mut u8, world: u32) -> Option<Writer> {
        let ring = NonNull::new(start.cast::<Ring>())?;
        // SAFETY: the caller's duty.
        unsafe { ring.as_ref() }.sender.0.store(world + 1, Ordering::Release);
        Some(Writer { ring, at: Cell::new(0), sent: Cell::new(0), taken: Cell::new(0) })
    }

    /// Writes a packet, whose head's first word has its class and kind in the
    /// lower half; `false`: there is no room now.
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
        let need = lines_of(len);
        let at = self.at.get();
        // One line more: the first word behind the packet is cleared.
        let free = LINES - self.sent.get().wrapping_sub(self.taken.get());
        if at + need >= LINES || need >= free {
            // SAFETY: the caller's duty.
            return unsafe { self.put_slowly(first, words, body, len) };
        }
        // SAFETY: the lines from `at` and one behind are this side's.
        unsafe { self.write(at, need, first, words, body, len) };
        true
    }

    /// Asks how much was taken; begins anew at the first line.
    ///
    /// # Safety
    /// As [`Writer::put`].
    #[cold]
    #[inline(never)]
    unsafe fn put_slowly(&self, first: u64, words: [u64; 3], body: *const u8, len: usize) -> bool {
        let need = lines_of(len);
        let at = self.at.get();
        // SAFETY: mapped as long as this lives.
        let ring = unsafe { self.ring.as_ref() };
        self.taken.set(ring.taken.0.load(Ordering::Acquire));
        let free = LINES - self.sent.get().wrapping_sub(self.taken.get());
        if at + need < LINES {
            if need >= free {
                return false;
            }
            // SAFETY: as in `put`.
            unsafe { self.write(at, need, first, words, body, len) };
            return true;
        }
        let left_out = LINES - at;
        if left_out + need >= free {
            return false;
        }
        ring.lines[0].first.store(0, Ordering::Relaxed);
        ring.lines[at as usize].first.store(WRAP, Ordering::Release);
        self.sent.set(self.sent.get().wrapping_add(left_out));
        // SAFETY: the first lines are this side's, as they are free.
        unsafe { self.write(0, need, first, words, body, len) };
        true
    }

    /// # Safety
    /// `need` lines from `at` and the one behind are free, and what is to be
    /// written fits; `body` is readable.
    #[inline]
    unsafe fn write(
        &self,
        at: u32,
        need: u32,
        first: u64,
        head: [u64; 3],
        body: *const u8,
        len: usize,
    ) {
        let next = at + need;
        // SAFETY: lines in the ring, by the caller.
        unsafe {
            let lines = (&raw mut (*self.ring.as_ptr()).lines).cast::<Line>();
            (*lines.add(next as usize)).first.store(0, Ordering::Relaxed);
            let line = lines.add(at as usize);
            let words = line.cast::<u64>();
            for (i, word) in head.into_iter().enumerate() {
                words.add(i + 1).write(word);
            }
            let to = words.add(HEAD / 8);
            if len == 8 {
                to.write(body.cast::<u64>().read_unaligned());
            } else if len > 0 {
                to.cast::<u8>().copy_from_nonoverlapping(body, len);
            }
            let first = first & 0xffff_ffff | (len as u64) << 32;
            (*line).first.store(first, Ordering::Release);
        }
        self.at.set(next);
        self.sent.set(self.sent.get().wrapping_add(need));
    }
}

/// The receiving end.
pub(super) struct Reader {
    ring: NonNull<Ring>,
    /// The line of the next packet.
    at: u32,
    taken: u32,
    told: u32,
    world: u32,
}

impl Reader {
    /// The receiving end, once the sender has signed.
    ///
    /// # Safety
    /// As [`Writer::new`], for the receiver.
    pub(super) unsafe fn new(start: *mut u8) -> Option<Reader> {
        let ring = NonNull::new(start.cast::<Ring>())?;
        // SAFETY: the caller's duty.
        let sender = unsafe { ring.as_ref() }.sender.0.load(Ordering::Acquire);
        let world = sender.checked_sub(1)?;
        Some(Reader { ring, at: 0, taken: 0, told: 0, world })
    }

    /// Whether this is the receiving end of the ring at `start`.
    pub(super) fn reads(&self, start: *mut u8) -> bool {
        self.ring.as_ptr().cast() == start
    }

    /// World rank of the sender.
    pub(super) fn world(&self) -> u32 {
        self.world
    }

    /// Whether a packet is there.
    #[inline]
    pub(super) fn has_some(&self) -> bool {
        // SAFETY: `at` is a line of the ring, which is mapped.
        let line = unsafe { &self.ring.as_ref().lines[self.at as usize] };
        line.first.load(Ordering::Acquire) != 0
    }

    /// Hands out at most `most` packets, head and body. How many they were.
    #[inline]
    pub(super) fn poll(&mut self, most: u32, mut take: impl FnMut(u64, [u64; 3], &[u8])) -> u32 {
        let mut count = 0;
        while count < most {
            // SAFETY: mapped as long as this lives.
            let line = unsafe { self.ring.as_ptr().as_ref().map(|r| &r.lines[self.at as usize]) };
            let Some(line) = line else { break };
            let first = line.first.load(Ordering::Acquire);
            if first == 0 {
                break;
            }
            if first == WRAP {
                self.taken = self.taken.wrapping_add(LINES - self.at);
                self.at = 0;
                continue;
            }
            let len = (first >> 32) as usize;
            let need = lines_of(len);
            if self.at + need >= LINES {
                // Not written by `Writer`: nothing behind it can be trusted.
                break;
            }
            // SAFETY: the sender does not touch these lines before they are
            // given back, which is after `take`.
            let (words, body) = unsafe {
                let words = (&raw const *line).cast::<u64>();
                let body = words.add(HEAD / 8).cast::<u8>();
                (
                    [words.add(1).read(), words.add(2).read(), words.add(3).read()],
                    std::slice::from_raw_parts(body, len),
                )
            };
            take(first, words, body);
            self.at += need;
            self.taken = self.taken.wrapping_add(need);
            count += 1;
            if self.taken.wrapping_sub(self.told) >= LAG {
                self.tell();
            }
        }
        count
    }

    fn tell(&mut self) {
        self.told = self.taken;
        // SAFETY: mapped as long as this lives.
        unsafe { self.ring.as_ref() }.taken.0.store(self.taken, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::alloc::{Layout, alloc_zeroed, dealloc};

    struct Memory(*mut u8);

    impl Memory {
        fn new() -> Memory {
            let layout = Layout::new::<Ring>();
            // SAFETY: of a size that is not 0.
            Memory(unsafe { alloc_zeroed(layout) })
        }
    }

    impl Drop for Memory {
        fn drop(&mut self) {
            // SAFETY: from `alloc_zeroed` with this layout.
            unsafe { dealloc(self.0, Layout::new::<Ring>()) };
        }
    }

    fn body(n: u64, len: usize) -> Vec<u8> {
        (0..len).map(|i| (n as usize * 31 + i * 7) as u8).collect()
    }

    fn first(n: u64) -> u64 {
        (1 + n % 4) | ((n & 0xff) << 8)
    }

    fn words(n: u64) -> [u64; 3] {
        [n, n * n, !n]
    }

    #[test]
    fn nothing_is_lost_between_threads() {
        let memory = Memory::new();
        // SAFETY: zeroed memory of a ring with one sender and one receiver.
        let (writer, mut reader) = unsafe {
            let writer = Writer::new(memory.0, 6).unwrap();
            (writer, Reader::new(memory.0).unwrap())
        };
        assert_eq!(reader.world(), 6);
        struct Sent(Writer);
        // SAFETY: moved to the one thread that sends.
        unsafe impl Send for Sent {}
        let sent = Sent(writer);
        let lengths = |n: u64| [0, 8, 31, 32, 33, 500, LONGEST, 1][(n % 8) as usize];
        std::thread::scope(|s| {
            s.spawn(move || {
                let sent = sent;
                for n in 0..20_000 {
                    let bytes = body(n, lengths(n));
                    // SAFETY: `bytes` is readable.
                    while !unsafe { sent.0.put(first(n), words(n), bytes.as_ptr(), bytes.len()) } {
                        std::thread::yield_now();
                    }
                }
            });
            let mut due = 0;
            while due < 20_000 {
                let got = reader.poll(16, |got, head, bytes| {
                    assert_eq!(got as u32, first(due) as u32);
                    assert_eq!(head, words(due));
                    assert!(bytes == body(due, lengths(due)), "packet {due}");
                    due += 1;
                });
                if got == 0 {
                    std::thread::yield_now();
                }
            }
        });
        assert!(!reader.has_some());
    }

    proptest! {
        #[test]
        fn comes_out_as_a_queue(steps in prop::collection::vec((0..=LONGEST, 0..4_u32), 1..200)) {
            let memory = Memory::new();
            // SAFETY: zeroed memory of a ring with one sender and one receiver.
            let (writer, mut reader) = unsafe {
                let writer = Writer::new(memory.0, 0).unwrap();
                (writer, Reader::new(memory.0).unwrap())
            };
            let mut queue = std::collections::VecDeque::new();
            for (n, (len, take)) in steps.into_iter().enumerate() {
                let len = if n % 3 == 0 { len } else { len % 100 };
                let bytes = body(n as u64, len);
                // SAFETY: `bytes` is readable.
                if unsafe { writer.put(first(n as u64), words(n as u64), bytes.as_ptr(), len) } {
                    queue.push_back((n as u64, len));
                } else {
                    prop_assert!(!queue.is_empty(), "an empty ring has room");
                }
                reader.poll(take, |_, words, got| {
                    let (n, len) = queue.pop_front().unwrap();
                    assert_eq!(words[0], n);
                    assert!(got == body(n, len));
                });
            }
            let mut empty = 0;
            while empty == 0 {
                empty = u32::from(reader.poll(8, |_, words, _| {
                    assert_eq!(words[0], queue.pop_front().unwrap().0);
                }) == 0);
            }
            prop_assert!(queue.is_empty());
        }
    }
}
