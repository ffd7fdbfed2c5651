//! Sends.

use super::buffer::Buffer;
use super::module::state;
use super::request::Request;
use crate::comm::Comm;
use crate::ffi;
use crate::log::{fatal, guarded};
use crate::state::State;
use rankway::msg::{Envelope, MsgError, Started, Status};
use rankway::netmod::Netmod;
use std::ffi::c_int;

/// Where a message to a rank of a communicator goes.
#[inline]
fn envelope(comm: &Comm, dest: c_int, tag: c_int) -> Envelope {
    let bits = comm.me | u64::from(tag as u32);
    Envelope { peer: comm.peer(dest), channel: comm.channel, bits }
}

/// Sends at once and for good, if that can be done.
///
/// # Safety
/// The buffer is readable.
#[inline]
unsafe fn now<N: Netmod>(
    state: &State<N>,
    comm: &Comm,
    dest: c_int,
    tag: c_int,
    mode: ffi::mca_pml_base_send_mode_t,
    buffer: &Buffer,
) -> bool {
    if mode == ffi::MCA_PML_BASE_SEND_SYNCHRONOUS || !buffer.pieces.is_null() {
        return false;
    }
    let (to, start) = (envelope(comm, dest, tag), buffer.start.cast_const());
    state.enter(|inner| {
        // SAFETY: [BUF], [REQ].
        unsafe { inner.tagged.send_now(to, start, buffer.bytes) }
    })
}

/// Begins a send; `request` is told of its end, unless it is done at once.
///
/// # Safety
/// The request stays where it is until then, and so does the buffer.
#[inline(never)]
unsafe fn begin<N: Netmod>(
    state: &State<N>,
    comm: &Comm,
    dest: c_int,
    tag: c_int,
    mode: ffi::mca_pml_base_send_mode_t,
    buffer: &Buffer,
    request: &mut Request,
) -> Option<Result<Status, MsgError>> {
    let to = envelope(comm, dest, tag);
    let synchronous = mode == ffi::MCA_PML_BASE_SEND_SYNCHRONOUS;
    let cookie = request.cookie();
    let started = state.enter(|inner| -> Result<_, MsgError> {
        let (start, bytes) = (buffer.start.cast_const(), buffer.bytes);
        // SAFETY: [BUF], [REQ].
        let started = unsafe {
            match buffer.layout() {
                None => inner.tagged.start_send(to, start, bytes, synchronous, cookie),
                Some(layout) => {
                    inner.tagged.start_send_layout(to, start, layout, synchronous, cookie)
                }
            }
        };
        // Under the lock: it may end as soon as that is open.
        match started? {
            Started::Pending(id) => request.id = Some(id),
            Started::Done(Ok(status)) if inner.defer_completion(cookie, status) => {}
            Started::Done(result) => return Ok(Some(result)),
        }
        Ok(None)
    });
    let started = started.unwrap_or_else(|e| fatal(&e));
    state.sent(to.peer);
    started
}

/// Sends, and waits until the buffer is free.
pub(super) unsafe extern "C" fn send<N: Netmod>(
    mtl: *mut ffi::mca_mtl_base_module_t,
    comm: *mut ffi::ompi_communicator_t,
    dest: c_int,
    tag: c_int,
    convertor: *mut ffi::opal_convertor_t,
    mode: ffi::mca_pml_base_send_mode_t,
) -> c_int {
    guarded(|| {
        // SAFETY: Open MPI's module, a communicator that was added, a prepared
        // convertor.
        let (state, comm, buffer) =
            unsafe { (state::<N>(mtl), Comm::of(comm), Buffer::sent(convertor)) };
        let buffer = match buffer {
            Ok(buffer) => buffer,
            Err(rc) => return rc,
        };
        // SAFETY: pml/cm keeps the buffer until this function returns.
        if !unsafe { now(state, comm, dest, tag, mode, &buffer) } {
            send_and_wait(state, comm, dest, tag, mode, &buffer);
        }
        ffi::SUCCESS
    })
}

/// Sends what takes longer, and waits until the buffer is free.
#[inline(never)]
fn send_and_wait<N: Netmod>(
    state: &State<N>,
    comm: &Comm,
    dest: c_int,
    tag: c_int,
    mode: ffi::mca_pml_base_send_mode_t,
    buffer: &Buffer,
) {
    let mut request = Request::waited(buffer);
    // SAFETY: this function does not return before the request is done.
    let started = unsafe { begin(state, comm, dest, tag, mode, buffer, &mut request) };
    match started {
        // SAFETY: done, and completed here only.
        Some(result) => unsafe { Request::complete(&mut request, result.map_err(Box::new)) },
        None => {
            while !request.is_done() {
                ffi::progress();
            }
        }
    }
}

/// Begins a send.
pub(super) unsafe extern "C" fn isend<N: Netmod>(
    mtl: *mut ffi::mca_mtl_base_module_t,
    comm: *mut ffi::ompi_communicator_t,
    dest: c_int,
    tag: c_int,
    convertor: *mut ffi::opal_convertor_t,
    mode: ffi::mca_pml_base_send_mode_t,
    _blocking: bool,
    request: *mut ffi::mca_mtl_request_t,
) -> c_int {
    guarded(|| {
        // SAFETY: as in `send`.
        let (state, comm, buffer) =
            unsafe { (state::<N>(mtl), Comm::of(comm), Buffer::sent(convertor)) };
        let buffer = match buffer {
            Ok(buffer) => buffer,
            Err(rc) => return rc,
        };
        // SAFETY: pml/cm keeps the buffer until the request is completed; the
        // place is the one it reserved.
        unsafe {
            if now(state, comm, dest, tag, mode, &buffer) {
                Request::sent(request);
                return ffi::SUCCESS;
            }
        }
        // SAFETY: the place that Open MPI reserved.
        let request = unsafe { Request::set(request, &buffer, std::ptr::null_mut()) };
        // SAFETY: Open MPI keeps request and buffer until it is completed.
        let started = unsafe { begin(state, comm, dest, tag, mode, &buffer, request) };
        if let Some(result) = started {
            // SAFETY: done, and completed here only.
            unsafe { Request::complete(request, result.map_err(Box::new)) };
        }
        ffi::SUCCESS
    })
}
