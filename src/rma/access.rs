//! A window seen through a context: the put path.

use super::cold::ColdState;
use super::keys::{RemoteKeyEntry, UnpackedKeys};
use super::registration::RemoteKey;
use super::state::WindowState;
use super::types::{Epoch, Remote, Target, unreachable_error};
use super::{Error, ErrorKind};
use crate::av::{Entry, Transport};
use crate::device::{self, Context, DeviceError, PROBE, Progress, Token};
use crate::netmod::{AGAIN, Netmod, PENDING, Transfer, UNSUPPORTED};
use crate::rankmap::{Lookup, Model, RankMap, body};
use std::cell::{Cell, RefCell, UnsafeCell};
use std::collections::HashSet;
use std::ffi::c_void;
use std::mem::offset_of;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{Ordering, compiler_fence, fence};

/// Answer of [`Access::put_unchecked`] when the failure is not the provider's:
/// [`Access::take_error`] tells.
pub const FAILED: isize = isize::MIN;

/// The paths an operation can take, in the order in which a put tests them.
mod path {
    /// The provider; an affine map; metadata that is the same for all ranks.
    pub(super) const AFFINE: u32 = 0;
    /// Every rank's memory is mapped here at an address affine in the rank.
    pub(super) const MAPPED: u32 = 1;
    /// The provider, any other map, metadata the same for all ranks.
    pub(super) const INDEXED: u32 = 2;
    /// Metadata that differs between ranks.
    pub(super) const GENERAL: u32 = 3;
    /// No epoch is open, or one that does not reach all ranks.
    pub(super) const CLOSED: u32 = 4;
    /// Packets, all of them: memory that comes and goes.
    pub(super) const DYNAMIC: u32 = 5;
}

/// Ranks share a mark of "something was put since the last flush" with those
/// that are equal modulo this.
const MARKS: usize = 256;

/// A window seen through a context: everything a put needs, side by side.
///
/// A [`Window`](super::Window) has one of its own; further ones are made for
/// other threads' contexts or for other communicators of the same processes
/// with [`Access::open`]. Operations and flushes of one access do not know of
/// another's.
#[repr(C)]
pub struct Access<N: Netmod> {
    lookup: Lookup,
    /// The path operations take now: [`path::CLOSED`] outside an epoch.
    gate: Cell<u32>,
    /// The same, whether an epoch is open or not.
    path: u32,
    ranks: u32,
    inject_handle: N::InjectHandle,
    inject_size: usize,
    unit: usize,
    base: u64,
    key: u64,
    /// Unpacked keys and addresses by rank, where keys are handles.
    remote_keys: *const RemoteKeyEntry,
    bytes: usize,
    max_disp: usize,
    mapped_start: *mut u8,
    mapped_stride: isize,
    c_abi: CAbi,
    marks: UnsafeCell<[u8; MARKS]>,
    put_vtable: PutVtable<N>,
    local_path: LocalPath<N>,
    /// A [`View`](super::View) was made.
    viewed: Cell<bool>,
    epoch: Cell<Epoch>,
    map: RankMap,
    /// Before the context, whose endpoints the handles are for.
    keys: UnpackedKeys<N>,
    context: Rc<Context<N>>,
    pub(super) state: RefCell<Option<Arc<WindowState<N>>>>,
    error: RefCell<Option<Error>>,
    pub(super) cold: ColdState<N>,
}

impl<N: Netmod> std::fmt::Debug for Access<N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Access")
            .field("ranks", &self.ranks)
            .field("model", &self.map.model())
            .field("path", &self.path)
            .field("epoch", &self.epoch.get())
            .finish_non_exhaustive()
    }
}

/// The C ABI: what code in C needs to inline the first path of a put itself.
#[repr(C)]
struct CAbi {
    /// The longest put it may hand to the provider; 0 where targets are not
    /// plain addresses.
    longest: usize,
    /// All other puts.
    put: unsafe extern "C" fn(*const c_void, *const u8, usize, u32, usize) -> isize,
}

