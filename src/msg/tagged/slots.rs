//! Requests: what is kept of a message under way. Their places are used again.

use super::packets::Block;
use super::pieces::{Piece, Pieces, Receiver, Sender};
use super::staging::Staging;
use super::tokens;
use crate::datatype::Layout;
use crate::device::{ANYBODY, Bounce};
use crate::msg::error::MsgError;
use crate::msg::types::{Completion, LaidOut, Status};
use std::collections::VecDeque;
use std::num::NonZeroU64;

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
    /// Pieces of a rendezvous go or come.
    Transfer,
    Done,
}

/// Which side of a rendezvous a request is.
#[derive(Clone, Copy, Debug)]
enum Role {
    Sender(Sender),
    Receiver(Receiver),
}

/// A request. What a message that is sent whole needs is one cache line.
#[repr(C, align(64))]
pub(super) struct Slot {
    pub(super) generation: u32,
    /// World rank; of a free place, the next that is free.
    pub(super) peer: u32,
    pub(super) phase: Phase,
    /// Nobody will ask for the result.
    pub(super) detached: bool,
    pub(super) cancelled: bool,
    /// A synchronous send.
    pub(super) synchronous: bool,
    /// Of a receive: its sender has a delivery query open. Of a whole send: the provider
    /// has none of it any more, or its receiver has it all, whatever the provider says.
    pub(super) delivery_query: bool,
    /// The caller's buffer is borrowed: no provider gets to see it.
    pub(super) borrowed: bool,
    pub(super) bits: u64,
    /// The origin of the layout, where there is one.
    pub(super) buf: *mut u8,
    /// Bytes of `buf`; 0 for a receive with a layout, which has its own size.
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
    /// While pieces of a rendezvous are under way.
    role: Option<Role>,
    /// What providers have in place of a borrowed buffer, or of one that is not
    /// contiguous. Leaked where they do not give it back.
    bounced: Vec<(Piece, Bounce)>,
    /// Of a buffer that is not contiguous, until the request has ended.
    pub(super) layout: Option<Layout>,
    /// The layout's types are told.
    typed: bool,
    /// Blocks of a send, for its receiver to read.
    pub(super) list: Vec<Block>,
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
            role: None,
            bounced: Vec::new(),
            layout: None,
            typed: false,
            list: Vec::new(),
        }
    }

    /// Its buffer is what this layout takes from `buf` as its origin.
    pub(super) fn set_layout(&mut self, laid: LaidOut<'_>) {
        (self.layout, self.typed) = (Some(laid.layout.clone()), laid.typed);
    }

    /// What its buffer is, if it is not contiguous.
    pub(super) fn laid_out(&self) -> Option<LaidOut<'_>> {
        self.layout.as_ref().map(|layout| LaidOut { layout, typed: self.typed })
    }

    /// The request is over.
    #[inline]
    pub(super) fn forget_layout(&mut self) {
        if self.layout.is_some() {
            (self.layout, self.list) = (None, Vec::new());
        }
    }

    /// Bytes that it can receive.
    pub(super) fn space(&self) -> u64 {
        self.layout.as_ref().map_or(self.capacity as u64, Layout::size)
    }

    /// Returns true if a message of these types is none for this receive; false
    /// where either does not tell, and for a message shorter than the receive.
    pub(super) fn has_other_types(&self, types: u64, length: u64) -> bool {
        let own = || self.laid_out().map_or(0, LaidOut::types);
        types != 0 && self.space() == length && ![0, types].contains(&own())
    }

    /// A receive has matched a message that is not here yet.
    pub(super) fn matched(&mut self, peer: u32, bits: u64, length: u64) {
        (self.peer, self.bits, self.length) = (peer, bits, length);
    }

    /// Becomes the sender of a rendezvous that was cleared.
    pub(super) fn begin_sending(&mut self, sender: Sender) {
        self.phase = Phase::Transfer;
        self.role = Some(Role::Sender(sender));
    }

    /// Becomes the receiver of a rendezvous.
    pub(super) fn begin_receiving(&mut self, receiver: Receiver) {
        self.phase = Phase::Transfer;
        self.role = Some(Role::Receiver(receiver));
    }

    /// The sender, where pieces of a rendezvous go.
    pub(super) fn sender(&mut self) -> Option<&mut Sender> {
        match &mut self.role {
            Some(Role::Sender(sender)) if self.phase == Phase::Transfer => Some(sender),
            _ => None,
        }
    }

    /// The receiver, where pieces of a rendezvous come.
    pub(super) fn receiver(&mut self) -> Option<&mut Receiver> {
        match &mut self.role {
            Some(Role::Receiver(receiver)) if self.phase == Phase::Transfer => Some(receiver),
            _ => None,
        }
    }

    /// Returns true for a send that is under way.
    pub(super) fn is_sending(&mut self) -> bool {
        matches!(self.phase, Phase::Queued | Phase::Eager | Phase::RtsSent)
            || self.sender().is_some()
    }

    /// Returns true for a send whose provider has its bytes, or some.
    pub(super) fn is_given_away(&mut self) -> bool {
        (self.phase == Phase::Eager && !self.delivery_query) || self.sender().is_some()
    }

    /// The pieces of a rendezvous that go or come.
    pub(super) fn pieces(&mut self) -> Option<&mut Pieces> {
        match &mut self.role {
            _ if self.phase != Phase::Transfer => None,
            Some(Role::Sender(sender)) => Some(&mut sender.pieces),
            Some(Role::Receiver(receiver)) => Some(&mut receiver.pieces),
            None => None,
        }
    }

    /// The next piece was issued, and may have ended at once.
    pub(super) fn issued_piece(&mut self, ended: bool) {
        if let Some(pieces) = self.pieces() {
            pieces.issued(ended);
        }
    }

    /// Why a receive refuses a message of so many bytes and of these types.
    pub(super) fn refusal(&self, types: u64, length: u64) -> Option<MsgError> {
        if length > self.space() {
            let space = self.space() as usize;
            return Some(MsgError::truncated(self.peer, self.bits, length, space));
        }
        self.has_other_types(types, length).then(|| MsgError::types(self.peer, self.bits, length))
    }

    /// What a provider is given for a piece: its place in the caller's buffer if it
    /// is one block, or staging memory in its stead, with its bytes if it is `sent`.
    ///
    /// # Safety
    /// \[PIECE\]: the buffer holds the piece.
    pub(super) unsafe fn buffer_of(
        &mut self,
        staging: &mut Staging,
        piece: Piece,
        sent: bool,
    ) -> *mut u8 {
        if !self.borrowed
            && let Some(own) = self.in_place(piece)
        {
            return own;
        }
        let mut bounce = staging.take(piece.len);
        let to = bounce.start();
        if sent {
            // SAFETY: [PIECE]; staging memory of this length.
            unsafe { self.pack(piece, to) };
        }
        self.bounced.push((piece, bounce));
        to
    }

    /// Where a piece lies in the caller's buffer, if it is one block of it.
    pub(super) fn in_place(&self, piece: Piece) -> Option<*mut u8> {
        let Some(layout) = &self.layout else {
            return Some(self.buf.wrapping_add(piece.start));
        };
        let (offset, len) = layout.blocks_from(piece.start as u64).next()?;
        (len >= piece.len as u64).then(|| self.buf.wrapping_offset(offset as isize))
    }

    /// Copies a piece out of the caller's buffer.
    ///
    /// # Safety
    /// \[PIECE\]; `to` is writable for its length, and apart from the buffer.
    pub(super) unsafe fn pack(&self, piece: Piece, to: *mut u8) {
        // SAFETY: [PIECE]; `to` as it is asked for.
        unsafe {
            match &self.layout {
                None => to.copy_from_nonoverlapping(self.buf.add(piece.start), piece.len),
                Some(layout) => {
                    let out = std::slice::from_raw_parts_mut(to, piece.len);
                    layout.pack_raw(self.buf, piece.start as u64, out);
                }
            }
        }
    }

    /// Copies a piece into the caller's buffer.
    ///
    /// # Safety
    /// \[PIECE\]; `from` is readable for its length, and apart from the buffer.
    pub(super) unsafe fn unpack(&self, piece: Piece, from: *const u8) {
        // SAFETY: [PIECE]; `from` as it is asked for.
        unsafe {
            match &self.layout {
                None => self.buf.add(piece.start).copy_from_nonoverlapping(from, piece.len),
                Some(layout) => {
                    let packed = std::slice::from_raw_parts(from, piece.len);
                    layout.unpack_raw(self.buf, piece.start as u64, packed);
                }
            }
        }
    }

    /// The provider is done with a piece, which goes to the caller's buffer if
    /// it was `received` and the buffer is still there. `number`: its lowest
    /// bits, as tokens have them.
    ///
    /// # Safety
    /// \[PIECE\], of a request that is not detached: the buffer holds the piece.
    pub(super) unsafe fn take_back(&mut self, staging: &mut Staging, number: u64, received: bool) {
        let of = |(piece, _): &(Piece, Bounce)| tokens::is_piece(piece.number, number);
        let Some(at) = self.bounced.iter().position(of) else { return };
        let (piece, mut bounce) = self.bounced.swap_remove(at);
        if received && !self.detached {
            let from = bounce.start();
            // SAFETY: [PIECE]; staging memory of this length.
            unsafe { self.unpack(piece, from) };
        }
        staging.give(bounce);
    }

    #[inline]
    fn status(&self) -> Status {
        let (peer, bits, length) = (self.peer, self.bits, self.length);
        Status { peer, bits, length, cancelled: self.cancelled }
    }
}

