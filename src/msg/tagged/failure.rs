//! What fails: lost peers, waits that gave up, completions that never come.
//!
//! A lost peer's messages may still be on their way, so what is under way with
//! it fails a moment later, and what waits for anybody when others had time to
//! send. A shared-memory endpoint that was given up may hold back completions
//! towards the living: their receivers are asked whether they have the messages.

use super::eager::one_less;
use super::packets::{self, QUERY};
use super::slots::Phase;
use super::state::{
    GRACE, Gone, PATIENCE, Refusal, State, TaggedProtocol, Unexpected, UnexpectedBody,
};
use crate::device::{ANYBODY, Class, Context, Head};
use crate::msg::error::MsgError;
use crate::netmod::Netmod;
use std::time::Instant;

impl TaggedProtocol {
    /// A peer is dead or its link is broken.
    pub(super) fn peer_lost<N: Netmod>(&self, context: &Context<N>, peer: u32) {
        let mut state = self.state.borrow_mut();
        state.dying.push((peer, Instant::now() + GRACE));
        let given = |phase| matches!(phase, Phase::Transfer | Phase::Eager);
        let live = state.slots.live().filter(|(_, slot)| slot.peer == peer && given(slot.phase));
        let all: Vec<(u32, Phase, bool)> =
            live.map(|(at, slot)| (at, slot.phase, slot.receiver().is_some())).collect();
        for &(at, ..) in all.iter().filter(|(_, phase, _)| *phase == Phase::Transfer) {
            self.give_up(context, &mut state, at);
        }
        let sends = all.iter().any(|(.., receiving)| !receiving);
        if sends && context.check_alive(peer).is_err() {
            context.renew_for(peer);
        }
        self.query_delivery(context, &mut state);
        context.schedule(Class::Tagged);
    }

    /// Fails what is under way with peers that were lost some time ago, and sends whose receivers
    /// ended as long ago, and tells who waits for anybody.
    pub(super) fn fail_lost<N: Netmod>(&self, context: &Context<N>, state: &mut State) {
        let now = Instant::now();
        while let Some(at) = state.dying.iter().position(|(_, when)| *when <= now) {
            let (peer, _) = state.dying.swap_remove(at);
            self.fail_all(context, state, peer);
        }
        for (id, _) in state.refused.extract_if(.., |(_, when)| *when <= now) {
            let known = state.slots.known(id).filter(|(_, slot)| slot.phase == Phase::Transfer);
            if let Some((at, _)) = known {
                state.slots.end(at, None);
            }
        }
        let (mut news, mut later) = (false, !(state.dying.is_empty() && state.refused.is_empty()));
        for gone in state.gone.iter_mut().filter(|gone| gone.told.is_none()) {
            let due = now.duration_since(gone.since) > PATIENCE;
            gone.told = due.then(|| context.ended_badly(gone.peer));
            news |= due;
            later |= !due;
        }
        if news {
            self.tell_receivers(context, state);
        }
        if later {
            context.schedule(Class::Tagged);
        }
    }

    /// Tells the receives from anybody of peers that are gone.
    fn tell_receivers<N: Netmod>(&self, context: &Context<N>, state: &mut State) {
        let live = state.slots.live();
        let posted = live.filter(|(_, s)| s.phase == Phase::Posted && s.peer == ANYBODY);
        let mut posted: Vec<(u64, u32)> =
            posted.map(|(at, _)| (state.engine.channel_of(at), at)).collect();
        posted.sort_unstable();
        for same in posted.chunk_by(|one, next| one.0 == next.0) {
            let Some(refusal) = state.refusal(context, same[0].0) else { continue };
            for &(_, at) in same {
                state.engine.withdraw(at);
                state.slots.end(at, Some(refusal.error(context)));
            }
        }
    }

    /// Ends what is under way with a lost peer.
    fn fail_all<N: Netmod>(&self, context: &Context<N>, state: &mut State, peer: u32) {
        if let Some(flow) = self.flows.get_or_new(peer) {
            state.counts.queued = state.counts.queued.saturating_sub(flow.close());
        }
        state.gone.push(Gone { peer, since: Instant::now(), told: None });
        self.flows.set_any_gone(true);
        self.tell_receivers(context, state);
        let live = state.slots.live().filter(|(_, slot)| slot.phase != Phase::Done);
        let all: Vec<u32> = live.filter(|(_, slot)| slot.peer == peer).map(|(at, _)| at).collect();
        for at in all {
            let slot = state.slots.at(at);
            let error = Refusal::Died(peer).error(context);
            match slot.phase {
                Phase::Posted => state.engine.withdraw(at),
                // (It may live, behind a broken link.)
                Phase::RtsSent => self.withdrawals.add(),
                _ => {}
            }
            state.slots.end(at, Some(error));
        }
    }

