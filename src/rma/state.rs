//! What all accesses of a window share: memory, keys, sizes.

use super::column::Column;
use super::element_gate::ElementGate;
use super::exposed_region::RegistryEntry;
use super::keys::PackedKeys;
use super::locks::NodeLocks;
use super::node_words::NodeWords;
use super::registration::{Registrations, UniformKeys};
use super::{Error, ErrorKind};
use crate::device::trace::Recorded;
use crate::device::{Device, Key};
use crate::netmod::Netmod;
use crate::rankmap::{Process, RankMap};
use crate::shm::segment::Segment;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};

/// The segment of a window on this node, as this process has it mapped: the
/// region of node rank `n` starts at `start + n * pitch`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mapped {
    pub(super) start: *mut u8,
    pub(super) pitch: usize,
    /// Every member of the communicator is on this node.
    pub(super) all: bool,
}

/// Memory registered with a provider for a window. When it is dropped after a
/// death, survivors at other places of the program may still write to it.
pub(super) struct MemoryRegion<N: Netmod> {
    region: Option<N::Region>,
    device: Arc<Device<N>>,
    quiescent: AtomicBool,
}

impl<N: Netmod> MemoryRegion<N> {
    pub(super) fn new(
        region: Option<N::Region>,
        device: &Arc<Device<N>>,
    ) -> Option<MemoryRegion<N>> {
        let (device, quiescent) = (Arc::clone(device), AtomicBool::new(false));
        region.map(|region| MemoryRegion { region: Some(region), device, quiescent })
    }

    /// Returns true if a member may still put to it: one died, and the others
    /// have not met since.
    fn may_be_written(&self) -> bool {
        !self.quiescent.load(Ordering::Relaxed) && self.device.has_diverged()
    }
}

impl<N: Netmod> Drop for MemoryRegion<N> {
    fn drop(&mut self) {
        match self.region.take() {
            Some(region) if self.may_be_written() => N::abandon(region),
            region => drop(region),
        }
    }
}

/// The state that all accesses of a window share: memory, keys, sizes.
///
/// The metadata is a few words where all ranks agree and the provider lets us
/// choose keys and address by offset; a table of 8 bytes a rank for each thing
/// that differs.
pub struct WindowState<N: Netmod> {
    /// What packets find; taken out before anything else goes.
    pub(super) exposed_region: Arc<RegistryEntry>,
    /// Registrations, network and node-local; dropped before the memory they
    /// name.
    pub(super) memory_regions: [Option<MemoryRegion<N>>; 2],
    /// The key of this process's memory, another's when that is deregistered.
    pub(super) _key: Option<Key>,
    pub(super) sizes: Column,
    pub(super) units: Column,
    pub(super) registered: Registrations,
    /// The members' packed keys, where keys are handles.
    pub(super) packed_keys: Option<Arc<PackedKeys>>,
    /// The ranks they belong to.
    pub(super) members: RankMap,
    /// Peers on the node store into the provider's memory where
    /// [`Netmod::rkey_ptr`] has it mapped here.
    pub(super) rkey_ptr: bool,
    pub(super) mapped: Option<Mapped>,
    /// Where the regions of a shared window start in the node's segment, by
    /// rank; others lie a pitch apart.
    pub(super) contiguous: Option<Column>,
    /// Where the members of this node share words: all of them do, or none.
    pub(super) node_words: Option<NodeWords>,
    /// Where all members are on this node and share words.
    pub(super) node_locks: Option<NodeLocks>,
    /// Where all members have the memory mapped.
    pub(super) element_gate: Option<Arc<ElementGate>>,
    /// Address of each rank's memory modulo 8.
    pub(super) misalignments: Column,
    /// World rank of the first member, whose word lock_all takes.
    pub(super) master: u32,
    /// All goes as packets: memory comes and goes, or there are members in other jobs.
    pub(super) by_packets: bool,
    /// Over memory of the program's own.
    pub(super) created: bool,
    /// [`Hints::bits`](super::Hints).
    pub(super) hints: AtomicU8,
    pub(super) start: *mut u8,
    pub(super) bytes: usize,
    /// The window's memory, where it is its own.
    pub(super) segment: Option<Segment>,
    /// The node's words, where they have a segment of their own.
    pub(super) _words: Option<Segment>,
    /// Whose ranks the tables go by.
    pub(super) map: RankMap,
    /// Where calls are recorded, if they are.
    pub(super) recorded: OnceLock<Recorded>,
    /// The state this was derived from, whose memory it uses.
    pub(super) _of: Option<Arc<WindowState<N>>>,
}

// SAFETY: the pointers name memory that lives as long as the state (its own
// segment, or the user's by the contract of `Window::create`); what is read
// and written there is the accesses' affair.
unsafe impl<N: Netmod> Send for WindowState<N> {}
// SAFETY: as above; nothing in the state changes after it is made but an atomic.
unsafe impl<N: Netmod> Sync for WindowState<N> {}