impl CAbi {
    fn new<N: Netmod>(inject_size: usize) -> CAbi {
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

/// The put functions of an access whose path is not inline, chosen when it is
/// opened.
struct PutVtable<N: Netmod> {
    unchecked: Put<N, isize>,
    blocking: Put<N, Result<(), Error>>,
    nonblocking: Put<N, Result<(), Error>>,
}

impl<N: Netmod> PutVtable<N> {
    fn new(path: u32, body: u32) -> PutVtable<N> {
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

/// A put of `len` bytes at `buf` to a rank and displacement.
type Put<N, R> = unsafe fn(&Access<N>, *const u8, usize, u32, usize) -> R;

/// The path of a put to a peer on this node, for windows with uniform metadata.
enum LocalPath<N: Netmod> {
    /// The regions of the node's ranks are mapped, by node rank.
    Mapped { start: *mut u8, pitch: usize },
    /// The shared-memory provider has the memory registered.
    Provider { inject_handle: Rc<Cell<N::InjectHandle>>, inject_size: usize, key: RemoteKey },
    /// The general path.
    General,
}

impl<N: Netmod> LocalPath<N> {
    fn new(state: &WindowState<N>, context: &Context<N>, key: Option<RemoteKey>) -> LocalPath<N> {
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

/// The caller may use the buffer again when the call returns.
const BLOCKING: bool = false;
/// The buffer belongs to the operation until the flush.
const NONBLOCKING: bool = true;

impl<N: Netmod> Access<N> {
    /// Where the fields of an unchecked put stand, in bytes from the start, for
    /// headers in other languages: lookup, path, ranks, the two words of the
    /// netmod's inject handle (which it must lay out for C), unit, base, key,
    /// mapped_start, mapped_stride, the longest inline put and the function for
    /// all others, marks.
    #[doc(hidden)]
    pub const LAYOUT: [usize; 12] = [
        offset_of!(Access<N>, lookup),
        offset_of!(Access<N>, path),
        offset_of!(Access<N>, ranks),
        offset_of!(Access<N>, inject_handle),
        offset_of!(Access<N>, unit),
        offset_of!(Access<N>, base),
        offset_of!(Access<N>, key),
        offset_of!(Access<N>, mapped_start),
        offset_of!(Access<N>, mapped_stride),
        offset_of!(Access<N>, c_abi) + offset_of!(CAbi, longest),
        offset_of!(Access<N>, c_abi) + offset_of!(CAbi, put),
        offset_of!(Access<N>, marks),
    ];
    /// The values of `path` that other languages inline: a provider with an
    /// affine map, mapped memory; and how many marks there are.
    #[doc(hidden)]
    pub const PATHS: [u32; 3] = [path::AFFINE, path::MAPPED, MARKS as u32];

    /// An access to a window for the ranks of `map`, on this thread's context.
    ///
    /// # Errors
    /// [`ErrorKind::Arguments`] when the window's sizes, units, keys or
    /// addresses differ between ranks and one of `map` is no member.
    pub fn open(
        state: &Arc<WindowState<N>>,
        context: &Rc<Context<N>>,
        map: &RankMap,
    ) -> Result<Access<N>, Error> {
        if (state.uniform().is_none() || state.contiguous.is_some()) && *map != state.map {
            let state = state.by_ranks_of(map, context.device())?;
            return Access::new(&state, context, map);
        }
        Access::new(state, context, map)
    }

    pub(super) fn new(
        state: &Arc<WindowState<N>>,
        context: &Rc<Context<N>>,
        map: &RankMap,
    ) -> Result<Access<N>, Error> {
        let uniform = state.uniform();
        let mapped = uniform.and_then(|_| fold_mapped(state, context, map));
        // SAFETY: the directory outlives the access, which holds the context
        // and thereby the device; `map` is kept beside the lookup.
        let lookup = unsafe { Lookup::new(map, context.av().directory()) };
        let lookup_body = lookup.body();
        let path = match (uniform, mapped) {
            _ if state.dynamic => path::DYNAMIC,
            (None, _) => path::GENERAL,
            (Some(_), Some(_)) => path::MAPPED,
            (Some(_), None) if lookup_body == body::AFFINE => path::AFFINE,
            (Some(_), None) => path::INDEXED,
        };
        let network = context.endpoint(Transport::Network);
        let (netmod, endpoint) = network.or_else(|| context.endpoint(Transport::Local)).ok_or(
            DeviceError::NoTransport {
                rank: context.device().boot().rank(),
                why: "no provider is open",
            },
        )?;
        let uniform = uniform.unwrap_or_default();
        let (mapped_start, mapped_stride) = mapped.unwrap_or((std::ptr::null_mut(), 0));
        let keys = UnpackedKeys::new(netmod, map.len())?;
        let (base, key) = uniform.registered.network.unzip();
        // Nothing is put inline into memory that the network does not know.
        let known = network.is_some() && (N::KEY_HANDLES || key.is_some());
        let inject_size = if known { netmod.caps().inject_size } else { 0 };
        Ok(Access {
            lookup,
            gate: Cell::new(path::CLOSED),
            path,
            ranks: map.len(),
            inject_handle: N::inject_handle(endpoint),
            inject_size,
            unit: uniform.unit as usize,
            base: base.unwrap_or(0),
            key: key.map_or(0, RemoteKey::bits),
            remote_keys: keys.start(),
            bytes: uniform.bytes as usize,
            max_disp: uniform.bytes.checked_div(uniform.unit).unwrap_or(0) as usize,
            mapped_start,
            mapped_stride,
            c_abi: CAbi::new::<N>(inject_size),
            put_vtable: PutVtable::new(path, lookup_body),
            local_path: LocalPath::new(state, context, uniform.registered.local),
            marks: UnsafeCell::new([0; MARKS]),
            viewed: Cell::new(false),
            epoch: Cell::new(Epoch::Closed),
            map: map.clone(),
            keys,
            context: Rc::clone(context),
            state: RefCell::new(Some(Arc::clone(state))),
            error: RefCell::new(None),
            cold: ColdState::new(context),
        })
    }

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

    /// Returns true if the rank or the range is out of bounds; for uniform
    /// metadata. `disp <= max_disp` keeps `offset` within the bytes.
    #[inline(always)]
    fn outside(&self, rank: u32, disp: usize, offset: usize, len: usize) -> bool {
        rank >= self.ranks || disp > self.max_disp || len > self.bytes - offset
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

    /// The address-vector entry of a rank, which is in range.
    pub(super) fn entry(&self, rank: u32) -> Entry {
        debug_assert!(rank < self.ranks, "callers pass ranks in range");
        // SAFETY: in range.
        Entry::from_bits(unsafe { self.lookup.entry(rank as usize) })
    }

    /// The table entry of a rank, which is in range, where keys are handles.
    pub(super) fn remote_key(&self, rank: u32) -> &RemoteKeyEntry {
        debug_assert!(rank < self.ranks && N::KEY_HANDLES, "callers pass ranks in range");
        // SAFETY: the table has a place for every rank of the map.
        unsafe { &*self.remote_keys.add(rank as usize) }
    }

    pub(super) fn keys(&self) -> &UnpackedKeys<N> {
        &self.keys
    }

    /// The provider by which memory is reached, and the endpoint now in use
    /// there.
    pub(super) fn endpoint(&self, remote: &Remote) -> Result<(&Arc<N>, &N::Endpoint), Error> {
        self.context.endpoint(remote.transport).ok_or_else(|| unreachable_error(remote.peer))
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
        self.issue_tracked(remote, "fi_writemsg", awaited, |netmod, endpoint, token| {
            let Remote { dest, addr, key, .. } = *remote;
            let op = Transfer { buf: from, len, dest, addr, key: key.bits(), token };
            // SAFETY: the caller's duty.
            unsafe { netmod.write(endpoint, op) }
        })
    }

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
    /// `buf` is null or stays writable for `len` bytes, and untouched, until
    /// this access was flushed for `rank`. A flush that fails does not give it
    /// back: a peer may write to it as long as this process lives.
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
        // SAFETY: checked; the caller keeps `buf` until the flush.
        unsafe { self.read::<NONBLOCKING>(buf, len, rank, disp) }
    }

    /// # Safety
    /// The target range was checked, `buf` is writable for `len` bytes until
    /// the flush if `NB`.
    unsafe fn read<const NB: bool>(
        &self,
        buf: *mut u8,
        len: usize,
        rank: u32,
        disp: usize,
    ) -> Result<(), Error> {
        if len == 0 {
            return Ok(());
        }
        if self.path == path::DYNAMIC {
            self.mark(rank);
            // SAFETY: the caller's duty.
            return unsafe { self.get_dynamic(buf, len, rank, disp, NB) };
        }
        let target = self.target(rank, disp)?;
        self.mark(rank);
        let remote = match target {
            Target::Mapped(from) => {
                // SAFETY: mapped, within the region, and apart from `buf`, which
                // is this process's own.
                let _ = unsafe { copy(buf, from, len) };
                return Ok(());
            }
            Target::Provider(remote) => remote,
            Target::Unreachable(peer) => return Err(unreachable_error(peer)),
        };
        let longest = self.endpoint(&remote)?.0.caps().max_message;
        let longest = if NB { longest } else { longest.min(device::PIECE) };
        let mut at = 0;
        while at < len {
            let piece = (len - at).min(longest);
            let place = Remote { addr: remote.addr + at as u64, ..remote };
            // SAFETY: at < len.
            let to = unsafe { buf.add(at) };
            if NB {
                // SAFETY: the caller keeps the buffer.
                unsafe { self.read_piece(&place, to, piece, false)? };
            } else {
                let mut bounce = self.cold.bounce_pool.take(piece);
                // SAFETY: the bounce memory is leaked if this fails.
                let token = unsafe { self.read_piece(&place, bounce.start(), piece, true)? };
                self.await_token(token, remote.peer)?;
                // SAFETY: both hold the piece.
                unsafe { to.copy_from_nonoverlapping(bounce.start(), piece) };
                self.cold.bounce_pool.put_back(bounce);
            }
            at += piece;
        }
        Ok(())
    }

    /// Issues one tracked read.
    ///
    /// # Safety
    /// `to` stays writable for `len` bytes until the token came back.
    unsafe fn read_piece(
        &self,
        remote: &Remote,
        to: *mut u8,
        len: usize,
        awaited: bool,
    ) -> Result<Token, Error> {
        self.issue_tracked(remote, "fi_readmsg", awaited, |netmod, endpoint, token| {
            let Remote { dest, addr, key, .. } = *remote;
            let op = Transfer { buf: to, len, dest, addr, key: key.bits(), token };
            // SAFETY: the caller's duty.
            unsafe { netmod.read(endpoint, op) }
        })
    }

    /// Issues an operation that answers with a token.
    pub(super) fn issue_tracked(
        &self,
        remote: &Remote,
        call: &'static str,
        awaited: bool,
        mut issue: impl FnMut(&N, &N::Endpoint, u64) -> isize,
    ) -> Result<Token, Error> {
        let token = self.context.token(remote.peer);
        self.issue_with_retry(remote, call, |netmod, endpoint| {
            issue(netmod, endpoint, token.bits())
        })?;
        self.context.issued(token, awaited);
        Ok(token)
    }

    /// Issues an operation, again while the provider answers [`AGAIN`], each
    /// time on the endpoint then in use.
    pub(super) fn issue_with_retry(
        &self,
        remote: &Remote,
        call: &'static str,
        mut issue: impl FnMut(&N, &N::Endpoint) -> isize,
    ) -> Result<(), Error> {
        let attempt = || match self.context.endpoint(remote.transport) {
            Some((netmod, endpoint)) => issue(netmod, endpoint),
            None => UNSUPPORTED,
        };
        match self.context.until_taken(remote.peer, attempt)? {
            0 => Ok(()),
            rc => Err(self.provider_error(remote, call, rc)),
        }
    }

    fn provider_error(&self, remote: &Remote, call: &'static str, rc: isize) -> Error {
        match self.endpoint(remote) {
            Ok((netmod, _)) => {
                self.context.attribute_failure(remote.peer, netmod.explain(call, rc)).into()
            }
            Err(e) => e,
        }
    }

    fn await_token(&self, token: Token, peer: u32) -> Result<(), Error> {
        let mut result = Ok(());
        self.context
            .wait(&[peer], || {
                Ok(match self.context.answer(token) {
                    Some(answer) => {
                        result = answer;
                        Progress::Done
                    }
                    None => Progress::Waiting,
                })
            })
            .inspect_err(|_| self.context.forget(token))?;
        result.map_err(|e| self.context.attribute_failure(peer, e).into())
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
                Target::Provider(remote) => self.provider_error(&remote, "fi_inject_write", rc),
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

    /// Checks epoch, rank and range of an operation.
    pub(super) fn check(&self, rank: u32, disp: usize, len: usize) -> Result<(), Error> {
        match self.epoch.get() {
            Epoch::Freed => return Err(ErrorKind::Freed.into()),
            Epoch::Closed => return Err(ErrorKind::NoEpoch.into()),
            Epoch::Fence | Epoch::LockAll | Epoch::Locks | Epoch::Start => {}
        }
        if rank >= self.ranks {
            return Err(ErrorKind::Rank { rank, size: self.ranks }.into());
        }
        if matches!(self.epoch.get(), Epoch::Locks | Epoch::Start) {
            self.check_in_epoch(rank)?;
        }
        let state = self.state()?;
        let (bytes, unit) = (state.sizes.get(rank), state.units.get(rank) as usize);
        let end = disp.checked_mul(unit).and_then(|at| at.checked_add(len));
        if end.is_none_or(|end| end as u64 > bytes) {
            return Err(ErrorKind::OutOfBounds { rank, disp, unit, len, bytes }.into());
        }
        Ok(())
    }

    /// Waits until everything put or got on this access with `rank` is done at
    /// the target.
    ///
    /// # Errors
    /// A peer that died or an operation that failed, by name.
    pub fn flush(&self, rank: u32) -> Result<(), Error> {
        self.check(rank, 0, 0)?;
        self.flush_ranks(&[rank])
    }

    /// Waits until everything issued on this access is done at the targets.
    ///
    /// # Errors
    /// As [`Access::flush`]. Where the map has more than 256 ranks, the peer
    /// named may be one that died and was not put to: ranks that are equal
    /// modulo 256 share a mark.
    pub fn flush_all(&self) -> Result<(), Error> {
        self.check_open()?;
        self.flush_dirty()
    }

    /// Waits until the buffers of operations with `rank` may be used again.
    ///
    /// # Errors
    /// As [`Access::flush`].
    pub fn flush_local(&self, rank: u32) -> Result<(), Error> {
        self.check(rank, 0, 0)?;
        let peer = self.world_rank(rank)?;
        self.drain(&[peer])
    }

    /// Waits until the buffers of all operations may be used again.
    ///
    /// # Errors
    /// As [`Access::flush`].
    pub fn flush_local_all(&self) -> Result<(), Error> {
        self.check_open()?;
        self.drain(&[])
    }

    pub(super) fn check_open(&self) -> Result<(), Error> {
        match self.epoch.get() {
            Epoch::Freed => Err(ErrorKind::Freed.into()),
            Epoch::Closed => Err(ErrorKind::NoEpoch.into()),
            Epoch::Fence | Epoch::LockAll | Epoch::Locks | Epoch::Start => Ok(()),
        }
    }

    pub(super) fn flush_dirty(&self) -> Result<(), Error> {
        if self.viewed.get() {
            // Views leave no marks: any rank may have been put to.
            (0..self.ranks.min(MARKS as u32)).for_each(|rank| self.mark(rank));
        }
        let ranks: Vec<u32> = (0..self.ranks.min(MARKS as u32))
            .filter(|&mark| self.marked(mark))
            .flat_map(|mark| (mark..self.ranks).step_by(MARKS))
            .collect();
        self.unmark();
        self.flush_ranks(&ranks)?;
        self.drain(&[])
    }

    /// [`Access::flush_dirty`] where only these ranks could be put to.
    pub(super) fn flush_group(&self, group: &[u32]) -> Result<(), Error> {
        let ranks: Vec<u32> = group.iter().copied().filter(|&rank| self.marked(rank)).collect();
        self.unmark();
        self.flush_ranks(&ranks)?;
        self.drain(&[])
    }

    /// Reads back from every rank that was put to: the answer comes behind the
    /// puts. All reads are in flight together, and after a failure the others
    /// are still waited for.
    fn flush_ranks(&self, ranks: &[u32]) -> Result<(), Error> {
        // Stores into mapped regions are visible to every process that learns of
        // this flush.
        fence(Ordering::SeqCst);
        // The only early return: below, all probes are waited for.
        let peers =
            ranks.iter().map(|&rank| self.world_rank(rank)).collect::<Result<Vec<_>, _>>()?;
        let mut probes = Vec::new();
        let mut first_error = None;
        // Ranks of one process need one probe; ranks of a window that is not
        // uniform are all different processes.
        let mut seen = HashSet::new();
        // On the other paths there were only stores, or packets.
        let providers = !matches!(self.path, path::MAPPED | path::DYNAMIC);
        let probed = ranks.iter().zip(&peers).filter(|_| providers);
        for (&rank, &peer) in probed {
            match self.probe_completion(rank, ranks.len() == 1, &mut seen) {
                Ok(token) => probes.extend(token.map(|token| (token, peer))),
                Err(e) => {
                    first_error.get_or_insert(e);
                }
            }
        }
        for (token, peer) in probes {
            if let Err(e) = self.await_token(token, peer) {
                first_error.get_or_insert(e);
            }
        }
        let drained = self.drain(&peers);
        if let Err(e) = self.context.check_liveness(&peers) {
            // The death of a peer may have caused the other errors.
            return Err(e.into());
        }
        first_error.map_or(drained, Err)
    }

    /// Issues an operation that completes when all earlier ones to a rank are
    /// done there; `None` where there is nothing to wait for.
    fn probe_completion(
        &self,
        rank: u32,
        only: bool,
        seen: &mut HashSet<(u8, u64)>,
    ) -> Result<Option<Token>, Error> {
        // Nothing was issued to a rank nobody has used.
        let used = if N::KEY_HANDLES {
            self.remote_key(rank).key.get() != 0
        } else {
            !self.entry(rank).is_empty()
        };
        if !used {
            return Ok(None);
        }
        let Target::Provider(remote) = self.target(rank, 0)? else { return Ok(None) };
        if !only && !seen.insert((remote.transport as u8, remote.dest)) {
            return Ok(None);
        }
        if N::FLUSHES {
            return self.probe_by_flush(&remote);
        }
        let len = self.state()?.sizes.get(rank).min(PROBE as u64) as usize;
        // SAFETY: it stays if an answer does not come.
        unsafe { self.read_piece(&remote, self.context.probe_buffer(), len, true) }.map(Some)
    }

    /// Probes by the netmod's own flush.
    fn probe_by_flush(&self, remote: &Remote) -> Result<Option<Token>, Error> {
        let token = self.context.token(remote.peer);
        let mut pending = false;
        self.issue_with_retry(remote, "flush", |netmod, endpoint| {
            // SAFETY: `dest` is of this context's own address vector.
            let rc = unsafe { netmod.flush(endpoint, remote.dest, token.bits()) };
            pending = rc == PENDING;
            if pending { 0 } else { rc }
        })?;
        if pending {
            self.context.issued(token, true);
        }
        Ok(pending.then_some(token))
    }

    /// Waits for tracked operations and reports those that failed: towards
    /// `peers`, or anybody when that is empty. A peer that dies meanwhile
    /// does not end the wait for the others.
    pub(super) fn drain(&self, peers: &[u32]) -> Result<(), Error> {
        let context = &*self.context;
        let mut died = None;
        let busy = |peers: &[u32]| {
            let mut all = context.pending(peers);
            all.extend(self.cold.outstanding.pending(peers));
            all
        };
        loop {
            let pending = busy(peers);
            if pending.is_empty() {
                break;
            }
            let waited = context.wait(&pending, || {
                let left = !busy(&pending).is_empty();
                Ok(if left { Progress::Waiting } else { Progress::Done })
            });
            match waited {
                Ok(()) => {}
                // Operations towards it are not waited for any more.
                Err(DeviceError::PeerDied { rank }) if pending.contains(&rank) => {
                    died.get_or_insert(DeviceError::PeerDied { rank });
                }
                Err(e) => return Err(e.into()),
            }
        }
        context.progress()?;
        let failure = died.or_else(|| match peers {
            [] => context.take_failure(),
            peers => peers.iter().find_map(|&w| context.take_failure_of(w)),
        });
        let refused = self.cold.outstanding.take_refused(peers);
        let result = failure.map(Error::from).or(refused).map_or(Ok(()), Err);
        self.cold.unstage(result.is_ok(), |peer| !context.pending(&[peer]).is_empty());
        result
    }

    pub(super) fn world_rank(&self, rank: u32) -> Result<u32, Error> {
        let process = self.map.get(rank).ok_or(ErrorKind::Rank { rank, size: self.ranks })?;
        Ok(self.context.device().world_rank(process)?)
    }

    #[inline(always)]
    pub(super) fn mark(&self, rank: u32) {
        // SAFETY: only the owning thread touches the marks, and never keeps a
        // reference to them.
        unsafe { (*self.marks.get())[rank as usize % MARKS] = 1 };
    }

    #[inline(always)]
    fn marked(&self, rank: u32) -> bool {
        // SAFETY: as in `mark`.
        unsafe { (*self.marks.get())[rank as usize % MARKS] != 0 }
    }

    /// Forgets all marks.
    pub(super) fn unmark(&self) {
        // SAFETY: as in `mark`.
        unsafe { *self.marks.get() = [0; MARKS] };
    }

    /// Returns true if something was issued since the last flush.
    pub(super) fn dirty(&self) -> bool {
        // SAFETY: as in `mark`.
        unsafe { (*self.marks.get()).iter().any(|&m| m != 0) }
    }

    pub(super) fn epoch(&self) -> Epoch {
        self.epoch.get()
    }

    pub(super) fn set_epoch(&self, epoch: Epoch) {
        self.epoch.set(epoch);
        let open = matches!(epoch, Epoch::Fence | Epoch::LockAll);
        self.gate.set(if open { self.path } else { path::CLOSED });
        if epoch == Epoch::Freed {
            self.keys.destroy();
            *self.state.borrow_mut() = None;
        }
    }

    /// The window's shared state.
    ///
    /// # Errors
    /// [`ErrorKind::Freed`].
    pub fn state(&self) -> Result<Arc<WindowState<N>>, Error> {
        self.state.borrow().clone().ok_or_else(|| ErrorKind::Freed.into())
    }

    /// The rank map of this access.
    pub fn map(&self) -> &RankMap {
        &self.map
    }

    /// The context operations are issued on.
    pub fn context(&self) -> &Rc<Context<N>> {
        &self.context
    }

    /// Start and stride of the mapped regions, unit, ranks, bytes and the last
    /// displacement, for a view: from now on a flush takes it that any rank may
    /// have been put to.
    pub(super) fn view_parts(&self) -> ((*mut u8, isize), usize, u32, usize, usize) {
        self.viewed.set(true);
        let mapped = (self.mapped_start, self.mapped_stride);
        (mapped, self.unit, self.ranks, self.bytes, self.max_disp)
    }

    /// An element of a rank's memory, mapped here and aligned, while the epoch
    /// that is open reaches all ranks; `None` for everything else.
    #[inline(always)]
    pub(super) fn mapped_element(&self, size: usize, rank: u32, disp: usize) -> Option<*mut u8> {
        let offset = disp.wrapping_mul(self.unit);
        if self.gate.get() != path::MAPPED || self.outside(rank, disp, offset, size) {
            return None;
        }
        if !self.marked(rank) {
            self.mark(rank);
        }
        let region = (rank as isize).wrapping_mul(self.mapped_stride);
        // SAFETY: the regions of all ranks are mapped while the state lives, and
        // the element is within one.
        let at = unsafe { self.mapped_start.offset(region).add(offset) };
        (at.addr() & (size - 1) == 0).then_some(at)
    }

    /// Returns true if an access epoch is open, to any ranks.
    #[inline]
    pub fn is_open(&self) -> bool {
        !matches!(self.epoch.get(), Epoch::Closed | Epoch::Freed)
    }

    /// Returns true if nothing is outstanding beyond stores into mapped memory,
    /// which only have to be ordered: [`Access::is_mapped`], and no packet is
    /// unanswered.
    #[inline]
    pub fn has_only_stores(&self) -> bool {
        self.path == path::MAPPED && self.cold.outstanding.is_idle()
    }

    /// Returns true if every put is a store into mapped memory, found without an
    /// address-vector entry.
    pub fn is_mapped(&self) -> bool {
        self.path == path::MAPPED
    }
}

/// Where the regions of a window are mapped, as a line over the ranks of `map`:
/// possible when all members are on this node and their node ranks are affine.
fn fold_mapped<N: Netmod>(
    state: &WindowState<N>,
    context: &Context<N>,
    map: &RankMap,
) -> Option<(*mut u8, isize)> {
    let mapped = state.mapped.filter(|m| m.all)?;
    if state.contiguous.is_some() {
        // Called where all sizes are equal, and for the window's own ranks.
        return Some((mapped.start, state.sizes.get(0) as isize));
    }
    let device = context.device();
    let (base, stride) = affine(map)?;
    let line = RankMap::affine(0, base, stride, map.len()).ok()?;
    let peer = match map.pg()? {
        0 => line,
        pg => device.members_of(pg)?.compose(&line).ok()?,
    };
    let (base, stride) = affine(&device.node_ranks().compose(&peer).ok()?)?;
    // SAFETY: the segment holds a region for every node rank.
    let start = unsafe { mapped.start.add(base as usize * mapped.pitch) };
    Some((start, stride as isize * mapped.pitch as isize))
}

/// Base and stride of a map that is a line.
fn affine(map: &RankMap) -> Option<(u32, i64)> {
    let lpid = |rank| map.get(rank).map(|p| p.lpid);
    match map.model() {
        Model::Direct | Model::Offset | Model::Stride => {
            let base = lpid(0)?;
            Some((base, lpid(1).map_or(0, |next| i64::from(next) - i64::from(base))))
        }
        _ => None,
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
pub(super) unsafe fn copy(to: *mut u8, from: *const u8, len: usize) -> isize {
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
