//! `MPI_Wait`, `MPI_Test` and their kin: what was received goes where it belongs
//! before the program hears that it is there.

use crate::message::seen;
use crate::mpi::{self, Mpi};
use crate::packing::shielded;
use crate::requests::{self, Mine};
use std::ffi::{c_int, c_void};

/// What `MPI_Wait` takes.
pub(crate) type Wait = unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int;
/// What `MPI_Test` takes.
pub(crate) type Test = unsafe extern "C" fn(*mut c_void, *mut c_int, *mut c_void) -> c_int;
/// What `MPI_Request_get_status` takes.
pub(crate) type GetStatus = unsafe extern "C" fn(usize, *mut c_int, *mut c_void) -> c_int;
/// What `MPI_Request_free` takes.
pub(crate) type Free = unsafe extern "C" fn(*mut c_void) -> c_int;
/// What `MPI_Waitall` takes.
pub(crate) type Waitall = unsafe extern "C" fn(c_int, *mut c_void, *mut c_void) -> c_int;
/// What `MPI_Testall` takes.
pub(crate) type Testall =
    unsafe extern "C" fn(c_int, *mut c_void, *mut c_int, *mut c_void) -> c_int;
/// What `MPI_Waitany` takes.
pub(crate) type Waitany =
    unsafe extern "C" fn(c_int, *mut c_void, *mut c_int, *mut c_void) -> c_int;
/// What `MPI_Testany` takes.
pub(crate) type Testany =
    unsafe extern "C" fn(c_int, *mut c_void, *mut c_int, *mut c_int, *mut c_void) -> c_int;
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

/// # Safety
/// \[MPI\], \[BUF\]; so all here.
pub(crate) unsafe fn wait(next: Wait, request: *mut c_void, status: *mut c_void) -> c_int {
    // SAFETY: [SIG], [MPI], [BUF]; so below.
    unsafe {
        let Some(watch) = watch(request, 1) else { return next(request, status) };
        let mut own = [0; 4];
        let status = seen(watch.mpi, status, &mut own);
        let code = next(request, status);
        watch.complete(request, code, |_| Some((status, code == 0)))
    }
}

/// # Safety
/// As [`wait`].
pub(crate) unsafe fn test(
    next: Test,
    request: *mut c_void,
    flag: *mut c_int,
    status: *mut c_void,
) -> c_int {
    // SAFETY: as in `wait`.
    unsafe {
        let Some(watch) = watch(request, 1) else { return next(request, flag, status) };
        let mut own = [0; 4];
        let status = seen(watch.mpi, status, &mut own);
        let code = next(request, flag, status);
        watch.complete(request, code, |_| Some((status, code == 0)))
    }
}

/// # Safety
/// As [`wait`].
pub(crate) unsafe fn get_status(
    next: GetStatus,
    request: usize,
    flag: *mut c_int,
    status: *mut c_void,
) -> c_int {
    let handle = mpi::handle(request);
    // SAFETY: as in `wait`; the request stays, and its memory is put down once.
    unsafe {
        let place = (&raw const handle).cast::<c_void>();
        let Some(watch) = watch(place, 1) else { return next(request, flag, status) };
        let mut own = [0; 4];
        let status = seen(watch.mpi, status, &mut own);
        let code = next(request, flag, status);
        if code != 0 || *flag == 0 {
            return code;
        }
        let (mpi, pending) = (watch.mpi, &watch.mine[0].pending);
        match shielded(|| pending.finish(mpi, status, true).then_some(())) {
            Some(()) => code,
            None => mpi::failure(),
        }
    }
}

/// # Safety
/// As [`wait`].
pub(crate) unsafe fn free(next: Free, request: *mut c_void) -> c_int {
    // SAFETY: as in `wait`.
    unsafe {
        let Some(mut watch) = watch(request, 1) else { return next(request) };
        watch.mpi.clear_request(request);
        if let Some(mine) = watch.mine.pop() {
            requests::adopt(mine);
        }
        0
    }
}