/// Where the free places end.
const NONE: u32 = u32::MAX;

/// All requests of a context.
pub(super) struct Slots {
    slots: Vec<Slot>,
    /// The first free place.
    free: u32,
    /// Those with a cookie that ended; their places are free.
    ended: CompletionQueue,
}

/// Completions, in the order the requests ended.
#[derive(Default)]
struct CompletionQueue {
    all: Vec<End>,
    /// How many of them were told.
    told: usize,
    /// Of those that failed, in the same order.
    errors: VecDeque<Box<MsgError>>,
}

/// A completion as it is kept: copied and dropped for nothing.
#[derive(Clone, Copy)]
struct End {
    cookie: NonZeroU64,
    bits: u64,
    length: u64,
    peer: u32,
    how: How,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    Success,
    Cancelled,
    Failure,
}

impl End {
    #[inline(always)]
    fn status(&self) -> Status {
        let &End { bits, length, peer, how, .. } = self;
        Status { peer, bits, length, cancelled: how == How::Cancelled }
    }
}

impl CompletionQueue {
    #[inline(always)]
    fn push(&mut self, end: End) {
        if self.all.len() == self.all.capacity() {
            self.make_space();
        }
        self.all.push(end);
    }

    #[cold]
    #[inline(never)]
    fn make_space(&mut self) {
        self.all.drain(..std::mem::take(&mut self.told));
        self.all.reserve(self.all.len().max(64));
    }

