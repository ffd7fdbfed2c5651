//! Tagged messages of a context: packets in, packets out.
//!
//! ```text
//! EAGER      channel bits -       payload      sent whole, on credit
//! SYNC       channel bits id      payload      the same, and answered by
//! SYNC_ACK   id                                once a receive matched it
//! RTS        channel bits length  id address   a rendezvous
//! CTS        id tag pieces        piece        receives for so many pieces are
//!                                              posted, under tag, tag + 1, ...
//! FIN        id                                nothing more of it is wanted
//! CREDIT     counts                            consumed so far
//! QUERY      id                                asks for delivery, answered by
//! DELIVERED  id                                once the message is here
//! ```
//!
//! A payload travels in its packet when it fits one and the peer has credit
//! for it, else by rendezvous. A send whose peer has no credit for another
//! header waits here, and those behind it do too: messages to a peer are
//! never reordered.
//!
//! On a node the receiver of a rendezvous copies the message out of the
//! sender's memory, where the system lets it.

use super::MsgError;
use super::credit::{Credit, Limits};
use super::matching::Engine;
use super::pool::Pool;
use super::slots::{ANYBODY, Phase, Slots};
use super::types::{Completion, Counts, MatchSpec, SendMode, Sent, Status};
use crate::device::{
    Body, Class, Context, DeviceError, Head, Outcome, PIECE, PacketHandler, PerPeer,
};
use crate::netmod::{AGAIN, Bulk, Netmod};
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::{Duration, Instant};

const EAGER: u8 = 0;
const SYNC: u8 = 1;
const SYNC_ACK: u8 = 2;
const RTS: u8 = 3;
const CTS: u8 = 4;
const FIN: u8 = 5;
const CREDIT: u8 = 6;
const QUERY: u8 = 7;
const DELIVERED: u8 = 8;

/// Pieces of a rendezvous for which receives are posted ahead.
const AHEAD: u64 = 4;
/// What a peer sent before it died may still be on its way through the kernel.
const GRACE: Duration = Duration::from_millis(50);

/// A message that came before its receive.
pub(super) struct Unexpected {
    pub(super) peer: u32,
    pub(super) length: u64,
    what: What,
}

enum What {
    /// Its bytes; the id to answer of a synchronous send.
    Whole(Vec<u8>, Option<u64>),
    /// The sender's request.
    Rts(Rts),
    /// A send of this process to itself.
    Own(u64),
}

/// Flow control towards a peer.
#[derive(Default)]
struct PeerFlow {
    credit: Credit,
    /// Payloads shorter than this are copied at the call; 0 until the first
    /// message to it, and while sends wait for credit.
    short: Cell<u32>,
    /// The longest payload that is copied at the call, and that is sent
    /// whole.
    inject: Cell<u32>,
    eager: Cell<u32>,
    known: Cell<bool>,
    /// Dead or out of reach: what was under way has failed.
    gone: Cell<bool>,
    /// Sends that wait for credit, in order.
    waits: Cell<bool>,
    #[expect(clippy::box_collection, reason = "most peers have none: 8 bytes, not 32")]
    queue: RefCell<Option<Box<VecDeque<u32>>>>,
}

struct State {
    engine: Engine<Unexpected>,
    slots: Slots,
    pool: Pool,
    counts: Counts,
    next_tag: u64,
    /// Rendezvous the provider had no space for.
    stalled: Vec<u32>,
    /// Lost peers, and when what is under way with them fails.
    dying: Vec<(u32, Instant)>,
    /// How many peers are gone.
    gone: u32,
    /// Shared-memory endpoints given up so far, see [`TaggedProtocol::query_delivery`].
    renewals: usize,
}

/// The tagged messages of a context.
pub(super) struct TaggedProtocol {
    state: RefCell<State>,
    flows: PerPeer<PeerFlow>,
    limits: Limits,
    me: u32,
    universe: u32,
    /// Longest piece of a rendezvous, bytes.
    longest: u64,
    /// Longest message that is sent whole, bytes, where its peer takes more.
    whole: Cell<usize>,
}

impl PeerFlow {
    /// Sends to it wait for credit from now on, or no longer.
    fn set_waits(&self, waits: bool) {
        self.waits.set(waits);
        let short = self.known.get() && !waits;
        self.short.set(if short { self.inject.get().saturating_add(1) } else { 0 });
    }
}

#[inline]
fn head(kind: u8, words: [u64; 3]) -> Head {
    Head::new(Class::Tagged, kind, words)
}

fn died(peer: u32) -> MsgError {
    MsgError::Device(DeviceError::PeerDied { rank: peer })
}

impl TaggedProtocol {
    /// That of a context, registered there on first use.
    pub(super) fn of<N: Netmod>(context: &Context<N>) -> Result<Rc<TaggedProtocol>, MsgError> {
        if let Some(protocol) = context.handler::<TaggedProtocol>(Class::Tagged) {
            return Ok(protocol);
        }
        let boot = context.device().boot();
        let protocol = Rc::new(TaggedProtocol {
            state: RefCell::new(State {
                engine: Engine::new(),
                slots: Slots::default(),
                pool: Pool::new(),
                counts: Counts::default(),
                next_tag: 0,
                stalled: Vec::new(),
                dying: Vec::new(),
                gone: 0,
                renewals: 0,
            }),
            flows: PerPeer::new(boot.universe())?,
            limits: Limits::from_env(),
            me: boot.rank(),
            universe: boot.universe(),
            longest: crate::settings::BULK_PIECE.get().unwrap_or(1 << 30),
            whole: Cell::new(usize::MAX),
        });
        let handler: Rc<TaggedProtocol> = Rc::clone(&protocol);
        context.register_handler(Class::Tagged, handler);
        Ok(protocol)
    }

