//! Operations with a request of their own.
//!
//! Most complete within the call, as stores and copied operands do, and get Open
//! MPI's request that is complete already. The others are polled by a progress
//! function.

use super::access::{self, Side};
use super::accumulate::{self, Place};
use super::fault::code;
use super::module::Module;
use crate::ffi;
use crate::log::guarded;
use rankway::netmod::Netmod;
use rankway::rma::Pending;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

/// A request that is not complete.
struct OpenRequest {
    request: *mut ffi::ompi_request_t,
    /// Of this module, by address.
    module: usize,
    /// Makes progress; the code once it ended.
    poll: Box<dyn FnMut() -> Option<c_int>>,
}

// SAFETY: polled under the module's lock, and only there.
unsafe impl Send for OpenRequest {}

static OPEN: Mutex<Vec<OpenRequest>> = Mutex::new(Vec::new());
/// How many there are, so that the lock is not taken for none.
static COUNT: AtomicU32 = AtomicU32::new(0);

fn open() -> std::sync::MutexGuard<'static, Vec<OpenRequest>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Completes the requests that ended; how many.
pub(super) unsafe extern "C" fn progress() -> c_int {
    if COUNT.load(Ordering::Relaxed) == 0 { 0 } else { complete_ended() }
}

#[inline(never)]
fn complete_ended() -> c_int {
    // Another thread polls, or this is a nested call.
    let Ok(mut all) = OPEN.try_lock() else { return 0 };
    let mut ended = Vec::new();
    all.retain_mut(|one| match (one.poll)() {
        None => true,
        Some(code) => {
            ended.push((one.request, code));
            false
        }
    });
    COUNT.store(all.len() as u32, Ordering::Relaxed);
    drop(all);
    let count = ended.len() as c_int;
    for (request, code) in ended {
        // SAFETY: made by `return_request` and not completed before. It may
        // come back.
        unsafe { ffi::rw_request_done(request, code) };
    }
    count
}

/// Waits for the requests of a window that is about to be freed.
pub(super) fn finish(module: usize) {
    while open().iter().any(|one| one.module == module) {
        ffi::progress();
    }
}

/// Starts an operation, which MPI has in passive epochs only, and gives Open
/// MPI a request for what is under way.
///
/// # Safety
/// A live window, which is freed only after [`finish`]; `place` is the caller's
/// place for a request.
unsafe fn with_request<'a, N: Netmod>(
    win: *mut ffi::ompi_win_t,
    place: *mut *mut ffi::ompi_request_t,
    start: impl FnOnce(&'a Module<N>) -> Result<Option<Pending<'a, N>>, c_int>,
) -> c_int {
    guarded(|| {
        // SAFETY: [MPI], [BUF], here and below.
        let module = unsafe { Module::<N>::of(win) };
        if !module.open.is_passive() {
            return ffi::OMPI_ERR_RMA_SYNC;
        }
        start(module).map_or_else(
            |code| code,
            // SAFETY: as above.
            |pending| unsafe { return_request(module, win, pending, place) },
        )
    })
}

/// Gives Open MPI a request for what is under way.
///
/// # Safety
/// As [`with_request`].
unsafe fn return_request<N: Netmod>(
    module: &Module<N>,
    win: *mut ffi::ompi_win_t,
    mut pending: Option<Pending<'_, N>>,
    place: *mut *mut ffi::ompi_request_t,
) -> c_int {
    let mut poll = move |module: &Module<N>| {
        module.enter(|_| {
            let tested = pending.as_mut().map_or(Ok(true), Pending::test);
            if let Ok(false) = tested {
                return None;
            }
            pending = None;
            Some(tested.map_or_else(|e| code(&e), |_| ffi::SUCCESS))
        })
    };
    match poll(module) {
        Some(ffi::SUCCESS) => {
            // SAFETY: the caller's place; a request that is always complete.
            unsafe { *place = &raw mut ffi::ompi_request_empty };
            ffi::SUCCESS
        }
        Some(code) => code,
        None => {
            // SAFETY: [MPI].
            let request = unsafe { ffi::rw_request_new(win) };
            if request.is_null() {
                return ffi::OMPI_ERR_OUT_OF_RESOURCE;
            }
            // SAFETY: the caller's place.
            unsafe { *place = request };
            let address = std::ptr::from_ref(module);
            // SAFETY: the module stays until `finish` has seen the end of this.
            let poll = move || poll(unsafe { &*address });
            let poll: Box<dyn FnMut() -> Option<c_int> + '_> = Box::new(poll);
            // SAFETY: what it borrows is the module, as above.
            let poll = unsafe {
                std::mem::transmute::<
                    Box<dyn FnMut() -> Option<c_int> + '_>,
                    Box<dyn FnMut() -> Option<c_int> + 'static>,
                >(poll)
            };
            let mut all = open();
            all.push(OpenRequest { request, module: address.addr(), poll });
            COUNT.store(all.len() as u32, Ordering::Relaxed);
            ffi::SUCCESS
        }
    }
}

