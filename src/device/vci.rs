//! VCIs (virtual communication interfaces): where the peers' further contexts are.
//!
//! A context is a VCI: what is sent on context i arrives on the peer's context i.
//! Only first contexts are published, so a context with an index from 1 asks the peer's
//! first one, whose owner answers from the device's table in its progress. The
//! question is repeated until an answer comes: the context asked for may not
//! be open yet, and neither packet is numbered or kept.

use super::business_card::BusinessCard;
use super::forwarder::{self, Forwarder};
use super::link::{Link, Route, State};
use super::packet::{Class, Head};
use super::{Context, DeviceError};
use crate::av::Transport;
use crate::netmod::Netmod;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// First pause before a question is repeated, and the longest.
const FIRST: Duration = Duration::from_millis(2);
const LONGEST: Duration = Duration::from_millis(50);

/// "Where is your context `words[0]`? Mine are the addresses in the body."
const ASK: u8 = 1;
/// "My context `words[0]` has the addresses in the body."
const ANSWER: u8 = 2;

/// Questions under way, and the routes back to those answered.
#[derive(Default)]
pub(super) struct Vcis {
    asking: RefCell<Vec<Question>>,
    is_asking: Cell<bool>,
    /// Contexts that asked here: by world rank and index.
    back: RefCell<BTreeMap<(u32, u32), Route>>,
    pub(super) forwarder: Forwarder,
}

struct Question {
    peer: u32,
    at: Instant,
    pause: Duration,
}

impl Vcis {
    #[inline]
    pub(super) fn is_asking(&self) -> bool {
        self.is_asking.get() || self.forwarder.is_busy()
    }
}

impl<N: Netmod> Context<N> {
    /// This context's own addresses.
    pub(super) fn business_card(&self) -> Result<BusinessCard, DeviceError> {
        let local = self.address_of(Transport::Local)?;
        crate::boot::made_here(&local);
        Ok(BusinessCard {
            local,
            network: self.address_of(Transport::Network)?,
            inbox: self.inbox_place(),
        })
    }

    /// Begins to ask a peer for its context of this one's index.
    pub(super) fn ask_for_vci(&self, peer: u32, link: &Link) {
        link.set_state(State::Asking);
        let question = Question { peer, at: Instant::now(), pause: FIRST };
        self.links.vcis.asking.borrow_mut().push(question);
        self.links.vcis.is_asking.set(true);
    }

    /// Asks again what is due.
    pub(super) fn ask_for_vcis(&self) {
        self.push_forwarded();
        if !self.links.vcis.is_asking.get() {
            return;
        }
        let now = Instant::now();
        let mut due = Vec::new();
        let mut asking = self.links.vcis.asking.borrow_mut();
        let open = |peer| self.links.link(peer).map(Link::state) == Some(State::Asking);
        asking.retain(|question| open(question.peer));
        for question in asking.iter_mut().filter(|q| q.at <= now) {
            question.at = now + question.pause;
            question.pause = (question.pause * 2).min(LONGEST);
            due.push(question.peer);
        }
        self.links.vcis.is_asking.set(!asking.is_empty());
        drop(asking);
        let Ok(business_card) = self.business_card() else { return };
        for peer in due {
            let head = Head::new(Class::Link, ASK, [u64::from(self.index()), 0, 0]);
            if let Ok(route) = self.first_route(peer) {
                let _ = self.send_loose(peer, route, head, &business_card.encode());
            }
        }
    }

    /// A packet of the link's own.
    #[cold]
    pub(super) fn vci_packet(&self, head: &Head, body: &[u8]) {
        if matches!(head.kind, forwarder::BUSINESS_CARD | forwarder::FORWARDED) {
            return self.forwarded_arrived(head, body);
        }
        // Garbage is no business card.
        let Some(business_card) = BusinessCard::decode(body) else { return };
        let (peer, index) = (head.from, head.words[0] as u32);
        // What fails here is asked for again.
        let _ = match head.kind {
            ASK => self.answer_vci(peer, index, &business_card),
            ANSWER if index == self.index() => self.vci_found(peer, &business_card),
            _ => Ok(()),
        };
    }

    fn answer_vci(
        &self,
        peer: u32,
        index: u32,
        business_card: &BusinessCard,
    ) -> Result<(), DeviceError> {
        let Some(mine) = self.device().business_card_of(index) else { return Ok(()) };
        let known = self.links.vcis.back.borrow().get(&(peer, index)).copied();
        let route = match known {
            Some(route) => route,
            None => {
                let route = self.insert_vci(peer, business_card)?;
                self.links.vcis.back.borrow_mut().insert((peer, index), route);
                route
            }
        };
        let head = Head::new(Class::Link, ANSWER, [u64::from(index), 0, 0]);
        let _ = self.send_loose(peer, route, head, &mine.encode());
        Ok(())
    }

    fn vci_found(&self, peer: u32, business_card: &BusinessCard) -> Result<(), DeviceError> {
        let Some(link) = self.links.link(peer) else { return Ok(()) };
        if link.state() == State::Asking {
            match self.insert_vci(peer, business_card) {
                Ok(route) => self.open_route(peer, link, route, business_card),
                Err(DeviceError::Net(why) | DeviceError::Peer { error: why, .. }) => {
                    self.break_link(peer, why);
                }
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// A way to the context with these addresses: over the transport that
    /// reaches the peer's first one, as the peer decides too.
    pub(super) fn insert_vci(
        &self,
        peer: u32,
        business_card: &BusinessCard,
    ) -> Result<Route, DeviceError> {
        let Route { transport, .. } = self.first_route(peer)?;
        let raw = if transport == Transport::Local {
            &business_card.local
        } else {
            &business_card.network
        };
        let none = DeviceError::BadBusinessCard { rank: peer };
        let (netmod, endpoint) =
            self.endpoint(transport).filter(|_| !raw.is_empty()).ok_or(none)?;
        let dest = netmod.insert(endpoint, raw).map_err(|e| DeviceError::peer(peer, e))?;
        Ok(Route { transport, dest })
    }
}
