//! The put: its paths, from the checks to the provider or the store.

use super::{Access, BLOCKING, CAbi, FAILED, LocalPath, NONBLOCKING, PutVtable, path};
use crate::av::{Entry, Transport};
use crate::device::{self, Context, Token};
use crate::netmod::{AGAIN, Netmod, Transfer};
use crate::rankmap::body;
use crate::rma::registration::RemoteKey;
use crate::rma::state::WindowState;
use crate::rma::types::{Remote, Target, unreachable_error};
use crate::rma::{Error, ErrorKind};
use std::ffi::c_void;
use std::rc::Rc;
use std::sync::atomic::{Ordering, compiler_fence};

impl CAbi {
    pub(super) fn new<N: Netmod>(inject_size: usize) -> CAbi {
        let longest = if N::KEY_HANDLES { 0 } else { inject_size };
        CAbi { longest, put: put_c_abi::<N> }
    }
}

/// [`Access::put_unchecked`] for callers that are not Rust. A panic answers
/// [`FAILED`].
///
/// # Safety
/// `access` is alive and this thread's; as [`Access::put_unchecked`].
unsafe extern "C" fn put_c_abi<N: Netmod>(
    access: *const c_void,
    buf: *const u8,
    len: usize,
    rank: u32,
    disp: usize,
) -> isize {
    // SAFETY: the caller's word.
    let put = || unsafe { (*access.cast::<Access<N>>()).put_unchecked(buf, len, rank, disp) };
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(put)).unwrap_or(FAILED)
}

impl<N: Netmod> PutVtable<N> {
    pub(super) fn new(path: u32, body: u32) -> PutVtable<N> {
        match (path, body) {
            (path::INDEXED, body::BLOCK) => PutVtable::indexed::<{ body::BLOCK }>(),
            (path::INDEXED, body::LUT) => PutVtable::indexed::<{ body::LUT }>(),
            (path::INDEXED, body::MLUT) => PutVtable::indexed::<{ body::MLUT }>(),
            (path::INDEXED, _) => PutVtable::indexed::<{ body::OTHER }>(),
            _ => PutVtable {
                unchecked: Access::issue_other::<NONBLOCKING>,
                blocking: Access::put_general::<BLOCKING>,
                nonblocking: Access::put_general::<NONBLOCKING>,
            },
        }
    }

    /// Compiled once for each lookup body, so that no call stands between a
    /// put and its entry.
    fn indexed<const BODY: u32>() -> PutVtable<N> {
        PutVtable {
            unchecked: Access::issue_indexed::<BODY>,
            blocking: Access::put_indexed::<BLOCKING, BODY>,
            nonblocking: Access::put_indexed::<NONBLOCKING, BODY>,
        }
    }
}

impl<N: Netmod> LocalPath<N> {
    pub(super) fn new(
        state: &WindowState<N>,
        context: &Context<N>,
        key: Option<RemoteKey>,
    ) -> LocalPath<N> {
        let provider = context.endpoint(Transport::Local).zip(context.local_inject_handle());
        match (state.mapped, &state.contiguous, provider.zip(key)) {
            (Some(m), None, _) => LocalPath::Mapped { start: m.start, pitch: m.pitch },
            (None, None, Some((((netmod, _), inject_handle), key))) => {
                let inject_size = netmod.caps().inject_size;
                LocalPath::Provider { inject_handle: Rc::clone(inject_handle), inject_size, key }
            }
            _ => LocalPath::General,
        }
    }
}

impl<N: Netmod> Access<N> {
    /// Puts `buf` into the memory of `rank`, `disp` units from its start. The
    /// buffer is free again on return; the bytes are in the target's memory
    /// after a flush.
    ///
    /// # Errors
    /// [`ErrorKind::NoEpoch`], [`ErrorKind::Rank`], [`ErrorKind::OutOfBounds`],
    /// [`ErrorKind::Freed`]; a peer that died or cannot be reached, by name.
    #[inline]
    pub fn put(&self, buf: &[u8], rank: u32, disp: usize) -> Result<(), Error> {
        // SAFETY: a slice is readable; what outlives the call is waited for.
        unsafe { self.put_checked::<BLOCKING>(buf.as_ptr(), buf.len(), rank, disp) }
    }

