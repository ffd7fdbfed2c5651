//! Mixed-radix affine maps: blocks, blocks of blocks, with a phase.
//!
//! With `x = rank + phase` and `1 = M₀ | M₁ | M₂ …`, the lpid grows by `S_j`
//! from one rank to the next, where `j` is the highest level whose `M_j`
//! divides the `x` of the next rank. That is
//! `lpid = base + Σ c_k·⌊x / M_k⌋` with `c₀ = S₀`, `c_k = S_k − S_{k−1}`.
//!
//! Two levels cover blockstride, 2-D sub-grids, planes, transposes and the
//! change between round-robin and block placement; three and four levels boxes
//! of that many dimensions. `c_k` may make the map non-injective: rank → node
//! is `⌊rank / ppn⌋`.

use super::model::Model;

/// Most digits a map may have: boxes of four dimensions.
pub(super) const MAX_DIGITS: usize = 4;

/// Two digits, small enough to live inside a `RankMap`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    /// lpid of rank 0.
    pub(super) first: u32,
    /// Growth inside a block.
    pub(super) step: i32,
    /// Growth from the last rank of a block to the first of the next.
    pub(super) jump: i32,
    /// Ranks in a block, at least 2.
    pub(super) block: u32,
    /// Ranks of the first block that come before rank 0.
    pub(super) phase: u32,
}

/// Up to [`MAX_DIGITS`] digits. Unused levels are zero, so `==` compares maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mixed {
    pub(super) first: u32,
    pub(super) phase: u32,
    /// Levels in use, 2..=MAX_DIGITS.
    pub(super) digits: u32,
    /// `S_k`: growth where level `k` is the highest that turns over.
    pub(super) step: [i32; MAX_DIGITS],
    /// `M_1 …`: `radix[k]` is `M_{k+1}`, each a multiple of the one before.
    pub(super) radix: [u32; MAX_DIGITS - 1],
}

impl Block {
    pub(super) fn widen(self) -> Mixed {
        Mixed {
            first: self.first,
            phase: self.phase,
            digits: 2,
            step: [self.step, self.jump, 0, 0],
            radix: [self.block, 0, 0],
        }
    }

    #[inline]
    pub(super) fn get(self, rank: u32) -> u32 {
        // phase < block, so no whole block lies before rank 0.
        let turns = (u64::from(rank) + u64::from(self.phase)) / u64::from(self.block);
        // Modulo 2^32 throughout: the result is an lpid.
        self.first
            .wrapping_add((self.step as u32).wrapping_mul(rank))
            .wrapping_add((self.jump.wrapping_sub(self.step) as u32).wrapping_mul(turns as u32))
    }
}

impl Mixed {
    /// The two-digit form, if that is what this is.
    pub(super) fn narrow(&self) -> Option<Block> {
        (self.digits == 2).then_some(Block {
            first: self.first,
            step: self.step[0],
            jump: self.step[1],
            block: self.radix[0],
            phase: self.phase,
        })
    }

    pub(super) fn model(&self) -> Model {
        if self.digits == 2 { Model::BlockStride } else { Model::MdBlockStride }
    }

    /// `c_k` and `M_k` of the levels above the first.
    pub(super) fn terms(&self) -> impl Iterator<Item = (i64, u32)> + '_ {
        (1..self.digits as usize)
            .map(|k| (i64::from(self.step[k]) - i64::from(self.step[k - 1]), self.radix[k - 1]))
    }

    /// Growth from `x = 0` to `x`, modulo 2^64.
    pub(super) fn growth(&self, x: u64) -> i64 {
        let mut sum = i64::from(self.step[0]).wrapping_mul(x as i64);
        for (c, radix) in self.terms() {
            sum = sum.wrapping_add(c.wrapping_mul((x / u64::from(radix)) as i64));
        }
        sum
    }

    #[inline]
    pub(super) fn get(&self, rank: u32) -> u32 {
        let phase = u64::from(self.phase);
        let grown = self.growth(u64::from(rank) + phase).wrapping_sub(self.growth(phase));
        i64::from(self.first).wrapping_add(grown) as u32
    }

    /// `base + stride · self`, level by level. The caller has checked that the
    /// lpids stay in range, so every growth fits.
    pub(super) fn scaled(&self, base: u32, stride: i32) -> Mixed {
        let mut out = *self;
        out.first = base.wrapping_add((stride as u32).wrapping_mul(self.first));
        for step in &mut out.step {
            *step = step.wrapping_mul(stride);
        }
        out
    }

    /// The digits of a map of so many ranks, at least one, in falling order of |stride|, and
    /// what those of the phase add to the lpid; the `x` of the last rank.
    fn places(&self, size: u32) -> ([Place; MAX_DIGITS], i128, i128) {
        let digits = self.digits as usize;
        let phase = i128::from(self.phase);
        let last = phase + i128::from(size) - 1;
        let mut places = [Place::default(); MAX_DIGITS];
        let mut stride = 0i128;
        for k in 0..digits {
            let weight = if k == 0 { 1 } else { i128::from(self.radix[k - 1]) };
            if k > 0 {
                stride *= places[k - 1].extent;
                stride -= i128::from(self.step[k - 1]);
            }
            stride += i128::from(self.step[k]);
            let end = if k + 1 < digits {
                i128::from(self.radix[k])
            } else {
                (last / weight + 1) * weight
            };
            places[k] = Place { stride, weight, extent: end / weight };
        }
        let used = &mut places[..digits];
        let before: i128 = used.iter().map(|p| p.stride * (phase / p.weight % p.extent)).sum();
        used.sort_by_key(|p| core::cmp::Reverse((p.stride.unsigned_abs(), p.weight)));
        (places, before, last)
    }

    /// Returns true if the digits of a map of so many ranks, at least one, nest, so that no two
    /// ranks have one lpid: each outweighs all that add less.
    pub(super) fn nests(&self, size: u32) -> bool {
        let (places, ..) = self.places(size);
        let mut reach = 0;
        let mut turning = places[..self.digits as usize].iter().rev().filter(|p| p.extent > 1);
        turning.all(|p| {
            let outweighs = p.stride.abs() > reach;
            reach += p.stride.abs() * (p.extent - 1);
            outweighs
        })
    }

    /// The smallest rank below `size` with this lpid.
    ///
    /// Constant time when the digits nest (every box, however its dimensions
    /// are ordered or reversed): each digit is then one division. Digits that
    /// overlap are searched, two of them by Euclid's algorithm, so the cost is
    /// at most the product of the other digits' extents.
    pub(super) fn rank_of(&self, size: u32, lpid: u32) -> Option<u32> {
        let (places, before, last) = self.places(size);
        let phase = i128::from(self.phase);
        let target = i128::from(lpid) - i128::from(self.first) + before;
        let x = solve(&places[..self.digits as usize], target, phase, last)?;
        u32::try_from(x - phase).ok()
    }
}

