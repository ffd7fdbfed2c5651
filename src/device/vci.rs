//! VCIs (virtual communication interfaces): where the peers' further contexts are.
//!
//! A context is a VCI: what is sent on context i arrives on the peer's context i.
//! Only first contexts are published, so a context with an index from 1 asks the peer's
//! first one, whose owner answers from the device's table in its progress. The
//! question is repeated until an answer comes: the context asked for may not
//! be open yet, and neither packet is numbered or kept. A context that was closed
//! and opened again asks from elsewhere: it is answered with one opened again, too,
//! whose packets are numbered anew. One that is being closed asks whether those that it
//! sent to are there still.

use super::DeviceError;
use super::business_card::BusinessCard;
use super::context::Context;
use super::link::{Link, State};
use super::liveness::lacks_descriptor;
use super::packet::{Class, Head, Route};
use super::questions::Asker;
use crate::av::Transport;
use crate::netmod::{AGAIN, NetError, Netmod, UNSUPPORTED};
use crate::ulimit;

/// "Where is your context `words[0]`? Mine are the addresses in the body." And one that is being
/// closed: "I am the `words[1]`th here."
const ASK: u8 = 1;
/// "My context `words[0]` has the addresses in the body."
const ANSWER: u8 = 2;
/// To the first context: "Your context `words[0]`, which has the addresses in the body, is not reached
/// from here."
const REFUSED: u8 = 6;
/// To one that is being closed and has the addresses in the body: "My context `words[0]` is not
/// there, or not any more."
const GONE: u8 = 7;

impl<N: Netmod> Context<N> {
    /// Asks again what is due.
    pub(super) fn ask_for_vcis(&self) {
        if !self.questions.is_asking() {
            return;
        }
        let closing = self.finished.get();
        let open = |peer| match self.links.link(peer).map(Link::state) {
            Some(State::Asking) => true,
            Some(State::Open) => closing,
            _ => false,
        };
        let due = self.questions.due(open);
        let Ok(business_card) = self.business_card() else { return };
        for peer in due {
            let number = if closing { self.device().closed_of(self.index()) + 1 } else { 0 };
            let words = [u64::from(self.index()), number, 0];
            let head = Head::new(Class::Link, ASK, words);
            let Ok(route) = self.first_route(peer) else { continue };
            let rc = self.send_loose((peer, true), route, head, &business_card.encode());
            // (What was sent before may be there all the same.)
            if rc < 0 && rc != AGAIN && !closing {
                self.break_link(peer, self.explain(route, peer, rc));
            }
        }
    }

    /// This context is being closed: asks whether these peers' are there still.
    pub(super) fn ask_whether_there(&self, peers: &[u32]) {
        if self.index() > 0 {
            peers.iter().for_each(|&peer| self.questions.ask(peer));
        }
    }

    /// A question for one of this process's contexts, or an answer.
    #[cold]
    pub(super) fn vci_packet(&self, head: &Head, body: &[u8]) {
        // Garbage is no business card.
        let Some(business_card) = BusinessCard::decode(body) else { return };
        let (peer, index) = (head.from, head.words[0] as u32);
        // What fails here is asked for again.
        let _ = match head.kind {
            ASK if head.words[1] != 0
                && self.is_vci_gone(peer, (index, head.words[1]), &business_card) =>
            {
                self.tell_gone(peer, index, &business_card)
            }
            ASK => self.answer_vci(peer, index, &business_card),
            ANSWER if index == self.index() => self.vci_found(peer, &business_card),
            REFUSED if self.device().business_card_of(index).as_ref() == Some(&business_card) => {
                return self.device().add_refusal(peer, index);
            }
            GONE if self.finished.get()
                && self.business_card().ok().as_ref() == Some(&business_card) =>
            {
                let provider = "rankway".into();
                let reason = format!("its context {index} is closed");
                return self.break_link(peer, NetError::Address { provider, reason });
            }
            _ => Ok(()),
        };
    }

    /// Returns true if the context of an index that a peer's had to do with is not there any more:
    /// another one has the index than it was told of, or none, and as many were closed as came at the
    /// peer. (Else it may still come.)
    fn is_vci_gone(
        &self,
        peer: u32,
        (index, number): (u32, u64),
        business_card: &BusinessCard,
    ) -> bool {
        let device = self.device();
        let asker = self.questions.asker(peer, index).filter(|it| it.theirs == *business_card);
        let told = asker.and_then(|asker| asker.told);
        match (device.business_card_of(index), told) {
            (Some(mine), told) => told.is_some_and(|told| told != mine),
            (None, told) => told.is_some() || device.closed_of(index) >= number,
        }
    }