    /// Puts as [`Access::put`] does, but the buffer belongs to the operation
    /// until the next flush, as MPI_Put has it; long puts then overlap.
    ///
    /// # Errors
    /// As [`Access::put`], and [`ErrorKind::NullBuffer`].
    ///
    /// # Safety
    /// `buf` is null or stays readable for `len` bytes until this access was
    /// flushed for `rank`. A flush that fails does not give it back: a peer may
    /// read it as long as this process lives.
    #[inline]
    pub unsafe fn put_nb(
        &self,
        buf: *const u8,
        len: usize,
        rank: u32,
        disp: usize,
    ) -> Result<(), Error> {
        if buf.is_null() {
            return self.put_null(len, rank, disp);
        }
        // SAFETY: not null; the caller's word for the rest.
        unsafe { self.put_checked::<NONBLOCKING>(buf, len, rank, disp) }
    }

    /// The put of a device layer that has checked everything itself: no test
    /// of epoch, rank, displacement or length.
    ///
    /// Returns 0, [`AGAIN`] (make progress and call again), another negative
    /// error number of the provider, or [`FAILED`].
    ///
    /// # Safety
    /// The window is not freed, `rank` is less than the size of the access's
    /// map, the target's memory holds `len` bytes from `disp` units on, and
    /// `buf` stays readable for `len` bytes until the access was flushed for
    /// `rank`.
    #[inline(always)]
    pub unsafe fn put_unchecked(
        &self,
        buf: *const u8,
        len: usize,
        rank: u32,
        disp: usize,
    ) -> isize {
        // SAFETY: the caller's duty, here and below.
        unsafe {
            if self.path == path::AFFINE {
                let entry = self.lookup.affine_entry(rank as usize);
                return self.issue::<NONBLOCKING>(entry, buf, len, rank, disp, disp * self.unit);
            }
            unlikely();
            if self.path == path::MAPPED {
                return self.issue_mapped(buf, len, rank, disp);
            }
            (self.put_vtable.unchecked)(self, buf, len, rank, disp)
        }
    }

    /// # Safety
    /// `buf` is readable for `len` bytes, if `NB` until the flush.
    #[inline(always)]
    unsafe fn put_checked<const NB: bool>(
        &self,
        buf: *const u8,
        len: usize,
        rank: u32,
        disp: usize,
    ) -> Result<(), Error> {
        if self.gate.get() == path::AFFINE {
            let offset = disp.wrapping_mul(self.unit);
            if self.outside(rank, disp, offset, len) {
                // SAFETY: the caller's duty.
                return unsafe { self.put_general::<NB>(buf, len, rank, disp) };
            }
            // SAFETY: checked just now; the map is affine; the caller's word
            // for the buffer.
            let rc = unsafe {
                let entry = self.lookup.affine_entry(rank as usize);
                self.issue::<NB>(entry, buf, len, rank, disp, offset)
            };
            if rc == 0 {
                return Ok(());
            }
            // SAFETY: the caller's duty.
            return unsafe { self.put_slow::<NB>(buf, len, rank, disp, rc) };
        }
        unlikely();
        if self.gate.get() == path::MAPPED {
            let offset = disp.wrapping_mul(self.unit);
            if !self.outside(rank, disp, offset, len) {
                // SAFETY: checked just now.
                unsafe { self.issue_mapped(buf, len, rank, disp) };
                return Ok(());
            }
        }
        let put = if NB { self.put_vtable.nonblocking } else { self.put_vtable.blocking };
        // SAFETY: the caller's duty.
        unsafe { put(self, buf, len, rank, disp) }
    }

