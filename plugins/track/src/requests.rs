//! Receives under way, by request (and, of matched messages, by message): which
//! communicator's they are, which their completion does not say.
//!
//! MPI uses a request again as soon as it has completed, in any thread. So an entry is
//! looked up before MPI is called, and dropped afterwards only if it is still that one.

use rankway::track::Kind;
use rankway_preload::ByHandle;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A receive under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Receive {
    /// The communicator's number.
    pub(crate) comm: u32,
    /// The peer and the tag that were asked for, where its status will not tell.
    pub(crate) asked: Option<(u32, i32)>,
    serial: u64,
}

/// What a persistent request does when it is started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Persistent {
    /// The event that it is when it is started.
    pub(crate) kind: Kind,
    pub(crate) comm: u32,
    pub(crate) peer: u32,
    pub(crate) tag: i32,
    pub(crate) bytes: u64,
}

#[derive(Default)]
struct Tables {
    receives: ByHandle<Receive>,
    persistent: ByHandle<Persistent>,
    serial: u64,
}

static TABLES: Mutex<Option<Tables>> = Mutex::new(None);
/// Receives under way: without any, a completion costs one look.
static COUNT: AtomicUsize = AtomicUsize::new(0);

fn tables() -> MutexGuard<'static, Option<Tables>> {
    TABLES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns true if no receive is under way.
#[inline]
pub(crate) fn none() -> bool {
    COUNT.load(Ordering::Acquire) == 0
}

/// MPI has begun a receive, or matched a message.
pub(crate) fn begun(request: usize, comm: u32) {
    asks(request, comm, None);
}

/// The same, with what was asked for where its status will not tell what came.
pub(crate) fn asks(request: usize, comm: u32, asked: Option<(u32, i32)>) {
    let mut tables = tables();
    let tables = tables.get_or_insert_with(|| {
        let mut tables = Tables::default();
        tables.receives.reserve(1024);
        tables
    });
    tables.serial += 1;
    tables.receives.insert(request, Receive { comm, asked, serial: tables.serial });
    COUNT.store(tables.receives.len(), Ordering::Release);
}

/// The receive that has this request.
pub(crate) fn find(request: usize) -> Option<Receive> {
    tables().as_ref()?.receives.get(&request).copied()
}

/// Those of many requests that are receives, with their places.
pub(crate) fn among(
    requests: impl Iterator<Item = usize>,
    found: &mut Vec<(usize, usize, Receive)>,
) {
    let tables = tables();
    let Some(tables) = tables.as_ref() else { return };
    for (i, request) in requests.enumerate() {
        if let Some(receive) = tables.receives.get(&request) {
            found.push((i, request, *receive));
        }
    }
}

/// A receive is over, and its request another's.
pub(crate) fn over(request: usize, receive: Receive) {
    let mut tables = tables();
    let Some(tables) = tables.as_mut() else { return };
    if tables.receives.get(&request) == Some(&receive) {
        tables.receives.remove(&request);
        COUNT.store(tables.receives.len(), Ordering::Release);
    }
}

/// The program has made a persistent request.
pub(crate) fn persists(request: usize, persistent: Persistent) {
    tables().get_or_insert_default().persistent.insert(request, persistent);
}

/// What a request does when it is started.
pub(crate) fn persistent(request: usize) -> Option<Persistent> {
    tables().as_ref()?.persistent.get(&request).copied()
}

/// The program gives a request up.
pub(crate) fn given_up(request: usize) {
    let mut tables = tables();
    let Some(tables) = tables.as_mut() else { return };
    tables.persistent.remove(&request);
    tables.receives.remove(&request);
    COUNT.store(tables.receives.len(), Ordering::Release);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An entry that another receive has taken over stays.
    #[test]
    fn a_request_may_be_anothers_already() {
        begun(8, 1);
        let first = find(8).expect("it is under way");
        begun(8, 2);
        over(8, first);
        assert_eq!(find(8).map(|receive| receive.comm), Some(2));
        let mut found = Vec::new();
        among([7, 8].into_iter(), &mut found);
        assert_eq!(found.len(), 1);
        over(8, found[0].2);
        assert!(none() && find(8).is_none());
    }
}