impl<N: Netmod> std::fmt::Debug for WindowState<N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WindowState")
            .field("sizes", &self.sizes)
            .field("units", &self.units)
            .field("mapped", &self.mapped)
            .finish_non_exhaustive()
    }
}

impl<N: Netmod> Drop for WindowState<N> {
    fn drop(&mut self) {
        // UCX carries puts out by messages with an address, which ask for no
        // key: where one may come, the memory stays.
        if N::KEY_HANDLES && self.memory_regions.iter().flatten().any(MemoryRegion::may_be_written)
        {
            std::mem::forget(self.segment.take());
        }
    }
}

impl<N: Netmod> WindowState<N> {
    /// Bytes of metadata: this struct and its tables.
    pub fn metadata_bytes(&self) -> usize {
        let columns = [&self.sizes, &self.units, &self.misalignments];
        let columns = columns.into_iter().chain(&self.contiguous);
        let packed_keys = self.packed_keys.as_ref().map_or(0, |p| p.heap());
        let columns = columns.map(|c| c.heap()).sum::<usize>() + self.registered.heap();
        size_of::<Self>() + columns + packed_keys
    }

    /// The window's rank of a process, for its first use.
    pub(super) fn member(&self, device: &Device<N>, peer: u32) -> Option<u32> {
        if self.members.pg() == Some(0) {
            return self.members.rank_of(Process { pg: 0, lpid: peer });
        }
        let is = |rank: &u32| {
            let process = self.members.get(*rank);
            process.and_then(|p| device.world_rank(p).ok()) == Some(peer)
        };
        (0..self.members.len()).find(is)
    }

    /// Marks the memory as no longer written to by any member.
    pub(super) fn set_quiescent(&self) {
        for region in self.memory_regions.iter().flatten() {
            region.quiescent.store(true, Ordering::Relaxed);
        }
    }

    /// Returns true if this was derived from a window's state for the ranks of
    /// another map.
    pub(super) fn is_derived(&self) -> bool {
        self._of.is_some()
    }

    /// The same window with its tables by the ranks of another map, all of them
    /// members of the window. What they share is a word again, so a
    /// communicator whose ranks agree takes the short path.
    ///
    /// # Errors
    /// [`ErrorKind::Arguments`] for a rank that is no member.
    pub(super) fn by_ranks_of(
        self: &Arc<Self>,
        map: &RankMap,
        device: &Device<N>,
    ) -> Result<Arc<Self>, Error> {
        let mut own = HashMap::new();
        for (rank, process) in (0..).zip(self.map.iter()) {
            own.insert(device.world_rank(process)?, rank);
        }
        let mut ranks = Vec::with_capacity(map.len() as usize);
        for (rank, process) in (0..map.len()).zip(map.iter()) {
            let member = own.get(&device.world_rank(process)?);
            let why = || format!("rank {rank} of the map is no member of the window");
            ranks.push(*member.ok_or_else(|| ErrorKind::Arguments(why()))?);
        }
        Ok(Arc::new(WindowState {
            exposed_region: Arc::clone(&self.exposed_region),
            contiguous: self.contiguous.as_ref().map(|c| c.pick(&ranks)),
            node_words: self.node_words,
            node_locks: self.node_locks,
            element_gate: self.element_gate.clone(),
            misalignments: self.misalignments.pick(&ranks),
            master: self.master,
            by_packets: self.by_packets,
            created: self.created,
            hints: AtomicU8::new(self.hints.load(Ordering::Relaxed)),
            memory_regions: [None, None],
            _key: None,
            sizes: self.sizes.pick(&ranks),
            units: self.units.pick(&ranks),
            registered: self.registered.pick(&ranks),
            packed_keys: self.packed_keys.clone(),
            members: self.members.clone(),
            rkey_ptr: self.rkey_ptr,
            mapped: self.mapped,
            start: self.start,
            bytes: self.bytes,
            segment: None,
            _words: None,
            map: map.clone(),
            recorded: self.recorded.clone(),
            _of: Some(Arc::clone(self)),
        }))
    }

    /// Whether one word serves all ranks for sizes, units, addresses and keys.
    /// Keys that are handles, and the addresses behind them, are looked up by
    /// rank.
    pub(super) fn uniform(&self) -> Option<Uniform> {
        if N::KEY_HANDLES {
            let (bytes, unit) = (self.sizes.uniform()?, self.units.uniform()?);
            return Some(Uniform { bytes, unit, registered: UniformKeys::default() });
        }
        Some(Uniform {
            bytes: self.sizes.uniform()?,
            unit: self.units.uniform()?,
            registered: self.registered.uniform()?,
        })
    }
}

/// The metadata of a window whose ranks all agree.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Uniform {
    pub(super) bytes: u64,
    pub(super) unit: u64,
    /// By what keys, where they are not handles.
    pub(super) registered: UniformKeys,
}
