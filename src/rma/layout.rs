//! Noncontiguous operations: put and get with a layout at either end.
//!
//! How they travel is in `transfer`.

use super::access::Access;
use super::request::Pending;
use super::transfer::{LocalCompletion, Operation};
use super::{Error, ErrorKind};
use crate::datatype::Layout;
use crate::netmod::Netmod;
use crate::track::Kind;

impl<N: Netmod> Access<N> {
    /// Puts the bytes that `from` takes of `memory`, with byte `origin` of it as
    /// origin, to where `to` has them in the memory of `rank`, with `disp` units as
    /// origin. Bytes are paired in the order of the packed streams. `memory` is free
    /// again on return; the bytes are in the target's after a flush. A target layout
    /// takes no byte twice.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// use rankway::datatype::{Basic, Layout};
    /// use rankway::rma::{Communicator, Window};
    ///
    /// # let boot = Arc::new(rankway::boot::alone::Alone::new()?);
    /// # let context = rankway::device::open_null(boot)?;
    /// let world = Communicator::world(&context);
    /// let mut window = Window::allocate(&world, 64, 1)?;
    /// // A row becomes a column of a matrix of 8 columns.
    /// let row = Layout::contiguous(8, &Layout::basic(Basic::U8))?;
    /// let column = Layout::vector(8, 1, 8, &Layout::basic(Basic::U8))?;
    /// window.lock_all()?;
    /// window.put_layout(&[7; 8], 0, &row, 0, 3, &column)?;
    /// window.flush(0)?;
    /// let mut second = [0; 8];
    /// window.get(&mut second, 0, 8)?;
    /// assert_eq!(second, [0, 0, 0, 7, 0, 0, 0, 0]);
    /// window.unlock_all()?;
    /// window.free()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Access::put`]; [`ErrorKind::LayoutOutOfBounds`] for a target layout that
    /// leaves the window, [`ErrorKind::Layout`] for one that leaves `memory`,
    /// [`ErrorKind::Arguments`] where the two differ in bytes.
    pub fn put_layout(
        &self,
        memory: &[u8],
        origin: usize,
        from: &Layout,
        rank: u32,
        disp: usize,
        to: &Layout,
    ) -> Result<(), Error> {
        let start = origin_in(memory, origin, from)?;
        let operation = Operation::write(start, from, rank, disp, to);
        self.recorded(Kind::Put, rank, from.size() as usize, || {
            // SAFETY: within the slice.
            unsafe { self.transfer_layout(&operation, LocalCompletion::Return) }
        })
    }

