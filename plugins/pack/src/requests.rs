//! Operations under way that have a packed buffer, by MPI's request.
//!
//! MPI uses a request again as soon as it has completed, in any thread, and gives
//! all sends that are over at once the same one. So an entry is looked up before
//! MPI is called, and held by the thread that calls: to others, whose request may be
//! the same one by then, it is not there. It is dropped afterwards only if it is
//! still that one; and one that is replaced was over.

use crate::buffers::Buffer;
use crate::mpi::{self, Mpi};
use rankway::datatype::Layout;
use rankway_preload::ByHandle;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, RwLock};

thread_local! {
    /// Its address is the thread's.
    static THREAD: u8 = const { 0 };
}

/// A send or a receive of a packed buffer.
pub(crate) struct Pending {
    /// Chosen when the operation is over.
    buffer: Mutex<Option<Buffer>>,
    /// Of a receive: the memory, and what belongs where in it.
    to: Option<(usize, Layout)>,
    /// The thread in whose call MPI may complete it; 0 if there is none.
    holder: AtomicUsize,
}

static PENDING: RwLock<Option<ByHandle<Arc<Pending>>>> = RwLock::new(None);
/// How many there are: a program without any pays one look.
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// Requests that the program has freed and MPI has not: their buffers are in use.
static ORPHANS: Mutex<Vec<(usize, Arc<Pending>)>> = Mutex::new(Vec::new());
static ORPHAN_COUNT: AtomicUsize = AtomicUsize::new(0);

impl Pending {
    pub(crate) fn new(buffer: Buffer, to: Option<(usize, Layout)>) -> Arc<Pending> {
        Arc::new(Pending { buffer: Mutex::new(Some(buffer)), to, holder: AtomicUsize::new(0) })
    }

    /// Returns true if the calling thread has it: a tool's calls lie within each other.
    fn hold(&self) -> bool {
        let me = THREAD.with(|at| (&raw const *at) as usize);
        match self.holder.compare_exchange(0, me, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => true,
            Err(holder) => holder == me,
        }
    }

    /// The call is over, and the operation is not.
    pub(crate) fn let_go(&self) {
        self.holder.store(0, Ordering::Release);
    }

    /// The operation is over: what was received goes where it belongs.
    ///
    /// # Safety
    /// \[MPI\]: the status is that of this operation, which has completed without
    /// an error, or it is not `good`; \[BUF\].
    pub(crate) unsafe fn finish(&self, mpi: &Mpi, status: *const c_void, good: bool) -> bool {
        // (Locked until all is there: two threads may ask for one status.)
        let Ok(mut held) = self.buffer.lock() else { return true };
        let Some(buffer) = held.take() else { return true };
        let Some((memory, layout)) = self.to.as_ref().filter(|_| good) else { return true };
        // SAFETY: [MPI], [BUF].
        unsafe {
            let mut cancelled = 0;
            if let Some(test) = mpi::TEST_CANCELLED.get()
                && test(status, &mut cancelled) == 0
                && cancelled != 0
            {
                return true;
            }
            deliver(mpi, &buffer, status, *memory, layout)
        }
    }
}

/// Copies what was received to where it belongs; returns false if MPI does not say
/// how much it was.
///
/// # Safety
/// \[MPI\], \[BUF\]
pub(crate) unsafe fn deliver(
    mpi: &Mpi,
    buffer: &Buffer,
    status: *const c_void,
    memory: usize,
    layout: &Layout,
) -> bool {
    let mut len = 0;
    // SAFETY: [MPI].
    if !unsafe { count(mpi, status, &mut len) } {
        return false;
    }
    let (all, Ok(len)) = (layout.size() as usize, usize::try_from(len)) else { return false };
    // The last byte of a whole one is behind the gap, if there is one.
    let gap = buffer.bytes().len() - all;
    let front = if len == all { all - gap } else { len };
    // (Of one that was too long Open MPI's MPI_Request_get_status says nothing; the wait does.)
    let Some(data) = buffer.bytes().get(..front) else { return true };
    // SAFETY: [BUF].
    unsafe {
        layout.unpack_raw(memory as *mut u8, 0, data);
        if front < len {
            layout.unpack_raw(memory as *mut u8, front as u64, &buffer.bytes()[all..]);
        }
    }
    true
}

/// A datatype of so many bytes with a gap before the last: what a receive into that is
/// cut to. Who calls frees it; `None` for fewer than two bytes, or if MPI makes none.
///
/// # Safety
/// \[MPI\]
pub(crate) unsafe fn gapped(mpi: &Mpi, bytes: c_int) -> Option<usize> {
    let (make, commit) = (mpi::TYPE_HINDEXED.get()?, mpi::TYPE_COMMIT.get()?);
    let (lengths, places) = ([bytes - 1, 1], [0, bytes as isize]);
    let mut datatype = 0usize;
    let place = (&raw mut datatype).cast::<c_void>();
    // SAFETY: [SIG]; two blocks of MPI_PACKED, and a place for a handle.
    let made =
        bytes > 1 && unsafe { make(2, lengths.as_ptr(), places.as_ptr(), mpi.packed, place) } == 0;
    // SAFETY: [SIG]; a datatype that was just made.
    (made && unsafe { commit(place) } == 0).then_some(datatype)
}

