//! The set-up channel of ranks that share a process: frames stay in memory.

use super::protocol::Frame;
use crate::boot::BootError;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What carries the frames of all ranks of a job in this process.
pub struct Channel {
    /// By receiver: sender and frame, in the order in which they came.
    arrived: Box<[Mutex<Vec<Arrived>>]>,
    left: Box<[AtomicBool]>,
    /// The first that left; [`NOBODY`] before.
    first_left: AtomicU32,
    frames: AtomicU64,
    bytes: AtomicU64,
}

/// A sender and its frame.
type Arrived = (u32, Frame);

const NOBODY: u32 = u32::MAX;
/// How a rank ended that left others waiting.
const LEFT: &str = "left: it gave back all that it had of the job";

impl Channel {
    pub(in crate::boot) fn new(size: u32) -> Channel {
        Channel {
            arrived: (0..size).map(|_| Mutex::default()).collect(),
            left: (0..size).map(|_| AtomicBool::new(false)).collect(),
            first_left: AtomicU32::new(NOBODY),
            frames: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        }
    }

    /// Frames so far, of all ranks.
    pub(in crate::boot) fn frames(&self) -> u64 {
        self.frames.load(Ordering::Relaxed)
    }

    /// Bytes that members of collectives sent in them.
    pub(in crate::boot) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(super) fn send(&self, from: u32, to: u32, frame: Frame) {
        self.frames.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(frame.payload.len() as u64, Ordering::Relaxed);
        self.arrived(to).push((from, frame));
    }

    /// Takes what arrived for a rank.
    pub(super) fn receive(&self, rank: u32) -> Vec<Arrived> {
        std::mem::take(&mut *self.arrived(rank))
    }

    /// A rank is no more. What it sent before has arrived.
    pub(in crate::boot) fn leave(&self, rank: u32) {
        self.left[rank as usize].store(true, Ordering::Release);
        let (stored, not) = (Ordering::Release, Ordering::Relaxed);
        let _ = self.first_left.compare_exchange(NOBODY, rank, stored, not);
    }

    /// The first that left, as an error.
    pub(in crate::boot) fn first_left(&self) -> Option<BootError> {
        let rank = self.first_left.load(Ordering::Acquire);
        (rank != NOBODY).then(|| BootError::PeerDied { rank, how: LEFT.into() })
    }

    /// How a rank ended, if it did and `me` has received all that it sent.
    pub(super) fn left(&self, rank: u32, me: u32) -> Option<String> {
        let left = self.left[rank as usize].load(Ordering::Acquire);
        let unread = || self.arrived(me).iter().any(|(from, _)| *from == rank);
        (left && !unread()).then(|| LEFT.into())
    }

    fn arrived(&self, rank: u32) -> MutexGuard<'_, Vec<Arrived>> {
        self.arrived[rank as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }
}
