//! Shapes of communicators that programs make.

use super::classes::p;
use super::{Bound, Draw, Sample};

/// Ranks on a node.
const NODE: u32 = 16;

/// The largest side of a `dimensions`-dimensional grid in the world.
fn side(universe: u32, dimensions: u32) -> u32 {
    (1..).find(|side: &u64| (side + 1).pow(dimensions) > universe.into()).unwrap_or(1) as u32
}

/// A formula of so many digits.
fn digits(universe: u32, count: u32) -> Bound {
    Bound::numbers(universe, 2 * count + 1, "formulas of as many digits")
}

pub(super) fn row(universe: u32, _: Draw) -> Sample {
    let side = side(universe, 2);
    let lpids = (side..2 * side).collect();
    Sample::new(universe, lpids, digits(universe, 1)).on(vec![side; 2])
}

pub(super) fn column(universe: u32, _: Draw) -> Sample {
    let side = side(universe, 2);
    let lpids = (0..side).map(|y| y * side + 1).collect();
    Sample::new(universe, lpids, digits(universe, 1)).on(vec![side; 2])
}

pub(super) fn transpose(universe: u32, _: Draw) -> Sample {
    let side = side(universe, 2);
    let lpids = (0..side * side).map(|rank| rank % side * side + rank / side).collect();
    Sample::new(universe, lpids, digits(universe, 2)).on(vec![side; 2])
}

/// Every z and x at one y.
pub(super) fn plane(universe: u32, _: Draw) -> Sample {
    let side = side(universe, 3);
    let lpids = (0..side).flat_map(|z| (0..side).map(move |x| (z * side + 1) * side + x));
    Sample::new(universe, lpids.collect(), digits(universe, 2)).on(vec![side; 3])
}

pub(super) fn inner(universe: u32, _: Draw) -> Sample {
    let side = side(universe, 3);
    let half = side / 2;
    let inside = |&lpid: &u32| {
        [lpid / side / side, lpid / side % side, lpid % side]
            .iter()
            .all(|&at| (1..=half).contains(&at))
    };
    let lpids = (0..side * side * side).filter(inside).collect();
    Sample::new(universe, lpids, digits(universe, 3)).on(vec![side; 3])
}

/// Bits spread over `dimensions`, the first of them `first`.
fn spread(dimensions: u32, count: u32, first: u32) -> u32 {
    (0..count).map(|k| 1 << ((first + k * dimensions / count) % dimensions)).sum()
}

pub(super) fn face(universe: u32, _: Draw) -> Sample {
    let dimensions = universe.ilog2();
    let fixed = spread(dimensions, 3, 3);
    let lpids = (0..1 << dimensions).filter(|lpid| lpid & fixed == fixed).collect();
    let bound = Bound::pick(2 * dimensions, 3, "as many fixed bits");
    Sample::new(universe, lpids, bound).on(vec![2; dimensions as usize])
}

pub(super) fn faces(universe: u32, _: Draw) -> Sample {
    let dimensions = universe.ilog2();
    let lpids = (0..1 << dimensions)
        .filter(|lpid| {
            (0..5).any(|k| {
                let fixed = spread(dimensions, 2, 2 * k);
                lpid & fixed == fixed
            })
        })
        .collect();
    let one = Bound::pick(2 * dimensions, 2, "").bits;
    let bound = Bound { bits: 5.0 * one, what: "as many faces" };
    Sample::new(universe, lpids, bound).on(vec![2; dimensions as usize])
}

pub(super) fn leaders(universe: u32, _: Draw) -> Sample {
    let lpids = (0..universe).step_by(NODE as usize).collect();
    Sample::new(universe, lpids, digits(universe, 1))
}

/// Process `r` is on node `r mod nodes`; the communicator goes node by node.
pub(super) fn round_robin(universe: u32, _: Draw) -> Sample {
    let nodes = universe / NODE;
    let lpids = (0..nodes).flat_map(|node| (0..NODE).map(move |on| on * nodes + node)).collect();
    Sample::new(universe, lpids, digits(universe, 2))
}

pub(super) fn without_thirds(universe: u32, _: Draw) -> Sample {
    let lpids = (0..universe).filter(|lpid| lpid % 3 != 2).collect();
    Sample::new(universe, lpids, digits(universe, 2))
}

pub(super) fn reversed(universe: u32, _: Draw) -> Sample {
    Sample::new(universe, (0..universe).rev().collect(), digits(universe, 1))
}

fn nodes_of(nodes: &[u32]) -> Vec<u32> {
    nodes.iter().flat_map(|node| node * NODE..(node + 1) * NODE).collect()
}

pub(super) fn random_nodes(universe: u32, mut draw: Draw) -> Sample {
    let nodes = universe / NODE;
    let taken = draw.random.subset(nodes, nodes / 2);
    let bound = Bound::set(nodes, taken.len());
    Sample::new(universe, nodes_of(&taken), Bound { what: "sets of as many nodes", ..bound })
}

pub(super) fn shuffled_nodes(universe: u32, mut draw: Draw) -> Sample {
    let mut nodes: Vec<u32> = (0..universe / NODE).collect();
    draw.random.shuffle(&mut nodes);
    let bound = Bound::list(universe / NODE, nodes.len());
    Sample::new(universe, nodes_of(&nodes), Bound { what: "orders of the nodes", ..bound })
}

/// Stable, so it is a permutation of four rising runs.
pub(super) fn by_color(universe: u32, mut draw: Draw) -> Sample {
    let mut lpids: Vec<(u32, u32)> =
        (0..universe).map(|lpid| (draw.random.below(4), lpid)).collect();
    lpids.sort_unstable();
    let lpids = lpids.into_iter().map(|(_, lpid)| lpid).collect();
    let bound = Bound { bits: 2.0 * f64::from(universe), what: "four colours for each rank" };
    Sample::new(universe, lpids, bound)
}

pub(super) fn random_subset(universe: u32, mut draw: Draw) -> Sample {
    let lpids = draw.random.subset(universe, universe / 8);
    let bound = Bound::set(universe, lpids.len());
    Sample::new(universe, lpids, bound)
}

pub(super) fn random_permutation(universe: u32, draw: Draw) -> Sample {
    p(universe, draw)
}

/// Section 4.3.2.1 of the thesis: every node has a place in the plane, every
/// edge is there with a chance of 0.005.
pub(super) fn random_graph(universe: u32, mut draw: Draw) -> Sample {
    let random = &mut draw.random;
    let (x, y) = (random.unit(), random.unit());
    let mut near: Vec<(f64, u32)> = Vec::new();
    for lpid in 1..universe {
        let away = (random.unit() - x).hypot(random.unit() - y);
        if random.below(1000) < 5 {
            near.push((away, lpid));
        }
    }
    near.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let lpids: Vec<u32> = near.into_iter().map(|(_, lpid)| lpid).collect();
    let bound = Bound::list(universe, lpids.len());
    Sample::new(universe, lpids, bound)
}
