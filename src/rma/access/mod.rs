//! A window seen through a context.
//!
//! `put`, `get` and `flush` have the operations, `target` how one rank's memory
//! is reached, `tracked` the operations that answer with a token, `recorded` those
//! that are recorded. What they share stands here: the fields, opening, the checks,
//! the marks.

mod flush;
mod get;
mod put;
mod query;
mod recorded;
mod target;
mod tracked;

pub(super) use put::copy;

use super::cold::ColdState;
use super::element_gate::InlineGate;
use super::keys::UnpackedKeys;
use super::registration::{InjectLimit, InjectTarget, RemoteKey, RemoteKeyEntry, displacements};
use super::state::WindowState;
use super::types::{Epoch, Remote, unreachable_error};
use super::{Error, ErrorKind};
use crate::av::{Entry, Transport};
use crate::device::{Context, DeviceError};
use crate::netmod::Netmod;
use crate::rankmap::{Lookup, RankMap, body};
use recorded::Recording;
use std::cell::{Cell, Ref, RefCell};
use std::ffi::c_void;
use std::mem::offset_of;
use std::rc::Rc;
use std::sync::Arc;

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
    /// How many of them have a gate: those above.
    pub(super) const INLINE: usize = 3;
    /// Metadata that differs between ranks.
    pub(super) const GENERAL: u32 = 3;
    /// Packets, all of them: memory that comes and goes, members in other jobs.
    pub(super) const PACKETS: u32 = 4;
    /// Any of those, and what is done is recorded.
    pub(super) const RECORDED: u32 = 5;
}

/// The caller may use the buffer again when the call returns.
const BLOCKING: bool = false;
/// The buffer belongs to the operation until the flush.
const NONBLOCKING: bool = true;

/// Ranks share a mark of "something was put since the last flush" with those
/// that are equal modulo this.
const MARKS: usize = 256;

/// The mark of ranks to which a put was handed that gives no completion.
const INJECTED: u8 = 1;
/// That of ranks to which there was only what completes: where the provider
/// [delivers](crate::netmod::Caps::delivers), a flush has nothing to ask them.
const TRACKED: u8 = 2;
/// That of ranks that are probed by a flush that may not have done so yet.
const PROBED: u8 = 4;

/// A window seen through a context: everything a put needs, side by side.
///
/// A [`Window`](super::Window) has one of its own; further ones are made for
/// other threads' contexts or for other communicators of the same processes
/// with [`Access::open`]. Operations and flushes of one access do not know of
/// another's.
#[repr(C)]
pub struct Access<N: Netmod> {
    lookup: Lookup,
    /// For each of the inline paths the ranks that operations may name by it now: all
    /// of the map on the path that this access takes while an epoch is open, else none.
    gate: [Cell<u32>; path::INLINE],
    /// The path operations take, whether an epoch is open or not; [`path::RECORDED`] where
    /// calls are recorded.
    path: u32,
    inject_handle: N::InjectHandle,
    inject_target: InjectTarget<N>,
    /// Unpacked keys and addresses by rank, where keys are handles.
    remote_keys: *const RemoteKeyEntry,
    bytes: usize,
    max_disp: usize,
    /// Displacements from which eight bytes are within the memory.
    word_disps: usize,
    ranks: u32,
    /// Whether `path` is [`path::MAPPED`]: a word of its own, or the compiler loads
    /// `path` into a register for the first test.
    stores: bool,
    mapped_start: *mut u8,
    mapped_stride: isize,
    c_abi: CAbi,
    marks: [Cell<u8>; MARKS],
    put_vtable: PutVtable<N>,
    local_path: LocalPath<N>,
    /// The path by window and map, whether calls are recorded or not.
    own_path: u32,
    /// How they are, if they are.
    recording: Option<Box<Recording<N>>>,
    /// A [`View`](super::View) was made.
    viewed: Cell<bool>,
    epoch: Cell<Epoch>,
    map: RankMap,
    /// Before the context, whose endpoints the handles are for.
    keys: UnpackedKeys<N>,
    context: Rc<Context<N>>,
    pub(super) state: RefCell<Option<Arc<WindowState<N>>>>,
    error: RefCell<Option<Error>>,
    inline_gate: InlineGate,
    pub(super) cold: ColdState<N>,
}

/// The C ABI: what code in C needs to inline the first path of a put itself.
#[repr(C)]
struct CAbi {
    /// The longest put it may hand to the provider; 0 where targets are not
    /// plain addresses.
    longest: InjectLimit,
    /// All other puts.
    put: CPut,
}

