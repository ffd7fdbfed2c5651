//! Rank → node and rank → rank on its node, of the whole job.

use super::DeviceError;
use crate::boot::{Boot, Control, Dealt, Placement, World};
use crate::rankmap::compact::Strategy;
use crate::rankmap::{Detector, MapError, RankMap};

/// Of all collectives over the job that communicators have, none has this tag.
const TAG: u64 = 0x006e_6f64_6573;

/// Both tables, as the paper's maps: constant memory where placement follows a rule.
#[derive(Debug)]
pub(super) struct NodeTables {
    /// World rank → node.
    pub(super) nodes: RankMap,
    /// World rank → rank on its node, in world order.
    pub(super) ranks: RankMap,
}

impl NodeTables {
    /// Of a job without ranks.
    pub(super) fn of_nobody() -> NodeTables {
        NodeTables { nodes: RankMap::direct(0), ranks: RankMap::direct(0) }
    }

    /// Where the launcher says it without others: as a rule, or for one rank after the other.
    /// `None` where it takes all processes to know.
    pub(super) fn known(
        boot: &dyn Boot,
        strategy: Option<Strategy>,
    ) -> Result<Option<NodeTables>, DeviceError> {
        Ok(match boot.placement()? {
            Placement::Listed => Some(NodeTables::listed(boot, strategy)?),
            Placement::Dealt(dealt) => Some(NodeTables::dealt(dealt, boot.size())?),
            Placement::Supposed(..) => None,
        })
    }

    /// Asks all processes whether what rank 0 supposes is so. Collective over the job, whose
    /// processes can call each other.
    pub(super) fn agreed(
        control: &Control,
        strategy: Option<Strategy>,
    ) -> Result<NodeTables, DeviceError> {
        let boot = &**control.boot();
        if let Placement::Supposed(dealt, holds) = boot.placement()? {
            // Nobody's packets are read meanwhile, which would ask for these tables.
            let mut idle = || Ok(false);
            if control.unanimous(&World::of(boot), TAG, holds, &mut idle)? {
                boot.confirm_placement();
                return Ok(NodeTables::dealt(dealt, boot.size())?);
            }
        }
        NodeTables::listed(boot, strategy)
    }

    /// How many ranks the node of a rank has, itself included.
    pub(super) fn beside(&self, rank: u32) -> u32 {
        self.nodes.get(rank).map_or(0, |node| self.nodes.ranks_of(node.lpid).len())
    }

    /// In as many steps as a node has blocks of ranks.
    fn dealt(dealt: Dealt, size: u32) -> Result<NodeTables, MapError> {
        let (block, nodes) = (dealt.block().min(size.max(1)), dealt.nodes());
        // Each block is the next node's, and nodes come again.
        let mut places = Detector::new();
        places.push_blockstride(0, 1, nodes, 0, size.div_ceil(block));
        let mut blocks = Detector::new();
        blocks.push_blockstride(0, 0, block, 1, size);
        let nodes_of = places.finish()?.compose(&blocks.finish()?)?;
        let cycle = u64::from(block) * u64::from(nodes);
        let mut ranks = Detector::new();
        for (at, before) in (0..u64::from(size)).step_by(cycle as usize).enumerate() {
            let ahead = (u64::from(size) - before).min(cycle) as u32;
            ranks.push_blockstride(at as u32 * block, 1, block, 0, ahead);
        }
        Ok(NodeTables { nodes: nodes_of, ranks: ranks.finish()? })
    }

    /// Compressed while the launcher's answers stream by.
    fn listed(boot: &dyn Boot, strategy: Option<Strategy>) -> Result<NodeTables, DeviceError> {
        let mut nodes = Detector::new();
        let mut ranks = Detector::new();
        let mut sizes: Vec<u32> = Vec::new();
        for rank in 0..boot.size() {
            let node = boot.node_of(rank)? as usize;
            if sizes.len() <= node {
                sizes.resize(node + 1, 0);
            }
            nodes.push(node as u32);
            ranks.push(sizes[node]);
            sizes[node] += 1;
        }
        let (nodes, ranks) = (nodes.finish()?, ranks.finish()?);
        Ok(NodeTables { nodes: nodes.held_as(strategy)?, ranks: ranks.held_as(strategy)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boot::simulated::Simulated;

    #[test]
    fn rules_and_lists_say_the_same() {
        for (block, nodes) in [(1, 1), (1, 5), (4, 3), (7, 2), (64, 1), (16, 100)] {
            for size in [1, 2, 12, 64, 65, 999] {
                let dealt = Dealt::new(block, nodes).expect("ranks");
                let tables = NodeTables::dealt(dealt, size).expect("tables");
                let mut sizes = vec![0; nodes as usize];
                for rank in 0..size {
                    let node = dealt.node_of(rank);
                    let found = [tables.nodes.get(rank), tables.ranks.get(rank)];
                    let found = found.map(|process| process.map(|it| it.lpid));
                    let own = sizes[node as usize];
                    assert_eq!(found, [Some(node), Some(own)], "{rank} of {size}, {dealt:?}");
                    sizes[node as usize] += 1;
                }
                for rank in 0..size {
                    let node = dealt.node_of(rank) as usize;
                    assert_eq!(tables.beside(rank), sizes[node], "{rank} of {size}, {dealt:?}");
                }
                assert!(tables.nodes.bytes() + tables.ranks.bytes() < 400, "{tables:?}");
            }
        }
        let boot = Simulated::new(1000, 3, 16).expect("a job");
        let listed = NodeTables::listed(&boot, None).expect("tables");
        let known = NodeTables::known(&boot, None).expect("tables").expect("a rule");
        assert_eq!((listed.nodes, listed.ranks), (known.nodes, known.ranks));
    }
}
