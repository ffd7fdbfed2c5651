//! The members of a group as the operations read them: segments in rank order,
//! a list of lpids, the stretch they span.

use std::borrow::Cow;

use super::bits::{Bits, Spans};
use super::progression::{Progression, position};
use crate::rankmap::affine::Piece;
use crate::rankmap::compact::Compact;
use crate::rankmap::iter::Iter;
use crate::rankmap::map::{Form, RankMap};
use crate::rankmap::regular::Regular;
use crate::rankmap::segments::RANKS_PER_RUN;

/// Segments of a map in rank order.
#[derive(Debug)]
pub(super) struct Segments<'a> {
    pieces: Iter<'a>,
    /// The segment that the next piece may still lengthen.
    open: Option<Piece>,
    /// Whether pieces are single ranks, of which neighbours make one segment.
    singles: bool,
}

pub(super) fn segments(map: &RankMap) -> Segments<'_> {
    Segments { pieces: map.iter(), open: None, singles: is_table(map) }
}

impl Segments<'_> {
    #[inline]
    fn joined(&mut self) -> Option<Piece> {
        let mut open = match self.open.take() {
            Some(open) => open,
            None => self.pieces.next_piece()?,
        };
        while let Some(next) = self.pieces.next_piece() {
            let distance = next.first.lpid.wrapping_sub(open.first.lpid) as i32;
            let step = if open.len == 1 { distance } else { open.step };
            let neighbours = matches!(step, 1 | -1)
                && distance == step.wrapping_mul(open.len as i32)
                && next.first.pg == open.first.pg
                && next.len == 1;
            if !neighbours {
                self.open = Some(next);
                break;
            }
            open.step = step;
            open.len += 1;
        }
        Some(open)
    }
}

impl Iterator for Segments<'_> {
    type Item = Progression;

    #[inline]
    fn next(&mut self) -> Option<Progression> {
        let piece = if self.singles { self.joined() } else { self.pieces.next_piece() };
        piece.map(Progression::of)
    }
}

/// Returns true if the segments of a map are about as many as its ranks.
pub(super) fn is_table(map: &RankMap) -> bool {
    match &map.form {
        Form::Compact(compact) => compact.ranges().is_none(),
        Form::Lut(_) | Form::Mlut(_) => true,
        form @ Form::Several(_) => !form.is_formula(),
        Form::Regular(form) => matches!(form, Regular::Tile(_)),
    }
}

/// At least so many segments a map has, told in constant time.
pub(super) fn least_segments(map: &RankMap) -> usize {
    let ranks = map.size as usize;
    match &map.form {
        Form::Regular(form) => form.least_runs(ranks),
        Form::Compact(compact) => compact.ranges().map_or(1, |ranges| ranges.count() as usize),
        Form::Lut(_) => ranks / RANKS_PER_RUN as usize,
        Form::Several(several) => several.least_runs(ranks),
        Form::Mlut(_) => 1,
    }
}

/// Returns true if no process is there twice, by a bitmap of all.
pub(super) fn differ(map: &RankMap) -> bool {
    let bits = bits(map, &spans(map));
    bits.words.iter().map(|word| u64::from(word.count_ones())).sum::<u64>() == u64::from(map.size)
}

/// The lowest and highest members of each process group.
pub(super) fn spans(map: &RankMap) -> Spans {
    let mut spans = Spans::default();
    let mut add = |ends: Option<(u32, u32)>| {
        if let Some((low, high)) = ends {
            let at = |lpid| position(crate::rankmap::Process { pg: map.pg, lpid });
            spans.add(at(low), at(high));
        }
    };
    match &map.form {
        Form::Compact(compact) if compact.is_set() => {
            // The window of a bitmap begins where its words do.
            let first = compact.bitmap().map(|(first, _)| first);
            add(first.or(compact.find(0)).zip(compact.find(map.size.wrapping_sub(1))));
        }
        Form::Compact(_) | Form::Lut(_) => {
            add(ends(&lpids(map)));
        }
        Form::Regular(Regular::Tile(tile)) => {
            (0..map.size).zip(&*tile.lpids).for_each(|(place, &lpid)| {
                let turns = (map.size - 1 - place) / tile.lpids.len() as u32;
                let last = lpid.wrapping_add((tile.growth as u32).wrapping_mul(turns));
                add(Some((lpid.min(last), lpid.max(last))));
            })
        }
        _ => segments(map).for_each(|segment| spans.add(segment.low(), segment.high())),
    }
    spans
}

/// Bounds of some lpids. The bits in which they differ are found many at a time;
/// the exact bounds only where those are far from them.
fn ends(lpids: &[u32]) -> Option<(u32, u32)> {
    let first = lpids.first()?;
    let differ = lpids.iter().fold(0, |differ, lpid| differ | (lpid ^ first));
    let mask = differ.checked_ilog2().map_or(0, |bit| (2u32 << bit).wrapping_sub(1));
    if mask as usize <= 4 * lpids.len() {
        return Some((first & !mask, first | mask));
    }
    lpids.iter().min().copied().zip(lpids.iter().max().copied())
}

/// The members as a bitmap; `spans` are theirs.
pub(super) fn bits(map: &RankMap, spans: &Spans) -> Bits {
    let mut bits = Bits::new(spans);
    let bitmap = map.as_compact().and_then(Compact::bitmap);
    if let Some((_, words)) = bitmap {
        let to = &mut bits.words;
        // Whole blocks of the bitmap may end past the last member's word.
        let count = to.len().min(words.len());
        to[..count].copy_from_slice(&words[..count]);
    } else if is_table(map) && map.pg().is_some() {
        bits.set_all(lpids(map).iter().copied());
    } else {
        segments(map).for_each(|segment| bits.set(segment));
    }
    bits
}

/// The lpids of a map of one process group in rank order.
pub(super) fn lpids(map: &RankMap) -> Cow<'_, [u32]> {
    match &map.form {
        Form::Lut(view) if view.step == 1 => {
            let start = view.start as usize;
            Cow::Borrowed(&view.table.entries[start..start + map.size as usize])
        }
        Form::Compact(compact) if compact.ranges().is_none() => {
            let mut lpids = vec![0; map.size as usize];
            compact.find_range(0..map.size, &mut lpids);
            Cow::Owned(lpids)
        }
        Form::Regular(Regular::Tile(tile)) => {
            let mut lpids = Vec::with_capacity(map.size as usize);
            let mut grown = 0u32;
            while lpids.len() < map.size as usize {
                let left = map.size as usize - lpids.len();
                lpids.extend(tile.lpids.iter().take(left).map(|lpid| lpid.wrapping_add(grown)));
                grown = grown.wrapping_add(tile.growth as u32);
            }
            Cow::Owned(lpids)
        }
        Form::Mlut(_) | Form::Lut(_) => {
            Cow::Owned(map.iter().map(|process| process.lpid).collect())
        }
        _ => {
            let mut lpids = Vec::with_capacity(map.size as usize);
            let mut pieces = map.iter();
            while let Some(Piece { first, step, len }) = pieces.next_piece() {
                let lpid = |i: u32| first.lpid.wrapping_add((step as u32).wrapping_mul(i));
                lpids.extend((0..len).map(lpid));
            }
            Cow::Owned(lpids)
        }
    }
}
