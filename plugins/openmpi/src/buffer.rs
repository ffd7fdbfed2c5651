//! Where a message's bytes are.
//!
//! Data that lies in one piece is found here; other data goes by its datatype's
//! layout, or through Open MPI's convertor where it does more than copy.

use crate::{datatype, ffi, version};
use rankway::datatype::Layout;
use std::ffi::{c_int, c_void};

/// Where a message's bytes are.
pub(crate) struct Buffer {
    /// The first byte, or the layout's origin.
    pub(crate) start: *mut u8,
    pub(crate) bytes: usize,
    /// Null for one piece of the user's memory; whoever has it last drops it.
    pub(crate) pieces: *mut Pieces,
}

/// A message that is not one piece of the user's memory.
pub(crate) enum Pieces {
    /// What a layout takes of it.
    Layout(Layout),
    /// An allocation of the shim's, packed or to be unpacked by the convertor.
    Packed(*mut c_void),
}

const CONTIGUOUS: u32 = ffi::OPAL_DATATYPE_FLAG_CONTIGUOUS;
const NO_GAPS: u32 = ffi::OPAL_DATATYPE_FLAG_NO_GAPS;
/// Of a datatype whose elements follow each other without gaps.
const PLAIN: u32 = CONTIGUOUS | NO_GAPS;
const DEVICE: u32 = ffi::RW_CONVERTOR_DEVICE;

impl Buffer {
    #[inline(always)]
    fn users(start: *mut u8, bytes: usize) -> Buffer {
        Buffer { start, bytes, pieces: std::ptr::null_mut() }
    }

    /// What a convertor sends, of most: data in one piece from the base on. `None` of
    /// the others, which [`Buffer::sent`] finds.
    ///
    /// # Safety
    /// `convertor` is one that pml/cm prepared for a send.
    #[inline(always)]
    pub(crate) unsafe fn plainly_sent(convertor: *mut ffi::opal_convertor_t) -> Option<Buffer> {
        // SAFETY: [MPI]. pml/cm may leave a contiguous convertor
        // unprepared: nothing of it but these fields is to be looked at then.
        unsafe {
            let of = &*convertor;
            let of_type = of.pDesc.as_ref()?;
            let plain = of.flags & ffi::CONVERTOR_COMPLETED == 0
                && u32::from(of_type.flags) & PLAIN == PLAIN
                && of_type.true_lb == 0;
            plain.then(|| Buffer::users(of.pBaseBuf, of.local_size))
        }
    }

    /// What a convertor sends.
    ///
    /// # Errors
    /// Open MPI's code.
    ///
    /// # Safety
    /// `convertor` is one that pml/cm prepared for a send.
    #[inline(never)]
    pub(crate) unsafe fn sent(convertor: *mut ffi::opal_convertor_t) -> Result<Buffer, c_int> {
        // SAFETY: [MPI], as in `plainly_sent`.
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
            match Buffer::by_layout(convertor) {
                Some(buffer) => Ok(buffer),
                None => Buffer::packed(convertor, ffi::rw_send_buffer),
            }
        }
    }

    /// Where a convertor's data is received, of most: in one piece. `None` of the
    /// others, for [`Buffer::received`].
    ///
    /// # Safety
    /// `convertor` is one that pml/cm prepared for a receive.
    #[inline(always)]
    pub(crate) unsafe fn plainly_received(convertor: *mut ffi::opal_convertor_t) -> Option<Buffer> {
        const WANTED: u32 = ffi::CONVERTOR_HOMOGENEOUS | NO_GAPS;
        // SAFETY: [MPI]. A description ends with an element for the
        // whole, which says where the first byte is.
        unsafe {
            let of = &*convertor;
            if of.flags & (WANTED | DEVICE) != WANTED || of.local_size == 0 {
                return None;
            }
            let description = &*of.use_desc;
            let end = &*description.desc.add(description.used);
            let start = of.pBaseBuf.wrapping_offset(end.end_loop.first_elem_disp);
            Some(Buffer::users(start, of.local_size))
        }
    }

    /// Where a convertor's data is received.
    ///
    /// # Errors
    /// Open MPI's code.
    ///
    /// # Safety
    /// `convertor` is one that pml/cm prepared for a receive.
    #[inline(never)]
    pub(crate) unsafe fn received(convertor: *mut ffi::opal_convertor_t) -> Result<Buffer, c_int> {
        // SAFETY: [MPI].
        unsafe {
            if let Some(buffer) = Buffer::plainly_received(convertor) {
                return Ok(buffer);
            }
            match Buffer::by_layout(convertor) {
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
        Ok(Buffer::of(start.cast(), bytes, Pieces::Packed(start)))
    }

    fn of(start: *mut u8, bytes: usize, pieces: Pieces) -> Buffer {
        Buffer { start, bytes, pieces: Box::into_raw(Box::new(pieces)) }
    }

    /// What a convertor takes, by its datatype's layout; `None` where it does more
    /// than copy bytes.
    ///
    /// # Safety
    /// \[MPI\], a convertor.
    #[cold]
    #[inline(never)]
    unsafe fn by_layout(convertor: *const ffi::opal_convertor_t) -> Option<Buffer> {
        const OTHERS: u32 = DEVICE | ffi::RW_CONVERTOR_SUMMED | ffi::CONVERTOR_COMPLETED;
        // SAFETY: [MPI]; at this layer a description is that of an Open MPI datatype.
        let (of, layout) = unsafe {
            let of = &*convertor;
            let kind = of.flags & (ffi::CONVERTOR_HOMOGENEOUS | OTHERS);
            if kind != ffi::CONVERTOR_HOMOGENEOUS || of.pDesc.is_null() || of.bConverted != 0 {
                return None;
            }
            (of, datatype::layout(of.pDesc.cast_mut().cast(), of.count)?)
        };
        if of.local_size == 0 || layout.size() != of.local_size as u64 {
            return None;
        }
        Some(Buffer::of(of.pBaseBuf, of.local_size, Pieces::Layout(layout)))
    }

    /// Returns true for one piece of the user's memory.
    pub(crate) fn is_users(&self) -> bool {
        self.pieces.is_null()
    }

    /// The layout, if the message is not in one piece.
    #[inline]
    pub(crate) fn layout(&self) -> Option<&Layout> {
        // SAFETY: null, or the box that came with it.
        match unsafe { self.pieces.as_ref() } {
            Some(Pieces::Layout(layout)) => Some(layout),
            _ => None,
        }
    }
}

impl Pieces {
    /// Puts the first bytes of a packed message where they belong; a layout's are
    /// there.
    ///
    /// # Safety
    /// \[BUF\], of a receive of at least as many bytes with this convertor.
    pub(crate) unsafe fn unpack(
        &self,
        convertor: *mut ffi::opal_convertor_t,
        count: usize,
    ) -> Result<(), c_int> {
        let Pieces::Packed(start) = self else { return Ok(()) };
        // SAFETY: [BUF].
        match unsafe { ffi::rw_unpack(convertor, *start, count) } {
            ffi::SUCCESS => Ok(()),
            rc => Err(rc),
        }
    }
}

impl Drop for Pieces {
    fn drop(&mut self) {
        if let Pieces::Packed(start) = self {
            // SAFETY: an allocation of the shim's, freed once.
            unsafe { ffi::rw_free(*start) };
        }
    }
}
