//! Requests: what is kept of a message under way. Their places are used again.

use super::MsgError;
use super::types::{Completion, Status};
use crate::device::Bounce;
use std::collections::VecDeque;
use std::num::NonZeroU64;

/// The peer of a receive from anybody.
pub(super) const ANYBODY: u32 = u32::MAX;
/// Bits of a generation, so that number and generation fit a token.
const GENERATIONS: u32 = (1 << 20) - 1;

/// Where a request stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Free,
    /// A receive without a message.
    Posted,
    /// A send that has no credit for its header.
    Queued,
    /// Sent whole; the buffer is in use, or its acknowledgement is due.
    Eager,
    /// A rendezvous without a receive.
    RtsSent,
    Sending,
    Receiving,
    Done,
}

/// A request. What a message that is sent whole needs is one cache line.
#[repr(C, align(64))]
pub(super) struct Slot {
    pub(super) generation: u32,
    /// World rank.
    pub(super) peer: u32,
    pub(super) phase: Phase,
    /// Nobody will ask for the result.
    pub(super) detached: bool,
    pub(super) cancelled: bool,
    /// A synchronous send.
    pub(super) synchronous: bool,
    /// Of a receive: its sender has a delivery query open. Of a send: the query
    /// was answered, and the provider may never complete it.
    pub(super) delivery_query: bool,
    /// The caller's buffer is borrowed: no provider gets to see it.
    pub(super) borrowed: bool,
    pub(super) bits: u64,
    pub(super) buf: *mut u8,
    /// Bytes of `buf`.
    pub(super) capacity: usize,
    /// Bytes of the message.
    pub(super) length: u64,
    /// What its completion carries; 0: it has none.
    pub(super) cookie: u64,
    pub(super) error: Option<Box<MsgError>>,
    /// Of a send.
    pub(super) channel: u64,
    /// Events an eager send waits for.
    pub(super) due: u32,
    /// A rendezvous: the other side's request, the tag of the first piece,
    /// bytes of a piece, and pieces issued, cleared and ended.
    pub(super) theirs: u64,
    pub(super) tag: u64,
    pub(super) piece: u64,
    pub(super) issued: u64,
    pub(super) cleared: u64,
    pub(super) ended: u64,
    /// What providers have in place of a borrowed buffer, by piece. Leaked
    /// where they do not give it back.
    bounced: Vec<(u64, Bounce)>,
}

const _: () = assert!(std::mem::offset_of!(Slot, channel) <= 64);

impl Slot {
    fn new() -> Slot {
        Slot {
            generation: 0,
            peer: ANYBODY,
            phase: Phase::Free,
            detached: false,
            cancelled: false,
            synchronous: false,
            delivery_query: false,
            borrowed: false,
            bits: 0,
            buf: std::ptr::null_mut(),
            capacity: 0,
            length: 0,
            cookie: 0,
            error: None,
            channel: 0,
            due: 0,
            theirs: 0,
            tag: 0,
            piece: 0,
            issued: 0,
            cleared: 0,
            ended: 0,
            bounced: Vec::new(),
        }
    }

    /// Becomes a rendezvous of which nothing was issued yet.
    pub(super) fn begin_rendezvous(&mut self, phase: Phase) {
        self.phase = phase;
        (self.issued, self.cleared, self.ended) = (0, 0, 0);
    }

    /// What a provider is given for a piece that begins at `start`: the place
    /// in the caller's buffer, or bounce memory in its stead, with its bytes if
    /// it is `sent`.
    ///
    /// # Safety
    /// The buffer holds the piece.
    pub(super) unsafe fn buffer_of(
        &mut self,
        piece: u64,
        start: usize,
        len: usize,
        sent: bool,
    ) -> *mut u8 {
        let own = self.buf.wrapping_add(start);
        if !self.borrowed {
            return own;
        }
        let mut bounce = Bounce::new(len);
        let to = bounce.start();
        if sent {
            // SAFETY: the caller's duty; bounce memory of this length.
            unsafe { to.copy_from_nonoverlapping(own, len) };
        }
        self.bounced.push((piece, bounce));
        to
    }

