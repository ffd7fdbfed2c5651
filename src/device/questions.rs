//! Questions for peers' further contexts: those under way, and where those who
//! asked here are answered.

use super::business_card::BusinessCard;
use super::packet::Route;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// First pause before a question is repeated, and the longest.
const FIRST: Duration = Duration::from_millis(2);
const LONGEST: Duration = Duration::from_millis(50);

/// Questions under way, and the routes back to those answered.
#[derive(Default)]
pub(super) struct Questions {
    asking: RefCell<Vec<Question>>,
    is_asking: Cell<bool>,
    /// Contexts that asked here: by world rank and index.
    back: RefCell<BTreeMap<(u32, u32), Asker>>,
}

/// A peer's context that asked here.
#[derive(Clone)]
pub(super) struct Asker {
    /// What it said of itself, and was told of the context here, if it was.
    pub(super) theirs: BusinessCard,
    pub(super) told: Option<BusinessCard>,
    pub(super) route: Route,
}

struct Question {
    peer: u32,
    at: Instant,
    pause: Duration,
}

impl Questions {
    #[inline]
    pub(super) fn is_asking(&self) -> bool {
        self.is_asking.get()
    }

    /// Begins to ask a peer for its context of this one's index.
    pub(super) fn ask(&self, peer: u32) {
        let mut asking = self.asking.borrow_mut();
        if asking.iter().all(|question| question.peer != peer) {
            asking.push(Question { peer, at: Instant::now(), pause: FIRST });
        }
        self.is_asking.set(true);
    }

    /// The peers that are to be asked now, of those whose question is `open`.
    pub(super) fn due(&self, open: impl Fn(u32) -> bool) -> Vec<u32> {
        let now = Instant::now();
        let mut due = Vec::new();
        let mut asking = self.asking.borrow_mut();
        asking.retain(|question| open(question.peer));
        for question in asking.iter_mut().filter(|q| q.at <= now) {
            question.at = now + question.pause;
            question.pause = (question.pause * 2).min(LONGEST);
            due.push(question.peer);
        }
        self.is_asking.set(!asking.is_empty());
        due
    }

    /// The last of a peer's contexts that asked here for the one of this index.
    pub(super) fn asker(&self, peer: u32, index: u32) -> Option<Asker> {
        self.back.borrow().get(&(peer, index)).cloned()
    }

    /// Another is the last from now on: the one before.
    pub(super) fn set_asker(&self, peer: u32, index: u32, asker: Asker) -> Option<Asker> {
        self.back.borrow_mut().insert((peer, index), asker)
    }
}
