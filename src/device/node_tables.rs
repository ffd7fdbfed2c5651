//! Rank → node and rank → rank on its node, of the whole job.

use super::DeviceError;
use crate::boot::{Around, Boot, BootError, Control, Dealt, Gathered, Placement, World};
use crate::rankmap::compact::Strategy;
use crate::rankmap::{Detector, MapError, RankMap};
use std::collections::HashMap;

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
            Placement::Supposed(..) | Placement::OwnNode => None,
        })
    }

    /// Asks all processes whether what rank 0 supposes is so; where it is not, they tell each
    /// other who their node's first rank is. Collective over the job, whose processes can call
    /// each other.
    pub(super) fn agreed(
        control: &Control,
        strategy: Option<Strategy>,
    ) -> Result<NodeTables, DeviceError> {
        let boot = &**control.boot();
        let world = World::of(boot);
        // Nobody's packets are read meanwhile, which would ask for these tables.
        let mut idle = || Ok(false);
        if let Placement::Supposed(dealt, holds) = boot.placement()?
            && control.unanimous(&world, TAG, holds, &mut idle)?
        {
            boot.confirm_placement();
            return Ok(NodeTables::dealt(dealt, boot.size())?);
        }
        let first = boot.local_ranks()?.first().copied().unwrap_or(boot.rank());
        let mut firsts = Firsts::of(first).around((boot.size(), boot.rank()));
        control.gather(&world, TAG, &mut firsts, &mut idle)?;
        NodeTables::of_firsts(&Firsts::by_rank(firsts)?, strategy)
    }

    /// The ranks on the node of a rank, itself included.
    pub(super) fn node_peers(&self, rank: u32) -> RankMap {
        self.nodes.ranks_of(self.nodes.get(rank).map_or(0, |node| node.lpid))
    }

    /// In as many steps as a node has blocks of ranks.
    fn dealt(dealt: Dealt, size: u32) -> Result<NodeTables, MapError> {
        let nodes = dealt.nodes();
        let block = if nodes == 1 { size.max(1) } else { dealt.block().min(size.max(1)) };
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
        NodeTables::streamed((0..boot.size()).map(|rank| Ok(boot.node_of(rank)?)), strategy)
    }

    /// Of the map from each rank to the first one on its node: a rule where it is one.
    fn of_firsts(firsts: &RankMap, strategy: Option<Strategy>) -> Result<NodeTables, DeviceError> {
        let size = firsts.len();
        let mine: Vec<u32> = firsts.ranks_of(0).iter().map(|rank| rank.lpid).collect();
        if let Some(dealt) = Dealt::guess(&mine, size)
            && firsts_of(dealt, size)? == *firsts
        {
            return Ok(NodeTables::dealt(dealt, size)?);
        }
        let mut numbers = HashMap::new();
        let nodes = (0..).zip(firsts.iter()).map(|(rank, first)| {
            let next = numbers.len() as u32;
            match numbers.get(&first.lpid) {
                Some(&node) => Ok(node),
                None if first.lpid == rank => Ok(*numbers.entry(rank).or_insert(next)),
                None => Err(DeviceError::Boot(BootError::Protocol {
                    rank,
                    what: format!("rank {} is not the first of its node, as it says", first.lpid),
                })),
            }
        });
        NodeTables::streamed(nodes, strategy)
    }

    fn streamed(
        all: impl Iterator<Item = Result<u32, DeviceError>>,
        strategy: Option<Strategy>,
    ) -> Result<NodeTables, DeviceError> {
        let mut nodes = Detector::new();
        let mut ranks = Detector::new();
        let mut sizes: Vec<u32> = Vec::new();
        for node in all {
            let node = node?;
            let at = node as usize;
            if sizes.len() <= at {
                sizes.resize(at + 1, 0);
            }
            nodes.push(node);
            ranks.push(sizes[at]);
            sizes[at] += 1;
        }
        let (nodes, ranks) = (nodes.finish()?, ranks.finish()?);
        Ok(NodeTables { nodes: nodes.held_as(strategy)?, ranks: ranks.held_as(strategy)? })
    }
}

/// Rank → the first rank on its node, of ranks dealt by a rule.
fn firsts_of(dealt: Dealt, size: u32) -> Result<RankMap, MapError> {
    let block = dealt.block().min(size.max(1));
    let mut firsts = Detector::new();
    firsts.push_blockstride(0, block as i32, dealt.nodes(), 0, size.div_ceil(block));
    let mut blocks = Detector::new();
    blocks.push_blockstride(0, 0, block, 1, size);
    firsts.finish()?.compose(&blocks.finish()?)
}

/// The first rank on the node of each of consecutive ranks: runs, joined on their way to all.
struct Firsts(RankMap);

impl Firsts {
    fn of(first: u32) -> Firsts {
        Firsts(RankMap::affine(0, first, 0, 1).unwrap_or_else(|_| RankMap::direct(1)))
    }

