//! Words of a window in memory that the processes of a node share: the lock words
//! of each region, the signals of epochs of groups, and the steps of barriers.
//!
//! They stand behind the regions of a window whose memory the node shares, else in a
//! segment of their own. Who locks, posts or completes towards a process of its node
//! changes words and asks nobody: the other may be computing.

use super::locks::{LockHandle, LockWords, NodeLocks};
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};

/// What processes signal in epochs of groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signal {
    /// It posted an exposure epoch.
    Posted,
    /// It completed its access epoch.
    Completed,
}

/// How often each process of the node sent each signal to one of them.
type Sent = [AtomicU32; 2];

/// What a member says of its barriers; a line, so that who waits for one of two does not
/// take the other's.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub(super) struct Steps {
    /// Steps that it has taken; wraps.
    pub(super) taken: AtomicU32,
    /// The world rank for whose death it left a barrier, plus 1.
    pub(super) lost: AtomicU32,
}

/// The words of the node's regions, as this process has them mapped: by node rank,
/// the lock words of each, the signals to each, and a count of each one's exclusive
/// locks; by rank of a window that has all its members here, their steps in barriers.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeWords {
    start: *mut u8,
    /// Processes of the job, and of this node.
    job_size: u32,
    node_size: u32,
}

// SAFETY: all access is atomic, and the memory stays with the window.
unsafe impl Send for NodeWords {}
// SAFETY: as above.
unsafe impl Sync for NodeWords {}

impl NodeWords {
    /// Bytes of them; `None` if that is more than there can be.
    pub(super) fn bytes(job_size: u32, node_size: u32) -> Option<usize> {
        let nodes = node_size as usize;
        let locks = LockWords::bytes(job_size).checked_mul(nodes)?;
        let signals = NodeWords::signals_of_one(node_size).checked_mul(nodes)?;
        let steps = nodes.checked_mul(size_of::<Steps>())?;
        locks
            .checked_add(signals)?
            .checked_add(NodeWords::exclusive_locks(node_size))?
            .checked_add(steps)
    }

    /// # Safety
    /// [`NodeWords::bytes`] of memory at `start`, zeroed before anybody used it and a
    /// multiple of 64, that stay while this is used.
    pub(super) unsafe fn at(start: *mut u8, job_size: u32, node_size: u32) -> NodeWords {
        NodeWords { start, job_size, node_size }
    }

    /// The lock words of a node rank's region.
    pub(super) fn lock(&self, node_rank: u32) -> LockHandle {
        debug_assert!(node_rank < self.node_size, "callers pass ranks of the node");
        let at = node_rank as usize * LockWords::bytes(self.job_size);
        // SAFETY: by the contract of `at`, there are words for every node rank.
        unsafe { LockHandle::at(self.start.add(at), self.job_size) }
    }

    /// The locks of a window whose members are all here: by the node ranks of its first
    /// member and of this process.
    pub(super) fn locks(&self, first: u32, me: u32) -> NodeLocks {
        debug_assert!(me < self.node_size, "callers pass ranks of the node");
        let at = self.behind_signals();
        // SAFETY: by the contract of `at`, behind the signals there is a count for every
        // node rank.
        unsafe {
            let exclusive = self.start.add(at).cast::<AtomicU16>();
            NodeLocks::at(self.lock(first), exclusive, self.node_size, me)
        }
    }

    /// Sends a signal, with all that this process did before.
    pub(super) fn send(&self, from: u32, to: u32, signal: Signal) {
        // The other side: `sent`.
        self.signals(from, to)[signal as usize].fetch_add(1, Ordering::AcqRel);
    }

    /// How often a node rank sent a signal to another, by wrapping.
    pub(super) fn sent(&self, from: u32, to: u32, signal: Signal) -> u32 {
        self.signals(from, to)[signal as usize].load(Ordering::Acquire)
    }

    fn signals(&self, from: u32, to: u32) -> &Sent {
        debug_assert!(from.max(to) < self.node_size, "callers pass ranks of the node");
        let locks = self.node_size as usize * LockWords::bytes(self.job_size);
        let row = to as usize * NodeWords::signals_of_one(self.node_size);
        // SAFETY: by the contract of `at`: behind the locks there are signals of every
        // node rank to every node rank.
        unsafe { &*self.start.add(locks + row).cast::<Sent>().add(from as usize) }
    }

    /// The steps of a member, which it alone writes.
    pub(super) fn steps(&self, rank: u32) -> &Steps {
        debug_assert!(rank < self.node_size, "no more members than processes of the node");
        let at = self.behind_signals() + NodeWords::exclusive_locks(self.node_size);
        // SAFETY: by the contract of `at`: behind the counts there is a line for every
        // process of the node.
        unsafe { &*self.start.add(at).cast::<Steps>().add(rank as usize) }
    }

    fn behind_signals(&self) -> usize {
        let one = LockWords::bytes(self.job_size) + NodeWords::signals_of_one(self.node_size);
        self.node_size as usize * one
    }

    /// Bytes of the counts of exclusive locks.
    fn exclusive_locks(node_size: u32) -> usize {
        (node_size as usize * size_of::<AtomicU16>()).next_multiple_of(64)
    }

    /// Bytes of the signals to one process.
    fn signals_of_one(node_size: u32) -> usize {
        (node_size as usize * size_of::<Sent>()).next_multiple_of(64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rma::locks::{Holder, LockMode};

    /// No word is another's.
    #[test]
    fn words_lie_apart() {
        const NODE: u32 = 9;
        let bytes = NodeWords::bytes(40, NODE).unwrap();
        let mut memory = vec![0_u128; bytes / 16 + 4];
        let start = memory.as_mut_ptr().cast::<u8>();
        // SAFETY: zeroed, with 64 bytes more than are used.
        let words = unsafe { NodeWords::at(start.add(start.align_offset(64)), 40, NODE) };
        let pairs = || (0..NODE).flat_map(|from| (0..NODE).map(move |to| (from, to)));
        for (from, to) in pairs() {
            for _ in 0..from * NODE + to {
                words.send(from, to, Signal::Posted);
            }
            words.send(from, to, Signal::Completed);
        }
        (0..NODE).for_each(|rank| words.steps(rank).taken.store(100 + rank, Ordering::Relaxed));
        let holder = Holder { peer: 39, single_writer: false };
        for rank in 0..NODE {
            for mode in [LockMode::Shared, LockMode::GlobalExclusive] {
                assert_eq!(words.lock(rank).try_acquire(mode, holder, 0), Ok(()));
            }
        }
        for rank in 0..NODE {
            assert_eq!(words.steps(rank).taken.load(Ordering::Relaxed), 100 + rank);
        }
        for (from, to) in pairs() {
            assert_eq!(words.sent(from, to, Signal::Posted), from * NODE + to);
            assert_eq!(words.sent(from, to, Signal::Completed), 1);
        }
    }
}
