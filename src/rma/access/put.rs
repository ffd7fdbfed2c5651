//! The put: its paths, from the checks to the provider or the store.
//!
//! # Contracts
//! Beside those of [`crate::rma`]:
//!
//! - **\[PUT\]** What [`Access::put_unchecked`] asks for: \[LIVE\], \[RANK\], \[TARGET\],
//!   \[BUF\] and \[APART\].
//! - **\[PATH\]** A body runs for an access whose table of paths has it: metadata is
//!   uniform, and `BODY` the lookup's, or [`LINE`] where all memory is mapped at a line.
//! - **\[SHORT\]** The put is short as the inject target has it ([`InjectTarget::is_short`]),
//!   and the provider takes short puts.
//! - **\[SIDES\]** Both sides of a copy hold `len` bytes and do not overlap.

mod choice;
mod in_c;

pub(super) use in_c::put_in_c;

use super::{Access, BLOCKING, FAILED, INJECTED, LocalPath, NONBLOCKING, TRACKED, path};
use crate::av::{Entry, Transport};
use crate::device::Context;
use crate::netmod::{AGAIN, Netmod};
use crate::rankmap::body::AFFINE;
use crate::rma::registration::RemoteKey;
use crate::rma::state::WindowState;
use crate::rma::types::{Remote, Target, unreachable_error};
use crate::rma::{Error, ErrorKind};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::{Ordering, compiler_fence};

/// Instead of a lookup's body: every rank's memory is mapped at a line over the
/// ranks, and no entry is looked at.
const LINE: u32 = u32::MAX;