/// [`Access::put_unchecked`] of an access, for C.
type CPut = unsafe extern "C" fn(*const c_void, *const u8, usize, u32, usize) -> isize;

/// What the path of a put depends on, beside the rank map.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WindowKind {
    /// All goes as packets.
    Packets,
    /// Sizes, units, keys or addresses differ between ranks.
    Uneven,
    /// One word serves all ranks, whose memory is mapped here at a line.
    Mapped,
    /// One word serves all ranks, whose memory is mapped here at no line: by the entry.
    Near,
    /// One word serves all ranks, whose memory a provider has registered.
    Registered,
}

impl WindowKind {
    fn of(by_packets: bool, uniform: bool, mapped: bool, near: bool) -> WindowKind {
        match (by_packets, uniform, mapped, near) {
            (true, ..) => WindowKind::Packets,
            (_, false, ..) => WindowKind::Uneven,
            (_, _, true, _) => WindowKind::Mapped,
            (.., true) => WindowKind::Near,
            _ => WindowKind::Registered,
        }
    }
}

/// The put functions of an access whose path is not inline, chosen when it is
/// opened.
struct PutVtable<N: Netmod> {
    blocking: Put<N>,
    nonblocking: Put<N>,
    /// The same of puts that are short as the inject target has it.
    short_blocking: Put<N>,
    short_nonblocking: Put<N>,
}

/// A put of `len` bytes at `buf` to a rank and displacement that were checked:
/// 0, [`AGAIN`](crate::netmod::AGAIN), another error number, or [`FAILED`]. Its
/// contracts are \[PUT\] and \[PATH\] of `put`.
type Put<N> = unsafe fn(&Access<N>, *const u8, usize, u32, usize) -> isize;

/// How a put reaches a peer on this node that was inserted before, where
/// metadata is uniform.
enum LocalPath<N: Netmod> {
    /// The regions of the node's ranks are mapped, by node rank.
    Mapped { start: *mut u8, pitch: usize },
    /// The shared-memory provider has the memory registered.
    Provider { inject_handle: Rc<Cell<N::InjectHandle>>, inject_size: usize, key: RemoteKey },
    /// The general path.
    General,
}

