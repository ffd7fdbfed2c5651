//! Formulas and segments: the forms that are no table, as images and as a
//! representation among the others.

use std::sync::Arc;

use super::image::{Reader, Refused, Writer};
use crate::rankmap::affine::Affine;
use crate::rankmap::detect::Detector;
use crate::rankmap::error::MapError;
use crate::rankmap::mixed::{MAX_DIGITS, Mixed};
use crate::rankmap::process::LPID_MAX;
use crate::rankmap::regular::{Formula, Regular};
use crate::rankmap::segments::{RANKS_PER_RUN, Run, Segments};
use crate::rankmap::tile::{TILE_MAX, Tile};

const AFFINE: u32 = 0;
const MIXED: u32 = 1;
const TILE: u32 = 2;
const SEGMENTS: u32 = 3;

/// The formula or segments that lpids are; `None` for a table.
pub(super) fn of(lpids: impl Iterator<Item = u32>) -> Result<Option<Formula>, MapError> {
    let mut detector = Detector::new();
    detector.extend_lpids(lpids);
    Ok(detector.detected()?.formula())
}

pub(super) fn write(map: &Formula, out: &mut Writer) {
    let mut mixed = |m: &Mixed| {
        out.u32(MIXED);
        out.u32(m.first);
        out.u32(m.phase);
        out.u32(m.digits);
        m.step.iter().for_each(|&step| out.u32(step as u32));
        m.radix.iter().for_each(|&radix| out.u32(radix));
    };
    match &map.form {
        Regular::Affine(a) => {
            out.u32(AFFINE);
            out.u32(a.first);
            out.u32(a.step as u32);
        }
        Regular::Block(block) => mixed(&block.widen()),
        Regular::Mixed(m) => mixed(m),
        Regular::Tile(tile) => {
            out.u32(TILE);
            out.u32(tile.growth as u32);
            out.numbers(&tile.lpids);
        }
        Regular::Segments(segments) => {
            out.u32(SEGMENTS);
            out.u32(segments.runs.len() as u32);
            for run in &segments.runs {
                out.u32(run.start);
                out.u32(run.first);
                out.u32(run.step as u32);
            }
        }
    }
}

/// Whether both are lpids.
fn inside(low: i128, high: i128) -> Result<(), Refused> {
    if low >= 0 && high <= i128::from(LPID_MAX) {
        Ok(())
    } else {
        Err(Refused::Content("a formula that leaves the lpids"))
    }
}

pub(super) fn read(size: u32, from: &mut Reader<'_>) -> Result<Formula, Refused> {
    if size == 0 {
        return match (from.u32()?, from.u32()?, from.u32()?) {
            (AFFINE, ..) => Ok(Formula::direct(0)),
            _ => Err(Refused::Content("a formula of no ranks")),
        };
    }
    let form = match from.u32()? {
        AFFINE => {
            let affine = Affine { first: from.u32()?, step: from.u32()? as i32 };
            check(affine, size)?;
            Regular::Affine(affine)
        }
        MIXED => read_mixed(size, from)?.into(),
        TILE => {
            let growth = from.u32()? as i32;
            let lpids = from.numbers()?;
            if lpids.is_empty() || lpids.len() > TILE_MAX {
                return Err(Refused::Content("a tile of no or too many ranks"));
            }
            for (place, &lpid) in (0u32..).zip(&lpids).take(size as usize) {
                let turns = i128::from((size - 1 - place) / lpids.len() as u32);
                let last = i128::from(lpid) + turns * i128::from(growth);
                inside(last.min(lpid.into()), last.max(lpid.into()))?;
            }
            Regular::Tile(Arc::new(Tile { growth, lpids: lpids.into_boxed_slice() }))
        }
        SEGMENTS => {
            let count = from.u32()?;
            let mut runs: Vec<Run> = Vec::new();
            for _ in 0..count {
                let run = Run { start: from.u32()?, first: from.u32()?, step: from.u32()? as i32 };
                let in_order = match runs.last() {
                    None => run.start == 0,
                    Some(last) => last.start < run.start && run.start < size,
                };
                if !in_order {
                    return Err(Refused::Content("segments out of order"));
                }
                if let Some(last) = runs.last() {
                    check(Affine { first: last.first, step: last.step }, run.start - last.start)?;
                }
                runs.push(run);
            }
            let Some(last) = runs.last() else {
                return Err(Refused::Content("segments without a segment"));
            };
            check(Affine { first: last.first, step: last.step }, size - last.start)?;
            Regular::Segments(Arc::new(Segments::new(runs, size)))
        }
        _ => return Err(Refused::Content("an unknown formula")),
    };
    let map = Formula { size, form };
    if is_normal(&map) {
        Ok(map)
    } else {
        Err(Refused::Content("a formula that is not in its normal form"))
    }
}

