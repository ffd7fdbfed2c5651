//! A ring of packets in shared memory, from one process to another.
//!
//! ```text
//! line 0       taken: slots the receiver gave back, written by it now and then
//! line 1       sender: world rank + 1, written once
//! line 2 ...   packets: head and body, each from the start of a slot of 32 bytes
//! ```
//!
//! The first word of a packet is its flag: class, kind and length, never 0, and
//! which lap of the ring it is of. The sender writes the packet, and its first
//! word last; the receiver looks at that word only. What it finds behind the
//! last packet is of the lap before, so nothing was written there for it to
//! fetch, and no line is moved twice. Only where a long packet's body lay a lap
//! ago the sender clears the word first. A packet of at most 8 bytes whose last
//! word is 0 has them in that word's place: two of them share a cache line. A
//! full ring is the only time the sender looks at the receiver's count.
//!
//! One sender, one receiver, no lock: whichever dies, the other goes on.
//!
//! # Contracts
//! - **\[RING\]** The start is that of a ring of [`BYTES`], zeroed when it was made, at
//!   a multiple of 64, which is mapped as long as its ends live; there is no other
//!   sender, and no other receiver.
//! - **\[BODY\]** A body is readable for `len` bytes, at most [`LONGEST`].

use crate::netmod::HEAD;
use std::cell::{Cell, UnsafeCell};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Bytes of a ring; a multiple of the page.
pub(super) const BYTES: usize = 64 << 10;
/// The longest body. Two such packets and the end of the ring that the second
/// one leaves out are half a ring, so the count may lag behind by a quarter.
pub(super) const LONGEST: usize = 16 * 1024 - HEAD;

const SLOT: usize = 32;
const LINE: usize = 64;
const SLOTS: u32 = ((BYTES - 2 * LINE) / SLOT) as u32;
/// Slots the receiver keeps before it gives them back.
const LAG: u32 = SLOTS / 4;
/// In the first word: turns over with each lap, 0 in the first.
const LAP: u64 = 1 << 63;
/// In the first word: the body is in the place of the third word.
const SHORT: u64 = 1 << 62;
/// The longest body of such a packet.
const SHORT_BYTES: usize = 8;
/// How far ahead the sender asks for lines, which the receiver had last: far
/// enough that none is asked for that the receiver looks at.
const AHEAD: usize = 8;
/// Instead of a packet: go on at the first slot. No packet's class.
const WRAP: u64 = 0xff;

#[repr(C, align(32))]
struct Slot {
    first: AtomicU64,
    /// Written by the sender while the slot is its own.
    _rest: UnsafeCell<[u8; SLOT - 8]>,
}

#[repr(C)]
struct Ring {
    taken: Count,
    sender: Count,
    slots: [Slot; SLOTS as usize],
}

#[repr(C, align(64))]
struct Count(AtomicU32);

/// What the next slot holds was not written by a [`Writer`]: nothing behind it
/// can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Corrupt;

const _: () = assert!(size_of::<Ring>() == BYTES && SLOT == HEAD);

fn slots_of(len: usize) -> u32 {
    (HEAD + len).div_ceil(SLOT) as u32
}

/// The slots of a ring, by a pointer that reaches all of them: a body lies in
/// several.
#[inline(always)]
fn slots_in(ring: NonNull<Ring>) -> *mut Slot {
    // SAFETY: a place within the ring, which is mapped as long as its ends live.
    unsafe { (&raw mut (*ring.as_ptr()).slots).cast::<Slot>() }
}

/// Asks for a cache line that will be written: the store finds it there.
#[inline(always)]
fn own_soon<T>(at: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a hint; it changes nothing, and no address is a wrong one.
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) at, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = at;
}

/// The sending end.
pub(super) struct Writer {
    ring: NonNull<Ring>,
    /// The slot of the next packet.
    at: Cell<u32>,
    /// The lap's bit.
    lap: Cell<u64>,
    /// Slots used so far, those left out at the end too; wraps.
    sent: Cell<u32>,
    /// What `taken` was when last looked at.
    taken: Cell<u32>,
    /// Until `sent` is this the first words of slots may be anything: for a lap
    /// behind a packet of several slots. (Only for such a one the end of a lap is
    /// left out, where flags of laps before stay.)
    soiled: Cell<u32>,
}

