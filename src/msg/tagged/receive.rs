//! Receives and probes: what has come already, and what is posted.

use super::eager::{deliver, deliver_own};
use super::packets::send_fin;
use super::slots::Phase;
use super::state::{Matched, State, TaggedProtocol, Unexpected, UnexpectedBody};
use super::tokens;
use crate::device::{ANYBODY, Context};
use crate::msg::error::MsgError;
use crate::msg::types::{Envelope, LaidOut, MatchSpec, Outgoing, RecvBuffer, SendMode, Status};
use crate::netmod::Netmod;

impl TaggedProtocol {
    /// Posts a receive whose completion carries `cookie`, and returns its id; calls
    /// nothing. Returns `None` where that is not all there is to do, and nothing has
    /// happened.
    ///
    /// # Safety
    /// \[INTO\], as [`TaggedProtocol::receive`].
    #[inline(always)]
    pub(super) unsafe fn post(
        &self,
        spec: MatchSpec,
        buf: *mut u8,
        capacity: usize,
        cookie: u64,
    ) -> Option<u64> {
        let mut state = self.state.try_borrow_mut().ok()?;
        let state = &mut *state;
        if self.flows.posts_slowly() || !state.engine.is_open() || !state.slots.has_free() {
            return None;
        }
        let (at, slot) = state.slots.take_free(Phase::Posted);
        slot.buf = buf;
        slot.capacity = capacity;
        slot.peer = spec.from.unwrap_or(ANYBODY);
        slot.cookie = cookie;
        let id = tokens::request_id(slot.generation, at);
        state.engine.post_open(spec.channel, spec.bits, spec.ignore, at);
        Some(id)
    }

    /// Receives the message that came first of all that lie here, if that came whole, fits,
    /// and nobody waits to hear of it. `None` otherwise, and nothing has happened.
    ///
    /// # Safety
    /// \[INTO\], until the return.
    pub(super) unsafe fn receive_kept<N: Netmod>(
        &self,
        context: &Context<N>,
        spec: &MatchSpec,
        buf: *mut u8,
        capacity: usize,
    ) -> Option<Status> {
        let mut state = self.state.try_borrow_mut().ok()?;
        let state = &mut *state;
        let read = |bits, message: &Unexpected| match &message.body {
            UnexpectedBody::Eager(body, None) if body.len() <= capacity => {
                // SAFETY: [INTO]: `capacity` bytes, which may be none; the body is a copy.
                unsafe { buf.copy_from(body.as_ptr(), body.len()) };
                Some(Status { peer: message.peer, bits, length: message.length, cancelled: false })
            }
            _ => None,
        };
        let (status, message) =
            state.engine.take_first(spec.channel, spec.bits, spec.ignore, read)?;
        state.counts.unexpected -= 1;
        if let UnexpectedBody::Eager(body, _) = message.body {
            state.counts.unexpected_bytes -= body.len();
            self.flows.consumed(context, status.peer, body.len());
            state.pool.give(body);
        }
        Some(status)
    }

    /// Begins a receive: its request.
    ///
    /// # Safety
    /// \[INTO\]: the buffer is writable until the request is done.
    pub(super) unsafe fn receive<N: Netmod>(
        &self,
        context: &Context<N>,
        spec: &MatchSpec,
        buffer: RecvBuffer,
    ) -> Result<u32, MsgError> {
        // SAFETY: [INTO].
        unsafe { self.receive_laid_out(context, spec, buffer, None) }
    }

    /// The same into what a layout takes from the buffer's start as its origin; it
    /// has a capacity of 0 then.
    ///
    /// # Safety
    /// \[INTO\], of the layout's bytes.
    #[inline]
    pub(super) unsafe fn receive_laid_out<N: Netmod>(
        &self,
        context: &Context<N>,
        spec: &MatchSpec,
        buffer: RecvBuffer,
        laid: Option<LaidOut<'_>>,
    ) -> Result<u32, MsgError> {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        let found = state.take(spec);
        if found.is_none() {
            self.check_sender(context, state, spec)?;
        }
        let at = state.take_slot(buffer, laid);
        let slot = state.slots.at(at);
        slot.peer = spec.from.unwrap_or(ANYBODY);
        match found {
            Some(matched) => self.accept(context, state, at, matched),
            None => {
                slot.phase = Phase::Posted;
                state.engine.post(spec.channel, spec.bits, spec.ignore, at);
                self.let_come(context, spec);
            }
        }
        Ok(at)
    }

    /// Receives a message of a matched probe.
    ///
    /// # Safety
    /// \[INTO\], as [`TaggedProtocol::receive`].
    pub(super) unsafe fn receive_matched<N: Netmod>(
        &self,
        context: &Context<N>,
        matched: Option<Matched>,
        buffer: RecvBuffer,
        laid: Option<LaidOut<'_>>,
    ) -> u32 {
        let mut state = self.state.borrow_mut();
        let at = state.take_slot(buffer, laid);
        match matched {
            Some(matched) => self.accept(context, &mut state, at, matched),
            // A message is received once, which its type sees to.
            None => state.slots.end(at, None),
        }
        at
    }

