//! The ways to make a window.

use super::exchange::{MemberInfos, MemberKeys, OwnMemory, exchange_infos, exchange_keys};
use super::memory::{
    LocalMemory, NodeSegment, not_final, on_one_node, own_words, private, provided,
};
use super::on_node::OnNode;
use super::{Backing, Flavor, Window};
use crate::av::Transport;
use crate::device::DeviceError;
use crate::netmod::Netmod;
use crate::rma::access::Access;
use crate::rma::am_fallback::RmaHandler;
use crate::rma::column::Column;
use crate::rma::communicator::End;
use crate::rma::exposed_region::{Elements, ExposedRegion, RegistryEntry};
use crate::rma::registration::{OwnKeys, Providers, Registration};
use crate::rma::state::{MemoryRegion, WindowState};
use crate::rma::{Communicator, Error, ErrorKind, Hints};
use crate::shm::segment::Shared;
use crate::track::Constructor;
use std::cell::RefCell;
use std::panic::Location;
use std::sync::atomic::AtomicU8;
use std::sync::{Arc, OnceLock};

impl<N: Netmod> Window<N> {
    /// Allocates `bytes` of zeroed memory in every member and makes a window
    /// of it; sizes and units may differ between ranks. Members of one node
    /// share the memory, so that a put between them is a store. Collective.
    ///
    /// # Errors
    /// [`ErrorKind::Arguments`] for a unit of 0 (in all members),
    /// [`ErrorKind::Memory`], a peer that died.
    #[track_caller]
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
    #[track_caller]
    pub fn allocate_with(
        communicator: &Communicator<N>,
        bytes: usize,
        unit: usize,
        backing: Backing,
    ) -> Result<Window<N>, Error> {
        Window::construct(communicator, Constructor::WinAllocate, |communicator| {
            Window::allocate_on(communicator, bytes, unit, backing)
        })
    }

    fn allocate_on(
        communicator: Communicator<N>,
        bytes: usize,
        unit: usize,
        backing: Backing,
    ) -> Result<Window<N>, Error> {
        let on_node = OnNode::of(&communicator)?;
        let own = Ok(OwnMemory { bytes, unit, misalignment: 0 });
        if on_node.across_jobs.is_some() {
            let infos = exchange_infos(&communicator, own)?;
            let flavor = Flavor::Allocated;
            return Window::build(communicator, infos, &on_node, private(bytes), flavor);
        }
        if backing != Backing::Shared {
            let infos = exchange_infos(&communicator, own)?;
            let words = own_words(&communicator, &on_node);
            let local_memory = provided(&communicator, bytes, backing == Backing::Direct);
            let local_memory = local_memory.and_then(|memory| Ok(memory.with(words?)));
            return Window::build(communicator, infos, &on_node, local_memory, Flavor::Allocated);
        }
        let file = on_node.make(&communicator, "rankway-window");
        let infos = exchange_infos(&communicator, own)?;
        let node = on_node.tell(&communicator, file.as_ref().map(Shared::place));
        let node =
            node.map(|place| NodeSegment::map(&communicator, &infos, &on_node, (place, file)));
        // All members of a node share, or none does. The file stays open until
        // all have opened it, and has its length when all have said so.
        let agreed = communicator.unanimous(matches!(node, Ok(Some(_))))?;
        let local_memory = match node {
            Err(error) => Err(error),
            Ok(Some(node)) if agreed && !node.is_final() => Err(not_final(bytes)),
            Ok(Some(node)) if agreed => {
                let element_gate = node.element_gate(&communicator, &on_node);
                let NodeSegment { segment, mapped, node_words, .. } = node;
                let device = communicator.device();
                let mine = device.node_rank(device.boot().rank()).unwrap_or(0);
                // SAFETY: the segment has a region for every node rank.
                let start = unsafe { mapped.start.add(mine as usize * mapped.pitch) };
                Ok(LocalMemory {
                    mapped: Some(mapped),
                    node_words: Some(node_words),
                    element_gate,
                    segment: Some(segment),
                    ..LocalMemory::of(start)
                })
            }
            Ok(_) => provided(&communicator, bytes, true),
        };
        Window::build(communicator, infos, &on_node, local_memory, Flavor::Allocated)
    }

