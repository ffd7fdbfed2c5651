//! Requests: what is kept of a message under way. Their places are used again.

use super::MsgError;
use super::noted::Ended;
use super::room::Status;
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
    /// Sent whole; the buffer is in use, or the match is to be told.
    Eager,
    /// A rendezvous without a receive.
    Offered,
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
    /// The other side is to hear of the end, or was heard of it: the provider
    /// may never tell.
    pub(super) settled: bool,
    pub(super) bits: u64,
    pub(super) buf: *mut u8,
    /// Bytes of `buf`.
    pub(super) room: usize,
    /// Bytes of the message.
    pub(super) length: u64,
    /// What its owner knows it by, who asks for what has ended; 0: nobody.
    pub(super) cookie: u64,
    pub(super) error: Option<Box<MsgError>>,
    /// Of a send.
    pub(super) channel: u64,
    /// Events an eager send waits for.
    pub(super) due: u32,
    /// A rendezvous: the other side's request, the tag of the first piece,
    /// bytes of a piece, and pieces issued, granted and ended.
    pub(super) theirs: u64,
    pub(super) tag: u64,
    pub(super) piece: u64,
    pub(super) issued: u64,
    pub(super) granted: u64,
    pub(super) ended: u64,
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
            settled: false,
            bits: 0,
            buf: std::ptr::null_mut(),
            room: 0,
            length: 0,
            cookie: 0,
            error: None,
            channel: 0,
            due: 0,
            theirs: 0,
            tag: 0,
            piece: 0,
            issued: 0,
            granted: 0,
            ended: 0,
        }
    }

    /// Becomes a rendezvous of which nothing was issued yet.
    pub(super) fn offer(&mut self, phase: Phase) {
        self.phase = phase;
        (self.issued, self.granted, self.ended) = (0, 0, 0);
    }

    /// Pieces of the rendezvous.
    pub(super) fn pieces(&self) -> u64 {
        self.length.div_ceil(self.piece.max(1))
    }

    #[inline]
    fn status(&self) -> Status {
        let (world, bits, length) = (self.peer, self.bits, self.length);
        Status { world, bits, length, cancelled: self.cancelled }
    }
}

/// All requests of a context.
#[derive(Default)]
pub(super) struct Slots {
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Those with a cookie that are done, in the order they ended; their
    /// places are free.
    ended: VecDeque<Ended>,
}

impl Slots {
    /// A place for a request; the caller sets what it needs.
    #[inline]
    pub(super) fn take(&mut self) -> u32 {
        let at = self.free.pop().unwrap_or_else(|| self.more());
        let slot = &mut self.slots[at as usize];
        slot.generation = (slot.generation + 1) & GENERATIONS;
        slot.detached = false;
        slot.cancelled = false;
        slot.synchronous = false;
        slot.settled = false;
        slot.cookie = 0;
        at
    }

    #[cold]
    #[inline(never)]
    fn more(&mut self) -> u32 {
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
            self.ended.push_back(Ended { cookie, result });
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

    /// The next request with a cookie that is done, in the order they ended.
    #[inline]
    pub(super) fn next_ended(&mut self) -> Option<Ended> {
        self.ended.pop_front()
    }

    #[inline]
    pub(super) fn has_ended(&self) -> bool {
        !self.ended.is_empty()
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
