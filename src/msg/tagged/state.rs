//! What a context keeps of tagged messages, and what is asked of a request.

use super::flow::Flows;
use super::packets::{self, REFUSED, Rts};
use super::slots::{Phase, Slots};
use super::staging::Staging;
use super::tokens::Tags;
use crate::device::{ANYBODY, Context};
use crate::msg::error::MsgError;
use crate::msg::matching::Engine;
use crate::msg::pool::Pool;
use crate::msg::types::{Completion, Counts, Status};
use crate::netmod::Netmod;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What a peer sent before it died may still be on its way through the kernel.
pub(super) const GRACE: Duration = Duration::from_millis(50);

/// How long who waits for anybody goes on after a death: for what others send meanwhile, and
/// until a launcher knows what kind of end it was. And a send, for what its provider does not give
/// back, once its receiver has ended.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);

/// The tagged messages of a context.
pub(super) struct TaggedProtocol {
    pub(super) state: RefCell<State>,
    pub(super) flows: Flows,
    /// Longest piece of a rendezvous, bytes.
    pub(super) longest: u64,
    pub(super) withdrawals: Withdrawals,
}

/// How many announced messages were ended before their receivers had them. These read it in this
/// process's memory, behind what they copied: it was another before the buffer is the caller's.
pub(super) struct Withdrawals(Box<AtomicU64>);

impl Withdrawals {
    /// Its address, and what it is.
    pub(super) fn told(&self) -> (u64, u64) {
        let at = (&raw const *self.0).expose_provenance();
        (at as u64, self.0.load(Ordering::Relaxed))
    }

    #[cold]
    pub(super) fn add(&self) {
        // (Acquire: nothing that the caller writes then is before it.)
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}

pub(super) struct State {
    pub(super) engine: Engine<Unexpected>,
    pub(super) slots: Slots,
    pub(super) pool: Pool,
    pub(super) staging: Staging,
    pub(super) counts: Counts,
    pub(super) tags: Tags,
    /// Rendezvous the provider had no space for.
    pub(super) stalled: Vec<u32>,
    /// Lost peers, and when what is under way with them fails.
    pub(super) dying: Vec<(u32, Instant)>,
    /// Sends whose receiver has ended, and when they end, whatever the provider has of them.
    pub(super) refused: Vec<(u64, Instant)>,
    /// Peers that are gone.
    pub(super) gone: Vec<Gone>,
    /// Channels on which who waits for anybody was told of the death of a sender.
    pub(super) told: Vec<(u64, u32)>,
    /// How often a peer was forgotten whose number others may have, and which was so last, by
    /// number.
    pub(super) forgets: u32,
    pub(super) forgotten: BTreeMap<u32, u32>,
    /// Shared-memory endpoints given up so far, see
    /// [`TaggedProtocol::query_delivery`].
    pub(super) renewals: usize,
}

/// A peer of which nothing more comes.
pub(super) struct Gone {
    pub(super) peer: u32,
    pub(super) since: Instant,
    /// Who waits for anybody is told of it; `None` as long as that is not looked at.
    pub(super) told: Option<bool>,
}

/// Why a receive waits no longer.
#[derive(Clone, Copy)]
pub(super) enum Refusal {
    /// This peer is dead, or its link broken.
    Died(u32),
    /// None of so many is left.
    NobodyLeft(u32),
}

impl Refusal {
    #[cold]
    pub(super) fn error<N: Netmod>(self, context: &Context<N>) -> MsgError {
        match self {
            Refusal::Died(peer) => {
                let why = context.check_open(peer).err();
                why.map_or_else(|| MsgError::died(peer), MsgError::from)
            }
            Refusal::NobodyLeft(others) => MsgError::NobodyLeft { others },
        }
    }
}

/// A message that came before its receive.
pub(super) struct Unexpected {
    pub(super) peer: u32,
    pub(super) length: u64,
    pub(super) body: UnexpectedBody,
}

pub(super) enum UnexpectedBody {
    /// Its bytes; the id to acknowledge of a synchronous send.
    Eager(Vec<u8>, Option<u64>),
    /// Still at the sender.
    Rendezvous(Rts),
    /// A send of this process to itself: its request id.
    Own(u64),
}

/// An unexpected message that a receive or a matched probe took.
pub(super) struct Matched {
    pub(super) bits: u64,
    pub(super) message: Unexpected,
    /// How often a peer was forgotten before.
    pub(super) forgets: u32,
}

impl TaggedProtocol {
    pub(super) fn new<N: Netmod>(context: &Context<N>) -> Result<TaggedProtocol, MsgError> {
        Ok(TaggedProtocol {
            state: RefCell::new(State {
                engine: Engine::new(),
                slots: Slots::default(),
                pool: Pool::new(),
                staging: Staging::default(),
                counts: Counts::default(),
                tags: Tags::default(),
                stalled: Vec::new(),
                dying: Vec::new(),
                refused: Vec::new(),
                gone: Vec::new(),
                told: Vec::new(),
                forgets: 0,
                forgotten: BTreeMap::new(),
                renewals: 0,
            }),
            flows: Flows::new(context)?,
            longest: crate::settings::BULK_PIECE.get().unwrap_or(1 << 30),
            withdrawals: Withdrawals(Box::default()),
        })
    }

    pub(super) fn set_marks(&self, marks: u64) {
        self.state.borrow_mut().engine.set_marks(marks);
    }

