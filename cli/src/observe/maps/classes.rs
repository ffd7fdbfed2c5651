//! Classes A to E of the thesis, chapter 5, and three lists.

use super::bound::factorial;
use super::{Bound, Draw, Sample};

pub(super) fn written(ranges: impl IntoIterator<Item = (u32, u32)>) -> Vec<u32> {
    ranges.into_iter().flat_map(|(from, to)| from..to).collect()
}

/// A random size, and so many members.
pub(super) fn a(universe: u32, mut draw: Draw) -> Sample {
    let size =
        draw.or((u64::from(universe) * 605 / 1000) as u32, |random| 1 + random.below(universe - 1));
    let lpids = draw.random.subset(universe, size);
    let bound = Bound::set(universe, lpids.len());
    Sample::new(universe, lpids, bound)
}

/// First, last and interval at random.
pub(super) fn b(universe: u32, mut draw: Draw) -> Sample {
    let first = draw.or(123, |random| random.below(universe / 2));
    let step = draw.or(499, |random| 2 + random.below(998));
    let behind = draw.or(universe, |random| universe / 2 + random.below(universe / 2));
    let lpids = (first..behind).step_by(step as usize).collect();
    Sample::new(universe, lpids, Bound::numbers(universe, 3, "strides"))
}

/// Rising ranges, of half the world together.
pub(super) fn c(universe: u32, mut draw: Draw) -> Sample {
    let most = (universe / 8).min(1000);
    let count = draw.or(550.min(most), |random| 2 + random.below(most - 1));
    let ranges = draw.random.ranges(universe, count);
    Sample::new(universe, written(ranges), Bound::ranges(universe, count as usize))
}

/// Faces of a hypercube of side 10, in every dimension.
pub(super) fn d(universe: u32, mut draw: Draw) -> Sample {
    let sides = universe.ilog10();
    let cube = 10u32.pow(sides);
    let count = draw.or(2 * sides, |random| sides + random.below(2 * sides));
    // A bit for each place of each dimension.
    let mut taken = vec![0u16; sides as usize];
    let mut left = count;
    while left > 0 {
        let slot = &mut taken[((count - left) % sides) as usize];
        let face = 1 << draw.random.below(10);
        left -= u32::from(*slot & face == 0);
        *slot |= face;
    }
    let in_faces = |&lpid: &u32| {
        let mut rest = lpid;
        taken.iter().any(|faces| {
            let digit = rest % 10;
            rest /= 10;
            faces >> digit & 1 == 1
        })
    };
    let lpids = (0..cube).filter(in_faces).collect();
    let bound = Bound::pick(10 * sides, count, "so many faces of the hypercube");
    Sample::new(universe, lpids, bound).on(vec![10; sides as usize])
}

/// A few ranges, the last first.
pub(super) fn e(universe: u32, mut draw: Draw) -> Sample {
    let count = draw.or(40, |random| 2 + random.below(63));
    let ranges = draw.random.ranges(universe, count);
    let lpids = written(ranges.into_iter().rev());
    Sample::new(universe, lpids, Bound::ranges(universe, count as usize))
}

pub(super) fn p(universe: u32, mut draw: Draw) -> Sample {
    let mut lpids: Vec<u32> = (0..universe).collect();
    draw.random.shuffle(&mut lpids);
    Sample::new(universe, lpids, Bound::list(universe, universe as usize))
}

/// A grid of sides of 4 with its dimensions turned around: more digits than most
/// formulas have.
pub(super) fn t(universe: u32, _: Draw) -> Sample {
    let dimensions = universe.ilog2() / 2;
    let turned = |rank: u32| (0..dimensions).fold(0, |lpid, d| lpid * 4 + (rank >> (2 * d) & 3));
    let lpids = (0..1 << (2 * dimensions)).map(turned).collect();
    let bound = Bound { bits: factorial(dimensions.into()), what: "orders of the dimensions" };
    Sample::new(universe, lpids, bound)
}

/// Nodes of 32 in any order, and the ranks of each in any.
pub(super) fn n(universe: u32, mut draw: Draw) -> Sample {
    const NODE: u32 = 32;
    let mut nodes: Vec<u32> = (0..universe / NODE).collect();
    draw.random.shuffle(&mut nodes);
    let mut lpids = written(nodes.iter().map(|node| (node * NODE, (node + 1) * NODE)));
    lpids.chunks_mut(NODE as usize).for_each(|node| draw.random.shuffle(node));
    let count = nodes.len() as f64;
    let bits = factorial(count) + count * factorial(NODE.into());
    Sample::new(universe, lpids, Bound { bits, what: "orders of nodes and in nodes" })
}
