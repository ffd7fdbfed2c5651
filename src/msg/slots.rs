//! Requests: what is kept of a message under way. Their places are used again.

use super::MsgError;
use super::index::NONE;
use std::collections::VecDeque;

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

/// A request.
pub(super) struct Slot {
    pub(super) generation: u32,
    pub(super) phase: Phase,
    /// Nobody will ask for the result.
    pub(super) detached: bool,
    pub(super) cancelled: bool,
    /// A synchronous send.
    pub(super) synchronous: bool,
    /// The other side is to hear of the end, or was heard of it: the provider
    /// may never tell.
    pub(super) settled: bool,
    /// World rank.
    pub(super) peer: u32,
    /// Of a posted receive, in the matching engine.
    pub(super) node: u32,
    pub(super) channel: u64,
    pub(super) bits: u64,
    pub(super) buf: *mut u8,
    /// Bytes of `buf`.
    pub(super) room: usize,
    /// Bytes of the message.
    pub(super) length: u64,
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
    /// What its owner knows it by, who asks for what has ended; 0: nobody.
    pub(super) cookie: u64,
    pub(super) error: Option<MsgError>,
}

impl Slot {
    fn new() -> Slot {
        Slot {
            generation: 0,
            phase: Phase::Free,
            detached: false,
            cancelled: false,
            synchronous: false,
            settled: false,
            peer: ANYBODY,
            node: NONE,
            channel: 0,
            bits: 0,
            buf: std::ptr::null_mut(),
            room: 0,
            length: 0,
            due: 0,
            theirs: 0,
            tag: 0,
            piece: 0,
            issued: 0,
            granted: 0,
            ended: 0,
            cookie: 0,
            error: None,
        }
    }

    /// Pieces of the rendezvous.
    pub(super) fn pieces(&self) -> u64 {
        self.length.div_ceil(self.piece.max(1))
    }
}

/// All requests of a context.
#[derive(Default)]
pub(super) struct Slots {
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Those with a cookie that are done and were not asked for yet.
    ended: VecDeque<u32>,
}

impl Slots {
    /// A place for a request; the caller sets what it needs.
    #[inline]
    pub(super) fn take(&mut self) -> u32 {
        let at = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::new());
            self.slots.len() as u32 - 1
        });
        let slot = &mut self.slots[at as usize];
        slot.generation = (slot.generation + 1) & GENERATIONS;
        slot.detached = false;
        slot.cancelled = false;
        slot.synchronous = false;
        slot.settled = false;
        slot.due = 0;
        (slot.issued, slot.granted, slot.ended) = (0, 0, 0);
        slot.cookie = 0;
        at
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
        slot.error = None;
        self.free.push(at);
    }

    /// Ends a request; its place is free if nobody will ask.
    #[inline]
    pub(super) fn end(&mut self, at: u32, error: Option<MsgError>) {
        let slot = &mut self.slots[at as usize];
        slot.phase = Phase::Done;
        if slot.error.is_none() {
            slot.error = error;
        }
        if slot.cookie != 0 {
            self.ended.push_back(at);
        } else if slot.detached {
            self.give(at);
        }
    }

    /// The next request with a cookie that is done, in the order they ended.
    #[inline]
    pub(super) fn next_ended(&mut self) -> Option<u32> {
        self.ended.pop_front()
    }

    /// Those that are not free.
    pub(super) fn live(&mut self) -> impl Iterator<Item = (u32, &mut Slot)> {
        let all = self.slots.iter_mut().enumerate();
        all.filter(|(_, slot)| slot.phase != Phase::Free).map(|(at, slot)| (at as u32, slot))
    }
}
