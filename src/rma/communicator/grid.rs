//! Sub-grids of a Cartesian layout, as maps.

use crate::rankmap::{Detector, MapError, RankMap};

/// The ranks of the sub-grid that `rank` is in, in their order, and which of them it is: of a
/// grid of these extents, slowest first, the dimensions that stay. As many steps as there are
/// cells of the dimensions that stay but for the two fastest of them.
///
/// # Errors
/// None in practice, for a rank of the grid.
pub(super) fn sub_grid(dims: &[u32], keep: &[bool], rank: u32) -> Result<(RankMap, u32), MapError> {
    let (mut stride, mut base, mut mine, mut cells) = (1, 0, 0, 1);
    // Fastest dimension first.
    let mut kept = Vec::with_capacity(dims.len());
    for (&extent, &keep) in dims.iter().zip(keep).rev() {
        let coordinate = rank / stride % extent;
        if keep {
            kept.push((extent, stride));
            mine += coordinate * cells;
            cells *= extent;
        } else {
            base += coordinate * stride;
        }
        stride *= extent;
    }
    let mut kept = kept.into_iter();
    let (block, step) = kept.next().unwrap_or((1, 1));
    let (blocks, pitch) = kept.next().unwrap_or((1, 0));
    let mut ranks = Detector::new();
    for index in 0..cells / (block * blocks) {
        let mut rest = index;
        let first = kept.as_slice().iter().fold(base, |at, &(extent, stride)| {
            let digit = rest % extent;
            rest /= extent;
            at + digit * stride
        });
        ranks.push_blockstride(first, step as i32, block, pitch as i32, block * blocks);
    }
    Ok((ranks.finish()?, mine))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sub_grids_are_the_ranks_that_share_what_does_not_stay() {
        let grids: [&[u32]; 8] =
            [&[1], &[7], &[2, 3], &[1, 5, 1], &[4, 1, 3], &[2, 3, 4], &[3, 2, 2, 3], &[2; 6]];
        for dims in grids {
            let size: u32 = dims.iter().product();
            let coordinates = |rank: u32| {
                let mut rest = rank;
                let digits = dims.iter().rev().map(|extent| {
                    let digit = rest % extent;
                    rest /= extent;
                    digit
                });
                let mut digits: Vec<u32> = digits.collect();
                digits.reverse();
                digits
            };
            for flags in 0..1_u32 << dims.len() {
                let keep: Vec<bool> = (0..dims.len()).map(|at| flags >> at & 1 == 1).collect();
                for rank in 0..size {
                    let own = coordinates(rank);
                    let beside = |other: &u32| {
                        let pairs = coordinates(*other).into_iter().zip(&own).zip(&keep);
                        pairs.into_iter().all(|((a, b), keep)| *keep || a == *b)
                    };
                    let want: Vec<u32> = (0..size).filter(beside).collect();
                    let (map, mine) = sub_grid(dims, &keep, rank).expect("a map");
                    let found: Vec<u32> = map.iter().map(|it| it.lpid).collect();
                    assert_eq!(found, want, "{rank} of {dims:?}, {keep:?}");
                    assert_eq!(found.get(mine as usize), Some(&rank), "{dims:?}, {keep:?}");
                }
            }
        }
    }

    #[test]
    fn a_side_of_a_large_grid_takes_no_step_for_each_rank() {
        const SIDE: u32 = 1 << 15;
        let (map, mine) =
            sub_grid(&[2, SIDE, SIDE / 2], &[false, true, true], SIDE * SIDE - 1).expect("a map");
        assert_eq!((map.len(), mine), (SIDE * SIDE / 2, SIDE * SIDE / 2 - 1));
        assert_eq!(map.get(mine).map(|it| it.lpid), Some(SIDE * SIDE - 1));
    }
}