    /// Hands a short put to a network peer to the provider. An empty entry, a
    /// peer on the node and a long or empty put take the general path; because
    /// of the subtraction one test covers both lengths.
    ///
    /// # Safety
    /// As [`Access::put_unchecked`], with uniform metadata, `entry` that of
    /// `rank` and `offset` that of `disp`.
    #[inline(always)]
    unsafe fn issue<const NB: bool>(
        &self,
        entry: u64,
        buf: *const u8,
        len: usize,
        rank: u32,
        disp: usize,
        offset: usize,
    ) -> isize {
        if N::KEY_HANDLES {
            // SAFETY: the caller's word.
            return unsafe { self.issue_keyed::<NB>(entry, buf, len, rank, disp, offset) };
        }
        match N::network(Entry::from_bits(entry)) {
            Some(dest) if len.wrapping_sub(1) < self.inject_size => {
                self.mark(rank);
                let addr = self.base.wrapping_add(offset as u64);
                // SAFETY: the endpoint lives in the context held here; `dest`
                // was inserted; the rest is the caller's word.
                unsafe { N::inject(self.inject_handle, buf, len, dest, addr, self.key) }
            }
            // SAFETY: the caller's word.
            _ => unsafe { self.issue_other::<NB>(buf, len, rank, disp) },
        }
    }

    /// [`Access::issue`] where keys are handles. A rank has one only after it
    /// was inserted, so that one test covers both.
    ///
    /// # Safety
    /// As [`Access::issue`].
    #[inline(always)]
    unsafe fn issue_keyed<const NB: bool>(
        &self,
        entry: u64,
        buf: *const u8,
        len: usize,
        rank: u32,
        disp: usize,
        offset: usize,
    ) -> isize {
        // SAFETY: the table has a place for every rank of the map.
        let remote_key = unsafe { &*self.remote_keys.add(rank as usize) };
        let key = remote_key.key.get();
        if key != 0 && len.wrapping_sub(1) < self.inject_size {
            self.mark(rank);
            let addr = remote_key.base.get().wrapping_add(offset as u64);
            // SAFETY: the key was made for the endpoint in the entry, which a
            // netmod with handles has no other kind of; the endpoint lives in
            // the context held here; the rest is the caller's word.
            let rc = unsafe {
                let dest = N::network(Entry::from_bits(entry)).unwrap_unchecked();
                N::inject_now(self.inject_handle, buf, len, dest, addr, key)
            };
            if rc == 0 {
                return 0;
            }
        }
        // SAFETY: the caller's word.
        unsafe { self.issue_other::<NB>(buf, len, rank, disp) }
    }

    /// A put by stores to a rank whose memory the table says is mapped here.
    ///
    /// # Safety
    /// As [`Access::put_unchecked`], with uniform metadata.
    #[inline(always)]
    unsafe fn issue_by_pointer(
        &self,
        buf: *const u8,
        len: usize,
        rank: u32,
        offset: usize,
    ) -> Option<isize> {
        // SAFETY: the table has a place for every rank of the map.
        let remote_key = unsafe { &*self.remote_keys.add(rank as usize) };
        let base = remote_key.base.get();
        if remote_key.key.get() != 0 || base == 0 {
            return None;
        }
        if !self.marked(rank) {
            self.mark(rank);
        }
        // SAFETY: the target's memory is mapped there, and the range stays
        // within it by the caller's word.
        Some(unsafe { copy((base as *mut u8).add(offset), buf, len) })
    }

    /// [`Access::issue`] for entries found out of line, where a peer whose
    /// region is mapped costs no second look at its entry.
    ///
    /// # Safety
    /// As [`Access::issue`].
    #[inline(always)]
    unsafe fn issue_entry<const NB: bool>(
        &self,
        entry: u64,
        buf: *const u8,
        len: usize,
        rank: u32,
        disp: usize,
        offset: usize,
    ) -> isize {
        if N::KEY_HANDLES {
            // SAFETY: the caller's word.
            return unsafe { self.issue_keyed::<NB>(entry, buf, len, rank, disp, offset) };
        }
        let entry_bits = Entry::from_bits(entry);
        // In this order a network peer costs one test more, no unpacking.
        if N::network(entry_bits).is_none()
            && let LocalPath::Mapped { start, pitch } = &self.local_path
            && let Some((node_rank, Transport::Local)) = N::unpack(entry_bits)
        {
            if !self.marked(rank) {
                self.mark(rank);
            }
            let region = node_rank as usize * pitch;
            // SAFETY: the segment holds a region for every node rank, and the
            // range stays within it by the caller's word.
            return unsafe { copy(start.add(region).add(offset), buf, len) };
        }
        // SAFETY: the caller's word.
        unsafe { self.issue::<NB>(entry, buf, len, rank, disp, offset) }
    }