impl<N: Netmod> std::fmt::Debug for Access<N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Access")
            .field("ranks", &self.ranks)
            .field("model", &self.map.model())
            .field("path", &self.own_path)
            .field("epoch", &self.epoch.get())
            .finish_non_exhaustive()
    }
}

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
        offset_of!(Access<N>, inject_target) + InjectTarget::<N>::LAYOUT[0],
        offset_of!(Access<N>, inject_target) + InjectTarget::<N>::LAYOUT[1],
        offset_of!(Access<N>, inject_target) + InjectTarget::<N>::LAYOUT[2],
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
    /// addresses differ between ranks and one of `map` is no member, or when the window
    /// has members in other jobs, whom only the first context reaches;
    /// [`DeviceError::Av`] for a process that is in no job that this one knows.
    pub fn open(
        state: &Arc<WindowState<N>>,
        context: &Rc<Context<N>>,
        map: &RankMap,
    ) -> Result<Access<N>, Error> {
        if state.exposed_region.is_across_jobs() && context.index() != 0 {
            let why = "a window with members in other jobs is used on the first context alone";
            return Err(ErrorKind::Arguments(why.into()).into());
        }
        let by_rank = state.uniform().is_none()
            || state.contiguous.is_some()
            || state.misalignments.uniform().is_none();
        if by_rank && *map != state.map {
            let state = state.by_ranks_of(map, context.device())?;
            return Access::new(&state, context, map);
        }
        if *map != state.map {
            // (What is put to is not looked at again.)
            map.iter().try_for_each(|process| context.av().get(process).map(drop))?;
        }
        Access::new(state, context, map)
    }

    pub(super) fn new(
        state: &Arc<WindowState<N>>,
        context: &Rc<Context<N>>,
        map: &RankMap,
    ) -> Result<Access<N>, Error> {
        let uniform = state.uniform();
        let mapped = uniform.and_then(|_| target::fold_mapped(state, context, map));
        let uniform = uniform.filter(|_| mapped.is_some() || state.contiguous.is_none());
        // SAFETY: the directory outlives the access, which holds the context
        // and thereby the device; `map` is kept beside the lookup.
        let lookup = unsafe { Lookup::new(map, context.av().directory()) };
        let all_here = state.mapped.is_some_and(|m| m.all) && state.contiguous.is_none();
        let near = all_here && !N::KEY_HANDLES && lookup.body() != body::AFFINE;
        let window = WindowKind::of(state.by_packets, uniform.is_some(), mapped.is_some(), near);
        let (path, put_vtable, put_in_c) = PutVtable::choose(window, lookup.body());
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
        let longest = network.map_or(0, |(netmod, _)| netmod.caps().inject_size);
        let (bytes, unit, registered) = (uniform.bytes, uniform.unit, uniform.registered);
        let inject_target = InjectTarget::new(unit, bytes, registered.network, longest, near);
        let cold = ColdState::new(context, state.element_gate.as_ref());
        let inline_gate = cold.entrance.inline();
        let mut access = Access {
            lookup,
            gate: [const { Cell::new(0) }; path::INLINE],
            path,
            ranks: map.len(),
            stores: path == path::MAPPED,
            inject_handle: N::inject_handle(endpoint),
            c_abi: CAbi::new(&inject_target, put_in_c),
            inject_target,
            remote_keys: keys.start(),
            bytes: bytes as usize,
            max_disp: bytes.checked_div(unit).unwrap_or(0) as usize,
            word_disps: displacements(bytes, unit, 8),
            mapped_start,
            mapped_stride,
            put_vtable,
            own_path: path,
            recording: None,
            local_path: LocalPath::new(state, context, registered.local),
            marks: [const { Cell::new(0) }; MARKS],
            viewed: Cell::new(false),
            epoch: Cell::new(Epoch::Closed),
            map: map.clone(),
            keys,
            context: Rc::clone(context),
            state: RefCell::new(Some(Arc::clone(state))),
            error: RefCell::new(None),
            inline_gate,
            cold,
        };
        if let Some(window) = state.recorded.get() {
            access.record(window);
        }
        Ok(access)
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

    /// Checks epoch, rank and range of an operation.
    pub(super) fn check(&self, rank: u32, disp: usize, len: usize) -> Result<(), Error> {
        self.check_rank(rank)?;
        let state = self.borrowed_state()?;
        let (bytes, unit) = (state.sizes.get(rank), state.units.get(rank) as usize);
        let end = disp.checked_mul(unit).and_then(|at| at.checked_add(len));
        if end.is_none_or(|end| end as u64 > bytes) {
            return Err(ErrorKind::OutOfBounds { rank, disp, unit, len, bytes }.into());
        }
        Ok(())
    }

    /// Checks the epoch, and that the rank is one of it.
    #[inline]
    pub(super) fn check_rank(&self, rank: u32) -> Result<(), Error> {
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
        Ok(())
    }

    pub(super) fn check_open(&self) -> Result<(), Error> {
        match self.epoch.get() {
            Epoch::Freed => Err(ErrorKind::Freed.into()),
            Epoch::Closed => Err(ErrorKind::NoEpoch.into()),
            Epoch::Fence | Epoch::LockAll | Epoch::Locks | Epoch::Start => Ok(()),
        }
    }

    /// Ranks below this may be named by an inline path now: one test says that the
    /// epoch is open, the path this one, and the rank in range.
    #[inline(always)]
    fn ranks_open<const PATH: u32>(&self) -> u32 {
        self.gate[PATH as usize].get()
    }

    /// Returns true if the range is out of bounds; for uniform metadata.
    /// `disp <= max_disp` keeps `offset` within the bytes.
    #[inline(always)]
    fn outside(&self, disp: usize, offset: usize, len: usize) -> bool {
        disp > self.max_disp || len > self.bytes - offset
    }

    pub(super) fn world_rank(&self, rank: u32) -> Result<u32, Error> {
        match self.cold.found.get() {
            Some(found) if found.rank == rank => Ok(found.peer),
            _ => Ok(self.process(rank)?.1),
        }
    }

    /// The mark of a rank: not 0 if something was issued to it since the last
    /// flush, [`INJECTED`] if that may need to be asked for.
    #[inline(always)]
    fn mark_of(&self, rank: u32) -> &Cell<u8> {
        &self.marks[rank as usize % MARKS]
    }

    #[inline(always)]
    pub(super) fn mark(&self, rank: u32) {
        let mark = self.mark_of(rank);
        mark.set(mark.get() | TRACKED);
    }

    /// Marks the rank of an operation that was issued just now. While it waited for space a
    /// flush by another thread may have taken the mark away that was set when it began.
    pub(super) fn mark_issued(&self, remote: &Remote) {
        self.mark(remote.rank);
    }

    #[inline(always)]
    pub(super) fn unmark_rank(&self, rank: u32) {
        self.mark_of(rank).set(0);
    }

    /// Returns true if nothing is outstanding towards a rank beyond stores into mapped
    /// memory.
    #[inline(always)]
    pub(super) fn has_only_stores_to(&self, rank: u32) -> bool {
        (self.own_path == path::MAPPED || self.mark_of(rank).get() == 0)
            && self.cold.outstanding.is_idle()
    }

    /// Returns true if calls are recorded.
    pub(super) fn is_recorded(&self) -> bool {
        self.recording.is_some()
    }

    /// Forgets all marks, but for those of ranks that a flush on another thread probes.
    pub(super) fn unmark(&self) {
        self.marks.iter().for_each(|mark| mark.set(mark.get() & PROBED));
    }

    /// Returns true if something was issued since the last flush.
    pub(super) fn dirty(&self) -> bool {
        self.marks.iter().any(|mark| mark.get() != 0)
    }

    pub(super) fn epoch(&self) -> Epoch {
        self.epoch.get()
    }

    pub(super) fn set_epoch(&self, epoch: Epoch) {
        self.epoch.set(epoch);
        let open = matches!(epoch, Epoch::Fence | Epoch::LockAll);
        for (path, gate) in self.gate.iter().enumerate() {
            gate.set(if open && path == self.path as usize { self.ranks } else { 0 });
        }
        if epoch == Epoch::Freed {
            self.keys.destroy();
            *self.cold.short.borrow_mut() = None;
            self.cold.found.set(None);
            *self.state.borrow_mut() = None;
        }
    }

    /// Sets one of the epochs that leave the gate closed, from another of those.
    #[inline(always)]
    pub(super) fn set_closed_epoch(&self, epoch: Epoch) {
        debug_assert!(self.gate.iter().all(|g| g.get() == 0), "no epoch of all ranks is open");
        self.epoch.set(epoch);
    }

    /// The window's shared state.
    ///
    /// # Errors
    /// [`ErrorKind::Freed`].
    pub fn state(&self) -> Result<Arc<WindowState<N>>, Error> {
        self.state.borrow().clone().ok_or_else(|| ErrorKind::Freed.into())
    }

    /// [`Access::state`] without a count of the processor's atomics, which cost more than
    /// what is read here: for what does not wait, since only then the window cannot be
    /// freed meanwhile.
    ///
    /// # Errors
    /// [`ErrorKind::Freed`].
    #[inline]
    pub(super) fn borrowed_state(&self) -> Result<Ref<'_, WindowState<N>>, Error> {
        let state = Ref::filter_map(self.state.borrow(), |state| state.as_deref());
        state.map_err(|_| ErrorKind::Freed.into())
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
        (mapped, self.inject_target.unit(), self.ranks, self.bytes, self.max_disp)
    }

    /// An element of a rank's memory, mapped here and aligned, while the epoch
    /// that is open reaches all ranks; `None` for everything else.
    #[inline(always)]
    pub(super) fn mapped_element(&self, size: usize, rank: u32, disp: usize) -> Option<*mut u8> {
        let offset = disp.wrapping_mul(self.inject_target.unit());
        if rank >= self.ranks_open::<{ path::MAPPED }>() || self.outside(disp, offset, size) {
            return None;
        }
        let mark = self.mark_of(rank);
        if mark.get() == 0 {
            mark.set(1);
        }
        let region = (rank as isize).wrapping_mul(self.mapped_stride);
        // SAFETY: the regions of all ranks are mapped while the state lives, and
        // the element is within one.
        let at = unsafe { self.mapped_start.offset(region).add(offset) };
        (at.addr() & (size - 1) == 0).then_some(at)
    }

    /// By what single elements of mapped memory are changed inline, as long as this
    /// access and the window live.
    #[inline(always)]
    pub fn inline_gate(&self) -> &InlineGate {
        &self.inline_gate
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
        self.own_path == path::MAPPED && self.cold.outstanding.is_idle()
    }

    /// Returns true if every operation goes as packets, which the target carries out.
    pub fn is_by_packets(&self) -> bool {
        self.own_path == path::PACKETS
    }

    /// Returns true if every put is a store into mapped memory, found without an
    /// address-vector entry.
    pub fn is_mapped(&self) -> bool {
        self.own_path == path::MAPPED
    }
}
