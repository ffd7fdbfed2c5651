//! Peers of endpoints that are gone, for those that come: a place of a peer's rings is
//! this process's as long as it lives.

use super::address::Address;
use super::peer::Peer;
use std::sync::{Mutex, PoisonError};

/// A peer that no endpoint has.
struct Idle(Box<Peer>);

// SAFETY: what it points to is its own, shared memory and files of the process; who has it
// has it alone.
unsafe impl Send for Idle {}

/// Those of a process.
#[derive(Default)]
pub(super) struct Kept(Mutex<Vec<Idle>>);

impl std::fmt::Debug for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kept").finish_non_exhaustive()
    }
}

impl Kept {
    /// An endpoint's, which is going.
    pub(super) fn keep(&self, peers: impl Iterator<Item = Box<Peer>>) {
        self.with(|kept| kept.extend(peers.map(Idle)));
    }

    /// One that sends to these rings.
    pub(super) fn take(&self, to: &Address) -> Option<Box<Peer>> {
        self.with(|kept| {
            let at = kept.iter().position(|Idle(peer)| peer.is_at(to))?;
            let Idle(peer) = kept.swap_remove(at);
            peer.forget_operations();
            Some(peer)
        })
    }

    /// Without those whose rings are nobody's any more.
    fn with<R>(&self, act: impl FnOnce(&mut Vec<Idle>) -> R) -> R {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|Idle(peer)| !peer.is_gone());
        act(&mut kept)
    }
}