    /// Makes a window of memory the caller has. Collective.
    ///
    /// # Errors
    /// [`ErrorKind::NullBuffer`] for null with a length, [`ErrorKind::Length`],
    /// [`ErrorKind::Arguments`] for a unit of 0 (in all members), a peer that
    /// died, memory the provider cannot register.
    ///
    /// # Safety
    /// \[MEM\]: `start..start + bytes` stays mapped, and is touched by the process
    /// only as MPI's rules for windows allow, until the window is freed or dropped.
    /// Where that is because a member died, survivors that have not heard of it
    /// may still put here: over UCX, whose puts by messages check no key, the
    /// memory must stay mapped and unused until a later collective of all
    /// survivors.
    #[track_caller]
    pub unsafe fn create(
        communicator: &Communicator<N>,
        start: *mut u8,
        bytes: usize,
        unit: usize,
    ) -> Result<Window<N>, Error> {
        Window::construct(communicator, Constructor::WinCreate, |communicator| {
            // SAFETY: [MEM].
            unsafe { Window::create_on(communicator, start, bytes, unit) }
        })
    }

    /// # Safety
    /// \[MEM\], as [`Window::create`].
    unsafe fn create_on(
        communicator: Communicator<N>,
        start: *mut u8,
        bytes: usize,
        unit: usize,
    ) -> Result<Window<N>, Error> {
        let misalignment = (start.addr() % 8) as u8;
        let own = OwnMemory { bytes, unit, misalignment }.possible();
        let own = own.and_then(|own| match start.is_null() && bytes > 0 {
            true => Err(ErrorKind::NullBuffer { len: bytes }),
            false => Ok(own),
        });
        let on_node = OnNode::of(&communicator)?;
        let infos = exchange_infos(&communicator, own)?;
        let words = own_words(&communicator, &on_node);
        let local_memory = words.map(|words| LocalMemory::of(start).with(words));
        Window::build(communicator, infos, &on_node, local_memory, Flavor::Created)
    }

    /// Allocates `bytes` of zeroed memory in every member, all on one node,
    /// the regions side by side in the order of ranks, so that each member can
    /// load and store in those of all ([`Window::shared_query`]). Sizes and
    /// units may differ. Collective.
    ///
    /// # Errors
    /// [`ErrorKind::Arguments`] when the members are not all on one node, or a
    /// unit is 0 (in all members), [`ErrorKind::Memory`], a peer that died.
    #[track_caller]
    pub fn shared(
        communicator: &Communicator<N>,
        bytes: usize,
        unit: usize,
    ) -> Result<Window<N>, Error> {
        Window::construct(communicator, Constructor::WinAllocateShared, |communicator| {
            Window::shared_on(communicator, bytes, unit)
        })
    }

    fn shared_on(
        communicator: Communicator<N>,
        bytes: usize,
        unit: usize,
    ) -> Result<Window<N>, Error> {
        let on_node = OnNode::of(&communicator)?;
        let own = OwnMemory { bytes, unit, misalignment: 0 }.possible();
        let infos = exchange_infos(&communicator, own)?;
        if !on_node.all {
            // (So it is for all members.)
            let (here, size) = (on_node.ranks.len(), communicator.size());
            let why = format!(
                "the members of a shared window are on one node, and {here} of {size} on this one; \
                 split the communicator by node first"
            );
            return Err(ErrorKind::Arguments(why).into());
        }
        let file = on_node.make(&communicator, "rankway-window");
        let place = on_node.tell(&communicator, file.as_ref().map(Shared::place));
        let node = place.ok().and_then(|place| {
            NodeSegment::map_contiguous(&communicator, &infos, &on_node, (place, file))
        });
        let mapped = communicator.allgather(&[u8::from(node.is_some())])?;
        let unmapped = mapped.iter().position(|m| m.as_slice() != [1]);
        let (Some((node, starts)), None) = (node, unmapped) else {
            // The memory goes with who made it, who is named then: while it dies,
            // before its death can be told.
            communicator.meet()?;
            let rank = unmapped.unwrap_or(0) as u32;
            let parts = on_node.ranks.iter().map(|&rank| u128::from(infos.bytes.get(rank)));
            let why = format!(
                "cannot map the memory of a shared window, {} bytes of all ranks together; limits \
                 there say why (ulimit -a)",
                parts.sum::<u128>()
            );
            return Err(communicator.without_memory(rank, &why));
        };
        if !node.is_final() {
            let refused = Err(not_final(bytes));
            return Window::build(communicator, infos, &on_node, refused, Flavor::Shared);
        }
        let mine = starts[communicator.rank() as usize] as usize;
        // SAFETY: the segment holds the regions of all ranks.
        let start = unsafe { node.mapped.start.add(mine) };
        let local_memory = LocalMemory {
            mapped: Some(node.mapped),
            starts: Some(starts),
            node_words: Some(node.node_words),
            element_gate: node.element_gate(&communicator, &on_node),
            segment: Some(node.segment),
            ..LocalMemory::of(start)
        };
        Window::build(communicator, infos, &on_node, Ok(local_memory), Flavor::Shared)
    }

