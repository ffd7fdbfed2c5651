//! Sends.

use super::module::state;
use super::request::{Buffer, Request};
use crate::comm::Comm;
use crate::state::{State, fatal};
use crate::{ffi, guarded, version};
use rankway::msg::{Begun, MsgError, Status};
use rankway::netmod::Netmod;
use std::ffi::c_int;

/// The bytes a convertor sends.
///
/// # Safety
/// `convertor` is one that pml/cm prepared for a send.
#[inline]
unsafe fn buffer(convertor: *mut ffi::opal_convertor_t) -> Result<Buffer, c_int> {
    // SAFETY: the caller's duty.
    let prepared = unsafe { (*convertor).flags } & ffi::CONVERTOR_SEND != 0;
    // Before 4.1.8 only persistent requests have a convertor that was prepared,
    // and pml/cm adds the lower bound to the base of the others itself.
    let lower = prepared || version::base_is_users();
    let (mut start, mut bytes, mut owned) = (std::ptr::null_mut(), 0, false);
    // SAFETY: as above, and live places.
    let rc = unsafe { ffi::rw_send_buffer(convertor, lower, &mut start, &mut bytes, &mut owned) };
    if rc != ffi::SUCCESS { Err(rc) } else { Ok(Buffer { start: start.cast(), bytes, owned }) }
}

/// Begins a send; `request` is told of its end, unless it is done at once.
///
/// # Safety
/// The request stays where it is until then, and so does the buffer.
#[inline]
unsafe fn begin<N: Netmod>(
    state: &State<N>,
    comm: &Comm,
    dest: c_int,
    tag: c_int,
    mode: ffi::mca_pml_base_send_mode_t,
    buffer: &Buffer,
    request: &mut Request,
) -> Option<Result<Status, MsgError>> {
    let world = comm.world(dest);
    let bits = comm.me | u64::from(tag as u32);
    let synchronous = mode == ffi::MCA_PML_BASE_SEND_SYNCHRONOUS;
    let cookie = request.cookie();
    let begun = state.enter(|inner| -> Result<_, MsgError> {
        let (start, bytes) = (buffer.start.cast_const(), buffer.bytes);
        // SAFETY: the caller's duty.
        let begun = unsafe {
            inner.tagged.send_noted(world, comm.channel, bits, start, bytes, synchronous, cookie)
        };
        // Under the lock: it may end as soon as that is open.
        match begun? {
            Begun::Under(ticket) => request.ticket = Some(ticket),
            Begun::Done(Ok(status)) if inner.hold(cookie, status) => {}
            Begun::Done(result) => return Ok(Some(result)),
        }
        Ok(None)
    });
    let begun = begun.unwrap_or_else(|e| fatal(&e));
    state.sent(world);
    begun
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
        let (state, comm, buffer) = unsafe { (state::<N>(mtl), Comm::of(comm), buffer(convertor)) };
        let buffer = match buffer {
            Ok(buffer) => buffer,
            Err(rc) => return rc,
        };
        let mut request = Request::waited(&buffer);
        // SAFETY: this function does not return before the request is done.
        let begun = unsafe { begin(state, comm, dest, tag, mode, &buffer, &mut request) };
        match begun {
            // SAFETY: done, and completed here only.
            Some(result) => unsafe { Request::complete(&mut request, result) },
            None => {
                while !request.is_done() {
                    // SAFETY: may be called whenever MPI is initialised.
                    unsafe { ffi::opal_progress() };
                }
            }
        }
        ffi::SUCCESS
    })
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
        let (state, comm, buffer) = unsafe { (state::<N>(mtl), Comm::of(comm), buffer(convertor)) };
        let buffer = match buffer {
            Ok(buffer) => buffer,
            Err(rc) => return rc,
        };
        // SAFETY: the place that Open MPI reserved.
        let request = unsafe { Request::set(request, &buffer, std::ptr::null_mut()) };
        // SAFETY: Open MPI keeps request and buffer until it is completed.
        let begun = unsafe { begin(state, comm, dest, tag, mode, &buffer, request) };
        if let Some(result) = begun {
            // SAFETY: done, and completed here only.
            unsafe { Request::complete(request, result) };
        }
        ffi::SUCCESS
    })
}