    fn pop(&mut self) -> Option<Completion> {
        let end = *self.all.get(self.told)?;
        self.tell();
        let error = if end.how == How::Failure { self.errors.pop_front() } else { None };
        Some(Completion { cookie: end.cookie, result: error.map_or(Ok(end.status()), Err) })
    }

    /// The next, if it succeeded.
    #[inline(always)]
    fn pop_success(&mut self) -> Option<(NonZeroU64, Status)> {
        let end = *self.all.get(self.told)?;
        if end.how != How::Success {
            return None;
        }
        self.tell();
        let status = Status { cancelled: false, ..end.status() };
        Some((end.cookie, status))
    }

    #[inline(always)]
    fn tell(&mut self) {
        self.told += 1;
        if self.told == self.all.len() {
            self.all.clear();
            self.told = 0;
        }
    }
}

impl Default for Slots {
    fn default() -> Slots {
        Slots { slots: Vec::new(), free: NONE, ended: CompletionQueue::default() }
    }
}

impl Slots {
    /// A place for a request; the caller sets what it needs.
    #[inline]
    pub(super) fn take(&mut self) -> (u32, &mut Slot) {
        if self.free == NONE {
            self.grow();
        }
        self.take_free(Phase::Free)
    }

    /// Returns true if a place is free.
    #[inline(always)]
    pub(super) fn has_free(&self) -> bool {
        self.free != NONE
    }