/// A body tests the length.
const ANY: bool = false;
/// The caller did: \[SHORT\].
const SHORT: bool = true;

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
    /// [`ErrorKind::Freed`]; a peer that died or cannot be reached, by name. (Memory that
    /// is mapped here outlives its process: a flush tells, and what may wait in a loop.)
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
    /// \[BUF\]: `buf` is null or stays readable for `len` bytes until this access
    /// was flushed for `rank`. A flush that fails does not give it back: a peer
    /// may read it as long as this process lives. \[APART\].
    #[inline]
    pub unsafe fn put_nb(
        &self,
        buf: *const u8,
        len: usize,
        rank: u32,
        disp: usize,
    ) -> Result<(), Error> {
        if buf.is_null() {
            unlikely();
            // SAFETY: null: it is refused, unless it has no bytes.
            return unsafe { self.put_general::<NONBLOCKING>(buf, len, rank, disp, AGAIN) };
        }
        // SAFETY: [BUF], for it is not null; [APART].
        unsafe { self.put_checked::<NONBLOCKING>(buf, len, rank, disp) }
    }

    /// The put of a device layer that has checked everything itself: no test
    /// of epoch, rank, displacement or length.
    ///
    /// Returns 0; [`AGAIN`], for which the provider has no space now; another negative
    /// error number of the provider; or [`FAILED`] (see [`Access::take_error`]). Whatever
    /// is not 0, [`Access::put_nb`] then does the same put: it makes progress until there
    /// is space, and says what is wrong, a peer that died by its rank. (In a loop of
    /// [`progress`](crate::device::Context::progress) and this again nobody asks for the
    /// peer's life.)
    ///
    /// # Safety
    /// \[LIVE\]: the window is not freed; \[RANK\]: `rank` is less than the size of
    /// the access's map; \[TARGET\]: the target's memory holds `len` bytes from
    /// `disp` units on; \[BUF\]: `buf` stays readable for `len` bytes until the
    /// access was flushed for `rank`; \[APART\]: it does not overlap them.
    #[inline(always)]
    pub unsafe fn put_unchecked(
        &self,
        buf: *const u8,
        len: usize,
        rank: u32,
        disp: usize,
    ) -> isize {
        // SAFETY: [PUT]; [PATH]: the table chose the path by window and map.
        unsafe {
            if self.path == path::AFFINE {
                return self.issue::<NONBLOCKING, AFFINE, ANY>(buf, len, rank, disp, None);
            }
            unlikely();
            if self.stores {
                return self.issue::<NONBLOCKING, LINE, ANY>(buf, len, rank, disp, None);
            }
            (self.put_vtable.nonblocking)(self, buf, len, rank, disp)
        }
    }

    /// # Safety
    /// \[BUF\]: `buf` is readable for `len` bytes, if `NB` until the flush;
    /// \[APART\].
    #[inline(always)]
    unsafe fn put_checked<const NB: bool>(
        &self,
        buf: *const u8,
        len: usize,
        rank: u32,
        disp: usize,
    ) -> Result<(), Error> {
        // SAFETY: [LIVE], [RANK], [PATH]: the gate is open, which it is by window and map,
        // to this rank; [BUF], [APART].
        unsafe {
            if rank < self.ranks_open::<{ path::AFFINE }>() {
                return self.put_short::<NB, AFFINE>(buf, len, rank, disp);
            }
            unlikely();
            if rank < self.ranks_open::<{ path::MAPPED }>() {
                return self.put_mapped::<NB>(buf, len, rank, disp);
            }
            if rank < self.ranks_open::<{ path::INDEXED }>()
                && self.inject_target.is_short(disp, len)
            {
                let vtable = &self.put_vtable;
                let put = if NB { vtable.short_nonblocking } else { vtable.short_blocking };
                let issued = Issued { access: self, buf, len, rank, disp };
                let rc = put(self, buf, len, rank, disp);
                if rc == 0 {
                    return Ok(());
                }
                unlikely();
                return issued.answered::<NB>(rc);
            }
            self.put_not_inline::<NB>(buf, len, rank, disp)
        }
    }

    /// Puts what no inline path has let through: through a map that is not affine any
    /// number of bytes, else [`Access::put_general`].
    ///
    /// # Safety
    /// \[BUF\], \[APART\], as `put_checked`.
    #[inline(never)]
    unsafe fn put_not_inline<const NB: bool>(
        &self,
        buf: *const u8,
        len: usize,
        rank: u32,
        disp: usize,
    ) -> Result<(), Error> {
        let offset = disp.wrapping_mul(self.inject_target.unit());
        let open = rank < self.ranks_open::<{ path::INDEXED }>();
        // SAFETY: [LIVE], [RANK], [PATH]: the gate is open to this rank; [TARGET]: checked;
        // [BUF], [APART].
        unsafe {
            let rc = if open && !self.outside(disp, offset, len) {
                let vtable = &self.put_vtable;
                let put = if NB { vtable.nonblocking } else { vtable.blocking };
                put(self, buf, len, rank, disp)
            } else {
                AGAIN
            };
            if rc == 0 {
                return Ok(());
            }
            self.put_general::<NB>(buf, len, rank, disp, rc)
        }
    }

    /// Checks the range and hands a short put to a network peer to the provider; what is
    /// not that is [`Access::put_any`]'s.
    ///
    /// # Safety
    /// \[LIVE\], \[RANK\], \[PATH\]; \[BUF\], \[APART\], as `put_checked`.
    #[inline(always)]
    unsafe fn put_short<const NB: bool, const BODY: u32>(
        &self,
        buf: *const u8,
        len: usize,
        rank: u32,
        disp: usize,
    ) -> Result<(), Error> {
        if N::KEY_HANDLES {
            // SAFETY: the caller's.
            return unsafe { self.put_any::<NB, BODY>(buf, len, rank, disp) };
        }
        if self.inject_target.is_short(disp, len) {
            // SAFETY: [RANK]; [PATH]: the body is the lookup's.
            let entry = Entry::from_bits(unsafe { self.lookup.entry_by::<BODY>(rank as usize) });
            if let Some(dest) = N::network(entry) {
                let issued = Issued { access: self, buf, len, rank, disp };
                self.mark_of(rank).set(INJECTED);
                let target = &self.inject_target;
                // SAFETY: it is; on this path the provider takes short puts.
                let key = unsafe { target.key_of_short() };
                let addr = target.address(disp.wrapping_mul(target.unit()));
                // SAFETY: the endpoint lives in the context held here; `dest` was
                // inserted; [LIVE]; [TARGET]: a short put, so in range; [BUF].
                let rc = unsafe { N::inject(self.inject_handle, buf, len, dest, addr, key.bits()) };
                if rc == 0 {
                    return Ok(());
                }
                unlikely();
                // SAFETY: [BUF], [APART].
                return unsafe { issued.answered::<NB>(rc) };
            }
        }
        unlikely();
        // SAFETY: the caller's.
        unsafe { self.put_any_called::<NB, BODY>(buf, len, rank, disp) }
    }

    /// [`Access::put_any`] out of line.
    ///
    /// # Safety
    /// The same.
    #[inline(never)]
    unsafe fn put_any_called<const NB: bool, const BODY: u32>(
        &self,
        buf: *const u8,
        len: usize,
        rank: u32,
        disp: usize,
    ) -> Result<(), Error> {
        // SAFETY: the caller's.
        unsafe { self.put_any::<NB, BODY>(buf, len, rank, disp) }
    }

    /// Checks the range and puts any number of bytes to any peer.
    ///
    /// # Safety
    /// \[LIVE\], \[RANK\], \[PATH\]; \[BUF\], \[APART\], as `put_checked`.
    #[inline(always)]
    unsafe fn put_any<const NB: bool, const BODY: u32>(
        &self,
        buf: *const u8,
        len: usize,
        rank: u32,
        disp: usize,
    ) -> Result<(), Error> {
        let offset = disp.wrapping_mul(self.inject_target.unit());
        // SAFETY: [LIVE], [RANK], [PATH]; [TARGET]: checked; [BUF], [APART].
        unsafe {
            if self.outside(disp, offset, len) {
                unlikely();
                return self.put_general::<NB>(buf, len, rank, disp, AGAIN);
            }
            let rc = self.issue::<NB, BODY, ANY>(buf, len, rank, disp, Some(offset));
            if rc == 0 {
                return Ok(());
            }
            unlikely();
            self.put_general::<NB>(buf, len, rank, disp, rc)
        }
    }

    /// Checks the range and stores into memory that is mapped at a line over the ranks:
    /// eight bytes, or what [`Access::put_any`] does.
    ///
    /// # Safety
    /// \[LIVE\], \[RANK\], \[PATH\]; \[BUF\], \[APART\], as `put_checked`.
    #[inline(always)]
    unsafe fn put_mapped<const NB: bool>(
        &self,
        buf: *const u8,
        len: usize,
        rank: u32,
        disp: usize,
    ) -> Result<(), Error> {
        // SAFETY: [LIVE], [RANK], [PATH]; [TARGET]: checked; [BUF], [APART].
        unsafe {
            if len == size_of::<u64>() && disp < self.word_disps {
                let _ = self.issue::<NB, LINE, ANY>(buf, size_of::<u64>(), rank, disp, None);
                return Ok(());
            }
            unlikely();
            self.put_any_called::<NB, LINE>(buf, len, rank, disp)
        }
    }

    /// Puts by the body of one path: looks at the rank's entry and hands a short
    /// put to a network peer to the provider, or stores into mapped memory.
    /// Compiled once for each row of the table. First use, a long or empty put
    /// and what else is reached on the node are [`Access::issue_general`]'s;
    /// because of the subtraction one test covers both lengths. `offset` is that
    /// of `disp`, where the caller has it.
    ///
    /// # Safety
    /// \[PUT\], \[BUF\] until the return unless `NB`; \[PATH\]; \[SHORT\] if `SHORT_ONLY`.
    #[inline(always)]
    unsafe fn issue<const NB: bool, const BODY: u32, const SHORT_ONLY: bool>(
        &self,
        buf: *const u8,
        len: usize,
        rank: u32,
        disp: usize,
        offset: Option<usize>,
    ) -> isize {
        if BODY == LINE {
            let region = (rank as isize).wrapping_mul(self.mapped_stride);
            // SAFETY: [PATH], [LIVE]: the regions of all ranks are mapped while the
            // state lives; [RANK], [TARGET]: the range is in one; [BUF], [APART].
            return unsafe {
                let offset = offset.unwrap_or_else(|| disp * self.inject_target.unit());
                let to = self.mapped_start.offset(region).add(offset);
                store(self.mark_of(rank), to, buf, len)
            };
        }
        // The entry first, the offset where it is used: what is computed before
        // takes registers meanwhile.
        // SAFETY: [RANK]; [PATH]: the body is the lookup's.
        let entry = Entry::from_bits(unsafe { self.lookup.entry_by::<BODY>(rank as usize) });
        let offset = || offset.unwrap_or_else(|| disp * self.inject_target.unit());
        if N::KEY_HANDLES {
            // SAFETY: [RANK]: the table has a place for every rank of the map.
            let remote_key = unsafe { &*self.remote_keys.add(rank as usize) };
            // A rank has a key only after it was inserted: one test for both.
            if let Some(key) = remote_key.key()
                && self.inject_target.takes(len)
            {
                self.mark_of(rank).set(INJECTED);
                let addr = remote_key.address(offset());
                // SAFETY: the key was made for the endpoint in the entry, which a
                // netmod with handles has no other kind of; the endpoint lives in
                // the context held here; [LIVE]: so does the key; [TARGET], [BUF].
                let rc = unsafe {
                    let dest = N::network(entry).unwrap_unchecked();
                    N::inject_now(self.inject_handle, buf, len, dest, addr, key.bits())
                };
                if rc == 0 {
                    return 0;
                }
            }
        } else if let Some(dest) = N::network(entry) {
            let key = if SHORT_ONLY {
                // SAFETY: [SHORT].
                Some(unsafe { self.inject_target.key_of_short() })
            } else {
                self.inject_target.key_for(len)
            };
            if let Some(key) = key {
                // SAFETY: [PUT]; the entry is the rank's; the provider takes the length.
                return unsafe { self.inject_to(dest, key, (buf, len), rank, offset()) };
            }
        } else if BODY != AFFINE {
            unlikely();
            // SAFETY: [PUT], [PATH].
            return unsafe { self.issue_near::<NB, BODY>(buf, len, rank, disp) };
        }
        // SAFETY: [PUT].
        unsafe { self.issue_general::<NB>(buf, len, rank, disp) }
    }

    /// Hands a put to the provider.
    ///
    /// # Safety
    /// \[PUT\]; `dest` is that of the rank's entry, and the provider takes the length.
    #[inline(always)]
    unsafe fn inject_to(
        &self,
        dest: u64,
        key: RemoteKey,
        (buf, len): (*const u8, usize),
        rank: u32,
        offset: usize,
    ) -> isize {
        self.mark_of(rank).set(INJECTED);
        let addr = self.inject_target.address(offset);
        // SAFETY: the endpoint lives in the context held here; `dest` was inserted; [LIVE],
        // [TARGET], [BUF].
        unsafe { N::inject(self.inject_handle, buf, len, dest, addr, key.bits()) }
    }

    /// Puts to a peer whose entry is not the network's: a store where the regions of the
    /// node are mapped. It looks the entry up again: kept from `issue`, that would be a
    /// register more there.
    ///
    /// # Safety
    /// \[PUT\], \[BUF\] until the return unless `NB`; \[PATH\].
    #[inline(never)]
    unsafe fn issue_near<const NB: bool, const BODY: u32>(
        &self,
        buf: *const u8,
        len: usize,
        rank: u32,
        disp: usize,
    ) -> isize {
        // SAFETY: [RANK]; [PATH]: the body is the lookup's.
        let entry = Entry::from_bits(unsafe { self.lookup.entry_by::<BODY>(rank as usize) });
        if let Some(region) = self.node_region(entry) {
            let offset = disp * self.inject_target.unit();
            // SAFETY: [LIVE], [TARGET]: the range is in the region; [BUF], [APART].
            return unsafe { store(self.mark_of(rank), region.add(offset), buf, len) };
        }
        // SAFETY: [PUT].
        unsafe { self.issue_general::<NB>(buf, len, rank, disp) }
    }

    /// Where the region behind a node-local entry is mapped.
    #[inline(always)]
    fn node_region(&self, entry: Entry) -> Option<*mut u8> {
        if let LocalPath::Mapped { start, pitch } = &self.local_path
            && let Some((node_rank, Transport::Local)) = N::unpack(entry)
        {
            // SAFETY: the segment holds a region for every node rank.
            return Some(unsafe { start.add(node_rank as usize * pitch) });
        }
        None
    }

    /// Puts on any path, whatever is behind the rank's entry.
    ///
    /// # Safety
    /// \[PUT\], \[BUF\] until the return unless `NB`.
    #[inline(never)]
    unsafe fn issue_general<const NB: bool>(
        &self,
        buf: *const u8,
        len: usize,
        rank: u32,
        disp: usize,
    ) -> isize {
        if len == 0 {
            return 0;
        }
        if self.own_path == path::MAPPED {
            // SAFETY: [PUT]; [PATH]: all is mapped at a line.
            return unsafe { self.issue::<NB, LINE, ANY>(buf, len, rank, disp, None) };
        }
        if self.own_path < path::GENERAL
            // SAFETY: [PUT]; [PATH]: metadata is uniform.
            && let Some(rc) = unsafe { self.issue_local(buf, len, rank, disp) }
        {
            return rc;
        }
        let mark = self.mark_of(rank);
        let issued = if self.own_path == path::PACKETS {
            mark.set(INJECTED);
            // SAFETY: [BUF]; the range is checked where the packets arrive.
            unsafe { self.put_by_packets(buf, len, rank, disp) }.map(|()| 0)
        } else {
            self.target(rank, disp).and_then(|target| {
                // SAFETY: [TARGET], [BUF], [APART].
                unsafe { self.issue_to::<NB>(buf, len, target, mark) }
            })
        };
        issued.unwrap_or_else(|e| {
            *self.error.borrow_mut() = Some(e);
            FAILED
        })
    }

    /// Puts to a peer on this node that was inserted before; `None` for all
    /// others.
    ///
    /// # Safety
    /// \[PUT\], \[BUF\] until the return; metadata is uniform, as \[PATH\] has it.
    #[inline(always)]
    unsafe fn issue_local(
        &self,
        buf: *const u8,
        len: usize,
        rank: u32,
        disp: usize,
    ) -> Option<isize> {
        let (offset, mark) = (disp * self.inject_target.unit(), self.mark_of(rank));
        if N::KEY_HANDLES {
            // SAFETY: [RANK]: the table has a place for every rank of the map.
            let remote_key = unsafe { &*self.remote_keys.add(rank as usize) };
            let start = remote_key.mapped()?;
            // SAFETY: [LIVE], [TARGET]: the range is in the target's memory, which
            // is mapped there; [BUF], [APART].
            return Some(unsafe { store(mark, start.add(offset), buf, len) });
        }
        // SAFETY: [RANK]; map and directory stay while the access does.
        let entry = Entry::from_bits(unsafe { self.lookup.entry(rank as usize) });
        if let Some(region) = self.node_region(entry) {
            // SAFETY: [LIVE], [TARGET]: the range is in the region; [BUF], [APART].
            return Some(unsafe { store(mark, region.add(offset), buf, len) });
        }
        let LocalPath::Provider { inject_handle, inject_size, key } = &self.local_path else {
            return None;
        };
        let (node_rank, Transport::Local) = N::unpack(entry)? else { return None };
        if len > *inject_size {
            return None;
        }
        let dest = self.context.local_address(node_rank as u32)?;
        mark.set(INJECTED);
        // SAFETY: `dest` was inserted, the endpoint lives in the context held here;
        // [LIVE], [TARGET], [BUF].
        Some(unsafe { N::inject(inject_handle.get(), buf, len, dest, offset as u64, key.bits()) })
    }

    /// Puts to a target that was found.
    ///
    /// # Safety
    /// \[TARGET\]: the target holds `len` bytes; \[BUF\], if `NB` until the flush;
    /// \[APART\].
    unsafe fn issue_to<const NB: bool>(
        &self,
        buf: *const u8,
        len: usize,
        target: Target,
        mark: &Cell<u8>,
    ) -> Result<isize, Error> {
        mark.set(mark.get() | TRACKED);
        let remote = match target {
            // SAFETY: mapped; [TARGET], [BUF], [APART].
            Target::Mapped(to) => return Ok(unsafe { copy(to, buf, len) }),
            Target::Provider(remote) => remote,
            Target::Unreachable(peer) => return Err(unreachable_error(peer)),
        };
        let (netmod, endpoint) = self.endpoint(&remote)?;
        if len <= netmod.caps().inject_size {
            mark.set(INJECTED);
            let (Remote { dest, addr, key, .. }, handle) = (remote, N::inject_handle(endpoint));
            // SAFETY: `dest` was inserted; [TARGET], [BUF].
            return Ok(unsafe { N::inject(handle, buf, len, dest, addr, key.bits()) });
        }
        // SAFETY: [TARGET], [BUF]: until the flush if `NB`; it is not written to.
        unsafe { self.transfer_long::<NB>(buf.cast_mut(), len, &remote, true) }.map(|()| 0)
    }

    /// The error behind the last [`FAILED`].
    #[cold]
    pub fn take_error(&self) -> Option<Error> {
        self.error.borrow_mut().take()
    }

    /// Puts with all checks, until it is issued or cannot be: windows and epochs
    /// that no inline path has, what did not pass the checks there, and what
    /// the provider had no space for. `rc` is its answer, [`AGAIN`] before the
    /// first try.
    ///
    /// # Safety
    /// \[BUF\], \[APART\], as `put_checked`; `buf` may be null.
    #[inline(never)]
    unsafe fn put_general<const NB: bool>(
        &self,
        buf: *const u8,
        len: usize,
        rank: u32,
        disp: usize,
        mut rc: isize,
    ) -> Result<(), Error> {
        self.check(rank, disp, len)?;
        if buf.is_null() && len > 0 {
            return Err(ErrorKind::NullBuffer { len }.into());
        }
        let put = if NB { self.put_vtable.nonblocking } else { self.put_vtable.blocking };
        // SAFETY: [LIVE], [RANK], [TARGET]: checked above; [BUF], for it is not null
        // unless it is empty; [APART]; [PATH]: the table chose it by window and map.
        let issue = || unsafe { put(self, buf, len, rank, disp) };
        if rc == AGAIN {
            rc = issue();
        }
        if rc != 0 && rc != FAILED {
            let remote = match self.target(rank, disp)? {
                Target::Provider(remote) => remote,
                Target::Mapped(to) => {
                    // SAFETY: mapped; [TARGET]: checked above; [BUF], [APART].
                    let _ = unsafe { copy(to, buf, len) };
                    return Ok(());
                }
                Target::Unreachable(peer) => return Err(unreachable_error(peer)),
            };
            if rc == AGAIN {
                rc = self.context.until_taken(remote.peer, issue)?;
            }
            if rc != 0 && rc != FAILED {
                return Err(self.provider_error(&remote, N::CALLS.inject, rc));
            }
        }
        if rc == 0 {
            return Ok(());
        }
        let lost = || ErrorKind::Arguments("the error of a put was lost".into()).into();
        Err(self.take_error().unwrap_or_else(lost))
    }
}

