//! What an access keeps beside what its puts need.

use super::am_fallback::{OutstandingRequests, RmaHandler};
use super::element_gate::{ElementGate, Entrance};
use super::locks::{Holder, LockHandle, NodeLocks};
use super::registration::{Registration, RemoteKey};
use super::state::WindowState;
use super::types::{AccessPath, Lock};
use crate::av::Entry;
use crate::device::{BouncePool, Context, FRAGMENT, Listener};
use crate::netmod::Netmod;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

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

/// What the short path of a lock needs: the target that the long one found last, in
/// a window whose members are all on this node.
pub(super) struct ShortLock<N: Netmod> {
    /// Its rank in the access's numbers.
    pub(super) rank: u32,
    pub(super) words: LockHandle,
    pub(super) locks: NodeLocks,
    /// This process, which has one access of the window alone.
    pub(super) holder: Holder,
    /// Of the access's own [`Arc`].
    pub(super) state: *const WindowState<N>,
}

/// Where a rank's memory is reached by a provider: what does not change while the window
/// lives, the rank has this entry and nobody died.
#[derive(Clone, Copy)]
pub(super) struct FoundTarget {
    /// In the access's numbers.
    pub(super) rank: u32,
    pub(super) peer: u32,
    pub(super) entry: Entry,
    pub(super) unit: u64,
    /// The provider's address of displacement 0.
    pub(super) start: u64,
    pub(super) key: RemoteKey,
}

/// What an access keeps beside what its puts need: cold state.
pub(super) struct ColdState<N: Netmod> {
    pub(super) rma_handler: Rc<RmaHandler<N>>,
    pub(super) outstanding: Rc<OutstandingRequests>,
    /// Of operations that failed while nobody waited for them.
    pub(super) failure_listener: Listener,
    /// Flushes that have not probed all marked ranks yet.
    pub(super) probing_flushes: Cell<u32>,
    /// Locks of single ranks, in their order, but for `only`.
    pub(super) locks: RefCell<Vec<Held>>,
    /// The target of the short path.
    pub(super) short: RefCell<Option<ShortLock<N>>>,
    /// The lock that the short path took, while there is no other.
    pub(super) only: Cell<Option<Lock>>,
    /// The peers whose lock words were used last: a target, and the first
    /// member.
    pub(super) lock_targets: [Cell<Option<LockTarget>>; 2],
    /// lock_all took the first member's word.
    pub(super) all: Cell<bool>,
    /// The ranks of [`Access::start`].
    pub(super) group: RefCell<Vec<u32>>,
    /// Operands of the provider's atomics and packed fragments, by world rank,
    /// until a flush.
    staged: RefCell<Vec<(u32, Box<[u8]>)>>,
    pub(super) staged_bytes: Cell<usize>,
    /// Fragments that nobody uses.
    fragments: RefCell<Vec<Box<[u8]>>>,
    /// Bounce memory for calls that borrow their buffer.
    pub(super) bounce_pool: BouncePool,
    /// The target that was found last.
    pub(super) found: Cell<Option<FoundTarget>>,
    /// The path of the last element operation, by world rank.
    pub(super) access_paths: RefCell<BTreeMap<u32, AccessPath>>,
    /// What members told of their memory when they were asked, by world rank.
    pub(super) asked: RefCell<BTreeMap<u32, Registration>>,
    /// The latest of [`access_paths`](Self::access_paths).
    pub(super) last_path: Cell<Option<(u32, AccessPath)>>,
    /// Calls done in mapped memory left until the next progress.
    pub(super) calls_until_progress: Cell<u32>,
    /// By which mapped elements are changed.
    pub(super) entrance: Entrance,
    /// All ranks are different processes; found out by the first flush of all that asks.
    pub(super) distinct: OnceCell<bool>,
}

impl<N: Netmod> ColdState<N> {
    pub(super) fn new(context: &Context<N>, gate: Option<&Arc<ElementGate>>) -> ColdState<N> {
        ColdState {
            rma_handler: RmaHandler::of(context),
            outstanding: Rc::default(),
            failure_listener: context.failure_listener(),
            probing_flushes: Cell::new(0),
            locks: RefCell::default(),
            short: RefCell::new(None),
            only: Cell::new(None),
            lock_targets: Default::default(),
            all: Cell::new(false),
            group: RefCell::default(),
            staged: RefCell::default(),
            staged_bytes: Cell::new(0),
            fragments: RefCell::default(),
            bounce_pool: BouncePool::default(),
            found: Cell::new(None),
            access_paths: RefCell::default(),
            asked: RefCell::default(),
            last_path: Cell::new(None),
            calls_until_progress: Cell::new(CALLS_PER_PROGRESS),
            entrance: Entrance::new(gate),
            distinct: OnceCell::new(),
        }
    }

    /// Memory for at least `len` bytes, at most [`FRAGMENT`].
    pub(super) fn fragment(&self, len: usize) -> Box<[u8]> {
        if len <= FRAGMENT / 8 {
            return vec![0; len].into();
        }
        self.fragments.borrow_mut().pop().unwrap_or_else(|| vec![0; FRAGMENT].into())
    }

    /// Takes a fragment back that no operation has any more.
    pub(super) fn put_back(&self, fragment: Box<[u8]>) {
        let mut fragments = self.fragments.borrow_mut();
        if fragment.len() == FRAGMENT && fragments.len() < FRAGMENTS {
            fragments.push(fragment);
        }
    }

    /// Keeps what an operation on a peer reads until it is done.
    pub(super) fn stage(&self, peer: u32, bytes: Box<[u8]>) {
        self.staged_bytes.set(self.staged_bytes.get() + bytes.len());
        self.staged.borrow_mut().push((peer, bytes));
    }

    /// Frees the operands of what is done towards `peers`, anybody where that is empty. What went wrong
    /// may still be read by the provider: those operands stay for ever. Of others nothing is known:
    /// a death makes a provider forget what it has of the living, too.
    pub(super) fn unstage(&self, peers: &[u32], well: bool, busy: impl Fn(u32) -> bool) {
        if self.staged_bytes.get() == 0 {
            return;
        }
        let staged = std::mem::take(&mut *self.staged.borrow_mut());
        let mut left = Vec::new();
        for (peer, operands) in staged {
            let drained = peers.is_empty() || peers.contains(&peer);
            if drained && !well {
                std::mem::forget(operands);
            } else if !drained || busy(peer) {
                left.push((peer, operands));
            } else {
                self.put_back(operands);
            }
        }
        self.staged_bytes.set(left.iter().map(|(_, b)| b.len()).sum());
        *self.staged.borrow_mut() = left;
    }
}

/// Fragments that are kept for reuse.
const FRAGMENTS: usize = 5;

/// Staged bytes before they are waited for.
pub(super) const STAGED: usize = 1 << 20;

impl<N: Netmod> Drop for ColdState<N> {
    fn drop(&mut self) {
        // Dropped without a flush: the provider may still read them.
        self.staged.get_mut().drain(..).for_each(|(_, operands)| std::mem::forget(operands));
    }
}

/// Calls of a provider's atomics for one operation; what needs more goes as packets.
pub(super) const PROVIDER_CALLS: usize = 16;

/// Calls done in mapped memory between two rounds of progress: a process that spins on one
/// must still carry out its peers' requests, and hear of a death.
pub(super) const CALLS_PER_PROGRESS: u32 = 128;
