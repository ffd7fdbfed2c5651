//! What threads and processes share, tried under every interleaving and every
//! order of memory that loom knows: `make loom`.
//!
//! `wake_flag.rs`, `biased_lock.rs`, `lock_word.rs`, `notifier.rs` and the ring of a recording are the library's own files,
//! made of loom's atomics, cells and locks. The ring of the node, the lock words and the steps of barriers lie in
//! raw memory, which loom cannot follow: of them the protocol is modelled, step by step
//! (their code runs under Miri). Each model also shows that it finds the fault it is there for.

#![cfg(all(loom, test))]

mod barrier;
#[path = "../../src/shm/biased_lock.rs"]
mod biased_lock;
mod carried;
mod elements;
#[path = "../../src/shm/lock_word.rs"]
mod lock_word;
mod locks;
mod mailbox;
#[path = "../../src/msg/notifier.rs"]
mod notifier;
mod queue;
mod recording;
#[path = "../../src/track/ring.rs"]
mod ring;
#[path = "../../src/shm/wake_flag.rs"]
mod wake_flag;

/// What the library's files are made of here.
mod sync {
    pub(super) use loom::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
    pub(super) use loom::sync::{Condvar, Mutex};
    pub(super) use std::sync::PoisonError;

    /// A place for a value; loom says where two threads have it at once.
    pub(super) struct Slot<T>(loom::cell::UnsafeCell<Option<T>>);

    // SAFETY: who has it when is under test.
    unsafe impl<T: Send> Sync for Slot<T> {}

    impl<T: Copy> Slot<T> {
        pub(super) fn empty() -> Slot<T> {
            Slot(loom::cell::UnsafeCell::new(None))
        }

        pub(super) unsafe fn write(&self, value: T) {
            // SAFETY: nobody else has it, or loom says so.
            self.0.with_mut(|at| unsafe { *at = Some(value) });
        }

        pub(super) unsafe fn read(&self) -> T {
            // SAFETY: nobody writes it, or loom says so.
            self.0.with(|at| unsafe { *at }).expect("a value")
        }
    }

    /// The sender's half of a barrier that the receiver has it pass: together
    /// they are a full fence on each side.
    pub(super) fn light_fence(order: Ordering) {
        fence(order);
    }
}
