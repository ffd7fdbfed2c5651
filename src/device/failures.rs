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

/// A failure of operations nobody waits for.
struct Failure {
    /// The peer, or [`NOBODY`].
    rank: u32,
    /// The first one that nobody was told of.
    error: NetError,
    /// Counts failures and listeners.
    number: u64,
    /// The listeners that know of it.
    told: Vec<u64>,
}

/// Who is told of failures, each once, that came after it was made: what a provider reports does not
/// say whose operation it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Listener(u64);

impl Failure {
    fn is_news(&self, Listener(listener): Listener) -> bool {
        self.number > listener && !self.told.contains(&listener)
    }
}

/// Failures and deaths as far as a context knows of them.
pub(super) struct Failures {
    /// Of each peer the last ones, for the next flushes.
    failures: RefCell<Vec<Failure>>,
    /// Failures and listeners so far.
    count: Cell<u64>,
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
            failures: RefCell::default(),
            count: Cell::new(0),
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

    fn next_number(&self) -> u64 {
        self.count.set(self.count.get() + 1);
        self.count.get()
    }

    /// One that is told of the failures from now on.
    pub(super) fn listener(&self) -> Listener {
        Listener(self.next_number())
    }

    /// Keeps a failure for the next flush of each listener.
    pub(super) fn add(&self, rank: u32, error: NetError) {
        let lost = self.lost.borrow();
        // What a dead peer leaves behind was reported with its death.
        if lost.contains(&rank) || (rank == NOBODY && !lost.is_empty()) {
            return;
        }
        let number = self.next_number();
        let mut failures = self.failures.borrow_mut();
        match failures.iter_mut().find(|it| it.rank == rank) {
            // The first tells the story; a dead peer can produce thousands.
            Some(known) if known.told.is_empty() => known.number = number,
            Some(known) => *known = Failure { rank, error, number, told: Vec::new() },
            None => failures.push(Failure { rank, error, number, told: Vec::new() }),
        }
    }

    /// The first failure of operations towards these that the listener does not know of yet.
    pub(super) fn first(
        &self,
        listener: Listener,
        among: impl Fn(u32) -> bool,
    ) -> Option<(u32, NetError)> {
        let failures = self.failures.borrow();
        let first = failures.iter().find(|it| among(it.rank) && it.is_news(listener))?;
        Some((first.rank, first.error.clone()))
    }

    /// Tells the listener of the failure of operations towards `rank`, if it does not know of it.
    pub(super) fn tell(&self, listener: Listener, rank: u32) -> Option<NetError> {
        let mut failures = self.failures.borrow_mut();
        let failure = failures.iter_mut().find(|it| it.rank == rank && it.is_news(listener))?;
        failure.told.push(listener.0);
        Some(failure.error.clone())
    }

    /// Forgets the failures without a known peer.
    pub(super) fn forget_nobodys(&self) {
        self.failures.borrow_mut().retain(|it| it.rank != NOBODY);
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
        self.failures.borrow_mut().retain(|it| ![rank, NOBODY].contains(&it.rank));
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

    /// A peer is not watched.
    pub(super) fn remove_watched(&self, rank: u32) {
        self.watched.borrow_mut().remove(&rank);
        self.last_watched.set(None);
    }

    /// Forgets a peer whose number another process will have.
    pub(super) fn forget(&self, rank: u32) {
        self.failures.borrow_mut().retain(|it| it.rank != rank);
        self.renewed.borrow_mut().retain(|&known| known != rank);
        self.remove_watched(rank);
        let mut lost = self.lost.borrow_mut();
        lost.retain(|&known| known != rank);
        self.has_lost.set(!lost.is_empty());
    }

    /// All peers on the node are watched from now on; returns true if they were not.
    pub(super) fn add_node(&self) -> bool {
        !self.node_watched.replace(true)
    }

    /// Returns true if all peers on the node are watched.
    pub(super) fn has_node(&self) -> bool {
        self.node_watched.get()
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
        let listener = failures.listener();
        for rank in [3, NOBODY, 5] {
            failures.add(rank, NetError::Corrupt);
        }
        assert!(failures.add_lost(3));
        assert!(!failures.add_lost(3));
        failures.add(3, NetError::Corrupt);
        failures.add(NOBODY, NetError::Corrupt);
        assert!(matches!(failures.first(listener, |_| true), Some((5, _))));
        assert!(failures.tell(listener, 5).is_some());
        assert!(failures.first(listener, |_| true).is_none());
        assert!(failures.is_lost(3) && failures.first_lost_below(4) == Some(3));
        assert!(failures.add_watched(3) && !failures.add_watched(3));
        failures.forget(3);
        assert!(!failures.is_lost(3) && !failures.has_lost() && failures.add_watched(3));
    }

    #[test]
    fn each_listener_is_told_once_of_what_failed_since_it_came() {
        let failures = Failures::new();
        let [a, b] = [(); 2].map(|()| failures.listener());
        failures.add(5, NetError::Corrupt);
        failures.add(6, NetError::Corrupt);
        let late = failures.listener();
        assert!(failures.tell(a, 5).is_some() && failures.tell(a, 5).is_none());
        assert!(matches!(failures.first(a, |_| true), Some((6, _))));
        assert!(matches!(failures.first(b, |_| true), Some((5, _))));
        assert!(failures.first(late, |_| true).is_none());
        failures.add(5, NetError::Corrupt);
        for listener in [a, b, late] {
            assert!(failures.tell(listener, 5).is_some() && failures.tell(listener, 5).is_none());
        }
        assert_eq!(failures.failures.borrow().len(), 2);
    }
}
