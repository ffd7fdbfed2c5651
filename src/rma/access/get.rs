//! The get.

use super::{Access, BLOCKING, NONBLOCKING, copy, path};
use crate::netmod::{Netmod, Transfer};
use crate::rma::types::{Remote, Target, unreachable_error};
use crate::rma::{Error, ErrorKind};
use crate::track::Kind;

impl<N: Netmod> Access<N> {
    /// Gets `buf.len()` bytes from the memory of `rank`, `disp` units from its
    /// start. They are in `buf` on return.
    ///
    /// # Errors
    /// As [`Access::put`].
    pub fn get(&self, buf: &mut [u8], rank: u32, disp: usize) -> Result<(), Error> {
        self.check(rank, disp, buf.len())?;
        // SAFETY: checked; `buf` is exclusively ours until the return.
        unsafe { self.read::<BLOCKING>(buf.as_mut_ptr(), buf.len(), rank, disp) }
    }

    /// Gets as [`Access::get`] does, but the bytes are in `buf` only after the
    /// next flush, as MPI_Get has it.
    ///
    /// # Errors
    /// As [`Access::get`], and [`ErrorKind::NullBuffer`].
    ///
    /// # Safety
    /// \[INTO\]: `buf` is null or stays writable for `len` bytes, and untouched,
    /// until this access was flushed for `rank`. A flush that fails does not give
    /// it back: a peer may write to it as long as this process lives. \[APART\].
    pub unsafe fn get_nb(
        &self,
        buf: *mut u8,
        len: usize,
        rank: u32,
        disp: usize,
    ) -> Result<(), Error> {
        if buf.is_null() && len > 0 {
            return Err(ErrorKind::NullBuffer { len }.into());
        }
        self.check(rank, disp, len)?;
        // SAFETY: [RANK], [TARGET]: checked; [INTO], [APART].
        unsafe { self.read::<NONBLOCKING>(buf, len, rank, disp) }
    }

    /// The get of a device layer that has checked everything itself, from the rank that
    /// was spoken to last and by one call of the provider. Returns false where there is
    /// more to it, and nothing has happened: [`Access::get_nb`] is to begin it.
    ///
    /// # Safety
    /// \[LIVE\]: the window is not freed; \[RANK\]: `rank` is less than the size of
    /// the access's map; \[TARGET\]: the target's memory holds `len` bytes from
    /// `disp` units on; \[INTO\]: `buf` stays writable for `len` bytes, and untouched,
    /// until the access was flushed for `rank`; \[APART\].
    #[inline]
    pub unsafe fn get_unchecked(&self, buf: *mut u8, len: usize, rank: u32, disp: usize) -> bool {
        // SAFETY: [RANK], [TARGET], [INTO], [APART].
        self.path < path::PACKETS && len > 0 && unsafe { self.read_again(buf, len, rank, disp) }
    }

    /// # Safety
    /// \[RANK\], \[TARGET\]: they were checked; \[INTO\]: `buf` is writable for `len`
    /// bytes, if `NB` until the flush; \[APART\].
    unsafe fn read<const NB: bool>(
        &self,
        buf: *mut u8,
        len: usize,
        rank: u32,
        disp: usize,
    ) -> Result<(), Error> {
        if self.path >= path::PACKETS {
            // SAFETY: [RANK], [TARGET], [INTO], [APART].
            return unsafe { self.read_elsewhere::<NB>(buf, len, rank, disp) };
        }
        // SAFETY: [RANK], [TARGET], [INTO], [APART].
        unsafe { self.read_target::<NB>(buf, len, rank, disp) }
    }

    /// [`Access::read`] by packets, or recorded.
    ///
    /// # Safety
    /// As there.
    #[cold]
    #[inline(never)]
    unsafe fn read_elsewhere<const NB: bool>(
        &self,
        buf: *mut u8,
        len: usize,
        rank: u32,
        disp: usize,
    ) -> Result<(), Error> {
        self.recorded(Kind::Get, rank, len, || {
            if self.own_path != path::PACKETS {
                // SAFETY: [RANK], [TARGET], [INTO], [APART].
                return unsafe { self.read_target::<NB>(buf, len, rank, disp) };
            }
            if len == 0 {
                return Ok(());
            }
            self.mark(rank);
            // SAFETY: [INTO], until the flush if `NB`.
            unsafe { self.get_in_packets::<NB>(buf, len, rank, disp) }
        })
    }

    /// [`Access::read`] of memory that is reached without packets.
    ///
    /// # Safety
    /// As there.
    #[inline]
    unsafe fn read_target<const NB: bool>(
        &self,
        buf: *mut u8,
        len: usize,
        rank: u32,
        disp: usize,
    ) -> Result<(), Error> {
        // SAFETY: [TARGET]; [INTO], until the flush.
        if len == 0 || NB && unsafe { self.read_again(buf, len, rank, disp) } {
            return Ok(());
        }
        let target = self.target(rank, disp)?;
        self.mark(rank);
        match target {
            Target::Mapped(from) => {
                // SAFETY: mapped; [TARGET]: checked; [INTO], [APART].
                let _ = unsafe { copy(buf, from, len) };
                // (One that is done on return may be made again until it finds something.)
                if NB { Ok(()) } else { self.count_mapped_call(rank) }
            }
            // SAFETY: [TARGET]; [INTO], until the flush if `NB`.
            Target::Provider(remote) => unsafe {
                self.transfer_long::<NB>(buf, len, &remote, false)
            },
            Target::Unreachable(peer) => Err(unreachable_error(peer)),
        }
    }

    /// Reads from the rank that was found last, by one call of the provider, which takes it
    /// at once. Returns false otherwise, and nothing has happened.
    ///
    /// # Safety
    /// \[TARGET\]: the target holds `len` bytes there; \[INTO\], until the flush.
    #[inline(never)]
    unsafe fn read_again(&self, buf: *mut u8, len: usize, rank: u32, disp: usize) -> bool {
        let Some(remote) = self.target_again(rank, disp) else { return false };
        let Some((netmod, endpoint)) = self.context.endpoint(remote.transport) else {
            return false;
        };
        if len > netmod.caps().max_message {
            return false;
        }
        let token = self.context.token(remote.peer);
        let Remote { dest, addr, .. } = remote;
        let op = Transfer { buf, len, dest, addr, key: remote.key.bits(), token: token.bits() };
        // SAFETY: [TARGET]; [INTO], until the token came back; the target was found, so
        // inserted.
        if unsafe { netmod.read(endpoint, op) } != 0 {
            return false;
        }
        self.mark(rank);
        self.context.issued(token, false);
        true
    }
}
