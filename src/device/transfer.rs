//! How noncontiguous data travels: what each method costs over each medium, and
//! which is taken.
//!
//! What an operation, a block and a byte cost is the provider's ([`Costs`]), and of
//! copies between processes [`NODE`].

use crate::datatype::Layout;
use crate::netmod::Costs;
use crate::settings::TRANSFER;
use std::sync::OnceLock;

/// A method of moving noncontiguous data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// One copy between two memories that are mapped here.
    Store,
    /// The system copies between two processes, several blocks at a call
    /// (`process_vm_readv`).
    CrossMemory,
    /// Operations of the provider with several blocks each.
    Iov,
    /// An operation for each block.
    Blocks,
    /// Packed, moved and unpacked in fragments, while the wire has those before.
    Pack,
}

impl Method {
    /// All of them, in the order in which `RANKWAY_TRANSFER` lists them.
    pub const ALL: [Method; 5] =
        [Method::Store, Method::CrossMemory, Method::Iov, Method::Blocks, Method::Pack];

    /// What it is called in `RANKWAY_TRANSFER`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        TRANSFER.names[self as usize]
    }

    /// The one that `RANKWAY_TRANSFER` asks for wherever it can be taken.
    fn asked() -> Option<Method> {
        static ASKED: OnceLock<Option<Method>> = OnceLock::new();
        *ASKED.get_or_init(|| {
            let name = TRANSFER.get()?;
            Method::ALL.into_iter().find(|method| method.name() == name)
        })
    }
}

/// What data travels through.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Medium {
    /// Memory of the peer that is mapped in this process.
    Mapped,
    /// The system's copies between two processes of a node.
    Node,
    /// A provider with these costs: its [`Netmod::operation_costs`](crate::netmod::Netmod::operation_costs),
    /// or [`netmod::costs`](crate::netmod::costs) of one that is not opened.
    Provider(Costs),
}

/// Bytes of a fragment that is packed at once: two fit in a second-level cache.
pub(crate) const FRAGMENT: usize = 256 << 10;
/// The longest: 64 columns of a large matrix, whose cache lines are fetched once.
const LONGEST_FRAGMENT: u64 = 4 << 20;

/// Bytes of a fragment of a message of so many: columns of a large matrix are long.
pub(crate) fn fragment_of(bytes: u64) -> u64 {
    (bytes / 32).clamp(FRAGMENT as u64, LONGEST_FRAGMENT)
}

/// Packing or unpacking: a byte, and a block.
const PACKED_BYTE: f64 = 0.10;
const PACKED_BLOCK: f64 = 1.5;

/// Copies between processes: measured as the reader, for whom its own blocks cost
/// little and the peer's a page to be looked up.
const NODE: Costs =
    Costs { call: 1100.0, origin_entry: 8.0, target_entry: 300.0, entries: 1024, byte: 0.072 };

/// What a choice depends on of the data.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) bytes: u64,
    /// Blocks of contiguous bytes: of this process's memory, and of the peer's.
    pub(crate) origin: u64,
    pub(crate) target: u64,
}

impl Shape {
    /// Of data that one layout describes here and another one at the peer.
    pub(crate) fn of(origin: &Layout, target: &Layout) -> Shape {
        let bytes = origin.size().min(target.size());
        Shape { bytes, origin: origin.blocks(), target: target.blocks() }
    }

    /// At most so many stretches are contiguous on both sides.
    fn pieces(self) -> u64 {
        (self.origin.max(1) - 1).saturating_add(self.target.max(1))
    }
}

impl Medium {
    fn costs(self) -> Costs {
        match self {
            Medium::Provider(costs) => costs,
            Medium::Mapped | Medium::Node => NODE,
        }
    }

    /// What a method is predicted to cost, ns; `None` where there is no such
    /// thing.
    pub(crate) fn cost(self, method: Method, shape: Shape) -> Option<f64> {
        let Costs { call, origin_entry, target_entry, entries, byte } = self.costs();
        let pieces = shape.pieces() as f64;
        let (bytes, wire) = (shape.bytes as f64, shape.bytes as f64 * byte);
        let packed = |blocks: u64| match blocks {
            0 | 1 => 0.0,
            blocks => bytes * PACKED_BYTE + blocks as f64 * PACKED_BLOCK,
        };
        let listed = || {
            let calls = (pieces / entries as f64).ceil().max(1.0);
            // An operation's first block is its own.
            let own = (shape.origin as f64 - calls).max(0.0) * origin_entry;
            calls * call + own + (shape.target as f64 - calls).max(0.0) * target_entry + wire
        };
        match (method, self) {
            (Method::Store, Medium::Mapped) => {
                Some(packed(shape.origin.max(shape.target)).max(bytes * PACKED_BYTE))
            }
            (Method::CrossMemory, Medium::Node) => Some(listed()),
            (Method::Iov, Medium::Provider(_)) if entries > 1 => Some(listed()),
            (Method::Blocks, Medium::Provider(_)) => Some(pieces * call + wire),
            (Method::Pack, Medium::Node | Medium::Provider(_)) => {
                // The stages overlap: the slowest counts whole, of the others the
                // first fragment.
                let stages = [packed(shape.origin), wire, packed(shape.target)];
                let slowest = stages.iter().fold(0.0, |most: f64, &stage| most.max(stage));
                let fragments = (bytes / fragment_of(shape.bytes) as f64).ceil().max(1.0);
                let rest = (stages.iter().sum::<f64>() - slowest) / fragments;
                Some(slowest + rest + fragments * call)
            }
            _ => None,
        }
    }

