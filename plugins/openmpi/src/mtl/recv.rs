//! Receives, of messages of a matched probe too, and how they are taken back.

use super::module::state;
use super::probe::Matched;
use super::{ANY_TAG, match_bits, match_spec};
use crate::buffer::Buffer;
use crate::comm::Comm;
use crate::ffi;
use crate::log::guarded;
use crate::request::{self, Request};
use rankway::msg::{MatchSpec, Started};
use rankway::netmod::Netmod;
use std::ffi::c_int;

/// Begins a receive.
pub(super) unsafe extern "C" fn irecv<N: Netmod>(
    mtl: *mut ffi::mca_mtl_base_module_t,
    comm: *mut ffi::ompi_communicator_t,
    source: c_int,
    tag: c_int,
    convertor: *mut ffi::opal_convertor_t,
    request: *mut ffi::mca_mtl_request_t,
) -> c_int {
    // SAFETY: Open MPI's module, a communicator that was added, a prepared
    // convertor; the place that Open MPI reserved, and its convertor and buffer,
    // which stay until the request is completed.
    unsafe {
        let comm_of = Comm::of(comm);
        if let Some(inner) = state::<N>(mtl).unlocked()
            && let Some(buffer) = Buffer::plainly_received(convertor)
            && let Some(peer) = comm_of.affine_peer(source)
            && tag != ANY_TAG
        {
            let bits = u64::from(source as u32) << 32 | u64::from(tag as u32);
            let spec = MatchSpec { channel: comm_of.channel, bits, ignore: 0, from: Some(peer) };
            let place = Request::set(request, &buffer, convertor);
            let cookie = place.cookie();
            if let Some(id) = inner.tagged.post_recv(spec, buffer.start, buffer.bytes, cookie) {
                place.id = Some(id);
                return ffi::SUCCESS;
            }
        }
        irecv_slowly::<N>(mtl, comm, source, tag, convertor, request)
    }
}

/// Begins a receive with wildcards, one that is not one piece of the user's memory, one
/// that may have a message already, or one of several threads'.
///
/// # Safety
/// \[MPI\], \[REQ\], as [`irecv`].
#[inline(never)]
unsafe extern "C" fn irecv_slowly<N: Netmod>(
    mtl: *mut ffi::mca_mtl_base_module_t,
    comm: *mut ffi::ompi_communicator_t,
    source: c_int,
    tag: c_int,
    convertor: *mut ffi::opal_convertor_t,
    place: *mut ffi::mca_mtl_request_t,
) -> c_int {
    // SAFETY: [MPI], [REQ].
    unsafe {
        if let Some(inner) = state::<N>(mtl).unlocked()
            && let Some(buffer) = Buffer::plainly_received(convertor)
        {
            let (bits, ignore) = match_bits(source, tag);
            // (A message that lies here is found by its bits.)
            let spec = MatchSpec { channel: Comm::of(comm).channel, bits, ignore, from: None };
            if let Some(status) = inner.tagged.recv_now(&spec, buffer.start, buffer.bytes) {
                let request = Request::set(place, &buffer, convertor);
                request::succeeded(request.cookie(), &status);
                return ffi::SUCCESS;
            }
        }
    }
    guarded(|| {
        // SAFETY: [MPI].
        let (state, comm, buffer) =
            unsafe { (state::<N>(mtl), Comm::of(comm), Buffer::received(convertor)) };
        let buffer = match buffer {
            Ok(buffer) => buffer,
            Err(rc) => return rc,
        };
        // SAFETY: [REQ].
        let request = unsafe { Request::set(place, &buffer, convertor) };
        let spec = match_spec(comm, source, tag);
        let cookie = request.cookie();
        let started = state.enter(|inner| {
            // SAFETY: [BUF].
            let started = unsafe {
                match buffer.layout() {
                    None => inner.tagged.start_recv(&spec, buffer.start, buffer.bytes, cookie),
                    Some(layout) => {
                        inner.tagged.start_recv_layout(&spec, buffer.start, layout, cookie)
                    }
                }
            };
            if let Ok(Started::Pending(id)) = started {
                request.id = Some(id);
            }
            started
        });
        let result = match started {
            Ok(Started::Pending(_)) => return ffi::SUCCESS,
            Ok(Started::Done(result)) => result,
            Err(e) => Err(e),
        };
        // SAFETY: done, and completed here only.
        unsafe { Request::complete(request, result.map_err(Box::new)) };
        ffi::SUCCESS
    })
}

/// Begins to receive a message of a matched probe.
pub(super) unsafe extern "C" fn imrecv<N: Netmod>(
    mtl: *mut ffi::mca_mtl_base_module_t,
    convertor: *mut ffi::opal_convertor_t,
    message: *mut *mut ffi::ompi_message_t,
    request: *mut ffi::mca_mtl_request_t,
) -> c_int {
    guarded(|| {
        // SAFETY: as in `irecv`.
        let (state, buffer) = unsafe { (state::<N>(mtl), Buffer::received(convertor)) };
        let buffer = match buffer {
            Ok(buffer) => buffer,
            Err(rc) => return rc,
        };
        // SAFETY: a message that `improbe` made for this netmod, received once.
        let matched = unsafe { Matched::<N>::unwrap(message) };
        // SAFETY: as in `irecv`.
        let request = unsafe { Request::set(request, &buffer, convertor) };
        let cookie = request.cookie();
        let started = state.enter(|_| {
            // SAFETY: as in `irecv`.
            let started = unsafe { matched.start_recv(&buffer, cookie) };
            if let Started::Pending(id) = started {
                request.id = Some(id);
            }
            started
        });
        if let Started::Done(result) = started {
            // SAFETY: done, and completed here only.
            unsafe { Request::complete(request, result.map_err(Box::new)) };
        }
        ffi::SUCCESS
    })
}

/// Takes a receive back that has no message yet; it is completed by the next
/// progress. Sends go on.
pub(super) unsafe extern "C" fn cancel<N: Netmod>(
    mtl: *mut ffi::mca_mtl_base_module_t,
    request: *mut ffi::mca_mtl_request_t,
    _flag: c_int,
) -> c_int {
    guarded(|| {
        // SAFETY: Open MPI's module, and a request of it that is not free.
        let (state, id) = unsafe { (state::<N>(mtl), Request::id(request)) };
        state.enter(|inner| {
            if let Some(id) = id {
                inner.tagged.cancel(id);
            }
        });
        ffi::SUCCESS
    })
}
