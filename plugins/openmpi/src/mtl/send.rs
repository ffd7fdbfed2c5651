//! Sends.

use super::module::state;
use crate::buffer::Buffer;
use crate::comm::Comm;
use crate::ffi;
use crate::log::guarded;
use crate::request::Request;
use crate::state::State;
use rankway::msg::{Envelope, MsgError, Started, Status, Word};
use rankway::netmod::Netmod;
use std::ffi::c_int;

/// Where a message to a rank of a communicator goes.
fn envelope(comm: &Comm, dest: c_int, tag: c_int) -> Envelope {
    let bits = comm.me | u64::from(tag as u32);
    Envelope { peer: comm.peer(dest), channel: comm.channel, bits }
}

/// Sends a message of 8 bytes at once and for good, if that can be done: of a send that waits
/// for no receive, in a process of one thread. Of what may take longer it calls nothing.
///
/// # Safety
/// \[MPI\], a convertor of a send, whose buffer is readable.
#[inline(always)]
unsafe fn now<N: Netmod>(
    mtl: *mut ffi::mca_mtl_base_module_t,
    comm: *mut ffi::ompi_communicator_t,
    dest: c_int,
    tag: c_int,
    convertor: *mut ffi::opal_convertor_t,
    mode: ffi::mca_pml_base_send_mode_t,
) -> bool {
    if mode == ffi::MCA_PML_BASE_SEND_SYNCHRONOUS {
        return false;
    }
    // SAFETY: [MPI].
    unsafe {
        if let Some(inner) = state::<N>(mtl).unlocked()
            && let Some(buffer) = Buffer::plainly_sent(convertor)
            && buffer.bytes == Word::BYTES
            && let comm = Comm::of(comm)
            && let Some(peer) = comm.affine_peer(dest)
        {
            let word = Word::whole(buffer.start.cast::<u64>().read_unaligned());
            let bits = comm.me | u64::from(tag as u32);
            let to = Envelope { peer, channel: comm.channel, bits };
            return inner.tagged.send_word(to, word).unwrap_or(false);
        }
    }
    false
}

/// Sends a message of one piece of the user's memory at once and for good, if that can
/// be done.
///
/// # Safety
/// \[BUF\].
unsafe fn whole<N: Netmod>(
    state: &State<N>,
    to: Envelope,
    mode: ffi::mca_pml_base_send_mode_t,
    buffer: &Buffer,
) -> bool {
    if mode == ffi::MCA_PML_BASE_SEND_SYNCHRONOUS || !buffer.is_users() {
        return false;
    }
    state.enter(|inner| {
        // SAFETY: [BUF].
        unsafe { inner.tagged.send_now(to, buffer.start.cast_const(), buffer.bytes) }
    })
}

/// Begins a send; `request` is told of its end, unless it is done at once.
///
/// # Safety
/// The request stays where it is until then, and so does the buffer.
#[inline(never)]
unsafe fn begin<N: Netmod>(
    state: &State<N>,
    to: Envelope,
    mode: ffi::mca_pml_base_send_mode_t,
    buffer: &Buffer,
    request: &mut Request,
) -> Option<Result<Status, MsgError>> {
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
    state.sent(to.peer);
    started.unwrap_or_else(|e| Some(Err(e)))
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
    // SAFETY: Open MPI's module, a communicator that was added, a prepared
    // convertor, whose buffer pml/cm keeps until this function returns.
    unsafe {
        match now::<N>(mtl, comm, dest, tag, convertor, mode) {
            true => ffi::SUCCESS,
            false => send_and_wait::<N>(mtl, comm, dest, tag, convertor, mode),
        }
    }
}

/// Sends what takes longer, and waits until the buffer is free.
///
/// # Safety
/// \[MPI\], as [`send`].
#[inline(never)]
unsafe extern "C" fn send_and_wait<N: Netmod>(
    mtl: *mut ffi::mca_mtl_base_module_t,
    comm: *mut ffi::ompi_communicator_t,
    dest: c_int,
    tag: c_int,
    convertor: *mut ffi::opal_convertor_t,
    mode: ffi::mca_pml_base_send_mode_t,
) -> c_int {
    guarded(|| {
        // SAFETY: [MPI].
        let (state, comm, buffer) =
            unsafe { (state::<N>(mtl), Comm::of(comm), Buffer::sent(convertor)) };
        let buffer = match buffer {
            Ok(buffer) => buffer,
            Err(rc) => return rc,
        };
        let to = envelope(comm, dest, tag);
        // SAFETY: [BUF].
        if unsafe { whole(state, to, mode, &buffer) } {
            return ffi::SUCCESS;
        }
        let mut request = Request::waited(&buffer);
        // SAFETY: this function does not return before the request is done.
        match unsafe { begin(state, to, mode, &buffer, &mut request) } {
            // SAFETY: done, and completed here only.
            Some(result) => unsafe { Request::complete(&mut request, result.map_err(Box::new)) },
            None => {
                while !request.is_done() {
                    ffi::progress();
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
    blocking: bool,
    request: *mut ffi::mca_mtl_request_t,
) -> c_int {
    // SAFETY: as in `send`; pml/cm keeps the buffer until the request is completed,
    // and the place is the one it reserved.
    unsafe {
        if now::<N>(mtl, comm, dest, tag, convertor, mode) {
            Request::sent(request);
            return ffi::SUCCESS;
        }
        isend_slowly::<N>(mtl, comm, dest, tag, convertor, mode, blocking, request)
    }
}

/// Begins a send that takes longer.
///
/// # Safety
/// \[MPI\], \[REQ\], as [`isend`].
#[inline(never)]
unsafe extern "C" fn isend_slowly<N: Netmod>(
    mtl: *mut ffi::mca_mtl_base_module_t,
    comm: *mut ffi::ompi_communicator_t,
    dest: c_int,
    tag: c_int,
    convertor: *mut ffi::opal_convertor_t,
    mode: ffi::mca_pml_base_send_mode_t,
    _blocking: bool,
    place: *mut ffi::mca_mtl_request_t,
) -> c_int {
    guarded(|| {
        // SAFETY: [MPI].
        let (state, comm, buffer) =
            unsafe { (state::<N>(mtl), Comm::of(comm), Buffer::sent(convertor)) };
        let buffer = match buffer {
            Ok(buffer) => buffer,
            Err(rc) => return rc,
        };
        let to = envelope(comm, dest, tag);
        // SAFETY: [BUF], [REQ].
        unsafe {
            if whole(state, to, mode, &buffer) {
                Request::sent(place);
                return ffi::SUCCESS;
            }
            let request = Request::set(place, &buffer, std::ptr::null_mut());
            if let Some(result) = begin(state, to, mode, &buffer, request) {
                Request::complete(request, result.map_err(Box::new));
            }
        }
        ffi::SUCCESS
    })
}