    pub(super) fn counts(&self) -> Counts {
        self.state.borrow().counts
    }

    /// Bounds what is sent whole to peers nothing was sent to yet.
    pub(super) fn limit_whole(&self, bytes: usize) {
        self.whole.set(bytes);
    }

    fn flow(&self, peer: u32) -> Result<&PeerFlow, MsgError> {
        let none = DeviceError::NoRank { rank: peer, size: self.universe };
        Ok(self.flows.get_or_new(peer).ok_or(none)?)
    }

    // ---- sends

    /// Begins a send.
    ///
    /// # Safety
    /// `buf` is readable for `len` bytes until the request is done.
    #[inline]
    #[expect(clippy::too_many_arguments, reason = "one message, taken apart once")]
    pub(super) unsafe fn send<N: Netmod>(
        &self,
        context: &Context<N>,
        peer: u32,
        channel: u64,
        bits: u64,
        buf: *const u8,
        len: usize,
        mode: SendMode,
    ) -> Result<Sent, MsgError> {
        // SAFETY: the caller's duty.
        if !mode.synchronous && unsafe { self.send_now(context, peer, channel, bits, buf, len) } {
            return Ok(Sent::Done);
        }
        // SAFETY: the caller's duty.
        unsafe { self.send_later(context, peer, channel, bits, buf, len, mode) }
    }

    /// Returns true if a message could be written to its receiver's queue on
    /// the node at once; else nothing has happened.
    ///
    /// # Safety
    /// `buf` is readable for `len` bytes.
    #[inline]
    pub(super) unsafe fn send_now<N: Netmod>(
        &self,
        context: &Context<N>,
        peer: u32,
        channel: u64,
        bits: u64,
        buf: *const u8,
        len: usize,
    ) -> bool {
        let Some(flow) = self.flows.get(peer) else { return false };
        if len >= flow.short.get() as usize || !flow.credit.has(&self.limits, len) {
            return false;
        }
        // SAFETY: the caller's duty.
        let sent = unsafe { context.write(peer, head(EAGER, [channel, bits, 0]), buf, len) };
        if sent {
            flow.credit.spend(len);
        }
        sent
    }

    /// # Safety
    /// As [`TaggedProtocol::send`].
    #[expect(clippy::too_many_arguments, reason = "one message, taken apart once")]
    #[inline(never)]
    pub(super) unsafe fn send_later<N: Netmod>(
        &self,
        context: &Context<N>,
        peer: u32,
        channel: u64,
        bits: u64,
        buf: *const u8,
        len: usize,
        mode: SendMode,
    ) -> Result<Sent, MsgError> {
        if !mode.synchronous
            && let Some(flow) = self.flows.get(peer)
            && len < flow.short.get() as usize
            && flow.credit.has(&self.limits, len)
        {
            // SAFETY: the caller's duty; copied before this returns.
            let body = unsafe { bytes(buf, len) };
            // SAFETY: a copied body has no conditions.
            unsafe { context.transmit(peer, head(EAGER, [channel, bits, 0]), Body::Copied(body))? };
            flow.credit.spend(len);
            return Ok(Sent::Done);
        }
        // SAFETY: the caller's duty.
        unsafe { self.send_slowly(context, peer, channel, bits, buf, len, mode) }
    }

