//! What threads and processes share, tried under every interleaving and every
//! order of memory that loom knows: `make loom`.
//!
//! `wake_flag.rs` and `notifier.rs` are the library's own files, made of loom's atomics
//! and locks. The ring and the lock words lie in raw memory, which loom cannot
//! follow: of them the protocol is modelled, step by step (their code runs under
//! Miri). Each model also shows that it finds the fault it is there for.

#![cfg(all(loom, test))]

mod locks;
mod mailbox;
#[path = "../../src/msg/notifier.rs"]
mod notifier;
mod queue;
#[path = "../../src/device/node/wake_flag.rs"]
mod wake_flag;

/// What the library's files are made of here.
mod sync {
    pub(super) use loom::sync::atomic::{AtomicU32, Ordering, fence};
    pub(super) use loom::sync::{Condvar, Mutex};
    pub(super) use std::sync::PoisonError;

    /// The sender's half of a barrier that the receiver has it pass: together
    /// they are a full fence on each side.
    pub(super) fn light_fence(order: Ordering) {
        fence(order);
    }
}