/// Returns true if detection gives just this: equality of maps rests on it.
fn is_normal(map: &Formula) -> bool {
    let mut detector = Detector::new();
    let found = |detector: Detector| {
        detector.detected().is_ok_and(|found| found.formula().as_ref() == Some(map))
    };
    let Regular::Segments(segments) = &map.form else {
        map.pieces().for_each(|piece| detector.push_piece(piece));
        return found(detector);
    };
    let runs = &segments.runs;
    // Each run is as long as it can be, and there are few.
    let greedy = runs.windows(2).all(|pair| {
        let (run, len) =
            (Affine { first: pair[0].first, step: pair[0].step }, pair[1].start - pair[0].start);
        len >= 2 && i64::from(run.get(len - 1)) + i64::from(run.step) != i64::from(pair[1].first)
    });
    let single = runs.last().is_none_or(|run| map.size - run.start > 1 || run.step == 1);
    if !greedy || !single || runs.len() > (map.size / RANKS_PER_RUN).max(1) as usize {
        return false;
    }
    // Only irregular maps are segments.
    for piece in map.pieces() {
        detector.push_piece(piece);
        if !detector.is_regular() {
            return true;
        }
    }
    // A tile that repeats too seldom to be one.
    found(detector)
}

/// Returns true if lpids are a formula; looks no further than it must.
pub(super) fn is_regular(lpids: impl Iterator<Item = u32>) -> bool {
    let mut detector = Detector::new();
    for lpid in lpids {
        detector.push(lpid);
        if !detector.is_regular() {
            return false;
        }
    }
    let found = detector.detected().ok().and_then(|found| found.formula());
    found.is_some_and(|formula| formula.form.model().is_regular())
}

fn check(affine: Affine, len: u32) -> Result<(), Refused> {
    let first = i128::from(affine.first);
    let last = first + i128::from(affine.step) * (i128::from(len) - 1);
    inside(first.min(last), first.max(last))
}

fn read_mixed(size: u32, from: &mut Reader<'_>) -> Result<Mixed, Refused> {
    let (first, phase, digits) = (from.u32()?, from.u32()?, from.u32()?);
    let (mut step, mut radix) = ([0i32; MAX_DIGITS], [0u32; MAX_DIGITS - 1]);
    for step in &mut step {
        *step = from.u32()? as i32;
    }
    for radix in &mut radix {
        *radix = from.u32()?;
    }
    let mixed = Mixed { first, phase, digits, step, radix };
    let wrong = Err(Refused::Content("digits that do not nest"));
    if !(2..=MAX_DIGITS as u32).contains(&digits) || phase.checked_add(size).is_none() {
        return wrong;
    }
    let used = &radix[..digits as usize - 1];
    let mut below = 1;
    for &radix in used {
        if radix <= below || radix % below != 0 {
            return wrong;
        }
        below = radix;
    }
    let unused = step[digits as usize..].iter().any(|&s| s != 0)
        || radix[digits as usize - 1..].iter().any(|&r| r != 0);
    if unused || phase >= below {
        return wrong;
    }
    let start = i128::from(first) - growth(&mixed, phase.into());
    let (from, to) = (u64::from(phase), u64::from(phase) + u64::from(size));
    let (low, high) = extremes(&mixed, digits as usize - 1, from, to);
    inside(start + low, start + high)?;
    Ok(mixed)
}

/// Growth from 0 to `x`, without a wrap.
fn growth(mixed: &Mixed, x: u64) -> i128 {
    let below = i128::from(mixed.step[0]) * i128::from(x);
    mixed
        .terms()
        .fold(below, |sum, (c, radix)| sum + i128::from(c) * i128::from(x / u64::from(radix)))
}

/// Least and most growth of `from..to`, which lies in one unit of the level
/// above `level`: units of a level differ by a constant, so the first and last
/// whole one and the cut ones at both ends hold the extremes.
fn extremes(mixed: &Mixed, level: usize, from: u64, to: u64) -> (i128, i128) {
    if level == 0 {
        let (a, b) = (growth(mixed, from), growth(mixed, to - 1));
        return (a.min(b), a.max(b));
    }
    let unit = u64::from(mixed.radix[level - 1]);
    let (head, tail) = (from / unit, (to - 1) / unit);
    let mut out = (i128::MAX, i128::MIN);
    let whole = [head, head + 1, tail.saturating_sub(1), tail];
    for at in whole.into_iter().filter(|at| (head..=tail).contains(at)) {
        let (low, high) = extremes(mixed, level - 1, from.max(at * unit), to.min((at + 1) * unit));
        out = (out.0.min(low), out.1.max(high));
    }
    out
}