    /// # Safety
    /// As [`TaggedProtocol::send`].
    #[expect(clippy::too_many_arguments, reason = "one message, taken apart once")]
    #[inline(never)]
    unsafe fn send_slowly<N: Netmod>(
        &self,
        context: &Context<N>,
        peer: u32,
        channel: u64,
        bits: u64,
        buf: *const u8,
        len: usize,
        mode: SendMode,
    ) -> Result<Sent, MsgError> {
        if peer == self.me {
            // SAFETY: the caller's duty.
            return unsafe { self.send_own(channel, bits, buf, len, mode.synchronous) };
        }
        let flow = self.flow(peer)?;
        if flow.gone.get() {
            context.check_open(peer)?;
        }
        if !flow.known.get() {
            let (inject, eager) = context.packet_limits(peer)?;
            if eager == 0 {
                return Err(MsgError::NoMessages { rank: peer });
            }
            let eager = eager.min(self.whole.get());
            flow.inject.set(inject.min(eager) as u32);
            flow.eager.set(eager as u32);
            flow.known.set(true);
            flow.set_waits(false);
        }
        let mut state = self.state.borrow_mut();
        let at = state.slots.take();
        let slot = state.slots.at(at);
        slot.peer = peer;
        slot.channel = channel;
        slot.bits = bits;
        slot.buf = buf.cast_mut();
        slot.capacity = len;
        slot.length = len as u64;
        slot.synchronous = mode.synchronous;
        slot.borrowed = mode.borrowed;
        if flow.waits.get() || !flow.credit.has_heads(&self.limits) {
            slot.phase = Phase::Queued;
            flow.set_waits(true);
            flow.queue.borrow_mut().get_or_insert_default().push_back(at);
            state.counts.queued += 1;
            return Ok(Sent::Pending(at));
        }
        if let Err(e) = self.issue(context, &mut state, flow, at) {
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
        let id = state.slots.id(at);
        let slot = state.slots.at(at);
        let (peer, len) = (slot.peer, slot.capacity);
        let whole = len <= flow.eager.get() as usize;
        if whole && flow.credit.has_bytes(&self.limits, len) {
            let kind = if slot.synchronous { SYNC } else { EAGER };
            let head = head(kind, [slot.channel, slot.bits, id]);
            let token = Class::Tagged.token(id);
            let body = if len <= flow.inject.get() as usize {
                // SAFETY: the buffer is readable until the request is done.
                Body::Copied(unsafe { bytes(slot.buf, len) })
            } else {
                // SAFETY: the buffer is readable until the request is done.
                let start = unsafe { slot.buffer_of(0, 0, len, true) };
                Body::Kept { start, len, token }
            };
            // SAFETY: a kept body is readable until the request is done, which
            // is after its token or the loss of the peer.
            let free = unsafe { context.transmit(peer, head, body)? };
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
            return Ok(());
        }
        let head = head(RTS, [slot.channel, slot.bits, slot.length]);
        let rts = Rts { id, start: slot.buf as u64 };
        // SAFETY: a copied body has no conditions.
        unsafe { context.transmit(peer, head, Body::Copied(&rts.encode()))? };
        flow.credit.spend(0);
        slot.begin_rendezvous(Phase::RtsSent);
        Ok(())
    }

    /// Sends to this process itself.
    ///
    /// # Safety
    /// As [`TaggedProtocol::send`].
    unsafe fn send_own(
        &self,
        channel: u64,
        bits: u64,
        buf: *const u8,
        len: usize,
        synchronous: bool,
    ) -> Result<Sent, MsgError> {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        if let Some(receive) = state.engine.arrive(channel, bits) {
            // SAFETY: the caller's duty.
            let body = unsafe { bytes(buf, len) };
            deliver(state, receive, self.me, bits, body);
            return Ok(Sent::Done);
        }
        let fits = state.counts.unexpected_bytes + len <= self.limits.bytes as usize;
        let (sent, what) = if fits && !synchronous {
            // SAFETY: the caller's duty.
            let copy = state.pool.copy(unsafe { bytes(buf, len) });
            (Sent::Done, What::Whole(copy, None))
        } else {
            let at = state.slots.take();
            let slot = state.slots.at(at);
            slot.begin_rendezvous(Phase::RtsSent);
            slot.peer = self.me;
            slot.channel = channel;
            slot.bits = bits;
            slot.buf = buf.cast_mut();
            slot.capacity = len;
            slot.length = len as u64;
            (Sent::Pending(at), What::Own(state.slots.id(at)))
        };
        store(state, channel, bits, Unexpected { peer: self.me, length: len as u64, what });
        Ok(sent)
    }

    /// Sends what waited for credit.
    fn send_queued<N: Netmod>(&self, context: &Context<N>, state: &mut State, flow: &PeerFlow) {
        while flow.waits.get() && flow.credit.has_heads(&self.limits) {
            let next = flow.queue.borrow_mut().as_mut().and_then(|queue| queue.pop_front());
            let Some(at) = next else {
                flow.set_waits(false);
                *flow.queue.borrow_mut() = None;
                return;
            };
            state.counts.queued = state.counts.queued.saturating_sub(1);
            if let Err(e) = self.issue(context, state, flow, at) {
                state.slots.end(at, Some(e));
            }
        }
    }

    // ---- receives

    /// Posts a receive whose completion carries `cookie`, and returns its id.
    /// Returns `None` where that is not all there is to do, and nothing has
    /// happened.
    ///
    /// # Safety
    /// As [`TaggedProtocol::receive`].
    #[inline]
    pub(super) unsafe fn post(
        &self,
        spec: &MatchSpec,
        buf: *mut u8,
        capacity: usize,
        cookie: u64,
    ) -> Option<u64> {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        if state.gone > 0 || state.engine.has(spec.channel, spec.bits, spec.ignore) {
            return None;
        }
        let at = state.slots.take();
        let slot = state.slots.at(at);
        slot.buf = buf;
        slot.capacity = capacity;
        slot.peer = spec.from.unwrap_or(ANYBODY);
        slot.phase = Phase::Posted;
        slot.cookie = cookie;
        state.engine.post(spec.channel, spec.bits, spec.ignore, at);
        Some(state.slots.id(at))
    }

    /// Begins a receive: its request.
    ///
    /// # Safety
    /// `buf` is writable for `capacity` bytes until the request is done.
    pub(super) unsafe fn receive<N: Netmod>(
        &self,
        context: &Context<N>,
        spec: &MatchSpec,
        buf: *mut u8,
        capacity: usize,
        borrowed: bool,
    ) -> Result<u32, MsgError> {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        let found = state.engine.take(spec.channel, spec.bits, spec.ignore);
        if found.is_none() {
            self.check_sender(context, state, spec)?;
        }
        let at = state.slots.take();
        let slot = state.slots.at(at);
        slot.buf = buf;
        slot.capacity = capacity;
        slot.borrowed = borrowed;
        slot.peer = spec.from.unwrap_or(ANYBODY);
        match found {
            Some((bits, message)) => self.accept(context, state, at, bits, message),
            None => {
                slot.phase = Phase::Posted;
                state.engine.post(spec.channel, spec.bits, spec.ignore, at);
            }
        }
        Ok(at)
    }

    /// Refuses a receive from the dead.
    fn check_sender<N: Netmod>(
        &self,
        context: &Context<N>,
        state: &State,
        spec: &MatchSpec,
    ) -> Result<(), MsgError> {
        match spec.from {
            Some(peer) => {
                if self.flows.get(peer).is_some_and(|flow| flow.gone.get()) {
                    context.check_open(peer)?;
                }
                Ok(())
            }
            None if state.gone > 0 && state.gone + 1 >= self.universe => {
                Err(MsgError::NobodyLeft { others: state.gone })
            }
            None => Ok(()),
        }
    }

    /// Gives a message that came early to a receive.
    fn accept<N: Netmod>(
        &self,
        context: &Context<N>,
        state: &mut State,
        at: u32,
        bits: u64,
        message: Unexpected,
    ) {
        let Unexpected { peer, length, what } = message;
        state.counts.unexpected -= 1;
        match what {
            What::Whole(body, answer) => {
                state.counts.unexpected_bytes -= body.len();
                deliver(state, at, peer, bits, &body);
                self.consumed(context, peer, body.len(), answer);
                state.pool.give(body);
            }
            What::Rts(id) => {
                self.consumed(context, peer, 0, None);
                self.begin(context, state, at, peer, bits, length, id);
            }
            What::Own(sender) => {
                let Some((sender, send)) = state.slots.known(sender) else {
                    // Taken back between a matched probe and here.
                    state.slots.at(at).cancelled = true;
                    return state.slots.end(at, None);
                };
                let (buf, len) = (send.buf, send.capacity);
                // SAFETY: the sender's buffer is readable until its request is
                // done, which is below.
                deliver(state, at, peer, bits, unsafe { bytes(buf, len) });
                state.slots.end(sender, None);
            }
        }
    }

    /// A message from a peer was consumed: credit, and the answer of a
    /// synchronous one. What cannot be sent need not be: the peer is gone.
    #[inline]
    fn consumed<N: Netmod>(
        &self,
        context: &Context<N>,
        peer: u32,
        len: usize,
        answer: Option<u64>,
    ) {
        if peer == self.me {
            return;
        }
        let Some(flow) = self.flows.get_or_new(peer) else { return };
        if flow.credit.consume(&self.limits, len) {
            let head = head(CREDIT, [flow.credit.tell(), 0, 0]);
            // SAFETY: a copied body has no conditions.
            let _ = unsafe { context.transmit(peer, head, Body::Copied(&[])) };
        }
        if let Some(id) = answer {
            // SAFETY: as above.
            let _ =
                unsafe { context.transmit(peer, head(SYNC_ACK, [id, 0, 0]), Body::Copied(&[])) };
        }
    }

    /// The first message that fits a choice, left where it is.
    pub(super) fn peek(&self, spec: &MatchSpec) -> Option<Status> {
        let state = self.state.borrow();
        let (bits, message) = state.engine.peek(spec.channel, spec.bits, spec.ignore)?;
        let (peer, length) = (message.peer, message.length);
        Some(Status { peer, bits, length, cancelled: false })
    }

    /// The same, for nobody else any more.
    pub(super) fn pick(&self, spec: &MatchSpec) -> Option<(u64, Unexpected)> {
        self.state.borrow_mut().engine.take(spec.channel, spec.bits, spec.ignore)
    }

    /// Refuses a probe that found nothing and can find nothing any more.
    pub(super) fn check_probe<N: Netmod>(
        &self,
        context: &Context<N>,
        spec: &MatchSpec,
    ) -> Result<(), MsgError> {
        self.check_sender(context, &self.state.borrow(), spec)
    }

    /// Receives a message that was picked.
    ///
    /// # Safety
    /// As [`TaggedProtocol::receive`].
    pub(super) unsafe fn receive_picked<N: Netmod>(
        &self,
        context: &Context<N>,
        bits: u64,
        message: Option<Unexpected>,
        buf: *mut u8,
        capacity: usize,
        borrowed: bool,
    ) -> u32 {
        let mut state = self.state.borrow_mut();
        let at = state.slots.take();
        let slot = state.slots.at(at);
        slot.buf = buf;
        slot.capacity = capacity;
        slot.borrowed = borrowed;
        match message {
            Some(message) => self.accept(context, &mut state, at, bits, message),
            // A message is received once, which its type sees to.
            None => state.slots.end(at, None),
        }
        at
    }

    /// Throws a picked message away.
    pub(super) fn discard<N: Netmod>(&self, context: &Context<N>, message: Unexpected) {
        let mut state = self.state.borrow_mut();
        state.counts.unexpected -= 1;
        let peer = message.peer;
        match message.what {
            What::Whole(body, answer) => {
                state.counts.unexpected_bytes -= body.len();
                self.consumed(context, peer, body.len(), answer);
                state.pool.give(body);
            }
            What::Rts(rts) => {
                self.consumed(context, peer, 0, None);
                send_fin(context, peer, rts.id);
            }
            What::Own(sender) => {
                if let Some((sender, _)) = state.slots.known(sender) {
                    state.slots.end(sender, None);
                }
            }
        }
    }

    // ---- requests

    /// Whom a request waits for: the one peer, if it is one.
    pub(super) fn awaits(&self, at: u32) -> Option<u32> {
        Some(self.state.borrow_mut().slots.at(at).peer).filter(|&peer| peer != ANYBODY)
    }

    #[inline]
    pub(super) fn is_done(&self, at: u32) -> bool {
        self.state.borrow_mut().slots.at(at).phase == Phase::Done
    }

    /// Sets a request's cookie, and returns the request's id; `None` when
    /// it is done already.
    #[inline]
    pub(super) fn set_cookie(&self, at: u32, cookie: u64) -> Option<u64> {
        let mut state = self.state.borrow_mut();
        let slot = state.slots.at(at);
        if slot.phase == Phase::Done {
            return None;
        }
        slot.cookie = cookie;
        Some(state.slots.id(at))
    }

    /// The next completion.
    #[inline]
    pub(super) fn next_completion(&self) -> Option<Completion> {
        self.state.borrow_mut().slots.next_completion()
    }

    #[inline]
    pub(super) fn has_completion(&self) -> bool {
        self.state.borrow().slots.has_completion()
    }

    /// The request of an id, if it is still that one.
    pub(super) fn known(&self, id: u64) -> Option<u32> {
        self.state.borrow_mut().slots.known(id).map(|(at, _)| at)
    }

    /// The result of a request that is done; its place is free then.
    pub(super) fn collect(&self, at: u32) -> Result<Status, MsgError> {
        self.state.borrow_mut().slots.collect(at)
    }

    /// Takes a receive back that has no message yet. Returns false otherwise.
    pub(super) fn cancel(&self, at: u32) -> bool {
        let mut state = self.state.borrow_mut();
        let slot = state.slots.at(at);
        if slot.phase != Phase::Posted {
            return false;
        }
        slot.cancelled = true;
        state.engine.withdraw(at);
        state.slots.end(at, None);
        true
    }

    /// Takes back a receive that has no message yet, or a send to this process
    /// itself that no receive took: nobody else can end them.
    pub(super) fn take_back(&self, at: u32) {
        let own_send = {
            let mut state = self.state.borrow_mut();
            let slot = state.slots.at(at);
            slot.phase == Phase::RtsSent && slot.peer == self.me
        };
        if own_send {
            self.withdraw_send(at);
        } else {
            self.cancel(at);
        }
    }

    /// The wait for a request has failed though it is not done. Of a borrowed
    /// buffer the provider has nothing, and nothing more is issued; another it
    /// is given some time to give back.
    #[cold]
    pub(super) fn abandon<N: Netmod>(&self, context: &Context<N>, at: u32) {
        let (phase, borrowed) = {
            let mut state = self.state.borrow_mut();
            let slot = state.slots.at(at);
            (slot.phase, slot.borrowed)
        };
        match phase {
            Phase::Done => {}
            Phase::Sending | Phase::Receiving if borrowed => {
                let mut state = self.state.borrow_mut();
                self.give_up(context, &mut state, at);
                let slot = state.slots.at(at);
                slot.fail(died(slot.peer));
            }
            Phase::Sending | Phase::Receiving => {
                self.give_up(context, &mut self.state.borrow_mut(), at);
                let start = Instant::now();
                // A handler's panic is not to meet another.
                let more = || start.elapsed() < GRACE && !std::thread::panicking();
                while !self.is_done(at) && more() && context.progress().is_ok() {
                    std::thread::yield_now();
                }
            }
            Phase::Queued | Phase::RtsSent => self.withdraw_send(at),
            _ => {}
        }
        self.detach(at);
    }

    /// A send of which nothing went out but an RTS: no CTS is taken for it later.
    fn withdraw_send(&self, at: u32) {
        let mut state = self.state.borrow_mut();
        let slot = state.slots.at(at);
        let peer = slot.peer;
        let queued = slot.phase == Phase::Queued;
        slot.cancelled = true;
        let (channel, bits) = (slot.channel, slot.bits);
        let id = state.slots.id(at);
        let own = |message: &Unexpected| matches!(message.what, What::Own(sender) if sender == id);
        if peer == self.me && state.engine.discard(channel, bits, own) {
            state.counts.unexpected -= 1;
        }
        state.counts.queued -= usize::from(queued);
        if let Some(flow) = self.flows.get(peer)
            && let Some(queue) = flow.queue.borrow_mut().as_mut()
        {
            queue.retain(|&waiting| waiting != at);
        }
        state.slots.end(at, None);
    }

    /// Nobody will ask for a request's result any more.
    pub(super) fn detach(&self, at: u32) {
        let mut state = self.state.borrow_mut();
        let slot = state.slots.at(at);
        slot.detached = true;
        match slot.phase {
            Phase::Done => state.slots.give(at),
            Phase::Posted => {
                state.engine.withdraw(at);
                state.slots.end(at, None);
            }
            _ => {}
        }
    }

    // ---- rendezvous

    /// A receive matched an RTS.
    #[expect(clippy::too_many_arguments, reason = "one message, taken apart once")]
    fn begin<N: Netmod>(
        &self,
        context: &Context<N>,
        state: &mut State,
        at: u32,
        peer: u32,
        bits: u64,
        length: u64,
        theirs: Rts,
    ) {
        let slot = state.slots.at(at);
        slot.peer = peer;
        slot.bits = bits;
        slot.length = length;
        slot.theirs = theirs.id;
        if length > slot.capacity as u64 || length == 0 {
            let error = (length > 0).then(|| truncated(bits, length, slot.capacity));
            state.slots.end(at, error);
            send_fin(context, peer, theirs.id);
            return;
        }
        // SAFETY: the buffer is writable until the request is done.
        if unsafe { context.pull(peer, theirs.start, slot.buf, length as usize) } {
            state.slots.end(at, None);
            send_fin(context, peer, theirs.id);
            return;
        }
        let inbox = match context.transport_of(peer) {
            Ok(transport) => context.inbox(transport),
            Err(e) => return state.slots.end(at, Some(e.into())),
        };
        let longest = inbox.map_or(self.longest, |(netmod, _)| netmod.caps().max_bulk as u64);
        slot.piece = longest.min(self.longest).max(1);
        if slot.borrowed {
            slot.piece = slot.piece.min(PIECE as u64);
        }
        slot.tag = state.next_tag;
        slot.begin_rendezvous(Phase::Receiving);
        let pieces = slot.pieces();
        // Below the classes' bits, so that other classes can have tags too.
        state.next_tag = (state.next_tag + pieces) & ((1 << 59) - 1);
        self.drive(context, state, at);
    }

    /// Issues what a rendezvous may issue now.
    fn drive<N: Netmod>(&self, context: &Context<N>, state: &mut State, at: u32) {
        let id = state.slots.id(at);
        let slot = state.slots.at(at);
        let peer = slot.peer;
        let receiving = slot.phase == Phase::Receiving;
        let pieces = slot.pieces();
        let limit = if receiving { pieces.min(slot.ended + AHEAD) } else { slot.cleared };
        let mut stalled = false;
        while slot.issued < limit && slot.error.is_none() {
            let start = slot.issued * slot.piece;
            let len = slot.piece.min(slot.length - start) as usize;
            // SAFETY: the buffer holds the message until the request is done,
            // and one that goes away before has an error.
            let buf = unsafe { slot.buffer_of(slot.issued, start as usize, len, !receiving) };
            let tag = Class::Tagged.token(slot.tag + slot.issued);
            let token = Class::Tagged.token(id | (slot.issued & 0xff) << 52);
            let rc = if receiving {
                let inbox = context.transport_of(peer).ok().and_then(|t| context.inbox(t));
                inbox.map(|(netmod, endpoint)| {
                    let op = Bulk { buf, len, dest: 0, tag, token };
                    // SAFETY: the buffer is writable until the request is done,
                    // or bounce memory.
                    let rc = unsafe { netmod.recv_bulk(endpoint, op) };
                    (rc, netmod)
                })
            } else {
                context.packet_route(peer).and_then(|(transport, dest)| {
                    let (netmod, endpoint) = context.endpoint(transport)?;
                    let op = Bulk { buf: buf.cast_const(), len, dest, tag, token };
                    // SAFETY: the buffer is readable until the request is done,
                    // or bounce memory.
                    let rc = unsafe { netmod.send_bulk(endpoint, op) };
                    Some((rc, netmod))
                })
            };
            // Refused, or done already.
            if rc.as_ref().is_none_or(|(rc, _)| *rc <= 0) {
                let done = receiving && matches!(rc, Some((0, _)));
                // SAFETY: as above.
                unsafe { slot.take_back(slot.issued, done) };
            }
            let Some((rc, netmod)) = rc else {
                slot.fail(died(peer));
                break;
            };
            match rc {
                AGAIN => {
                    stalled = true;
                    break;
                }
                rc if rc < 0 => {
                    let call = if receiving { N::CALLS.recv_bulk } else { N::CALLS.send_bulk };
                    slot.fail(context.attribute_failure(peer, netmod.explain(call, rc)).into());
                    break;
                }
                rc => {
                    slot.issued += 1;
                    slot.ended += u64::from(rc == 0);
                }
            }
        }
        let failed = slot.error.is_some();
        if receiving && !failed && slot.issued > slot.cleared {
            slot.cleared = slot.issued;
            let head = head(CTS, [slot.theirs, slot.tag, slot.issued]);
            // SAFETY: a copied body has no conditions.
            let sent =
                unsafe { context.transmit(peer, head, Body::Copied(&slot.piece.to_le_bytes())) };
            if let Err(e) = sent {
                slot.fail(e.into());
            }
        }
        if slot.ended >= pieces || (slot.error.is_some() && slot.ended >= slot.issued) {
            end_bulk(context, state, at);
        } else if slot.error.is_some() {
            self.give_up(context, state, at);
        } else if stalled {
            state.stalled.push(at);
            context.schedule(Class::Tagged);
        }
    }

    /// Takes back what is under way of a rendezvous.
    fn give_up<N: Netmod>(&self, context: &Context<N>, state: &mut State, at: u32) {
        let id = state.slots.id(at);
        let slot = state.slots.at(at);
        let Ok(transport) = context.transport_of(slot.peer) else { return };
        let receiving = slot.phase == Phase::Receiving;
        let opened = if receiving { context.inbox(transport) } else { context.endpoint(transport) };
        let Some((netmod, endpoint)) = opened else { return };
        for piece in slot.issued.saturating_sub(AHEAD + 1)..slot.issued {
            netmod.cancel(endpoint, Class::Tagged.token(id | (piece & 0xff) << 52));
        }
    }

    // ---- packets

    fn eager<N: Netmod>(&self, context: &Context<N>, head: &Head, body: &[u8]) {
        let [channel, bits, id] = head.words;
        let answer = (head.kind == SYNC).then_some(id);
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        if let Some(at) = state.engine.arrive(channel, bits) {
            deliver(state, at, head.from, bits, body);
            self.consumed(context, head.from, body.len(), answer);
            return;
        }
        let what = What::Whole(state.pool.copy(body), answer);
        store(
            state,
            channel,
            bits,
            Unexpected { peer: head.from, length: body.len() as u64, what },
        );
    }

    fn rts_arrived<N: Netmod>(&self, context: &Context<N>, head: &Head, body: &[u8]) {
        let [channel, bits, length] = head.words;
        let Some(rts) = Rts::decode(body) else { return };
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        if let Some(at) = state.engine.arrive(channel, bits) {
            self.consumed(context, head.from, 0, None);
            self.begin(context, state, at, head.from, bits, length, rts);
            return;
        }
        store(state, channel, bits, Unexpected { peer: head.from, length, what: What::Rts(rts) });
    }

    /// An answer about a send of ours.
    fn answered<N: Netmod>(&self, context: &Context<N>, head: &Head, body: &[u8]) {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        let Some((at, slot)) = state.slots.known(head.words[0]) else { return };
        if slot.peer != head.from {
            return;
        }
        match (head.kind, slot.phase) {
            (SYNC_ACK, Phase::Eager) => self.one_less(state, at, None),
            (DELIVERED, Phase::Eager) if !slot.delivery_query => {
                slot.delivery_query = true;
                self.one_less(state, at, None);
            }
            (DELIVERED, Phase::Sending) => state.slots.end(at, None),
            (FIN, Phase::RtsSent) => state.slots.end(at, None),
            (CTS, Phase::RtsSent | Phase::Sending) => {
                let Some(piece) = word(body) else { return };
                if slot.phase == Phase::RtsSent {
                    slot.phase = Phase::Sending;
                    slot.tag = head.words[1];
                    slot.piece = piece.max(1);
                }
                slot.cleared = head.words[2].min(slot.pieces());
                self.drive(context, state, at);
            }
            _ => {}
        }
    }

    /// One event less for an eager send to wait for.
    fn one_less(&self, state: &mut State, at: u32, error: Option<MsgError>) {
        let slot = state.slots.at(at);
        slot.due = slot.due.saturating_sub(1);
        if slot.due == 0 || error.is_some() {
            state.slots.end(at, error);
        }
    }

    /// Asks the receivers of what went over a shared-memory endpoint that was
    /// given up, for its completions may be held back for ever by one towards
    /// the dead. Packets arrive in order, so an answer to one behind a message
    /// tells that the message is there.
    fn query_delivery<N: Netmod>(&self, context: &Context<N>, state: &mut State) {
        if std::mem::replace(&mut state.renewals, context.renewals()) == context.renewals() {
            return;
        }
        let under_way = |phase| matches!(phase, Phase::Sending | Phase::Eager);
        let live = state.slots.live().filter(|(_, slot)| under_way(slot.phase));
        let all: Vec<(u32, u32)> = live.map(|(at, slot)| (at, slot.peer)).collect();
        for (at, peer) in all {
            if context.over_shared_memory(peer) {
                let head = head(QUERY, [state.slots.id(at), 0, 0]);
                // SAFETY: a copied body has no conditions. To the dead it is
                // refused, as it should be.
                let _ = unsafe { context.transmit(peer, head, Body::Copied(&[])) };
            }
        }
    }

    /// Answers a delivery query: at once, or when the bytes are here.
    fn delivery_queried<N: Netmod>(&self, context: &Context<N>, head: &Head) {
        let id = head.words[0];
        let mut state = self.state.borrow_mut();
        let mut live = state.slots.live();
        let still = live.find(|(_, slot)| {
            slot.phase == Phase::Receiving && slot.peer == head.from && slot.theirs == id
        });
        match still {
            Some((_, slot)) => slot.delivery_query = true,
            None => tell_delivered(context, head.from, id),
        }
    }

    /// Ends what is under way with a lost peer.
    fn fail_all<N: Netmod>(&self, context: &Context<N>, state: &mut State, peer: u32) {
        if let Some(flow) = self.flows.get_or_new(peer) {
            flow.gone.set(true);
            let queued = flow.queue.take().map_or(0, |queue| queue.len());
            state.counts.queued = state.counts.queued.saturating_sub(queued);
            flow.set_waits(false);
        }
        state.gone += 1;
        let alone = state.gone + 1 >= self.universe;
        let concerns = |of: u32| of == peer || (alone && of == ANYBODY);
        let live = state.slots.live().filter(|(_, slot)| slot.phase != Phase::Done);
        let all: Vec<u32> =
            live.filter(|(_, slot)| concerns(slot.peer)).map(|(at, _)| at).collect();
        for at in all {
            let slot = state.slots.at(at);
            let error = if slot.peer == ANYBODY {
                MsgError::NobodyLeft { others: state.gone }
            } else {
                context.check_open(peer).err().map_or_else(|| died(peer), MsgError::from)
            };
            if slot.phase == Phase::Posted {
                state.engine.withdraw(at);
            }
            state.slots.end(at, Some(error));
        }
    }
}

impl<N: Netmod> PacketHandler<N> for TaggedProtocol {
    #[inline]
    fn arrived(&self, context: &Context<N>, head: &Head, body: &[u8]) {
        match head.kind {
            EAGER | SYNC => self.eager(context, head, body),
            RTS => self.rts_arrived(context, head, body),
            QUERY => self.delivery_queried(context, head),
            CREDIT => {
                let Some(flow) = self.flows.get_or_new(head.from) else { return };
                flow.credit.told(head.words[0]);
                if flow.waits.get() {
                    self.send_queued(context, &mut self.state.borrow_mut(), flow);
                }
            }
            _ => self.answered(context, head, body),
        }
    }

