//! Windows: memory that the members of a communicator may reach.

use super::access::Access;
use super::am_fallback::RmaHandler;
use super::column::Column;
use super::exposed_region::{ExposedRegion, RegistryEntry};
use super::keys::PackedKeys;
use super::locks::LockWords;
use super::registration::{Providers, Registrations};
use super::state::{Mapped, MemoryRegion, NodeLocks, WindowState};
use super::types::{Assert, Epoch};
use super::{Communicator, Error, ErrorKind, Hints};
use crate::av::Transport;
use crate::device::Key;
use crate::device::segment::{self, PAGE, Place, Segment, Shared};
use crate::netmod::Netmod;
use std::cell::RefCell;
use std::fs::File;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// Where a window's memory comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavor {
    /// Allocated by the window, shared on the node.
    Allocated,
    /// The user's own.
    Created,
    /// Allocated on one node, the regions of all ranks contiguous.
    Shared,
    /// Attached and detached while the window lives.
    Dynamic,
}

/// Whose memory a window is allocated from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backing {
    /// Shared on the node: a put there is a store. Where it cannot be shared,
    /// [`Backing::Direct`].
    #[default]
    Shared,
    /// The network library's own memory, where it has some (UCX), put to by the
    /// library.
    Provider,
    /// The same memory, with stores where the library has a peer's mapped.
    Direct,
}

/// Memory of every member that the others may put to and get from.
///
/// Operations are those of [`Access`], to which a window dereferences. Dropping
/// a window gives its memory back without asking the others; [`Window::free`]
/// waits for them first.
#[derive(Debug)]
pub struct Window<N: Netmod> {
    access: Access<N>,
    communicator: Communicator<N>,
    flavor: Flavor,
    /// The world ranks this process's memory was posted to.
    pub(super) exposed: RefCell<Option<Vec<u32>>>,
}

impl<N: Netmod> Deref for Window<N> {
    type Target = Access<N>;

    fn deref(&self) -> &Access<N> {
        &self.access
    }
}

/// What each member tells the others before a window is made.
#[derive(Clone, Copy, Debug)]
struct MemberInfo {
    /// The member's arguments are refused, so that all fail alike.
    invalid: bool,
    /// Address of the memory modulo 8, where it is not the window's own.
    misalignment: u8,
    bytes: u64,
    unit: u64,
    key: u64,
    /// The memory file of the node's segment, from the member that made it.
    memory: Option<Place>,
}

impl MemberInfo {
    /// Without the place of memory.
    const LEN: usize = 25;

    fn encode(&self) -> Vec<u8> {
        let mut out = vec![u8::from(self.invalid) | self.misalignment << 1];
        for word in [self.bytes, self.unit, self.key] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.extend(self.memory.iter().flat_map(Place::encode));
        out
    }

    fn decode(bytes: &[u8]) -> Option<MemberInfo> {
        let (b, behind) = bytes.split_first_chunk::<{ MemberInfo::LEN }>()?;
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| b[at + i]));
        let memory = match behind {
            [] => None,
            place => Some(Place::decode(place.try_into().ok()?)),
        };
        Some(MemberInfo {
            invalid: b[0] & 1 != 0,
            misalignment: b[0] >> 1,
            bytes: word(1),
            unit: word(9),
            key: word(17),
            memory,
        })
    }
}

impl<N: Netmod> Window<N> {
    /// Allocates `bytes` of zeroed memory in every member and makes a window
    /// of it; sizes and units may differ between ranks. Members of one node
    /// share the memory, so that a put between them is a store. Collective.
    ///
    /// # Errors
    /// [`ErrorKind::Arguments`] for a unit of 0 (in all members),
    /// [`ErrorKind::Memory`], a peer that died.
    pub fn allocate(
        communicator: &Communicator<N>,
        bytes: usize,
        unit: usize,
    ) -> Result<Window<N>, Error> {
        Window::allocate_with(communicator, bytes, unit, Backing::Shared)
    }