pub(super) unsafe extern "C" fn rput<N: Netmod>(
    buf: *const c_void,
    count: c_int,
    ty: *mut ffi::ompi_datatype_t,
    target: c_int,
    disp: isize,
    target_count: c_int,
    target_ty: *mut ffi::ompi_datatype_t,
    win: *mut ffi::ompi_win_t,
    request: *mut *mut ffi::ompi_request_t,
) -> c_int {
    let (here, there) = (Side { count, ty }, Side { count: target_count, ty: target_ty });
    // SAFETY: live handles and a buffer as they say; Open MPI has seen to it.
    unsafe {
        with_request::<N>(win, request, |module| {
            access::put_layout(module, buf, here, target, disp, there).map(Some)
        })
    }
}

pub(super) unsafe extern "C" fn rget<N: Netmod>(
    buf: *mut c_void,
    count: c_int,
    ty: *mut ffi::ompi_datatype_t,
    target: c_int,
    disp: isize,
    target_count: c_int,
    target_ty: *mut ffi::ompi_datatype_t,
    win: *mut ffi::ompi_win_t,
    request: *mut *mut ffi::ompi_request_t,
) -> c_int {
    let (here, there) = (Side { count, ty }, Side { count: target_count, ty: target_ty });
    // SAFETY: as in `rput`.
    unsafe {
        with_request::<N>(win, request, |module| {
            access::get_layout(module, buf, here, target, disp, there).map(Some)
        })
    }
}

pub(super) unsafe extern "C" fn raccumulate<N: Netmod>(
    buf: *const c_void,
    count: c_int,
    ty: *mut ffi::ompi_datatype_t,
    target: c_int,
    disp: isize,
    target_count: c_int,
    target_ty: *mut ffi::ompi_datatype_t,
    op: *mut ffi::ompi_op_t,
    win: *mut ffi::ompi_win_t,
    request: *mut *mut ffi::ompi_request_t,
) -> c_int {
    let place = Place { target, disp, side: Side { count: target_count, ty: target_ty } };
    // SAFETY: as in `rput`.
    unsafe {
        with_request::<N>(win, request, |module| {
            let done = accumulate::update(module, buf.cast(), Side { count, ty }, place, op);
            // The operands were copied, or used.
            if done == ffi::SUCCESS { Ok(None) } else { Err(done) }
        })
    }
}

pub(super) unsafe extern "C" fn rget_accumulate<N: Netmod>(
    buf: *const c_void,
    count: c_int,
    ty: *mut ffi::ompi_datatype_t,
    result: *mut c_void,
    result_count: c_int,
    result_ty: *mut ffi::ompi_datatype_t,
    target: c_int,
    disp: isize,
    target_count: c_int,
    target_ty: *mut ffi::ompi_datatype_t,
    op: *mut ffi::ompi_op_t,
    win: *mut ffi::ompi_win_t,
    request: *mut *mut ffi::ompi_request_t,
) -> c_int {
    let place = Place { target, disp, side: Side { count: target_count, ty: target_ty } };
    let (here, back) = (Side { count, ty }, Side { count: result_count, ty: result_ty });
    // SAFETY: as in `rput`.
    unsafe {
        with_request::<N>(win, request, |module| {
            accumulate::fetch(module, buf.cast(), here, result.cast(), back, place, op)
        })
    }
}
