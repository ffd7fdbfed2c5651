//! Tiles: a short irregular pattern repeated at a stride.
//!
//! `lpid = lpids[rank mod T] + growth · ⌊rank / T⌋`. What a stride makes of
//! blocks whose length it does not divide, and any permutation inside a node
//! repeated on every node.

/// Longest pattern. A constant, so tiles are regular maps.
pub(super) const TILE_MAX: usize = 64;
/// A pattern counts only if the map holds it at least this often.
const REPEATS: u32 = 4;

/// The lpids of the first ranks, and what they grow by from tile to tile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tile {
    pub(super) growth: i32,
    pub(super) lpids: Box<[u32]>,
}

impl Tile {
    #[inline]
    pub(super) fn get(&self, rank: u32) -> u32 {
        let length = self.lpids.len() as u32;
        let grown = (self.growth as u32).wrapping_mul(rank / length);
        self.lpids[(rank % length) as usize].wrapping_add(grown)
    }

    /// The smallest rank below `size` with this lpid: one division for each of
    /// at most [`TILE_MAX`] places.
    pub(super) fn rank_of(&self, size: u32, lpid: u32) -> Option<u32> {
        let length = self.lpids.len() as i64;
        let rank = |(place, &start): (usize, &u32)| {
            let delta = i64::from(lpid) - i64::from(start);
            let tile = match i64::from(self.growth) {
                0 if delta == 0 => 0,
                0 => return None,
                growth if delta % growth == 0 => delta / growth,
                _ => return None,
            };
            let rank = tile * length + place as i64;
            (tile >= 0 && rank < i64::from(size)).then_some(rank as u32)
        };
        self.lpids.iter().enumerate().filter_map(rank).min()
    }

    /// Returns true if no two ranks have one lpid, as far as its growth tells: no two places of
    /// the tile are some tiles from each other.
    pub(super) fn is_apart(&self) -> bool {
        let growth = self.growth.unsigned_abs();
        let mut rests: Vec<u32> =
            self.lpids.iter().filter_map(|it| it.checked_rem(growth)).collect();
        rests.sort_unstable();
        rests.len() == self.lpids.len() && rests.is_sorted_by(|a, b| a < b)
    }

    /// `base + stride · self`; the caller has checked that lpids stay in range.
    pub(super) fn scaled(&self, base: u32, stride: i32) -> Tile {
        let scale = |&lpid: &u32| base.wrapping_add((stride as u32).wrapping_mul(lpid));
        let lpids = self.lpids.iter().map(scale).collect();
        Tile { growth: self.growth.wrapping_mul(stride), lpids }
    }
}

/// Finds the shortest period of a stream of differences, in constant memory.
#[derive(Clone, Debug)]
pub(super) struct Periodic {
    /// The differences before this many are kept: two of the longest periods,
    /// past which a shorter period that fails cannot be mended by a longer one
    /// (Fine and Wilf 1965).
    kept: [i32; 2 * TILE_MAX],
    count: u32,
    /// Shortest period of all so far.
    period: usize,
    /// `count mod period`.
    place: usize,
}

impl Periodic {
    pub(super) fn new() -> Periodic {
        Periodic { kept: [0; 2 * TILE_MAX], count: 0, period: 1, place: 0 }
    }

    /// `false` when no period up to [`TILE_MAX`] is left; the difference is
    /// then not taken.
    #[inline]
    pub(super) fn push(&mut self, difference: i32) -> bool {
        let at = self.count as usize;
        if at < self.kept.len() {
            self.kept[at] = difference;
            if difference != self.kept[self.place] && !self.lengthen(at) {
                return false;
            }
        } else if difference != self.kept[self.place] {
            return false;
        }
        self.count += 1;
        self.place += 1;
        if self.place == self.period {
            self.place = 0;
        }
        true
    }

    #[cold]
    fn lengthen(&mut self, at: usize) -> bool {
        let seen = &self.kept[..=at];
        let fits = |&p: &usize| seen[p..] == seen[..=at - p];
        let Some(period) = (self.period + 1..=TILE_MAX.min(at)).find(fits) else {
            if at >= TILE_MAX {
                return false;
            }
            // No repetition yet: the whole of it is the pattern.
            self.period = at + 1;
            self.place = at;
            return true;
        };
        self.period = period;
        self.place = at % period;
        true
    }

    /// The tile of the ranks so far, of which `first` is the first.
    pub(super) fn tile(&self, first: u32) -> Tile {
        let mut lpid = first;
        let lpids = self.kept[..self.period]
            .iter()
            .map(|&difference| {
                let this = lpid;
                lpid = lpid.wrapping_add(difference as u32);
                this
            })
            .collect();
        Tile { growth: lpid.wrapping_sub(first) as i32, lpids }
    }

    /// Returns true if the pattern repeats often enough to be the map's form.
    pub(super) fn pays(&self) -> bool {
        (self.count + 1) / REPEATS >= self.period as u32
    }
}
