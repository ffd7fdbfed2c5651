//! Decision diagrams with model counts: a set as a graph of digit decisions,
//! equal parts held once (Bryant 1986), with the members before each edge.
//!
//! A node of a level has one edge for each value of that digit, the most
//! significant digit first; an edge leads to a node of the next level, to
//! nothing, or to everything. Digits are bits (the thesis's diagrams) or the
//! radices of a Cartesian topology, in which faces, planes and their unions are
//! one node a level. The counts make SELECT and RANK one walk over the levels;
//! the thesis's walks paths.

use std::collections::HashMap;

use super::image::{Reader, Refused, Writer};
use super::packed::{Packed, width_of};

const NONE: u32 = 0;
const ALL: u32 = 1;
/// Edges to nodes begin here.
const NODE: u32 = 2;

/// lpids a diagram may span.
const SPAN_MAX: u64 = 1 << 31;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Level {
    radix: u32,
    /// lpids under one edge.
    span: u32,
    /// For each node and digit, where its edge leads.
    edges: Packed,
    /// For each node and digit, the members under smaller digits of the node.
    before: Packed,
}

/// A set of lpids, not empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Diagram {
    len: u32,
    root: u32,
    levels: Box<[Level]>,
}

/// The radices that hold lpids up to `last`, the top one stretched if need be;
/// `None` if they cannot.
fn stretched(radices: &[u32], last: u32) -> Option<Vec<u32>> {
    let (&top, rest) = radices.split_first()?;
    let below = rest.iter().try_fold(1u64, |span, &radix| {
        span.checked_mul(u64::from(radix)).filter(|&span| radix > 1 && span < SPAN_MAX)
    })?;
    let top = u64::from(top).max((u64::from(last) + 1).div_ceil(below)).max(2);
    let mut out = vec![u32::try_from(top).ok()?];
    out.extend_from_slice(rest);
    (top * below <= SPAN_MAX && out.len() <= 31).then_some(out)
}

impl Diagram {
    /// `members` rise strictly up to `last`; `radices` from the most significant
    /// digit on. `None` if the radices do not fit or the diagram would have more
    /// than `edges_max` edges; past a 32nd of the lpids also if it grows as if it
    /// would. Working memory: the edges twice, at 4 bytes each.
    pub(super) fn build(
        radices: &[u32],
        last: u32,
        edges_max: usize,
        members: impl Iterator<Item = u32>,
    ) -> Option<Diagram> {
        let mut builder = Builder::new(&stretched(radices, last)?, edges_max);
        let (mut start, mut next) = (0u32, 0u32);
        let mut look = last / 32;
        for member in members {
            if member != next {
                if member > look {
                    // Edges grow slower than lpids where there is any structure.
                    let used = (edges_max - builder.edges_left) as u64;
                    let share = edges_max as u64 * u64::from(member) / u64::from(last);
                    if used > share + share / 2 + 1024 {
                        return None;
                    }
                    look = member.saturating_add(last / 32);
                }
                builder.feed(ALL, next - start)?;
                builder.feed(NONE, member - next)?;
                start = member;
            }
            next = member + 1;
        }
        builder.feed(ALL, next - start)?;
        builder.finish(next)
    }

    pub(super) fn len(&self) -> u32 {
        self.len
    }

    /// The member of a rank and how many after it follow in a row at least.
    #[inline]
    fn locate(&self, rank: u32) -> (u32, u32) {
        let (mut rank, mut lpid, mut node) = (rank, 0, self.root);
        let mut left = self.len - rank;
        for level in &self.levels {
            if node == ALL {
                break;
            }
            let row = (node - NODE) as usize * level.radix as usize;
            // The last digit with no more members before it has the member.
            let (mut low, mut high) = (0, level.radix as usize - 1);
            while low < high {
                let middle = high - (high - low) / 2;
                if level.before.get(row + middle) <= rank {
                    low = middle
                } else {
                    high = middle - 1
                }
            }
            rank -= level.before.get(row + low);
            lpid += low as u32 * level.span;
            node = level.edges.get(row + low);
            if node == ALL {
                left = level.span - rank;
                for digit in low + 1..level.radix as usize {
                    if level.edges.get(row + digit) != ALL {
                        break;
                    }
                    left += level.span;
                }
            }
        }
        (lpid + rank, left)
    }