/// One digit of `x`: what it adds to the lpid and to `x`, and how far it runs.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    stride: i128,
    weight: i128,
    extent: i128,
}

/// The smallest `Σ weight·d` in `low..=high` with `Σ stride·d == target` and
/// every `d` in `0..extent`. `places` in falling order of |stride|.
fn solve(places: &[Place], target: i128, low: i128, high: i128) -> Option<i128> {
    let (head, rest) = places.split_first()?;
    if head.stride == 0 {
        return if target == 0 { free(places, low).filter(|&x| x <= high) } else { None };
    }
    if let [second] = rest
        && second.stride != 0
    {
        return pair(head, second, target, low, high);
    }
    let (mut least, mut most) = (0, 0);
    for p in rest {
        let reach = p.stride * (p.extent - 1);
        least += reach.min(0);
        most += reach.max(0);
    }
    let (from, to) = interval(head.stride, target - most, target - least);
    let mut best = None;
    for d in from.max(0)..=to.min(head.extent - 1) {
        let moved = head.weight * d;
        let found = if rest.is_empty() {
            (moved >= low && moved <= high).then_some(moved)
        } else {
            solve(rest, target - head.stride * d, low - moved, high - moved).map(|x| x + moved)
        };
        if let Some(x) = found {
            best = Some(best.map_or(x, |b: i128| b.min(x)));
        }
    }
    best
}

/// All `t` with `low <= factor·t <= high`, for a factor that is not zero.
fn interval(factor: i128, low: i128, high: i128) -> (i128, i128) {
    let (low, high) = if factor > 0 { (low, high) } else { (-high, -low) };
    let factor = factor.abs();
    (-((-low).div_euclid(factor)), high.div_euclid(factor))
}

/// The smallest `Σ weight·d` at or above `low`: no digit changes the lpid.
fn free(places: &[Place], low: i128) -> Option<i128> {
    let mut order = [Place::default(); MAX_DIGITS];
    let order = &mut order[..places.len()];
    order.copy_from_slice(places);
    order.sort_by_key(|p| core::cmp::Reverse(p.weight));
    let (mut x, mut low) = (0, low);
    for k in 0..order.len() {
        let lower: i128 = order[k + 1..].iter().map(|p| p.weight * (p.extent - 1)).sum();
        let d = interval(order[k].weight, low - lower, low).0.max(0);
        if d >= order[k].extent {
            return None;
        }
        x += order[k].weight * d;
        low -= order[k].weight * d;
    }
    (low <= 0).then_some(x)
}

/// Two digits, `a.stride·i + b.stride·j == target`: Euclid's algorithm gives
/// one solution, the bounds an interval of the others, and `x` is monotone
/// along it.
fn pair(a: &Place, b: &Place, target: i128, low: i128, high: i128) -> Option<i128> {
    let (g, u) = gcd(a.stride, b.stride);
    if target % g != 0 {
        return None;
    }
    let (da, db) = (b.stride / g, -(a.stride / g));
    let i = (target / g).rem_euclid(da.abs()) * u.rem_euclid(da.abs()) % da.abs();
    let j = (target - a.stride * i) / b.stride;
    let (mut from, mut to) = interval(da, -i, a.extent - 1 - i);
    let (f, t) = interval(db, -j, b.extent - 1 - j);
    (from, to) = (from.max(f), to.min(t));
    let x = a.weight * i + b.weight * j;
    let slope = a.weight * da + b.weight * db;
    if slope != 0 {
        let (f, t) = interval(slope, low - x, high - x);
        (from, to) = (from.max(f), to.min(t));
    } else if x < low || x > high {
        return None;
    }
    (from <= to).then(|| x + slope * if slope > 0 { from } else { to })
}

/// `(g, u)` with `g = gcd(a, b) > 0` and `a·u ≡ g` modulo `b`.
fn gcd(a: i128, b: i128) -> (i128, i128) {
    let (mut r, mut s) = ((a, b), (1i128, 0i128));
    while r.1 != 0 {
        let q = r.0 / r.1;
        r = (r.1, r.0 - q * r.1);
        s = (s.1, s.0 - q * s.1);
    }
    if r.0 < 0 { (-r.0, -s.0) } else { (r.0, s.0) }
}