    /// [`Window::allocate`] with a choice of the memory, the same in all
    /// members. Collective.
    ///
    /// # Errors
    /// As [`Window::allocate`].
    pub fn allocate_with(
        communicator: &Communicator<N>,
        bytes: usize,
        unit: usize,
        backing: Backing,
    ) -> Result<Window<N>, Error> {
        let communicator = communicator.dup();
        if backing != Backing::Shared {
            let (infos, key) = exchange_infos(&communicator, bytes, unit, None, 0)?;
            let local_memory = provided(&communicator, bytes, backing == Backing::Direct);
            return Window::build(communicator, &infos, key, local_memory, Flavor::Allocated);
        }
        let first = first_on_node(&communicator)?;
        let file =
            if first == communicator.rank() { Shared::create("rankway-window").ok() } else { None };
        let place = file.as_ref().map(Shared::place);
        let (infos, key) = exchange_infos(&communicator, bytes, unit, place, 0)?;
        let node = NodeSegment::map(&communicator, &infos, first, file)?;
        // All members of a node share, or none does. The file stays open until
        // all have opened it, and has its length when all have said so.
        let shared = communicator.allgather(&[u8::from(node.is_some())])?;
        let agreed = shared.iter().all(|s| s.as_slice() == [1]);
        let local_memory = match node.filter(|_| agreed) {
            Some(node) if !node.is_final() => Err(not_final(bytes)),
            Some(NodeSegment { segment, mapped, node_locks, .. }) => {
                let device = communicator.device();
                let mine = device.node_rank(device.boot().rank()).unwrap_or(0);
                // SAFETY: the segment has a region for every node rank.
                let start = unsafe { mapped.start.add(mine as usize * mapped.pitch) };
                Ok(LocalMemory {
                    mapped: Some(mapped),
                    node_locks: Some(node_locks),
                    segment: Some(segment),
                    ..LocalMemory::of(start)
                })
            }
            None => provided(&communicator, bytes, true),
        };
        Window::build(communicator, &infos, key, local_memory, Flavor::Allocated)
    }

    /// Makes a window of memory the caller has. Collective.
    ///
    /// # Errors
    /// [`ErrorKind::NullBuffer`] for null with a length,
    /// [`ErrorKind::Arguments`] for a unit of 0 (in all members), a peer that
    /// died, memory the provider cannot register.
    ///
    /// # Safety
    /// `start..start + bytes` stays mapped, and is touched by the process only
    /// as MPI's rules for windows allow, until the window is freed or dropped.
    /// Where that is because a member died, survivors that have not heard of it
    /// may still put here: over UCX, whose puts by messages check no key, the
    /// memory must stay mapped and unused until a later collective of all
    /// survivors.
    pub unsafe fn create(
        communicator: &Communicator<N>,
        start: *mut u8,
        bytes: usize,
        unit: usize,
    ) -> Result<Window<N>, Error> {
        let communicator = communicator.dup();
        let null = start.is_null() && bytes > 0;
        let misalignment = (start.addr() % 8) as u8;
        let infos =
            exchange_infos(&communicator, bytes, if null { 0 } else { unit }, None, misalignment);
        if null {
            return Err(ErrorKind::NullBuffer { len: bytes }.into());
        }
        let (infos, key) = infos?;
        Window::build(communicator, &infos, key, Ok(LocalMemory::of(start)), Flavor::Created)
    }

    /// Allocates `bytes` of zeroed memory in every member, all on one node,
    /// the regions side by side in the order of ranks, so that each member can
    /// load and store in those of all ([`Window::shared_query`]). Sizes and
    /// units may differ. Collective.
    ///
    /// # Errors
    /// [`ErrorKind::Arguments`] when the members are not all on one node, or a
    /// unit is 0 (in all members), [`ErrorKind::Memory`], a peer that died.
    pub fn shared(
        communicator: &Communicator<N>,
        bytes: usize,
        unit: usize,
    ) -> Result<Window<N>, Error> {
        let communicator = communicator.dup();
        let first = first_on_node(&communicator)?;
        let file =
            if first == communicator.rank() { Shared::create("rankway-window").ok() } else { None };
        let place = file.as_ref().map(Shared::place);
        let (infos, key) = exchange_infos(&communicator, bytes, unit, place, 0)?;
        let node = NodeSegment::map_contiguous(&communicator, &infos, first, file)?;
        let mapped = communicator.allgather(&[u8::from(node.is_some())])?;
        let unmapped = mapped.iter().position(|m| m.as_slice() != [1]);
        let (Some((node, starts)), None) = (node, unmapped) else {
            let rank = unmapped.unwrap_or(0);
            let why = format!("rank {rank} cannot map the memory of a shared window");
            return Err(ErrorKind::Arguments(why).into());
        };
        if !node.is_final() {
            return Window::build(communicator, &infos, key, Err(not_final(bytes)), Flavor::Shared);
        }
        let mine = starts[communicator.rank() as usize] as usize;
        // SAFETY: the segment holds the regions of all ranks.
        let start = unsafe { node.mapped.start.add(mine) };
        let local_memory = LocalMemory {
            mapped: Some(node.mapped),
            starts: Some(starts),
            node_locks: Some(node.node_locks),
            segment: Some(node.segment),
            ..LocalMemory::of(start)
        };
        Window::build(communicator, &infos, key, Ok(local_memory), Flavor::Shared)
    }

