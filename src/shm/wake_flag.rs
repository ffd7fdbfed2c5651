//! The wake flag, by which a receiver says that it sleeps.
//!
//! A sender writes its packet and then looks at the flag; a receiver sets the
//! flag and then looks for packets. One of them sees what the other wrote, as
//! long as neither look overtakes the store before it. That takes a full barrier
//! on each side. The receiver, who has time, pays for both: membarrier(2) has
//! every running thread of the processes that registered pass one, so that a
//! sender only has to keep its two steps in the order of its program. Where a
//! process cannot have that, it says so in the flag, and whoever sends there
//! takes a barrier of its own.
//!
//! Knows nothing of packets; `proofs/` tries it under every interleaving.

use super::sync::{AtomicU32, Ordering, fence, light_fence};

/// Whoever sends wakes the receiver.
const ASLEEP: u32 = 1;
/// Whoever sends takes a barrier first. Never taken back.
const FENCED: u32 = 2;

/// Lies in shared memory: zeros are a flag that is not set.
#[repr(transparent)]
#[derive(Default)]
pub(crate) struct WakeFlag(AtomicU32);

impl WakeFlag {
    /// For the sender, behind its packet: whether it has to [`WakeFlag::claim`].
    #[inline(always)]
    pub(crate) fn is_set(&self) -> bool {
        light_fence(Ordering::SeqCst);
        self.0.load(Ordering::Relaxed) != 0
    }

    /// Returns true if the caller has to wake the receiver; nobody else does
    /// then.
    pub(crate) fn claim(&self) -> bool {
        // For those who found `FENCED`: behind the packet, before the look.
        fence(Ordering::SeqCst);
        self.0.load(Ordering::Relaxed) & ASLEEP != 0
            && self.0.fetch_and(!ASLEEP, Ordering::AcqRel) & ASLEEP != 0
    }

    /// This process cannot take part in the receiver's barriers, or the
    /// receiver cannot ask for them. Before the first packet.
    pub(crate) fn demand_fences(&self) {
        self.0.fetch_or(FENCED, Ordering::AcqRel);
    }

    /// The receiver is about to sleep, if it finds nothing from here on.
    /// `barrier` is one for all senders that do not fence themselves, and
    /// answers whether there was one: else it must not sleep.
    pub(crate) fn set(&self, barrier: impl FnOnce() -> bool) -> bool {
        self.0.fetch_or(ASLEEP, Ordering::AcqRel);
        fence(Ordering::SeqCst);
        barrier()
    }

    /// The receiver is awake.
    pub(crate) fn clear(&self) {
        self.0.fetch_and(!ASLEEP, Ordering::Relaxed);
    }
}