/// Writes how many bytes a message has; returns false if MPI does not say.
///
/// # Safety
/// \[MPI\]
pub(crate) unsafe fn count(mpi: &Mpi, status: *const c_void, bytes: &mut c_int) -> bool {
    // SAFETY: [SIG], [MPI].
    mpi::GET_COUNT.get().is_some_and(|get| unsafe { get(status, mpi.packed, bytes) } == 0)
}

/// MPI has begun an operation.
pub(crate) fn insert(request: usize, pending: Arc<Pending>) {
    let Ok(mut table) = PENDING.write() else { return };
    let table = table.get_or_insert_default();
    let replaced = table.insert(request, pending);
    COUNT.store(table.len(), Ordering::Release);
    drop(replaced);
}

/// The operation is over, and its request another's.
pub(crate) fn remove(request: usize, pending: &Arc<Pending>) {
    let Ok(mut table) = PENDING.write() else { return };
    let Some(table) = table.as_mut() else { return };
    if table.get(&request).is_some_and(|entry| Arc::ptr_eq(entry, pending)) {
        table.remove(&request);
        COUNT.store(table.len(), Ordering::Release);
    }
}

/// Returns true if no operation has a packed buffer.
#[inline]
pub(crate) fn none() -> bool {
    COUNT.load(Ordering::Acquire) == 0
}

/// One of an array's requests that has a packed buffer.
pub(crate) struct Mine {
    pub(crate) index: usize,
    pub(crate) request: usize,
    pub(crate) pending: Arc<Pending>,
}

/// Those of an array's requests that have packed buffers, held for a call that may
/// complete them.
///
/// # Safety
/// \[MPI\]
pub(crate) unsafe fn among(mpi: &Mpi, requests: *const c_void, count: c_int) -> Vec<Mine> {
    let Ok(table) = PENDING.read() else { return Vec::new() };
    let Some(table) = table.as_ref() else { return Vec::new() };
    (0..usize::try_from(count).unwrap_or(0))
        .filter_map(|index| {
            // SAFETY: [MPI].
            let request = unsafe { mpi.read(requests, index) };
            let pending = table.get(&request).filter(|pending| pending.hold())?.clone();
            Some(Mine { index, request, pending })
        })
        .collect()
}

/// That of a request, for a call that leaves it as it is: several threads may.
pub(crate) fn of(request: usize) -> Option<Arc<Pending>> {
    let table = PENDING.read().ok()?;
    let pending = table.as_ref()?.get(&request)?;
    (pending.holder.load(Ordering::Acquire) == 0).then(|| pending.clone())
}

/// The program gives up a request whose operation may go on: it is asked for now
/// and then, until it is over.
pub(crate) fn adopt(mine: Mine) {
    remove(mine.request, &mine.pending);
    let Ok(mut orphans) = ORPHANS.lock() else { return };
    orphans.push((mine.request, mine.pending));
    ORPHAN_COUNT.store(orphans.len(), Ordering::Release);
}

/// Asks for the requests that the program gave up; those still under way at the
/// `end` go back to MPI, with their buffers.
pub(crate) fn sweep(mpi: &Mpi, end: bool) {
    if ORPHAN_COUNT.load(Ordering::Acquire) == 0 {
        return;
    }
    let Some(test) = mpi::TEST.get() else { return };
    // (Not within the lock: MPI may call what comes here again.)
    let Ok(all) = ORPHANS.lock().map(|mut orphans| std::mem::take(&mut *orphans)) else { return };
    let mut left = Vec::new();
    for (request, pending) in all {
        let (mut handle, mut flag, mut status) = (request, 0, [0u64; 4]);
        let status = status.as_mut_ptr().cast::<c_void>();
        let place = (&raw mut handle).cast::<c_void>();
        // SAFETY: [SIG]; a request that was not given back to MPI, and a place that
        // is as long as any status; its buffer, and [BUF] of the receive.
        unsafe {
            let code = test(place, &mut flag, status);
            if code == 0 && flag == 0 && !end {
                left.push((request, pending));
                continue;
            }
            if code == 0 && flag != 0 {
                pending.finish(mpi, status, true);
                continue;
            }
            if let Some(free) = mpi::REQUEST_FREE.get() {
                free(place);
            }
            // MPI may still read or write it.
            std::mem::forget(pending);
        }
    }
    let Ok(mut orphans) = ORPHANS.lock() else { return };
    orphans.append(&mut left);
    ORPHAN_COUNT.store(orphans.len(), Ordering::Release);
}
