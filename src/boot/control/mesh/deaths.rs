//! Peers that are gone, those that died, and who is told.

use super::super::connection::State;
use super::super::protocol::{FailureNotice, Frame, Kind};
use super::{Gone, Mesh};
use crate::boot::contact_info::ContactInfo;
use crate::boot::{BootError, Fate};
use std::time::{Duration, Instant};

impl Mesh {
    /// Why nothing more can come from `rank`, if so.
    pub(in crate::boot::control) fn lost(&self, rank: u32) -> Option<BootError> {
        let gone = self.peers.get(&rank).and_then(|peer| peer.gone.as_ref());
        let dead = self.deaths.iter().find(|(dead, _)| *dead == rank);
        let told = dead.map(|(_, how)| how).or(gone.map(|gone| &gone.how)).cloned();
        let left = || self.boot.channel()?.left(rank, self.boot.rank());
        let how = told.or_else(left)?;
        Some(self.reported_cause(rank).unwrap_or(BootError::PeerDied { rank, how }))
    }

    /// The death that made `rank` give up, if it reported one before it left, in
    /// whatever collective that was: that death is the cause, not its own.
    fn reported_cause(&self, rank: u32) -> Option<BootError> {
        let poison = self.received.of(rank).filter(|frame| frame.kind == Kind::Poison);
        poison.map(|frame| read_poison(rank, &frame.payload)).find(|e| e.peer() != Some(rank))
    }

    /// Who died, and how, in the order this process heard of it.
    pub(in crate::boot::control) fn deaths(&self) -> &[(u32, String)] {
        &self.deaths
    }

    /// How `rank` ended, as far as this process has heard.
    pub(in crate::boot::control) fn fate(&self, rank: u32) -> Fate {
        let how = self.deaths.iter().find(|(dead, _)| *dead == rank).map(|(_, how)| how.clone());
        match how {
            Some(how) => Fate::Died(how),
            None if self.peers.get(&rank).is_some_and(|peer| peer.bye) => Fate::Left,
            None => Fate::Unknown,
        }
    }

    /// Why the group of that name is of no use any more, if so.
    ///
    /// No group is called 0.
    pub(in crate::boot::control) fn broken(&self, group: u64) -> Option<BootError> {
        Some(told(self.received.broken.get(&group)?.clone()))
    }

    /// Notes that a collective of the group in `notice` was given up.
    pub(in crate::boot::control) fn note_broken(&mut self, notice: FailureNotice) {
        self.received.note_broken(notice);
    }

    /// Marks suspected peers failed, after reading what they sent: connections,
    /// frames and goodbyes may still be in the sockets, since what told of
    /// the end may have overtaken them.
    pub(super) fn mark_failed(&mut self) -> Result<(), BootError> {
        if self.suspected.is_empty() {
            return Ok(());
        }
        let suspected = std::mem::take(&mut self.suspected);
        for at in 0..self.acceptor.listeners().len() {
            self.accept(at)?;
        }
        let ids: Vec<u64> = self.connections.keys().copied().collect();
        for id in ids {
            self.serve_connection(id, libc::POLLIN)?;
        }
        for (rank, how) in suspected {
            self.suspected.remove(&rank);
            let peer = self.peer(rank)?;
            let left = || "left in good order: it closed its control channel".to_string();
            // The first reason is the cause, later ones follow from it.
            let how = if peer.bye { left() } else { how };
            peer.gone.get_or_insert(Gone { how, since: Instant::now() });
        }
        self.declare_deaths(Duration::MAX);
        Ok(())
    }

    /// Declares deaths among the peers that are gone. One that nobody saw leave,
    /// and with which there never was a connection, counts as dead after
    /// `grace`: it may have done its part and left in good order.
    pub(in crate::boot::control) fn declare_deaths(&mut self, grace: Duration) {
        let mut dead = Vec::new();
        let known = |rank: &u32| self.deaths.iter().any(|(known, _)| known == rank);
        for (rank, peer) in &mut self.peers {
            let Some(gone) = peer.gone.as_ref().filter(|_| !peer.bye) else { continue };
            if known(rank) || peer.living(&self.me) {
                continue;
            }
            match self.boot.fate(*rank) {
                Fate::Left => peer.bye = true,
                Fate::Died(how) => dead.push((*rank, how)),
                Fate::Unknown if peer.met || gone.since.elapsed() > grace => {
                    dead.push((*rank, gone.how.clone()));
                }
                Fate::Unknown => {}
            }
        }
        for (rank, how) in dead {
            self.record_death(rank, how);
        }
    }

    /// Notes a death, and tells everybody there is a connection to.
    fn record_death(&mut self, rank: u32, how: String) {
        self.deaths.push((rank, how.clone()));
        let open = self.connections.values().filter(|connection| connection.state == State::Open);
        let mut ranks: Vec<u32> = open.filter_map(|connection| connection.peer).collect();
        ranks.sort_unstable();
        ranks.dedup();
        let notice = FailureNotice { rank, group: 0, gave_up: false, how };
        for to in ranks.into_iter().filter(|&to| to != rank) {
            // Who cannot be told hears of it by other ways.
            let _ = self.send(to, Frame::death(&notice));
        }
    }

    /// Takes in a death that another rank reports.
    pub(super) fn death_reported(&mut self, FailureNotice { rank, how, .. }: FailureNotice) {
        let known = self.deaths.iter().any(|(known, _)| *known == rank);
        if known || rank == self.boot.rank() || rank >= self.boot.size() {
            return;
        }
        // Where it cannot be asked for, the report is all there is.
        let _ = self.peer(rank);
        if let Some(peer) = self.peers.get(&rank) {
            // What this process sees counts more: their connection to it broke.
            if peer.bye || peer.living(&self.me) {
                return;
            }
            self.suspected.entry(rank).or_insert(how.clone());
        }
        self.record_death(rank, how);
    }

    /// Returns true if the end of `rank` will be noticed without asking.
    pub(in crate::boot::control) fn watches(&self, rank: u32) -> bool {
        self.peers.get(&rank).is_some_and(|peer| peer.process.is_some() || peer.gone.is_some())
    }

    /// The process of `rank` was seen to have ended.
    pub(in crate::boot::control) fn process_has_ended(
        &mut self,
        rank: u32,
    ) -> Result<(), BootError> {
        let peer = self.peer(rank)?;
        let how = process_ended(&peer.contact_info);
        self.suspected.entry(rank).or_insert(how);
        Ok(())
    }
}

/// What a poisoned frame of `from` says.
pub(in crate::boot::control) fn read_poison(from: u32, payload: &[u8]) -> BootError {
    let why = || BootError::GaveUp { rank: from, why: "it does not say why".into() };
    FailureNotice::decode(payload).map_or_else(why, told)
}

/// A notice as the error of who was told.
fn told(FailureNotice { rank, gave_up, how, .. }: FailureNotice) -> BootError {
    match gave_up {
        true => BootError::GaveUp { rank, why: how },
        false => BootError::PeerDied { rank, how },
    }
}

pub(super) fn process_ended(contact_info: &ContactInfo) -> String {
    format!("its process {} has ended", contact_info.process.pid)
}