    /// Makes a window without memory, to which each member attaches its own
    /// ([`Window::attach`]) while the window lives. Displacements are addresses
    /// at the target, the unit is a byte. Collective.
    ///
    /// # Errors
    /// A peer that died.
    pub fn dynamic(communicator: &Communicator<N>) -> Result<Window<N>, Error> {
        let communicator = communicator.dup();
        let (infos, key) = exchange_infos(&communicator, 0, 1, None, 0)?;
        let local_memory = LocalMemory::of(std::ptr::null_mut());
        Window::build(communicator, &infos, key, Ok(local_memory), Flavor::Dynamic)
    }

    /// Where the memory of a rank is mapped in this process: start, bytes and
    /// unit. Peers may write to it at any time within their epochs.
    ///
    /// # Errors
    /// [`ErrorKind::Arguments`] for a rank whose memory is not mapped here: of
    /// another node, or a window that does not share its memory;
    /// [`ErrorKind::Rank`], [`ErrorKind::Freed`].
    pub fn shared_query(&self, rank: u32) -> Result<(*mut u8, usize, usize), Error> {
        let state = self.access.state()?;
        let size = self.communicator.size();
        if rank >= size {
            return Err(ErrorKind::Rank { rank, size }.into());
        }
        if state.dynamic {
            return Err(ErrorKind::Arguments("a dynamic window shares no memory".into()).into());
        }
        let mapped = if rank == self.communicator.rank() {
            Some(state.start)
        } else {
            self.access.mapped(rank)?
        };
        let why = || format!("the memory of rank {rank} is not mapped in this process");
        let start = mapped.ok_or_else(|| ErrorKind::Arguments(why()))?;
        Ok((start, state.sizes.get(rank) as usize, state.units.get(rank) as usize))
    }

