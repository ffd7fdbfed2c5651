//! Lists of ranks: whether a group has them all, and each once.

use super::GroupError;
use super::bits::Bits;
use crate::rankmap::affine::Piece;
use crate::rankmap::{Detector, MapError, Process, RankMap};

/// Refuses the first place of the list that names no rank of a group of `size`,
/// or one for the second time.
pub(super) fn check(ranks: &[u32], size: u32) -> Result<(), GroupError> {
    let outside = ranks.iter().position(|&rank| rank >= size);
    let inside = &ranks[..outside.unwrap_or(ranks.len())];
    if let Some((before, index)) = repeated(inside, size) {
        return Err(GroupError::Duplicate { index, rank: ranks[index], before });
    }
    match outside {
        Some(index) => Err(GroupError::Rank { index, rank: ranks[index], size }),
        None => Ok(()),
    }
}

/// Returns true if a bit for each of `size` ranks is less than the list sorted.
fn many(ranks: &[u32], size: u32) -> bool {
    ranks.len() >= size as usize / 256
}

/// The first place of a rank that stands before, and where.
fn repeated(ranks: &[u32], size: u32) -> Option<(usize, usize)> {
    // Most lists rise.
    if ranks.is_sorted_by(|a, b| a < b) {
        return None;
    }
    let index = if many(ranks, size) {
        let mut seen = vec![0u64; size as usize / 64 + 1];
        ranks.iter().position(|&rank| {
            let (word, bit) = (&mut seen[rank as usize / 64], 1 << (rank % 64));
            let before = *word & bit != 0;
            *word |= bit;
            before
        })
    } else {
        let mut order: Vec<(u32, usize)> = ranks.iter().copied().zip(0..).collect();
        order.sort_unstable();
        let again = order.windows(2).filter(|pair| pair[0].0 == pair[1].0);
        again.map(|pair| pair[1].1).min()
    }?;
    let before = ranks.iter().position(|&rank| rank == ranks[index])?;
    Some((before, index))
}

/// The ranks below `size` that are not in the list, rising.
pub(super) fn rest(ranks: &[u32], size: u32) -> Result<RankMap, MapError> {
    let mut detector = Detector::new();
    let mut push = |first: u32, len: u32| {
        detector.push_piece(Piece { first: Process { pg: 0, lpid: first }, step: 1, len });
    };
    if many(ranks, size) {
        let mut bits = Bits::of_span(0, i64::from(size) - 1);
        bits.set_all(ranks.iter().copied());
        bits.stretches(0, i64::from(size) - 1, true, &mut |first, len| {
            push(first as u32, len);
            true
        });
    } else {
        let mut order = ranks.to_vec();
        order.sort_unstable();
        let mut next = 0;
        for rank in order {
            push(next, rank - next);
            next = rank + 1;
        }
        push(next, size - next);
    }
    detector.finish()
}
