//! The communicators of Table 6.1 of the thesis, whose world has 200,000 ranks.

use super::classes::written;
use super::{Bound, Draw, Sample};

fn stride(universe: u32, first: u32, step: u32) -> Sample {
    let lpids = (first..universe).step_by(step as usize).collect();
    Sample::new(universe, lpids, Bound::numbers(universe, 3, "strides"))
}

/// 1: all even numbers.
pub(super) fn even(universe: u32, _: Draw) -> Sample {
    stride(universe, 0, 2)
}

/// 2: y = 81x + 11453, x > 0.
pub(super) fn line(universe: u32, _: Draw) -> Sample {
    stride(universe, 81 + 11_453, 81)
}

/// 3: [0,*,*,0,*,*] of a six-dimensional cube.
pub(super) fn cube(universe: u32, _: Draw) -> Sample {
    let lpids = (0..100_000).filter(|lpid| lpid / 100 % 10 == 0).collect();
    let bound = Bound::pick(60, 2, "two faces of the hypercube");
    Sample::new(universe, lpids, bound).on(vec![10; 6])
}

/// 4: every other range of 100.
pub(super) fn alternate(universe: u32, _: Draw) -> Sample {
    let lpids = (0..universe).filter(|lpid| lpid / 100 % 2 == 0).collect();
    Sample::new(universe, lpids, Bound::numbers(universe, 4, "ranges at a stride"))
}

/// 5: multiples of 3.
pub(super) fn thirds(universe: u32, _: Draw) -> Sample {
    stride(universe, 0, 3)
}

/// 6: multiples of 5.
pub(super) fn fifths(universe: u32, _: Draw) -> Sample {
    stride(universe, 0, 5)
}

/// 7: multiples of 7.
pub(super) fn sevenths(universe: u32, _: Draw) -> Sample {
    stride(universe, 0, 7)
}

fn random(universe: u32, mut draw: Draw, size: u32) -> Sample {
    let lpids = draw.random.subset(universe, size);
    Sample::new(universe, lpids, Bound::set(universe, size as usize))
}

/// 8: 5,000 at random, in order.
pub(super) fn random_5k(universe: u32, draw: Draw) -> Sample {
    random(universe, draw, 5_000)
}

/// 9: 50,000 at random, in order.
pub(super) fn random_50k(universe: u32, draw: Draw) -> Sample {
    random(universe, draw, 50_000)
}

fn permuted(universe: u32, mut draw: Draw, size: u32) -> Sample {
    let mut lpids = draw.random.subset(universe, size);
    draw.random.shuffle(&mut lpids);
    Sample::new(universe, lpids, Bound::list(universe, size as usize))
}

/// 10: 10,000 at random, in any order.
pub(super) fn permuted_10k(universe: u32, draw: Draw) -> Sample {
    permuted(universe, draw, 10_000)
}

/// 11: 20,000 at random, in any order.
pub(super) fn permuted_20k(universe: u32, draw: Draw) -> Sample {
    permuted(universe, draw, 20_000)
}

/// 12: 100,000 at random, in any order.
pub(super) fn permuted_100k(universe: u32, draw: Draw) -> Sample {
    permuted(universe, draw, 100_000)
}

/// Ten ranges of `size`, spread over the world, each in any order.
fn shuffled_ranges(universe: u32, mut draw: Draw, size: u32) -> Sample {
    let every = universe / 10;
    let mut lpids = written((0..10).map(|k| (k * every, k * every + size)));
    lpids.chunks_mut(size as usize).for_each(|range| draw.random.shuffle(range));
    let one = Bound::list(size, size as usize).bits;
    let bits = 10.0 * one + Bound::ranges(universe, 10).bits;
    Sample::new(universe, lpids, Bound { bits, what: "ten ranges, each in any order" })
}

/// 13: ten ranges of 1,000.
pub(super) fn ranges_1k(universe: u32, draw: Draw) -> Sample {
    shuffled_ranges(universe, draw, 1_000)
}

/// 14: ten ranges of 10,000.
pub(super) fn ranges_10k(universe: u32, draw: Draw) -> Sample {
    shuffled_ranges(universe, draw, 10_000)
}
