//! Whom loops of calls that do not wait are waiting for: when they look whether those live,
//! and who of those on other nodes is asked.

use super::failures::LIVENESS_INTERVAL;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// How long a wait goes on before peers on other nodes are asked whether they
/// are still there: a network may try for ever to reach those that are not.
pub(super) const SILENCE: Duration = Duration::from_millis(250);
/// Peers that are asked at a time.
const ASKED: usize = 16;
/// How often those that are waited for are told how many packets went to them, and how many of
/// them at a time.
const COUNTING: Duration = Duration::from_secs(1);
const COUNTED: usize = 64;
/// A walk over what requests wait for takes one in so many parts of the time.
const WALK_FRACTION: u32 = 32;

/// What is kept from one look to the next.
pub(super) struct Walks {
    next: Cell<Instant>,
    /// Peers that calls found no word from since the last walk, and the last of them.
    sought: RefCell<BTreeSet<u32>>,
    last_sought: Cell<Option<u32>>,
    last_asking: Cell<Instant>,
    /// Whom loops waited for then, and who had closed its side when it was asked; who is next.
    asked: RefCell<BTreeMap<u32, bool>>,
    next_asked: Cell<u32>,
    /// The same of those that are told how many packets went to them.
    last_counting: Cell<Instant>,
    next_counted: Cell<u32>,
}

impl Default for Walks {
    fn default() -> Self {
        let now = Instant::now();
        Walks {
            next: Cell::new(now),
            sought: RefCell::default(),
            last_sought: Cell::new(None),
            last_asking: Cell::new(now),
            asked: RefCell::default(),
            next_asked: Cell::new(0),
            last_counting: Cell::new(now),
            next_counted: Cell::new(0),
        }
    }
}

impl Walks {
    /// Adds a peer that a call found no word from, for the next walk.
    #[inline]
    pub(super) fn add_sought(&self, peer: u32) {
        if self.last_sought.get() != Some(peer) {
            self.last_sought.set(Some(peer));
            self.sought.borrow_mut().insert(peer);
        }
    }

    /// Takes them out.
    pub(super) fn take_sought(&self) -> BTreeSet<u32> {
        self.last_sought.set(None);
        self.sought.take()
    }

    /// When a walk began, if it is time for one: every [`LIVENESS_INTERVAL`] at most.
    pub(super) fn begin(&self) -> Option<Instant> {
        let now = Instant::now();
        (now >= self.next.get()).then_some(now)
    }

    /// The next one is not before this has taken a small part of the time.
    pub(super) fn end(&self, begun: Instant) {
        let pause = LIVENESS_INTERVAL.max(begun.elapsed() * WALK_FRACTION);
        self.next.set(begun + pause);
    }

    /// Returns true every [`SILENCE`] at most.
    pub(super) fn is_asking_due(&self) -> bool {
        is_due(&self.last_asking, SILENCE)
    }

    /// Returns true every [`COUNTING`] at most.
    pub(super) fn is_counting_due(&self) -> bool {
        is_due(&self.last_counting, COUNTING)
    }

    /// Some of those that are to be told how many packets went to them, one after the other.
    pub(super) fn next_counted(&self, peers: &BTreeSet<u32>) -> Vec<u32> {
        let next = self.next_counted.get();
        let all = peers.range(next..).chain(peers.range(..next));
        let some: Vec<u32> = all.take(COUNTED).copied().collect();
        self.next_counted.set(some.last().map_or(0, |peer| peer.saturating_add(1)));
        some
    }

    /// Asks some of those that are waited for now and were the last time, too, in turn. Returns
    /// those that had closed their side twice: what they sent before has come meanwhile.
    pub(super) fn ask(
        &self,
        awaited: &BTreeSet<u32>,
        has_closed: impl Fn(u32) -> bool,
    ) -> Vec<u32> {
        let mut asked = self.asked.borrow_mut();
        asked.retain(|peer, _| awaited.contains(peer));
        let next = self.next_asked.get();
        let (mut gone, mut last) = (Vec::new(), None);
        for (&peer, closed) in asked.range_mut(next..).take(ASKED) {
            let before = std::mem::replace(closed, has_closed(peer));
            if before && *closed {
                gone.push(peer);
            }
            last = Some(peer);
        }
        // (From the first on again, behind the last.)
        let next = last.map_or(0, |peer| peer.saturating_add(1));
        self.next_asked.set(if asked.range(next..).next().is_some() { next } else { 0 });
        for &peer in awaited {
            asked.entry(peer).or_insert(false);
        }
        gone
    }
}

/// Returns true if it is so long ago; then it is now.
fn is_due(last: &Cell<Instant>, every: Duration) -> bool {
    let due = last.get().elapsed() >= every;
    if due {
        last.set(Instant::now());
    }
    due
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_closed_is_gone_if_the_next_asking_finds_it_awaited_still() {
        let walks = Walks::default();
        let ask = |peers: &[u32], closed: &dyn Fn(u32) -> bool| {
            walks.ask(&peers.iter().copied().collect(), closed)
        };
        let none = Vec::<u32>::new();
        assert_eq!(ask(&[3, 5], &|_| panic!("only just awaited")), none);
        assert_eq!(ask(&[3, 5], &|peer| peer == 5), none);
        assert_eq!(ask(&[3, 5], &|peer| peer == 5), [5]);
        // What came from it meanwhile is no longer awaited; later it is anew.
        for peers in [&[3][..], &[3, 5], &[3, 5]] {
            assert_eq!(ask(peers, &|peer| peer == 5), none);
        }
        assert_eq!(ask(&[5], &|_| true), [5]);
    }

    #[test]
    fn many_are_asked_one_after_the_other() {
        let walks = Walks::default();
        let all: BTreeSet<u32> = (0..40).collect();
        let asked = RefCell::new(Vec::new());
        let mut gone = Vec::new();
        for _ in 0..7 {
            gone.extend(walks.ask(&all, |peer| {
                asked.borrow_mut().push(peer);
                peer == 39
            }));
        }
        let twice: Vec<u32> = (0..40).chain(0..40).collect();
        assert_eq!((gone, asked.take()), (vec![39], twice));
    }
}