    fn finished(&self, context: &Context<N>, token: u64, result: Outcome) {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        let id = Class::number(token) & ((1 << 52) - 1);
        let Some((at, slot)) = state.slots.known(id) else { return };
        let peer = slot.peer;
        let (well, receiving) = (result.is_ok(), slot.phase == Phase::Receiving);
        // SAFETY: a request that is under way and not detached has its buffer.
        unsafe { slot.take_back(Class::number(token) >> 52, well && receiving) };
        let error = result.err().map(|e| MsgError::from(context.attribute_failure(peer, e)));
        match slot.phase {
            Phase::Eager if !slot.delivery_query => self.one_less(state, at, error),
            Phase::Sending | Phase::Receiving => {
                slot.ended += 1;
                let first = error.is_some() && slot.error.is_none();
                if let Some(error) = error {
                    slot.fail(error);
                }
                if slot.error.is_some() && slot.ended >= slot.issued {
                    end_bulk(context, state, at);
                } else if first {
                    self.give_up(context, state, at);
                } else if slot.error.is_none() {
                    self.drive(context, state, at);
                }
            }
            _ => {}
        }
    }

    fn lost(&self, context: &Context<N>, peer: u32) {
        let mut state = self.state.borrow_mut();
        state.dying.push((peer, Instant::now() + GRACE));
        let bulk = |phase| matches!(phase, Phase::Sending | Phase::Receiving | Phase::Eager);
        let live = state.slots.live().filter(|(_, slot)| slot.peer == peer && bulk(slot.phase));
        let all: Vec<(u32, Phase)> = live.map(|(at, slot)| (at, slot.phase)).collect();
        for &(at, _) in all.iter().filter(|(_, phase)| *phase != Phase::Eager) {
            self.give_up(context, &mut state, at);
        }
        if all.iter().any(|(_, phase)| *phase != Phase::Receiving)
            && context.check_alive(peer).is_err()
        {
            context.renew_for(peer);
        }
        self.query_delivery(context, &mut state);
        context.schedule(Class::Tagged);
    }