    /// Registers the memory and exchanges the keys; a failure is exchanged too,
    /// so that a window is made in all members or in none.
    fn build(
        communicator: Communicator<N>,
        infos: &[MemberInfo],
        mut own_key: Key,
        local_memory: Result<LocalMemory<N>, Error>,
        flavor: Flavor,
    ) -> Result<Window<N>, Error> {
        let context = communicator.context();
        let device = communicator.device();
        let mine = infos[communicator.rank() as usize];
        let agreed = infos.iter().map(|o| o.key).max().unwrap_or(1);
        own_key.adopt(agreed);
        let key = own_key.value();
        let register = |transport,
                        local_memory: &LocalMemory<N>|
         -> Result<Option<N::Region>, Error> {
            let Some((netmod, endpoint)) = context.endpoint(transport) else { return Ok(None) };
            if mine.bytes == 0 || local_memory.mapped.is_some_and(|m| m.all) {
                return Ok(None);
            }
            // SAFETY: the segment is dropped after the region, and user memory
            // stays by the contract of `create`.
            let region =
                unsafe { netmod.register(endpoint, local_memory.start, mine.bytes as usize, key) };
            Ok(Some(region.map_err(crate::device::DeviceError::from)?))
        };
        let prepared = local_memory.and_then(|mut local_memory| {
            let network = match local_memory.region.take() {
                None => register(Transport::Network, &local_memory)?,
                region => region,
            };
            let local = match local_memory.mapped {
                Some(_) => None,
                None => register(Transport::Local, &local_memory)?,
            };
            let packed_key = match network.as_ref().zip(device.provider(Transport::Network)) {
                Some((region, netmod)) if N::KEY_HANDLES => {
                    netmod.rkey_pack(region).map_err(crate::device::DeviceError::from)?
                }
                _ => Vec::new(),
            };
            Ok((local_memory, network, local, packed_key))
        });
        // In the registry before any peer knows of the window.
        let dynamic = flavor == Flavor::Dynamic;
        let job_size = device.boot().size();
        let exposed_region = prepared.as_ref().ok().map(|(local_memory, ..)| {
            let node_rank = device.node_rank(device.boot().rank()).unwrap_or(0);
            let shared_lock = local_memory.node_locks.map(|l| l.of(node_rank));
            let memory = (local_memory.start, mine.bytes as usize);
            let region =
                ExposedRegion::new(communicator.id(), memory, dynamic, shared_lock, job_size);
            Arc::new(RegistryEntry::new(Arc::clone(RmaHandler::of(context).registry()), region))
        });
        let own_keys = prepared.as_ref().ok().map(|(local_memory, network, local, _)| {
            let providers = Providers { network: network.is_some(), local: local.is_some() };
            let netmod = device.provider(Transport::Network);
            let by_address = netmod.is_some_and(|n| n.caps().virtual_addresses);
            let base =
                if by_address && network.is_some() { local_memory.start.addr() as u64 } else { 0 };
            let chosen = netmod.filter(|n| n.caps().provider_keys).zip(network.as_ref());
            (providers, base, chosen.map_or(key, |(n, region)| n.key(region)))
        });
        let own_keys = own_keys.map(|(providers, base, key)| {
            let packed_key = prepared.as_ref().map_or(&[][..], |(.., packed_key)| packed_key);
            let local = own_key.value();
            OwnKeys { providers, base, key, local, packed_key }
        });
        let member_keys = exchange_keys(&communicator, own_keys, agreed);
        let (local_memory, network_region, local_region, _) = prepared?;
        // From here on peers may write to this memory, even if this exchange
        // failed here.
        let memory_regions = [network_region, local_region].map(|r| MemoryRegion::new(r, device));
        let MemberKeys { registered, packed_keys } = member_keys?;
        let gone = || ErrorKind::Arguments("the window has no memory of its own".into());
        let state = Arc::new(WindowState {
            exposed_region: exposed_region.ok_or_else(gone)?,
            contiguous: local_memory.starts.map(|starts| Column::new(starts.iter().copied())),
            node_locks: local_memory.node_locks,
            misalignments: Column::new(infos.iter().map(|o| u64::from(o.misalignment))),
            master: communicator.world_rank(0)?,
            dynamic,
            created: flavor == Flavor::Created,
            hints: AtomicU8::new(Hints::default().bits()),
            memory_regions,
            sizes: match dynamic {
                true => Column::Uniform(u64::MAX),
                false => Column::new(infos.iter().map(|o| o.bytes)),
            },
            units: Column::new(infos.iter().map(|o| o.unit)),
            registered,
            packed_keys: N::KEY_HANDLES.then(|| Arc::new(packed_keys)),
            members: communicator.map().clone(),
            rkey_ptr: local_memory.rkey_ptr,
            _key: Some(own_key),
            mapped: local_memory.mapped,
            start: local_memory.start,
            bytes: mine.bytes as usize,
            segment: local_memory.segment,
            map: communicator.map().clone(),
            _of: None,
        });
        let access = Access::new(&state, context, communicator.map())?;
        Ok(Window { access, communicator, flavor, exposed: RefCell::new(None) })
    }

    /// The window with promises about the operations to come: for this
    /// process's accesses that are opened from now on, and its own. To be given
    /// when the window is made, as MPI has it.
    #[must_use]
    pub fn with_hints(self, hints: Hints) -> Window<N> {
        if let Ok(state) = self.access.state() {
            state.hints.store(hints.bits(), Ordering::Relaxed);
        }
        self
    }

    /// The promises given with [`Window::with_hints`].
    ///
    /// # Errors
    /// [`ErrorKind::Freed`].
    pub fn hints(&self) -> Result<Hints, Error> {
        Ok(Hints::from_bits(self.access.state()?.hints.load(Ordering::Relaxed)))
    }

