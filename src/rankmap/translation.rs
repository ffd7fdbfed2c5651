//! A formula that finds many ranks: reciprocals, where the map divides.
//!
//! A map has no space for them: a communicator is to stay small. Who looks up as many
//! ranks as a recording has events keeps them beside the map.

use std::sync::Arc;

use super::map::{Form, RankMap};
use super::mixed::{MAX_DIGITS, Mixed};
use super::reciprocal::{floor, reciprocal};
use super::regular::Regular;
use super::tile::Tile;

/// What a blockstride or md-blockstride map makes of a rank, without a division.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Translation(By);

#[derive(Clone, Debug, PartialEq)]
enum By {
    /// Levels that there are not add nothing, so that none are counted.
    Digits {
        /// What the floors of rank 0's phase leave of its lpid.
        origin: u32,
        step: u32,
        phase: u32,
        /// By how much more the lpid grows where a level turns, and the level's reciprocal.
        turns: [(u32, u64); MAX_DIGITS - 1],
    },
    Tile(Arc<Tile>, u64),
}

impl Translation {
    /// `None` of a map that does not divide.
    pub(crate) fn of(map: &RankMap) -> Option<Translation> {
        match &map.form {
            Form::Regular(Regular::Block(block)) => Some(Translation::of_digits(&block.widen())),
            Form::Regular(Regular::Mixed(mixed)) => Some(Translation::of_digits(mixed)),
            Form::Regular(Regular::Tile(tile)) if tile.lpids.len() > 1 => {
                let tiles = reciprocal(tile.lpids.len() as u32);
                Some(Translation(By::Tile(Arc::clone(tile), tiles)))
            }
            _ => None,
        }
    }

    fn of_digits(mixed: &Mixed) -> Translation {
        // A radix of 2, whose turns add nothing.
        let mut turns = [(0, reciprocal(2)); MAX_DIGITS - 1];
        let mut origin = mixed.first;
        for (turn, (growth, radix)) in turns.iter_mut().zip(mixed.terms()) {
            *turn = (growth as u32, reciprocal(radix));
            origin = origin.wrapping_sub((growth as u32).wrapping_mul(mixed.phase / radix));
        }
        let (step, phase) = (mixed.step[0] as u32, mixed.phase);
        Translation(By::Digits { origin, step, phase, turns })
    }

    /// The lpid of a rank known to be below the map's size.
    #[inline]
    pub(crate) fn get(&self, rank: u32) -> u32 {
        match &self.0 {
            By::Digits { origin, step, phase, turns } => {
                // Below 2^32: detection makes no such map of a phase and a size that are more
                // together. Modulo 2^32 is all else: the result is an lpid.
                let x = rank.wrapping_add(*phase) as usize;
                let lpid = origin.wrapping_add(step.wrapping_mul(rank));
                turns.iter().fold(lpid, |lpid, &(growth, reciprocal)| {
                    lpid.wrapping_add(growth.wrapping_mul(floor(x, reciprocal) as u32))
                })
            }
            By::Tile(tile, reciprocal) => {
                let tiles = floor(rank as usize, *reciprocal) as u32;
                let place = rank - tiles * tile.lpids.len() as u32;
                let grown = (tile.growth as u32).wrapping_mul(tiles);
                tile.lpids[place as usize].wrapping_add(grown)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every rank of a map of these lpids, which is to have a translation or not.
    fn check(lpids: impl Iterator<Item = u32>, divides: bool) {
        let lpids: Vec<u32> = lpids.collect();
        let map = RankMap::from_lpids(0, lpids.iter().copied()).expect("lpids");
        let translation = Translation::of(&map);
        assert_eq!(translation.is_some(), divides, "{map:?}");
        let Some(translation) = translation else { return };
        for (rank, &lpid) in (0..).zip(&lpids) {
            assert_eq!(translation.get(rank), lpid, "rank {rank} of {map:?}");
        }
    }

    #[test]
    fn translations_say_what_maps_say() {
        check(0..5_000, false);
        check((0..5_000).map(|rank| 3 * rank + 7), false);
        for radix in [2, 3, 12, 64, 999] {
            // From the start of a block on and from inside one; upwards and downwards.
            for phase in [0, 1, radix - 1] {
                let up = move |rank: u32| (rank + phase) / radix * 2_000 + (rank + phase) % radix;
                check((0..5_000).map(up), true);
                check((0..5_000).map(move |rank| 20_000_000 - up(rank)), true);
            }
        }
        for phase in [0, 5, 377] {
            let cube = move |rank: u32| {
                let x = rank + phase;
                x / 200 + x / 10 % 20 * 1_000 + x % 10 * 50_000
            };
            check((0..4_000).map(cube), true);
            let of_four = move |rank: u32| cube(rank % 2_000 + phase) + rank / 2_000 * 7_000_000;
            check((0..8_000).map(of_four), phase == 0);
        }
        check((0..5_000).map(|rank| rank / 8 * 8 + rank % 8 * (rank % 8 + 1) / 2 % 8), true);
    }
}
