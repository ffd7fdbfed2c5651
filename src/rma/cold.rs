//! What an access keeps beside what its puts need.

use super::am_fallback::{OutstandingRequests, RmaHandler};
use super::locks::LockHandle;
use super::types::{AccessPath, Lock};
use crate::device::{BouncePool, Context};
use crate::netmod::Netmod;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// A lock of a single rank.
#[derive(Clone, Copy)]
pub(super) struct Held {
    pub(super) rank: u32,
    pub(super) kind: Lock,
    /// The lock words know of it.
    pub(super) acquired: bool,
}

/// The process that keeps a lock word.
#[derive(Clone, Copy)]
pub(super) struct LockTarget {
    /// Its rank in the access's numbers; [`NO_RANK`](super::locks::NO_RANK) for the first member.
    pub(super) rank: u32,
    pub(super) peer: u32,
    /// Its lock words, where they are mapped. They stay with the window.
    pub(super) words: Option<LockHandle>,
}

/// What an access keeps beside what its puts need: cold state.
pub(super) struct ColdState<N> {
    pub(super) rma_handler: Rc<RmaHandler<N>>,
    pub(super) outstanding: Rc<OutstandingRequests>,
    /// Locks of single ranks, in their order.
    pub(super) locks: RefCell<Vec<Held>>,
    /// The peers whose lock words were used last: a target, and the first
    /// member.
    pub(super) lock_targets: [Cell<Option<LockTarget>>; 2],
    /// lock_all took the first member's word.
    pub(super) all: Cell<bool>,
    /// The ranks of [`Access::start`].
    pub(super) group: RefCell<Vec<u32>>,
    /// Operands of the provider's atomics, by world rank, until a flush.
    pub(super) staged: RefCell<Vec<(u32, Box<[u8]>)>>,
    pub(super) staged_bytes: Cell<usize>,
    /// Bounce memory for calls that borrow their buffer.
    pub(super) bounce_pool: BouncePool,
    /// The path of the last element operation, by world rank.
    pub(super) access_paths: RefCell<BTreeMap<u32, AccessPath>>,
    /// Operations by the processor's atomics left until the next progress.
    pub(super) atomics_until_progress: Cell<u32>,
}

impl<N: Netmod> ColdState<N> {
    pub(super) fn new(context: &Context<N>) -> ColdState<N> {
        ColdState {
            rma_handler: RmaHandler::of(context),
            outstanding: Rc::default(),
            locks: RefCell::default(),
            lock_targets: Default::default(),
            all: Cell::new(false),
            group: RefCell::default(),
            staged: RefCell::default(),
            staged_bytes: Cell::new(0),
            bounce_pool: BouncePool::default(),
            access_paths: RefCell::default(),
            atomics_until_progress: Cell::new(ATOMICS_PER_PROGRESS),
        }
    }

    /// Frees the operands of what is done. What went wrong may still be read
    /// by the provider: those operands stay for ever.
    pub(super) fn unstage(&self, well: bool, busy: impl Fn(u32) -> bool) {
        if self.staged_bytes.get() == 0 {
            return;
        }
        let staged = std::mem::take(&mut *self.staged.borrow_mut());
        let mut left = Vec::new();
        for (peer, operands) in staged {
            if !well {
                std::mem::forget(operands);
            } else if busy(peer) {
                left.push((peer, operands));
            }
        }
        self.staged_bytes.set(left.iter().map(|(_, b)| b.len()).sum());
        *self.staged.borrow_mut() = left;
    }
}

impl<N> Drop for ColdState<N> {
    fn drop(&mut self) {
        // Dropped without a flush: the provider may still read them.
        self.staged.get_mut().drain(..).for_each(|(_, operands)| std::mem::forget(operands));
    }
}

/// Operations by the processor's atomics between two rounds of progress: a
/// process that spins on one must still carry out its peers' requests.
pub(super) const ATOMICS_PER_PROGRESS: u32 = 128;
