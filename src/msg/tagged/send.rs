//! Sends: whole, by rendezvous, or later, when their peer has credit.

use super::flow::{Flows, PeerFlow};
use super::packets::{EAGER, head};
use super::slots::Phase;
use super::state::{State, TaggedProtocol, bytes};
use crate::device::{ANYBODY, Context};
use crate::msg::error::MsgError;
use crate::msg::types::{Envelope, LaidOut, Outgoing, Sent};
use crate::netmod::Netmod;
use crate::shm::word::Word;

impl TaggedProtocol {
    /// Begins a send.
    ///
    /// # Safety
    /// \[BUF\]: the buffer is readable until the request is done.
    #[inline]
    pub(super) unsafe fn send<N: Netmod>(
        &self,
        context: &Context<N>,
        message: Outgoing,
    ) -> Result<Sent, MsgError> {
        // SAFETY: [BUF], until the return.
        if !message.mode.synchronous && unsafe { self.send_now(context, message) } {
            return Ok(Sent::Done);
        }
        // SAFETY: [BUF].
        unsafe { self.send_later(context, message) }
    }

    /// Returns true if a message went at once, to its receiver's queue on the node or to the
    /// provider, which has copied it; else nothing has happened. Its mode is not looked at.
    ///
    /// # Safety
    /// \[BUF\], until the return: the buffer is readable.
    #[inline(always)]
    pub(super) unsafe fn send_now<N: Netmod>(
        &self,
        context: &Context<N>,
        message: Outgoing,
    ) -> bool {
        let Outgoing { to, buf, len, .. } = message;
        let Some(flow) = self.flows.get(to.peer) else { return false };
        if len >= flow.short.get() as usize || !flow.credit.has(&self.flows.limits, len) {
            return false;
        }
        let head = head(EAGER, [to.channel, to.bits, 0]);
        // SAFETY: [BUF], until the return.
        let sent = unsafe { context.write(to.peer, head, buf, len) };
        if sent {
            flow.credit.spend(len);
            if len <= Word::BYTES {
                flow.allow_words(&self.flows.limits);
            }
        }
        sent
    }

    /// The same of a short message, if several may go without a look at the credit; else
    /// `None`.
    #[inline(always)]
    pub(super) fn send_word<N: Netmod>(
        &self,
        context: &Context<N>,
        to: Envelope,
        word: Word,
    ) -> Option<bool> {
        let flow = self.flows.get(to.peer).filter(|flow| flow.credit.has_word())?;
        let head = head(EAGER, [to.channel, to.bits, 0]);
        context.write_word(to.peer, head, word, || flow.credit.spend_word(word.len()))
    }

    /// # Safety
    /// \[BUF\], as [`TaggedProtocol::send`].
    #[inline(never)]
    unsafe fn send_later<N: Netmod>(
        &self,
        context: &Context<N>,
        message: Outgoing,
    ) -> Result<Sent, MsgError> {
        let Outgoing { to, buf, len, mode } = message;
        if !mode.synchronous
            && let Some(flow) = self.flows.get(to.peer)
            && len < flow.short.get() as usize
            && flow.credit.has(&self.flows.limits, len)
        {
            let head = head(EAGER, [to.channel, to.bits, 0]);
            // SAFETY: [BUF]; copied before this returns.
            let body = unsafe { bytes(buf, len) };
            context.transmit_copy(to.peer, head, body)?;
            flow.credit.spend(len);
            return Ok(Sent::Done);
        }
        // SAFETY: [BUF].
        unsafe { self.send_slowly(context, &message, None) }
    }

    /// Begins a send of `message.len` bytes that a layout takes from `message.buf`
    /// as its origin.
    ///
    /// # Safety
    /// \[BUF\]: those bytes are readable until the request is done.
    #[inline(never)]
    pub(super) unsafe fn send_laid_out<N: Netmod>(
        &self,
        context: &Context<N>,
        message: &Outgoing,
        laid: LaidOut<'_>,
    ) -> Result<Sent, MsgError> {
        let Outgoing { to, buf, len, mode } = *message;
        if !mode.synchronous
            && let Some(flow) = self.flows.get(to.peer)
            && len < flow.short.get() as usize
            && flow.credit.has(&self.flows.limits, len)
        {
            let head = head(EAGER, [to.channel, to.bits, 0]);
            let pack = |body: &mut [u8]| {
                // SAFETY: [BUF]; a packet is apart from all buffers.
                unsafe { laid.layout.pack_raw(buf, 0, body) };
            };
            if context.write_with(to.peer, head, len, pack) {
                flow.credit.spend(len);
                return Ok(Sent::Done);
            }
        }
        // SAFETY: [BUF].
        unsafe { self.send_slowly(context, message, Some(laid)) }
    }

