//! `MPI_Wait`, `MPI_Test` and their kin: what was received goes where it belongs
//! before the program hears that it is there.

use crate::message::seen;
use crate::mpi::{self, Mpi};
use crate::requests::{self, Mine};
use rankway_preload::shielded;
use std::ffi::{c_int, c_void};

/// What `MPI_Request_get_status` takes.
pub(crate) type GetStatus = unsafe extern "C" fn(usize, *mut c_int, *mut c_void) -> c_int;
/// What `MPI_Request_free` takes.
pub(crate) type Free = unsafe extern "C" fn(*mut c_void) -> c_int;

/// What `MPI_Waitsome` and `MPI_Testsome` take.
pub(crate) type Several =
    unsafe extern "C" fn(c_int, *mut c_void, *mut c_int, *mut c_int, *mut c_void) -> c_int;

/// Requests of ours in an array, before MPI is called.
struct Watch {
    mpi: &'static Mpi,
    mine: Vec<Mine>,
}

/// Looks for requests of ours; `None` if there are none.
///
/// # Safety
/// \[MPI\]
#[inline]
unsafe fn watch(requests: *const c_void, count: c_int) -> Option<Watch> {
    if requests::none() || requests.is_null() {
        return None;
    }
    shielded(|| {
        let mpi = mpi::get()?;
        // SAFETY: [MPI].
        let mine = unsafe { requests::among(mpi, requests, count) };
        (!mine.is_empty()).then_some(Watch { mpi, mine })
    })
}

impl Watch {
    /// Deals with those that MPI has completed, which it has taken out of the array;
    /// `status` is where that of one is, and whether it went well. The code is MPI's,
    /// or an error where what came could not be put down.
    ///
    /// # Safety
    /// \[MPI\], after MPI was called with these requests; \[BUF\].
    unsafe fn complete(
        self,
        requests: *const c_void,
        code: c_int,
        status: impl Fn(&Mine) -> Option<(*const c_void, bool)>,
    ) -> c_int {
        let done = shielded(|| {
            let mut good = true;
            for mine in &self.mine {
                // SAFETY: [MPI], [BUF].
                unsafe {
                    if self.mpi.read(requests, mine.index) == mine.request {
                        mine.pending.let_go();
                        continue;
                    }
                    let (status, well) = status(mine).unwrap_or((std::ptr::null(), false));
                    good &= mine.pending.finish(self.mpi, status, well);
                }
                requests::remove(mine.request, &mine.pending);
            }
            good.then_some(())
        });
        if done.is_none() && code == 0 { mpi::failure() } else { code }
    }
}

/// Places for so many statuses: the program's, or our own where it wants none.
fn places(mpi: &Mpi, theirs: *mut c_void, count: c_int, own: &mut Vec<u32>) -> *mut c_void {
    if !mpi.ignores(theirs) {
        return theirs;
    }
    own.resize(usize::try_from(count).unwrap_or(0) * mpi.status_size() / 4, 0);
    own.as_mut_ptr().cast()
}

/// Status `i` of an array, and whether its operation went well.
///
/// # Safety
/// \[MPI\]
unsafe fn one(
    mpi: &Mpi,
    statuses: *const c_void,
    i: usize,
    code: c_int,
) -> Option<(*const c_void, bool)> {
    // SAFETY: [MPI].
    unsafe {
        let well = code == 0 || mpi.is_in_status(code) && mpi.status_error(statuses, i) == 0;
        Some((statuses.byte_add(i * mpi.status_size()), well))
    }
}

/// `MPI_Wait`, `MPI_Test`, `MPI_Waitany` and `MPI_Testany`: `call` takes the status
/// of the one.
///
/// # Safety
/// \[MPI\], \[BUF\]: `call` is that of the program, and so in all here.
#[inline(always)]
pub(crate) unsafe fn any(
    count: c_int,
    requests: *mut c_void,
    status: *mut c_void,
    call: impl Fn(*mut c_void) -> c_int,
) -> c_int {
    // SAFETY: [MPI], [BUF]; so below.
    unsafe {
        let Some(watch) = watch(requests, count) else { return call(status) };
        let mut own = [0; 4];
        let status = seen(watch.mpi, status, &mut own);
        let code = call(status);
        watch.complete(requests, code, |_| Some((status, code == 0)))
    }
}

/// `MPI_Waitall` and `MPI_Testall`: `call` takes the statuses.
///
/// # Safety
/// As [`any`].
pub(crate) unsafe fn all(
    count: c_int,
    requests: *mut c_void,
    statuses: *mut c_void,
    call: impl Fn(*mut c_void) -> c_int,
) -> c_int {
    // SAFETY: as in `any`; the statuses are those of all.
    unsafe { several(count, requests, statuses, call, Some) }
}

/// `MPI_Waitsome` and `MPI_Testsome`.
///
/// # Safety
/// As [`any`].
pub(crate) unsafe fn some(
    next: Several,
    count: c_int,
    requests: *mut c_void,
    completed: *mut c_int,
    indices: *mut c_int,
    statuses: *mut c_void,
) -> c_int {
    // SAFETY: as in `any`; `completed` indices are there, and as many statuses.
    unsafe {
        let call = |statuses| next(count, requests, completed, indices, statuses);
        several(count, requests, statuses, call, |index| {
            let n = usize::try_from(*completed).unwrap_or(0);
            (0..n).find(|&i| *indices.add(i) as usize == index)
        })
    }
}

/// Calls that have a status for each: that of request `index` is at `place(index)`.
///
/// # Safety
/// As [`any`]; a status is at each place, once `call` has returned.
unsafe fn several(
    count: c_int,
    requests: *mut c_void,
    statuses: *mut c_void,
    call: impl Fn(*mut c_void) -> c_int,
    place: impl Fn(usize) -> Option<usize>,
) -> c_int {
    // SAFETY: as in `any`.
    unsafe {
        let Some(watch) = watch(requests, count) else { return call(statuses) };
        let (mpi, mut own) = (watch.mpi, Vec::new());
        let statuses = places(mpi, statuses, count, &mut own);
        let code = call(statuses);
        watch.complete(requests, code, |mine| one(mpi, statuses, place(mine.index)?, code))
    }
}

/// # Safety
/// As [`any`].
pub(crate) unsafe fn get_status(
    next: GetStatus,
    request: usize,
    flag: *mut c_int,
    status: *mut c_void,
) -> c_int {
    let handle = mpi::handle(request);
    let found = || if requests::none() { None } else { mpi::get().zip(requests::of(handle)) };
    // SAFETY: as in `any`; the request stays, and its memory is put down once.
    unsafe {
        let Some((mpi, pending)) = shielded(found) else { return next(request, flag, status) };
        let mut own = [0; 4];
        let status = seen(mpi, status, &mut own);
        let code = next(request, flag, status);
        if code != 0 || *flag == 0 {
            return code;
        }
        match shielded(|| pending.finish(mpi, status, true).then_some(())) {
            Some(()) => code,
            None => mpi::failure(),
        }
    }
}

/// # Safety
/// As [`any`].
pub(crate) unsafe fn free(next: Free, request: *mut c_void) -> c_int {
    // SAFETY: as in `any`.
    unsafe {
        let Some(mut watch) = watch(request, 1) else { return next(request) };
        watch.mpi.clear_request(request);
        if let Some(mine) = watch.mine.pop() {
            requests::adopt(mine);
        }
        0
    }
}
