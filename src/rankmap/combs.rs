//! Maps as combs: affine runs of one length that repeat at a pitch. What a formula of two
//! digits has in a stretch of ranks is three of them, however many ranks there are.

use core::ops::Range;

use super::affine::{Affine, Piece};
use super::detect::Detector;
use super::error::MapError;
use super::map::{Form, RankMap};
use super::mixed::Mixed;
use super::process::{LPID_MAX, Process};
use super::regular::Regular;

/// What encoded ranks are.
const COMBS: u32 = 0;
const LIST: u32 = 1;
/// A comb takes as many bytes as so many lpids.
const COMB_LPIDS: usize = 5;
/// Combs that are written in any case.
const COMBS_MIN: usize = 3;

/// `count` runs from rank `start` on, each `pitch` lpids from the one before.
#[derive(Clone, Copy, Debug)]
struct Comb {
    start: u32,
    tooth: Piece,
    pitch: i32,
    count: u32,
}

impl RankMap {
    /// Pushes a range of this map's ranks, in constant time for formulas of two digits.
    pub(crate) fn push_range(&self, ranks: Range<u32>, detector: &mut Detector) {
        self.for_each_comb(ranks, &mut |comb| {
            detector.push_comb(comb.tooth, comb.pitch, comb.count);
        });
    }

    /// A detector that these ranks were pushed into, for more behind them.
    pub(crate) fn begun(&self) -> Detector {
        let mut all = Detector::new();
        self.push_range(0..self.len(), &mut all);
        all
    }

    /// These ranks and more behind them.
    ///
    /// # Errors
    /// More than a map can have.
    pub(crate) fn and(&self, more: &RankMap) -> Result<RankMap, MapError> {
        let mut all = self.begun();
        more.push_range(0..more.len(), &mut all);
        all.finish()
    }

    /// All ranks of an lpid, rising, of a map of one process group.
    pub(crate) fn ranks_of(&self, lpid: u32) -> RankMap {
        let mut ranks = Detector::new();
        self.for_each_comb(0..self.size, &mut |comb| comb.push_ranks_of(lpid, &mut ranks));
        // They are fewer than this map has.
        ranks.finish().unwrap_or_else(|_| RankMap::direct(0))
    }

    /// Returns true if all lpids of a map of one process group are below `size`.
    pub(super) fn is_below(&self, size: u32) -> bool {
        let mut below = true;
        self.for_each_comb(0..self.size, &mut |Comb { tooth, pitch, count, .. }| {
            let Piece { first, step, len } = tooth;
            let run = |at: u32| first.lpid.wrapping_add((pitch as u32).wrapping_mul(at));
            let ends = [run(0), run(count - 1)]
                .map(|first| [first, (Affine { first, step }).get(len - 1)]);
            below &= ends.as_flattened().iter().all(|&lpid| lpid < size);
        });
        below
    }

    /// Whether all affine runs of a map of one process group, in rank order, are so: first
    /// lpid, step and length.
    pub(crate) fn all_runs(&self, mut so: impl FnMut(u32, i32, u32) -> bool) -> bool {
        let all = Affine { first: 0, step: 1 };
        self.for_each_piece(all, self.size, &mut |run| so(run.first.lpid, run.step, run.len))
    }

    /// A range of the ranks of a map of one process group as bytes: combs, or a list where
    /// that is shorter. For [`Detector::push_encoded`].
    pub(crate) fn encode_range(&self, ranks: Range<u32>) -> Vec<u8> {
        let (size, most) =
            (ranks.end - ranks.start, (ranks.end - ranks.start) as usize / COMB_LPIDS);
        let mut bytes = Vec::new();
        let mut combs = 0;
        let add = |bytes: &mut Vec<u8>, word: u32| bytes.extend(word.to_le_bytes());
        add(&mut bytes, COMBS);
        self.for_each_comb(ranks.clone(), &mut |comb| {
            combs += 1;
            if combs <= most.max(COMBS_MIN) {
                let Comb { tooth: Piece { first, step, len }, pitch, count, .. } = comb;
                let words = [first.lpid, step as u32, len, pitch as u32, count];
                words.iter().for_each(|&word| add(&mut bytes, word));
            }
        });
        if combs > most.max(COMBS_MIN) {
            bytes.clear();
            bytes.reserve_exact((size as usize + 1) * size_of::<u32>());
            add(&mut bytes, LIST);
            ranks.for_each(|rank| add(&mut bytes, self.at(rank).lpid));
        }
        bytes
    }

