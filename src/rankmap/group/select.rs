//! Keeping the members of one group that another has, or has not: all that
//! union, intersection and difference are.
//!
//! Few segments are walked ([`walk`](super::walk)); once there are more than the
//! words of a bitmap, the other group becomes one.

use super::bits::{Bits, Spans};
use super::members::{bits, is_table, least_segments, lpids, segments, spans};
use super::progression::{Progression, position, process};
use super::walk::{Comb, Index, Keep, Stop, Walk};
use crate::rankmap::affine::Piece;
use crate::rankmap::compact::Compact;
use crate::rankmap::{Detector, MapError, Process, RankMap};

/// Segments that are walked without asking how large a bitmap would be.
const FEW: usize = 256;
/// Pairs of segments that such a walk may look at.
const FEW_PAIRS: usize = 4096;

/// Lpids of a table that are read together.
const AT_ONCE: usize = 256;
/// Bytes of marks for each member of both groups, at most.
const BYTES_MAX: usize = 8;

/// Pushes combs, which are of valid lpids.
pub(super) fn push(detector: &mut Detector, comb: Comb) {
    let Progression { first, step, len } = comb.tooth;
    // Steps and pitches of members that differ are below 2^31.
    let piece = Piece { first: process(first), step: step as i32, len };
    detector.push_comb(piece, comb.pitch as i32, comb.count);
}

/// The members of `group` that `other` has or has not, in order, after all of
/// `other` if `joined` (a union). Neither is empty.
pub(super) fn select(
    group: &RankMap,
    other: &RankMap,
    keep: Keep,
    joined: bool,
) -> Result<RankMap, MapError> {
    let spans = match walked(group, other, keep, None) {
        Ok(combs) => return finish(group, other, joined, &combs),
        Err(spans) => spans,
    };
    let others = keep == Keep::Others;
    if let Some(pg) = group.pg()
        && (is_table(group) || is_table(other))
        && other.pg() == group.pg()
    {
        return listed(pg, group, other, &spans, others, joined);
    }
    let bits = bits(other, &spans);
    let mut detector = start(other, joined);
    let before = detector.len();
    for segment in segments(group) {
        stretches(&bits, segment, others, &mut |kept| {
            push(&mut detector, Comb::one(kept));
            true
        });
    }
    let kept = detector.len() - before;
    whole(group, other, joined, kept).map_or_else(|| detector.finish(), Ok)
}

/// The combs that a walk leaves, or only the first `limit` of them; or what a
/// bitmap of `other` spans, if that is cheaper.
fn walked(
    group: &RankMap,
    other: &RankMap,
    keep: Keep,
    limit: Option<usize>,
) -> Result<Vec<Comb>, Spans> {
    let least = least_segments(group) + least_segments(other);
    if least <= FEW
        && let Some(combs) = walk(group, other, keep, FEW_PAIRS, limit)
    {
        return Ok(combs);
    }
    let spans = spans(other);
    let words = spans.words();
    if least <= words
        && (least > FEW || words > FEW_PAIRS)
        && let Some(combs) = walk(group, other, keep, words, limit)
    {
        return Ok(combs);
    }
    Err(spans)
}

fn walk(
    group: &RankMap,
    other: &RankMap,
    keep: Keep,
    budget: usize,
    limit: Option<usize>,
) -> Option<Vec<Comb>> {
    let mut items = Vec::with_capacity(least_segments(other).min(budget) + 1);
    for segment in segments(other) {
        if items.len() == budget {
            return None;
        }
        items.push(segment);
    }
    let index = Index::new(items);
    let mut walk = Walk::new(&index, keep, budget);
    let mut combs = Vec::with_capacity(FEW.min(2 * least_segments(group)));
    for segment in segments(group) {
        let mut out = |comb| {
            combs.push(comb);
            limit.is_none_or(|limit| combs.len() < limit)
        };
        match walk.step(segment, &mut out) {
            Ok(()) => {}
            Err(Stop::Budget) => return None,
            Err(Stop::Receiver) => break,
        }
    }
    Some(combs)
}

/// A detector of the members of `other`, or of none.
fn start(other: &RankMap, joined: bool) -> Detector {
    let mut detector = Detector::new();
    if joined {
        segments(other).for_each(|segment| push(&mut detector, Comb::one(segment)));
    }
    detector
}

fn finish(
    group: &RankMap,
    other: &RankMap,
    joined: bool,
    combs: &[Comb],
) -> Result<RankMap, MapError> {
    let kept = combs.iter().map(|comb| comb.count * comb.tooth.len).sum();
    if let Some(map) = whole(group, other, joined, kept) {
        return Ok(map);
    }
    let mut detector = start(other, joined);
    combs.iter().for_each(|&comb| push(&mut detector, comb));
    detector.finish()
}

/// The result if it is one of the groups as it stands, or empty.
fn whole(group: &RankMap, other: &RankMap, joined: bool, kept: u32) -> Option<RankMap> {
    match (joined, kept) {
        (true, 0) => Some(other.clone()),
        (false, 0) => Some(RankMap::direct(0)),
        (false, kept) if kept == group.size => Some(group.clone()),
        _ => None,
    }
}

