//! Messages sent whole, on credit: out, in, and within the process.

use super::flow::PeerFlow;
use super::packets::{EAGER, SYNC, head};
use super::pieces::Piece;
use super::slots::Phase;
use super::state::{State, TaggedProtocol, Unexpected, UnexpectedBody, bytes};
use super::tokens;
use crate::datatype::Layout;
use crate::device::{Body, Context, Head};
use crate::msg::error::MsgError;
use crate::msg::pool::Pool;
use crate::msg::types::{LaidOut, Outgoing, Sent};
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
        let State { slots, staging, .. } = state;
        let slot = slots.at(at);
        let len = slot.capacity;
        let kind = if slot.synchronous { SYNC } else { EAGER };
        let head = head(kind, [slot.channel, slot.bits, id]);
        let token = tokens::token(id, 0);
        let inject = len <= flow.inject.get() as usize;
        let body = if inject && slot.layout.is_none() {
            // SAFETY: the buffer is readable until the request is done.
            Body::Copied(unsafe { bytes(slot.buf, len) })
        } else {
            // SAFETY: the buffer is readable until the request is done.
            let start =
                unsafe { slot.buffer_of(staging, Piece { number: 0, start: 0, len }, true) };
            if inject {
                // SAFETY: staging memory of this length until it is taken back.
                Body::Copied(unsafe { bytes(start, len) })
            } else {
                Body::Kept { start, len, token }
            }
        };
        // SAFETY: a kept body fits a packet, and is readable until the request
        // is done, which is after its token or the loss of the peer.
        let free = unsafe { context.transmit(slot.peer, head, body)? };
        if free {
            // SAFETY: nothing is received.
            unsafe { slot.take_back(staging, 0, false) };
        }
        flow.credit.spend(len);
        slot.due = u32::from(!free) + u32::from(slot.synchronous);
        slot.phase = Phase::Eager;
        if slot.due == 0 {
            state.slots.end(at, None);
        } else {
            slot.delivery_query = free;
        }
        Ok(())
    }

    /// Sends to this process itself.
    ///
    /// # Safety
    /// \[BUF\], as [`TaggedProtocol::send`].
    pub(super) unsafe fn send_own(&self, message: &Outgoing, laid: Option<LaidOut<'_>>) -> Sent {
        let Outgoing { to, buf, len, mode } = *message;
        let (me, length) = (self.flows.me, len as u64);
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        if let Some(receive) = state.engine.arrive(to.channel, to.bits) {
            // SAFETY: [BUF]; delivered before this returns.
            unsafe { deliver_own(state, receive, me, message, laid) };
            return Sent::Done;
        }
        let fits = state.counts.unexpected_bytes + len <= self.flows.limits.bytes as usize;
        let (sent, body) = if fits && !mode.synchronous {
            let copy = match laid {
                // SAFETY: [BUF]; copied before this returns.
                None => state.pool.copy(unsafe { bytes(buf, len) }),
                // SAFETY: [BUF], of a layout.
                Some(laid) => unsafe { packed(&mut state.pool, buf, len, laid.layout) },
            };
            (Sent::Done, UnexpectedBody::Eager(copy, None))
        } else {
            let (at, slot) = state.slots.take();
            slot.phase = Phase::RtsSent;
            slot.peer = me;
            slot.channel = to.channel;
            slot.bits = to.bits;
            slot.buf = buf.cast_mut();
            slot.capacity = len;
            slot.length = length;
            if let Some(laid) = laid {
                slot.set_layout(laid);
            }
            (Sent::Pending(at), UnexpectedBody::Own(state.slots.id(at)))
        };
        state.store(to.channel, to.bits, Unexpected { peer: me, length, body });
        sent
    }

    /// A message of 8 or 4 bytes came for the oldest receive, and there is nothing else to
    /// it: calls nothing but to tell of credit. Returns false otherwise, and nothing has
    /// happened.
    #[inline(always)]
    pub(super) fn word_arrived<N: Netmod>(
        &self,
        context: &Context<N>,
        head: &Head,
        body: &[u8],
    ) -> bool {
        let [channel, bits, _] = head.words;
        let Some(flow) = self.flows.get(head.from) else { return false };
        let Ok(mut state) = self.state.try_borrow_mut() else { return false };
        let Some(at) = state.engine.first(channel, bits) else { return false };
        if !state.slots.receive_word(at, head.from, bits, body) {
            return false;
        }
        state.engine.pop_first();
        drop(state);
        self.flows.consumed_of(context, head.from, flow, body.len());
        true
    }

    /// A message came whole, which no sender waits to hear of.
    pub(super) fn eager_arrived<N: Netmod>(&self, context: &Context<N>, head: &Head, body: &[u8]) {
        let [channel, bits, _] = head.words;
        let mut state = self.state.borrow_mut();
        if let Some(at) = state.engine.arrive(channel, bits) {
            deliver(&mut state, at, head.from, bits, body);
            return self.flows.consumed(context, head.from, body.len());
        }
        state.keep(head, body, None);
    }

    /// The message of a synchronous send came, which is answered by its id.
    #[inline(never)]
    pub(super) fn sync_arrived<N: Netmod>(&self, context: &Context<N>, head: &Head, body: &[u8]) {
        let [channel, bits, id] = head.words;
        let mut state = self.state.borrow_mut();
        if let Some(at) = state.engine.arrive(channel, bits) {
            deliver(&mut state, at, head.from, bits, body);
            return self.flows.answered(context, head.from, body.len(), Some(id));
        }
        state.keep(head, body, Some(id));
    }
}