    pub(super) fn counts(&self) -> Counts {
        self.state.borrow().counts
    }

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

    /// The same, if it succeeded.
    #[inline(always)]
    pub(super) fn next_success(&self) -> Option<(NonZeroU64, Status)> {
        self.state.try_borrow_mut().ok()?.slots.next_success()
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

    /// A request that has ended so.
    pub(super) fn ended(&self, status: Status) -> u32 {
        let mut state = self.state.borrow_mut();
        let (at, slot) = state.slots.take();
        slot.matched(status.peer, status.bits, status.length);
        state.slots.end(at, None);
        at
    }

    /// What lies here is not received any more: gives its credit back, and tells who waits for
    /// it.
    pub(super) fn refuse_unreceived<N: Netmod>(&self, context: &Context<N>) {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        if state.counts.unexpected == 0 {
            return;
        }
        for message in state.engine.take_all(|_| true) {
            let Unexpected { peer, ref body, .. } = message;
            let (len, id) = match body {
                UnexpectedBody::Eager(body, id) => (body.len(), *id),
                UnexpectedBody::Rendezvous(rts) => (0, Some(rts.id)),
                UnexpectedBody::Own(id) => {
                    if let Some(at) = state.slots.known(*id).map(|(at, _)| at) {
                        state.slots.end(at, Some(MsgError::died(peer)));
                    }
                    (0, None)
                }
            };
            self.flows.consumed(context, peer, len);
            if let Some(id) = id {
                packets::send_word(context, peer, REFUSED, id);
            }
            state.drop_message(message);
        }
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
}

impl State {
    /// Why a receive from anybody on a channel waits no longer: where no sender is left, and
    /// once for the death of each. Of a channel whose senders nobody knows they are all
    /// members of the job, and the processes of others that were met; under a device layer
    /// anybody.
    #[cold]
    pub(super) fn refusal<N: Netmod>(
        &mut self,
        context: &Context<N>,
        channel: u64,
    ) -> Option<Refusal> {
        let boot = context.device().boot();
        let (mut others, mut left, mut dead) = (0, 0, None);
        let known = context.senders(channel, &mut |peer| {
            if peer == boot.rank() {
                return;
            }
            others += 1;
            match self.gone.iter().find(|gone| gone.peer == peer) {
                None => left += 1,
                Some(gone) if gone.told != Some(true) => {}
                Some(_) if self.told.contains(&(channel, peer)) => {}
                Some(_) => dead = Some(peer),
            }
        });
        let gone = self.gone.len() as u32;
        match (known, dead) {
            (true, _) if others > 0 && left == 0 => Some(Refusal::NobodyLeft(others)),
            (true, Some(peer)) => {
                self.told.push((channel, peer));
                Some(Refusal::Died(peer))
            }
            (true, None) => None,
            (false, _) if context.layer_knows_senders() || boot.has_met() => None,
            (false, _) if gone + 1 < boot.size() => None,
            (false, _) => Some(Refusal::NobodyLeft(gone)),
        }
    }

    /// One of those who send on a channel that died a while ago, told already or not.
    #[cold]
    pub(super) fn dead_sender<N: Netmod>(
        &self,
        context: &Context<N>,
        channel: u64,
    ) -> Option<Refusal> {
        let mut dead = None;
        context.senders(channel, &mut |peer| {
            let is_dead = |gone: &Gone| gone.peer == peer && gone.told == Some(true);
            dead = dead.or_else(|| self.gone.iter().any(is_dead).then_some(peer));
        });
        dead.map(Refusal::Died)
    }

    /// Returns true if the sender of a message was forgotten since it was matched: its number is
    /// another's.
    pub(super) fn is_stale(&self, matched: &Matched) -> bool {
        let last = self.forgotten.get(&matched.message.peer);
        last.is_some_and(|&forgets| forgets > matched.forgets)
    }

    /// Drops what came of a peer that is forgotten and was not received.
    pub(super) fn drop_messages(&mut self, peer: u32) {
        self.forgets += 1;
        self.forgotten.insert(peer, self.forgets);
        for message in self.engine.take_all(|message| message.peer == peer) {
            self.drop_message(message);
        }
    }

    /// A message that nobody receives, of a sender that waits for nothing any more.
    pub(super) fn drop_message(&mut self, message: Unexpected) {
        self.counts.unexpected -= 1;
        if let UnexpectedBody::Eager(body, _) = message.body {
            self.counts.unexpected_bytes -= body.len();
            self.pool.give(body);
        }
    }

    /// Keeps a message that no receive took.
    pub(super) fn store(&mut self, channel: u64, bits: u64, message: Unexpected) {
        let counts = &mut self.counts;
        counts.unexpected += 1;
        counts.unexpected_most = counts.unexpected_most.max(counts.unexpected);
        if let UnexpectedBody::Eager(body, _) = &message.body {
            counts.unexpected_bytes += body.len();
            counts.unexpected_bytes_most =
                counts.unexpected_bytes_most.max(counts.unexpected_bytes);
        }
        self.engine.store(channel, bits, message);
    }
}

/// # Safety
/// \[BUF\]: `buf` is readable for `len` bytes while the answer is used.
pub(super) unsafe fn bytes<'a>(buf: *const u8, len: usize) -> &'a [u8] {
    if len == 0 {
        return &[];
    }
    // SAFETY: [BUF].
    unsafe { std::slice::from_raw_parts(buf, len) }
}
