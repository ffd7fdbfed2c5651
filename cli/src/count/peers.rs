//! What translations of others touch: VC-VCRT and AV-Rankmap as Guo et al. (2017)
//! have them, and those of MPICH's releases, by the sizes of their elements.
//!
//! A translation alone, from a communicator's structure to the 8 bytes of
//! address in an element; nothing else of a put of theirs, so it is the least
//! that they touch. `benches/shapes` has the same as code, which a test of this
//! module traces.

use super::stream::{Follows, Region, Touch};
use rankway_cli::observe::figures::{AVE_BYTES, VC_BYTES};

/// A way of others to keep addresses.
pub(super) struct Peer {
    pub(super) name: &'static str,
    /// Who has it.
    pub(super) label: &'static str,
    /// Bytes of an element, and where the address stands in it.
    element: (u64, u64),
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A table of 8 bytes a rank in every communicator.
    Vcrt,
    /// A mode and parameters; a table of 4 or 8 bytes a rank for lut and mlut.
    Modes,
    /// Offset and stride in a group; any other map has 8 bytes a rank.
    Group,
}

const fn peer(name: &'static str, label: &'static str, element: (usize, u64), kind: Kind) -> Peer {
    Peer { name, label, element: (element.0 as u64, element.1), kind }
}

/// All that are compared with, MPICH's as `figures::MPICH_AVE_BYTES` has them.
pub(super) const PEERS: [Peer; 5] = [
    peer("vc_vcrt", "VC-VCRT (MPICH 3.2), 480 bytes", (VC_BYTES, 64), Kind::Vcrt),
    peer("e12", "AV-Rankmap of the paper, 12 bytes", (AVE_BYTES, 0), Kind::Modes),
    peer("e16", "MPICH 4.0.2 ucx, 16 bytes", (16, 8), Kind::Modes),
    peer("e32", "MPICH 5.1 ofi, 32 bytes", (32, 8), Kind::Group),
    peer("e72", "MPICH 4.0.2 ofi, 72 bytes", (72, 8), Kind::Modes),
];

impl Peer {
    /// Bytes of what a translation needs of a communicator.
    pub(super) const fn own(&self) -> u64 {
        match self.kind {
            Kind::Vcrt => 16,
            Kind::Modes => 48,
            // A communicator's and a group's.
            Kind::Group => 128,
        }
    }

    /// The accesses of a translation through a model's map.
    pub(super) fn touches(&self, model: &str) -> Vec<Touch> {
        let one =
            |region, follows, pitch, offset, bytes| Touch { region, follows, pitch, offset, bytes };
        let own = |offset, bytes| one(Region::Own, Follows::Nothing, 0, offset, bytes);
        let table = |pitch| one(Region::Table, Follows::Rank, pitch, 0, pitch);
        let (pitch, offset) = self.element;
        let entry = one(Region::Entries, Follows::Lpid, pitch, offset, 8);
        let directory = match model {
            "mlut" => one(Region::Shared, Follows::Group, 8, 0, 8),
            _ => one(Region::Shared, Follows::Nothing, 0, 0, 8),
        };
        let mut all = Vec::new();
        match (self.kind, model) {
            (Kind::Vcrt, _) => all.extend([own(8, 8), table(8), entry]),
            (Kind::Modes, "lut") => all.extend([own(0, 8), own(24, 8), table(4), directory, entry]),
            (Kind::Modes, "mlut") => {
                all.extend([own(0, 4), own(32, 8), table(8), directory, entry]);
            }
            (Kind::Modes, _) => all.extend([own(0, 24), directory, entry]),
            (Kind::Group, "direct" | "offset" | "stride") => {
                all.extend([own(8, 16), own(80, 4), own(88, 16), directory, entry]);
            }
            (Kind::Group, _) => {
                all.extend([own(8, 16), own(80, 4), own(104, 8), table(8), directory, entry]);
            }
        }
        all
    }
}
