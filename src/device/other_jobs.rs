//! Processes of other jobs: who they are, noticing that they have ended, and forgetting them.
//!
//! Their numbers come behind those of the job's members
//! ([`Boot::universe`](crate::boot::Boot::universe)) and are given out again, so nothing that is
//! kept by number may outlive a process.

use super::context::Context;
use super::link::{Link, Queued};
use super::node::Greeting;
use super::packet::{Class, Head, INTRODUCTION};
use crate::av::Entry;
use crate::boot::OtherJobs;
use crate::netmod::Netmod;
use crate::rankmap::Process;
use crate::shm::ring::Reader;
use std::ops::Range;

impl<N: Netmod> Context<N> {
    /// The first packet to a process of another job says who this one is, where its launcher
    /// does not.
    pub(super) fn send_introduction(&self, peer: u32, link: &Link) {
        let boot = self.device().boot();
        let Some(own) = boot.other_jobs().filter(|_| peer >= boot.size()).and_then(OtherJobs::own)
        else {
            return;
        };
        let number = link.number();
        let head = Head::new(Class::Link, INTRODUCTION, [0; 3]);
        let head = head.encode(self.links.name_to(peer), number);
        link.count(number);
        link.queue(Queued { head, body: self.links.copy(peer, &own.encode()) });
        self.links.list(peer, link);
    }

    /// A packet of a process that is no member of the job: its number here. One of whom
    /// nothing is known is put aside: its introduction may come behind.
    #[cold]
    pub(super) fn sender_elsewhere(&self, head: &Head, number: u16, body: &[u8]) -> Option<u32> {
        let boot = self.device().boot();
        if head.is_introduction()
            && let Some(others) = boot.other_jobs()
        {
            // (Of one that cannot be met nothing is known.)
            let _ = others.meet(body);
        }
        let Some(peer) = boot.resolve_name(head.from) else {
            // (What has no number is said again.)
            if head.class != Class::Link || head.is_introduction() {
                self.links.put_aside(head, number, body);
            }
            return None;
        };
        // With its first packet: the launcher does not tell for ever who it was.
        if number == 0 {
            let _ = self.device().watch_elsewhere(peer);
        }
        Some(peer)
    }

    /// Who a guest of the inbox is. Where no launcher tells, its first packet does.
    #[cold]
    pub(super) fn greet(&self, guest: &mut Reader) -> Greeting {
        let (boot, name) = (self.device().boot(), guest.peer());
        if let Some(others) = boot.other_jobs() {
            let Some(first) = guest.peek() else { return Greeting::NotYet };
            let head = Head::of_words(name, first, [0; 3]);
            if !head.is_some_and(|head| head.is_introduction()) {
                return Greeting::Refused;
            }
            let met = guest.poll(1, |_, _, introduction| others.meet(introduction).is_ok());
            if met.is_err() {
                return Greeting::Refused;
            }
        }
        // (A member has a place of its own.)
        match boot.resolve_name(name).filter(|&number| number >= boot.size()) {
            Some(number) => {
                let _ = self.device().watch_elsewhere(number);
                Greeting::Known(number)
            }
            None => Greeting::Refused,
        }
    }

    /// A process of another job has introduced itself: what came before is taken now.
    #[cold]
    pub(super) fn accept_put_aside(&self, peer: u32) {
        let boot = self.device().boot();
        for (mut head, number, body) in
            self.links.take_aside(|name| boot.resolve_name(name) == Some(peer))
        {
            head.from = peer;
            self.links.sort(&head, number, &body, |head, body| self.hand_out(head, body));
        }
    }

    /// Forgets the processes of another job, by number, if all that this one spoke to have
    /// ended: their numbers are as if never given. Returns false, and nothing has happened,
    /// where one of them is there or is on another machine, which does not tell. Nobody may use
    /// a communicator with one of them any more, nor is this called within a handler.
    pub fn forget_ended(&self, numbers: Range<u32>) -> bool {
        let entry = |lpid| self.av().get(Process { pg: 0, lpid }).unwrap_or(Entry::EMPTY);
        let inbox = self.node_inbox.get();
        let known = |peer: &u32| {
            !entry(*peer).is_empty()
                || self.links.is_used(*peer)
                || inbox.is_some_and(|inbox| inbox.has_guest(*peer))
        };
        let known: Vec<u32> = numbers.filter(known).collect();
        if !known.iter().all(|&peer| self.device().is_dead(peer)) {
            return false;
        }
        for &peer in &known {
            if let Some((transport, dest)) = self.dest_of(entry(peer))
                && let Some((netmod, endpoint)) = self.endpoint(transport)
            {
                netmod.peer_died(endpoint, Some(dest));
                netmod.remove(endpoint, dest);
            }
            let _ = self.av().set(Process { pg: 0, lpid: peer }, Entry::EMPTY);
            self.completions.give_up(peer);
            // SAFETY: outboxes are held within calls of this context's alone, of which none is
            // under way.
            unsafe { self.links.forget(peer) };
            inbox.into_iter().for_each(|inbox| inbox.forget_guest(peer));
            self.dispatch.forget_lost(peer);
            self.dispatch.handlers().for_each(|handler| handler.forgotten(self, peer));
            self.failures.forget(peer);
            self.device().others.forget(peer);
        }
        true
    }
}
