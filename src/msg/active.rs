//! Active messages: a packet that calls a handler where it arrives.
//!
//! The header, up to sixteen bytes, travels in the packet's head, so that a
//! payload is read where the network put it. Handlers run within progress, in
//! the order of each sender, and must not wait. A handler that cannot take a
//! message now has it held, and all behind it for the same handler; no credit
//! goes back for what is held, so that its senders come to wait.
//!
//! What is [posted](Active::post) needs none and is never waited for; it is consumed
//! or held like the others (`posted.rs`).
//!
//! A reply needs no credit: its requester has at most so many requests under
//! way as there is space for. So two processes that flood each other with
//! requests do not wait for each other's replies.

use super::am_packet::{AM, CREDIT, HEADER, Kept, LEAVING, NO_REPLY, Packet, REPLY, WANTS_REPLY};
use super::credit::{Credit, Limits};
use super::error::MsgError;
use super::posted::{Arriving, LONG, PIECE, POST, Post, Posts};
use crate::device::{Class, Context, DeviceError, Head, Outcome, PacketHandler, PerPeer, Progress};
use crate::netmod::Netmod;
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroU64;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

/// What a handler did with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandlerStatus {
    /// It has consumed the message.
    Consumed,
    /// It has no space now: the message is kept and offered again.
    Held,
}

/// A message, as its handler sees it.
pub struct Call<'a, N: Netmod> {
    /// World rank of the sender.
    pub from: u32,
    /// The header.
    pub header: &'a [u8],
    /// The payload; it is gone when the handler returns.
    pub payload: &'a [u8],
    reply: Option<Reply<'a, N>>,
}

impl<N: Netmod> std::fmt::Debug for Call<'_, N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Call")
            .field("from", &self.from)
            .field("header", &self.header)
            .field("payload", &self.payload.len())
            .finish_non_exhaustive()
    }
}

impl<'a, N: Netmod> Call<'a, N> {
    /// The reply of a request that wants one; `Some` once.
    pub fn reply(&mut self) -> Option<Reply<'a, N>> {
        self.reply.take()
    }
}

/// A reply that is still to be sent. Dropped unused, it tells the requester that there is none.
pub struct Reply<'a, N: Netmod> {
    context: &'a Context<N>,
    protocol: &'a ActiveProtocol<N>,
    to: u32,
    longest: usize,
    unused: &'a Cell<bool>,
}

impl<N: Netmod> std::fmt::Debug for Reply<'_, N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reply").field("to", &self.to).finish_non_exhaustive()
    }
}

impl<N: Netmod> Reply<'_, N> {
    /// Calls a handler of the requester's. Does not wait.
    ///
    /// # Errors
    /// [`MsgError::TooLong`], [`MsgError::Device`].
    pub fn send(self, handler: u16, header: &[u8], payload: &[u8]) -> Result<(), MsgError> {
        let packet = Packet { kind: REPLY, handler, flags: 0, header, payload };
        check_length(self.to, &packet, self.longest)?;
        self.unused.set(false);
        if self.to == self.protocol.me {
            self.protocol.own_request_ended();
            self.protocol.keep(self.to, packet);
            self.context.schedule(Class::Active);
            return Ok(());
        }
        transmit(self.context, self.to, packet)
    }
}

type Handler<N> = Rc<dyn Fn(&mut Call<'_, N>) -> HandlerStatus>;

#[derive(Default)]
struct PeerFlow {
    credit: Credit,
    /// Requests to it without their reply.
    owed: Cell<u32>,
    /// Longest payload; 0 before the first.
    longest: Cell<usize>,
    gone: Cell<bool>,
    /// It died and owed replies, of which no wait has told yet.
    unanswered: Cell<bool>,
    /// A posted message of which pieces come.
    arriving: RefCell<Option<Arriving>>,
}

struct ActiveProtocol<N: Netmod> {
    handlers: RefCell<Vec<Option<Handler<N>>>>,
    /// Messages that a handler would not take yet, or that came before it, in
    /// order for each handler.
    kept: RefCell<BTreeMap<u16, VecDeque<Kept>>>,
    flows: PerPeer<PeerFlow>,
    posts: Posts,
    limits: Limits,
    me: u32,
    universe: u32,
    longest: Cell<usize>,
}

/// The active messages of a context.
pub struct Active<N: Netmod> {
    context: Rc<Context<N>>,
    protocol: Rc<ActiveProtocol<N>>,
}

impl<N: Netmod> Clone for Active<N> {
    fn clone(&self) -> Self {
        Active { context: Rc::clone(&self.context), protocol: Rc::clone(&self.protocol) }
    }
}

impl<N: Netmod> std::fmt::Debug for Active<N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Active").field("context", &self.context).finish_non_exhaustive()
    }
}