    /// The place that is free, as it is known to be.
    #[inline(always)]
    pub(super) fn take_free(&mut self, phase: Phase) -> (u32, &mut Slot) {
        let at = self.free;
        let slot = &mut self.slots[at as usize];
        self.free = slot.peer;
        slot.generation = tokens::next_generation(slot.generation);
        slot.phase = phase;
        slot.detached = false;
        slot.cancelled = false;
        slot.synchronous = false;
        slot.delivery_query = false;
        slot.borrowed = false;
        slot.cookie = 0;
        (at, slot)
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        self.free = self.slots.len() as u32;
        self.slots.push(Slot { peer: NONE, ..Slot::new() });
    }

    #[inline]
    pub(super) fn at(&mut self, at: u32) -> &mut Slot {
        &mut self.slots[at as usize]
    }

    /// The request of an id, if it is still that one.
    #[inline]
    pub(super) fn known(&mut self, id: u64) -> Option<(u32, &mut Slot)> {
        let at = tokens::place(id);
        let slot = self.slots.get_mut(at as usize)?;
        let same = slot.generation == tokens::generation(id) && slot.phase != Phase::Free;
        same.then_some((at, slot))
    }

    /// What names a request in packets and tokens.
    #[inline]
    pub(super) fn id(&self, at: u32) -> u64 {
        tokens::request_id(self.slots[at as usize].generation, at)
    }

    #[inline]
    pub(super) fn give(&mut self, at: u32) {
        let slot = &mut self.slots[at as usize];
        slot.phase = Phase::Free;
        if slot.error.is_some() {
            slot.error = None;
        }
        slot.peer = self.free;
        self.free = at;
    }

    /// Ends a request; its place is free if nobody will ask.
    pub(super) fn end(&mut self, at: u32, error: Option<MsgError>) {
        let slot = &mut self.slots[at as usize];
        if let Some(error) = error {
            slot.fail(error);
        }
        slot.forget_layout();
        // (What a library may still use is left to it.)
        if !slot.bounced.is_empty() {
            slot.bounced.clear();
        }
        self.done(at);
    }

    /// The same, with the error it has, if any, of a request without a layout.
    #[inline(never)]
    fn done(&mut self, at: u32) {
        let slot = &mut self.slots[at as usize];
        debug_assert!(slot.layout.is_none(), "the next request of this place would have it");
        if let Some(cookie) = NonZeroU64::new(slot.cookie) {
            let (status, error) = (slot.status(), slot.error.take());
            slot.phase = Phase::Free;
            slot.peer = self.free;
            self.free = at;
            let how = match () {
                () if error.is_some() => How::Failure,
                () if status.cancelled => How::Cancelled,
                () => How::Success,
            };
            let Status { peer, bits, length, .. } = status;
            self.ended.push(End { cookie, bits, length, peer, how });
            self.ended.errors.extend(error);
            return;
        }
        slot.phase = Phase::Done;
        if slot.detached {
            self.give(at);
        }
    }