    pub(super) fn select(&self, rank: u32) -> u32 {
        let (mut rank, mut lpid, mut node) = (rank, 0, self.root);
        for level in &self.levels {
            if node == ALL {
                break;
            }
            let row = (node - NODE) as usize * level.radix as usize;
            let (mut low, mut size) = (0, level.radix as usize);
            while size > 1 {
                let half = size / 2;
                if level.before.get(row + low + half) <= rank {
                    low += half;
                }
                size -= half;
            }
            rank -= level.before.get(row + low);
            lpid += low as u32 * level.span;
            node = level.edges.get(row + low);
        }
        lpid + rank
    }

    pub(super) fn rank(&self, lpid: u32) -> Option<u32> {
        let (mut lpid, mut rank, mut node) = (lpid, 0, self.root);
        for level in &self.levels {
            if node <= ALL {
                break;
            }
            let digit = lpid / level.span;
            if digit >= level.radix {
                return None;
            }
            lpid -= digit * level.span;
            let edge = (node - NODE) as usize * level.radix as usize + digit as usize;
            rank += level.before.get(edge);
            node = level.edges.get(edge);
        }
        let rank = rank + lpid;
        (node == ALL && rank < self.len).then_some(rank)
    }

    pub(super) fn fill(&self, rank: u32, out: &mut [u32]) {
        let mut out = out;
        let mut rank = rank;
        while !out.is_empty() {
            let (lpid, row) = self.locate(rank);
            let (head, rest) = out.split_at_mut((row as usize).min(out.len()));
            head.iter_mut().zip(lpid..).for_each(|(slot, lpid)| *slot = lpid);
            rank += head.len() as u32;
            out = rest;
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let level = |l: &Level| size_of::<Level>() + l.edges.heap_bytes() + l.before.heap_bytes();
        self.levels.iter().map(level).sum()
    }

    pub(super) fn write(&self, out: &mut Writer) {
        out.u32(self.root);
        out.u32(self.levels.len() as u32);
        for level in &self.levels {
            out.u32(level.radix);
            level.edges.write(out);
        }
    }

    /// Counts are made anew.
    pub(super) fn read(from: &mut Reader<'_>) -> Result<Diagram, Refused> {
        let root = from.u32()?;
        let count = from.u32()?;
        let mut parts = Vec::new();
        let mut span = 1u64;
        for _ in 0..count.min(32) {
            let (radix, edges) = (from.u32()?, Packed::read(from)?);
            span = span.saturating_mul(u64::from(radix));
            if radix < 2 || edges.len() % radix != 0 {
                return Err(Refused::Content("a diagram's level with broken nodes"));
            }
            let list: Vec<u32> = (0..edges.len()).map(|at| edges.get(at as usize)).collect();
            parts.push((radix, list));
        }
        if count == 0 || count > 31 || span > SPAN_MAX {
            return Err(Refused::Content("a diagram with too many lpids"));
        }
        for (at, (_, list)) in parts.iter().enumerate() {
            let below = parts.get(at + 1).map_or(0, |(radix, list)| list.len() as u32 / radix);
            if list.iter().any(|&edge| edge >= NODE + below) {
                return Err(Refused::Content("an edge to a node there is not"));
            }
        }
        let nodes = parts[0].1.len() as u32 / parts[0].0;
        if root == NONE || root >= NODE + nodes {
            return Err(Refused::Content("a diagram without a root"));
        }
        match packed(parts, root) {
            Some(diagram) if diagram.len > 0 => Ok(diagram),
            _ => Err(Refused::Content("a diagram without members")),
        }
    }
}

/// The diagram of these levels, with counts. `None` if it has too many members.
fn packed(parts: Vec<(u32, Vec<u32>)>, root: u32) -> Option<Diagram> {
    let mut levels = Vec::with_capacity(parts.len());
    let mut span = 1u64;
    // Members under each node of the level below.
    let mut below: Vec<u32> = Vec::new();
    for (radix, edges) in parts.into_iter().rev() {
        let mut before = Vec::with_capacity(edges.len());
        let mut sums = Vec::with_capacity(edges.len() / radix as usize);
        for node in edges.chunks_exact(radix as usize) {
            let mut sum = 0u64;
            for &edge in node {
                before.push(u32::try_from(sum).ok()?);
                sum += match edge {
                    NONE => 0,
                    ALL => span,
                    node => u64::from(*below.get((node - NODE) as usize)?),
                };
            }
            sums.push(u32::try_from(sum).ok()?);
        }
        let pack = |list: &[u32]| {
            let most = list.iter().copied().max().unwrap_or(0);
            Packed::from_iter(width_of(most), list.iter().copied())
        };
        levels.push(Level { radix, span: span as u32, edges: pack(&edges), before: pack(&before) });
        span *= u64::from(radix);
        below = sums;
    }
    levels.reverse();
    let len = match root {
        NONE => 0,
        ALL => u32::try_from(span).ok()?,
        node => *below.get((node - NODE) as usize)?,
    };
    Some(Diagram { len, root, levels: levels.into_boxed_slice() })
}

/// One open node a level; what is closed is shared.
#[derive(Debug)]
struct Builder {
    levels: Vec<Open>,
    edges_left: usize,
}

#[derive(Debug)]
struct Open {
    radix: u32,
    span: u32,
    /// Edges of the open node so far.
    open: Vec<u32>,
    /// All nodes, and where each is.
    edges: Vec<u32>,
    known: HashMap<Box<[u32]>, u32>,
}

impl Builder {
    fn new(radices: &[u32], edges_max: usize) -> Builder {
        let mut span = 1u64;
        let mut levels: Vec<Open> = radices
            .iter()
            .rev()
            .map(|&radix| {
                let level = Open {
                    radix,
                    span: span as u32,
                    open: Vec::new(),
                    edges: Vec::new(),
                    known: HashMap::new(),
                };
                span *= u64::from(radix);
                level
            })
            .collect();
        levels.reverse();
        Builder { levels, edges_left: edges_max }
    }