impl<N: Netmod> Active<N> {
    /// Those of a context; all callers share them.
    ///
    /// # Errors
    /// When the system refuses address space for the table of peers.
    pub fn open(context: &Rc<Context<N>>) -> Result<Active<N>, MsgError> {
        let protocol = match context.handler::<ActiveProtocol<N>>(Class::Active) {
            Some(protocol) => protocol,
            None => {
                let boot = context.device().boot();
                let protocol = Rc::new(ActiveProtocol {
                    handlers: RefCell::default(),
                    kept: RefCell::default(),
                    flows: PerPeer::new(boot.universe())?,
                    posts: Posts::default(),
                    limits: Limits::from_env(),
                    me: boot.rank(),
                    universe: boot.universe(),
                    longest: Cell::new(0),
                });
                let handler: Rc<ActiveProtocol<N>> = Rc::clone(&protocol);
                context.register_handler(Class::Active, handler);
                protocol
            }
        };
        Ok(Active { context: Rc::clone(context), protocol })
    }

    /// The context.
    pub fn context(&self) -> &Rc<Context<N>> {
        &self.context
    }

    /// Has a number call a handler from now on; messages for it that came
    /// before are offered to it by the next progress. It runs within progress:
    /// it may reply and [`Active::try_send`], and what waits is refused. One
    /// that panics has consumed its message; the panic goes on in whoever makes
    /// progress, and progress may be made again after it.
    ///
    /// A handler that holds an [`Active`] or a context keeps it open for ever.
    ///
    /// # Errors
    /// [`MsgError::HandlerTaken`].
    pub fn register(
        &self,
        id: u16,
        handler: impl Fn(&mut Call<'_, N>) -> HandlerStatus + 'static,
    ) -> Result<(), MsgError> {
        let mut handlers = self.protocol.handlers.borrow_mut();
        let at = usize::from(id);
        if handlers.len() <= at {
            handlers.resize_with(at + 1, || None);
        }
        if handlers[at].is_some() {
            return Err(MsgError::HandlerTaken { id });
        }
        handlers[at] = Some(Rc::new(handler));
        self.context.schedule(Class::Active);
        Ok(())
    }

    /// The longest payload to a world rank, bytes.
    ///
    /// # Errors
    /// [`MsgError::NoMessages`], a peer that cannot be reached.
    pub fn longest(&self, peer: u32) -> Result<usize, MsgError> {
        self.longest_of(self.protocol.flow(peer)?, peer)
    }

    fn longest_of(&self, flow: &PeerFlow, peer: u32) -> Result<usize, MsgError> {
        if flow.longest.get() == 0 {
            let longest = match peer == self.protocol.me {
                true => 8192,
                false => self.context.packet_limits(peer)?.1,
            };
            if longest == 0 {
                return Err(MsgError::NoMessages { rank: peer });
            }
            // One message always has credit.
            let longest = longest.min(self.protocol.limits.bytes as usize);
            flow.longest.set(longest);
            self.protocol.longest.set(longest.max(self.protocol.longest.get()));
        }
        Ok(flow.longest.get())
    }

    /// Calls a handler of a peer's, unless there is no credit for it now:
    /// `false`. Does not wait.
    ///
    /// # Errors
    /// [`MsgError::TooLong`], [`MsgError::Device`].
    pub fn try_send(
        &self,
        peer: u32,
        handler: u16,
        header: &[u8],
        payload: &[u8],
    ) -> Result<bool, MsgError> {
        self.send_if_credit(peer, Packet { kind: AM, handler, flags: 0, header, payload })
    }

    /// The same for a request: the handler there is given a [`Reply`].
    ///
    /// # Errors
    /// As [`Active::try_send`].
    pub fn try_request(
        &self,
        peer: u32,
        handler: u16,
        header: &[u8],
        payload: &[u8],
    ) -> Result<bool, MsgError> {
        self.send_if_credit(peer, Packet { kind: AM, handler, flags: WANTS_REPLY, header, payload })
    }

    /// Calls a handler of a peer's; makes progress until there is credit. The
    /// payload is the caller's again afterwards.
    ///
    /// # Errors
    /// As [`Active::try_send`]; [`DeviceError::Nested`] within a handler.
    pub fn send(
        &self,
        peer: u32,
        handler: u16,
        header: &[u8],
        payload: &[u8],
    ) -> Result<(), MsgError> {
        self.send_with(peer, Packet { kind: AM, handler, flags: 0, header, payload })
    }

    /// The same for a request.
    ///
    /// # Errors
    /// As [`Active::send`].
    pub fn request(
        &self,
        peer: u32,
        handler: u16,
        header: &[u8],
        payload: &[u8],
    ) -> Result<(), MsgError> {
        self.send_with(peer, Packet { kind: AM, handler, flags: WANTS_REPLY, header, payload })
    }

    /// Calls a handler of a peer's with a header and a payload of any length, whenever
    /// the way there has space: never waits, spends no credit, also within a handler.
    /// `true`: the payload is the caller's again. Else it is when
    /// [`Active::next_posted`] returns the cookie. Messages posted to a peer arrive in
    /// their order.
    ///
    /// # Errors
    /// [`MsgError::TooLong`] for a header that no packet takes, [`MsgError::Device`].
    ///
    /// # Safety
    /// \[BUF\]: `payload` is readable for `len` bytes until it is the caller's again.
    pub unsafe fn post(
        &self,
        peer: u32,
        handler: u16,
        header: &[u8],
        payload: *const u8,
        len: usize,
        cookie: NonZeroU64,
    ) -> Result<bool, MsgError> {
        if peer == self.protocol.me {
            // SAFETY: [BUF].
            let payload = unsafe { payload_of(payload, len) };
            self.protocol.keep(peer, Packet { kind: POST, handler, flags: 0, header, payload });
            self.context.schedule(Class::Active);
            return Ok(true);
        }
        let limit = self.context.packet_limits(peer)?.1;
        if limit == 0 || header.len() > limit {
            let (header, payload, header_limit) = (header.len(), len, limit);
            let too_long = MsgError::TooLong { rank: peer, header, payload, header_limit, limit };
            return Err(if limit == 0 { MsgError::NoMessages { rank: peer } } else { too_long });
        }
        let post = Post { peer, handler, header, payload, len, cookie };
        // SAFETY: [BUF].
        unsafe { self.protocol.posts.send(&self.context, &post, limit) }
    }

    /// The cookie of the next posted message whose payload is the caller's again, each
    /// once, with the reason if it did not arrive. Makes no progress.
    pub fn next_posted(&self) -> Option<(NonZeroU64, Result<(), Box<MsgError>>)> {
        self.protocol.posts.next_ended()
    }

    /// Returns true if [`Active::next_posted`] has one.
    #[inline]
    pub fn has_posted(&self) -> bool {
        self.protocol.posts.has_ended()
    }

    /// Requests to a world rank whose reply has not come; none of one that died.
    pub fn owed(&self, peer: u32) -> u32 {
        self.protocol.flows.get(peer).map_or(0, |flow| flow.owed.get())
    }

    /// Messages that handlers have not consumed yet.
    pub fn held(&self) -> usize {
        self.protocol.kept.borrow().values().map(VecDeque::len).sum()
    }

    /// Makes progress until `ready` says so.
    ///
    /// # Errors
    /// [`DeviceError::PeerDied`] for `peer`, once also where it owed replies that `ready` no
    /// longer waits for; [`DeviceError::Nested`] within a handler.
    pub fn wait_until(&self, peer: u32, mut ready: impl FnMut() -> bool) -> Result<(), MsgError> {
        let waited = self.context.wait_packets(Some(peer), || {
            if ready() && !self.protocol.flows.get(peer).is_some_and(|f| f.unanswered.take()) {
                return Ok(Progress::Done);
            }
            self.check(peer)?;
            Ok(Progress::Waiting)
        });
        Ok(waited?)
    }

    fn check(&self, peer: u32) -> Result<(), DeviceError> {
        if self.protocol.flows.get(peer).is_some_and(|flow| flow.gone.get()) {
            self.context.check_open(peer)?;
            return Err(DeviceError::PeerDied { rank: peer });
        }
        Ok(())
    }

    fn send_with(&self, peer: u32, packet: Packet<'_>) -> Result<(), MsgError> {
        if self.context.is_progressing() {
            return Err(DeviceError::Nested.into());
        }
        while !self.send_if_credit(peer, packet)? {
            let flow = self.protocol.flow(peer)?;
            self.wait_until(peer, || self.protocol.has_space(flow, &packet))?;
        }
        Ok(())
    }

    #[inline]
    fn send_if_credit(&self, peer: u32, packet: Packet<'_>) -> Result<bool, MsgError> {
        let flow = self.protocol.flow(peer)?;
        let longest = match flow.longest.get() {
            0 => self.longest_of(flow, peer)?,
            longest => longest,
        };
        check_length(peer, &packet, longest)?;
        if !self.protocol.has_space(flow, &packet) {
            self.check(peer)?;
            return Ok(false);
        }
        if peer == self.protocol.me {
            self.protocol.keep(peer, packet);
            self.context.schedule(Class::Active);
        } else {
            transmit(&self.context, peer, packet)?;
        }
        flow.credit.spend(packet.payload.len());
        flow.owed.set(flow.owed.get() + u32::from(packet.flags != 0));
        Ok(true)
    }
}

fn check_length(rank: u32, packet: &Packet<'_>, limit: usize) -> Result<(), MsgError> {
    let (header, payload) = (packet.header.len(), packet.payload.len());
    if header <= HEADER && payload <= limit {
        return Ok(());
    }
    Err(MsgError::TooLong { rank, header, payload, header_limit: HEADER, limit })
}

/// # Safety
/// \[BUF\]; of no bytes it may be null.
unsafe fn payload_of<'a>(start: *const u8, len: usize) -> &'a [u8] {
    if len == 0 {
        return &[];
    }
    // SAFETY: the caller's.
    unsafe { std::slice::from_raw_parts(start, len) }
}

#[inline]
fn transmit<N: Netmod>(
    context: &Context<N>,
    peer: u32,
    packet: Packet<'_>,
) -> Result<(), MsgError> {
    let padded = u128::from_le_bytes(packet.padded_header());
    let words = [packet.word(), padded as u64, (padded >> 64) as u64];
    let head = Head::new(Class::Active, packet.kind, words);
    Ok(context.transmit_copy(peer, head, packet.payload)?)
}

/// Sends a packet of one word. What can be sent neither now nor later need not be: the peer is gone.
fn send_word<N: Netmod>(context: &Context<N>, peer: u32, kind: u8, word: u64) {
    let head = Head::new(Class::Active, kind, [word, 0, 0]);
    let _ = context.transmit_answer(peer, head, &[]);
}

impl<N: Netmod> ActiveProtocol<N> {
    fn flow(&self, peer: u32) -> Result<&PeerFlow, MsgError> {
        let none = || DeviceError::NoRank { rank: peer, size: self.universe };
        Ok(self.flows.get_or_new(peer).ok_or_else(none)?)
    }