impl Writer {
    /// The sending end of a ring nobody sent through yet.
    ///
    /// # Safety
    /// \[RING\], of which this is the sender.
    pub(super) unsafe fn new(start: *mut u8, peer: u32) -> Option<Writer> {
        let ring = NonNull::new(start.cast::<Ring>())?;
        // SAFETY: [RING].
        unsafe { &(*ring.as_ptr()).sender.0 }.store(peer + 1, Ordering::Release);
        Some(Writer {
            ring,
            at: Cell::new(0),
            lap: Cell::new(0),
            sent: Cell::new(0),
            taken: Cell::new(0),
            soiled: Cell::new(0),
        })
    }

    /// Writes a packet, whose head's first word has its class and kind in the
    /// lower half; `false`: there is no space now.
    ///
    /// # Safety
    /// \[BODY\].
    #[inline]
    pub(super) unsafe fn put(
        &self,
        first: u64,
        words: [u64; 3],
        body: *const u8,
        len: usize,
    ) -> bool {
        // SAFETY: [BODY], and the slots' memory is apart from it.
        let copy = |to: *mut u8| unsafe {
            if len == 8 {
                to.cast::<u64>().write(body.cast::<u64>().read_unaligned());
            } else if len > 0 {
                to.copy_from_nonoverlapping(body, len);
            }
        };
        // SAFETY: [BODY].
        unsafe { self.put_with(first, words, len, copy) }
    }

    /// The same, of `len` bytes that `fill` writes to where it is told, which is a
    /// multiple of 8 and this side's alone.
    ///
    /// # Safety
    /// `len` is at most [`LONGEST`], and `fill` writes no more.
    #[inline(always)]
    pub(super) unsafe fn put_with(
        &self,
        first: u64,
        words: [u64; 3],
        len: usize,
        fill: impl FnOnce(*mut u8),
    ) -> bool {
        let short = words[2] == 0 && len <= SHORT_BYTES;
        let need = if short { 1 } else { slots_of(len) };
        let at = self.at.get();
        // One slot more: the one behind the packet is the sender's too.
        let free = SLOTS - self.sent.get().wrapping_sub(self.taken.get());
        if (at + need >= SLOTS || need >= free) && !self.make_space(need) {
            return false;
        }
        let (at, sent) = (self.at.get(), self.sent.get().wrapping_add(need));
        // SAFETY: [RING]: the slots from `at` and one behind are this side's.
        unsafe {
            let slots = slots_in(self.ring);
            if self.soiled.get().wrapping_sub(sent) as i32 > 0 {
                (*slots.add((at + need) as usize)).first.store(0, Ordering::Relaxed);
            }
            let slot = slots.add(at as usize);
            let to = slot.cast::<u64>();
            let mut flag = first & 0xffff_ffff | (len as u64) << 32 | self.lap.get();
            to.add(1).write(words[0]);
            to.add(2).write(words[1]);
            let start = if short {
                flag |= SHORT;
                to.add(3)
            } else {
                to.add(3).write(words[2]);
                self.soiled.set(sent.wrapping_add(SLOTS));
                to.add(HEAD / 8)
            };
            fill(start.cast());
            (*slot).first.store(flag, Ordering::Release);
            own_soon(slot.wrapping_add(AHEAD));
        }
        self.at.set(at + need);
        self.sent.set(sent);
        true
    }

    /// Asks how much was taken; begins the next lap where the rest of this one is
    /// too short.
    #[cold]
    #[inline(never)]
    fn make_space(&self, need: u32) -> bool {
        let at = self.at.get();
        // SAFETY: mapped as long as this lives.
        let taken = unsafe { &(*self.ring.as_ptr()).taken.0 };
        let taken = taken.load(Ordering::Acquire);
        if self.sent.get().wrapping_sub(taken) > SLOTS {
            // No receiver says so; the ring stays full.
            return false;
        }
        self.taken.set(taken);
        let free = SLOTS - self.sent.get().wrapping_sub(self.taken.get());
        let left_out = if at + need < SLOTS { 0 } else { SLOTS - at };
        if left_out + need >= free {
            return false;
        }
        if left_out > 0 {
            let lap = self.lap.get();
            // SAFETY: a slot of this side.
            let first = unsafe { &(*slots_in(self.ring).add(at as usize)).first };
            first.store(WRAP | lap, Ordering::Release);
            self.sent.set(self.sent.get().wrapping_add(left_out));
            self.at.set(0);
            self.lap.set(lap ^ LAP);
        }
        true
    }
}