    /// What a gather begins with in rank `me` of `size`.
    fn around(self, place: (u32, u32)) -> Around<Firsts> {
        Around::new(self, Firsts(RankMap::direct(0)), place)
    }

    /// By rank, of what a gather gave.
    fn by_rank(gathered: Around<Firsts>) -> Result<RankMap, MapError> {
        let (Firsts(low), Firsts(high)) = gathered.by_rank();
        low.and(&high)
    }
}

impl Gathered for Firsts {
    fn head(&self, members: u32) -> Vec<u8> {
        self.0.encode_range(0..members)
    }

    fn append(&mut self, members: u32, values: &[u8]) -> Result<(), String> {
        let mut all = self.0.begun();
        all.push_encoded(members, values)?;
        self.0 = all.finish().map_err(|e| e.to_string())?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boot::gathered_by_all;
    use crate::boot::simulated::Simulated;
    use crate::rankmap::{Process, SIZE_MAX};

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
                    let peers = tables.node_peers(rank).len();
                    assert_eq!(peers, sizes[node], "{rank} of {size}, {dealt:?}");
                }
                assert!(tables.nodes.bytes() + tables.ranks.bytes() < 400, "{tables:?}");
            }
        }
        // A step for each rank would take minutes.
        for (block, nodes) in [(1, 1), (1, SIZE_MAX), (1, 1 << 20), (64, 1 << 25)] {
            let dealt = Dealt::new(block, nodes).expect("ranks");
            let tables = NodeTables::dealt(dealt, SIZE_MAX).expect("tables");
            let last = [&tables.nodes, &tables.ranks].map(|map| map.get(SIZE_MAX - 1));
            let node = (SIZE_MAX - 1) / block % nodes;
            let blocks = (SIZE_MAX - 1) / block / nodes;
            let rank = blocks * block + (SIZE_MAX - 1) % block;
            let want = [node, rank].map(|lpid| Some(Process { pg: 0, lpid }));
            assert_eq!(last, want, "{dealt:?}");
        }
        let boot = Simulated::new(1000, 3, 16).expect("a job");
        let listed = NodeTables::listed(&boot, None).expect("tables");
        let known = NodeTables::known(&boot, None).expect("tables").expect("a rule");
        assert_eq!((listed.nodes, listed.ranks), (known.nodes, known.ranks));
    }

    /// What each rank ends with when all tell each other, in this thread.
    fn told(nodes: &[u32]) -> Vec<RankMap> {
        let first = |node| nodes.iter().position(|it| *it == node).unwrap_or(0) as u32;
        let size = nodes.len() as u32;
        let all = (0..).zip(nodes).map(|(me, &node)| Firsts::of(first(node)).around((size, me)));
        let all = gathered_by_all(all.collect());
        all.into_iter().map(|all| Firsts::by_rank(all).expect("a map")).collect()
    }

    #[test]
    fn nodes_that_tell_each_other_find_the_same_as_a_list() {
        let random = (0u32..97).map(|rank| rank * rank * 31 % 7).collect();
        let uneven = [2u32, 6, 1, 9].iter().zip(0..).flat_map(|(&n, node)| vec![node; n as usize]);
        let dealt = |block: u32, nodes: u32| (0u32..60).map(|rank| rank / block % nodes).collect();
        let lists: [(Vec<u32>, bool); 6] = [
            (random, false),
            (uneven.collect(), false),
            (dealt(8, 60), true),
            (dealt(1, 7), true),
            (dealt(4, 3), true),
            (vec![0], true),
        ];
        for (nodes, is_rule) in lists {
            let mut numbers: Vec<u32> = Vec::new();
            for node in &nodes {
                if !numbers.contains(node) {
                    numbers.push(*node);
                }
            }
            let dense = |node: &u32| numbers.iter().position(|it| it == node).unwrap_or(0) as u32;
            let listed = NodeTables::streamed(nodes.iter().map(|it| Ok(dense(it))), None);
            let listed = listed.expect("tables");
            for firsts in told(&nodes) {
                let tables = NodeTables::of_firsts(&firsts, None).expect("tables");
                assert!(tables.nodes.iter().eq(listed.nodes.iter()), "{nodes:?}");
                assert!(tables.ranks.iter().eq(listed.ranks.iter()), "{nodes:?}");
                let guess: Vec<u32> = firsts.ranks_of(0).iter().map(|it| it.lpid).collect();
                let rule = Dealt::guess(&guess, firsts.len());
                let found = rule.is_some_and(|rule| firsts_of(rule, firsts.len()) == Ok(firsts));
                assert_eq!(found, is_rule, "{nodes:?}");
            }
        }
    }

    #[test]
    fn a_rank_that_is_not_first_on_its_node_is_refused() {
        let wrong = RankMap::from_lpids(0, [1, 1, 0]).expect("a map");
        let refused = NodeTables::of_firsts(&wrong, None).err();
        assert!(matches!(refused, Some(DeviceError::Boot(BootError::Protocol { rank: 0, .. }))));
        assert!(Firsts::of(0).append(2, &[7; 9]).is_err());
    }
}
