//! Which node each rank is on, without a list of them.

/// Ranks dealt to nodes: `block` consecutive ones to each of `nodes` nodes in turn, then again
/// from the first node on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dealt {
    block: u32,
    nodes: u32,
}

/// What a [`Boot`](super::Boot) says of all ranks at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Nothing: [`Boot::node_of`](super::Boot::node_of) answers for each.
    Listed,
    /// All of it.
    Dealt(Dealt),
    /// What rank 0 takes it for, and whether the ranks of this process's node agree. It is so
    /// if those of all nodes do, which all processes find out together and tell
    /// [`Boot::confirm_placement`](super::Boot::confirm_placement).
    Supposed(Dealt, bool),
    /// Each process knows the ranks of its own node
    /// ([`Boot::local_ranks`](super::Boot::local_ranks)), and tells the others.
    OwnNode,
}

impl Dealt {
    /// `block` ranks to each of `nodes` nodes in turn; `None` of none.
    pub fn new(block: u32, nodes: u32) -> Option<Dealt> {
        (block > 0 && nodes > 0).then_some(Dealt { block, nodes })
    }

    /// Consecutive ranks of a node.
    pub fn block(self) -> u32 {
        self.block
    }

    /// Nodes before the first has its turn again.
    pub fn nodes(self) -> u32 {
        self.nodes
    }

    /// The node of a rank, by the order in which nodes have their first ranks.
    pub fn node_of(self, rank: u32) -> u32 {
        rank / self.block % self.nodes
    }

    /// The ranks of a job of `size` on a node, rising.
    pub(super) fn ranks_of(self, node: u32, size: u32) -> impl Iterator<Item = u32> {
        let turn = u64::from(self.block) * u64::from(self.nodes);
        let firsts = (u64::from(self.block) * u64::from(node)..).step_by(turn as usize);
        let block = u64::from(self.block);
        let all = firsts.flat_map(move |first| first..first + block);
        all.map_while(move |rank| u32::try_from(rank).ok().filter(|&rank| rank < size))
    }

    /// What the ranks of rank 0's node, rising, are by themselves a sign of, in a job of
    /// `size`.
    pub(crate) fn guess(mine: &[u32], size: u32) -> Option<Dealt> {
        let run = (0..).zip(mine).take_while(|&(at, &rank)| rank == at).count() as u32;
        match mine.get(run as usize) {
            None => Dealt::new(run, size.div_ceil(run.max(1))),
            Some(next) if next % run.max(1) == 0 => Dealt::new(run, next / run.max(1)),
            Some(_) => None,
        }
    }
}

/// The ranks on a process's node, rising, of a launcher's list of them (`PMIX_LOCAL_PEERS`):
/// `None` where the process itself, which is `rank` of `size`, is not on it, or others are on
/// it than ranks of the job.
pub fn parse_local_peers(list: &str, rank: u32, size: u32) -> Option<Vec<u32>> {
    let ranks = list.split(',').map(|rank| rank.trim().parse().ok());
    let mut ranks: Vec<u32> = ranks.collect::<Option<_>>()?;
    ranks.sort_unstable();
    let is_here = ranks.binary_search(&rank).is_ok();
    (is_here && ranks.iter().all(|&rank| rank < size)).then_some(ranks)
}

/// `PMI_process_mapping`: which node each rank is on, in a form whose size
/// does not depend on the number of ranks.
///
/// `(vector,(first,nodes,ppn),…)`: each block deals `ppn` ranks to each of
/// `nodes` nodes starting at `first`; after the last block it starts over.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Mapping {
    blocks: Vec<(u32, u32, u32)>,
    /// Node ids that hold a rank: disjoint ascending runs (first, count).
    reached: Vec<(u32, u32)>,
}

impl Mapping {
    pub(super) fn parse(text: &str, size: u32) -> Option<Self> {
        let inner = text.trim().strip_prefix("(vector")?.strip_suffix(')')?;
        let mut blocks = Vec::new();
        for block in inner.split('(').skip(1) {
            let mut numbers = block.trim_end_matches([',', ')', ' ']).split(',').map(str::trim);
            let mut number = || numbers.next()?.parse::<u32>().ok();
            blocks.push((number()?, number()?, number()?));
        }
        if blocks.is_empty() || blocks.iter().any(|&(_, nodes, ppn)| nodes == 0 || ppn == 0) {
            return None;
        }
        let mut runs = Vec::new();
        let mut left = u64::from(size);
        for &(first, nodes, ppn) in &blocks {
            let used = left.div_ceil(u64::from(ppn)).min(u64::from(nodes)) as u32;
            if used > 0 {
                runs.push((first, first.checked_add(used)?));
            }
            left = left.saturating_sub(u64::from(nodes) * u64::from(ppn));
        }
        runs.sort_unstable();
        let mut reached: Vec<(u32, u32)> = Vec::new();
        for (first, end) in runs {
            match reached.last_mut() {
                Some((start, count)) if *start + *count >= first => {
                    *count = (*count).max(end - *start);
                }
                _ => reached.push((first, end - first)),
            }
        }
        Some(Mapping { blocks, reached })
    }

    /// Dense node number of `rank`.
    pub(super) fn node_of(&self, rank: u32) -> u32 {
        let ranks = |&(_, nodes, ppn): &(u32, u32, u32)| u64::from(nodes) * u64::from(ppn);
        let cycle = self.blocks.iter().map(ranks).fold(0, u64::saturating_add);
        let mut place = u64::from(rank) % cycle;
        for block in &self.blocks {
            if place < ranks(block) {
                return self.dense(block.0 + (place / u64::from(block.2)) as u32);
            }
            place -= ranks(block);
        }
        unreachable!("place is below the sum of all blocks")
    }