    /// Makes a window without memory, to which each member attaches its own
    /// ([`Window::attach`]) while the window lives. Displacements are addresses
    /// at the target, the unit is a byte. Collective.
    ///
    /// # Errors
    /// A peer that died.
    #[track_caller]
    pub fn dynamic(communicator: &Communicator<N>) -> Result<Window<N>, Error> {
        Window::construct(communicator, Constructor::WinCreateDynamic, |communicator| {
            let on_node = OnNode::of(&communicator)?;
            let own = Ok(OwnMemory { bytes: 0, unit: 1, misalignment: 0 });
            let infos = exchange_infos(&communicator, own)?;
            let words = own_words(&communicator, &on_node);
            let local_memory = words.map(|words| LocalMemory::of(std::ptr::null_mut()).with(words));
            Window::build(communicator, infos, &on_node, local_memory, Flavor::Dynamic)
        })
    }

    /// Makes a window on a duplicate of a communicator, and records it where the
    /// communicator's calls are: the duplicate's are the window's then.
    #[track_caller]
    fn construct(
        communicator: &Communicator<N>,
        constructor: Constructor,
        make: impl FnOnce(Communicator<N>) -> Result<Window<N>, Error>,
    ) -> Result<Window<N>, Error> {
        // (A duplicate has a number, as a collective has.)
        communicator.context().check_may_wait()?;
        let make = || make(communicator.duplicate());
        let Some(parent) = communicator.recorded() else { return make() };
        let place = |made: &Window<N>| Some(made.communicator.place());
        let (made, recorded) = parent.construct(constructor, Location::caller(), make, place);
        let mut window = made?;
        let Some(recorded) = recorded else { return Ok(window) };
        if let Ok(state) = window.access.state() {
            let _ = state.recorded.set(recorded.clone());
        }
        window.access.record(&recorded);
        let communicator = window.communicator.recorded_as(recorded, End::Window);
        Ok(Window { communicator, ..window })
    }

