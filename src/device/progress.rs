//! Progress: what comes in, and what is left to do.
//!
//! One call drives both providers and the inbox, hands packets and completions
//! to whom they are for, sends what waited for space, and lets handlers do what
//! they deferred.

use super::completions::Outcome;
use super::context::Context;
use super::failures::NOBODY;
use super::packet::{Class, Head};
use super::{DeviceError, forwarder, missing};
use crate::av::Transport;
use crate::netmod::{Completion, HEAD, NetError, Netmod};

impl<N: Netmod> Context<N> {
    /// Drives both providers once, for operations of this process and for
    /// those that target it. Does nothing when called by what it calls.
    ///
    /// # Errors
    /// None of the operations': those come out of a flush. Only what breaks
    /// the completion queue itself; [`DeviceError::Poisoned`].
    ///
    /// # Panics
    /// A handler's panic goes on here, once everything is as it must be: the
    /// next call goes on with what is behind it.
    #[inline]
    pub fn progress(&self) -> Result<(), DeviceError> {
        let Some(guard) = self.progress_lock.try_enter() else {
            return self.progress_lock.refused();
        };
        let served = self.inbox_served() || self.providers_are_quiet();
        if served && !self.has_queued() && !self.dispatch.has_pending() {
            guard.leave();
            return Ok(());
        }
        let result = self.progress_all(served);
        guard.leave();
        result
    }

    /// What is left to do, without the providers if they can do without.
    #[inline(never)]
    fn progress_all(&self, served: bool) -> Result<(), DeviceError> {
        if !served || self.dispatch.has_lost() {
            self.poll_providers()?;
        }
        if self.has_queued() {
            self.push_queued();
        }
        if self.dispatch.has_pending() {
            self.run_deferred();
        }
        Ok(())
    }

    /// Returns true if something waits for space or an address.
    #[inline]
    pub(super) fn has_queued(&self) -> bool {
        self.links.is_busy() || self.questions.is_asking() || self.streams.is_busy()
    }

    /// Sends what the provider had no space for.
    #[cold]
    fn push_queued(&self) {
        self.push_forwarded();
        self.ask_for_vcis();
        self.push_links();
    }

    /// Takes in packets of the node. Returns true if the providers can do without
    /// a poll this time.
    #[inline]
    fn inbox_served(&self) -> bool {
        let Some(inbox) = self.node_inbox.get() else { return false };
        let take = |from, first, words, body: &[u8]| {
            self.pace.count_event();
            let head = Head::of_words(from, first, words);
            if let Some(head) = &head {
                self.hand_out(head, body);
            }
            head.is_some()
        };
        let lost = |from| self.break_link(from, NetError::Corrupt);
        let came = inbox.poll(take, lost, |guest| self.greet(guest));
        self.pace.skips_providers(came)
    }

    /// Begins a poll of the providers. Returns true if that was all of it: nothing is there.
    #[inline]
    fn providers_are_quiet(&self) -> bool {
        self.pace.begin_poll();
        let quiet = self.endpoints.are_quiet();
        if quiet && self.node_inbox.get().is_some() {
            self.pace.end_poll(self.pace.events());
        }
        quiet
    }

    /// Goes on with a poll of the providers.
    fn poll_providers(&self) -> Result<(), DeviceError> {
        let events = self.pace.events();
        let arrived = |head: &[u8; HEAD], body: &[u8]| self.arrived(head, body);
        for transport in [Transport::Local, Transport::Network] {
            let Some((netmod, endpoint)) = self.endpoint(transport) else { continue };
            match netmod.poll(endpoint, |c| self.complete(c), arrived) {
                Ok(true) => self.pace.count_event(),
                Ok(false) => {}
                Err(e @ NetError::Operation { .. }) => {
                    let peer = self.failed_without_token(transport, e.clone());
                    self.failures.add(peer.unwrap_or(NOBODY), e);
                }
                Err(e) => return Err(e.into()),
            }
        }
        if self.endpoints.has_retired() {
            self.poll_retired();
        }
        if self.node_inbox.get().is_some() {
            self.pace.end_poll(events);
        }
        Ok(())
    }

    #[cold]
    fn poll_retired(&self) {
        for (netmod, endpoint) in self.endpoints.retired() {
            // One-sided operations that began there are written off, errors
            // too; bulk messages still arrive there.
            let done = |c: Completion| {
                if Class::of_token(c.token) != Class::Plain {
                    self.complete(c);
                }
            };
            let _ = netmod.poll(endpoint, done, |head, body| self.arrived(head, body));
        }
    }

    #[cold]
    fn run_deferred(&self) {
        for peer in self.dispatch.take_lost(self.pace.events()) {
            self.dispatch.handlers().for_each(|handler| handler.lost(self, peer));
        }
        self.dispatch.take_pending().for_each(|handler| handler.poll_deferred(self));
        self.progress_lock.resume_panic();
    }

    /// A packet came in: to its handler, in the sender's order.
    #[inline]
    fn arrived(&self, head: &[u8; HEAD], body: &[u8]) {
        self.pace.count_event();
        let Some((mut head, number)) = Head::decode(head) else { return };
        // Garbage is nobody's.
        if !self.links.is_member(head.from) {
            let Some(from) = self.sender_elsewhere(&head, number, body) else { return };
            head.from = from;
        }
        if head.class == Class::Link && !head.is_introduction() {
            self.link_packet(&head, body);
            return;
        }
        self.links.sort(&head, number, body, |head, body| self.hand_out(head, body));
    }

    /// A packet of the link's own.
    #[cold]
    fn link_packet(&self, head: &Head, body: &[u8]) {
        match head.kind {
            forwarder::BUSINESS_CARD | forwarder::FORWARDED => self.forwarded_arrived(head, body),
            missing::HANDED_OVER => self.count_arrived(head),
            missing::LOST => self.packets_lost(head.from),
            _ => self.vci_packet(head, body),
        }
    }

    fn complete(&self, c: Completion) {
        self.pace.count_event();
        match Class::of_token(c.token) {
            Class::Plain => {
                if let Some((rank, error)) = self.completions.finished(c.token, c.result) {
                    self.failures.add(rank, error);
                }
            }
            Class::Link => self.copy_sent(c.token, c.result),
            _ => self.tell(c.token, c.result),
        }
    }

    /// A packet whose body was copied is gone, or failed.
    fn copy_sent(&self, token: u64, result: Outcome) {
        if let (Some(peer), Err(why)) = (self.links.sent(token), result) {
            self.packet_failed(peer, why);
        }
    }
}