    fn poll_deferred(&self, context: &Context<N>) {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        for at in std::mem::take(&mut state.stalled) {
            if matches!(state.slots.at(at).phase, Phase::Sending | Phase::Receiving) {
                self.drive(context, state, at);
            }
        }
        let now = Instant::now();
        while let Some(at) = state.dying.iter().position(|(_, when)| *when <= now) {
            let (peer, _) = state.dying.swap_remove(at);
            self.fail_all(context, state, peer);
        }
        if !state.dying.is_empty() {
            context.schedule(Class::Tagged);
        }
    }

    fn as_any(self: Rc<Self>) -> Rc<dyn Any> {
        self
    }
}

/// Ends a rendezvous, with what its request has for an error.
fn end_bulk<N: Netmod>(context: &Context<N>, state: &mut State, at: u32) {
    let slot = state.slots.at(at);
    if slot.phase == Phase::Receiving && slot.delivery_query {
        tell_delivered(context, slot.peer, slot.theirs);
    }
    state.slots.end(at, None);
}

#[cold]
fn tell_delivered<N: Netmod>(context: &Context<N>, peer: u32, id: u64) {
    // SAFETY: a copied body has no conditions. What cannot be sent need not
    // be: the peer is gone.
    let _ = unsafe { context.transmit(peer, head(DELIVERED, [id, 0, 0]), Body::Copied(&[])) };
}

/// # Safety
/// `buf` is readable for `len` bytes while the answer is used.
unsafe fn bytes<'a>(buf: *const u8, len: usize) -> &'a [u8] {
    if len == 0 {
        return &[];
    }
    // SAFETY: the caller's duty.
    unsafe { std::slice::from_raw_parts(buf, len) }
}

/// The sender's request, and where the message lies in its memory.
#[derive(Clone, Copy)]
pub(super) struct Rts {
    id: u64,
    start: u64,
}

impl Rts {
    fn encode(self) -> [u8; 16] {
        let mut out = [0; 16];
        out[..8].copy_from_slice(&self.id.to_le_bytes());
        out[8..].copy_from_slice(&self.start.to_le_bytes());
        out
    }