    fn dense(&self, node: u32) -> u32 {
        let below = |&(first, count): &(u32, u32)| node.saturating_sub(first).min(count);
        self.reached.iter().map(below).sum()
    }

    /// Returns true if all ranks are on the same node.
    pub(super) fn is_one_node(&self) -> bool {
        matches!(self.reached[..], [(_, 1)])
    }

    /// All of it as one rule, if it is.
    pub(super) fn dealt(&self) -> Option<Dealt> {
        match self.blocks[..] {
            [(_, nodes, ppn)] => Dealt::new(ppn, nodes),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn mappings_of_mpich() {
        let nodes = |text: &str, size: u32| -> Vec<u32> {
            let mapping = Mapping::parse(text, size).unwrap();
            (0..size).map(|rank| mapping.node_of(rank)).collect()
        };
        assert_eq!(nodes("(vector,(0,1,1))", 3), [0, 0, 0]);
        assert_eq!(nodes("(vector,(0,2,2))", 6), [0, 0, 1, 1, 0, 0]);
        assert_eq!(nodes("(vector,(0,2,1),(5,1,2))", 4), [0, 1, 2, 2]);
        assert_eq!(nodes("(vector, (3,2,1))", 2), [0, 1]);
        for bad in ["", "(vector)", "(vector,(0,0,1))", "(vector,(0,1))", "(matrix,(0,1,1))"] {
            assert_eq!(Mapping::parse(bad, 2), None, "{bad}");
        }
    }

    /// As Slurm writes them (`PMIX_ANL_MAP`): by block, cyclic, uneven, on a part of the nodes.
    #[test]
    fn mappings_of_slurm() {
        let of = |text: &str, size: u32| {
            let mapping = Mapping::parse(text, size).unwrap();
            let nodes: Vec<u32> = (0..size).map(|rank| mapping.node_of(rank)).collect();
            (nodes, mapping.dealt())
        };
        assert_eq!(of("(vector,(0,2,3))", 6), (vec![0, 0, 0, 1, 1, 1], Dealt::new(3, 2)));
        let cyclic = of("(vector,(0,2,1),(0,2,1),(0,2,1))", 6);
        assert_eq!(cyclic, (vec![0, 1, 0, 1, 0, 1], None));
        assert_eq!(of("(vector,(0,2,2),(2,1,1))", 5), (vec![0, 0, 1, 1, 2], None));
        assert_eq!(of("(vector,(1,1,2),(3,1,2))", 4), (vec![0, 0, 1, 1], None));
    }

    #[test]
    fn lists_of_local_peers() {
        assert_eq!(parse_local_peers("4, 0,2", 2, 5), Some(vec![0, 2, 4]));
        assert_eq!(parse_local_peers("0", 0, 1), Some(vec![0]));
        for (wrong, rank) in [("", 0), ("0,1", 2), ("0,1,9", 1), ("0,,1", 0), ("0-3", 0)] {
            assert_eq!(parse_local_peers(wrong, rank, 5), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn dealt_ranks_are_guessed_and_listed(block in 1u32..7, nodes in 1u32..6, size in 1u32..80) {
            let dealt = Dealt::new(block, nodes).unwrap();
            let all: Vec<u32> = (0..size).map(|rank| dealt.node_of(rank)).collect();
            for node in 0..nodes {
                let there = |&rank: &u32| all[rank as usize] == node;
                let expected: Vec<u32> = (0..size).filter(there).collect();
                prop_assert_eq!(dealt.ranks_of(node, size).collect::<Vec<_>>(), expected);
            }
            let mine: Vec<u32> = dealt.ranks_of(0, size).collect();
            let guess = Dealt::guess(&mine, size).unwrap();
            prop_assert!((0..size).all(|rank| guess.node_of(rank) == all[rank as usize]));
            let text = format!("(vector,(3,{nodes},{block}))");
            let mapping = Mapping::parse(&text, size).unwrap();
            prop_assert_eq!(mapping.dealt(), Some(dealt));
            prop_assert!((0..size).all(|rank| mapping.node_of(rank) == all[rank as usize]));
        }

        #[test]
        fn mappings_against_a_naive_oracle(
            blocks in proptest::collection::vec((0u32..8, 1u32..5, 1u32..4), 1..4), size in 1u32..60
        ) {
            let mut text = String::from("(vector");
            for (first, nodes, ppn) in &blocks {
                text += &format!(",({first},{nodes},{ppn})");
            }
            let mapping = Mapping::parse(&(text + ")"), size).unwrap();
            let deal = |&(first, nodes, ppn): &(u32, u32, u32)| {
                (first..first + nodes).flat_map(move |node| vec![node; ppn as usize])
            };
            let raw: Vec<u32> =
                blocks.iter().flat_map(deal).cycle().take(size as usize).collect();
            let mut distinct = raw.clone();
            distinct.sort_unstable();
            distinct.dedup();
            for (rank, node) in raw.iter().enumerate() {
                let dense = distinct.binary_search(node).unwrap() as u32;
                prop_assert_eq!(mapping.node_of(rank as u32), dense);
            }
        }
    }

    #[test]
    fn what_is_not_dealt_is_not_guessed() {
        assert_eq!(Dealt::guess(&[0, 1, 3], 9), None);
        assert_eq!(Dealt::guess(&[1, 2], 9), None);
        assert_eq!(Dealt::guess(&[], 9), None);
    }
}
