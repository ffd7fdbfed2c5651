//! Where the peers' further contexts are.
//!
//! What is sent on context i arrives on the peer's context i. Only first
//! contexts are published, so a context with an index from 1 asks the peer's
//! first one, whose owner answers from the device's table in its progress. The
//! question is repeated until an answer comes: the context asked for may not
//! be open yet, and neither packet is numbered or kept.

use super::card::Card;
use super::desk::{self, Desk};
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

/// Questions under way, and the ways back of those answered.
#[derive(Default)]
pub(super) struct Planes {
    asking: RefCell<Vec<Question>>,
    is_asking: Cell<bool>,
    /// Contexts that asked here: by world rank and index.
    back: RefCell<BTreeMap<(u32, u32), Route>>,
    pub(super) desk: Desk,
}

struct Question {
    world: u32,
    at: Instant,
    pause: Duration,
}

impl Planes {
    #[inline]
    pub(super) fn is_asking(&self) -> bool {
        self.is_asking.get() || self.desk.is_busy()
    }
}

impl<N: Netmod> Context<N> {
    /// This context's own addresses.
    pub(super) fn card(&self) -> Result<Card, DeviceError> {
        let local = self.address_of(Transport::Local)?;
        crate::boot::made_here(&local);
        Ok(Card { local, network: self.address_of(Transport::Network)?, inbox: self.inbox_place() })
    }

    /// Begins to ask a peer for its context of this one's index.
    pub(super) fn ask_for_plane(&self, world: u32, link: &Link) {
        link.set_state(State::Asking);
        let question = Question { world, at: Instant::now(), pause: FIRST };
        self.links.planes.asking.borrow_mut().push(question);
        self.links.planes.is_asking.set(true);
    }

    /// Asks again what is due.
    pub(super) fn ask_for_planes(&self) {
        self.push_calls();
        if !self.links.planes.is_asking.get() {
            return;
        }
        let now = Instant::now();
        let mut due = Vec::new();
        let mut asking = self.links.planes.asking.borrow_mut();
        let open = |world| self.links.link(world).map(Link::state) == Some(State::Asking);
        asking.retain(|question| open(question.world));
        for question in asking.iter_mut().filter(|q| q.at <= now) {
            question.at = now + question.pause;
            question.pause = (question.pause * 2).min(LONGEST);
            due.push(question.world);
        }
        self.links.planes.is_asking.set(!asking.is_empty());
        drop(asking);
        let Ok(card) = self.card() else { return };
        for world in due {
            let head = Head::new(Class::Link, ASK, [u64::from(self.index()), 0, 0]);
            if let Ok(route) = self.first_route(world) {
                let _ = self.send_loose(world, route, head, &card.encode());
            }
        }
    }

    /// A packet of the link's own.
    #[cold]
    pub(super) fn plane_packet(&self, head: &Head, body: &[u8]) {
        if matches!(head.kind, desk::CARD | desk::CALL) {
            return self.call_arrived(head, body);
        }
        // Garbage is no card.
        let Some(card) = Card::decode(body) else { return };
        let (world, index) = (head.from, head.words[0] as u32);
        // What fails here is asked for again.
        let _ = match head.kind {
            ASK => self.answer_plane(world, index, &card),
            ANSWER if index == self.index() => self.plane_found(world, &card),
            _ => Ok(()),
        };
    }

    fn answer_plane(&self, world: u32, index: u32, card: &Card) -> Result<(), DeviceError> {
        let Some(mine) = self.device().card_of(index) else { return Ok(()) };
        let known = self.links.planes.back.borrow().get(&(world, index)).copied();
        let route = match known {
            Some(route) => route,
            None => {
                let route = self.insert_plane(world, card)?;
                self.links.planes.back.borrow_mut().insert((world, index), route);
                route
            }
        };
        let head = Head::new(Class::Link, ANSWER, [u64::from(index), 0, 0]);
        let _ = self.send_loose(world, route, head, &mine.encode());
        Ok(())
    }

    fn plane_found(&self, world: u32, card: &Card) -> Result<(), DeviceError> {
        let Some(link) = self.links.link(world) else { return Ok(()) };
        if link.state() == State::Asking {
            match self.insert_plane(world, card) {
                Ok(route) => self.open_route(world, link, route, card),
                Err(DeviceError::Net(why) | DeviceError::Peer { error: why, .. }) => {
                    self.break_link(world, why);
                }
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// A way to the context with these addresses: over the transport that
    /// reaches the peer's first one, as the peer decides too.
    pub(super) fn insert_plane(&self, world: u32, card: &Card) -> Result<Route, DeviceError> {
        let Route { transport, .. } = self.first_route(world)?;
        let raw = if transport == Transport::Local { &card.local } else { &card.network };
        let none = DeviceError::BadCard { rank: world };
        let (netmod, endpoint) =
            self.endpoint(transport).filter(|_| !raw.is_empty()).ok_or(none)?;
        let dest = netmod.insert(endpoint, raw).map_err(|e| DeviceError::peer(world, e))?;
        Ok(Route { transport, dest })
    }
}