impl State {
    /// Keeps a copy of a message that came whole.
    #[inline(never)]
    fn keep(&mut self, head: &Head, body: &[u8], answer: Option<u64>) {
        let [channel, bits, _] = head.words;
        let length = body.len() as u64;
        let body = UnexpectedBody::Eager(self.pool.copy(body), answer);
        self.store(channel, bits, Unexpected { peer: head.from, length, body });
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
#[inline(always)]
pub(super) fn deliver(state: &mut State, at: u32, peer: u32, bits: u64, body: &[u8]) {
    if !state.slots.receive(at, peer, bits, body) {
        deliver_slowly(state, at, peer, bits, body);
    }
}

/// Ends a receive whose message `message` is one of this process to itself.
///
/// # Safety
/// \[BUF\], until the return: what the message says is readable.
pub(super) unsafe fn deliver_own(
    state: &mut State,
    at: u32,
    me: u32,
    message: &Outgoing,
    laid: Option<LaidOut<'_>>,
) {
    let Outgoing { to, buf, len, .. } = *message;
    match laid {
        // SAFETY: [BUF].
        None => deliver(state, at, me, to.bits, unsafe { bytes(buf, len) }),
        Some(laid) if !state.slots.at(at).has_other_types(laid.types(), len as u64) => {
            // SAFETY: [BUF], of a layout.
            let body = unsafe { packed(&mut state.pool, buf, len, laid.layout) };
            deliver(state, at, me, to.bits, &body);
            state.pool.give(body);
        }
        Some(_) => {
            state.slots.at(at).matched(me, to.bits, len as u64);
            state.slots.end(at, Some(MsgError::types(me, to.bits, len as u64)));
        }
    }
}

/// A copy of the `len` bytes that a layout takes.
///
/// # Safety
/// \[BUF\]: those bytes are readable, from `origin`.
unsafe fn packed(pool: &mut Pool, origin: *const u8, len: usize, layout: &Layout) -> Vec<u8> {
    let mut copy = pool.zeroed(len);
    // SAFETY: [BUF]; memory of its own.
    unsafe { layout.pack_raw(origin, 0, &mut copy) };
    copy
}

/// The same of a receive that is not contiguous, with nothing in its message, or with
/// as much of a message as fits.
#[inline(never)]
fn deliver_slowly(state: &mut State, at: u32, peer: u32, bits: u64, body: &[u8]) {
    let slot = state.slots.at(at);
    slot.matched(peer, bits, body.len() as u64);
    if body.is_empty() {
        return state.slots.end(at, None);
    }
    if let Some(layout) = &slot.layout {
        // SAFETY: the layout's bytes are writable until the receive is done; a body
        // lies apart from them, as one of this process to itself is a copy.
        unsafe { layout.unpack_raw(slot.buf, 0, body) };
        let error = slot.refusal(0, slot.length);
        return state.slots.end(at, error);
    }
    let fits = body.len().min(slot.capacity);
    if fits > 0 {
        // SAFETY: the receive's buffer is writable for `capacity` bytes until it is
        // done; `copy` lets a body lie in it, as in `Slots::receive`.
        unsafe { slot.buf.copy_from(body.as_ptr(), fits) };
    }
    let error =
        (fits < body.len()).then(|| MsgError::truncated(peer, bits, slot.length, slot.capacity));
    state.slots.end(at, error);
}