    fn decode(body: &[u8]) -> Option<Rts> {
        let (id, start) = body.split_first_chunk()?;
        let start = u64::from_le_bytes(start.try_into().ok()?);
        Some(Rts { id: u64::from_le_bytes(*id), start })
    }
}

fn word(body: &[u8]) -> Option<u64> {
    body.try_into().ok().map(u64::from_le_bytes)
}

fn truncated(bits: u64, length: u64, capacity: usize) -> MsgError {
    MsgError::Truncated { source_rank: (bits >> 32) as u32, tag: bits as u32, length, capacity }
}

#[cold]
fn send_fin<N: Netmod>(context: &Context<N>, peer: u32, id: u64) {
    // SAFETY: a copied body has no conditions. What cannot be sent need not
    // be: the peer is gone.
    let _ = unsafe { context.transmit(peer, head(FIN, [id, 0, 0]), Body::Copied(&[])) };
}

/// Ends a receive with a whole message.
#[inline]
fn deliver(state: &mut State, at: u32, peer: u32, bits: u64, body: &[u8]) {
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
    let error = truncated(slot.bits, slot.length, slot.capacity);
    state.slots.end(at, Some(error));
}

fn store(state: &mut State, channel: u64, bits: u64, message: Unexpected) {
    let counts = &mut state.counts;
    counts.unexpected += 1;
    counts.unexpected_most = counts.unexpected_most.max(counts.unexpected);
    if let What::Whole(body, _) = &message.what {
        counts.unexpected_bytes += body.len();
        counts.unexpected_bytes_most = counts.unexpected_bytes_most.max(counts.unexpected_bytes);
    }
    state.engine.store(channel, bits, message);
}
