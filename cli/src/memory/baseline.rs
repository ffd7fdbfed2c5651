//! What others need for the same: MPICH 3.2's virtual connections and their
//! reference tables (VC-VCRT), really allocated where they fit, and later
//! MPICHs computed from measured sizes.

use super::kind::{Kind, Layout};
use super::world::Measured;
use crate::HEAP;
use rankway_cli::observe::figures::{
    CommunicatorBytes, MPICH_4_0_COMMUNICATOR, MPICH_5_0_COMMUNICATOR, MPICH_AVE_BYTES, VC_BYTES,
};

/// A virtual connection of MPICH 3.2, by its size.
#[derive(Clone)]
struct Vc(#[expect(dead_code, reason = "only its weight matters")] [u64; VC_BYTES / 8]);

const _: () = assert!(size_of::<Vc>() == VC_BYTES);

/// Bytes, and whether they were allocated or computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub(super) struct Weight {
    pub(super) bytes: u64,
    pub(super) computed: bool,
}

/// The virtual connections of a process.
pub(super) struct VcVcrt {
    layout: Layout,
    budget: u64,
    /// `None` where they do not fit.
    connections: Option<Box<[Vc]>>,
    /// Their bytes and those of the world's reference table.
    base: u64,
}

fn live() -> u64 {
    HEAP.read().live as u64
}

impl VcVcrt {
    /// The connections to all processes and the table of the world, allocated
    /// and written if that takes no more than `budget` bytes.
    pub(super) fn open(layout: Layout, budget: u64) -> VcVcrt {
        let processes = layout.processes as usize;
        let base = processes as u64 * (VC_BYTES as u64 + size_of::<*const Vc>() as u64);
        if base > budget {
            return VcVcrt { layout, budget, connections: None, base };
        }
        let before = live();
        let connections = vec![Vc([1; VC_BYTES / 8]); processes].into_boxed_slice();
        let connection_bytes = live() - before;
        let world = connections.iter().map(std::ptr::from_ref).collect::<Box<[*const Vc]>>();
        let base = connection_bytes + size_of_val(&*world) as u64;
        VcVcrt { layout, budget, connections: Some(connections), base }
    }

    /// The process with `communicators` of a kind. Duplicates share the
    /// world's table, all others have one of their own; a second process group
    /// has connections of its own.
    pub(super) fn weigh(&self, kind: Kind, ranks: u32, communicators: u32) -> Weight {
        let tables = match kind {
            Kind::Direct => 0,
            _ => u64::from(communicators),
        };
        let second = if kind.is_of_two() { u64::from(self.layout.processes / 2) } else { 0 };
        let bytes = self.base
            + tables * u64::from(ranks) * size_of::<*const Vc>() as u64
            + second * VC_BYTES as u64;
        let Some(connections) = self.connections.as_deref().filter(|_| bytes <= self.budget) else {
            return Weight { bytes, computed: true };
        };
        let allocated = if tables > 0 {
            // The reference tables' contents do not matter for their weight,
            // but that every word is written does.
            let before = live();
            let more = vec![Vc([1; VC_BYTES / 8]); second as usize];
            let peers: Vec<&[Vc]> = [connections, &more].into();
            let tables: Vec<Box<[*const Vc]>> = (0..tables)
                .map(|_| {
                    let all = peers.iter().flat_map(|group| group.iter());
                    all.take(ranks as usize).map(std::ptr::from_ref).collect()
                })
                .collect();
            let used = live() - before;
            let own = (tables.capacity() * size_of::<Box<[*const Vc]>>()
                + peers.capacity() * size_of::<&[Vc]>()) as u64;
            std::hint::black_box(&tables);
            used - own
        } else {
            0
        };
        Weight { bytes: self.base + allocated, computed: false }
    }
}

/// MPICH 4.0.2 over OFI: entries and communicators. `None` for kinds nobody
/// measured.
pub(super) fn mpich_4(measured: &Measured, layout: &Layout, communicators: u32) -> Option<u64> {
    // Its node tables are of the same size whatever the map.
    let per_rank = measured.kind.is_regular().then_some(MPICH_4_0_COMMUNICATOR.duplicate);
    mpich("MPICH 4.0.2 ofi", MPICH_4_0_COMMUNICATOR, per_rank, measured, layout, communicators)
}

/// MPICH 5: entries of 5.1 over OFI, communicators of 5.0.2.
pub(super) fn mpich_5(measured: &Measured, layout: &Layout, communicators: u32) -> Option<u64> {
    let figures = MPICH_5_0_COMMUNICATOR;
    let per_rank = match measured.kind {
        Kind::Direct => Some(figures.duplicate),
        Kind::BlockStride => figures.block_stride,
        Kind::Lut => figures.irregular,
        _ => None,
    };
    mpich("MPICH 5.1 ofi", figures, per_rank, measured, layout, communicators)
}

fn mpich(
    entries: &str,
    communicator: CommunicatorBytes,
    per_rank: Option<f64>,
    measured: &Measured,
    layout: &Layout,
    communicators: u32,
) -> Option<u64> {
    let entry = MPICH_AVE_BYTES.iter().find(|(name, _)| *name == entries)?.1;
    let each = communicator.fixed + per_rank? * f64::from(measured.ranks);
    let all = each * f64::from(communicators);
    Some(u64::from(layout.processes) * entry as u64 + all.round() as u64)
}
