//! The neighbours of a cell in a grid of three dimensions.

/// Steps to a neighbour in each dimension, the slowest first.
pub(crate) type Direction = [i32; 3];

pub(crate) const NEIGHBOURS: usize = 26;

/// To all of them, those at a corner too.
pub(crate) fn directions() -> impl Iterator<Item = Direction> {
    let all = (0..27).map(|cell| [cell / 9 - 1, cell / 3 % 3 - 1, cell % 3 - 1]);
    all.filter(|by| *by != [0; 3])
}