    #[inline]
    fn has_space(&self, flow: &PeerFlow, packet: &Packet<'_>) -> bool {
        let len = packet.payload.len();
        let owed = packet.flags == 0 || flow.owed.get() < self.limits.heads / 16;
        owed && flow.credit.has_heads(&self.limits) && flow.credit.has_bytes(&self.limits, len)
    }

    /// A request of this process to itself has its answer.
    fn own_request_ended(&self) {
        if let Some(flow) = self.flows.get(self.me) {
            flow.owed.set(flow.owed.get().saturating_sub(1));
        }
    }

    fn handler(&self, id: u16) -> Option<Handler<N>> {
        self.handlers.borrow().get(usize::from(id))?.clone()
    }

    fn keep(&self, from: u32, packet: Packet<'_>) {
        let mut kept = self.kept.borrow_mut();
        kept.entry(packet.handler).or_default().push_back(Kept::new(from, packet));
    }

    /// Calls a handler, or keeps the message for it.
    #[inline]
    fn take(&self, context: &Context<N>, from: u32, packet: Packet<'_>) {
        // None overtakes those before it for the same handler.
        let behind = self.kept.borrow().contains_key(&packet.handler);
        if behind || !self.call(context, from, packet) {
            self.keep(from, packet);
            context.schedule(Class::Active);
        }
    }

