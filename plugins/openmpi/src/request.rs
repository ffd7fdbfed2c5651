//! Requests: what is kept of a message under way, and how it ends.
//!
//! Open MPI reserves the place behind its own request. Its address is the
//! cookie of the operation, which comes back when it has ended.

use crate::buffer::{Buffer, Pieces};
use crate::ffi;
use crate::log::fatal_before_end;
use rankway::msg::{MsgError, RequestId, Status};
use std::ffi::c_int;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, Ordering};

/// A message under way.
#[repr(C)]
pub(crate) struct Request {
    /// Open MPI's part. Without a callback: somebody waits for `done`.
    base: ffi::mca_mtl_request_t,
    /// Names a receive, to take it back.
    pub(crate) id: Option<RequestId>,
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
    pub(crate) fn waited(buffer: &Buffer) -> Request {
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
    #[inline(always)]
    pub(crate) unsafe fn set<'a>(
        place: *mut ffi::mca_mtl_request_t,
        buffer: &Buffer,
        convertor: *mut ffi::opal_convertor_t,
    ) -> &'a mut Request {
        let place = place.cast::<Request>();
        // SAFETY: [REQ]. Open MPI has filled the first part; nobody looks at `done` of a
        // request with a callback.
        unsafe {
            (&raw mut (*place).id).write(None);
            (&raw mut (*place).pieces).write(buffer.pieces);
            (&raw mut (*place).convertor).write(convertor);
            (&raw mut (*place).capacity).write(buffer.bytes);
            &mut *place
        }
    }

    /// Completes a send that was done at once. Of the place only what a cancel
    /// looks at is written: the program may ask for that until it waits.
    ///
    /// # Safety
    /// `place` as in [`Request::set`].
    #[inline(always)]
    pub(crate) unsafe fn sent(place: *mut ffi::mca_mtl_request_t) {
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
    pub(crate) unsafe fn id(place: *const ffi::mca_mtl_request_t) -> Option<RequestId> {
        // SAFETY: [REQ]; both fill this field, not all of them.
        unsafe { (&raw const (*place.cast::<Request>()).id).read() }
    }

    /// What names it when it has ended.
    #[inline(always)]
    pub(crate) fn cookie(&self) -> NonZeroU64 {
        let address = std::ptr::from_ref(self) as u64;
        // SAFETY: a reference is not null.
        unsafe { NonZeroU64::new_unchecked(address) }
    }

    /// Returns true if a blocking send is over.
    pub(crate) fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire)
    }

    /// Completes it. Its place may be somebody else's on return.
    ///
    /// # Safety
    /// `this` is under way or was just done, and completed once.
    #[inline(never)]
    pub(crate) unsafe fn complete(this: *mut Request, result: Result<Status, Box<MsgError>>) {
        // SAFETY: [REQ]; the place stays until the callback.
        let request = unsafe { &mut *this };
        request.finish(result);
        match request.base.completion_callback {
            // SAFETY: Open MPI's own, for its request.
            Some(callback) => unsafe { callback(&raw mut request.base) },
            None => request.done.store(true, Ordering::Release),
        }
    }

    /// Gives back what it holds, and fills the status.
    fn finish(&mut self, result: Result<Status, Box<MsgError>>) {
        if !self.convertor.is_null() {
            return self.received(result);
        }
        if let Err(e) = result {
            fatal_before_end(&e);
        }
        if !self.base.ompi_req.is_null() {
            // SAFETY: Open MPI's request, which stays until the callback.
            unsafe { (*self.base.ompi_req).req_status.MPI_ERROR = ffi::SUCCESS };
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
            Err(e) => {
                fatal_before_end(&e);
                let status = Status { peer: 0, bits: 0, length: 0, cancelled: false };
                (status, ffi::MPI_ERR_OTHER as c_int)
            }
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
pub(crate) unsafe fn ended(cookie: NonZeroU64, result: Result<Status, Box<MsgError>>) {
    // SAFETY: [REQ].
    unsafe { Request::complete(cookie.get() as *mut Request, result) };
}

/// The same of a message that went or came. A receive of one piece of the user's
/// memory has nothing else to it.
///
/// # Safety
/// As [`ended`].
#[inline(always)]
pub(crate) unsafe fn succeeded(cookie: NonZeroU64, status: &Status) {
    let this = cookie.get() as *mut Request;
    // SAFETY: [REQ]; the place, and Open MPI's request, stay until the callback.
    unsafe {
        let plain = (*this).pieces.is_null() && !(*this).convertor.is_null();
        match (*this).base.completion_callback {
            Some(callback) if plain => {
                let out = &raw mut (*(*this).base.ompi_req).req_status;
                fill(out, status, status.length as usize);
                (*out).MPI_ERROR = ffi::SUCCESS;
                callback(this.cast());
            }
            _ => ended(cookie, Ok(*status)),
        }
    }
}

/// Fills what a probe or a receive tells, but for the error field, which is
/// not a probe's to touch.
///
/// # Safety
/// `out` is a status to write to.
#[inline(always)]
pub(crate) unsafe fn fill(out: *mut ffi::ompi_status_public_t, status: &Status, bytes: usize) {
    // SAFETY: [MPI].
    let out = unsafe { &mut *out };
    out.MPI_SOURCE = status.source() as c_int;
    out.MPI_TAG = status.tag() as c_int;
    out._ucount = bytes;
    out._cancelled = c_int::from(status.cancelled);
}
