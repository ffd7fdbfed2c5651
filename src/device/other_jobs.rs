//! Processes of other jobs: noticing that they have ended, and forgetting them.
//!
//! Their numbers come behind those of the job's members
//! ([`Boot::universe`](crate::boot::Boot::universe)) and are given out again, so nothing that is
//! kept by number may outlive a process.

use super::DeviceError;
use super::context::Context;
use crate::av::Entry;
use crate::boot::Watch;
use crate::netmod::Netmod;
use crate::rankmap::Process;
use std::ops::Range;

impl<N: Netmod> Context<N> {
    /// Has the end of a process of another job noticed, where it is on this machine.
    pub(super) fn watch_elsewhere(&self, peer: u32) -> Result<(), DeviceError> {
        let device = self.device();
        match device.control.watch(&device.others, peer)? {
            Watch::Dead => Err(DeviceError::PeerDied { rank: peer }),
            _ => Ok(()),
        }
    }

    /// A packet of a process that is no member of the job: its number here.
    #[cold]
    pub(super) fn sender_elsewhere(&self, name: u32, number: u16) -> Option<u32> {
        let peer = self.device().boot.resolve_name(name)?;
        // With its first packet: the launcher does not tell for ever who it was.
        if number == 0 {
            let _ = self.watch_elsewhere(peer);
        }
        Some(peer)
    }

    /// Forgets the processes of another job, by number, if all that this one spoke to have
    /// ended: their numbers are as if never given. Returns false, and nothing has happened,
    /// where one of them is there or is on another machine, which does not tell. Nobody may use
    /// a communicator with one of them any more, nor is this called within a handler.
    pub fn forget_ended(&self, numbers: Range<u32>) -> bool {
        let entry = |lpid| self.av().get(Process { pg: 0, lpid }).unwrap_or(Entry::EMPTY);
        let known = |peer: &u32| !entry(*peer).is_empty() || self.links.is_used(*peer);
        let known: Vec<u32> = numbers.filter(known).collect();
        if !known.iter().all(|&peer| self.device().others.is_dead(peer)) {
            return false;
        }
        for &peer in &known {
            if let Some((transport, dest)) = self.dest_of(entry(peer))
                && let Some((netmod, endpoint)) = self.endpoint(transport)
            {
                netmod.peer_died(endpoint, dest);
                netmod.remove(endpoint, dest);
            }
            let _ = self.av().set(Process { pg: 0, lpid: peer }, Entry::EMPTY);
            self.completions.give_up(peer);
            self.links.forget(peer);
            self.dispatch.handlers().for_each(|handler| handler.forgotten(self, peer));
            self.failures.forget(peer);
            self.device().others.forget(peer);
        }
        true
    }
}
