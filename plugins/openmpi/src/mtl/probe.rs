//! Probes, and messages of a matched probe.

use super::match_spec;
use super::module::state;
use crate::buffer::Buffer;
use crate::comm::Comm;
use crate::ffi;
use crate::log::{fatal, guarded};
use crate::request::fill;
use crate::state::State;
use rankway::msg::{Message, MsgError};
use rankway::netmod::Netmod;
use std::ffi::c_int;

/// Completes what the probe's own progress has ended, and lets others work
/// where it found nothing.
fn after<N: Netmod>(state: &State<N>, found: bool) {
    state.complete_requests();
    if !found {
        ffi::progress();
    }
}

/// Whether there is a message.
pub(super) unsafe extern "C" fn iprobe<N: Netmod>(
    mtl: *mut ffi::mca_mtl_base_module_t,
    comm: *mut ffi::ompi_communicator_t,
    source: c_int,
    tag: c_int,
    flag: *mut c_int,
    status: *mut ffi::ompi_status_public_t,
) -> c_int {
    guarded(|| {
        // SAFETY: Open MPI's module and a communicator that was added.
        let (state, comm) = unsafe { (state::<N>(mtl), Comm::of(comm)) };
        let spec = match_spec(comm, source, tag);
        let found = state.enter(|inner| inner.tagged.iprobe(&spec));
        let found = found.unwrap_or_else(|e| fatal(&e));
        after(state, found.is_some());
        // SAFETY: places for the answers; the status may be ignored.
        unsafe {
            *flag = c_int::from(found.is_some());
            if let Some(found) = found
                && !status.is_null()
            {
                fill(status, &found, found.length as usize);
            }
        }
        ffi::SUCCESS
    })
}

/// Takes a message, if there is one.
pub(super) unsafe extern "C" fn improbe<N: Netmod>(
    mtl: *mut ffi::mca_mtl_base_module_t,
    comm: *mut ffi::ompi_communicator_t,
    source: c_int,
    tag: c_int,
    matched: *mut c_int,
    message: *mut *mut ffi::ompi_message_t,
    status: *mut ffi::ompi_status_public_t,
) -> c_int {
    guarded(|| {
        // SAFETY: as in `iprobe`.
        let (state, kept) = unsafe { (state::<N>(mtl), Comm::of(comm)) };
        let spec = match_spec(kept, source, tag);
        let found =
            state.enter(|inner| Ok::<_, MsgError>(inner.tagged.improbe(&spec)?.map(Matched)));
        let found = found.unwrap_or_else(|e| fatal(&e));
        after(state, found.is_some());
        // SAFETY: places for the answers.
        unsafe { *matched = c_int::from(found.is_some()) };
        let Some(matched) = found else { return ffi::SUCCESS };
        let about = matched.0.status();
        // SAFETY: Open MPI's list of messages; it grows by itself.
        let place = unsafe { ffi::rw_message_alloc() };
        if place.is_null() {
            state.enter(|_| drop(matched));
            return ffi::OMPI_ERR_OUT_OF_RESOURCE;
        }
        // SAFETY: as above, and the place just taken.
        unsafe {
            (*place).comm = comm;
            (*place).peer = about.source() as c_int;
            (*place).count = about.length as usize;
            (*place).req_ptr = Box::into_raw(Box::new(matched)).cast();
            *message = place;
            if !status.is_null() {
                fill(status, &about, about.length as usize);
            }
        }
        ffi::SUCCESS
    })
}

/// A message of a matched probe, which only goes back to the context under its
/// lock.
pub(super) struct Matched<N: Netmod>(Message<N>);

impl<N: Netmod> Matched<N> {
    /// The message of Open MPI's handle, which is given back.
    ///
    /// # Safety
    /// The handle is one that [`improbe`] made for this netmod, not unwrapped
    /// before.
    pub(super) unsafe fn unwrap(handle: *mut *mut ffi::ompi_message_t) -> Matched<N> {
        // SAFETY: [MPI].
        unsafe {
            let place = *handle;
            let matched = Box::from_raw((*place).req_ptr.cast::<Matched<N>>());
            ffi::rw_message_return(place);
            *handle = (&raw mut ffi::ompi_message_null).cast();
            *matched
        }
    }

    /// Begins to receive it; under the lock.
    ///
    /// # Safety
    /// As [`Message::start_recv`].
    pub(super) unsafe fn start_recv(
        self,
        buffer: &Buffer,
        cookie: std::num::NonZeroU64,
    ) -> rankway::msg::Started {
        // SAFETY: [BUF], [REQ].
        unsafe {
            match buffer.layout() {
                None => self.0.start_recv(buffer.start, buffer.bytes, cookie),
                Some(layout) => self.0.start_recv_layout(buffer.start, layout, cookie),
            }
        }
    }
}