    fn posted(&self, context: &Context<N>, from: u32, handler: u16, header: &[u8], payload: &[u8]) {
        self.take(context, from, Packet { kind: POST, handler, flags: 0, header, payload });
    }

    /// Calls a handler. `false`: it has no space, or is not there yet.
    #[inline]
    fn call(&self, context: &Context<N>, from: u32, packet: Packet<'_>) -> bool {
        let Packet { kind, handler, flags, header, payload } = packet;
        let Some(handler) = self.handler(handler) else { return false };
        // (Also where the handler does not take it.)
        let unused = Cell::new(flags != 0 && kind == AM);
        let reply = unused.get().then(|| Reply {
            context,
            protocol: self,
            to: from,
            longest: context.packet_limits(from).map_or(0, |limits| limits.1),
            unused: &unused,
        });
        let mut call = Call { from, header, payload, reply };
        // One that panics has had its message: nothing here is left half done.
        let status = catch_unwind(AssertUnwindSafe(|| handler(&mut call)));
        let status = status.unwrap_or_else(|panic| {
            context.keep_panic(panic);
            HandlerStatus::Consumed
        });
        // A held message is offered again, with a new reply.
        if status == HandlerStatus::Held {
            return false;
        }
        if unused.get() {
            self.tell_no_reply(context, from);
        }
        if kind == AM {
            self.consumed(context, from, payload.len());
        }
        true
    }

