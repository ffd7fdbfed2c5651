//! Flow control towards each peer: credit, what is sent how, and the sends
//! that wait.

use super::packets::{self, CREDIT, LEAVING, SYNC_ACK, WANTS};
use crate::device::{Context, DeviceError, PerPeer};
use crate::msg::credit::{Credit, Limits};
use crate::msg::error::MsgError;
use crate::netmod::Netmod;
use crate::shm::word::Word;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

/// Flow control towards a peer.
#[derive(Default)]
pub(super) struct PeerFlow {
    pub(super) credit: Credit,
    /// Payloads shorter than this are copied at the call; 0 until the first
    /// message to it, and while sends wait for credit.
    pub(super) short: Cell<u32>,
    /// The longest payload that is copied at the call, and that is sent
    /// whole.
    pub(super) inject: Cell<u32>,
    pub(super) eager: Cell<u32>,
    known: Cell<bool>,
    /// Dead or out of reach: what was under way has failed.
    pub(super) gone: Cell<bool>,
    /// Sends that wait for credit, in order.
    pub(super) waits: Cell<bool>,
    #[expect(clippy::box_collection, reason = "most peers have none: 8 bytes, not 32")]
    queue: RefCell<Option<Box<VecDeque<u32>>>>,
}

/// Flow control of a context.
pub(super) struct Flows {
    peers: PerPeer<PeerFlow>,
    pub(super) limits: Limits,
    pub(super) me: u32,
    universe: u32,
    /// Longest message that is sent whole, bytes, where its peer takes more.
    whole: Cell<usize>,
    /// Peers with sends that wait until more of what they sent is received.
    wanting: RefCell<Vec<u32>>,
    /// Some peer is [gone](PeerFlow::gone).
    any_gone: Cell<bool>,
    /// A receive that is posted may concern a peer that is gone, or that wants to send more.
    posts_slowly: Cell<bool>,
}

impl PeerFlow {
    /// Sends to it wait for credit from now on, or no longer.
    fn set_waits(&self, waits: bool) {
        self.waits.set(waits);
        if waits {
            self.credit.take_back();
        }
        let short = self.known.get() && !waits;
        self.short.set(if short { self.inject.get().saturating_add(1) } else { 0 });
    }

    /// A message of at most a word went after a look at the credit: others may without one,
    /// as many as there is credit to spare for.
    #[cold]
    #[inline(never)]
    pub(super) fn allow_words(&self, limits: &Limits) {
        if self.short.get() as usize > Word::BYTES {
            self.credit.spend_ahead(limits);
        }
    }

    /// A send waits for credit, behind those that do.
    pub(super) fn push(&self, at: u32) {
        self.set_waits(true);
        self.queue.borrow_mut().get_or_insert_default().push_back(at);
    }

    /// The first send that waits; `None`, and none waits any more.
    pub(super) fn pop(&self) -> Option<u32> {
        let next = self.queue.borrow_mut().as_mut().and_then(|queue| queue.pop_front());
        if next.is_none() {
            self.set_waits(false);
            *self.queue.borrow_mut() = None;
        }
        next
    }

    /// A send does not wait any more.
    pub(super) fn forget(&self, at: u32) {
        if let Some(queue) = self.queue.borrow_mut().as_mut() {
            queue.retain(|&waiting| waiting != at);
        }
    }

    /// Sends to it fail from now on. Returns how many waited.
    pub(super) fn close(&self) -> usize {
        self.gone.set(true);
        let queued = self.queue.take().map_or(0, |queue| queue.len());
        self.set_waits(false);
        queued
    }

    /// As towards a peer that was never heard of; one that is closed.
    fn reset(&self) {
        self.known.set(false);
        self.gone.set(false);
        self.set_waits(false);
        self.inject.set(0);
        self.eager.set(0);
        self.credit.reset();
    }
}

impl Flows {
    pub(super) fn new<N: Netmod>(context: &Context<N>) -> Result<Flows, MsgError> {
        let boot = context.device().boot();
        Ok(Flows {
            peers: PerPeer::new(boot.universe())?,
            limits: Limits::from_env(),
            me: boot.rank(),
            universe: boot.universe(),
            whole: Cell::new(usize::MAX),
            wanting: RefCell::default(),
            any_gone: Cell::new(false),
            posts_slowly: Cell::new(false),
        })
    }

    /// Returns true if there is more to posting a receive than that.
    #[inline(always)]
    pub(super) fn posts_slowly(&self) -> bool {
        self.posts_slowly.get()
    }

    /// Whether some peer is gone has been looked at anew.
    pub(super) fn set_any_gone(&self, any: bool) {
        self.any_gone.set(any);
        self.look_again();
    }

    fn look_again(&self) {
        self.posts_slowly.set(self.any_gone.get() || !self.wanting.borrow().is_empty());
    }

