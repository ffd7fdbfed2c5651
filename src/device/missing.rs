//! Packets that are lost between two who live: a connection that breaks takes what is under way
//! with it, and not every library says so.
//!
//! Who waits for long tells those it waits for how many packets it has handed over, and asks the
//! same of them. One that is not there may only be late, along another path. If it is missed again and
//! again while nothing that is due comes, it is lost, and nothing more goes over the link, at
//! both ends. Of links that go through the inboxes of a node nothing is lost.

use super::DeviceError;
use super::context::Context;
use super::link::{Link, State};
use super::packet::{Class, Head, Route};
use crate::av::Transport;
use crate::netmod::{NetError, Netmod};
use std::collections::BTreeSet;
use std::time::Instant;

/// "I have handed over the packets below `words[0] - 1`; 0: they go elsewhere." `words[1]`: "And you?"
pub(super) const HANDED_OVER: u8 = 8;
/// "Nothing more goes from one of us to the other: packets were lost."
pub(super) const LOST: u8 = 9;

impl<N: Netmod> Context<N> {
    /// Compares with these peers, or with all there is a link to, how many packets were sent and
    /// came, now and then.
    #[cold]
    pub(super) fn compare_counts(&self, peers: impl IntoIterator<Item = u32>, all: bool) {
        let walks = self.walks();
        if !walks.is_counting_due() {
            return;
        }
        let known = if all { self.links.known() } else { Vec::new() };
        let counted = |&peer: &u32| {
            let link = self.links.link(peer);
            link.is_some_and(|link| link.state() != State::Broken && link.may_lose())
                && self.check_alive(peer).is_ok()
                && self.loose_route(peer).is_some_and(|route| self.loses_silently(route))
        };
        let counted: BTreeSet<u32> = peers.into_iter().chain(known).filter(counted).collect();
        for peer in walks.next_counted(&counted) {
            self.tell_count(peer, true);
        }
    }

    fn loses_silently(&self, route: Route) -> bool {
        let netmod = self.endpoint(route.transport).map(|(netmod, _)| netmod);
        netmod.is_some_and(|netmod| netmod.caps().silent_losses)
    }

    fn tell_count(&self, peer: u32, asks: bool) {
        let unsent = self.links.link(peer).and_then(Link::unsent);
        let unsent = unsent.map_or(0, |unsent| u64::from(unsent) + 1);
        self.say_loose(peer, HANDED_OVER, [unsent, asks.into(), 0]);
    }

    /// What fails here is said again.
    fn say_loose(&self, peer: u32, kind: u8, words: [u64; 3]) {
        if let Some(route) = self.loose_route(peer) {
            self.send_loose((peer, false), route, Head::new(Class::Link, kind, words), &[]);
        }
    }

    /// Where a peer's context of this index is, if that is known.
    fn loose_route(&self, peer: u32) -> Option<Route> {
        if self.index() == 0 {
            return self.first_route(peer).ok();
        }
        let link = self.links.link(peer)?;
        let was_open = link.state() == State::Broken && link.inject() > 0;
        (was_open || link.state() == State::Open).then(|| link.route())
    }

    /// What [`Context::compare_counts`] of a peer says.
    #[cold]
    pub(super) fn count_arrived(&self, head: &Head) {
        // Nobody waits for it, and it comes while nothing else does.
        self.pace.uncount_event();
        let (peer, [unsent, asks, _]) = (head.from, head.words);
        // Garbage has a sender out of range.
        let Ok(link) = self.links.link_or_new(peer) else { return };
        if self.check_alive(peer).is_err() {
            return;
        }
        let count = unsent.checked_sub(1).map(|unsent| unsent as u16);
        if link.state() == State::Broken {
            self.say_loose(peer, LOST, [0; 3]);
        } else if count.is_some_and(|unsent| link.has_gap(unsent, Instant::now())) {
            self.say_loose(peer, LOST, [0; 3]);
            self.packets_lost(peer);
        } else if asks != 0 {
            self.tell_count(peer, false);
        }
    }

    /// Packets between a peer and this process are lost.
    #[cold]
    pub(super) fn packets_lost(&self, peer: u32) {
        let route = self.loose_route(peer);
        let transport = route.map_or(Transport::Network, |route| route.transport);
        let netmod = self.endpoint(transport).map(|(netmod, _)| netmod);
        let provider = netmod.map(|netmod| netmod.caps().provider.clone()).unwrap_or_default();
        self.break_link(peer, NetError::Lost { provider });
    }

    /// A packet to a peer failed behind the call: what follows it could not be taken in order. Returns
    /// what that means.
    #[cold]
    pub(crate) fn packet_failed(&self, peer: u32, error: NetError) -> DeviceError {
        if let Err(known) = self.check_open(peer) {
            return known;
        }
        let meaning = self.attribute_failure(peer, error.clone());
        self.break_link(peer, error);
        if self.check_alive(peer).is_ok() {
            self.say_loose(peer, LOST, [0; 3]);
        }
        meaning
    }

    /// An operation failed that has no token. Only packets have an address then: of one that the
    /// provider had copied nobody else hears.
    #[cold]
    pub(super) fn failed_without_token(
        &self,
        transport: Transport,
        error: NetError,
    ) -> Option<u32> {
        let NetError::Operation { peer: Some(dest), .. } = error else { return None };
        let peer = self.links.at(Route { transport, dest })?;
        self.packet_failed(peer, error);
        Some(peer)
    }
}