    fn tell_gone(
        &self,
        peer: u32,
        index: u32,
        business_card: &BusinessCard,
    ) -> Result<(), DeviceError> {
        let route = match self.questions.asker(peer, index) {
            Some(asker) if asker.theirs == *business_card => asker.route,
            _ => self.insert_asker(peer, index, business_card, None)?,
        };
        let head = Head::new(Class::Link, GONE, [u64::from(index), 0, 0]);
        let _ = self.send_loose((peer, true), route, head, &business_card.encode());
        Ok(())
    }

    /// A peer's context of this index, and these addresses, is not reached from here: tells the
    /// peer, which would ask for ever, and, if it is for want of space (else it may have been
    /// closed, as only the peer knows), the context here. Where it is for want of a descriptor there
    /// may be one later.
    #[cold]
    fn refuse(&self, peer: u32, index: u32, business_card: &BusinessCard, why: &DeviceError) {
        match why {
            DeviceError::PeerDied { .. } => return,
            DeviceError::Peer { error: NetError::Full { .. }, .. } => {
                self.device().add_refusal(peer, index);
            }
            why if lacks_descriptor(why) || ulimit::starves(true) => return,
            _ => {}
        }
        let _ = self.tell_refused(peer, index, business_card);
    }

    /// Answers to a peer's context of this index, and these addresses, have no route: tells the
    /// peer, which sends its addresses once. Returns false if there is no space for that now.
    pub(super) fn refuse_asker(
        &self,
        peer: u32,
        index: u32,
        business_card: &BusinessCard,
        why: &DeviceError,
    ) -> bool {
        let ended = matches!(why, DeviceError::PeerDied { .. });
        ended || self.tell_refused(peer, index, business_card) != AGAIN
    }

    fn tell_refused(&self, peer: u32, index: u32, business_card: &BusinessCard) -> isize {
        let head = Head::new(Class::Link, REFUSED, [u64::from(index), 0, 0]);
        let Ok(route) = self.first_route(peer) else { return UNSUPPORTED };
        self.send_loose((peer, true), route, head, &business_card.encode())
    }

    /// Gives up peers that do not reach this context, or it them.
    pub(super) fn give_up_refusers(&self) {
        for peer in self.device().refusers(self.index()) {
            let link = self.links.link(peer).map(Link::state);
            // (What a window's peers are to carry out goes by streams, without a link.)
            let used = link.is_some() || self.streams.is_used(peer);
            if used && link != Some(State::Broken) {
                let endpoint =
                    self.endpoint(Transport::Local).or(self.endpoint(Transport::Network));
                let provider = endpoint.map(|(netmod, _)| netmod.caps().provider.clone());
                let provider = provider.unwrap_or_default();
                let reason = "an address was refused, here or at the peer".into();
                self.break_link(peer, NetError::Full { provider, reason });
            }
        }
    }

    fn answer_vci(
        &self,
        peer: u32,
        index: u32,
        business_card: &BusinessCard,
    ) -> Result<(), DeviceError> {
        let Some(mine) = self.device().business_card_of(index) else { return Ok(()) };
        let route = match self.questions.asker(peer, index) {
            Some(asker) if asker.theirs == *business_card => asker.route,
            // One opened anew speaks to one opened anew: that here still speaks to the old,
            // and may be about to be closed.
            Some(asker) if asker.told.as_ref() == Some(&mine) => return Ok(()),
            _ => self
                .insert_asker(peer, index, business_card, Some(mine.clone()))
                .inspect_err(|why| self.refuse(peer, index, business_card, why))?,
        };
        let head = Head::new(Class::Link, ANSWER, [u64::from(index), 0, 0]);
        let rc = self.send_loose((peer, true), route, head, &mine.encode());
        if rc < 0 && rc != AGAIN {
            let why = DeviceError::peer(peer, self.explain(route, peer, rc));
            self.refuse(peer, index, business_card, &why);
        }
        Ok(())
    }

