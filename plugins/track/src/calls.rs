//! A call as an event. Nothing here allocates or waits.

use crate::counts::Counts;
use crate::handles::{self, Local, TYPES};
use crate::job::{self, Job};
use crate::mpi;
use crate::objects::id_in;
use rankway::track::{Event, EventFlags, Kind, NO_PEER, Recorder};
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU32, Ordering};

/// Where a call is written down.
pub(crate) struct Here<'a> {
    pub(crate) job: &'static Job,
    pub(crate) local: &'a Local,
}

impl Here<'_> {
    /// The number of what a handle names.
    #[inline(always)]
    pub(crate) fn id_of(&self, word: usize) -> u32 {
        id_in(self.local, word)
    }
}

/// Does a call, and writes it down as `describe` has it, while calls are recorded. What
/// MPI calls itself meanwhile is not.
#[inline(always)]
pub(crate) fn timed(
    kind: Kind,
    call: impl FnOnce() -> c_int,
    describe: impl FnOnce(&Here<'_>, Event) -> Event,
) -> c_int {
    timed_if(kind, call, || true, describe)
}

/// The same, of a call that has gone well if it `counts`.
#[inline(always)]
pub(crate) fn timed_if(
    kind: Kind,
    call: impl FnOnce() -> c_int,
    counts: impl FnOnce() -> bool,
    describe: impl FnOnce(&Here<'_>, Event) -> Event,
) -> c_int {
    timed_with(kind, call, |here, event, code| match code {
        0 if !counts() => None,
        0 => Some(describe(here, event)),
        _ => Some(event.flagged(EventFlags::FAILED)),
    })
}

/// The same, of a call that receives a message: one that was too long has come, too.
#[inline(always)]
pub(crate) fn timed_receive(
    kind: Kind,
    call: impl FnOnce() -> c_int,
    describe: impl FnOnce(&Here<'_>, Event) -> Event,
) -> c_int {
    timed_with(kind, call, |here, event, code| match code {
        code if code == 0 || here.job.mpi.is_truncated(code) => Some(describe(here, event)),
        _ => Some(event.flagged(EventFlags::FAILED)),
    })
}

/// The same, of which `written` knows whether to write it down, and how.
#[inline(always)]
fn timed_with(
    kind: Kind,
    call: impl FnOnce() -> c_int,
    written: impl FnOnce(&Here<'_>, Event, c_int) -> Option<Event>,
) -> c_int {
    let Some(job) = job::recording() else { return call() };
    handles::with(|local| {
        if local.enter() {
            return call();
        }
        let start = Recorder::now();
        let code = call();
        let end = Recorder::now();
        local.leave(false);
        if let Some(event) = written(&Here { job, local }, Event::new(kind, start, end), code) {
            job.record(event);
        }
        code
    })
}

/// Does a call that is not recorded, nor what MPI calls itself meanwhile.
#[inline(always)]
pub(crate) fn silent(call: impl FnOnce() -> c_int) -> c_int {
    if job::recording().is_none() {
        return call();
    }
    let before = handles::with(Local::enter);
    let code = call();
    handles::with(|local| local.leave(before));
    code
}

/// Changes when a datatype is freed, whose handle may become another's.
static FREED: AtomicU32 = AtomicU32::new(1);

/// A datatype is about to be freed.
pub(crate) fn type_goes() {
    FREED.fetch_add(1, Ordering::Release);
}

/// Bytes of an element.
#[inline]
fn size_of_type(here: &Here<'_>, word: usize) -> u64 {
    let handle = mpi::handle(word);
    if here.job.mpi.family == mpi::Family::Mpich && handle >> 30 == 1 {
        // Of MPI's own types the handle says it.
        return (handle >> 8 & 0xff) as u64;
    }
    let Local { sized, sizes, .. } = here.local;
    let generation = FREED.load(Ordering::Acquire);
    if sized.get() != generation {
        sizes.iter().for_each(|slot| slot.set((0, 0)));
        sized.set(generation);
    }
    let slot = (handle as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - 2);
    let slot = &sizes[slot as usize % TYPES];
    let (of, size) = slot.get();
    if of == handle && handle != 0 {
        return size;
    }
    // SAFETY: [MPI]: a call with this datatype has gone well.
    let size = unsafe { mpi::size_of_type(handle) }.unwrap_or(0);
    slot.set((handle, size));
    size
}

/// Bytes of so many elements.
#[inline]
pub(crate) fn bytes(here: &Here<'_>, count: usize, datatype: usize) -> u64 {
    match count as isize {
        count if count > 0 => (count as u64).saturating_mul(size_of_type(here, datatype)),
        _ => 0,
    }
}

/// Bytes of a message as its status has them, and whether it was cancelled.
///
/// # Safety
/// \[MPI\]: a status of a receive.
#[inline]
pub(crate) unsafe fn received(job: &Job, status: *const c_void) -> (u64, bool) {
    // SAFETY: [MPI].
    unsafe { job.mpi.status_bytes(status).unwrap_or_else(|| mpi::received(job.mpi.packed, status)) }
}

/// A peer's rank; none for any and for no process.
#[inline]
pub(crate) fn peer(word: usize) -> u32 {
    match word as c_int {
        rank if rank >= 0 => rank as u32,
        _ => NO_PEER,
    }
}

/// With what a message's call says. Nothing goes to no process.
#[inline(always)]
pub(crate) fn message(
    here: &Here<'_>,
    event: Event,
    (count, datatype): (usize, usize),
    to: usize,
    tag: usize,
    comm: usize,
) -> Event {
    let event = event.with(here.id_of(comm), peer(to), tag as c_int);
    match to as c_int == here.job.mpi.no_process() {
        true => event,
        false => event.of_bytes(bytes(here, count, datatype)),
    }
}

/// With what a status says of a message that was received.
///
/// # Safety
/// \[MPI\]: a status of a receive.
#[inline(always)]
pub(crate) unsafe fn arrived(job: &Job, event: Event, comm: u32, status: *const c_void) -> Event {
    // SAFETY: [MPI].
    let ((source, tag), (bytes, is_cancelled)) =
        unsafe { (job.mpi.status_peer(status), received(job, status)) };
    let event = event.with(comm, peer(source as usize), tag);
    match is_cancelled {
        false => event.of_bytes(bytes),
        true => event.flagged(EventFlags::CANCELLED),
    }
}

/// A collective: its root, if it has one, and what this process gives.
#[inline]
pub(crate) fn collective(
    kind: Kind,
    comm: usize,
    root: Option<usize>,
    call: impl FnOnce() -> c_int,
    gives: impl FnOnce(&Here<'_>) -> u64,
) -> c_int {
    timed(kind, call, |here, event| {
        event.with(here.id_of(comm), root_of(root), 0).of_bytes(gives(here))
    })
}

/// The root's rank.
pub(crate) fn root_of(root: Option<usize>) -> u32 {
    root.map_or(NO_PEER, peer)
}

/// Returns true if this process is the root.
pub(crate) fn is_root(mpi: &mpi::Mpi, root: usize, comm: usize) -> bool {
    let root = root as c_int;
    // SAFETY: [MPI]: a call with this communicator has gone well.
    root == mpi.root()
        || root >= 0
            // SAFETY: as above.
            && unsafe { mpi::number(&mpi::COMM_TEST_INTER, comm) } == Some(0)
            // SAFETY: as above.
            && unsafe { mpi::number(&mpi::COMM_RANK, comm) } == Some(root)
}

/// Of as many elements for each process that a collective goes to.
pub(crate) fn to_all(comm: usize) -> u64 {
    // SAFETY: [MPI]: a call with this communicator has gone well.
    unsafe { mpi::others(comm) }.unwrap_or(0) as u64
}

/// Neighbours that this process sends to.
pub(crate) fn to_neighbors(comm: usize) -> u64 {
    // SAFETY: as above.
    unsafe { mpi::neighbors(comm) }.map_or(0, |(_, to)| to as u64)
}

/// Neighbours that it receives from.
pub(crate) fn from_neighbors(comm: usize) -> u64 {
    // SAFETY: as above.
    unsafe { mpi::neighbors(comm) }.map_or(0, |(from, _)| from as u64)
}

/// Bytes of `n` counts of elements.
///
/// # Safety
/// \[MPI\]: there are so many.
pub(crate) unsafe fn sum(here: &Here<'_>, counts: Counts, n: u64, datatype: usize) -> u64 {
    // SAFETY: [MPI].
    (0..n as usize).map(|i| bytes(here, unsafe { counts.get(i) }, datatype)).sum()
}

/// The same, each with a datatype of its own.
///
/// # Safety
/// \[MPI\]: there are so many.
pub(crate) unsafe fn sum_each(here: &Here<'_>, counts: Counts, n: u64, datatypes: usize) -> u64 {
    (0..n as usize)
        .map(|i| {
            // SAFETY: [MPI].
            let (count, datatype) =
                unsafe { (counts.get(i), here.job.mpi.read(datatypes as *const c_void, i)) };
            bytes(here, count, datatype)
        })
        .sum()
}

/// One of an array of counts that is this process's own.
///
/// # Safety
/// \[MPI\]: as many as the communicator has processes.
pub(crate) unsafe fn own_count(counts: Counts, comm: usize) -> usize {
    // SAFETY: [MPI].
    unsafe { counts.get(mpi::number(&mpi::COMM_RANK, comm).unwrap_or(0) as usize) }
}

/// An access to the memory of `target` in a window.
#[inline]
pub(crate) fn access(
    kind: Kind,
    (count, datatype): (usize, usize),
    target: usize,
    window: usize,
    call: impl FnOnce() -> c_int,
) -> c_int {
    timed(kind, call, |here, event| message(here, event, (count, datatype), target, 0, window))
}

/// A call that opens, closes or completes epochs of a window, with one target or without.
#[inline]
pub(crate) fn synchronization(
    kind: Kind,
    window: usize,
    target: Option<usize>,
    call: impl FnOnce() -> c_int,
) -> c_int {
    timed(kind, call, |here, event| event.with(here.id_of(window), target.map_or(NO_PEER, peer), 0))
}
