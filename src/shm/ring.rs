//! A ring of packets in shared memory, from one process to another.
//!
//! ```text
//! line 0       taken: slots the receiver gave back, written by it now and then;
//!              role and place, where several processes may be the receiver
//! line 1       sender: world rank + 1, written once (again, by another, once the ring was renewed)
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

mod asked;
mod renewed;

pub(crate) use asked::Asked;
pub(crate) use renewed::{clear, renew, sender, take};

use super::word::Word;
use std::cell::{Cell, UnsafeCell};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Bytes of a packet's head.
const HEAD: usize = 32;

/// Bytes of a ring; a multiple of the page.
pub(crate) const BYTES: usize = 64 << 10;
/// The longest body. Two such packets and the end of the ring that the second
/// one leaves out are half a ring, so the count may lag behind by a quarter.
pub(crate) const LONGEST: usize = 16 * 1024 - HEAD;

const SLOT: usize = 32;
const LINE: usize = 64;
const SLOTS: u32 = ((BYTES - 2 * LINE) / SLOT) as u32;
/// Slots the receiver keeps before it gives them back.
const LAG: u32 = SLOTS / 4;
/// In the first word: turns over with each lap, 0 in the first.
const LAP: u64 = 1 << 63;
/// In the first word: the body is in the place of the third word.
const SHORT: u64 = 1 << 62;
/// In the first word, written by the receiver: the body is what was asked for.
const ANSWERED: u64 = 1 << 61;
/// The longest body of such a packet.
const SHORT_BYTES: usize = Word::BYTES;
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
    received: Received,
    sender: Count,
    slots: [Slot; SLOTS as usize],
}

/// The receiver's line.
#[repr(C, align(64))]
struct Received {
    taken: AtomicU32,
    /// The process that receives now, 0 for none ([`SharedReader`]).
    role: AtomicU32,
    /// Where the next who receives goes on: lap and slot.
    place: AtomicU64,
    /// Packets that could not be carried out; wraps.
    refused: AtomicU32,
}

#[repr(C, align(64))]
struct Count(AtomicU32);

/// What the next slot holds was not written by a [`Writer`]: nothing behind it
/// can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Corrupt;

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
pub(crate) struct Writer {
    ring: NonNull<Ring>,
    /// The slot of the next packet.
    at: Cell<u32>,
    /// The lap's bit.
    lap: Cell<u64>,
    /// Slots used so far, those left out at the end too; wraps.
    sent: Cell<u32>,
    /// The same when the lap began, and with what has wrapped.
    lap_began: Cell<(u32, u64)>,
    /// Slots from `at` on that are known to be free; the one behind them is the
    /// sender's too.
    space: Cell<u32>,
    /// Slots from this count on are not used again yet ([`Writer::hold`]).
    held: Cell<Option<u32>>,
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
    pub(crate) unsafe fn new(start: *mut u8, peer: u32) -> Option<Writer> {
        let ring = NonNull::new(start.cast::<Ring>())?;
        // SAFETY: [RING].
        unsafe { &(*ring.as_ptr()).sender.0 }.store(peer + 1, Ordering::Release);
        Some(Writer {
            ring,
            at: Cell::new(0),
            lap: Cell::new(0),
            sent: Cell::new(0),
            lap_began: Cell::new((0, 0)),
            space: Cell::new(SLOTS - 1),
            held: Cell::new(None),
            soiled: Cell::new(0),
        })
    }