    /// Gives a receive with a cookie a message of 8 or 4 bytes, if that is all there is to
    /// do. Returns false otherwise, and nothing has happened.
    #[inline(always)]
    pub(super) fn receive_word(&mut self, at: u32, peer: u32, bits: u64, body: &[u8]) -> bool {
        let slot = &mut self.slots[at as usize];
        let (buf, cookie) = (slot.buf, slot.cookie);
        let Some(cookie) = NonZeroU64::new(cookie) else { return false };
        // (A layout has a capacity of 0.)
        if slot.capacity < body.len() || self.ended.all.len() == self.ended.all.capacity() {
            return false;
        }
        // SAFETY: the receive's buffer is writable for `capacity` bytes until it is done.
        unsafe {
            if let Ok(word) = body.try_into() {
                buf.cast::<[u8; 8]>().write(word);
            } else if let Ok(half) = body.try_into() {
                buf.cast::<[u8; 4]>().write(half);
            } else {
                return false;
            }
        }
        let length = body.len() as u64;
        self.ended.all.push(End { cookie, bits, length, peer, how: How::Success });
        slot.phase = Phase::Free;
        slot.peer = self.free;
        self.free = at;
        true
    }

    /// Gives a receive the whole message, if it is contiguous and has space for it.
    /// Returns false otherwise, and nothing has happened.
    #[inline(always)]
    pub(super) fn receive(&mut self, at: u32, peer: u32, bits: u64, body: &[u8]) -> bool {
        let slot = &mut self.slots[at as usize];
        if body.len() > slot.capacity || body.is_empty() {
            return false;
        }
        // SAFETY: the receive's buffer is writable for `capacity` bytes until it is
        // done; a body never lies in it, unless a process sends itself what it
        // receives into, which `copy` allows.
        unsafe {
            if body.len() == 8 {
                let word = body.as_ptr().cast::<u64>().read_unaligned();
                slot.buf.cast::<u64>().write_unaligned(word);
            } else {
                slot.buf.copy_from(body.as_ptr(), body.len());
            }
        }
        debug_assert!(slot.layout.is_none() && slot.error.is_none() && !slot.cancelled);
        let Some(cookie) = NonZeroU64::new(slot.cookie) else {
            slot.matched(peer, bits, body.len() as u64);
            self.done(at);
            return true;
        };
        slot.phase = Phase::Free;
        slot.peer = self.free;
        self.free = at;
        let length = body.len() as u64;
        self.ended.push(End { cookie, bits, length, peer, how: How::Success });
        true
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
        self.ended.pop()
    }

    /// The same, if it succeeded.
    #[inline(always)]
    pub(super) fn next_success(&mut self) -> Option<(NonZeroU64, Status)> {
        self.ended.pop_success()
    }

    #[inline]
    pub(super) fn has_completion(&self) -> bool {
        !self.ended.all.is_empty()
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
        let (first, _) = slots.take();
        slots.at(first).phase = Phase::Posted;
        let id = slots.id(first);
        assert_eq!(slots.known(id).map(|(at, _)| at), Some(first));
        slots.at(first).detached = true;
        slots.end(first, None);
        assert!(slots.known(id).is_none());
        let (again, _) = slots.take();
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
        let places: Vec<u32> = (0..3).map(|_| slots.take().0).collect();
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
        let mut bytes: Vec<u8> = (0..LONG as u8).collect();
        let staging = &mut Staging::default();
        let mut slot = Slot::new();
        slot.buf = bytes.as_mut_ptr();
        slot.borrowed = true;
        // SAFETY: the last piece, of 4 bytes, and `slot.buf` holds it.
        unsafe {
            let bounce = slot.buffer_of(staging, Piece { number: 2, start: 16, len: 4 }, true);
            assert_eq!(std::slice::from_raw_parts(bounce, 4), [16, 17, 18, 19]);
            bounce.write_bytes(9, 4);
            slot.take_back(staging, 2, true);
        }
        assert_eq!(bytes[12..], [12, 13, 14, 15, 9, 9, 9, 9]);
        drop(bytes);
        // (The borrow is over, and with it the buffer.)
        slot.detached = true;
        // SAFETY: bounce memory of the piece; the buffer is not touched.
        unsafe {
            slot.buffer_of(staging, Piece { number: 0, start: 0, len: 8 }, false).write_bytes(1, 8);
            slot.take_back(staging, 0, true);
        }
    }
}