    /// The handler of a request has sent no reply.
    #[cold]
    fn tell_no_reply(&self, context: &Context<N>, to: u32) {
        if to == self.me {
            return self.own_request_ended();
        }
        // What cannot be sent need not be: the peer is gone.
        let none = Packet { kind: NO_REPLY, handler: 0, flags: 0, header: &[], payload: &[] };
        let _ = transmit(context, to, none);
    }

    /// Credit for a sender.
    #[inline]
    fn consumed(&self, context: &Context<N>, from: u32, len: usize) {
        let Some(flow) = self.flows.get_or_new(from) else { return };
        if flow.credit.consume(&self.limits, len) {
            let told = flow.credit.tell();
            if from == self.me {
                flow.credit.told(told);
                return;
            }
            send_word(context, from, CREDIT, told);
        }
    }
}

impl<N: Netmod> PacketHandler<N> for ActiveProtocol<N> {
    #[inline]
    fn arrived(&self, context: &Context<N>, head: &Head, body: &[u8]) {
        let [word, low, high] = head.words;
        let Some(flow) = self.flows.get_or_new(head.from) else { return };
        match head.kind {
            CREDIT => return flow.credit.told(word),
            LEAVING => return send_word(context, head.from, CREDIT, flow.credit.acknowledge(word)),
            NO_REPLY => return flow.owed.set(flow.owed.get().saturating_sub(1)),
            REPLY => flow.owed.set(flow.owed.get().saturating_sub(1)),
            POST => {
                let (header, payload) = body.split_at((low as usize).min(body.len()));
                return self.posted(context, head.from, word as u16, header, payload);
            }
            LONG => return drop(flow.arriving.replace(Arriving::new(head.words, body))),
            PIECE => {
                let last = flow.arriving.borrow_mut().as_mut().is_some_and(|a| a.add(body));
                if let Some(whole) = last.then(|| flow.arriving.take()).flatten() {
                    let (handler, header, payload) = whole.parts();
                    self.posted(context, head.from, handler, header, payload);
                }
                return;
            }
            _ => {}
        }
        let header = (u128::from(high) << 64 | u128::from(low)).to_le_bytes();
        let packet = Packet::decode(head, &header, body);
        self.take(context, head.from, packet);
    }

