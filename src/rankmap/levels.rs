//! Finding the digits of a mixed-radix map from its differences, one at a time.
//!
//! The differences of such a map form a ruler: `S₀` everywhere except where
//! `M₁` divides `x`, and the values at those places form a ruler of the next
//! level. Each [`Level`] therefore knows its usual value `s` and the distance
//! `m` of its exceptions, and hands the exceptions to the level above. Where
//! the first exception stands tells the phase.
//!
//! The outcome depends on the sequence alone, never on how it was produced,
//! which is what makes the form normal. Three choices pin it down where several
//! forms fit: the usual value is the first one seen unless that is refuted;
//! a level seen to turn once has the shortest period that fits on both sides;
//! a level above the others exists only when it was seen to turn.

use super::mixed::{MAX_DIGITS, Mixed};

/// More repetitions than a map can have ranks.
const FOREVER: u32 = i32::MAX as u32;

/// What a prefix of the sequence looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Affine { step: i32 },
    Mixed(Mixed),
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Level {
    /// Usual value.
    pub(super) s: i32,
    /// Inputs equal to `s` that need no thought.
    pub(super) fast: u32,
    /// Inputs so far, plus `fast`.
    pub(super) n: u32,
    /// Index, from 1, of the first exception seen; 0 for none.
    p: u32,
    /// Distance of the exceptions; 0 while unknown.
    pub(super) m: u32,
    /// The first two exceptions.
    jumps: [i32; 2],
    /// So far the inputs alternate a b a b …: `s` might be either.
    alternating: bool,
}

impl Level {
    fn seen(&self) -> u32 {
        self.n - self.fast
    }

    /// Returns true if an exception was seen.
    pub(super) fn turned(&self) -> bool {
        self.p != 0
    }

    fn rest(&mut self, fast: u32) -> bool {
        self.fast = fast;
        self.n += fast;
        true
    }
}

/// Takes the next value; `false` when no form of [`MAX_DIGITS`] digits fits.
/// After `false` the levels still describe everything before that value.
#[inline]
pub(super) fn feed(levels: &mut [Level], value: i32) -> bool {
    let l = &mut levels[0];
    if value == l.s && l.fast > 0 {
        l.fast -= 1;
        return true;
    }
    slow(levels, value)
}

fn feed_many(levels: &mut [Level], value: i32, mut count: u32) -> bool {
    while count > 0 {
        let l = &mut levels[0];
        if value == l.s && l.fast > 0 {
            let take = count.min(l.fast);
            l.fast -= take;
            count -= take;
        } else {
            if !slow(levels, value) {
                return false;
            }
            count -= 1;
        }
    }
    true
}

/// Level 0 turns with a value that is not due on level 1 as it stands: carries
/// through the levels that turn with it. `false`, and nothing done, where that
/// does not tell.
#[inline]
pub(super) fn carry(levels: &mut [Level; MAX_DIGITS], value: i32) -> bool {
    let mut k = 1;
    while k < MAX_DIGITS - 1 && levels[k].fast == 0 && levels[k].m != 0 {
        k += 1;
    }
    if value != levels[k].s || levels[k].fast == 0 {
        return false;
    }
    levels[k].fast -= 1;
    for l in &mut levels[1..k] {
        l.fast = l.m - 1;
        l.n += l.m;
    }
    true
}

