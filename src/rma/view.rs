//! A mapped window held by value, for loops of puts.

use super::access::{Access, copy};
use super::types::Epoch;
use super::{Error, ErrorKind};
use crate::netmod::Netmod;
use std::marker::PhantomData;

/// A window whose every rank is mapped on this node, as a handful of numbers.
///
/// [`Access::put`] has to read the window's fields again for every put, because
/// for all the compiler knows a store into shared memory may have changed them.
/// A view is a copy in registers: what does not change in a loop is computed
/// once. Otherwise it is [`Access::put`], checks included.
///
/// Made by [`Access::view`] within an epoch; the window cannot be freed while
/// it is held, and a flush of the access covers its puts.
#[derive(Debug)]
pub struct View<'a, N: Netmod> {
    start: *mut u8,
    stride: isize,
    unit: usize,
    ranks: u32,
    bytes: usize,
    max_disp: usize,
    access: PhantomData<&'a Access<N>>,
}

impl<N: Netmod> Clone for View<'_, N> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<N: Netmod> Copy for View<'_, N> {}

impl<N: Netmod> View<'_, N> {
    /// Stores `buf` into the memory of `rank`, `disp` units from its start.
    ///
    /// # Errors
    /// [`ErrorKind::Rank`], [`ErrorKind::OutOfBounds`].
    #[inline]
    pub fn put(&self, buf: &[u8], rank: u32, disp: usize) -> Result<(), Error> {
        let len = buf.len();
        if rank >= self.ranks || disp > self.max_disp || len > self.bytes - disp * self.unit {
            return Err(self.refuse(len, rank, disp));
        }
        // SAFETY: checked just now.
        unsafe { self.put_unchecked(buf.as_ptr(), len, rank, disp) };
        Ok(())
    }

    /// The same without checks.
    ///
    /// # Safety
    /// \[RANK\]: `rank` is less than the size of the access's map; \[TARGET\]: the
    /// target's memory holds `len` bytes from `disp` units on; \[BUF\]: `buf` is
    /// readable for `len` bytes; \[APART\]: it does not overlap them.
    #[inline(always)]
    pub unsafe fn put_unchecked(&self, buf: *const u8, len: usize, rank: u32, disp: usize) {
        let region = (rank as isize).wrapping_mul(self.stride);
        // SAFETY: the regions of all ranks stay mapped while the access is
        // borrowed; [RANK], [TARGET]: the range is in one; [BUF], [APART].
        unsafe { copy(self.start.offset(region).add(disp * self.unit), buf, len) };
    }

    #[cold]
    fn refuse(&self, len: usize, rank: u32, disp: usize) -> Error {
        let (unit, bytes) = (self.unit, self.bytes as u64);
        if rank >= self.ranks {
            return ErrorKind::Rank { rank, size: self.ranks }.into();
        }
        ErrorKind::OutOfBounds { rank, disp, unit, len, bytes }.into()
    }
}

impl<N: Netmod> Access<N> {
    /// The window by value, when every rank's memory is mapped here at an
    /// address affine in the rank ([`Access::is_mapped`]); `None` otherwise.
    ///
    /// # Errors
    /// [`ErrorKind::NoEpoch`], [`ErrorKind::Freed`].
    pub fn view(&self) -> Result<Option<View<'_, N>>, Error> {
        self.check_open()?;
        if matches!(self.epoch(), Epoch::Locks | Epoch::Start) {
            let (open, remedy) = ("an epoch of single ranks is open", "use lock_all or fence");
            return Err(ErrorKind::Epoch { call: "view", open, remedy }.into());
        }
        if !self.is_mapped() {
            return Ok(None);
        }
        let ((start, stride), unit, ranks, bytes, max_disp) = self.view_parts();
        Ok(Some(View { start, stride, unit, ranks, bytes, max_disp, access: PhantomData }))
    }
}