    /// The provider is done with a piece, which goes to the caller's buffer if
    /// it was `received` and the buffer is still there. `piece`: its lowest
    /// eight bits.
    ///
    /// # Safety
    /// A buffer of a request that is not detached holds the piece.
    pub(super) unsafe fn take_back(&mut self, piece: u64, received: bool) {
        let found = self.bounced.iter().position(|(number, _)| number & 0xff == piece & 0xff);
        let Some(at) = found else { return };
        let (number, mut bounce) = self.bounced.swap_remove(at);
        if received && !self.detached {
            let start = number * self.piece;
            let len = self.piece.min(self.length - start) as usize;
            let to = self.buf.wrapping_add(start as usize);
            // SAFETY: the caller's duty; bounce memory of this length.
            unsafe { to.copy_from_nonoverlapping(bounce.start(), len) };
        }
        bounce.release();
    }

    /// Pieces of the rendezvous.
    pub(super) fn pieces(&self) -> u64 {
        self.length.div_ceil(self.piece.max(1))
    }

    #[inline]
    fn status(&self) -> Status {
        let (peer, bits, length) = (self.peer, self.bits, self.length);
        Status { peer, bits, length, cancelled: self.cancelled }
    }
}

/// All requests of a context.
#[derive(Default)]
pub(super) struct Slots {
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Completions of those with a cookie, in the order they ended; their
    /// places are free.
    completions: VecDeque<Completion>,
}

impl Slots {
    /// A place for a request; the caller sets what it needs.
    #[inline]
    pub(super) fn take(&mut self) -> u32 {
        let at = self.free.pop().unwrap_or_else(|| self.grow());
        let slot = &mut self.slots[at as usize];
        slot.generation = (slot.generation + 1) & GENERATIONS;
        slot.detached = false;
        slot.cancelled = false;
        slot.synchronous = false;
        slot.delivery_query = false;
        slot.borrowed = false;
        slot.cookie = 0;
        at
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self) -> u32 {
        self.slots.push(Slot::new());
        self.slots.len() as u32 - 1
    }

    #[inline]
    pub(super) fn at(&mut self, at: u32) -> &mut Slot {
        &mut self.slots[at as usize]
    }

    /// The request of an id, if it is still that one.
    #[inline]
    pub(super) fn known(&mut self, id: u64) -> Option<(u32, &mut Slot)> {
        let at = id as u32;
        let generation = (id >> 32) as u32 & GENERATIONS;
        let slot = self.slots.get_mut(at as usize)?;
        let same = slot.generation == generation && slot.phase != Phase::Free;
        same.then_some((at, slot))
    }

    /// What names a request in packets and tokens: 52 bits.
    #[inline]
    pub(super) fn id(&self, at: u32) -> u64 {
        u64::from(self.slots[at as usize].generation) << 32 | u64::from(at)
    }

    #[inline]
    pub(super) fn give(&mut self, at: u32) {
        let slot = &mut self.slots[at as usize];
        slot.phase = Phase::Free;
        if slot.error.is_some() {
            slot.error = None;
        }
        if !slot.bounced.is_empty() {
            slot.bounced.clear();
        }
        self.free.push(at);
    }

    /// Ends a request; its place is free if nobody will ask.
    pub(super) fn end(&mut self, at: u32, error: Option<MsgError>) {
        if let Some(error) = error {
            self.slots[at as usize].fail(error);
        }
        self.done(at);
    }

    /// The same, with the error it has, if any.
    #[inline(always)]
    pub(super) fn done(&mut self, at: u32) {
        let slot = &mut self.slots[at as usize];
        if let Some(cookie) = NonZeroU64::new(slot.cookie) {
            let result = match slot.error.take() {
                None => Ok(slot.status()),
                Some(error) => Err(error),
            };
            slot.phase = Phase::Free;
            self.completions.push_back(Completion { cookie, result });
            self.free.push(at);
            return;
        }
        slot.phase = Phase::Done;
        if slot.detached {
            self.give(at);
        }
    }

    /// The result of a request that is done; its place is free.
    #[inline]
    pub(super) fn collect(&mut self, at: u32) -> Result<Status, MsgError> {
        let slot = &mut self.slots[at as usize];
        let result = match slot.error.take() {
            None => Ok(slot.status()),
            Some(error) => Err(*error),
        };
        self.give(at);
        result
    }

