//! Where a message's bytes are: in the user's memory or packed.
//!
//! Data that lies in one piece is found here; other data is packed by its
//! datatype's layout, or by Open MPI's convertor where it does more than copy.

use crate::{datatype, ffi, version};
use rankway::datatype::Layout;
use std::ffi::{c_int, c_void};

/// Where a message's bytes are.
pub(super) struct Buffer {
    pub(super) start: *mut u8,
    pub(super) bytes: usize,
    /// What `start` is of, if it is not the user's memory; whoever has it last
    /// drops it.
    pub(super) packed: *mut Packed,
}

/// A message's bytes one after the other, beside the user's memory.
pub(super) enum Packed {
    /// By a layout, whose origin is at `memory`.
    ByLayout { bytes: Vec<u8>, layout: Layout, memory: *mut u8 },
    /// By a convertor, in an allocation of the shim's.
    ByConvertor(*mut c_void),
}

const CONTIGUOUS: u32 = ffi::OPAL_DATATYPE_FLAG_CONTIGUOUS;
const NO_GAPS: u32 = ffi::OPAL_DATATYPE_FLAG_NO_GAPS;
const DEVICE: u32 = ffi::RW_CONVERTOR_DEVICE;

impl Buffer {
    #[inline]
    fn users(start: *mut u8, bytes: usize) -> Buffer {
        Buffer { start, bytes, packed: std::ptr::null_mut() }
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
            match Buffer::by_layout(convertor, true) {
                Some(buffer) => Ok(buffer),
                None => Buffer::packed(convertor, ffi::rw_send_buffer),
            }
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
            match Buffer::by_layout(convertor, false) {
                Some(buffer) => Ok(buffer),
                None => Buffer::packed(convertor, ffi::rw_recv_buffer),
            }
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
        if !owned {
            return Ok(Buffer::users(start.cast(), bytes));
        }
        let packed = Box::into_raw(Box::new(Packed::ByConvertor(start)));
        Ok(Buffer { start: start.cast(), bytes, packed })
    }

    /// Space for what a convertor takes, filled for a send, by its datatype's
    /// layout; `None` where the bytes are not just copied.
    ///
    /// # Safety
    /// \[MPI\], a convertor; \[BUF\]
    #[cold]
    #[inline(never)]
    unsafe fn by_layout(convertor: *const ffi::opal_convertor_t, send: bool) -> Option<Buffer> {
        const OTHERS: u32 = DEVICE | ffi::RW_CONVERTOR_SUMMED | ffi::CONVERTOR_COMPLETED;
        // SAFETY: [MPI]; at this layer a description is that of an Open MPI datatype.
        let (of, layout) = unsafe {
            let of = &*convertor;
            let plain = of.flags & (ffi::CONVERTOR_HOMOGENEOUS | OTHERS);
            if plain != ffi::CONVERTOR_HOMOGENEOUS || of.pDesc.is_null() || of.bConverted != 0 {
                return None;
            }
            (of, datatype::layout(of.pDesc.cast_mut().cast(), of.count as usize)?)
        };
        if of.local_size == 0 || layout.size() != of.local_size as u64 {
            return None;
        }
        let (mut bytes, memory) = (vec![0; of.local_size], of.pBaseBuf);
        if send {
            // SAFETY: [BUF].
            unsafe { layout.pack_raw(memory, 0, &mut bytes) };
        }
        let start = bytes.as_mut_ptr();
        let packed = Box::into_raw(Box::new(Packed::ByLayout { bytes, layout, memory }));
        Some(Buffer { start, bytes: of.local_size, packed })
    }
}

impl Packed {
    /// Puts the first bytes where they belong.
    ///
    /// # Safety
    /// \[BUF\], of a receive of at least as many bytes with this convertor.
    pub(super) unsafe fn unpack(
        &self,
        convertor: *mut ffi::opal_convertor_t,
        count: usize,
    ) -> Result<(), c_int> {
        match self {
            Packed::ByLayout { bytes, layout, memory } => {
                // SAFETY: [BUF].
                unsafe { layout.unpack_raw(*memory, 0, &bytes[..count]) };
                Ok(())
            }
            // SAFETY: [BUF].
            Packed::ByConvertor(start) => match unsafe { ffi::rw_unpack(convertor, *start, count) }
            {
                ffi::SUCCESS => Ok(()),
                rc => Err(rc),
            },
        }
    }
}

impl Drop for Packed {
    fn drop(&mut self) {
        if let Packed::ByConvertor(start) = self {
            // SAFETY: an allocation of the shim's, freed once.
            unsafe { ffi::rw_free(*start) };
        }
    }
}