    /// The window's own communicator: a duplicate of the one it was made on.
    pub fn communicator(&self) -> &Communicator<N> {
        &self.communicator
    }

    /// Where the memory comes from.
    pub fn flavor(&self) -> Flavor {
        self.flavor
    }

    /// This process's memory: start and bytes. Others may write to it at any
    /// time within their epochs.
    ///
    /// # Errors
    /// [`ErrorKind::Freed`].
    pub fn local(&self) -> Result<(*mut u8, usize), Error> {
        let state = self.access.state()?;
        Ok((state.start, state.bytes))
    }

    /// Copies from this process's own memory of the window.
    ///
    /// # Errors
    /// [`ErrorKind::Freed`], [`ErrorKind::OutOfBounds`].
    pub fn read_local(&self, offset: usize, out: &mut [u8]) -> Result<(), Error> {
        let at = self.local_range(offset, out.len())?;
        for (i, byte) in out.iter_mut().enumerate() {
            // SAFETY: in range; volatile because peers may be writing.
            *byte = unsafe { at.add(i).read_volatile() };
        }
        Ok(())
    }

    /// Copies into this process's own memory of the window.
    ///
    /// # Errors
    /// [`ErrorKind::Freed`], [`ErrorKind::OutOfBounds`].
    pub fn write_local(&self, offset: usize, bytes: &[u8]) -> Result<(), Error> {
        let at = self.local_range(offset, bytes.len())?;
        for (i, byte) in bytes.iter().enumerate() {
            // SAFETY: in range; volatile because peers may be reading.
            unsafe { at.add(i).write_volatile(*byte) };
        }
        Ok(())
    }

    fn local_range(&self, offset: usize, len: usize) -> Result<*mut u8, Error> {
        let (start, bytes) = self.local()?;
        if offset.checked_add(len).is_none_or(|end| end > bytes) {
            let (rank, bytes) = (self.communicator.rank(), bytes as u64);
            return Err(ErrorKind::OutOfBounds { rank, disp: offset, unit: 1, len, bytes }.into());
        }
        // SAFETY: within the window's memory.
        Ok(unsafe { start.add(offset) })
    }

    /// Ends the epoch that is open, waits until all members' operations are
    /// done everywhere, and opens the next. Collective.
    ///
    /// # Errors
    /// [`ErrorKind::Epoch`] while ranks are locked, started or posted to,
    /// [`ErrorKind::Freed`], a peer that died or an operation that failed.
    pub fn fence(&self) -> Result<(), Error> {
        self.fence_with(Assert::NONE)
    }

    /// [`Window::fence`] with promises. All members must give NOPRECEDE and
    /// NOSUCCEED alike.
    ///
    /// # Errors
    /// As [`Window::fence`], and [`ErrorKind::Epoch`] for NOPRECEDE after
    /// operations.
    pub fn fence_with(&self, assert: Assert) -> Result<(), Error> {
        self.may_fence(assert)?;
        let flushed = self.fence_flush(assert);
        // The others wait there, whatever became of this one's operations.
        let barrier = self.communicator.barrier();
        prefer_death(flushed, barrier)?;
        self.fence_open(assert);
        Ok(())
    }

    /// Refuses a fence that must not be called now.
    fn may_fence(&self, assert: Assert) -> Result<(), Error> {
        self.may_end("fence")?;
        if assert.contains(Assert::NOPRECEDE) && self.access.dirty() {
            let (open, remedy) = ("operations were issued", "call it without NOPRECEDE");
            return Err(ErrorKind::Epoch { call: "fence", open, remedy }.into());
        }
        Ok(())
    }

    fn fence_flush(&self, assert: Assert) -> Result<(), Error> {
        if assert.contains(Assert::NOPRECEDE) { Ok(()) } else { self.access.flush_dirty() }
    }

    fn fence_open(&self, assert: Assert) {
        let next = assert.contains(Assert::NOSUCCEED);
        self.access.set_epoch(if next { Epoch::Closed } else { Epoch::Fence });
    }