    /// # Safety
    /// \[BUF\], as [`TaggedProtocol::send`].
    #[inline(never)]
    unsafe fn send_slowly<N: Netmod>(
        &self,
        context: &Context<N>,
        message: &Outgoing,
        laid: Option<LaidOut<'_>>,
    ) -> Result<Sent, MsgError> {
        let Outgoing { to, buf, len, mode } = *message;
        // (Here, where short messages mostly do not come.)
        if len > isize::MAX as usize {
            return Err(MsgError::Length { len });
        }
        if to.peer == self.flows.me {
            // SAFETY: [BUF].
            return Ok(unsafe { self.send_own(message, laid) });
        }
        let flow = self.flows.open(context, to.peer)?;
        let mut state = self.state.borrow_mut();
        let (at, slot) = state.slots.take();
        slot.peer = to.peer;
        slot.channel = to.channel;
        slot.bits = to.bits;
        slot.buf = buf.cast_mut();
        slot.capacity = len;
        slot.length = len as u64;
        slot.synchronous = mode.synchronous;
        slot.borrowed = mode.borrowed;
        if let Some(laid) = laid {
            slot.set_layout(laid);
        }
        if flow.waits.get() || !flow.credit.has_heads(&self.flows.limits) {
            slot.phase = Phase::Queued;
            if !flow.waits.get() {
                Flows::ask(context, to.peer, flow);
            }
            flow.push(at);
            state.counts.queued += 1;
            return Ok(Sent::Pending(at));
        }
        if let Err(e) = self.issue(context, &mut state, flow, at) {
            state.slots.end(at, None);
            state.slots.give(at);
            return Err(e);
        }
        if state.slots.at(at).phase == Phase::Done {
            state.slots.give(at);
            return Ok(Sent::Done);
        }
        Ok(Sent::Pending(at))
    }

    /// Sends what a request has to send; there is credit for its header.
    fn issue<N: Netmod>(
        &self,
        context: &Context<N>,
        state: &mut State,
        flow: &PeerFlow,
        at: u32,
    ) -> Result<(), MsgError> {
        let len = state.slots.at(at).capacity;
        let fits = len <= flow.eager.get() as usize;
        if fits && flow.credit.has_bytes(&self.flows.limits, len) {
            return self.send_whole(context, state, flow, at);
        }
        self.send_rts(context, state, flow, at)
    }

    /// A peer has reported what it consumed: sends what waited for credit.
    pub(super) fn credit_arrived<N: Netmod>(&self, context: &Context<N>, peer: u32, counts: u64) {
        let Some(flow) = self.flows.get_or_new(peer) else { return };
        flow.credit.told(counts);
        if flow.waits.get() {
            self.send_queued(context, &mut self.state.borrow_mut(), flow);
            if flow.waits.get() {
                Flows::ask(context, peer, flow);
            }
        }
    }

    /// Sends of a peer wait for credit.
    pub(super) fn credit_wanted<N: Netmod>(&self, context: &Context<N>, peer: u32) {
        self.flows.asked(peer);
        let mut state = self.state.borrow_mut();
        let mut slots = state.slots.live().map(|(_, slot)| slot);
        if slots.any(|slot| slot.phase == Phase::Posted && [peer, ANYBODY].contains(&slot.peer)) {
            self.flows.let_come(context, |wanting| wanting == peer);
        }
    }

    fn send_queued<N: Netmod>(&self, context: &Context<N>, state: &mut State, flow: &PeerFlow) {
        while flow.waits.get() && flow.credit.has_heads(&self.flows.limits) {
            let Some(at) = flow.pop() else { return };
            state.counts.queued = state.counts.queued.saturating_sub(1);
            if let Err(e) = self.issue(context, state, flow, at) {
                state.slots.end(at, Some(e));
            }
        }
    }
}