    #[inline]
    pub(super) fn get(&self, peer: u32) -> Option<&PeerFlow> {
        self.peers.get(peer)
    }

    #[inline]
    pub(super) fn get_or_new(&self, peer: u32) -> Option<&PeerFlow> {
        self.peers.get_or_new(peer)
    }

    /// Returns true if a peer was lost and what was under way with it has failed.
    pub(super) fn is_gone(&self, peer: u32) -> bool {
        self.peers.get(peer).is_some_and(|flow| flow.gone.get())
    }

    /// A peer is as one that was never heard of.
    pub(super) fn forget(&self, peer: u32) {
        self.wanting.borrow_mut().retain(|&wanting| wanting != peer);
        self.look_again();
        self.peers.get(peer).into_iter().for_each(PeerFlow::reset);
    }

    /// Bounds what is sent whole to peers nothing was sent to yet.
    pub(super) fn limit_whole(&self, bytes: usize) {
        self.whole.set(bytes);
    }

    /// The flow to a peer that is sent to: open, and its limits known.
    pub(super) fn open<N: Netmod>(
        &self,
        context: &Context<N>,
        peer: u32,
    ) -> Result<&PeerFlow, MsgError> {
        let none = DeviceError::NoRank { rank: peer, size: self.universe };
        let flow = self.peers.get_or_new(peer).ok_or(none)?;
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
        Ok(flow)
    }

    /// A message from a peer was consumed: it may be told of its credit.
    #[inline]
    pub(super) fn consumed<N: Netmod>(&self, context: &Context<N>, peer: u32, len: usize) {
        if peer == self.me {
            return;
        }
        if let Some(flow) = self.peers.get_or_new(peer) {
            self.consumed_of(context, peer, flow, len);
        }
    }

    /// The same of another process, by its flow.
    #[inline(always)]
    pub(super) fn consumed_of<N: Netmod>(
        &self,
        context: &Context<N>,
        peer: u32,
        flow: &PeerFlow,
        len: usize,
    ) {
        if flow.credit.consume(&self.limits, len) {
            Flows::tell(context, peer, flow);
        }
    }

    #[cold]
    #[inline(never)]
    fn tell<N: Netmod>(context: &Context<N>, peer: u32, flow: &PeerFlow) {
        packets::send_word(context, peer, CREDIT, flow.credit.tell());
    }

    /// Tells a peer that sends to it wait until it receives more.
    #[cold]
    pub(super) fn ask<N: Netmod>(context: &Context<N>, peer: u32, flow: &PeerFlow) {
        flow.credit.ask();
        packets::send_word(context, peer, WANTS, 0);
    }

    /// This process leaves: asks a peer to say when all that was sent to it is there.
    #[cold]
    pub(super) fn leave<N: Netmod>(&self, context: &Context<N>, peer: u32) {
        if let Some(flow) = self.peers.get(peer) {
            packets::send_word(context, peer, LEAVING, flow.credit.sent());
        }
    }

    /// A peer leaves, and what it had sent is here.
    #[cold]
    pub(super) fn left<N: Netmod>(&self, context: &Context<N>, peer: u32, sent: u64) {
        if let Some(flow) = self.peers.get_or_new(peer) {
            packets::send_word(context, peer, CREDIT, flow.credit.acknowledge(sent));
        }
    }

    /// A peer has [asked](Flows::ask).
    pub(super) fn asked(&self, peer: u32) {
        let mut wanting = self.wanting.borrow_mut();
        if !wanting.contains(&peer) {
            wanting.push(peer);
            self.posts_slowly.set(true);
        }
    }

    /// A receive waits for a message of these peers behind all that lies here:
    /// those that have asked may send more.
    #[inline]
    pub(super) fn let_come<N: Netmod>(&self, context: &Context<N>, from: impl Fn(u32) -> bool) {
        if !self.wanting.borrow().is_empty() {
            self.grant(context, from);
        }
    }

    #[cold]
    fn grant<N: Netmod>(&self, context: &Context<N>, from: impl Fn(u32) -> bool) {
        let granted: Vec<u32> =
            self.wanting.borrow_mut().extract_if(.., |&mut peer| from(peer)).collect();
        self.look_again();
        for peer in granted {
            if let Some(flow) = self.peers.get_or_new(peer) {
                flow.credit.grant(&self.limits);
                Flows::tell(context, peer, flow);
            }
        }
    }

    /// [`Flows::consumed`], with the acknowledgement of a synchronous message.
    pub(super) fn answered<N: Netmod>(
        &self,
        context: &Context<N>,
        peer: u32,
        len: usize,
        answer: Option<u64>,
    ) {
        self.consumed(context, peer, len);
        if let Some(id) = answer
            && peer != self.me
        {
            packets::send_word(context, peer, SYNC_ACK, id);
        }
    }
}