    /// The next completion, in the order the requests ended.
    #[inline]
    pub(super) fn next_completion(&mut self) -> Option<Completion> {
        self.completions.pop_front()
    }

    #[inline]
    pub(super) fn has_completion(&self) -> bool {
        !self.completions.is_empty()
    }

    /// Those that are not free.
    pub(super) fn live(&mut self) -> impl Iterator<Item = (u32, &mut Slot)> {
        let all = self.slots.iter_mut().enumerate();
        all.filter(|(_, slot)| slot.phase != Phase::Free).map(|(at, slot)| (at as u32, slot))
    }
}

impl Slot {
    /// Its end is to be this error, unless another came first.
    #[cold]
    #[inline(never)]
    pub(super) fn fail(&mut self, error: MsgError) {
        self.error.get_or_insert_with(|| Box::new(error));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_used_again_is_another_request() {
        let mut slots = Slots::default();
        let first = slots.take();
        slots.at(first).phase = Phase::Posted;
        let id = slots.id(first);
        assert_eq!(slots.known(id).map(|(at, _)| at), Some(first));
        slots.at(first).detached = true;
        slots.end(first, None);
        assert!(slots.known(id).is_none());
        let again = slots.take();
        slots.at(again).phase = Phase::Posted;
        assert_eq!(again, first);
        assert!(slots.known(id).is_none() && slots.known(slots.id(again)).is_some());
        assert_eq!(slots.live().count(), 1);
        // Nor is a place that never was.
        assert!(slots.known(id + 1).is_none());
    }

    #[test]
    fn ends_are_told_in_their_order_with_the_first_error() {
        let mut slots = Slots::default();
        let places: Vec<u32> = (0..3).map(|_| slots.take()).collect();
        for (&at, cookie) in places.iter().zip(10..) {
            let slot = slots.at(at);
            (slot.phase, slot.cookie) = (Phase::Posted, cookie);
        }
        slots.at(places[2]).fail(MsgError::Rank { rank: 7, size: 4 });
        slots.end(places[2], Some(MsgError::NoMessages { rank: 1 }));
        slots.end(places[0], None);
        let told: Vec<Completion> = std::iter::from_fn(|| slots.next_completion()).collect();
        assert_eq!(told.iter().map(|ended| ended.cookie.get()).collect::<Vec<_>>(), [12, 10]);
        let error = told[0].result.as_ref().expect_err("it failed");
        assert!(matches!(**error, MsgError::Rank { rank: 7, size: 4 }));
        assert!(told[1].result.is_ok() && !slots.has_completion());
        assert_eq!(slots.live().map(|(at, _)| at).collect::<Vec<_>>(), [places[1]]);
    }

    /// A borrowed buffer is sent from a copy, and gets what came in one while
    /// it is still there.
    #[test]
    fn what_is_lent_goes_back_where_it_belongs() {
        const LONG: usize = 20;
        const PIECE: usize = 8;
        let mut bytes: Vec<u8> = (0..LONG as u8).collect();
        let mut slot = Slot::new();
        slot.buf = bytes.as_mut_ptr();
        (slot.length, slot.piece, slot.borrowed) = (LONG as u64, PIECE as u64, true);
        assert_eq!(slot.pieces(), 3);
        // SAFETY: the last piece, of 4 bytes, and `slot.buf` holds it.
        unsafe {
            let bounce = slot.buffer_of(2, 2 * PIECE, 4, true);
            assert_eq!(std::slice::from_raw_parts(bounce, 4), [16, 17, 18, 19]);
            bounce.write_bytes(9, 4);
            slot.take_back(2, true);
        }
        assert_eq!(bytes[12..], [12, 13, 14, 15, 9, 9, 9, 9]);
        drop(bytes);
        // (The borrow is over, and with it the buffer.)
        slot.detached = true;
        // SAFETY: bounce memory of the piece; the buffer is not touched.
        unsafe {
            slot.buffer_of(0, 0, PIECE, false).write_bytes(1, PIECE);
            slot.take_back(0, true);
        }
    }
}