    /// The next `len` lpids are all members or none is.
    fn feed(&mut self, kind: u32, mut len: u32) -> Option<()> {
        while len > 0 {
            // The widest edge that begins here and is not too long.
            let mut at = self.levels.len() - 1;
            while at > 0 && self.levels[at].open.is_empty() && len >= self.levels[at - 1].span {
                at -= 1;
            }
            let level = &mut self.levels[at];
            let space = level.radix - level.open.len() as u32;
            let take = space.min(len / level.span);
            level.open.extend(core::iter::repeat_n(kind, take as usize));
            len -= take * level.span;
            if take == space && at > 0 {
                self.close(at)?;
            }
        }
        Some(())
    }

    /// Closes full nodes from a level upwards; the top one stays open.
    fn close(&mut self, mut at: usize) -> Option<()> {
        while at > 0 && self.levels[at].open.len() == self.levels[at].radix as usize {
            let edge = self.share(at)?;
            at -= 1;
            self.levels[at].open.push(edge);
        }
        Some(())
    }

    /// Where an edge to the full node of a level leads.
    fn share(&mut self, at: usize) -> Option<u32> {
        let level = &mut self.levels[at];
        let first = level.open[0];
        let edge = if first <= ALL && level.open.iter().all(|&edge| edge == first) {
            first
        } else if let Some(&node) = level.known.get(&*level.open) {
            node
        } else {
            let node = NODE + (level.edges.len() / level.radix as usize) as u32;
            self.edges_left = self.edges_left.checked_sub(level.open.len())?;
            level.edges.extend_from_slice(&level.open);
            level.known.insert(level.open.as_slice().into(), node);
            node
        };
        level.open.clear();
        Some(edge)
    }

    /// `fed` lpids were fed; the rest are no members.
    fn finish(mut self, fed: u32) -> Option<Diagram> {
        let top = &self.levels[0];
        let total = u64::from(top.radix) * u64::from(top.span);
        self.feed(NONE, (total - u64::from(fed)) as u32)?;
        let root = self.share(0)?;
        packed(self.levels.into_iter().map(|level| (level.radix, level.edges)).collect(), root)
    }
}
