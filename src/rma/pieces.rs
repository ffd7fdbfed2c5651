//! The contiguous pieces that layouts of several memories have in common.
//!
//! Never looks at ranks, windows or bounds.

use crate::datatype::{Blocks, Layout};

/// The contiguous pieces that layouts have in common: where each begins from the
/// origin of each layout, and the length.
pub(super) struct Pieces<'a, const N: usize> {
    sides: [Side<'a>; N],
}

/// A layout's blocks, and what is left of the present one.
struct Side<'a> {
    rest: Blocks<'a>,
    at: i64,
    left: u64,
}

impl<'a, const N: usize> Pieces<'a, N> {
    pub(super) fn new(layouts: [&'a Layout; N]) -> Pieces<'a, N> {
        let side = |layout: &'a Layout| Side { rest: layout.blocks_from(0), at: 0, left: 0 };
        Pieces { sides: layouts.map(side) }
    }
}

impl<const N: usize> Iterator for Pieces<'_, N> {
    type Item = ([isize; N], usize);

    fn next(&mut self) -> Option<([isize; N], usize)> {
        let mut len = u64::MAX;
        for side in &mut self.sides {
            if side.left == 0 {
                (side.at, side.left) = side.rest.next()?;
            }
            len = len.min(side.left);
        }
        let mut found = [0; N];
        for (side, found) in self.sides.iter_mut().zip(&mut found) {
            *found = side.at as isize;
            side.at += len as i64;
            side.left -= len;
        }
        Some((found, len as usize))
    }
}

/// Where a layout's bytes begin, if they are one block.
pub(super) fn single(layout: &Layout) -> Option<isize> {
    (layout.blocks() == 1).then(|| layout.true_bounds().map_or(0, |(first, _)| first as isize))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datatype::Basic;
    use proptest::prelude::*;

    fn offsets(layout: &Layout) -> Vec<i64> {
        let mut all = Vec::new();
        layout.for_each_block(|at, len| all.extend(at..at + len as i64));
        all
    }

    /// Blocks of these gaps and lengths, forwards or backwards.
    fn list(runs: &[(u64, u64)], backwards: bool) -> Layout {
        let mut at = 0;
        let mut places = Vec::new();
        for &(gap, len) in runs {
            at += gap as i64;
            places.push(if backwards { -at - len as i64 } else { at });
            at += len as i64;
        }
        let lengths: Vec<u64> = runs.iter().map(|run| run.1).collect();
        Layout::hindexed(&lengths, &places, &Layout::basic(Basic::U8)).unwrap()
    }

    proptest! {
        /// Byte by byte in the order of both layouts.
        #[test]
        fn pieces_pair_bytes(
            runs in prop::collection::vec((0_u64..40, 0_u64..20), 0..12),
            len in 1_u64..9, gap in 0_i64..9, backwards: bool,
        ) {
            let here = list(&runs, backwards);
            let byte = Layout::basic(Basic::U8);
            let (count, rest) = (here.size() / len, here.size() % len);
            let run = Layout::hvector(count, len, -(len as i64 + gap), &byte).unwrap();
            let there = Layout::structure(&[(1, 0, &run), (rest, 5000, &byte)]).unwrap();
            let mut got = (Vec::new(), Vec::new());
            for ([h, t], n) in Pieces::new([&here, &there]) {
                prop_assert!(n > 0);
                got.0.extend(h as i64..h as i64 + n as i64);
                got.1.extend(t as i64..t as i64 + n as i64);
            }
            prop_assert_eq!(&got, &(offsets(&here), offsets(&there)));
        }
    }

    #[test]
    fn one_block_is_found_wherever_it_begins() {
        let byte = Layout::basic(Basic::U8);
        let far = Layout::hindexed(&[3, 4], &[-9, -6], &byte).unwrap();
        assert_eq!((single(&byte), single(&far)), (Some(0), Some(-9)));
        assert_eq!(single(&Layout::hvector(2, 1, 2, &byte).unwrap()), None);
        assert_eq!(single(&Layout::contiguous(0, &byte).unwrap()), None);
    }
}