    fn vci_found(&self, peer: u32, business_card: &BusinessCard) -> Result<(), DeviceError> {
        let Some(link) = self.links.link(peer) else { return Ok(()) };
        if link.state() == State::Asking {
            let route = self
                .insert_vci(peer, business_card)
                .inspect_err(|why| self.refuse(peer, self.index(), business_card, why));
            let opened = route.and_then(|it| self.open_route(peer, link, it, business_card));
            match opened {
                Err(DeviceError::Net(why) | DeviceError::Peer { error: why, .. }) => {
                    self.break_link(peer, why);
                }
                Err(why @ DeviceError::BadBusinessCard { .. }) => {
                    let (provider, reason) = ("rankway".into(), why.to_string());
                    self.break_link(peer, NetError::Address { provider, reason });
                }
                other => return other,
            }
        }
        Ok(())
    }

    /// The route back to a peer's context that asks for the one of this index, and is the last of
    /// those that do from now on.
    fn insert_asker(
        &self,
        peer: u32,
        index: u32,
        business_card: &BusinessCard,
        told: Option<BusinessCard>,
    ) -> Result<Route, DeviceError> {
        let route = self.insert_vci(peer, business_card)?;
        let asker = Asker { theirs: business_card.clone(), told, route };
        let before = self.questions.set_asker(peer, index, asker);
        self.remove_vci(before.map(|asker| asker.route));
        Ok(route)
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
        let dest = netmod.insert(endpoint, raw).map_err(|e| self.address_refused(peer, e))?;
        Ok(Route { transport, dest })
    }

    /// Takes out the way, if there was one, to a context that is gone. (Where contexts share
    /// addresses, another may still have it.)
    pub(super) fn remove_vci(&self, route: Option<Route>) {
        if let Some(Route { transport, dest }) = route
            && let Some((netmod, endpoint)) = self.endpoint(transport)
            && netmod.own_addresses()
        {
            netmod.remove(endpoint, dest);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a rank that fails ends the test")]
mod tests {
    use super::*;
    use crate::boot::in_process::Job;
    use crate::device::{Options, open_over};
    use crate::netmod::in_process::InProcess;
    use std::rc::Rc;
    use std::sync::{Barrier, OnceLock};

    type First = Rc<Context<InProcess>>;

    /// Rank 0's further context, of this business card, speaks to rank 1's, which is not there, until
    /// its question has ended; `peer` is called with rank 1's first one before, and may keep it.
    fn question_ends(peer: impl Fn(First, &BusinessCard) -> Option<First> + Sync) {
        let (job, met) = (Job::new(2, std::thread::yield_now).unwrap(), Barrier::new(2));
        let business_card = OnceLock::new();
        std::thread::scope(|scope| {
            for rank in 0..2 {
                let (job, met, business_card, peer) = (&job, &met, &business_card, &peer);
                scope.spawn(move || {
                    let boot = job.rank(rank).unwrap();
                    let options = Options::default().threads(true);
                    let first: First = open_over(boot, &options).unwrap();
                    if rank == 1 {
                        met.wait();
                        let _kept = peer(first, business_card.get().unwrap());
                        met.wait();
                        met.wait();
                        return;
                    }
                    let further = first.device().context_at(1).unwrap();
                    business_card.set(further.business_card().unwrap()).unwrap();
                    met.wait();
                    met.wait();
                    let head = Head::new(Class::Tagged, 0, [0; 3]);
                    further.transmit_copy(1, head, &[]).unwrap();
                    while further.links.link(1).unwrap().state() != State::Broken {
                        first.progress().unwrap();
                        further.progress().unwrap();
                        further.give_up_refusers();
                    }
                    let why = further.check_open(1).unwrap_err();
                    assert_eq!(why.rank(), Some(1), "{why}");
                    met.wait();
                });
            }
        });
    }

    #[test]
    #[cfg_attr(miri, ignore = "polls for some time")]
    fn a_question_that_the_network_refuses_ends() {
        question_ends(|first, _| {
            drop(first);
            None
        });
    }

    #[test]
    #[cfg_attr(miri, ignore = "polls for some time")]
    fn who_queries_hears_of_any_refusal_of_its_addresses() {
        question_ends(|first, business_card| {
            let (provider, reason) = ("in-process".into(), "not there".into());
            let why = DeviceError::peer(0, NetError::Address { provider, reason });
            first.refuse(0, 1, business_card, &why);
            Some(first)
        });
    }
}