    /// Writes a packet, whose head's first word has its class and kind in the
    /// lower half; `false`: there is no space now.
    ///
    /// # Safety
    /// \[BODY\].
    #[inline(always)]
    pub(crate) unsafe fn put(
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
    pub(crate) unsafe fn put_with(
        &self,
        first: u64,
        words: [u64; 3],
        len: usize,
        fill: impl FnOnce(*mut u8),
    ) -> bool {
        let short = words[2] == 0 && len <= SHORT_BYTES;
        let need = if short { 1 } else { slots_of(len) };
        if !self.has_space(need) && !self.make_space(need) {
            return false;
        }
        // SAFETY: there is space; `fill` as it is asked for.
        unsafe { self.write(first, words, len, short, fill) };
        true
    }

    /// Writes a packet whose body is short, where its space is known; calls nothing.
    /// `false`: [`Writer::put`] may find some.
    #[inline(always)]
    pub(crate) fn put_word(&self, first: u64, words: [u64; 2], body: Word) -> bool {
        if !self.has_space(1) {
            return false;
        }
        // SAFETY: writes a word, for which a short packet has space.
        let fill = |to: *mut u8| unsafe { to.cast::<u64>().write(body.bytes()) };
        // SAFETY: there is space, and of one slot it takes what is short.
        unsafe { self.write(first, [words[0], words[1], 0], body.len(), true, fill) };
        true
    }

    /// Returns true if so many slots are known to be free.
    #[inline(always)]
    fn has_space(&self, need: u32) -> bool {
        need <= self.space.get()
    }

    /// # Safety
    /// There is space ([`Writer::has_space`]) for the packet, which is `short` if its
    /// last word is 0 and its body fits that word; as [`Writer::put_with`].
    #[inline(always)]
    unsafe fn write(
        &self,
        first: u64,
        words: [u64; 3],
        len: usize,
        short: bool,
        fill: impl FnOnce(*mut u8),
    ) {
        let need = if short { 1 } else { slots_of(len) };
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
        self.space.set(self.space.get() - need);
    }

    /// A packet whose body of `len` bytes the receiver writes, over what `fill` has written.
    /// To be read when it is answered, until when [`Writer::hold`] has to keep the slots,
    /// from the count before.
    ///
    /// # Safety
    /// As [`Writer::put_with`].
    pub(crate) unsafe fn ask(
        &self,
        first: u64,
        words: [u64; 3],
        len: usize,
        fill: impl FnOnce(*mut u8),
    ) -> Option<Asked> {
        let mut asked = None;
        let fill = |to: *mut u8| {
            asked = Some(Asked(to));
            fill(to);
        };
        // SAFETY: the caller's.
        unsafe { self.put_with(first, words, len, fill) }.then_some(asked).flatten()
    }

    /// Whether a packet that was sent before the count `end` is answered; `None` where it may
    /// yet be. (What is taken and not answered then was refused.)
    ///
    /// # Safety
    /// The packet's slots are held.
    #[inline]
    pub(crate) unsafe fn answered(&self, asked: Asked, end: u32) -> Option<bool> {
        // SAFETY: the caller's.
        let answered = || unsafe { asked.is_answered() };
        if answered() {
            return Some(true);
        }
        self.has_taken(end).then(answered)
    }

    /// Keeps slots from a count of [`Writer::sent`] on as they are when they were taken,
    /// `None` no longer any. To be called before the next packet.
    pub(crate) fn hold(&self, from: Option<u32>) {
        self.held.set(from);
    }

    /// Slots used so far; wraps.
    pub(crate) fn sent(&self) -> u32 {
        self.sent.get()
    }

    /// [`Writer::sent`] that does not wrap.
    pub(crate) fn sent_ever(&self) -> u64 {
        let (began, ever) = self.lap_began.get();
        ever + u64::from(self.sent.get().wrapping_sub(began))
    }

    /// Slots that the receiver has given back; wraps. A [`SharedReader`] gives back all
    /// that it has taken when it gives back its role.
    pub(crate) fn returned(&self) -> u32 {
        // SAFETY: mapped as long as this lives.
        unsafe { &(*self.ring.as_ptr()).received.taken }.load(Ordering::Acquire)
    }

    /// Returns true if what was sent when `sent` was the count has been taken.
    pub(crate) fn has_taken(&self, sent: u32) -> bool {
        self.returned().wrapping_sub(sent) as i32 >= 0
    }

    /// Returns true if everything that was sent has been taken.
    #[inline]
    pub(crate) fn is_drained(&self) -> bool {
        self.returned() == self.sent.get()
    }

    /// Asks how much was taken; begins the next lap where the rest of this one is
    /// too short.
    #[cold]
    #[inline(never)]
    fn make_space(&self, need: u32) -> bool {
        let at = self.at.get();
        // SAFETY: mapped as long as this lives.
        let taken = unsafe { &(*self.ring.as_ptr()).received.taken };
        let taken = taken.load(Ordering::Acquire);
        if self.sent.get().wrapping_sub(taken) > SLOTS {
            // No receiver says so; the ring stays full.
            return false;
        }
        let held = self.held.get().filter(|held| taken.wrapping_sub(*held) as i32 > 0);
        let taken = held.unwrap_or(taken);
        let free = SLOTS - self.sent.get().wrapping_sub(taken);
        let left_out = if at + need < SLOTS { 0 } else { SLOTS - at };
        if left_out + need >= free {
            self.space.set((SLOTS - 1 - at).min(free.saturating_sub(1)));
            return false;
        }
        if left_out > 0 {
            let lap = self.lap.get();
            // SAFETY: a slot of this side.
            let first = unsafe { &(*slots_in(self.ring).add(at as usize)).first };
            first.store(WRAP | lap, Ordering::Release);
            self.sent.set(self.sent.get().wrapping_add(left_out));
            self.lap_began.set((self.sent.get(), self.sent_ever()));
            self.at.set(0);
            self.lap.set(lap ^ LAP);
        }
        self.space.set((SLOTS - 1 - self.at.get()).min(free - 1 - left_out));
        true
    }
}

/// The receiving end.
pub(crate) struct Reader {
    ring: NonNull<Ring>,
    /// The slot of the next packet.
    at: u32,
    /// The lap's bit.
    lap: u64,
    taken: u32,
    told: u32,
    /// World rank of the sender.
    peer: u32,
}

impl Reader {
    /// The receiving end, once the sender has signed.
    ///
    /// # Safety
    /// \[RING\], of which this is the receiver.
    pub(crate) unsafe fn new(start: *mut u8) -> Option<Reader> {
        let ring = NonNull::new(start.cast::<Ring>())?;
        // SAFETY: [RING].
        let peer = unsafe { sender(start) }?;
        Some(Reader { ring, at: 0, lap: 0, taken: 0, told: 0, peer })
    }