    /// Gives a message that came early to a receive.
    fn accept<N: Netmod>(
        &self,
        context: &Context<N>,
        state: &mut State,
        at: u32,
        matched: Matched,
    ) {
        if state.is_stale(&matched) {
            let error = MsgError::died(matched.message.peer);
            state.drop_message(matched.message);
            return state.slots.end(at, Some(error));
        }
        let Matched { bits, message: Unexpected { peer, length, body }, .. } = matched;
        state.counts.unexpected -= 1;
        match body {
            UnexpectedBody::Eager(body, answer) => {
                state.counts.unexpected_bytes -= body.len();
                deliver(state, at, peer, bits, &body);
                self.flows.answered(context, peer, body.len(), answer);
                state.pool.give(body);
            }
            UnexpectedBody::Rendezvous(rts) => {
                self.flows.consumed(context, peer, 0);
                state.slots.at(at).matched(peer, bits, length);
                self.begin(context, state, at, rts);
            }
            UnexpectedBody::Own(sender) => {
                let Some((sender, _)) = state.slots.known(sender) else {
                    // Taken back between a matched probe and here.
                    state.slots.at(at).cancelled = true;
                    return state.slots.end(at, None);
                };
                let send = state.slots.at(sender);
                let to = Envelope { peer, channel: send.channel, bits };
                let (buf, len, mode) = (send.buf.cast_const(), send.capacity, SendMode::default());
                let own = send.laid_out().map(|laid| (laid.layout.clone(), laid.typed));
                let laid = own.as_ref().map(|(layout, typed)| LaidOut { layout, typed: *typed });
                // SAFETY: the sender's buffer is readable until its request is
                // done, which is below.
                unsafe { deliver_own(state, at, peer, &Outgoing { to, buf, len, mode }, laid) };
                state.slots.end(sender, None);
            }
        }
    }

    /// Refuses a receive from the dead.
    fn check_sender<N: Netmod>(
        &self,
        context: &Context<N>,
        state: &mut State,
        spec: &MatchSpec,
    ) -> Result<(), MsgError> {
        match spec.from {
            Some(peer) => {
                if self.flows.is_gone(peer) {
                    context.check_open(peer)?;
                }
                Ok(())
            }
            None if state.gone.is_empty() => Ok(()),
            None => match state.refusal(context, spec.channel) {
                None => Ok(()),
                Some(refusal) => Err(refusal.error(context)),
            },
        }
    }

    /// [`Tagged::dead_sender`](super::Tagged::dead_sender).
    pub(super) fn dead_sender<N: Netmod>(
        &self,
        context: &Context<N>,
        channel: u64,
    ) -> Option<MsgError> {
        let state = self.state.borrow();
        if state.gone.is_empty() {
            return None;
        }
        state.dead_sender(context, channel).map(|refusal| refusal.error(context))
    }

    /// The first message that fits, left where it is.
    pub(super) fn peek(&self, spec: &MatchSpec) -> Option<Status> {
        let mut state = self.state.borrow_mut();
        let (bits, message) = state.engine.peek(spec.channel, spec.bits, spec.ignore)?;
        Some(Status { peer: message.peer, bits, length: message.length, cancelled: false })
    }

    /// The same, for nobody else any more.
    pub(super) fn take(&self, spec: &MatchSpec) -> Option<Matched> {
        self.state.borrow_mut().take(spec)
    }

    /// What fits may wait for its sender's credit, behind all that lies here.
    #[inline]
    fn let_come<N: Netmod>(&self, context: &Context<N>, spec: &MatchSpec) {
        self.flows.let_come(context, |peer| spec.from.is_none_or(|from| from == peer));
    }

    /// Refuses a probe that found nothing and can find nothing any more.
    pub(super) fn check_probe<N: Netmod>(
        &self,
        context: &Context<N>,
        spec: &MatchSpec,
    ) -> Result<(), MsgError> {
        context.note_awaited(spec.from.unwrap_or(ANYBODY));
        self.let_come(context, spec);
        self.check_sender(context, &mut self.state.borrow_mut(), spec)
    }

    /// Throws the message of a matched probe away.
    pub(super) fn discard<N: Netmod>(&self, context: &Context<N>, matched: Matched) {
        let mut state = self.state.borrow_mut();
        let stale = state.is_stale(&matched);
        let message = matched.message;
        if stale {
            return state.drop_message(message);
        }
        state.counts.unexpected -= 1;
        let peer = message.peer;
        match message.body {
            UnexpectedBody::Eager(body, answer) => {
                state.counts.unexpected_bytes -= body.len();
                self.flows.answered(context, peer, body.len(), answer);
                state.pool.give(body);
            }
            UnexpectedBody::Rendezvous(rts) => {
                self.flows.consumed(context, peer, 0);
                send_fin(context, peer, rts.id);
            }
            UnexpectedBody::Own(sender) => {
                if let Some((sender, _)) = state.slots.known(sender) {
                    state.slots.end(sender, None);
                }
            }
        }
    }
}

impl State {
    fn take(&mut self, spec: &MatchSpec) -> Option<Matched> {
        let found = self.engine.take(spec.channel, spec.bits, spec.ignore);
        let forgets = self.forgets;
        found.map(|(bits, message)| Matched { bits, message, forgets })
    }

    /// A request that receives into a buffer.
    #[inline]
    fn take_slot(&mut self, buffer: RecvBuffer, laid: Option<LaidOut<'_>>) -> u32 {
        let (at, slot) = self.slots.take();
        slot.buf = buffer.start;
        slot.capacity = buffer.capacity;
        slot.borrowed = buffer.borrowed;
        if let Some(laid) = laid {
            slot.set_layout(laid);
        }
        at
    }
}
