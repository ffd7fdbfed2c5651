//! A lock that short changes of what it guards need not take.
//!
//! Single elements of a window are changed by one atomic instruction of the
//! processor; long stretches of them a hundred times faster without, if nobody
//! else is there meanwhile. As long as nobody wants that, the lock is *open*: who
//! makes a short change says so in a slot of its own, sees that the lock is open,
//! and takes no instruction more that orders anything. Who wants the memory alone
//! closes the lock, has every thread of the others pass a barrier (membarrier(2),
//! as in [`wake_flag`](super::wake_flag)), and waits until no slot names the lock.
//! From then on all take it, one after the other, until many short changes in turn
//! open it again.
//!
//! The word names its holder, so that who waits can look whether that still lives.
//! Never waits itself; `proofs/` tries it under every interleaving.

use super::sync::{AtomicU32, Ordering, fence, light_fence};

/// Nobody needs the lock.
const OPEN: u32 = 0;
/// It is to be taken; the bits below are its holder plus one.
const CLOSED: u32 = 1 << 31;

/// Lies in shared memory: zeros are an open lock.
#[repr(C, align(64))]
#[derive(Default)]
pub(crate) struct BiasedLock {
    word: AtomicU32,
    /// Short changes since the last long one. Its holder's.
    short: AtomicU32,
}

/// What an attempt at a lock has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Acquired {
    /// Nobody else is there.
    Alone,
    /// As soon as [`revoke`] was called and no slot names the lock any more.
    AfterSlots,
    /// This process has it, or did when it died.
    HeldBy(u32),
}

/// Where one thread says that it makes a short change, and to what: a number other
/// than 0. Lies in shared memory.
#[repr(transparent)]
#[derive(Default)]
pub(crate) struct Slot(AtomicU32);

impl Slot {
    /// The change is made.
    #[inline(always)]
    pub(crate) fn leave(&self) {
        self.0.store(0, Ordering::Release);
    }

    /// Returns true if nobody makes a change to `number` there.
    pub(crate) fn is_clear_of(&self, number: u32) -> bool {
        self.0.load(Ordering::Acquire) != number
    }
}

/// The slot of those who have none of their own: how many there are, whatever they
/// change. Lies in shared memory.
#[repr(transparent)]
#[derive(Default)]
pub(crate) struct Count(AtomicU32);

impl Count {
    /// The change is made.
    #[inline(always)]
    pub(crate) fn leave(&self) {
        self.0.fetch_sub(1, Ordering::Release);
    }

    pub(crate) fn is_clear(&self) -> bool {
        self.0.load(Ordering::Acquire) == 0
    }
}

/// Has all others see that a lock is closed, or their slots be seen. `barrier` is
/// one for the threads of all that share the lock, and answers whether there was
/// one.
pub(crate) fn revoke(barrier: impl FnOnce() -> bool) -> bool {
    fence(Ordering::SeqCst);
    barrier()
}

impl BiasedLock {
    /// Begins a short change, of the memory that is called `number`; false where
    /// the lock has to be taken for it.
    #[inline(always)]
    pub(crate) fn enter(&self, slot: &Slot, number: u32) -> bool {
        slot.0.store(number, Ordering::Relaxed);
        light_fence(Ordering::SeqCst);
        let open = self.word.load(Ordering::Acquire) == OPEN;
        if !open {
            slot.leave();
        }
        open
    }

    /// [`BiasedLock::enter`] without a slot of one's own.
    #[inline(always)]
    pub(crate) fn enter_counted(&self, count: &Count) -> bool {
        count.0.fetch_add(1, Ordering::Relaxed);
        light_fence(Ordering::SeqCst);
        let open = self.word.load(Ordering::Acquire) == OPEN;
        if !open {
            count.leave();
        }
        open
    }

    /// Tries to take the lock for process `me`, from `dead` if that has it.
    pub(crate) fn try_acquire(&self, me: u32, dead: Option<u32>) -> Acquired {
        let mine = CLOSED | (me + 1);
        let seen = self.word.load(Ordering::Relaxed);
        let holder = (seen & !CLOSED).wrapping_sub(1);
        let free = seen == OPEN || seen == CLOSED;
        if !free && dead != Some(holder) {
            return Acquired::HeldBy(holder);
        }
        match self.word.compare_exchange(seen, mine, Ordering::AcqRel, Ordering::Relaxed) {
            // What the dead had not waited for is waited for again.
            Ok(CLOSED) => Acquired::Alone,
            Ok(_) => Acquired::AfterSlots,
            // By another, just now: a thread of this process for all we know.
            Err(_) => Acquired::HeldBy(me),
        }
    }

    /// Gives the lock back. `short`: what was done under it would have been a short
    /// change, of which so many in turn open the lock.
    pub(crate) fn release(&self, short: Option<u32>) {
        let count = short.map_or(0, |_| self.short.load(Ordering::Relaxed) + 1);
        let open = short.is_some_and(|opens| count >= opens);
        self.short.store(if open { 0 } else { count }, Ordering::Relaxed);
        self.word.store(if open { OPEN } else { CLOSED }, Ordering::Release);
    }

    /// Gives it back as it was found, open: nobody can be kept out.
    pub(crate) fn reopen(&self) {
        self.word.store(OPEN, Ordering::Release);
    }
}
