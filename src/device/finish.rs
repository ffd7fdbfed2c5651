//! The end of a context: what was sent before arrives.

use super::DeviceError;
use super::context::Context;
use super::failures::LIVENESS_INTERVAL;
use super::link::{Link, State};
use super::packet::{Head, Route};
use super::wait::Progress;
use crate::boot::timeout;
use crate::netmod::Netmod;
use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

/// How long to wait for a context that may have been closed, where nobody tells of that: for another
/// job's, and for a further one to say that all is there.
const UNANSWERED: Duration = Duration::from_secs(5);
/// How long to wait for what a provider has for another process of this node where one of it died: it
/// may have left a gap in a queue that they share.
const BEHIND_A_GAP: Duration = Duration::from_millis(300);

impl<N: Netmod> Context<N> {
    /// Sends what still waits for space, a connection or credit: it takes until those peers have
    /// made progress, at most `RANKWAY_TIMEOUT`, and no longer than they live and have not left.
    /// Handlers are not called any more, and nothing else is to be done with the context but to
    /// drop it. Calls after the first do nothing.
    ///
    /// # Errors
    /// [`DeviceError::Unsent`] with the first peer that was given up.
    pub fn finish(&self) -> Result<(), DeviceError> {
        if self.finished.replace(true) {
            return Ok(());
        }
        self.send_all()
    }

    /// Waits until what was sent has been handed over, and then until the providers have nothing of
    /// it left: of a context that is closed nobody else would, and the sends are told to be done.
    /// Where closing an endpoint may lose it, waits until those peers have it that have word to send
    /// of it, or come to have some.
    ///
    /// # Errors
    /// [`DeviceError::Unsent`].
    fn send_all(&self) -> Result<(), DeviceError> {
        let limits = (Instant::now(), timeout());
        let is_moot =
            |head: &Head| self.dispatch.handler(head.class).is_some_and(|it| it.is_moot(head.kind));
        let is_queued =
            |&peer: &u32| self.links.link(peer).is_some_and(|it| it.has_queued_but(is_moot));
        self.outwait(limits, || {
            let mut peers: Vec<u32> = self.links.busy().into_iter().filter(is_queued).collect();
            peers.extend(self.streams.to_firsts().into_iter().filter(|it| it.2).map(|it| it.0));
            self.dispatch.handlers().for_each(|it| it.sends(&mut |peer| peers.push(peer)));
            peers
        })?;
        let is_unsettled = |&peer: &u32| self.dispatch.handlers().any(|it| it.is_unsettled(peer));
        let known = self.links.known();
        let lossy = |&peer: &u32| self.at_provider(peer, |netmod, _, _| netmod.caps().lossy_close);
        let unsettled = known.iter().copied().filter(|peer| is_unsettled(peer) && lossy(peer));
        let unsettled: Vec<u32> = unsettled.collect();
        for &peer in &unsettled {
            let handlers = self.dispatch.handlers().filter(|it| it.is_unsettled(peer));
            handlers.for_each(|handler| handler.ask_to_acknowledge(self, peer));
        }
        let members = self.device().boot().size();
        let since = Instant::now();
        let waits =
            |peer: u32, is_told: bool| (is_told && peer < members) || since.elapsed() < UNANSWERED;
        let unanswered = |peer: &u32| is_unsettled(peer) && waits(*peer, self.index() == 0);
        self.outwait(limits, || unsettled.iter().copied().filter(unanswered).collect())?;
        let has_more = |netmod: &N, endpoint: &_, dest| !netmod.is_drained(endpoint, dest);
        let drains = Instant::now();
        let is_given_up = |peer| {
            let gap = self.failures.has_lost() && self.device().on_node(peer);
            gap && drains.elapsed() >= BEHIND_A_GAP
        };
        let is_left = |&peer: &u32| {
            waits(peer, true) && self.at_provider(peer, has_more) && !is_given_up(peer)
        };
        // (A provider may have them only as the peers' first contexts make progress, whose threads
        // may wait for those of further ones.)
        let streams_on = |&(peer, route): &(u32, Route)| {
            let endpoint = self.endpoint(route.transport);
            waits(peer, false)
                && endpoint.is_some_and(|(n, e)| has_more(n, e, route.dest))
                && !is_given_up(peer)
        };
        let streams: Vec<(u32, Route)> =
            self.streams.to_firsts().into_iter().filter_map(|it| Some((it.0, it.1?))).collect();
        self.outwait(limits, || {
            let streaming = streams.iter().filter(|it| streams_on(it)).map(|it| it.0);
            known.iter().copied().filter(is_left).chain(streaming).collect()
        })
    }

    /// What `says` of the provider that packets to a peer go to; false where none does.
    fn at_provider(&self, peer: u32, says: impl Fn(&N, &N::Endpoint, u64) -> bool) -> bool {
        let link = self.links.link(peer).filter(|link| link.outbox().is_none());
        let route = link.filter(|link| link.state() == State::Open).map(Link::route);
        let endpoint = route.and_then(|route| Some((self.endpoint(route.transport)?, route.dest)));
        endpoint.is_some_and(|((netmod, endpoint), dest)| says(netmod, endpoint, dest))
    }

    /// Makes progress while something is left to do with peers that live and have not left.
    ///
    /// # Errors
    /// [`DeviceError::Unsent`].
    fn outwait(
        &self,
        (begun, limit): (Instant, Duration),
        left: impl Fn() -> Vec<u32>,
    ) -> Result<(), DeviceError> {
        let (asked, closed) = (Cell::new(Instant::now()), RefCell::new(Vec::new()));
        let left = || -> Vec<u32> {
            // (A peer that closes, too, waits for nothing that lies here.)
            self.dispatch.handlers().for_each(|handler| handler.close(self));
            let mut peers = left();
            peers.retain(|&peer| self.check_open(peer).is_ok());
            if asked.get().elapsed() > LIVENESS_INTERVAL {
                asked.set(Instant::now());
                let gone = peers.iter().filter(|peer| self.device().has_closed(**peer));
                closed.borrow_mut().extend(gone);
            }
            peers.retain(|peer| !closed.borrow().contains(peer));
            peers
        };
        loop {
            let peers = left();
            let Some(&rank) = peers.first() else { return Ok(()) };
            if begun.elapsed() > limit {
                return Err(DeviceError::Unsent { rank, seconds: limit.as_secs() });
            }
            self.ask_whether_there(&peers);
            let done = self.wait(&peers, || {
                let done = left().is_empty() || begun.elapsed() > limit;
                Ok(if done { Progress::Done } else { Progress::Waiting })
            });
            // (One that died is waited for no more.)
            if !matches!(done, Ok(()) | Err(DeviceError::PeerDied { .. })) {
                return done;
            }
        }
    }
}