/// The receiving end.
pub(super) struct Reader {
    ring: NonNull<Ring>,
    /// The slot of the next packet.
    at: u32,
    /// The lap's bit.
    lap: u64,
    taken: u32,
    told: u32,
    peer: u32,
}

impl Reader {
    /// The receiving end, once the sender has signed.
    ///
    /// # Safety
    /// \[RING\], of which this is the receiver.
    pub(super) unsafe fn new(start: *mut u8) -> Option<Reader> {
        let ring = NonNull::new(start.cast::<Ring>())?;
        // SAFETY: [RING].
        let sender = unsafe { &(*ring.as_ptr()).sender.0 }.load(Ordering::Acquire);
        let peer = sender.checked_sub(1)?;
        Some(Reader { ring, at: 0, lap: 0, taken: 0, told: 0, peer })
    }

    /// Returns true if this is the receiving end of the ring at `start`.
    pub(super) fn reads(&self, start: *mut u8) -> bool {
        self.ring.as_ptr().cast() == start
    }

    /// World rank of the sender.
    pub(super) fn peer(&self) -> u32 {
        self.peer
    }

    /// The first word of the next packet, without the lap, and where it is.
    #[inline]
    fn next(&self) -> Option<(u64, *const u64)> {
        // SAFETY: `at` is a slot of the ring, which is mapped.
        let slot = unsafe { slots_in(self.ring).add(self.at as usize) };
        // SAFETY: as above; of the slot itself there is no reference, so that
        // the pointer reaches what lies behind it too.
        let first = unsafe { &(*slot).first }.load(Ordering::Acquire) ^ self.lap;
        // Of the lap before: negative. Never written: 0, or that.
        (first as i64 > 0).then_some((first, slot.cast::<u64>().cast_const()))
    }

    /// Returns true if a packet is there.
    #[inline]
    pub(super) fn has_some(&self) -> bool {
        self.next().is_some()
    }

    /// Hands out at most `most` packets, head and body. How many they were.
    ///
    /// # Errors
    /// [`Corrupt`], also where `take` says that a head is none. Those before
    /// were handed out; this must not be polled any more.
    #[inline]
    pub(super) fn poll(
        &mut self,
        most: u32,
        mut take: impl FnMut(u64, [u64; 3], &[u8]) -> bool,
    ) -> Result<u32, Corrupt> {
        let mut count = 0;
        while count < most {
            let Some((first, words)) = self.next() else { break };
            if first == WRAP {
                self.begin_lap()?;
                continue;
            }
            let len = ((first & !SHORT) >> 32) as usize;
            let short = first & SHORT != 0;
            let need = if short { 1 } else { slots_of(len) };
            if self.at + need >= SLOTS || len > if short { SHORT_BYTES } else { LONGEST } {
                return Err(Corrupt);
            }
            // SAFETY: the sender does not touch these slots before they are
            // given back, which is after `take`.
            let (words, body) = unsafe {
                let body = words.add(if short { 3 } else { HEAD / 8 });
                let third = if short { 0 } else { words.add(3).read() };
                (
                    [words.add(1).read(), words.add(2).read(), third],
                    std::slice::from_raw_parts(body.cast(), len),
                )
            };
            if !take(first, words, body) {
                return Err(Corrupt);
            }
            self.at += need;
            self.taken = self.taken.wrapping_add(need);
            count += 1;
            if self.taken.wrapping_sub(self.told) >= LAG {
                self.tell();
            }
        }
        Ok(count)
    }

    /// Goes on at the first slot.
    fn begin_lap(&mut self) -> Result<(), Corrupt> {
        // No packet is so long that the sender leaves out more.
        if self.at + slots_of(LONGEST) < SLOTS {
            return Err(Corrupt);
        }
        self.taken = self.taken.wrapping_add(SLOTS - self.at);
        self.at = 0;
        self.lap ^= LAP;
        Ok(())
    }

    fn tell(&mut self) {
        self.told = self.taken;
        // SAFETY: mapped as long as this lives.
        unsafe { &(*self.ring.as_ptr()).taken.0 }.store(self.taken, Ordering::Release);
    }
}

