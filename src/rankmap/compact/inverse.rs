//! lpid → rank of lists, which do not have it in themselves.
//!
//! Made on the first question. A list that is a permutation of a range keeps a
//! pointer back on every eighth element of a cycle (Munro et al. 2003): the list
//! itself leads to the answer in at most 16 steps. Any other list keeps its ranks
//! sorted by lpid, packed: a bitmap of the lpids tells the place among them, or a
//! search where lpids repeat or lie far apart. Where each look at the list costs a
//! block to decode, the sorted lpids are kept too, by Elias-Fano.

use super::bitmap::Bitmap;
use super::elias_fano::EliasFano;
use super::packed::{Packed, width_of};

/// Steps from one pointer to the one before.
const EACH: u32 = 8;

#[derive(Clone, Debug)]
pub(super) enum Inverse {
    /// Elements with a pointer, and their pointers; `None` if all cycles are short.
    Cycles { first: u32, len: u32, marked: Option<Bitmap>, back: Packed },
    /// Ranks by lpid, and which lpids there are.
    Placed { members: Bitmap, order: Packed },
    /// Ranks by (lpid, rank).
    Sorted(Packed),
    /// The lpids, each once, and the smallest rank of each.
    Whole { lpids: EliasFano, ranks: Packed },
}

/// Bits of a bitmap for each rank, at most.
const BITS_MAX: u64 = 16;

impl Inverse {
    /// Of a list of `len` lpids. Working memory: 4 bytes a rank.
    #[cold]
    pub(super) fn new(len: u32, select: impl Fn(u32) -> u32) -> Inverse {
        match permuted(len, &select) {
            Some(first) => cycles(first, len, |x| select(x) - first),
            None => {
                if let Some(placed) = placed(len, &select) {
                    return placed;
                }
                let mut order: Vec<u32> = (0..len).collect();
                order.sort_unstable_by_key(|&rank| (select(rank), rank));
                let width = width_of(len.saturating_sub(1));
                Inverse::Sorted(Packed::from_iter(width, order))
            }
        }
    }

    /// Of a list whose lookups are slow; `None` if its range is too large for
    /// that. Working memory: 8 bytes a rank.
    #[cold]
    pub(super) fn whole(list: impl Iterator<Item = u32>) -> Option<Inverse> {
        let mut pairs: Vec<(u32, u32)> = list.zip(0..).collect();
        pairs.sort_unstable();
        pairs.dedup_by_key(|pair| pair.0);
        let (first, last) = (pairs.first()?.0, pairs.last()?.0);
        EliasFano::cost(pairs.len() as u64, first, last)?;
        let lpids = pairs.iter().map(|pair| pair.0);
        let lpids = EliasFano::build(pairs.len() as u32, first, last, lpids);
        let most = pairs.iter().map(|pair| pair.1).max()?;
        let ranks = Packed::from_iter(width_of(most), pairs.iter().map(|pair| pair.1));
        Some(Inverse::Whole { lpids, ranks })
    }

    /// The smallest rank of an lpid.
    pub(super) fn rank(&self, lpid: u32, select: impl Fn(u32) -> u32) -> Option<u32> {
        match self {
            Inverse::Cycles { first, len, marked, back } => {
                let target = lpid.checked_sub(*first).filter(|target| target < len)?;
                let mut at = target;
                let mut jumped = false;
                // The first mark at or after the target points back past it.
                loop {
                    let next = select(at) - first;
                    if next == target {
                        return Some(at);
                    }
                    let mark = marked.as_ref().filter(|_| !jumped).and_then(|m| m.rank(at));
                    at = mark.map_or(next, |mark| back.get(mark as usize));
                    jumped |= mark.is_some();
                }
            }
            Inverse::Whole { lpids, ranks } => {
                lpids.rank(lpid).map(|index| ranks.get(index as usize))
            }
            Inverse::Placed { members, order } => {
                members.rank(lpid).map(|place| order.get(place as usize))
            }
            Inverse::Sorted(order) => {
                let (mut low, mut high) = (0, order.len() as usize);
                while low < high {
                    let middle = low.midpoint(high);
                    if select(order.get(middle)) < lpid { low = middle + 1 } else { high = middle }
                }
                if low == order.len() as usize {
                    return None;
                }
                let rank = order.get(low);
                (select(rank) == lpid).then_some(rank)
            }
        }
    }

    /// Its own included: it lies in a box.
    pub(super) fn heap_bytes(&self) -> usize {
        let parts = match self {
            Inverse::Cycles { marked, back, .. } => {
                marked.as_ref().map_or(0, Bitmap::heap_bytes) + back.heap_bytes()
            }
            Inverse::Placed { members, order } => members.heap_bytes() + order.heap_bytes(),
            Inverse::Sorted(order) => order.heap_bytes(),
            Inverse::Whole { lpids, ranks } => lpids.heap_bytes() + ranks.heap_bytes(),
        };
        size_of::<Inverse>() + parts
    }
}

/// The smallest lpid of a list that is a permutation of a range.
fn permuted(len: u32, select: &impl Fn(u32) -> u32) -> Option<u32> {
    let first = (0..len).map(select).min()?;
    let mut seen = vec![0u64; (len as usize).div_ceil(64)];
    for rank in 0..len {
        let x = select(rank) - first;
        let word = seen.get_mut(x as usize / 64)?;
        if x >= len || *word >> (x % 64) & 1 == 1 {
            return None;
        }
        *word |= 1 << (x % 64);
    }
    Some(first)
}

/// The ranks by lpid, if lpids differ and lie close together.
fn placed(len: u32, select: &impl Fn(u32) -> u32) -> Option<Inverse> {
    let (first, last) =
        (0..len).map(select).fold((u32::MAX, 0), |(low, high), x| (low.min(x), high.max(x)));
    if u64::from(last.checked_sub(first)?) > u64::from(len) * BITS_MAX {
        return None;
    }
    let members = Bitmap::build(first, last, (0..len).map(select));
    if members.len() != len {
        return None;
    }
    let mut order = vec![0; len as usize];
    for rank in 0..len {
        order[members.rank(select(rank))? as usize] = rank;
    }
    let order = Packed::from_iter(width_of(len - 1), order);
    Some(Inverse::Placed { members, order })
}

fn cycles(first: u32, len: u32, next: impl Fn(u32) -> u32) -> Inverse {
    let mut seen = vec![false; len as usize];
    // Marked elements and their pointers.
    let mut marks: Vec<(u32, u32)> = Vec::new();
    for start in 0..len {
        if seen[start as usize] {
            continue;
        }
        let begin = marks.len();
        let (mut at, mut steps, mut last) = (start, 0u32, start);
        while !seen[at as usize] {
            seen[at as usize] = true;
            if steps % EACH == 0 && steps > 0 {
                marks.push((at, last));
                last = at;
            }
            at = next(at);
            steps += 1;
        }
        if marks.len() > begin {
            marks.push((start, last));
        }
    }
    marks.sort_unstable();
    let width = width_of(len.saturating_sub(1));
    let back = Packed::from_iter(width, marks.iter().map(|mark| mark.1));
    let ends = marks.first().zip(marks.last());
    let marked = ends.map(|(a, b)| Bitmap::build(a.0, b.0, marks.iter().map(|mark| mark.0)));
    Inverse::Cycles { first, len, marked, back }
}