    /// The first half of [`Window::fence_with`] for callers that have a barrier
    /// of their own: everything issued is done everywhere on return. Then the
    /// caller's barrier over all members, then [`Window::fence_leave`].
    ///
    /// # Errors
    /// As [`Window::fence_with`].
    pub fn fence_enter(&self, assert: Assert) -> Result<(), Error> {
        self.may_fence(assert)?;
        self.fence_flush(assert)
    }

    /// The second half: opens the next epoch.
    ///
    /// # Errors
    /// [`ErrorKind::Freed`].
    pub fn fence_leave(&self, assert: Assert) -> Result<(), Error> {
        self.access.state()?;
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        self.fence_open(assert);
        Ok(())
    }

    /// The first half of [`Window::free`] for callers that have a barrier of
    /// their own: everything issued is done everywhere on return. After the
    /// caller's barrier over all members the window is dropped, after
    /// [`free_leave`](Self::free_leave) if the barrier went well.
    ///
    /// # Errors
    /// As [`Window::free`].
    pub fn free_enter(&self) -> Result<(), Error> {
        self.may_end("free")?;
        self.access.flush_dirty()
    }

    /// Refuses collective calls while an epoch of ranks is open.
    fn may_end(&self, call: &'static str) -> Result<(), Error> {
        let (open, remedy) = match self.access.epoch() {
            Epoch::Freed => return Err(ErrorKind::Freed.into()),
            Epoch::LockAll => ("lock_all", "call unlock_all first"),
            Epoch::Locks => ("ranks are locked", "unlock them first"),
            Epoch::Start => ("a start epoch is open", "call complete first"),
            Epoch::Closed | Epoch::Fence if self.exposed.borrow().is_some() => {
                ("an exposure epoch is open", "call wait first")
            }
            Epoch::Closed | Epoch::Fence => return Ok(()),
        };
        Err(ErrorKind::Epoch { call, open, remedy }.into())
    }

    /// Waits for all members and gives the window back. Collective.
    ///
    /// # Errors
    /// [`ErrorKind::Freed`] the second time, [`ErrorKind::Epoch`] while ranks
    /// are locked, started or posted to; a peer that died (the window is freed then
    /// too).
    pub fn free(&mut self) -> Result<(), Error> {
        self.may_end("free")?;
        let flushed = self.access.flush_dirty();
        let barrier = self.communicator.barrier();
        if barrier.is_ok() {
            self.free_leave();
        }
        self.access.set_epoch(Epoch::Freed);
        prefer_death(flushed, barrier)
    }

    /// To be called when all members have entered [`free`](Self::free): no more
    /// operations arrive, so registrations can be closed at once.
    pub fn free_leave(&self) {
        if let Ok(state) = self.access.state() {
            state.set_quiescent();
        }
    }
}

/// The result of a flush and the barrier behind it. The death of a member, of
/// which all learn in the barrier, comes before other errors, which it may have
/// caused.
fn prefer_death(flushed: Result<(), Error>, barrier: Result<(), Error>) -> Result<(), Error> {
    match barrier {
        Err(e) if e.peer().is_some() => Err(e),
        barrier => flushed.and(barrier),
    }
}

/// The first member on this process's node; it makes the segment.
fn first_on_node<N: Netmod>(communicator: &Communicator<N>) -> Result<u32, Error> {
    for rank in 0..communicator.size() {
        if communicator.device().on_node(communicator.world_rank(rank)?) {
            return Ok(rank);
        }
    }
    Ok(communicator.rank())
}

/// Exchanges the members' sizes, units, keys and memory files.
fn exchange_infos<N: Netmod>(
    communicator: &Communicator<N>,
    bytes: usize,
    unit: usize,
    memory: Option<Place>,
    misalignment: u8,
) -> Result<(Vec<MemberInfo>, Key), Error> {
    let key = communicator.device().reserve_key();
    let mine = MemberInfo {
        invalid: unit == 0,
        misalignment,
        bytes: bytes as u64,
        unit: unit as u64,
        key: key.value(),
        memory,
    };
    let all = communicator.allgather(&mine.encode())?;
    let decode = |(rank, bytes): (usize, &Vec<u8>)| {
        let why = || format!("rank {rank} is not making a window in this call");
        MemberInfo::decode(bytes).ok_or_else(|| Error::from(ErrorKind::Arguments(why())))
    };
    let infos = all.iter().enumerate().map(decode).collect::<Result<Vec<_>, _>>()?;
    if let Some(rank) = infos.iter().position(|o| o.invalid) {
        let why = format!("rank {rank} gave a displacement unit of 0 or null memory");
        return Err(ErrorKind::Arguments(why).into());
    }
    Ok((infos, key))
}

