//! `MPI_Wait`, `MPI_Test` and their kin: what was received, and from whom, is in their
//! statuses. Where the program wants none MPI gets places of ours.
//!
//! A test that finds nothing is no event: programs spin on them.

use crate::calls::{Here, arrived, timed_receive};
use crate::handles::{self, Local};
use crate::job;
use crate::objects::{define_duplicates, duplicates_wait};
use crate::requests::{self, Of, Operation};
use rankway::track::{Event, EventFlags, Kind, NO_PEER, Recorder};
use std::cell::Cell;
use std::ffi::{c_int, c_void};

/// What MPI says that has completed.
pub(crate) enum Completed {
    Nothing,
    All,
    /// The one of this index.
    One(c_int),
    /// So many, with their indices.
    Some(c_int, *const c_int),
}

/// A status of any library.
type Status = [u64; 4];

#[derive(Default)]
struct Scratch {
    /// Index, request, and what it is.
    found: Vec<(usize, usize, Operation)>,
    statuses: Vec<Status>,
}

thread_local! {
    /// Used again by each call of the thread.
    static SCRATCH: Cell<Option<Box<Scratch>>> = const { Cell::new(None) };
}

/// Completes some of an array of requests: `call` takes where statuses go, `completed`
/// says of which. `statuses` has one for each, or, of one that completes, one.
///
/// # Safety
/// \[MPI\]; `call` is that of the program.
#[inline]
pub(crate) unsafe fn complete(
    kind: Kind,
    count: usize,
    requests: usize,
    statuses: usize,
    call: impl FnOnce(usize) -> c_int,
    completed: impl FnOnce() -> Completed,
) -> c_int {
    let Some(job) = job::recording() else {
        let code = call(statuses);
        if duplicates_wait() {
            define_duplicates();
        }
        return code;
    };
    if handles::with(Local::enter) {
        return call(statuses);
    }
    let count = usize::try_from(count as c_int).unwrap_or(0);
    let mut scratch = None;
    let mut given = statuses;
    if count > 0 && requests != 0 && !requests::none() {
        let mut own = SCRATCH.try_with(Cell::take).ok().flatten().unwrap_or_default();
        own.found.clear();
        // SAFETY: [MPI].
        let handle = |i| unsafe { job.mpi.read(requests as *const c_void, i) };
        requests::among((0..count).map(handle), &mut own.found);
        let receives = own.found.iter().any(|(.., one)| one.of != Of::Other);
        if receives && job.mpi.ignores(statuses as *const c_void) {
            own.statuses.resize(own.statuses.len().max(count), Status::default());
            given = own.statuses.as_mut_ptr() as usize;
        }
        scratch = Some(own);
    }
    let start = Recorder::now();
    let code = call(given);
    let end = Recorder::now();
    handles::with(|local| local.leave(false));
    let event = Event::new(kind, start, end);
    // (What failed may have completed some: those whose requests are gone are not ours.)
    let received = |code: c_int| code == 0 || job.mpi.is_truncated(code);
    let told = received(code) || job.mpi.is_in_status(code);
    let completed = if told { completed() } else { Completed::Nothing };
    match (&completed, code) {
        (_, 0) if !matches!(completed, Completed::Nothing) => job.record(event),
        (_, 0) => (),
        _ => job.record(event.flagged(EventFlags::FAILED)),
    }
    if let Some(own) = scratch {
        for &(i, request, operation) in &own.found {
            let at = match completed {
                Completed::All => Some(i),
                Completed::One(index) if index == i as c_int => Some(0),
                Completed::Some(n, indices) => {
                    let n = usize::try_from(n).unwrap_or(0);
                    // SAFETY: [MPI]: so many indices are there.
                    let is = |&at: &usize| unsafe { *indices.add(at) == i as c_int };
                    let Some(at) = (0..n).find(is) else { continue };
                    Some(at)
                }
                _ => None,
            };
            let given_to = given as *const c_void;
            // SAFETY: [MPI]: the status of each says how it ended, where not all went well.
            let error = |at| unsafe { job.mpi.status_error(given_to, at) };
            let well =
                |at: &usize| received(code) || !job.mpi.ignores(given_to) && received(error(*at));
            let Some(at) = at.filter(well) else {
                // SAFETY: [MPI].
                if code != 0 && unsafe { job.mpi.read(requests as *const c_void, i) } != request {
                    requests::over(request, operation);
                }
                continue;
            };
            let status = (given + at * job.mpi.status_size()) as *const c_void;
            let Operation { of, start, comm, asked, .. } = operation;
            if of != Of::Receive {
                let event = Event::new(Kind::Completed, start, end);
                job.record(event.with(comm, NO_PEER, 0));
            }
            if of != Of::Other {
                let event = Event::new(Kind::Received, start, end);
                job.record(match asked {
                    Some((peer, tag)) => event.with(comm, peer, tag),
                    // SAFETY: [MPI]: the status of a receive that has completed.
                    None => unsafe { arrived(job, event, comm, status) },
                });
            }
            requests::over(request, operation);
        }
        let _ = SCRATCH.try_with(|slot| slot.set(Some(own)));
    }
    if duplicates_wait() {
        define_duplicates();
    }
    code
}

/// A receive that has completed when it returns, into a status of ours where the program
/// wants none.
///
/// # Safety
/// \[MPI\]; `call` is that of the program, and takes where the status goes.
#[inline(always)]
pub(crate) unsafe fn receive(
    kind: Kind,
    status: usize,
    comm: impl FnOnce(&Here<'_>) -> u32,
    call: impl FnOnce(usize) -> c_int,
) -> c_int {
    with_status(kind, status, call, |here, event, status| {
        // SAFETY: [MPI]: the status of a receive that has completed.
        unsafe { arrived(here.job, event, comm(here), status) }
    })
}

/// A call with a status, of ours where the program wants none, written down as `describe`
/// has it.
#[inline(always)]
pub(crate) fn with_status(
    kind: Kind,
    status: usize,
    call: impl FnOnce(usize) -> c_int,
    describe: impl FnOnce(&Here<'_>, Event, *const c_void) -> Event,
) -> c_int {
    let mut own = Status::default();
    let status = seen(status, &mut own);
    let describe = |here: &Here<'_>, event| describe(here, event, status as *const c_void);
    timed_receive(kind, || call(status), describe)
}

/// The program's place for a status, or our own where it wants none and calls are recorded.
#[inline(always)]
fn seen(status: usize, own: &mut Status) -> usize {
    match job::recording() {
        Some(job) if job.mpi.ignores(status as *const c_void) => own.as_mut_ptr() as usize,
        _ => status,
    }
}

/// A probe: `found` says whether there is a message, of which the status tells.
///
/// # Safety
/// \[MPI\]; `call` is that of the program, and takes where the status goes.
pub(crate) unsafe fn probe(
    kind: Kind,
    comm: usize,
    status: usize,
    call: impl FnOnce(usize) -> c_int,
    found: impl FnOnce() -> bool,
) -> c_int {
    let Some(job) = job::recording() else { return call(status) };
    let mut own = Status::default();
    let status = seen(status, &mut own);
    if handles::with(Local::enter) {
        return call(status);
    }
    let start = Recorder::now();
    let code = call(status);
    let end = Recorder::now();
    handles::with(|local| local.leave(false));
    if code == 0 && found() {
        let event = Event::new(kind, start, end);
        let comm = crate::objects::id_of(comm);
        // SAFETY: [MPI]: the status of a message.
        job.record(unsafe { arrived(job, event, comm, status as *const c_void) });
    }
    code
}
