//! One affine run: `first + step · rank`. Covers direct, offset, stride,
//! reversed, rows, columns and node leaders.

use super::model::Model;
use super::process::Process;

/// `first + step · rank`; every lpid it yields within its map's size is at most
/// [`super::LPID_MAX`]. Normal form: maps of fewer than two ranks have step 1,
/// the empty map also first 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Affine {
    pub(super) first: u32,
    pub(super) step: i32,
}

impl Affine {
    pub(super) fn model(self) -> Model {
        match (self.first, self.step) {
            (0, 1) => Model::Direct,
            (_, 1) => Model::Offset,
            _ => Model::Stride,
        }
    }

    #[inline]
    pub(super) fn get(self, rank: u32) -> u32 {
        // Exact modulo 2^32, and the result is an lpid.
        self.first.wrapping_add((self.step as u32).wrapping_mul(rank))
    }

    pub(super) fn rank_of(self, size: u32, lpid: u32) -> Option<u32> {
        let delta = i64::from(lpid) - i64::from(self.first);
        let rank = match i64::from(self.step) {
            0 if delta == 0 => 0,
            0 => return None,
            step if delta % step == 0 => delta / step,
            _ => return None,
        };
        u32::try_from(rank).ok().filter(|&rank| rank < size)
    }
}

/// An affine run: `len` ranks from `first` on in steps of `step`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) first: Process,
    pub(super) step: i32,
    pub(super) len: u32,
}