    /// A put that is a store.
    ///
    /// # Safety
    /// As [`Access::put_unchecked`], on the mapped path.
    #[inline(always)]
    unsafe fn issue_mapped(&self, buf: *const u8, len: usize, rank: u32, disp: usize) -> isize {
        // A second store for each put would halve their rate; a load does not.
        if !self.marked(rank) {
            self.mark(rank);
        }
        let region = (rank as isize).wrapping_mul(self.mapped_stride);
        // SAFETY: the regions of all ranks are mapped while the state lives, and
        // the range stays within one by the caller's word.
        unsafe { copy(self.mapped_start.offset(region).add(disp * self.unit), buf, len) }
    }

    /// Maps that are not affine: out of line, so that the affine path needs no
    /// registers saved around the call that finds the entry.
    ///
    /// # Safety
    /// As [`Access::put_unchecked`].
    unsafe fn issue_indexed<const BODY: u32>(
        &self,
        buf: *const u8,
        len: usize,
        rank: u32,
        disp: usize,
    ) -> isize {
        // SAFETY: the caller's word; `PutVtable::new` chose BODY by the lookup.
        unsafe {
            let entry = self.lookup.entry_by::<BODY>(rank as usize);
            self.issue_entry::<NONBLOCKING>(entry, buf, len, rank, disp, disp * self.unit)
        }
    }

    /// A checked put that is not on one of the two inline paths.
    ///
    /// # Safety
    /// As `put_checked`.
    unsafe fn put_indexed<const NB: bool, const BODY: u32>(
        &self,
        buf: *const u8,
        len: usize,
        rank: u32,
        disp: usize,
    ) -> Result<(), Error> {
        let offset = disp.wrapping_mul(self.unit);
        if self.gate.get() != path::INDEXED || self.outside(rank, disp, offset, len) {
            // SAFETY: the caller's duty.
            return unsafe { self.put_general::<NB>(buf, len, rank, disp) };
        }
        // SAFETY: checked just now; `new` chose BODY by the lookup; the
        // caller's word for the buffer.
        let rc = unsafe {
            let entry = self.lookup.entry_by::<BODY>(rank as usize);
            self.issue_entry::<NB>(entry, buf, len, rank, disp, offset)
        };
        if rc == 0 {
            return Ok(());
        }
        // SAFETY: the caller's duty.
        unsafe { self.put_slow::<NB>(buf, len, rank, disp, rc) }
    }

    /// The general path: peers on the node, first use, long puts, uneven
    /// windows.
    ///
    /// # Safety
    /// As [`Access::put_unchecked`].
    #[inline(never)]
    unsafe fn issue_other<const NB: bool>(
        &self,
        buf: *const u8,
        len: usize,
        rank: u32,
        disp: usize,
    ) -> isize {
        if len == 0 {
            return 0;
        }
        if self.path == path::DYNAMIC {
            self.mark(rank);
            // SAFETY: the caller's word.
            let put = unsafe { self.put_by_packets(buf, len, rank, disp) };
            return put.map_or_else(|e| self.store_error(e), |()| 0);
        }
        // SAFETY: the caller's word.
        if let Some(rc) = unsafe { self.issue_local(buf, len, rank, disp) } {
            return rc;
        }
        let target = match self.target(rank, disp) {
            Ok(target) => target,
            Err(e) => return self.store_error(e),
        };
        self.mark(rank);
        let remote = match target {
            // SAFETY: mapped, and within the region by the caller's word.
            Target::Mapped(to) => return unsafe { copy(to, buf, len) },
            Target::Provider(remote) => remote,
            Target::Unreachable(peer) => return self.store_error(unreachable_error(peer)),
        };
        let (netmod, endpoint) = match self.endpoint(&remote) {
            Ok(endpoint) => endpoint,
            Err(e) => return self.store_error(e),
        };
        if len <= netmod.caps().inject_size {
            let Remote { dest, addr, key, .. } = remote;
            // SAFETY: the caller's word, and `dest` was inserted.
            return unsafe {
                N::inject(N::inject_handle(endpoint), buf, len, dest, addr, key.bits())
            };
        }
        // SAFETY: as above; the buffer is kept by the caller, or not used.
        match unsafe { self.write_long::<NB>(buf, len, &remote) } {
            Ok(()) => 0,
            Err(e) => self.store_error(e),
        }
    }

