//! How much a sender may have lying unread at a peer.
//!
//! A sender counts what it sent to a peer, the peer what was consumed of it,
//! and tells it now and then. All counts run on and wrap, so that a report is
//! good by itself. The peer reports when a quarter of the limit was consumed,
//! hence what is unreported never exhausts it. All processes of a job must
//! have the same limits.

use crate::settings::{EAGER_CREDIT, EAGER_MESSAGES};
use std::cell::Cell;

/// Limits for each peer and direction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) bytes: u32,
    pub(super) heads: u32,
}

impl Limits {
    /// From the environment: `RANKWAY_EAGER_CREDIT` in bytes, 1 MiB without it,
    /// and `RANKWAY_EAGER_MESSAGES`, 65,536.
    pub(super) fn from_env() -> Limits {
        Limits {
            bytes: EAGER_CREDIT.get().map_or(1 << 20, |n| n as u32),
            heads: EAGER_MESSAGES.get().map_or(65_536, |n| n as u32),
        }
    }
}

/// Both directions between this process and a peer.
#[derive(Default)]
pub(super) struct Credit {
    sent_bytes: Cell<u32>,
    sent_heads: Cell<u32>,
    /// Of those, consumed there as far as is known.
    back_bytes: Cell<u32>,
    back_heads: Cell<u32>,
    /// From there, consumed here.
    used_bytes: Cell<u32>,
    used_heads: Cell<u32>,
    told_bytes: Cell<u32>,
    told_heads: Cell<u32>,
}

#[inline]
fn add(cell: &Cell<u32>, n: u32) {
    cell.set(cell.get().wrapping_add(n));
}

impl Credit {
    /// Returns true if another header may go.
    #[inline]
    pub(super) fn has_heads(&self, limits: &Limits) -> bool {
        self.sent_heads.get().wrapping_sub(self.back_heads.get()) < limits.heads
    }

    /// Returns true if so many bytes may go with it.
    #[inline]
    pub(super) fn has_bytes(&self, limits: &Limits, len: usize) -> bool {
        let out = self.sent_bytes.get().wrapping_sub(self.back_bytes.get());
        out as usize + len <= limits.bytes as usize
    }

    /// Both.
    #[inline]
    pub(super) fn has(&self, limits: &Limits, len: usize) -> bool {
        self.has_heads(limits) && self.has_bytes(limits, len)
    }

    /// A header and so many bytes went.
    #[inline]
    pub(super) fn spend(&self, len: usize) {
        add(&self.sent_heads, 1);
        add(&self.sent_bytes, len as u32);
    }

    /// A header and so many bytes from there were consumed here. Returns true if
    /// it is time to tell.
    #[inline]
    pub(super) fn consume(&self, limits: &Limits, len: usize) -> bool {
        add(&self.used_heads, 1);
        add(&self.used_bytes, len as u32);
        self.used_bytes.get().wrapping_sub(self.told_bytes.get()) >= limits.bytes / 4
            || self.used_heads.get().wrapping_sub(self.told_heads.get()) >= limits.heads / 4
    }

    /// What to tell the peer: consumed so far.
    pub(super) fn tell(&self) -> u64 {
        self.told_bytes.set(self.used_bytes.get());
        self.told_heads.set(self.used_heads.get());
        u64::from(self.used_bytes.get()) << 32 | u64::from(self.used_heads.get())
    }

    /// The peer told.
    pub(super) fn told(&self, word: u64) {
        self.back_bytes.set((word >> 32) as u32);
        self.back_heads.set(word as u32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_unreported_never_exhausts_the_limit() {
        let limits = Limits { bytes: 100, heads: 16 };
        let (sender, receiver) = (Credit::default(), Credit::default());
        sender.sent_bytes.set(u32::MAX - 50);
        sender.back_bytes.set(u32::MAX - 50);
        receiver.used_bytes.set(u32::MAX - 50);
        receiver.told_bytes.set(u32::MAX - 50);
        for round in 0..1000 {
            let len = round % 26;
            assert!(sender.has_heads(&limits) && sender.has_bytes(&limits, len));
            sender.spend(len);
            if receiver.consume(&limits, len) {
                sender.told(receiver.tell());
            }
        }
        let mut sent = 0;
        while sender.has_heads(&limits) && sender.has_bytes(&limits, 10) {
            sender.spend(10);
            sent += 1;
        }
        assert!((1..=10).contains(&sent));
    }
}