    /// [`Access::put_layout`], the memory the operation's until the request was
    /// waited for or the access flushed for `rank`.
    ///
    /// # Errors
    /// As [`Access::put_layout`], and [`ErrorKind::NullBuffer`].
    ///
    /// # Safety
    /// \[BUF\]: `origin` is null or the bytes of `from` around it readable until then;
    /// \[APART\].
    pub unsafe fn rput_layout(
        &self,
        origin: *const u8,
        from: &Layout,
        rank: u32,
        disp: usize,
        to: &Layout,
    ) -> Result<Pending<'_, N>, Error> {
        self.recorded(Kind::Rput, rank, from.size() as usize, || {
            // SAFETY: [BUF], or null, until the end of the request; [APART].
            unsafe { self.request_layout(&Operation::write(origin, from, rank, disp, to)) }
        })
    }

    /// [`Access::rput_layout`] without a request: the flush waits.
    ///
    /// # Errors
    /// As [`Access::rput_layout`].
    ///
    /// # Safety
    /// \[BUF\]: `origin` is null or the bytes of `from` around it readable until the
    /// access was flushed for `rank`; \[APART\].
    pub unsafe fn put_layout_nb(
        &self,
        origin: *const u8,
        from: &Layout,
        rank: u32,
        disp: usize,
        to: &Layout,
    ) -> Result<(), Error> {
        let operation = Operation::write(origin, from, rank, disp, to);
        self.recorded(Kind::Put, rank, from.size() as usize, || {
            // SAFETY: [BUF], or null, until the flush; [APART].
            unsafe { self.transfer_layout(&operation, LocalCompletion::Flush) }
        })
    }

    /// Gets the bytes that `from` takes of the memory of `rank`, with `disp` units as
    /// origin, to where `to` has them in `memory`; they are there on return. Bytes
    /// between them stay as they are.
    ///
    /// # Errors
    /// As [`Access::put_layout`].
    pub fn get_layout(
        &self,
        memory: &mut [u8],
        origin: usize,
        to: &Layout,
        rank: u32,
        disp: usize,
        from: &Layout,
    ) -> Result<(), Error> {
        to.check(memory.len(), origin).map_err(ErrorKind::Layout)?;
        let start = memory.as_mut_ptr().wrapping_add(origin);
        let operation = Operation::read(start, to, rank, disp, from);
        self.recorded(Kind::Get, rank, to.size() as usize, || {
            // SAFETY: within the slice.
            unsafe { self.transfer_layout(&operation, LocalCompletion::Return) }
        })
    }

    /// [`Access::get_layout`], the bytes there when the request was waited for or
    /// the access flushed for `rank`.
    ///
    /// # Errors
    /// As [`Access::get_layout`], and [`ErrorKind::NullBuffer`].
    ///
    /// # Safety
    /// \[INTO\]: `origin` is null or the bytes of `to` around it stay writable, and
    /// untouched, until then; \[APART\].
    pub unsafe fn rget_layout(
        &self,
        origin: *mut u8,
        to: &Layout,
        rank: u32,
        disp: usize,
        from: &Layout,
    ) -> Result<Pending<'_, N>, Error> {
        self.recorded(Kind::Rget, rank, to.size() as usize, || {
            // SAFETY: [INTO], or null, until the end of the request; [APART].
            unsafe { self.request_layout(&Operation::read(origin, to, rank, disp, from)) }
        })
    }

    /// [`Access::rget_layout`] without a request: the bytes are there after a
    /// flush.
    ///
    /// # Errors
    /// As [`Access::rget_layout`].
    ///
    /// # Safety
    /// \[INTO\]: `origin` is null or the bytes of `to` around it stay writable, and
    /// untouched, until the access was flushed for `rank`; \[APART\].
    pub unsafe fn get_layout_nb(
        &self,
        origin: *mut u8,
        to: &Layout,
        rank: u32,
        disp: usize,
        from: &Layout,
    ) -> Result<(), Error> {
        let operation = Operation::read(origin, to, rank, disp, from);
        self.recorded(Kind::Get, rank, to.size() as usize, || {
            // SAFETY: [INTO], or null, until the flush; [APART].
            unsafe { self.transfer_layout(&operation, LocalCompletion::Flush) }
        })
    }

    /// Puts with a request of its own: MPI_Rput.
    ///
    /// # Errors
    /// As [`Access::put_nb`].
    ///
    /// # Safety
    /// \[BUF\]: `buf` is null or readable for `len` bytes until the request was
    /// waited for or the access flushed for `rank`; \[APART\].
    pub unsafe fn rput(
        &self,
        buf: *const u8,
        len: usize,
        rank: u32,
        disp: usize,
    ) -> Result<Pending<'_, N>, Error> {
        self.recorded(Kind::Rput, rank, len, || {
            // SAFETY: [BUF], or null; [APART].
            unsafe { self.request_bytes(buf.cast_mut(), len, rank, disp, true) }
        })
    }

    /// Gets with a request of its own, whose end brings the bytes: MPI_Rget.
    ///
    /// # Errors
    /// As [`Access::get_nb`].
    ///
    /// # Safety
    /// \[INTO\]: `buf` is null or stays writable for `len` bytes, and untouched,
    /// until the request was waited for or the access flushed for `rank`;
    /// \[APART\].
    pub unsafe fn rget(
        &self,
        buf: *mut u8,
        len: usize,
        rank: u32,
        disp: usize,
    ) -> Result<Pending<'_, N>, Error> {
        self.recorded(Kind::Rget, rank, len, || {
            // SAFETY: [INTO], or null; [APART].
            unsafe { self.request_bytes(buf, len, rank, disp, false) }
        })
    }
}

/// Byte `origin` of memory that holds a layout with it as origin.
pub(super) fn origin_in(memory: &[u8], origin: usize, layout: &Layout) -> Result<*const u8, Error> {
    layout.check(memory.len(), origin).map_err(ErrorKind::Layout)?;
    Ok(memory.as_ptr().wrapping_add(origin))
}