/// `MPI_Waitall` and `MPI_Testall`: `call` takes the statuses.
///
/// # Safety
/// As [`wait`].
unsafe fn all(
    count: c_int,
    requests: *mut c_void,
    statuses: *mut c_void,
    call: impl Fn(*mut c_void) -> c_int,
) -> c_int {
    // SAFETY: as in `wait`.
    unsafe {
        let Some(watch) = watch(requests, count) else { return call(statuses) };
        let (mpi, mut own) = (watch.mpi, Vec::new());
        let statuses = places(mpi, statuses, count, &mut own);
        let code = call(statuses);
        watch.complete(requests, code, |mine| one(mpi, statuses, mine.index, code))
    }
}

/// `MPI_Waitany` and `MPI_Testany`: `call` takes the status of the one.
///
/// # Safety
/// As [`wait`].
unsafe fn any(
    count: c_int,
    requests: *mut c_void,
    status: *mut c_void,
    call: impl Fn(*mut c_void) -> c_int,
) -> c_int {
    // SAFETY: as in `wait`.
    unsafe {
        let Some(watch) = watch(requests, count) else { return call(status) };
        let mut own = [0; 4];
        let status = seen(watch.mpi, status, &mut own);
        let code = call(status);
        watch.complete(requests, code, |_| Some((status, code == 0)))
    }
}

/// # Safety
/// As [`wait`].
pub(crate) unsafe fn waitall(
    next: Waitall,
    count: c_int,
    requests: *mut c_void,
    statuses: *mut c_void,
) -> c_int {
    // SAFETY: as in `wait`.
    unsafe { all(count, requests, statuses, |statuses| next(count, requests, statuses)) }
}

/// # Safety
/// As [`wait`].
pub(crate) unsafe fn testall(
    next: Testall,
    count: c_int,
    requests: *mut c_void,
    flag: *mut c_int,
    statuses: *mut c_void,
) -> c_int {
    // SAFETY: as in `wait`.
    unsafe { all(count, requests, statuses, |statuses| next(count, requests, flag, statuses)) }
}

/// # Safety
/// As [`wait`].
pub(crate) unsafe fn waitany(
    next: Waitany,
    count: c_int,
    requests: *mut c_void,
    index: *mut c_int,
    status: *mut c_void,
) -> c_int {
    // SAFETY: as in `wait`.
    unsafe { any(count, requests, status, |status| next(count, requests, index, status)) }
}

/// # Safety
/// As [`wait`].
pub(crate) unsafe fn testany(
    next: Testany,
    count: c_int,
    requests: *mut c_void,
    index: *mut c_int,
    flag: *mut c_int,
    status: *mut c_void,
) -> c_int {
    // SAFETY: as in `wait`.
    unsafe { any(count, requests, status, |status| next(count, requests, index, flag, status)) }
}

/// `MPI_Waitsome` and `MPI_Testsome`.
///
/// # Safety
/// As [`wait`].
pub(crate) unsafe fn some(
    next: Several,
    count: c_int,
    requests: *mut c_void,
    completed: *mut c_int,
    indices: *mut c_int,
    statuses: *mut c_void,
) -> c_int {
    // SAFETY: as in `wait`; `completed` indices are there, and as many statuses.
    unsafe {
        let Some(watch) = watch(requests, count) else {
            return next(count, requests, completed, indices, statuses);
        };
        let (mpi, mut own) = (watch.mpi, Vec::new());
        let statuses = places(mpi, statuses, count, &mut own);
        let code = next(count, requests, completed, indices, statuses);
        watch.complete(requests, code, |mine| {
            let n = usize::try_from(*completed).unwrap_or(0);
            let i = (0..n).find(|&i| *indices.add(i) as usize == mine.index)?;
            one(mpi, statuses, i, code)
        })
    }
}