/// A ring whose sender does as `script` says, and writes what it likes.
#[cfg(fuzzing)]
pub(crate) fn fuzz(script: &[u8]) {
    use std::alloc::{Layout, alloc_zeroed, dealloc};
    let layout = Layout::new::<Ring>();
    // SAFETY: of a size that is not 0; zeroed memory of a ring with one sender
    // and one receiver, freed when both are gone.
    let memory = unsafe { alloc_zeroed(layout) };
    // SAFETY: as above.
    let ends = unsafe { Writer::new(memory, 3).zip(Reader::new(memory)) };
    let Some((writer, mut reader)) = ends else { return };
    let body = [7_u8; LONGEST];
    let (mut corrupt, mut sum) = (false, 0_u64);
    for step in script.chunks(8) {
        let word = step.iter().rev().fold(0_u64, |word, &byte| word << 8 | u64::from(byte));
        let (what, at, value) = (word & 7, (word >> 8) as u32 % SLOTS, word >> 24);
        // SAFETY: `body` is as long as the longest; words of the ring.
        unsafe {
            let slots = slots_in(reader.ring);
            match what {
                0..4 => {
                    let len = (value as usize) % (LONGEST + 1);
                    writer.put(2 | u64::from(at) << 8, [value, 0, what & 1], body.as_ptr(), len);
                }
                4 => (*slots.add(at as usize)).first.store(word, Ordering::Relaxed),
                5 => (*slots.add(at as usize)).first.store(value << 32 | 2, Ordering::Relaxed),
                6 => {
                    let first = &(*slots.add(reader.at as usize)).first;
                    first.store(word >> 3 ^ reader.lap, Ordering::Relaxed);
                }
                _ => (*reader.ring.as_ptr()).taken.0.store(value as u32, Ordering::Relaxed),
            }
        }
        if !corrupt {
            let polled = reader.poll(at % 9, |first, words, body| {
                sum ^= first ^ words[1] ^ body.iter().map(|&b| u64::from(b)).sum::<u64>();
                first as u8 != 0xee
            });
            corrupt = polled.is_err();
        }
    }
    std::hint::black_box(sum);
    // SAFETY: from `alloc_zeroed` with this layout.
    unsafe { dealloc(memory, layout) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::alloc::{Layout, alloc_zeroed, dealloc};

    const BURST: u64 = if cfg!(miri) { 12 } else { 600 };
    const STEPS: usize = if cfg!(miri) { 5 } else { 60 };

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

    /// Packets between two threads: fewer under Miri, which is slow.
    const MANY: u64 = if cfg!(miri) { 64 } else { 20_000 };
    const LONG: usize = if cfg!(miri) { 200 } else { LONGEST };

    fn body(n: u64, len: usize) -> Vec<u8> {
        (0..len).map(|i| (n as usize * 31 + i * 7) as u8).collect()
    }

    fn first(n: u64) -> u64 {
        (1 + n % 4) | ((n & 0xff) << 8)
    }

    /// Every other packet may be a short one.
    fn words(n: u64) -> [u64; 3] {
        [n, n * n, if n.is_multiple_of(2) { 0 } else { !n }]
    }

    #[test]
    fn nothing_is_lost_between_threads() {
        let memory = Memory::new();
        // SAFETY: zeroed memory of a ring with one sender and one receiver.
        let (writer, mut reader) = unsafe {
            let writer = Writer::new(memory.0, 6).unwrap();
            (writer, Reader::new(memory.0).unwrap())
        };
        assert_eq!(reader.peer(), 6);
        struct Sent(Writer);
        // SAFETY: moved to the one thread that sends.
        unsafe impl Send for Sent {}
        let sent = Sent(writer);
        // Laps of short ones, laps of all sorts.
        let lengths = |n: u64| match n / (MANY / 4) % 2 {
            0 => (n % 9) as usize,
            _ => [0, 8, 31, 32, 33, 500, LONG, 1][(n % 8) as usize],
        };
        std::thread::scope(|s| {
            s.spawn(move || {
                let sent = sent;
                for n in 0..MANY {
                    let bytes = body(n, lengths(n));
                    // SAFETY: `bytes` is readable.
                    while !unsafe { sent.0.put(first(n), words(n), bytes.as_ptr(), bytes.len()) } {
                        std::thread::yield_now();
                    }
                }
            });
            let mut due = 0;
            while due < MANY {
                let got = reader.poll(16, |got, head, bytes| {
                    assert_eq!(got as u32, first(due) as u32);
                    assert_eq!(head, words(due));
                    assert!(bytes == body(due, lengths(due)), "packet {due}");
                    due += 1;
                    true
                });
                let got = got.unwrap();
                if got == 0 {
                    std::thread::yield_now();
                }
            }
        });
        assert!(!reader.has_some());
    }

    /// A ring with one packet in it, taken, and whatever is written behind it.
    fn behind_a_packet(garbage: &[u64]) -> Result<u32, Corrupt> {
        let memory = Memory::new();
        // SAFETY: zeroed memory of a ring with one sender and one receiver.
        let (writer, mut reader) = unsafe {
            let writer = Writer::new(memory.0, 0).unwrap();
            (writer, Reader::new(memory.0).unwrap())
        };
        // SAFETY: `LONG` readable bytes; slots of the ring.
        unsafe {
            assert!(writer.put(first(0), words(1), body(0, LONG).as_ptr(), 9));
            let slots = slots_in(reader.ring).cast::<u64>();
            slots.add(8).copy_from_nonoverlapping(garbage.as_ptr(), garbage.len());
        }
        assert_eq!(reader.poll(1, |_, _, got| got == body(0, 9)), Ok(1));
        reader.poll(8, |first, _, _| first as u8 != 0xee)
    }

    #[test]
    fn what_no_sender_writes_is_an_error_and_is_not_read() {
        // A body past the end of the ring, one past the longest, a short packet
        // that is long, the end of a lap where there is none, no class.
        let len = |len: usize| (len as u64) << 32 | 2;
        for word in [
            len(BYTES),
            len(LONGEST + 1),
            len((1 << 30) - 1),
            SHORT | len(9),
            SHORT | len(BYTES),
            WRAP,
            0xee,
        ] {
            assert_eq!(behind_a_packet(&[word]), Err(Corrupt), "{word:#x}");
        }
        assert_eq!(behind_a_packet(&[0]), Ok(0));
        assert_eq!(behind_a_packet(&[LAP | 2]), Ok(0));
        assert_eq!(behind_a_packet(&[len(8), 1, 2, 3, 4]), Ok(1));
    }

    #[test]
    fn what_is_left_out_is_not_read_two_laps_later() {
        let memory = Memory::new();
        // SAFETY: zeroed memory of a ring with one sender and one receiver.
        let (writer, mut reader) = unsafe {
            let writer = Writer::new(memory.0, 0).unwrap();
            (writer, Reader::new(memory.0).unwrap())
        };
        let bytes = body(0, LONGEST);
        let mut pass = |len| {
            // SAFETY: `bytes` is readable.
            assert!(unsafe { writer.put(first(0), words(0), bytes.as_ptr(), len) });
            assert_eq!(reader.poll(9, |_, _, got| got.len() == len), Ok(1));
        };
        (1..SLOTS).for_each(|_| pass(8));
        // The second lap leaves out where the first one had packets.
        (50..SLOTS).for_each(|_| pass(8));
        pass(LONGEST);
        (0..2 * SLOTS).for_each(|_| pass(8));
    }

    proptest! {
        #[test]
        fn comes_out_as_a_queue(
            // The longest of a burst, how many, how many are taken behind it.
            steps in prop::collection::vec((0..6_usize, 1..BURST, 0..900_u32), 1..STEPS)
        ) {
            let memory = Memory::new();
            // SAFETY: zeroed memory of a ring with one sender and one receiver.
            let (writer, mut reader) = unsafe {
                let writer = Writer::new(memory.0, 0).unwrap();
                (writer, Reader::new(memory.0).unwrap())
            };
            let mut queue = std::collections::VecDeque::new();
            let mut n = 0;
            for (longest, many, take) in steps {
                for _ in 0..many {
                    let len = (n as usize * 7919) % ([9, 9, 33, 100, 700, LONG + 1][longest]);
                    let bytes = body(n, len);
                    // SAFETY: `bytes` is readable.
                    if !unsafe { writer.put(first(n), words(n), bytes.as_ptr(), len) } {
                        prop_assert!(!queue.is_empty(), "an empty ring has space");
                        break;
                    }
                    queue.push_back((n, len));
                    n += 1;
                }
                let polled = reader.poll(take, |_, head, got| {
                    let (n, len) = queue.pop_front().unwrap();
                    head == words(n) && got == body(n, len)
                });
                prop_assert!(polled.is_ok());
            }
            let mut empty = 0;
            while empty == 0 {
                let polled = reader.poll(8, |_, words, _| words[0] == queue.pop_front().unwrap().0);
                empty = u32::from(polled == Ok(0));
                prop_assert!(polled.is_ok());
            }
            prop_assert!(queue.is_empty());
        }
    }
}
