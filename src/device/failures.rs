//! What failed, and which peers are dead: what a context remembers of both.
//!
//! Whether a peer lives is asked by `liveness.rs`; this keeps the answers.

use super::pace;
use crate::netmod::NetError;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// How long a wait goes on before it asks whether the peer still lives.
pub(super) const LIVENESS_INTERVAL: Duration = Duration::from_millis(20);

/// A failure without a known peer.
pub(super) const NOBODY: u32 = u32::MAX;

/// Failures and deaths as far as a context knows of them.
pub(super) struct Failures {
    /// Failures of operations nobody waits for, for the next flush.
    untold: RefCell<Vec<(u32, NetError)>>,
    /// Peers known to be dead. What is under way towards them is not waited
    /// for: shared memory would never complete it.
    lost: RefCell<Vec<u32>>,
    has_lost: Cell<bool>,
    /// Those of them for whose death another endpoint was taken.
    renewed: RefCell<Vec<u32>>,
    /// Peers whose liveness is checked.
    watched: RefCell<BTreeSet<u32>>,
    /// The one of them that was asked for last.
    last_watched: Cell<Option<u32>>,
    /// All peers on the node are watched.
    node_watched: Cell<bool>,
    last_check: Cell<Instant>,
    /// When the clock was last looked at for it, in ticks of the processor.
    last_asked: Cell<u64>,
    /// Of loops that ask for a check now and then; wraps.
    rounds: Cell<u32>,
}

impl Failures {
    pub(super) fn new() -> Failures {
        Failures {
            untold: RefCell::default(),
            lost: RefCell::default(),
            has_lost: Cell::new(false),
            renewed: RefCell::default(),
            watched: RefCell::default(),
            last_watched: Cell::new(None),
            node_watched: Cell::new(false),
            last_check: Cell::new(Instant::now()),
            last_asked: Cell::new(0),
            rounds: Cell::new(0),
        }
    }

    /// Keeps a failure for the next flush.
    pub(super) fn add(&self, rank: u32, error: NetError) {
        let lost = self.lost.borrow();
        // What a dead peer leaves behind was reported with its death.
        if lost.contains(&rank) || (rank == NOBODY && !lost.is_empty()) {
            return;
        }
        let mut untold = self.untold.borrow_mut();
        // The first few tell the story; a dead peer can produce thousands.
        if untold.len() < 64 {
            untold.push((rank, error));
        }
    }

    /// The first failure of operations towards these, left in.
    pub(super) fn first(&self, among: impl Fn(u32) -> bool) -> Option<(u32, NetError)> {
        self.untold.borrow().iter().find(|(rank, _)| among(*rank)).cloned()
    }

    /// The first failure of an operation towards `peer`; all of them are taken out.
    pub(super) fn take_of(&self, peer: u32) -> Option<NetError> {
        let mut untold = self.untold.borrow_mut();
        let at = untold.iter().position(|(rank, _)| *rank == peer)?;
        let first = untold.remove(at).1;
        untold.retain(|(rank, _)| *rank != peer);
        Some(first)
    }

    /// Forgets the failures without a known peer.
    pub(super) fn forget_nobodys(&self) {
        self.untold.borrow_mut().retain(|(rank, _)| *rank != NOBODY);
    }

    /// Notes that a peer is dead, which explains its failures and those without
    /// a known peer. Returns false if that was known.
    pub(super) fn add_lost(&self, rank: u32) -> bool {
        let mut lost = self.lost.borrow_mut();
        if lost.contains(&rank) {
            return false;
        }
        lost.push(rank);
        self.has_lost.set(true);
        self.untold.borrow_mut().retain(|(about, _)| ![rank, NOBODY].contains(about));
        true
    }

    /// Returns true if a peer is known to be dead.
    #[inline]
    pub(super) fn is_lost(&self, rank: u32) -> bool {
        self.lost.borrow().contains(&rank)
    }

    /// Returns true if any peer is known to be dead.
    #[inline(always)]
    pub(super) fn has_lost(&self) -> bool {
        self.has_lost.get()
    }

    /// Of the ranks below `size` the one whose death was noticed first.
    pub(super) fn first_lost_below(&self, size: u32) -> Option<u32> {
        self.lost.borrow().iter().copied().find(|&rank| rank < size)
    }

    /// Returns true once for each peer: another endpoint is to be taken for its
    /// death.
    pub(super) fn add_renewed(&self, rank: u32) -> bool {
        let mut renewed = self.renewed.borrow_mut();
        let new = !renewed.contains(&rank);
        renewed.extend(new.then_some(rank));
        new
    }

    /// Returns true once for each peer: it is to be watched from now on.
    #[inline]
    pub(super) fn add_watched(&self, rank: u32) -> bool {
        self.last_watched.replace(Some(rank)) != Some(rank)
            && self.watched.borrow_mut().insert(rank)
    }

    /// Forgets a peer whose number another process will have.
    pub(super) fn forget(&self, rank: u32) {
        self.untold.borrow_mut().retain(|(about, _)| *about != rank);
        self.renewed.borrow_mut().retain(|&known| known != rank);
        self.watched.borrow_mut().remove(&rank);
        self.last_watched.set(None);
        let mut lost = self.lost.borrow_mut();
        lost.retain(|&known| known != rank);
        self.has_lost.set(!lost.is_empty());
    }

    /// Returns true once: all peers on the node are to be watched from now on.
    pub(super) fn add_node(&self) -> bool {
        !self.node_watched.replace(true)
    }

    /// Returns true once in so many rounds of a loop: it is time to look at the clock.
    #[inline]
    pub(super) fn is_round_due(&self) -> bool {
        const EVERY: u32 = 1024;
        let rounds = self.rounds.get().wrapping_add(1);
        self.rounds.set(rounds);
        rounds.is_multiple_of(EVERY)
    }

    /// Returns true at most every [`LIVENESS_INTERVAL`].
    #[inline]
    pub(super) fn is_check_due(&self) -> bool {
        /// A small part of it on any processor.
        const SOON: u64 = 1 << 20;
        let ticks = pace::ticks();
        if ticks != 0 && ticks.wrapping_sub(self.last_asked.get()) < SOON {
            return false;
        }
        self.last_asked.set(ticks);
        self.is_due_by_clock()
    }

    fn is_due_by_clock(&self) -> bool {
        let now = Instant::now();
        let due = now.duration_since(self.last_check.get()) >= LIVENESS_INTERVAL;
        if due {
            self.last_check.set(now);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_death_explains_what_failed() {
        let failures = Failures::new();
        for rank in [3, NOBODY, 5] {
            failures.add(rank, NetError::Corrupt);
        }
        assert!(failures.add_lost(3));
        assert!(!failures.add_lost(3));
        failures.add(3, NetError::Corrupt);
        failures.add(NOBODY, NetError::Corrupt);
        assert!(matches!(failures.first(|_| true), Some((5, _))));
        assert!(failures.take_of(5).is_some());
        assert!(failures.first(|_| true).is_none());
        assert!(failures.is_lost(3) && failures.first_lost_below(4) == Some(3));
        assert!(failures.add_watched(3) && !failures.add_watched(3));
        failures.forget(3);
        assert!(!failures.is_lost(3) && !failures.has_lost() && failures.add_watched(3));
    }
}