    /// Where the ring is.
    pub(crate) fn start(&self) -> *mut u8 {
        self.ring.as_ptr().cast()
    }

    /// World rank of the sender, or what it signed with.
    pub(crate) fn peer(&self) -> u32 {
        self.peer
    }

    /// The sender has another number here than it signed with.
    pub(crate) fn set_peer(&mut self, peer: u32) {
        self.peer = peer;
    }

    /// The first word of the next packet.
    pub(crate) fn peek(&self) -> Option<u64> {
        self.next().map(|(first, _)| first)
    }

    /// The first word of the next packet, without the lap, and where it is.
    #[inline]
    fn next(&self) -> Option<(u64, *mut u64)> {
        // SAFETY: `at` is a slot of the ring, which is mapped.
        let slot = unsafe { slots_in(self.ring).add(self.at as usize) };
        // SAFETY: as above; of the slot itself there is no reference, so that
        // the pointer reaches what lies behind it too.
        let first = unsafe { &(*slot).first }.load(Ordering::Acquire) ^ self.lap;
        // Of the lap before: negative. Never written: 0, or that.
        (first as i64 > 0).then_some((first, slot.cast::<u64>()))
    }

    /// Returns true if a packet is there.
    #[inline]
    pub(crate) fn has_some(&self) -> bool {
        self.next().is_some()
    }

    /// Hands out at most `most` packets, head and body. How many they were.
    ///
    /// # Errors
    /// [`Corrupt`], also where `take` says that a head is none. Those before
    /// were handed out; this must not be polled any more.
    #[inline]
    pub(crate) fn poll(
        &mut self,
        most: u32,
        mut take: impl FnMut(u64, [u64; 3], &[u8]) -> bool,
    ) -> Result<u32, Corrupt> {
        self.poll_places(most, |first, words, body, len| {
            // SAFETY: the sender does not touch these slots before they are given back,
            // which is after `take`.
            take(first, words, unsafe { std::slice::from_raw_parts(body, len) })
        })
    }

