//! Takes the packets and completions of tagged messages, and hands each to what
//! it is about.

use super::eager::one_less;
use super::packets::{
    self, CREDIT, CTS, Cts, DELIVERED, EAGER, FIN, FRAGMENT, FRAGMENT_DONE, Fragment, LEAVING,
    QUERY, REFUSED, RTS, SYNC, SYNC_ACK, WANTS, WITHDRAWN,
};
use super::slots::Phase;
use super::state::TaggedProtocol;
use super::tokens;
use crate::device::{Class, Context, Head, Outcome, PacketHandler};
use crate::msg::error::MsgError;
use crate::netmod::Netmod;
use std::any::Any;
use std::rc::Rc;

impl TaggedProtocol {
    /// That of a context, registered there on first use.
    pub(super) fn of<N: Netmod>(context: &Context<N>) -> Result<Rc<TaggedProtocol>, MsgError> {
        if let Some(protocol) = context.handler::<TaggedProtocol>(Class::Tagged) {
            return Ok(protocol);
        }
        let protocol = Rc::new(TaggedProtocol::new(context)?);
        let handler: Rc<TaggedProtocol> = Rc::clone(&protocol);
        context.register_handler(Class::Tagged, handler);
        Ok(protocol)
    }

    #[inline(never)]
    fn any_arrived<N: Netmod>(&self, context: &Context<N>, head: &Head, body: &[u8]) {
        match head.kind {
            EAGER => self.eager_arrived(context, head, body),
            SYNC => self.sync_arrived(context, head, body),
            RTS => self.rts_arrived(context, head, body),
            QUERY => self.delivery_queried(context, head),
            CREDIT => self.credit_arrived(context, head.from, head.words[0]),
            LEAVING => self.flows.left(context, head.from, head.words[0]),
            WANTS => self.credit_wanted(context, head.from),
            WITHDRAWN => self.withdrawn(context, head),
            _ => self.answered(context, head, body),
        }
    }

    /// A packet about a request of ours.
    fn answered<N: Netmod>(&self, context: &Context<N>, head: &Head, body: &[u8]) {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        let id = head.words[0];
        let known = state.slots.known(id).filter(|(_, slot)| slot.peer == head.from);
        let ended = known.as_ref().is_none_or(|(_, slot)| slot.phase == Phase::Done);
        if head.kind == CTS && ended {
            return packets::send_word(context, head.from, WITHDRAWN, id);
        }
        let Some((at, slot)) = known else { return };
        match (head.kind, slot.phase) {
            (SYNC_ACK, Phase::Eager) => one_less(state, at, None),
            (FRAGMENT, Phase::Transfer) => {
                let [_, number, address] = head.words;
                self.fragment_arrived(context, state, at, Fragment { number, address });
            }
            (FRAGMENT_DONE, Phase::Transfer) => {
                // SAFETY: nothing is received.
                unsafe { slot.take_back(&mut state.staging, head.words[1], false) };
                self.piece_ended(context, state, at, None);
            }
            (FIN, Phase::RtsSent) => state.slots.end(at, None),
            (CTS, Phase::RtsSent | Phase::Transfer) => {
                let Some(cts) = Cts::decode(head, body) else { return };
                self.cts_arrived(context, state, at, &cts);
            }
            (DELIVERED, _) => self.delivered(state, at),
            (REFUSED, Phase::Eager | Phase::RtsSent) => {
                let error = match head.words[1] {
                    1 => MsgError::GivenUp { rank: head.from },
                    _ => MsgError::died(head.from),
                };
                state.slots.end(at, Some(error));
            }
            (REFUSED, Phase::Transfer) if slot.sender().is_some() => {
                self.peer_gave_up(context, state, at);
            }
            _ => {}
        }
    }
}

impl<N: Netmod> PacketHandler<N> for TaggedProtocol {
    fn arrived(&self, context: &Context<N>, head: &Head, body: &[u8]) {
        if head.kind != EAGER || !self.word_arrived(context, head, body) {
            self.any_arrived(context, head, body);
        }
    }

    fn finished(&self, context: &Context<N>, token: u64, result: Outcome) {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        let (id, piece) = tokens::of_token(token);
        let Some((at, slot)) = state.slots.known(id) else { return };
        let received = result.is_ok() && slot.receiver().is_some();
        // SAFETY: a request that is under way and not detached has its buffer.
        unsafe { slot.take_back(&mut state.staging, piece, received) };
        let (peer, is_packet) = (slot.peer, slot.phase == Phase::Eager && !slot.delivery_query);
        let error = result.err().map(|e| match is_packet {
            true => MsgError::from(context.packet_failed(peer, e)),
            false => MsgError::from(context.attribute_failure(peer, e)),
        });
        match slot.phase {
            Phase::Eager if !slot.delivery_query => {
                slot.delivery_query = true;
                one_less(state, at, error);
            }
            Phase::Transfer => self.piece_ended(context, state, at, error),
            _ => {}
        }
    }

    fn is_moot(&self, kind: u8) -> bool {
        matches!(kind, CREDIT | WANTS)
    }

    fn close(&self, context: &Context<N>) {
        self.refuse_unreceived(context);
    }

    fn sends(&self, add: &mut dyn FnMut(u32)) {
        let mut state = self.state.borrow_mut();
        for (_, slot) in state.slots.live() {
            if slot.detached && slot.peer != self.flows.me && slot.is_sending() {
                add(slot.peer);
            }
        }
    }

    fn is_unsettled(&self, peer: u32) -> bool {
        self.flows.get(peer).is_some_and(|flow| flow.credit.is_unsettled(&self.flows.limits))
    }

    fn ask_to_acknowledge(&self, context: &Context<N>, peer: u32) {
        self.flows.leave(context, peer);
    }

    fn lost(&self, context: &Context<N>, peer: u32) {
        self.peer_lost(context, peer);
    }

    fn forgotten(&self, context: &Context<N>, peer: u32) {
        self.forget(context, peer);
    }

    fn awaited(&self, add: &mut dyn FnMut(u32)) {
        let mut state = self.state.borrow_mut();
        let waiting = state.slots.live().map(|(_, slot)| slot);
        let waiting = waiting.filter(|slot| slot.phase != Phase::Done);
        waiting.for_each(|slot| add(slot.peer));
    }

    fn poll_deferred(&self, context: &Context<N>) {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        // Behind one that finds no space others of its kind, sends or receives, do not either.
        let mut full = [false; 2];
        for at in std::mem::take(&mut state.stalled) {
            let slot = state.slots.at(at);
            if slot.phase != Phase::Transfer {
                continue;
            }
            let kind = usize::from(slot.receiver().is_some());
            let waiting = state.stalled.len();
            if full[kind] {
                state.stalled.push(at);
            } else {
                self.drive(context, state, at);
                full[kind] = state.stalled.len() > waiting;
            }
        }
        self.fail_lost(context, state);
    }

    fn as_any(self: Rc<Self>) -> Rc<dyn Any> {
        self
    }
}