    fn finished(&self, context: &Context<N>, token: u64, result: Outcome) {
        self.posts.piece_ended(context, token, result);
    }

    fn is_moot(&self, kind: u8) -> bool {
        kind == CREDIT
    }

    fn close(&self, _: &Context<N>) {
        self.handlers.take();
    }

    fn is_unsettled(&self, peer: u32) -> bool {
        self.flows.get(peer).is_some_and(|flow| flow.credit.is_unsettled(&self.limits))
    }

    fn ask_to_acknowledge(&self, context: &Context<N>, peer: u32) {
        if let Some(flow) = self.flows.get(peer) {
            send_word(context, peer, LEAVING, flow.credit.sent());
        }
    }

    fn lost(&self, context: &Context<N>, peer: u32) {
        if let Some(flow) = self.flows.get_or_new(peer) {
            flow.gone.set(true);
            flow.unanswered.set(flow.owed.replace(0) > 0 || flow.unanswered.get());
            self.posts.lost(context, peer);
        }
    }

    fn forgotten(&self, context: &Context<N>, peer: u32) {
        self.lost(context, peer);
        self.kept.borrow_mut().values_mut().for_each(|kept| kept.retain(|it| it.from != peer));
        if let Some(flow) = self.flows.get(peer) {
            flow.credit.reset();
            flow.longest.set(0);
            flow.gone.set(false);
            flow.unanswered.set(false);
            *flow.arriving.borrow_mut() = None;
        }
    }

    /// Offers what is kept again.
    fn poll_deferred(&self, context: &Context<N>) {
        let next = |id| self.kept.borrow_mut().get_mut(&id).and_then(VecDeque::pop_front);
        let ids: Vec<u16> = self.kept.borrow().keys().copied().collect();
        for id in ids.into_iter().filter(|&id| self.handler(id).is_some()) {
            // (What a handler sends this process itself meanwhile is for the next round.)
            let waiting = self.kept.borrow().get(&id).map_or(0, VecDeque::len);
            for _ in 0..waiting {
                let Some(kept) = next(id) else { break };
                if !self.call(context, kept.from, kept.packet()) {
                    self.kept.borrow_mut().entry(id).or_default().push_front(kept);
                    // A number without a handler is offered when it gets one.
                    context.schedule(Class::Active);
                    break;
                }
            }
        }
        self.kept.borrow_mut().retain(|_, queue| !queue.is_empty());
    }

    fn as_any(self: Rc<Self>) -> Rc<dyn Any> {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boot::alone::Alone;
    use crate::device::Device;
    use crate::netmod::null::Null;
    use std::sync::Arc;

    /// What is held of a process that is forgotten is not its successor's.
    #[test]
    #[cfg_attr(miri, ignore = "sockets")]
    fn who_is_forgotten_leaves_nothing() {
        let boot = Arc::new(Alone::new().unwrap());
        let context = Device::open(boot, Some(Null::open()), None, false).unwrap();
        let active = Active::open(&context).unwrap();
        let head = Head { from: 0, ..Head::new(Class::Active, AM, [5, 0, 0]) };
        active.protocol.arrived(&context, &head, &[1; 100]);
        assert_eq!(active.held(), 1);
        active.protocol.forgotten(&context, 0);
        assert_eq!(active.held(), 0);
    }
}
