//! Where a message's bytes are: in the user's memory or packed.
//!
//! Data that lies in one piece is found here; all else goes through the
//! convertor, in the shim.

use crate::{ffi, version};
use std::ffi::{c_int, c_void};

/// Where a message's bytes are.
pub(super) struct Buffer {
    pub(super) start: *mut u8,
    pub(super) bytes: usize,
    /// It is an allocation of its own.
    pub(super) owned: bool,
}

const CONTIGUOUS: u32 = ffi::OPAL_DATATYPE_FLAG_CONTIGUOUS;
const NO_GAPS: u32 = ffi::OPAL_DATATYPE_FLAG_NO_GAPS;
const DEVICE: u32 = ffi::CONVERTOR_CUDA | ffi::CONVERTOR_CUDA_UNIFIED;

impl Buffer {
    #[inline]
    fn users(start: *mut u8, bytes: usize) -> Buffer {
        Buffer { start, bytes, owned: false }
    }

    /// What a convertor sends.
    ///
    /// # Errors
    /// Open MPI's code.
    ///
    /// # Safety
    /// `convertor` is one that pml/cm prepared for a send.
    #[inline]
    pub(super) unsafe fn sent(convertor: *mut ffi::opal_convertor_t) -> Result<Buffer, c_int> {
        // SAFETY: [MPI]. pml/cm may leave a contiguous convertor
        // unprepared: nothing of it but these fields is to be looked at then.
        unsafe {
            let of = &*convertor;
            if let Some(of_type) = of.pDesc.as_ref()
                && of.flags & ffi::CONVERTOR_COMPLETED == 0
                && u32::from(of_type.flags) & CONTIGUOUS != 0
                && (of.count == 1 || u32::from(of_type.flags) & NO_GAPS != 0)
            {
                // Before 4.1.8 only persistent requests have a convertor that
                // was prepared, and pml/cm adds the lower bound to the base of
                // the others itself.
                let lower = of_type.true_lb != 0
                    && (of.flags & ffi::CONVERTOR_SEND != 0 || version::base_is_users());
                let offset = if lower { of_type.true_lb } else { 0 };
                return Ok(Buffer::users(of.pBaseBuf.wrapping_offset(offset), of.local_size));
            }
            Buffer::packed(convertor, ffi::rw_send_buffer)
        }
    }

    /// Where a convertor's data is received.
    ///
    /// # Errors
    /// Open MPI's code.
    ///
    /// # Safety
    /// `convertor` is one that pml/cm prepared for a receive.
    #[inline]
    pub(super) unsafe fn received(convertor: *mut ffi::opal_convertor_t) -> Result<Buffer, c_int> {
        const WANTED: u32 = ffi::CONVERTOR_HOMOGENEOUS | NO_GAPS;
        // SAFETY: [MPI]. A description ends with an element for the
        // whole, which says where the first byte is.
        unsafe {
            let of = &*convertor;
            if of.flags & (WANTED | DEVICE) == WANTED && of.local_size > 0 {
                let description = &*of.use_desc;
                let end = &*description.desc.add(description.used);
                let start = of.pBaseBuf.wrapping_offset(end.end_loop.first_elem_disp);
                return Ok(Buffer::users(start, of.local_size));
            }
            Buffer::packed(convertor, ffi::rw_recv_buffer)
        }
    }

    /// # Safety
    /// `find` is one of the shim's, for this convertor.
    #[cold]
    #[inline(never)]
    unsafe fn packed(
        convertor: *mut ffi::opal_convertor_t,
        find: unsafe extern "C" fn(
            *mut ffi::opal_convertor_t,
            *mut *mut c_void,
            *mut usize,
            *mut bool,
        ) -> c_int,
    ) -> Result<Buffer, c_int> {
        let (mut start, mut bytes, mut owned) = (std::ptr::null_mut(), 0, false);
        // SAFETY: [MPI], and live places.
        let rc = unsafe { find(convertor, &mut start, &mut bytes, &mut owned) };
        if rc != ffi::SUCCESS {
            return Err(rc);
        }
        Ok(Buffer { start: start.cast(), bytes, owned })
    }
}