    /// A put to a peer on this node that was inserted before; `None` when the
    /// general path must be taken.
    ///
    /// # Safety
    /// As [`Access::put_unchecked`].
    #[inline(always)]
    unsafe fn issue_local(
        &self,
        buf: *const u8,
        len: usize,
        rank: u32,
        disp: usize,
    ) -> Option<isize> {
        if self.path == path::MAPPED {
            // SAFETY: the caller's word.
            return Some(unsafe { self.issue_mapped(buf, len, rank, disp) });
        }
        if self.path >= path::GENERAL {
            return None;
        }
        if N::KEY_HANDLES {
            // SAFETY: the caller's word; metadata is uniform.
            return unsafe { self.issue_by_pointer(buf, len, rank, disp * self.unit) };
        }
        // SAFETY: rank is in range by the caller's word.
        let entry = Entry::from_bits(unsafe { self.lookup.entry(rank as usize) });
        let Some((node_rank, Transport::Local)) = N::unpack(entry) else { return None };
        let offset = disp * self.unit;
        match &self.local_path {
            LocalPath::Mapped { start, pitch } => {
                self.mark(rank);
                let region = node_rank as usize * pitch;
                // SAFETY: the segment holds a region for every node rank, and
                // the range stays within it by the caller's word.
                Some(unsafe { copy(start.add(region).add(offset), buf, len) })
            }
            LocalPath::Provider { inject_handle, inject_size, key } if len <= *inject_size => {
                let dest = self.context.device().local_address(node_rank as u32)?;
                self.mark(rank);
                // SAFETY: `dest` was inserted; the rest is the caller's word.
                Some(unsafe {
                    N::inject(inject_handle.get(), buf, len, dest, offset as u64, key.bits())
                })
            }
            LocalPath::Provider { .. } | LocalPath::General => None,
        }
    }

    /// Stores an error for [`Access::take_error`].
    #[cold]
    fn store_error(&self, error: Error) -> isize {
        *self.error.borrow_mut() = Some(error);
        FAILED
    }

    /// The error behind the last [`FAILED`].
    #[cold]
    pub fn take_error(&self) -> Option<Error> {
        self.error.borrow_mut().take()
    }

    /// Issues a tracked write in pieces the provider takes. Without `NB` the
    /// bytes go through bounce memory, and the buffer is the caller's on return.
    ///
    /// # Safety
    /// As [`Access::put_unchecked`].
    unsafe fn write_long<const NB: bool>(
        &self,
        buf: *const u8,
        len: usize,
        remote: &Remote,
    ) -> Result<(), Error> {
        let longest = self.endpoint(remote)?.0.caps().max_message;
        let longest = if NB { longest } else { longest.min(device::PIECE) };
        let mut at = 0;
        while at < len {
            let piece = (len - at).min(longest);
            let place = Remote { addr: remote.addr + at as u64, ..*remote };
            // SAFETY: at < len.
            let from = unsafe { buf.add(at) };
            if NB {
                // SAFETY: the caller keeps the buffer.
                unsafe { self.write_piece(&place, from, piece, false)? };
            } else {
                let mut bounce = self.cold.bounce_pool.take(piece);
                // SAFETY: both hold the piece; the bounce memory is leaked if
                // this fails.
                let token = unsafe {
                    bounce.start().copy_from_nonoverlapping(from, piece);
                    self.write_piece(&place, bounce.start(), piece, true)?
                };
                self.await_token(token, remote.peer)?;
                self.cold.bounce_pool.put_back(bounce);
            }
            at += piece;
        }
        Ok(())
    }