    /// The same with the place of the body, which is the receiver's to write to within
    /// `take`, and its length.
    ///
    /// # Errors
    /// The same.
    #[inline]
    pub(crate) fn poll_places(
        &mut self,
        most: u32,
        mut take: impl FnMut(u64, [u64; 3], *mut u8, usize) -> bool,
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
                ([words.add(1).read(), words.add(2).read(), third], body.cast())
            };
            if !take(first, words, body, len) {
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
        unsafe { &(*self.ring.as_ptr()).received.taken }.store(self.taken, Ordering::Release);
    }
}

/// The receiving end of a ring that several processes may receive from, one at a
/// time: whoever has the role. Who died with it keeps it; nobody else may go on with
/// what that one had begun.
pub(crate) struct SharedReader {
    ring: NonNull<Ring>,
    /// In the role word.
    me: u32,
}

/// Who receives now; gives the role back when dropped.
pub(crate) struct Role<'a> {
    of: &'a SharedReader,
    pub(crate) reader: Reader,
    /// What the role word is then.
    next: u32,
}

/// In the role word: nobody receives now.
const NOBODY: u32 = 0;
/// In the role word: nobody will any more.
const SHUT: u32 = u32::MAX;

impl SharedReader {
    /// The receiving end, once the sender has signed, as process `me` (not 0) has it.
    ///
    /// # Safety
    /// \[RING\], but that others may receive by such an end too.
    pub(crate) unsafe fn new(start: *mut u8, me: u32) -> Option<SharedReader> {
        // SAFETY: [RING].
        let reader = unsafe { Reader::new(start) }?;
        Some(SharedReader { ring: reader.ring, me })
    }

    fn received(&self) -> &Received {
        // SAFETY: mapped as long as this lives.
        unsafe { &(*self.ring.as_ptr()).received }
    }

    /// The receiving end as whoever had the role last left it.
    fn reader(&self) -> Reader {
        let place = self.received().place.load(Ordering::Relaxed);
        let taken = self.received().taken.load(Ordering::Relaxed);
        // (Peers can write there: not beyond the last slot, whatever it says.)
        let at = (place as u32).min(SLOTS - 1);
        Reader { ring: self.ring, at, lap: place & LAP, taken, told: taken, peer: 0 }
    }

    /// Returns true if a packet is there, or was a moment ago.
    #[inline]
    pub(crate) fn has_some(&self) -> bool {
        self.reader().has_some()
    }

    /// Returns true if somebody receives now, or nobody will any more.
    pub(crate) fn is_taken(&self) -> bool {
        self.received().role.load(Ordering::Relaxed) != NOBODY
    }

    /// Returns true if nobody will receive any more ([`Role::shut`]).
    pub(crate) fn is_shut(&self) -> bool {
        self.received().role.load(Ordering::Relaxed) == SHUT
    }

    /// Times that [`Role::refuse`] was called; wraps.
    pub(crate) fn refused(&self) -> u32 {
        self.received().refused.load(Ordering::Relaxed)
    }

    /// Takes the role; `Err` has the process that has it.
    pub(crate) fn take(&self) -> Result<Role<'_>, u32> {
        let role = &self.received().role;
        role.compare_exchange(NOBODY, self.me, Ordering::Acquire, Ordering::Relaxed)?;
        Ok(Role { of: self, reader: self.reader(), next: NOBODY })
    }
}

impl Role<'_> {
    /// Something that was taken could not be done, which the sender hears of.
    pub(crate) fn refuse(&self) {
        self.of.received().refused.fetch_add(1, Ordering::Relaxed);
    }

    /// What was found is [`Corrupt`]: nobody is to go on, which the sender hears of.
    pub(crate) fn shut(&mut self) {
        self.next = SHUT;
    }
}

impl Drop for Role<'_> {
    fn drop(&mut self) {
        let received = self.of.received();
        let Reader { at, lap, .. } = self.reader;
        received.place.store(lap | u64::from(at), Ordering::Relaxed);
        self.reader.tell();
        received.role.store(self.next, Ordering::Release);
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
                _ => (*reader.ring.as_ptr()).received.taken.store(value as u32, Ordering::Relaxed),
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
mod tests;
