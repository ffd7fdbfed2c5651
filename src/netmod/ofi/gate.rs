//! Keeps shm of libfabric 2.x, as several threads use it, from what its own locks do not.
//!
//! Its `fi_av_insert` waits for the lock of each endpoint while it holds the address
//! vector's; its progress, which meets new peers, and its first operation to a peer wait
//! for that while they hold the endpoint's: both may wait for ever. And both go through
//! all endpoints of the vector, one that is being opened or closed too. (`first contact of
//! threads` in `tests/rma/ops`: three runs of a hundred hung, one crashed.) So an endpoint
//! has a gate, held by whoever calls the library for it, and what changes the set of
//! endpoints or of addresses is done while all gates are closed.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An endpoint's gate. Nothing is called under it but the library.
pub(super) type Gate = Mutex<()>;

/// What changes the set of a domain's endpoints or of its addresses goes through here,
/// one at a time; with the gates of all endpoints that have one.
#[derive(Default)]
pub(super) struct Setup(Mutex<Vec<Arc<Gate>>>);

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Setup {
    /// Does it while nobody else changes the set and no gate is held; `work` may add
    /// gates and remove them.
    pub(super) fn alone<T>(&self, work: impl FnOnce(&mut Vec<Arc<Gate>>) -> T) -> T {
        let mut gates = lock(&self.0);
        let before = gates.clone();
        let _closed: Vec<_> = before.iter().map(|gate| lock(gate)).collect();
        work(&mut gates)
    }
}
