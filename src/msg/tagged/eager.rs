//! Messages sent whole, on credit: out, in, and within the process.

use super::flow::PeerFlow;
use super::packets::{EAGER, SYNC, head};
use super::pieces::Piece;
use super::slots::Phase;
use super::state::{State, TaggedProtocol, Unexpected, UnexpectedBody, bytes};
use super::tokens;
use crate::device::{Body, Context, Head};
use crate::msg::error::MsgError;
use crate::msg::types::{Outgoing, Sent};
use crate::netmod::Netmod;

impl TaggedProtocol {
    /// Sends a request whole; there is credit for it.
    pub(super) fn send_whole<N: Netmod>(
        &self,
        context: &Context<N>,
        state: &mut State,
        flow: &PeerFlow,
        at: u32,
    ) -> Result<(), MsgError> {
        let id = state.slots.id(at);
        let slot = state.slots.at(at);
        let len = slot.capacity;
        let kind = if slot.synchronous { SYNC } else { EAGER };
        let head = head(kind, [slot.channel, slot.bits, id]);
        let token = tokens::token(id, 0);
        let body = if len <= flow.inject.get() as usize {
            // SAFETY: the buffer is readable until the request is done.
            Body::Copied(unsafe { bytes(slot.buf, len) })
        } else {
            // SAFETY: the buffer is readable until the request is done.
            let start = unsafe { slot.buffer_of(Piece { number: 0, start: 0, len }, true) };
            Body::Kept { start, len, token }
        };
        // SAFETY: a kept body fits a packet, and is readable until the request
        // is done, which is after its token or the loss of the peer.
        let free = unsafe { context.transmit(slot.peer, head, body)? };
        if free {
            // SAFETY: nothing is received.
            unsafe { slot.take_back(0, false) };
        }
        flow.credit.spend(len);
        slot.due = u32::from(!free) + u32::from(slot.synchronous);
        slot.phase = Phase::Eager;
        if slot.due == 0 {
            state.slots.end(at, None);
        }
        Ok(())
    }

    /// Sends to this process itself.
    ///
    /// # Safety
    /// \[BUF\], as [`TaggedProtocol::send`].
    pub(super) unsafe fn send_own(&self, message: &Outgoing) -> Sent {
        let Outgoing { to, buf, len, mode } = *message;
        let (me, length) = (self.flows.me, len as u64);
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        if let Some(receive) = state.engine.arrive(to.channel, to.bits) {
            // SAFETY: [BUF]; delivered before this returns.
            let body = unsafe { bytes(buf, len) };
            deliver(state, receive, me, to.bits, body);
            return Sent::Done;
        }
        let fits = state.counts.unexpected_bytes + len <= self.flows.limits.bytes as usize;
        let (sent, body) = if fits && !mode.synchronous {
            // SAFETY: [BUF]; copied before this returns.
            let copy = state.pool.copy(unsafe { bytes(buf, len) });
            (Sent::Done, UnexpectedBody::Eager(copy, None))
        } else {
            let at = state.slots.take();
            let slot = state.slots.at(at);
            slot.phase = Phase::RtsSent;
            slot.peer = me;
            slot.channel = to.channel;
            slot.bits = to.bits;
            slot.buf = buf.cast_mut();
            slot.capacity = len;
            slot.length = length;
            (Sent::Pending(at), UnexpectedBody::Own(state.slots.id(at)))
        };
        state.store(to.channel, to.bits, Unexpected { peer: me, length, body });
        sent
    }

    /// A message came whole; `answer`: the id to acknowledge of a synchronous
    /// one.
    pub(super) fn eager_arrived<N: Netmod>(&self, context: &Context<N>, head: &Head, body: &[u8]) {
        let [channel, bits, id] = head.words;
        let answer = (head.kind == SYNC).then_some(id);
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        if let Some(at) = state.engine.arrive(channel, bits) {
            deliver(state, at, head.from, bits, body);
            self.flows.consumed(context, head.from, body.len(), answer);
            return;
        }
        let length = body.len() as u64;
        let body = UnexpectedBody::Eager(state.pool.copy(body), answer);
        state.store(channel, bits, Unexpected { peer: head.from, length, body });
    }
}

/// One event less for an eager send to wait for.
pub(super) fn one_less(state: &mut State, at: u32, error: Option<MsgError>) {
    let slot = state.slots.at(at);
    slot.due = slot.due.saturating_sub(1);
    if slot.due == 0 || error.is_some() {
        state.slots.end(at, error);
    }
}

/// Ends a receive with a whole message.
#[inline]
pub(super) fn deliver(state: &mut State, at: u32, peer: u32, bits: u64, body: &[u8]) {
    let slot = state.slots.at(at);
    slot.peer = peer;
    slot.bits = bits;
    slot.length = body.len() as u64;
    if body.len() > slot.capacity {
        return deliver_part(state, at, body);
    }
    // SAFETY: the receive's buffer is writable for `capacity` bytes until it is
    // done; a body never lies in it, unless a process sends itself what it
    // receives into, which `copy` allows.
    unsafe {
        match body.len() {
            8 => {
                slot.buf.cast::<u64>().write_unaligned(body.as_ptr().cast::<u64>().read_unaligned())
            }
            0 => {}
            len => slot.buf.copy_from(body.as_ptr(), len),
        }
    }
    state.slots.done(at);
}

/// Ends a receive with as much of a message as fits.
#[cold]
#[inline(never)]
fn deliver_part(state: &mut State, at: u32, body: &[u8]) {
    let slot = state.slots.at(at);
    if slot.capacity > 0 {
        // SAFETY: as in `deliver`.
        unsafe { slot.buf.copy_from(body.as_ptr(), slot.capacity) };
    }
    let error = MsgError::truncated(slot.bits, slot.length, slot.capacity);
    state.slots.end(at, Some(error));
}
