//! What all accesses of a window share: memory, keys, sizes.

use super::locks::{Control, Words};
use super::part::Registered;
use super::segment::Segment;
use crate::netmod::Netmod;

/// One value for each rank of a communicator; one word when all are equal.
#[derive(Debug)]
pub(super) enum Column {
    Uniform(u64),
    Table(Box<[u64]>),
}

impl Column {
    pub(super) fn new(values: impl ExactSizeIterator<Item = u64> + Clone) -> Column {
        let first = values.clone().next().unwrap_or(0);
        if values.clone().all(|v| v == first) {
            Column::Uniform(first)
        } else {
            Column::Table(values.collect())
        }
    }

    pub(super) fn get(&self, rank: u32) -> u64 {
        match self {
            Column::Uniform(v) => *v,
            Column::Table(t) => t.get(rank as usize).copied().unwrap_or(0),
        }
    }

    pub(super) fn uniform(&self) -> Option<u64> {
        match self {
            Column::Uniform(v) => Some(*v),
            Column::Table(_) => None,
        }
    }

    fn heap(&self) -> usize {
        match self {
            Column::Uniform(_) => 0,
            Column::Table(t) => size_of_val(&**t),
        }
    }
}

/// The node's part of a window, as this process has it mapped: the part of
/// node rank `n` starts at `start + n * pitch`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mapped {
    pub(super) start: *mut u8,
    pub(super) pitch: usize,
    /// Every member of the communicator is on this node.
    pub(super) all: bool,
}

/// The lock words of the node's parts, as this process has them mapped.
#[derive(Clone, Copy, Debug)]
pub(super) struct Controls {
    pub(super) start: *mut u8,
    /// Processes of the job.
    pub(super) world: u32,
}

impl Controls {
    /// Those of a node rank.
    pub(super) fn of(&self, node_rank: u32) -> Control {
        let at = node_rank as usize * Words::bytes(self.world);
        // SAFETY: the segment holds words for every node rank.
        unsafe { Control::at(self.start.add(at), self.world) }
    }
}

/// Memory, keys and sizes of a window, shared by its accesses.
///
/// The metadata is a few words where all ranks agree and the provider lets us
/// choose keys and address by offset; a table of 8 bytes a rank for each thing
/// that differs.
pub struct WindowCore<N: Netmod> {
    /// What packets find; taken out before anything else goes.
    pub(super) part: Registered,
    /// Registrations, network and node-local; dropped before the memory they
    /// name.
    pub(super) _regions: [Option<N::Region>; 2],
    pub(super) sizes: Column,
    pub(super) units: Column,
    /// Virtual address at the target, or 0 with offset addressing.
    pub(super) bases: Column,
    pub(super) keys: Column,
    pub(super) local_key: u64,
    pub(super) mapped: Option<Mapped>,
    /// Where the parts of a shared window start in the node's segment, by
    /// rank; others lie a pitch apart.
    pub(super) contiguous: Option<Column>,
    pub(super) controls: Option<Controls>,
    /// Address of each rank's memory modulo 8.
    pub(super) skews: Column,
    /// World rank of the first member, whose word lock_all takes.
    pub(super) master: u32,
    /// Memory comes and goes: displacements are addresses.
    pub(super) dynamic: bool,
    pub(super) start: *mut u8,
    pub(super) bytes: usize,
    /// Held for the memory's sake, where it is the window's own.
    pub(super) _segment: Option<Segment>,
}

// SAFETY: the pointers name memory that lives as long as the core (its own
// segment, or the user's by the contract of `Window::create`); what is read
// and written there is the accesses' affair.
unsafe impl<N: Netmod> Send for WindowCore<N> {}
// SAFETY: as above; nothing in the core changes after it is made.
unsafe impl<N: Netmod> Sync for WindowCore<N> {}

impl<N: Netmod> std::fmt::Debug for WindowCore<N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WindowCore")
            .field("sizes", &self.sizes)
            .field("units", &self.units)
            .field("mapped", &self.mapped)
            .finish_non_exhaustive()
    }
}

impl<N: Netmod> WindowCore<N> {
    /// Bytes of metadata: this struct and its tables.
    pub fn metadata_bytes(&self) -> usize {
        let columns = [&self.sizes, &self.units, &self.bases, &self.keys, &self.skews];
        let columns = columns.into_iter().chain(&self.contiguous);
        size_of::<Self>() + columns.map(|c| c.heap()).sum::<usize>()
    }

    /// Whether one word serves all ranks for sizes, units, addresses and keys.
    pub(super) fn uniform(&self) -> Option<Uniform> {
        Some(Uniform {
            bytes: self.sizes.uniform()?,
            unit: self.units.uniform()?,
            base: self.bases.uniform()?,
            key: self.keys.uniform()?,
        })
    }
}

/// The metadata of a window whose ranks all agree.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Uniform {
    pub(super) bytes: u64,
    pub(super) unit: u64,
    pub(super) base: u64,
    pub(super) key: u64,
}