    fn for_each_comb(&self, ranks: Range<u32>, f: &mut impl FnMut(Comb)) {
        let two = match &self.form {
            Form::Regular(Regular::Block(block)) => Some(block.widen()),
            Form::Regular(Regular::Mixed(mixed)) if mixed.digits == 2 => Some(**mixed),
            _ => None,
        };
        if let Some(mixed) = two {
            return self.for_each_block(&mixed, ranks, f);
        }
        let mut start = ranks.start;
        let all = Affine { first: ranks.start, step: 1 };
        self.for_each_piece(all, ranks.end - ranks.start, &mut |tooth| {
            f(Comb { start, tooth, pitch: 0, count: 1 });
            start += tooth.len;
            true
        });
    }

    /// The end of a block, whole blocks, and the beginning of one.
    fn for_each_block(&self, mixed: &Mixed, ranks: Range<u32>, f: &mut impl FnMut(Comb)) {
        let (block, step) = (mixed.radix[0], mixed.step[0]);
        let pitch = step.wrapping_mul(block as i32 - 1).wrapping_add(mixed.step[1]);
        let inside = ((u64::from(ranks.start) + u64::from(mixed.phase)) % u64::from(block)) as u32;
        let left = ranks.end - ranks.start;
        let head = if inside == 0 { 0 } else { left.min(block - inside) };
        let mut start = ranks.start;
        for (len, count) in [(head, 1), (block, (left - head) / block), ((left - head) % block, 1)]
        {
            if len > 0 && count > 0 {
                f(Comb { start, tooth: Piece { first: self.at(start), step, len }, pitch, count });
                start += len * count;
            }
        }
    }
}

impl Detector {
    /// Pushes so many ranks that [`RankMap::encode_range`] wrote, into a detector of process
    /// group 0.
    ///
    /// # Errors
    /// What is wrong with bytes that it did not write.
    pub(crate) fn push_encoded(&mut self, ranks: u32, bytes: &[u8]) -> Result<(), &'static str> {
        let (words, rest) = bytes.as_chunks::<4>();
        let mut words = words.iter().copied().map(u32::from_le_bytes);
        let kind = words.next().filter(|_| rest.is_empty()).ok_or("they are no words")?;
        let mut left = u64::from(ranks);
        if kind == LIST {
            if words.len() as u64 != left {
                return Err("a list of another length");
            }
            self.extend_lpids(words);
            return Ok(());
        }
        if kind != COMBS {
            return Err("neither combs nor a list");
        }
        while words.len() > 0 {
            let mut word = || words.next().ok_or("part of a comb");
            let (lpid, step, len) = (word()?, word()? as i32, word()?);
            let (pitch, count) = (word()? as i32, word()?);
            let size = u64::from(len) * u64::from(count);
            let ends = [(0, 0), (1, 0), (0, 1), (1, 1)].map(|(inside, run)| {
                let along = |step: i32, len: u32| i128::from(step) * i128::from(len.max(1) - 1);
                i128::from(lpid) + inside * along(step, len) + run * along(pitch, count)
            });
            if size == 0 || ends.iter().any(|end| !(0..=i128::from(LPID_MAX)).contains(end)) {
                return Err("a comb that leaves the lpids");
            }
            left = left.checked_sub(size).ok_or("more ranks than there are")?;
            let first = Process { pg: 0, lpid };
            self.push_comb(Piece { first, step, len }, pitch, count);
        }
        if left == 0 { Ok(()) } else { Err("fewer ranks than there are") }
    }
}