    /// A peer has ended whose number another process will have.
    pub(super) fn forget<N: Netmod>(&self, context: &Context<N>, peer: u32) {
        let mut state = self.state.borrow_mut();
        state.dying.retain(|(dying, _)| *dying != peer);
        if self.flows.get(peer).is_none_or(|flow| !flow.gone.get()) {
            self.fail_all(context, &mut state, peer);
        }
        state.gone.retain(|gone| gone.peer != peer);
        self.flows.set_any_gone(!state.gone.is_empty());
        state.told.retain(|(_, told)| *told != peer);
        state.drop_messages(peer);
        self.flows.forget(peer);
    }

    /// Asks the receivers of what went over a shared-memory endpoint that was
    /// given up, for its completions may be held back for ever by one towards
    /// the dead. Packets arrive in order, so an answer to one behind a message
    /// tells that the message is there.
    fn query_delivery<N: Netmod>(&self, context: &Context<N>, state: &mut State) {
        if std::mem::replace(&mut state.renewals, context.renewals()) == context.renewals() {
            return;
        }
        let live = state.slots.live();
        let sends = live.filter_map(|(at, slot)| slot.is_given_away().then_some((at, slot.peer)));
        for (at, peer) in sends.collect::<Vec<_>>() {
            if context.over_shared_memory(peer) {
                // To the dead it is refused, as it should be.
                packets::send_word(context, peer, QUERY, state.slots.id(at));
            }
        }
    }

    /// Answers a delivery query: at once, or when the bytes are here.
    pub(super) fn delivery_queried<N: Netmod>(&self, context: &Context<N>, head: &Head) {
        let id = head.words[0];
        let mut state = self.state.borrow_mut();
        let mut from =
            state.slots.live().map(|(_, slot)| slot).filter(|slot| slot.peer == head.from);
        let still = from.find_map(|slot| {
            let receiving = slot.receiver().is_some_and(|receiver| receiver.id == id);
            receiving.then_some(slot)
        });
        match still {
            Some(slot) => slot.delivery_query = true,
            None => packets::send_delivered(context, head.from, id),
        }
    }

    /// The receiver of a send has the message, whatever the provider says.
    pub(super) fn delivered(&self, state: &mut State, at: u32) {
        let slot = state.slots.at(at);
        if slot.phase == Phase::Eager && !slot.delivery_query {
            slot.delivery_query = true;
            one_less(state, at, None);
        } else if slot.sender().is_some() {
            state.slots.end(at, None);
        }
    }

    /// The wait for a request has failed though it is not done: nothing more is issued.
    /// Of a borrowed buffer the provider has nothing; another it is given some time to
    /// give back.
    #[cold]
    pub(super) fn abandon<N: Netmod>(&self, context: &Context<N>, at: u32) {
        let (phase, borrowed) = {
            let mut state = self.state.borrow_mut();
            let slot = state.slots.at(at);
            (slot.phase, slot.borrowed)
        };
        match phase {
            Phase::Transfer => {
                {
                    let mut state = self.state.borrow_mut();
                    let error = MsgError::died(state.slots.at(at).peer);
                    self.call_off(context, &mut state, at, error);
                }
                if !borrowed {
                    self.wait_a_moment(context, at);
                }
            }
            Phase::Queued | Phase::RtsSent => self.withdraw_send(at),
            _ => {}
        }
        self.detach(at);
    }

    /// Takes back a receive that has no message yet, or a send to this process
    /// itself that no receive took: nobody else can end them.
    pub(super) fn take_back(&self, at: u32) {
        let own_send = {
            let mut state = self.state.borrow_mut();
            let slot = state.slots.at(at);
            slot.phase == Phase::RtsSent && slot.peer == self.flows.me
        };
        if own_send {
            self.withdraw_send(at);
        } else {
            self.cancel(at);
        }
    }

    /// Makes progress until a request is done, at most for [`GRACE`].
    fn wait_a_moment<N: Netmod>(&self, context: &Context<N>, at: u32) {
        let start = Instant::now();
        while !self.is_done(at) && start.elapsed() < GRACE && context.progress().is_ok() {
            std::thread::yield_now();
        }
    }

    /// A send of which nothing went out but an RTS: no CTS is taken for it later, and who has copied
    /// it asks by one.
    fn withdraw_send(&self, at: u32) {
        let mut state = self.state.borrow_mut();
        let slot = state.slots.at(at);
        let peer = slot.peer;
        let queued = slot.phase == Phase::Queued;
        if slot.phase == Phase::RtsSent && peer != self.flows.me {
            self.withdrawals.add();
        }
        slot.cancelled = true;
        let (channel, bits) = (slot.channel, slot.bits);
        let id = state.slots.id(at);
        let own = |message: &Unexpected| matches!(message.body, UnexpectedBody::Own(sender) if sender == id);
        if peer == self.flows.me && state.engine.discard(channel, bits, own) {
            state.counts.unexpected -= 1;
        }
        state.counts.queued -= usize::from(queued);
        if let Some(flow) = self.flows.get(peer) {
            flow.forget(at);
        }
        state.slots.end(at, None);
    }
}
