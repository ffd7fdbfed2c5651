//! Requests: what is kept of a message under way, and how it ends.
//!
//! Open MPI reserves the place behind its own request. Its address is the
//! cookie of the operation, which comes back when it has ended.

use super::buffer::{Buffer, Pieces};
use super::fill;
use crate::ffi;
use crate::log::fatal;
use rankway::msg::{Completion, MsgError, RequestId, Status};
use std::ffi::c_int;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, Ordering};

/// A message under way.
#[repr(C)]
pub(crate) struct Request {
    /// Open MPI's part. Without a callback: somebody waits for `done`.
    base: ffi::mca_mtl_request_t,
    /// Names a receive, to take it back.
    pub(super) id: Option<RequestId>,
    /// Of a message that is not one piece of the user's memory; null else.
    pieces: *mut Pieces,
    /// Of a receive, to unpack with; null for a send.
    convertor: *mut ffi::opal_convertor_t,
    /// Bytes there is space for.
    capacity: usize,
    done: AtomicBool,
}

impl Request {
    /// A blocking send's own, on its stack.
    pub(super) fn waited(buffer: &Buffer) -> Request {
        Request {
            base: ffi::mca_mtl_request_t {
                ompi_req: std::ptr::null_mut(),
                completion_callback: None,
            },
            id: None,
            pieces: buffer.pieces,
            convertor: std::ptr::null_mut(),
            capacity: buffer.bytes,
            done: AtomicBool::new(false),
        }
    }

    /// Fills Open MPI's place for a request.
    ///
    /// # Safety
    /// `place` was reserved by Open MPI with the size that the module asks for,
    /// and lives until the request is completed; so does `convertor`, which is
    /// null for a send.
    #[inline]
    pub(super) unsafe fn set<'a>(
        place: *mut ffi::mca_mtl_request_t,
        buffer: &Buffer,
        convertor: *mut ffi::opal_convertor_t,
    ) -> &'a mut Request {
        let place = place.cast::<Request>();
        // SAFETY: [REQ]. Open MPI has filled the first part.
        unsafe {
            (&raw mut (*place).id).write(None);
            (&raw mut (*place).pieces).write(buffer.pieces);
            (&raw mut (*place).convertor).write(convertor);
            (&raw mut (*place).capacity).write(buffer.bytes);
            (&raw mut (*place).done).write(AtomicBool::new(false));
            (*(*place).base.ompi_req).req_status.MPI_ERROR = ffi::SUCCESS;
            &mut *place
        }
    }

    /// Completes a send that was done at once. Of the place only what a cancel
    /// looks at is written: the program may ask for that until it waits.
    ///
    /// # Safety
    /// `place` as in [`Request::set`].
    #[inline]
    pub(super) unsafe fn sent(place: *mut ffi::mca_mtl_request_t) {
        // SAFETY: [REQ].
        unsafe {
            (&raw mut (*place.cast::<Request>()).id).write(None);
            (*(*place).ompi_req).req_status.MPI_ERROR = ffi::SUCCESS;
            if let Some(callback) = (*place).completion_callback {
                callback(place);
            }
        }
    }

    /// What a request is taken back by, if it is still under way.
    ///
    /// # Safety
    /// `place` was filled by [`Request::set`] or [`Request::sent`].
    pub(super) unsafe fn id(place: *const ffi::mca_mtl_request_t) -> Option<RequestId> {
        // SAFETY: [REQ]; both fill this field, not all of them.
        unsafe { (&raw const (*place.cast::<Request>()).id).read() }
    }

    /// What names it when it has ended.
    #[inline]
    pub(super) fn cookie(&self) -> NonZeroU64 {
        let address = std::ptr::from_ref(self) as u64;
        // SAFETY: a reference is not null.
        unsafe { NonZeroU64::new_unchecked(address) }
    }

    /// Returns true if a blocking send is over.
    pub(super) fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire)
    }

    /// Completes it. Its place may be somebody else's on return.
    ///
    /// # Safety
    /// `this` is under way or was just done, and completed once.
    #[inline]
    pub(super) unsafe fn complete(this: *mut Request, result: Result<Status, Box<MsgError>>) {
        // SAFETY: [REQ]; the place stays until the callback.
        let request = unsafe { &mut *this };
        match result {
            Ok(status)
                if request.pieces.is_null()
                    && !request.convertor.is_null()
                    && !status.cancelled =>
            {
                // SAFETY: Open MPI's request, which stays until the callback.
                unsafe {
                    let out = &raw mut (*request.base.ompi_req).req_status;
                    fill(out, &status, status.length as usize);
                    (*out).MPI_ERROR = ffi::SUCCESS;
                }
            }
            result => request.finish(result),
        }
        match request.base.completion_callback {
            // SAFETY: Open MPI's own, for its request.
            Some(callback) => unsafe { callback(&raw mut request.base) },
            None => request.done.store(true, Ordering::Release),
        }
    }

    /// All that is not a receive into the user's memory.
    #[inline(never)]
    fn finish(&mut self, result: Result<Status, Box<MsgError>>) {
        if !self.convertor.is_null() {
            return self.received(result);
        }
        if let Err(e) = result {
            fatal(&e);
        }
        drop(self.take_pieces());
    }

    fn take_pieces(&mut self) -> Option<Box<Pieces>> {
        let pieces = std::mem::replace(&mut self.pieces, std::ptr::null_mut());
        // SAFETY: [REQ]; a box of the buffer's, taken once.
        (!pieces.is_null()).then(|| unsafe { Box::from_raw(pieces) })
    }

    /// Puts what came where it belongs, and fills the status.
    fn received(&mut self, result: Result<Status, Box<MsgError>>) {
        let (status, error) = match result.map_err(|e| *e) {
            Ok(status) => (status, ffi::SUCCESS),
            Err(MsgError::Truncated { source_rank, tag, .. }) => {
                let bits = u64::from(source_rank) << 32 | u64::from(tag);
                let length = self.capacity as u64;
                let status = Status { peer: 0, bits, length, cancelled: false };
                (status, ffi::MPI_ERR_TRUNCATE as c_int)
            }
            Err(e) => fatal(&e),
        };
        let bytes = if status.cancelled { 0 } else { status.length as usize };
        let mut error = error;
        if let Some(pieces) = self.take_pieces()
            && bytes > 0
            // SAFETY: the convertor of this receive, and as many bytes as came,
            // at most those of its buffer.
            && let Err(rc) = unsafe { pieces.unpack(self.convertor, bytes) }
        {
            error = rc;
        }
        // SAFETY: Open MPI's request, which stays until the callback.
        unsafe {
            let out = &raw mut (*self.base.ompi_req).req_status;
            if status.cancelled {
                (*out)._cancelled = 1;
                (*out)._ucount = 0;
            } else {
                fill(out, &status, bytes);
            }
            (*out).MPI_ERROR = error;
        }
    }
}

/// An operation ended: completes its request.
///
/// # Safety
/// The cookie is that of a request of this module that is under way.
#[inline]
pub(crate) unsafe fn ended(ended: Completion) {
    // SAFETY: [REQ].
    unsafe { Request::complete(ended.cookie.get() as *mut Request, ended.result) };
}