    /// The cheapest of these methods, of which one must be there over this
    /// medium; `RANKWAY_TRANSFER` has the last word.
    pub(crate) fn choose(self, shape: Shape, of: &[Method]) -> Method {
        let there = |method: &Method| Some((*method, self.cost(*method, shape)?));
        let best = of.iter().filter_map(there).min_by(|a, b| a.1.total_cmp(&b.1));
        let asked = Method::asked().filter(|asked| of.contains(asked));
        let asked = asked.filter(|&asked| self.cost(asked, shape).is_some());
        asked.or(best.map(|(method, _)| method)).unwrap_or(Method::Pack)
    }
}

/// What is predicted for a transfer, and what is chosen.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// The method taken.
    pub method: Method,
    /// Every method there is over the medium, and its predicted cost in
    /// nanoseconds.
    pub costs: Vec<(Method, f64)>,
}

/// Tells how data that `origin` describes in this process's memory and `target`
/// in the peer's would travel through a medium, and what each method is
/// predicted to cost. Over [`Medium::Node`] this process is the one that copies: of
/// a message its receiver. Messages through a provider are packed whatever else is
/// cheaper, but for fragments within one block.
///
/// ```
/// use rankway::datatype::{Basic, Layout};
/// use rankway::device::{Medium, Method, explain};
/// use rankway::netmod;
///
/// let column = Layout::vector(8192, 1, 8192, &Layout::basic(Basic::F64))?;
/// let packed = Layout::contiguous(8192, &Layout::basic(Basic::F64))?;
/// let told = explain(&column, &packed, Medium::Provider(netmod::costs("tcp;ofi_rxm")));
/// assert_eq!(told.method, Method::Pack);
/// assert!(told.costs.iter().all(|&(method, cost)| method == Method::Pack || cost > 1e6));
/// # Ok::<(), rankway::datatype::LayoutError>(())
/// ```
#[must_use]
pub fn explain(origin: &Layout, target: &Layout, medium: Medium) -> Explanation {
    let shape = Shape::of(origin, target);
    let cost = |method| Some((method, medium.cost(method, shape)?));
    Explanation {
        method: medium.choose(shape, &Method::ALL),
        costs: Method::ALL.into_iter().filter_map(cost).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netmod::costs;

    fn chosen(medium: Medium, blocks: u64, block: u64) -> Method {
        medium.choose(Shape { bytes: blocks * block, origin: blocks, target: 1 }, &Method::ALL)
    }

    #[test]
    fn methods_have_their_own_names() {
        let names = ["store", "crossmemory", "iov", "blocks", "pack"];
        assert_eq!(Method::ALL.map(Method::name), names);
        assert!(Method::ALL.iter().enumerate().all(|(at, &method)| method as usize == at));
    }

    #[test]
    fn small_blocks_are_packed_and_large_ones_are_not() {
        for provider in ["shm", "tcp;ofi_rxm", "verbs;ofi_rxm", "sockets", "ucx", "another"] {
            let medium = Medium::Provider(costs(provider));
            assert_eq!(chosen(medium, 100_000, 8), Method::Pack, "{provider}");
            assert_ne!(chosen(medium, 3, 8 << 20), Method::Pack, "{provider}");
        }
        assert_eq!(chosen(Medium::Mapped, 1000, 8), Method::Store);
        // What is read is the peer's: its blocks are what costs.
        let peer = |blocks, block| {
            let shape = Shape { bytes: blocks * block, origin: 1, target: blocks };
            Medium::Node.choose(shape, &[Method::CrossMemory, Method::Pack])
        };
        assert_eq!((peer(4096, 64), peer(100, 64 << 10)), (Method::Pack, Method::CrossMemory));
        assert_eq!(chosen(Medium::Node, 1024, 1024), Method::CrossMemory);
    }

    #[test]
    fn what_a_medium_has_not_is_never_chosen() {
        let shape = Shape { bytes: 1 << 20, origin: 2, target: 1 };
        assert_eq!(Medium::Node.choose(shape, &[Method::Store, Method::Pack]), Method::Pack);
        assert_eq!(
            Medium::Provider(Costs { entries: 1, ..Costs::ASSUMED }).cost(Method::Iov, shape),
            None
        );
        assert_eq!(Medium::Mapped.cost(Method::Blocks, shape), None);
    }
}