/// The address and the keys of this process's memory.
struct OwnKeys<'a> {
    providers: Providers,
    base: u64,
    key: u64,
    /// The key towards peers on the node.
    local: u64,
    /// Where keys are handles.
    packed_key: &'a [u8],
}

/// The same of all members.
struct MemberKeys {
    registered: Registrations,
    packed_keys: PackedKeys,
}

/// Exchanges the target addresses and keys of all members' memory; `None` where
/// this one has none. A member with the agreed key and addressing by offset
/// sends one byte.
fn exchange_keys<N: Netmod>(
    communicator: &Communicator<N>,
    own_keys: Option<OwnKeys<'_>>,
    agreed: u64,
) -> Result<MemberKeys, Error> {
    let mine = match own_keys {
        None => vec![],
        Some(OwnKeys { providers, base: 0, key, local, packed_key: [] })
            if (key, local) == (agreed, agreed) =>
        {
            vec![providers.bits()]
        }
        Some(t) => {
            let words = [t.base, t.key, t.local].map(u64::to_le_bytes);
            [&[t.providers.bits()], words.as_flattened(), t.packed_key].concat()
        }
    };
    let all = communicator.allgather(&mine)?;
    if let Some(rank) = all.iter().position(Vec::is_empty) {
        let why = format!("rank {rank} has no memory for the window");
        return Err(ErrorKind::Arguments(why).into());
    }
    let word = |at: usize, usual: u64| {
        all.iter().map(move |b| {
            let bytes = b.get(at..at + 8).and_then(|s| s.try_into().ok());
            bytes.map_or(usual, u64::from_le_bytes)
        })
    };
    let providers = Column::new(all.iter().map(|b| u64::from(b[0])));
    let (bases, keys) = (Column::new(word(1, 0)), Column::new(word(9, agreed)));
    let registered = Registrations::new(providers, bases, keys, Column::new(word(17, agreed)));
    let packed_keys: Vec<Vec<u8>> =
        all.into_iter().map(|mut b| b.split_off(b.len().min(25))).collect();
    Ok(MemberKeys { registered, packed_keys: PackedKeys::new(&packed_keys) })
}

/// This process's memory for a window that is being made.
struct LocalMemory<N: Netmod> {
    start: *mut u8,
    mapped: Option<Mapped>,
    /// By rank, where the regions are contiguous.
    starts: Option<Vec<u64>>,
    node_locks: Option<NodeLocks>,
    /// Where the memory is the window's own.
    segment: Option<Segment>,
    /// Where it is the provider's.
    region: Option<N::Region>,
    rkey_ptr: bool,
}

impl<N: Netmod> LocalMemory<N> {
    /// Memory that is not shared.
    fn of(start: *mut u8) -> LocalMemory<N> {
        LocalMemory {
            start,
            mapped: None,
            starts: None,
            node_locks: None,
            segment: None,
            region: None,
            rkey_ptr: false,
        }
    }
}

/// Memory that is not in a segment of the node: the provider's, or private.
fn provided<N: Netmod>(
    communicator: &Communicator<N>,
    bytes: usize,
    rkey_ptr: bool,
) -> Result<LocalMemory<N>, Error> {
    let refused = |source| ErrorKind::Memory { what: format!("{bytes} bytes"), source };
    if bytes > isize::MAX as usize {
        return Err(refused(std::io::ErrorKind::OutOfMemory.into()).into());
    }
    if let Some((netmod, endpoint)) = communicator.context().endpoint(Transport::Network)
        && bytes > 0
    {
        let memory = netmod.allocate(endpoint, bytes);
        let memory = memory.map_err(|e| refused(std::io::Error::other(e)))?;
        if let Some((region, start)) = memory {
            return Ok(LocalMemory { region: Some(region), rkey_ptr, ..LocalMemory::of(start) });
        }
    }
    let segment = Segment::private(bytes)
        .map_err(|source| ErrorKind::Memory { what: format!("{bytes} bytes"), source })?;
    let start = segment.start();
    Ok(LocalMemory { segment: Some(segment), ..LocalMemory::of(start) })
}