impl Comb {
    fn push_ranks_of(&self, lpid: u32, ranks: &mut Detector) {
        let Comb { start, tooth: Piece { first, step, len }, pitch, count } = *self;
        let tooth = Affine { first: first.lpid, step };
        let mut push = |first, step, len, pitch, count| {
            let first = Process { pg: 0, lpid: first };
            ranks.push_comb(Piece { first, step, len }, pitch, count);
        };
        match (pitch, step) {
            (0, 0) if first.lpid == lpid => push(start, 1, len * count, 0, 1),
            (0, 0) => {}
            // Once in each run.
            (0, _) => {
                if let Some(at) = tooth.rank_of(len, lpid) {
                    push(start + at, len as i32, count, 0, 1);
                }
            }
            // The whole of one run.
            (_, 0) => {
                let runs = Affine { first: first.lpid, step: pitch };
                if let Some(at) = runs.rank_of(count, lpid) {
                    push(start + at * len, 1, len, 0, 1);
                }
            }
            _ => {
                for at in 0..count {
                    let first = first.lpid.wrapping_add((pitch as u32).wrapping_mul(at));
                    if let Some(inside) = (Affine { first, step }).rank_of(len, lpid) {
                        push(start + at * len + inside, 1, 1, 0, 1);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ranges_and_ranks_are_those_of_a_list(
            step in -2i32..3, block in 1u32..9, pitch in -4i32..5, size in 1u32..120,
            odd in prop::collection::vec((0u32..120, 0u32..40), 0..2), cut in (0u32..120, 0u32..120),
        ) {
            let at = |r: u32| 600 + step * (r % block) as i32 + pitch * (r / block) as i32;
            let mut list: Vec<u32> = (0..size).map(|r| at(r) as u32).collect();
            for (place, lpid) in odd {
                list[(place % size) as usize] = lpid + 580;
            }
            let map = RankMap::from_lpids(0, list.iter().copied()).expect("lpids");
            for lpid in 570..650 {
                let expected = (0..size).filter(|&rank| list[rank as usize] == lpid);
                let found = map.ranks_of(lpid);
                prop_assert!(found.iter().map(|it| it.lpid).eq(expected.clone()), "{lpid} in {map:?}");
                prop_assert_eq!(found, RankMap::from_lpids(0, expected).expect("ranks"));
            }
            let (a, b) = (cut.0 % (size + 1), cut.1 % (size + 1));
            let (a, b) = (a.min(b), a.max(b));
            let mut detector = Detector::new();
            map.push_range(a..b, &mut detector);
            map.push_range(0..a, &mut detector);
            let expected = list[a as usize..b as usize].iter().chain(&list[..a as usize]);
            let expected = RankMap::from_lpids(0, expected.copied()).expect("lpids");
            prop_assert_eq!(detector.finish().expect("lpids"), expected);
            let bytes = map.encode_range(a..b);
            prop_assert!(bytes.len() <= 4 + 4 * (b - a).max(15) as usize);
            let mut detector = Detector::new();
            prop_assert_eq!(detector.push_encoded(b - a, &bytes), Ok(()));
            let expected = list[a as usize..b as usize].iter().copied();
            let expected = RankMap::from_lpids(0, expected).expect("lpids");
            prop_assert_eq!(detector.finish().expect("lpids"), expected);
            for (ranks, bytes) in [
                (b - a + 1, &bytes[..]),
                (b - a, &bytes[..bytes.len() - 1]),
                (b - a, &[&bytes[..], &[0; 4]].concat()),
            ] {
                prop_assert!(Detector::new().push_encoded(ranks, bytes).is_err());
            }
        }
    }
}