    /// Issues one tracked write.
    ///
    /// # Safety
    /// `from` stays readable for `len` bytes until the token came back.
    unsafe fn write_piece(
        &self,
        remote: &Remote,
        from: *const u8,
        len: usize,
        awaited: bool,
    ) -> Result<Token, Error> {
        self.issue_tracked(remote, N::CALLS.write, awaited, |netmod, endpoint, token| {
            let Remote { dest, addr, key, .. } = *remote;
            let op = Transfer { buf: from, len, dest, addr, key: key.bits(), token };
            // SAFETY: the caller's duty.
            unsafe { netmod.write(endpoint, op) }
        })
    }

    /// A put that is on none of the inline paths, or did not pass their checks:
    /// everything is checked, and it takes any path.
    ///
    /// # Safety
    /// As `put_checked`.
    #[cold]
    #[inline(never)]
    unsafe fn put_general<const NB: bool>(
        &self,
        buf: *const u8,
        len: usize,
        rank: u32,
        disp: usize,
    ) -> Result<(), Error> {
        self.check(rank, disp, len)?;
        // SAFETY: checked just now; the caller's duty.
        match unsafe { self.issue_other::<NB>(buf, len, rank, disp) } {
            0 => Ok(()),
            // SAFETY: the caller's duty.
            rc => unsafe { self.put_slow::<NB>(buf, len, rank, disp, rc) },
        }
    }

    /// Finishes a put that was not issued at once, or returns why it cannot be.
    ///
    /// # Safety
    /// As `put_checked`.
    #[cold]
    #[inline(never)]
    unsafe fn put_slow<const NB: bool>(
        &self,
        buf: *const u8,
        len: usize,
        rank: u32,
        disp: usize,
        rc: isize,
    ) -> Result<(), Error> {
        self.check(rank, disp, len)?;
        let mut rc = rc;
        if rc == AGAIN {
            // SAFETY: checked above; the caller's word for the buffer.
            let again = || unsafe { self.issue_other::<NB>(buf, len, rank, disp) };
            rc = self.context.until_taken(self.world_rank(rank)?, again)?;
        }
        match rc {
            0 => Ok(()),
            FAILED => {
                let lost = || ErrorKind::Arguments("the error of a put was lost".into()).into();
                Err(self.take_error().unwrap_or_else(lost))
            }
            rc => Err(match self.target(rank, disp)? {
                Target::Provider(remote) => self.provider_error(&remote, N::CALLS.inject, rc),
                Target::Mapped(_) | Target::Unreachable(_) => {
                    unreachable_error(self.world_rank(rank)?)
                }
            }),
        }
    }

    /// A null buffer puts nothing, or is refused.
    #[cold]
    fn put_null(&self, len: usize, rank: u32, disp: usize) -> Result<(), Error> {
        self.check(rank, disp, len)?;
        if len == 0 { Ok(()) } else { Err(ErrorKind::NullBuffer { len }.into()) }
    }
}

/// Tells the compiler that the branch it stands in is the unlikely one.
#[cold]
#[inline(always)]
fn unlikely() {}

/// Copies between a buffer and a window's memory and answers 0, as a put does.
/// The fence keeps each put an event of its own: peers share the memory.
///
/// # Safety
/// Both sides hold `len` bytes and do not overlap.
#[inline(always)]
pub(in crate::rma) unsafe fn copy(to: *mut u8, from: *const u8, len: usize) -> isize {
    if len != 8 {
        unlikely();
        // SAFETY: the caller's duty.
        return unsafe { copy_any(to, from, len) };
    }
    // SAFETY: eight bytes on both sides, at any alignment.
    unsafe { to.cast::<u64>().write_unaligned(from.cast::<u64>().read_unaligned()) };
    compiler_fence(Ordering::Release);
    0
}

/// # Safety
/// As [`copy`].
#[inline(never)]
unsafe fn copy_any(to: *mut u8, from: *const u8, len: usize) -> isize {
    // SAFETY: the caller's duty.
    unsafe { std::ptr::copy_nonoverlapping(from, to, len) };
    0
}
