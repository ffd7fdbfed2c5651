//! Arithmetic progressions, and where two of them meet.
//!
//! Groups are lists of progressions of *positions*: process group and lpid in
//! one number, so that progressions of different process groups never meet.

use crate::rankmap::affine::Piece;
use crate::rankmap::{LPID_MAX, Process};

/// Bits of an lpid in a position.
const LPID_BITS: u32 = 31;
const _: () = assert!(LPID_MAX >> LPID_BITS == 0);

/// The position of a process: processes in order of group and lpid.
pub(super) fn position(process: Process) -> i64 {
    (i64::from(process.pg) << LPID_BITS) | i64::from(process.lpid)
}

/// The process at a position.
pub(super) fn process(position: i64) -> Process {
    let lpid = position as u32 & LPID_MAX;
    Process { pg: (position >> LPID_BITS) as u32, lpid }
}

/// `first + step · i` for `i` in `0..len`; `len` and `step` are not 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Progression {
    pub(super) first: i64,
    pub(super) step: i64,
    pub(super) len: u32,
}

impl Progression {
    pub(super) fn of(piece: Piece) -> Progression {
        let step = if piece.len == 1 { 1 } else { i64::from(piece.step) };
        Progression { first: position(piece.first), step, len: piece.len }
    }

    pub(super) fn at(self, i: u32) -> i64 {
        self.first + self.step * i64::from(i)
    }

    pub(super) fn last(self) -> i64 {
        self.at(self.len - 1)
    }

    pub(super) fn low(self) -> i64 {
        if self.step > 0 { self.first } else { self.last() }
    }

    pub(super) fn high(self) -> i64 {
        if self.step > 0 { self.last() } else { self.first }
    }

    /// The same members from the lowest to the highest.
    pub(super) fn rising(self) -> Progression {
        Progression { first: self.low(), step: self.step.abs(), len: self.len }
    }

    /// Which of these members `other` has: always every so-many-th of a stretch.
    ///
    /// Bounds give the stretch by division, the Chinese remainder theorem gives
    /// the members in it.
    pub(super) fn meet(self, other: Progression) -> Option<Hits> {
        let (low, high) = (self.low().max(other.low()), self.high().min(other.high()));
        if low > high {
            return None;
        }
        // Distances from the first member on, in its direction.
        let (near, far) = if self.step > 0 {
            (low - self.first, high - self.first)
        } else {
            (self.first - high, self.first - low)
        };
        let pace = self.step.unsigned_abs();
        let (from, to) = if pace == 1 {
            (near as u64, far as u64)
        } else {
            ((near as u64).div_ceil(pace), far as u64 / pace)
        };
        if from > to {
            return None;
        }
        let modulus = other.step.unsigned_abs();
        if modulus == 1 || other.len == 1 {
            return Some(Hits::new(from, 1, to));
        }
        let (residue, every) = congruence(self.step, other.first - self.first, modulus)?;
        // The first i from `from` on with i ≡ residue.
        let start = from + (residue + every - from % every) % every;
        (start <= to).then(|| Hits::new(start, every, to))
    }
}

/// All `i` with `factor · i ≡ target` modulo `modulus`: a residue and its modulus.
fn congruence(factor: i64, target: i64, modulus: u64) -> Option<(u64, u64)> {
    let m = modulus as i64;
    let target = target.rem_euclid(m) as u64;
    let factor = factor.rem_euclid(m) as u64;
    let (g, inverse) = inverse(factor, modulus);
    if !target.is_multiple_of(g) {
        return None;
    }
    // Both below 2^31, as differences of lpids are.
    let every = modulus / g;
    Some((target / g % every * inverse % every, every))
}

/// `g = gcd(a, m)` and the `u` in `0..m / g` with `a · u ≡ g` modulo `m`.
fn inverse(a: u64, m: u64) -> (u64, u64) {
    let (mut r, mut u) = ((m as i64, a as i64), (0i64, 1i64));
    while r.1 != 0 {
        let q = r.0 / r.1;
        r = (r.1, r.0 - q * r.1);
        u = (u.1, u.0 - q * u.1);
    }
    (r.0 as u64, u.0.rem_euclid(m as i64 / r.0) as u64)
}

/// Members `start, start + every, …` of a progression, `len` of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hits {
    pub(super) start: u32,
    pub(super) every: u32,
    pub(super) len: u32,
}

impl Hits {
    fn new(start: u64, every: u64, to: u64) -> Hits {
        let len = (to - start) / every + 1;
        let every = if len == 1 { 1 } else { every };
        // Indices of a progression are below 2^31.
        Hits { start: start as u32, every: every as u32, len: len as u32 }
    }

    /// One past the last.
    pub(super) fn end(self) -> u32 {
        self.start + self.every * (self.len - 1) + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meetings_are_all_common_members() {
        let mut state = 1u64;
        let mut below = |n: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            ((state >> 33) % n) as i64
        };
        for _ in 0..if cfg!(miri) { 300 } else { 40_000 } {
            let mut any = || {
                let (first, mut step, len) = (below(60), below(25) - 12, below(12) as u32 + 1);
                step += i64::from(step == 0);
                Progression { first: first + 200, step, len }
            };
            let (p, q) = (any(), any());
            let want: Vec<u32> =
                (0..p.len).filter(|&i| (0..q.len).any(|j| q.at(j) == p.at(i))).collect();
            let hits = p.meet(q);
            let found: Vec<u32> =
                hits.map_or(vec![], |h| (0..h.len).map(|k| h.start + k * h.every).collect());
            assert_eq!(found, want, "{p:?} {q:?}");
            assert_eq!(hits.map(Hits::end), want.last().map(|i| i + 1));
        }
    }
}