    /// Registers the memory and exchanges the keys; a failure is exchanged too,
    /// so that a window is made in all members or in none.
    fn build(
        communicator: Communicator<N>,
        infos: MemberInfos,
        on_node: &OnNode,
        local_memory: Result<LocalMemory<N>, Error>,
        flavor: Flavor,
    ) -> Result<Window<N>, Error> {
        let context = communicator.context();
        let device = communicator.device();
        let MemberInfos { bytes, units, misalignments, agreed, key: mut own_key } = infos;
        let own_bytes = bytes.get(communicator.rank()) as usize;
        own_key.adopt(agreed);
        let key = own_key.value();
        let register = |transport,
                        local_memory: &LocalMemory<N>|
         -> Result<Option<N::Region>, Error> {
            let Some((netmod, endpoint)) = context.endpoint(transport) else { return Ok(None) };
            let needless = local_memory.mapped.is_some_and(|m| m.all);
            if own_bytes == 0 || needless || on_node.across_jobs.is_some() {
                return Ok(None);
            }
            // SAFETY: the segment is dropped after the region, and user memory
            // stays by the contract of `create`.
            let region = unsafe { netmod.register(endpoint, local_memory.start, own_bytes, key) };
            Ok(Some(region.map_err(DeviceError::from)?))
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
                    netmod.rkey_pack(region).map_err(DeviceError::from)?
                }
                _ => Vec::new(),
            };
            Ok((local_memory, network, local, packed_key))
        });
        // In the registry before any peer knows of the window.
        let dynamic = flavor == Flavor::Dynamic;
        let holders = match &on_node.across_jobs {
            Some(members) => (members.len(), Some(members.clone())),
            None => (device.boot().size(), None),
        };
        let exposed_region = prepared.as_ref().ok().map(|(local_memory, ..)| {
            let node_rank = device.node_rank(device.boot().rank()).unwrap_or(0);
            let shared_lock = local_memory.node_words.map(|words| words.lock(node_rank));
            let memory = (local_memory.start, own_bytes);
            let shared = (shared_lock, local_memory.element_gate.clone());
            let cpu_atomics = [Transport::Network, Transport::Local].into_iter().any(|transport| {
                device.provider(transport).is_some_and(|netmod| netmod.caps().cpu_atomics)
            });
            let lock = [Transport::Network, Transport::Local].into_iter().find_map(|transport| {
                device.provider(transport).and_then(|netmod| netmod.element_lock())
            });
            let elements = Elements::new(lock, local_memory.mapped.is_some(), cpu_atomics);
            let id = communicator.id();
            let region = ExposedRegion::new(id, memory, dynamic, elements, shared, holders);
            Arc::new(RegistryEntry::new(Arc::clone(RmaHandler::of(context).registry()), region))
        });
        let own_keys = prepared.as_ref().ok().map(|(local_memory, network, local, packed_key)| {
            let providers = Providers { network: network.is_some(), local: local.is_some() };
            let netmod = device.provider(Transport::Network);
            let by_address = netmod.is_some_and(|n| n.caps().virtual_addresses);
            let base =
                if by_address && network.is_some() { local_memory.start.addr() as u64 } else { 0 };
            let chosen = netmod.filter(|n| n.caps().provider_keys).zip(network.as_ref());
            let network_key = chosen.map_or(key, |(n, region)| n.key(region));
            let registration = Registration::own(providers, base, network_key, key);
            OwnKeys { registration, packed: packed_key.as_slice().into() }
        });
        let own_keys = exposed_region.as_ref().zip(own_keys).map(|(r, keys)| r.tell_keys(keys));
        let member_keys = exchange_keys(&communicator, own_keys);
        let (local_memory, network_region, local_region, _) = prepared?;
        // From here on peers may write to this memory, even if this exchange
        // failed here.
        let memory_regions = [network_region, local_region].map(|r| MemoryRegion::new(r, device));
        let MemberKeys { registered, packed_keys } = member_keys?;
        let gone = || ErrorKind::Arguments("the window has no memory of its own".into());
        let one_node = on_one_node(&communicator, on_node, local_memory.node_words)?;
        let (node_locks, barrier) = one_node.unzip();
        let state = Arc::new(WindowState {
            exposed_region: exposed_region.ok_or_else(gone)?,
            contiguous: local_memory.starts.map(|starts| Column::new(starts.iter().copied())),
            node_words: local_memory.node_words,
            node_locks,
            element_gate: local_memory.element_gate,
            misalignments,
            master: communicator.world_rank(0)?,
            by_packets: dynamic || on_node.across_jobs.is_some(),
            created: flavor == Flavor::Created,
            hints: AtomicU8::new(Hints::default().bits()),
            memory_regions,
            sizes: if dynamic { Column::Uniform(u64::MAX) } else { bytes },
            units,
            registered,
            packed_keys: packed_keys.map(Arc::new),
            members: communicator.map().clone(),
            rkey_ptr: local_memory.rkey_ptr,
            _key: Some(own_key),
            mapped: local_memory.mapped,
            start: local_memory.start,
            bytes: own_bytes,
            segment: local_memory.segment,
            _words: local_memory.words,
            map: communicator.map().clone(),
            recorded: OnceLock::new(),
            _of: None,
        });
        let access = Access::new(&state, context, communicator.map())?;
        Ok(Window { access, communicator, flavor, barrier, exposed: RefCell::new(None) })
    }
}