fn slow(levels: &mut [Level], value: i32) -> bool {
    let Some((l, up)) = levels.split_first_mut() else { return false };
    let left = l.fast;
    let i = l.n - left + 1;
    if i == 1 {
        *l = Level { s: value, n: 1, ..Level::default() };
        return l.rest(FOREVER);
    }
    if up.is_empty() {
        // The top level never turns.
        if value != l.s {
            return false;
        }
        l.n = i;
        return l.rest(FOREVER);
    }
    if l.p == 0 {
        l.n = i;
        if value == l.s {
            return l.rest(FOREVER);
        }
        l.p = i;
        l.jumps[0] = value;
        l.alternating = i == 2;
        // While alternating, stop at index 4 to see whether it goes on.
        let fast = if l.alternating { 1 } else { FOREVER };
        return l.rest(fast);
    }
    if l.m == 0 && value == l.s {
        l.n = i;
        l.alternating = false;
        return l.rest(FOREVER);
    }
    if l.m != 0 && left == 0 {
        // An exception is due; it may be a hidden one, equal to `s`.
        l.n = i;
        l.alternating &= value == l.jumps[0];
        l.rest(l.m - 1);
        return feed(up, value);
    }
    let mut saved = [Level::default(); MAX_DIGITS];
    let depth = levels.len();
    saved[..depth].copy_from_slice(levels);
    restructure(levels, value, i, left) || {
        levels.copy_from_slice(&saved[..depth]);
        false
    }
}

/// An exception where none was due: the second one, which gives the distance,
/// or a reason to take back a choice.
fn restructure(levels: &mut [Level], value: i32, i: u32, left: u32) -> bool {
    let Some((l, up)) = levels.split_first_mut() else { return false };
    l.n = i;
    l.fast = 0;
    let (h, m);
    if l.m == 0 {
        if l.alternating && i == 3 {
            // a b c: were `a` usual, c would have to be a.
            (l.s, l.jumps[0]) = (l.jumps[0], l.s);
            l.p = 1;
            l.alternating = false;
            if value == l.s {
                return l.rest(FOREVER);
            }
        }
        m = i - l.p;
        if m < 2 {
            return false;
        }
        l.m = m;
        l.jumps[1] = value;
        l.alternating &= value == l.jumps[0];
        h = (l.p - 1) / m;
        return up_many(up, l.s, h) && feed(up, l.jumps[0]) && feed(up, value) && l.rest(m - 1);
    }
    if l.alternating {
        // a b a b … c at an odd index: b was the usual value all along.
        (l.s, l.jumps[0]) = (l.jumps[0], l.s);
        l.p = 1;
        l.alternating = false;
        up.fill(Level::default());
        return feed_many(up, l.jumps[0], (i - 1) / 2) && feed(up, value) && l.rest(1);
    }
    // Between the first two exceptions seen, one may have hidden as `s`.
    m = l.m - left;
    if up[0].seen() != 2 || m < 2 || l.m % m != 0 {
        return false;
    }
    let between = l.m / m - 1;
    h = (l.p - 1) / m;
    l.m = m;
    up.fill(Level::default());
    up_many(up, l.s, h)
        && feed(up, l.jumps[0])
        && up_many(up, l.s, between)
        && feed(up, l.jumps[1])
        && feed(up, value)
        && l.rest(m - 1)
}

use feed_many as up_many;

/// The form of the first `count` elements, the first of which is `first`.
pub(super) fn shape(levels: &[Level; MAX_DIGITS], first: u32, count: u32) -> Shape {
    if count < 2 {
        return Shape::Affine { step: 1 };
    }
    let mut out = Mixed {
        first,
        phase: 0,
        digits: 1,
        step: [levels[0].s, 0, 0, 0],
        radix: [0; MAX_DIGITS - 1],
    };
    let (mut unit, mut phase) = (1u64, 0u64);
    for (k, l) in levels.iter().enumerate().take(MAX_DIGITS - 1) {
        if l.p == 0 {
            break;
        }
        let m = if l.m != 0 { l.m } else { l.p.max(l.seen() + 1 - l.p) };
        phase += unit * u64::from(m - 1 - (l.p - 1) % m);
        unit *= u64::from(m);
        // Below 2^32: every level turned inside a map of fewer than 2^31 ranks,
        // and a level that turned once is at most as long as all before it.
        out.radix[k] = unit as u32;
        out.step[k + 1] = if l.m != 0 { levels[k + 1].s } else { l.jumps[0] };
        out.digits += 1;
        if l.m == 0 {
            break;
        }
    }
    if out.digits == 1 {
        return Shape::Affine { step: out.step[0] };
    }
    out.phase = phase as u32;
    Shape::Mixed(out)
}