/// The error for a node's segment without its final length.
fn not_final(bytes: usize) -> Error {
    let source = std::io::Error::other("the memory file of the node does not have its length");
    ErrorKind::Memory { what: format!("{bytes} bytes"), source }.into()
}

/// A node's segment, mapped whole.
struct NodeSegment {
    segment: Segment,
    mapped: Mapped,
    node_locks: NodeLocks,
    /// The members that come later open it through this process.
    file: File,
    len: usize,
}

impl NodeSegment {
    /// Returns true if it has its final length, which only its maker sets, and
    /// may be touched.
    fn is_final(&self) -> bool {
        segment::is_final(&self.file, self.len)
    }

    /// Maps the segment the node's first member made; `None` when it cannot
    /// be had (another pid namespace, no memory files).
    fn map<N: Netmod>(
        communicator: &Communicator<N>,
        infos: &[MemberInfo],
        first: u32,
        file: Option<Shared>,
    ) -> Result<Option<NodeSegment>, Error> {
        let device = communicator.device();
        let mut all = true;
        let mut largest = 0;
        for (rank, info) in (0..).zip(infos) {
            if device.on_node(communicator.world_rank(rank)?) {
                largest = largest.max(info.bytes as usize);
            } else {
                all = false;
            }
        }
        let pitch = largest.checked_next_multiple_of(PAGE);
        let len = pitch.and_then(|p| p.checked_mul(device.node_size() as usize));
        let (Some(pitch), Some(len)) = (pitch, len.filter(|&l| l <= isize::MAX as usize)) else {
            return Ok(None);
        };
        let node = NodeSegment::open(communicator, infos[first as usize], file, len);
        Ok(node.map(|node| NodeSegment { mapped: Mapped { pitch, all, ..node.mapped }, ..node }))
    }

    /// Maps one segment for all members, the regions contiguous by rank, and
    /// says where each starts; `None` when it cannot be had.
    fn map_contiguous<N: Netmod>(
        communicator: &Communicator<N>,
        infos: &[MemberInfo],
        first: u32,
        file: Option<Shared>,
    ) -> Result<Option<(NodeSegment, Vec<u64>)>, Error> {
        let device = communicator.device();
        let mut starts = Vec::with_capacity(infos.len());
        let mut len = 0_usize;
        for (rank, info) in (0..).zip(infos) {
            let peer = communicator.world_rank(rank)?;
            let end = len.checked_add(info.bytes as usize).filter(|&l| l <= isize::MAX as usize);
            let (Some(end), true) = (end, device.on_node(peer)) else { return Ok(None) };
            starts.push(len as u64);
            len = end;
        }
        let node = NodeSegment::open(communicator, infos[first as usize], file, len);
        Ok(node.map(|node| (node, starts)))
    }

    /// Maps `len` bytes of regions and the node's lock words behind them.
    fn open<N: Netmod>(
        communicator: &Communicator<N>,
        info: MemberInfo,
        file: Option<Shared>,
        len: usize,
    ) -> Option<NodeSegment> {
        let device = communicator.device();
        let job_size = device.boot().size();
        let words = LockWords::bytes(job_size).checked_mul(device.node_size() as usize)?;
        let behind = len.checked_next_multiple_of(PAGE)?;
        let all = behind.checked_add(words).filter(|&all| all <= isize::MAX as usize)?;
        let (segment, file) = match file {
            Some(file) => (file.map(all).ok()?, file.into_file()),
            None => {
                let file = info.memory?.open().ok()?;
                (Segment::map(&file, all).ok()?, file)
            }
        };
        let start = segment.start();
        // SAFETY: within the segment, which holds `words` bytes behind there.
        let node_locks = NodeLocks { start: unsafe { start.add(behind) }, job_size };
        let mapped = Mapped { start, pitch: 0, all: true };
        Some(NodeSegment { segment, mapped, node_locks, file, len: all })
    }
}
