//! What is under way, by request (and, of matched messages, by message): when its call began,
//! and of a receive which communicator's it is, which its completion does not say.
//!
//! MPI uses a request again as soon as it has completed, in any thread. So an entry is
//! looked up before MPI is called, and dropped afterwards only if it is still that one.
//! MPICH gives sends that are over when their call returns one request for all: those of a
//! request follow each other.

use rankway::track::Kind;
use rankway_preload::ByHandle;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What a request is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Of {
    Receive,
    /// Of a send and a receive.
    Exchange,
    /// Of a send, a collective, or an access to a window.
    Other,
}

/// What is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Operation {
    pub(crate) of: Of,
    /// When its call began.
    pub(crate) start: u64,
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
    under_way: ByHandle<Operation>,
    /// Those behind the first of a request.
    behind: ByHandle<VecDeque<Operation>>,
    persistent: ByHandle<Persistent>,
    serial: u64,
}

impl Tables {
    /// The `nth` of a request.
    fn get(&self, request: usize, nth: usize) -> Option<&Operation> {
        match nth {
            0 => self.under_way.get(&request),
            _ => self.behind.get(&request)?.get(nth - 1),
        }
    }

    fn remove(&mut self, request: usize, operation: Operation) {
        if self.under_way.get(&request) == Some(&operation) {
            let next = self.behind.get_mut(&request).and_then(VecDeque::pop_front);
            match next {
                Some(next) => drop(self.under_way.insert(request, next)),
                None => drop(self.under_way.remove(&request)),
            }
        } else if let Some(behind) = self.behind.get_mut(&request)
            && let Some(at) = behind.iter().position(|one| *one == operation)
        {
            behind.remove(at);
        }
        COUNT.store(self.under_way.len(), Ordering::Release);
    }
}

static TABLES: Mutex<Option<Tables>> = Mutex::new(None);
/// Requests under way: without any, a completion costs one look.
static COUNT: AtomicUsize = AtomicUsize::new(0);

fn tables() -> MutexGuard<'static, Option<Tables>> {
    TABLES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns true if nothing is under way.
#[inline]
pub(crate) fn none() -> bool {
    COUNT.load(Ordering::Acquire) == 0
}

/// MPI has begun a receive, or matched a message, in a call that began at `start`.
pub(crate) fn receives(request: usize, comm: u32, start: u64) {
    begun(request, Of::Receive, start, comm, None);
}

/// MPI has begun something, in a call that began at `start`; `asked` is what was asked for
/// where the status of a receive will not tell what came.
pub(crate) fn begun(request: usize, of: Of, start: u64, comm: u32, asked: Option<(u32, i32)>) {
    let mut tables = tables();
    let tables = tables.get_or_insert_with(|| {
        let mut tables = Tables::default();
        tables.under_way.reserve(1024);
        tables
    });
    tables.serial += 1;
    let operation = Operation { of, start, comm, asked, serial: tables.serial };
    match tables.under_way.get(&request) {
        // (A receive has its request for itself: what is there is over.)
        Some(first) if of == Of::Other && first.of == Of::Other => {
            tables.behind.entry(request).or_default().push_back(operation);
        }
        _ => {
            tables.under_way.insert(request, operation);
        }
    }
    COUNT.store(tables.under_way.len(), Ordering::Release);
}

/// What has this request.
pub(crate) fn find(request: usize) -> Option<Operation> {
    tables().as_ref()?.get(request, 0).copied()
}

/// Those of many requests that are under way, with their places.
pub(crate) fn among(
    requests: impl Iterator<Item = usize>,
    found: &mut Vec<(usize, usize, Operation)>,
) {
    let tables = tables();
    let Some(tables) = tables.as_ref() else { return };
    for (i, request) in requests.enumerate() {
        if !tables.behind.contains_key(&request) {
            let operation = tables.get(request, 0);
            found.extend(operation.map(|operation| (i, request, *operation)));
            continue;
        }
        let before = found.iter().filter(|(_, other, _)| *other == request).count();
        let operation = tables.get(request, before);
        found.extend(operation.map(|operation| (i, request, *operation)));
    }
}

/// An operation is over, and its request another's.
pub(crate) fn over(request: usize, operation: Operation) {
    if let Some(tables) = tables().as_mut() {
        tables.remove(request, operation);
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
    if let Some(first) = tables.under_way.get(&request).copied() {
        tables.remove(request, first);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tables are the process's.
    static ALONE: Mutex<()> = Mutex::new(());

    /// An entry that another receive has taken over stays.
    #[test]
    fn a_request_may_be_anothers_already() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        receives(8, 1, 0);
        let first = find(8).expect("it is under way");
        receives(8, 2, 0);
        over(8, first);
        assert_eq!(find(8).map(|receive| receive.comm), Some(2));
        let mut found = Vec::new();
        among([7, 8].into_iter(), &mut found);
        assert_eq!(found.len(), 1);
        over(8, found[0].2);
        assert!(none() && find(8).is_none());
    }

    /// Sends that have one request are told apart, whichever of them is over first.
    #[test]
    fn many_sends_may_have_one_request() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        (0..5).for_each(|start| begun(9, Of::Other, start, 1, None));
        let mut found = Vec::new();
        among([9, 4, 9, 9].into_iter(), &mut found);
        let starts: Vec<_> = found.iter().map(|(i, _, one)| (*i, one.start)).collect();
        assert_eq!(starts, [(0, 0), (2, 1), (3, 2)]);
        over(9, found[1].2);
        over(9, found[0].2);
        for left in [2, 3, 4] {
            let next = find(9).expect("it is under way");
            assert_eq!(next.start, left);
            over(9, next);
        }
        assert!(none());
    }
}