/// What a checked put needs if the provider does not take it. Beside the call it stands
/// in memory, five stores: kept in registers, the five that a function must save first and
/// the copies into them are ten instructions and more.
struct Issued<'a, N: Netmod> {
    access: &'a Access<N>,
    buf: *const u8,
    len: usize,
    rank: u32,
    disp: usize,
}

impl<N: Netmod> Issued<'_, N> {
    /// Goes on where the provider answered something other than 0.
    ///
    /// # Safety
    /// \[BUF\], \[APART\], as `put_checked`.
    #[cold]
    #[inline(never)]
    unsafe fn answered<const NB: bool>(&self, rc: isize) -> Result<(), Error> {
        // SAFETY: the caller's.
        unsafe { self.access.put_general::<NB>(self.buf, self.len, self.rank, self.disp, rc) }
    }
}

/// Stores a put into mapped memory. A second store for each mark would halve
/// the rate of puts; a load does not.
///
/// # Safety
/// \[SIDES\].
#[inline(always)]
unsafe fn store(mark: &Cell<u8>, to: *mut u8, buf: *const u8, len: usize) -> isize {
    if mark.get() == 0 {
        mark.set(INJECTED);
    }
    // SAFETY: [SIDES].
    unsafe { copy(to, buf, len) }
}

/// Tells the compiler that the branch it stands in is the unlikely one.
#[cold]
#[inline(always)]
fn unlikely() {}

/// Copies between a buffer and a window's memory and answers 0, as a put does.
/// The fence keeps each put an event of its own: peers share the memory.
///
/// # Safety
/// \[SIDES\]: both hold `len` bytes and do not overlap.
#[inline(always)]
pub(in crate::rma) unsafe fn copy(to: *mut u8, from: *const u8, len: usize) -> isize {
    if len != 8 {
        unlikely();
        // SAFETY: [SIDES].
        return unsafe { copy_any(to, from, len) };
    }
    // SAFETY: [SIDES]: eight bytes each, at any alignment.
    unsafe { to.cast::<u64>().write_unaligned(from.cast::<u64>().read_unaligned()) };
    compiler_fence(Ordering::Release);
    0
}

/// # Safety
/// \[SIDES\].
#[inline(never)]
unsafe fn copy_any(to: *mut u8, from: *const u8, len: usize) -> isize {
    // SAFETY: [SIDES].
    unsafe { crate::shm::copy::copy(to, from, len) };
    0
}
