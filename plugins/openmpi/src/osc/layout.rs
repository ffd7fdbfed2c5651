//! Open MPI's datatypes as iov lists.
//!
//! The order is that of the type map, in which MPI pairs the bytes of origin and
//! target.
//!
//! Never copies data but within buffers of this process.

use crate::{datatype, ffi};
use rankway::datatype::Layout;

/// `count` instances of a datatype in memory.
#[derive(Debug)]
pub(super) struct Iov {
    layout: Layout,
    /// Displacement from [`Iov::low`] and bytes, in the type map's order.
    pub(super) list: Vec<(usize, usize)>,
    /// The lowest displacement from the buffer's address; may be negative.
    pub(super) low: isize,
    /// Bytes of all blocks.
    pub(super) bytes: usize,
}

impl Iov {
    /// `None` for a datatype whose offsets no layout has.
    ///
    /// # Safety
    /// \[MPI\]
    pub(super) unsafe fn new(ty: *mut ffi::ompi_datatype_t, count: usize) -> Option<Iov> {
        // SAFETY: [MPI].
        let layout = unsafe { datatype::layout(ty, count)? };
        let low = layout.true_bounds().map_or(0, |(low, _)| low);
        let mut list = Vec::new();
        layout.for_each_block(|at, len| list.push(((at - low) as usize, len as usize)));
        let bytes = layout.size() as usize;
        Some(Iov { layout, list, low: low as isize, bytes })
    }

    /// Returns true if all bytes lie side by side.
    pub(super) fn is_one(&self) -> bool {
        self.list.len() == 1
    }

    /// The bytes at `from`, one behind the other.
    ///
    /// # Safety
    /// \[BUF\]
    pub(super) unsafe fn gather(&self, from: *const u8) -> Vec<u8> {
        let mut out = vec![0; self.bytes];
        // SAFETY: [BUF].
        unsafe { self.layout.pack_raw(from, 0, &mut out) };
        out
    }

    /// Puts bytes where they belong at `to`.
    ///
    /// # Safety
    /// \[BUF\]
    pub(super) unsafe fn scatter(&self, from: &[u8], to: *mut u8) {
        // SAFETY: [BUF].
        unsafe { self.layout.unpack_raw(to, 0, from) };
    }
}