/// Gives the stretches of a segment that are (or are not) in the bitmap to
/// `out`, in the segment's order, until it says `false`.
fn stretches(
    bits: &Bits,
    segment: Progression,
    others: bool,
    out: &mut impl FnMut(Progression) -> bool,
) -> bool {
    let (low, high) = (segment.low(), segment.high());
    if segment.len == 1 || segment.step == 1 {
        return bits.stretches(low, high, others, &mut |first, len| {
            out(Progression { first, step: 1, len })
        });
    }
    if segment.step == -1 {
        let mut falling = Vec::new();
        bits.stretches(low, high, others, &mut |first, len| {
            let first = first + i64::from(len) - 1;
            let step = if len == 1 { 1 } else { -1 };
            falling.push(Progression { first, step, len });
            true
        });
        return falling.into_iter().rev().all(out);
    }
    (0..segment.len).all(|i| {
        let first = segment.at(i);
        bits.has(process(first)) == others || out(Progression { first, step: 1, len: 1 })
    })
}

/// [`select`] for groups of one process group, one of which is a table: the
/// result is most likely one, so its lpids are written down at once.
fn listed(
    pg: u32,
    group: &RankMap,
    other: &RankMap,
    spans: &Spans,
    others: bool,
    joined: bool,
) -> Result<RankMap, MapError> {
    let before = if joined { other.size as usize } else { 0 };
    let mut out = Vec::with_capacity(before + group.size as usize);
    let bitmap = |map: &RankMap| map.as_compact().is_some_and(|c| c.bitmap().is_some());
    let tables = is_table(group) && is_table(other) && !bitmap(group) && !bitmap(other);
    if tables && spans.words() * 64 <= BYTES_MAX * (group.size as usize + other.size as usize) {
        let members = lpids(other);
        let marks = marks(&members, spans, |lpids| {
            if joined {
                out.extend_from_slice(lpids);
            }
        });
        let low = spans.low();
        // Below the window the difference wraps past its end.
        filter(&lpids(group), others, &mut out, |lpid| {
            marks.get(lpid.wrapping_sub(low) as usize).copied().unwrap_or(0)
        });
    } else {
        if joined {
            out.extend_from_slice(&lpids(other));
        }
        let bits = bits(other, spans);
        if let Some((first, words)) = group.as_compact().and_then(Compact::bitmap) {
            for (at, &word) in (0..).zip(words) {
                let first = first + 64 * at;
                let same = bits.word(position(Process { pg, lpid: first }));
                ones(word & if others { !same } else { same }, first, &mut out);
            }
        } else if is_table(group) {
            let low = spans.low();
            filter(&lpids(group), others, &mut out, |lpid| {
                let bit = lpid.wrapping_sub(low);
                let word = bits.words.get(bit as usize / 64).copied().unwrap_or(0);
                (word >> (bit % 64)) as u8 & 1
            });
        } else {
            for segment in segments(group) {
                stretches(&bits, segment, others, &mut |kept| {
                    let first = process(kept.first).lpid;
                    let lpid = |i: u32| first.wrapping_add((kept.step as u32).wrapping_mul(i));
                    out.extend((0..kept.len).map(lpid));
                    true
                });
            }
        }
    }
    let kept = (out.len() - before) as u32;
    match whole(group, other, joined, kept) {
        Some(map) => Ok(map),
        None => RankMap::from_table(pg, out),
    }
}

/// A byte for each lpid of a window, 1 for members. Tables are read member by
/// member, and a byte is written without what stood there before. `seen` gets
/// the lpids while they are in the cache.
fn marks(lpids: &[u32], spans: &Spans, mut seen: impl FnMut(&[u32])) -> Vec<u8> {
    let low = spans.low();
    let mut marks = vec![0; spans.words() * 64];
    for chunk in lpids.chunks(AT_ONCE) {
        for &lpid in chunk {
            marks[(lpid - low) as usize] = 1;
        }
        seen(chunk);
    }
    marks
}

/// Appends the lpids that are marked (or are not), without a branch on it.
fn filter(lpids: &[u32], others: bool, out: &mut Vec<u32>, mark: impl Fn(u32) -> u8) {
    let mut kept = [0u32; AT_ONCE];
    let flip = u8::from(others);
    for chunk in lpids.chunks(AT_ONCE) {
        let mut count = 0;
        for &lpid in chunk {
            kept[count % AT_ONCE] = lpid;
            count += usize::from(mark(lpid) ^ flip);
        }
        out.extend_from_slice(&kept[..count]);
    }
}

/// Appends the lpids of the ones of a word.
fn ones(mut word: u64, first: u32, out: &mut Vec<u32>) {
    let mut lpids = [0u32; 64];
    let count = word.count_ones() as usize;
    for lpid in &mut lpids[..count] {
        *lpid = first + word.trailing_zeros();
        word &= word.wrapping_sub(1);
    }
    out.extend_from_slice(&lpids[..count]);
}

/// Returns true if `other` has all members of `group`.
pub(super) fn within(group: &RankMap, other: &RankMap) -> bool {
    let spans = match walked(group, other, Keep::Others, Some(1)) {
        Ok(combs) => return combs.is_empty(),
        Err(spans) => spans,
    };
    let bits = bits(other, &spans);
    segments(group).all(|segment| stretches(&bits, segment, true, &mut |_| false))
}
