//! Packets from a process's further contexts to the peers' first ones, and
//! their answers.
//!
//! Links join contexts of one number, and a peer may have no other than its
//! first. What every peer's first context answers (requests of windows) goes
//! there from wherever it is asked, within packets of the link's own: a stream
//! for each further context, whose first packet brings the addresses that
//! answers return to. Streams keep their order and queue what the provider has
//! no space for, as links do; they cost a copy more.
//!
//! A first context has no forwarder: its packets go by the link itself.

use super::DeviceError;
use super::business_card::BusinessCard;
use super::context::Context;
use super::packet::Head;
use super::streams::Stream;
use crate::netmod::{AGAIN, HEAD, Netmod};

/// "The asking context has the addresses in the body." `words`: its index, its
/// incarnation, the packet's number.
pub(super) const BUSINESS_CARD: u8 = 3;
/// A packet within a packet: the inner head, then its body; the same words.
pub(super) const FORWARDED: u8 = 4;

impl<N: Netmod> Context<N> {
    /// Sends a packet to the first context of a world rank, in order behind
    /// those before it. The body is copied. At a first context this is
    /// [`Context::transmit`]; elsewhere
    /// [`PacketHandler::forwarded`](super::PacketHandler::forwarded) takes it.
    ///
    /// # Errors
    /// As [`Context::transmit`].
    #[inline]
    pub(crate) fn forward(&self, peer: u32, head: Head, body: &[u8]) -> Result<(), DeviceError> {
        if self.index() == 0 {
            return self.transmit_copy(peer, head, body);
        }
        self.forward_from_further(peer, head, body)
    }

    #[cold]
    fn forward_from_further(&self, peer: u32, head: Head, body: &[u8]) -> Result<(), DeviceError> {
        self.check_open(peer)?;
        let route = self.first_route(peer)?;
        let mut streams = self.streams.by_asker.borrow_mut();
        let stream = streams.entry((peer, 0)).or_default();
        if stream.route.is_none() {
            let business_card = self.business_card()?.encode();
            (stream.route, stream.incarnation) = (Some(route), self.streams.incarnation);
            stream.push(BUSINESS_CARD, self.index(), business_card.into());
        }
        stream.push(FORWARDED, self.index(), self.wrapped(head, body));
        self.push_stream(peer, stream);
        drop(streams);
        self.check_open(peer)
    }

    /// Answers what [`PacketHandler::forwarded`](super::PacketHandler::forwarded) brought from
    /// a peer's context `index`. Who died or closed it meanwhile needs none.
    #[cold]
    pub(crate) fn forward_answer(&self, peer: u32, index: u32, head: Head, body: &[u8]) {
        let mut streams = self.streams.by_asker.borrow_mut();
        if let Some(stream) = streams.get_mut(&(peer, index)) {
            stream.push(FORWARDED, index, self.wrapped(head, body));
            self.push_stream(peer, stream);
        }
    }

    fn wrapped(&self, head: Head, body: &[u8]) -> Box<[u8]> {
        let me = self.device().boot().rank();
        [&head.encode(me, 0)[..], body].concat().into()
    }

    /// The longest bodies that [`Context::forward`] takes to a world rank; 0
    /// where the provider has no messages.
    ///
    /// # Errors
    /// A peer that cannot be reached.
    pub(crate) fn forward_limit(&self, peer: u32) -> Result<usize, DeviceError> {
        let wrapping = if self.index() == 0 { 0 } else { HEAD };
        Ok(self.packet_limits(peer)?.1.saturating_sub(wrapping))
    }

    /// Sends what the provider had no space for, and hands on what came before
    /// its handler was registered.
    pub(super) fn push_forwarded(&self) {
        if !self.streams.busy.replace(false) {
            return;
        }
        let mut waiting = Vec::new();
        for (&key, stream) in self.streams.by_asker.borrow_mut().iter_mut() {
            self.push_stream(key.0, stream);
            if stream.has_due() {
                waiting.push(key);
            }
        }
        waiting.into_iter().for_each(|key| self.hand_on(key));
    }

    fn push_stream(&self, peer: u32, stream: &mut Stream) {
        if self.check_open(peer).is_err() {
            stream.queue.clear();
        }
        let Some(route) = stream.route else { return };
        while let Some((head, body)) = stream.queue.front() {
            // Who asks must hear of it when a packet fails; an answer that
            // fails is for a context that was closed.
            let asks = self.index() > 0;
            let rc = self.send_loose((peer, asks), route, *head, body);
            if rc == AGAIN {
                self.streams.busy.set(true);
                return;
            }
            stream.queue.pop_front();
            if rc < 0 {
                stream.queue.clear();
                if asks {
                    self.break_link(peer, self.explain(route, peer, rc));
                }
            }
        }
    }

    /// A packet of a stream came in.
    #[cold]
    pub(super) fn forwarded_arrived(&self, head: &Head, body: &[u8]) {
        let [index, incarnation, number] = head.words;
        let (peer, index, incarnation) = (head.from, index as u32, incarnation as u32);
        let mine = self.index();
        // Garbage, or for a context that had this one's index.
        if index == 0 || (mine != 0 && (mine, self.streams.incarnation) != (index, incarnation)) {
            return;
        }
        // Only one who is there begins a stream.
        if peer >= self.device().boot().size() {
            return;
        }
        let key = (peer, if mine == 0 { index } else { 0 });
        let mut streams = self.streams.by_asker.borrow_mut();
        let stream = streams.entry(key).or_insert_with(|| Stream::of(incarnation));
        match incarnation.wrapping_sub(stream.incarnation) as i32 {
            0 => {}
            // Another context has the index now.
            1.. => {
                let before = std::mem::replace(stream, Stream::of(incarnation));
                self.remove_vci(before.route);
            }
            _ => return,
        }
        stream.sort(number as u16, head.kind, body);
        drop(streams);
        self.hand_on(key);
    }

    /// Hands on what came in on a stream, as far as it is due.
    fn hand_on(&self, key: (u32, u32)) {
        let (peer, index) = key;
        loop {
            let mut streams = self.streams.by_asker.borrow_mut();
            let Some(stream) = streams.get_mut(&key) else { return };
            let Some((kind, body)) = stream.take() else { return };
            if kind == BUSINESS_CARD {
                if self.index() > 0 {
                    // Garbage: a first context says nothing of itself.
                    continue;
                }
                // Without a route there is no answer: garbage, somebody who is gone, or one
                // who is told so.
                let business_card = BusinessCard::decode(&body);
                let route = business_card.as_ref().map(|it| self.insert_vci(peer, it));
                if let (Some(business_card), Some(Err(why))) = (&business_card, &route)
                    && !self.refuse_asker(peer, index, business_card, why)
                {
                    stream.put_back(kind, body);
                    self.streams.busy.set(true);
                    return;
                }
                let before = std::mem::replace(&mut stream.route, route.and_then(Result::ok));
                self.remove_vci(before);
                continue;
            }
            let inner = body.split_first_chunk::<HEAD>();
            let inner = inner.and_then(|(head, rest)| Some((Head::decode(head)?.0, rest)));
            let Some((inner, rest)) = inner else { continue };
            let Some(handler) = self.dispatch.handler(inner.class) else {
                // It may not be registered yet.
                stream.put_back(kind, body);
                self.streams.busy.set(true);
                return;
            };
            // Nothing is borrowed while a handler works: it may answer.
            drop(streams);
            handler.forwarded(self, index, &Head { from: peer, ..inner }, rest);
        }
    }
}
