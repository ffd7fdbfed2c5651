//! Ranks of one group to ranks of another, many at once.
//!
//! A few ranks are looked up one by one. Where there are many, the processes
//! of both groups are written down once: the lpids of the first group by rank
//! and the ranks of the second by lpid, and each rank is then two loads.
//! Strides need neither: a multiply, and a multiply for the division.

use super::bits::{Spans, Windows};
use super::members::{lpids, segments, spans};
use super::progression::position;
use super::{Group, GroupError};
use crate::rankmap::Process;
use crate::rankmap::affine::Affine;
use crate::rankmap::map::{Form, RankMap};
use crate::rankmap::regular::Regular;

/// Tables pay from one rank in so many members on.
const TABLE_FROM: u32 = 64;
/// Places of a table for each member and rank to translate, at most.
const SPARSE: usize = 8;

/// Ranks of a group by process.
enum Ranks<'a> {
    /// A stride.
    Strided(Strided),
    /// By lpid from the lowest on.
    Table { low: u32, ranks: Vec<u32> },
    /// Whatever the map has, and the process group asked for.
    Search(&'a RankMap, u32),
}

/// The inverse of an affine map of more than one rank.
struct Strided {
    first: u32,
    /// Sign of the step.
    back: bool,
    /// `⌈2^64 / |step|⌉`, whose high product is the quotient.
    reciprocal: u64,
    pace: u32,
    size: u32,
}

impl Strided {
    fn new(map: Affine, size: u32) -> Strided {
        let pace = map.step.unsigned_abs();
        let reciprocal = (u64::MAX / u64::from(pace)).wrapping_add(1);
        Strided { first: map.first, back: map.step < 0, reciprocal, pace, size }
    }

    #[inline(always)]
    fn rank(&self, lpid: u32) -> u32 {
        // A negative distance wraps, and is past the size or not a multiple.
        let ahead = lpid.wrapping_sub(self.first);
        let distance = if self.back { ahead.wrapping_neg() } else { ahead };
        let quotient = ((u128::from(distance) * u128::from(self.reciprocal)) >> 64) as u32;
        // ⌈2^64 / 1⌉ does not fit.
        let rank = if self.pace == 1 { distance } else { quotient };
        // UNDEFINED is all ones. Arithmetic, as random ranks mispredict a branch:
        // `wrong` has its top bit or another set unless the rank is a member.
        let past = (u64::from(self.size - 1).wrapping_sub(u64::from(rank)) >> 32) as u32;
        let wrong = past | (rank.wrapping_mul(self.pace) ^ distance);
        rank | (((wrong | wrong.wrapping_neg()) as i32) >> 31) as u32
    }
}

impl Ranks<'_> {
    /// Of the members of process group `pg`, all of them unless the map is of
    /// several groups.
    fn of(map: &RankMap, pg: u32, asked: usize) -> Ranks<'_> {
        if let Form::Regular(Regular::Affine(affine)) = map.form {
            return Ranks::Strided(Strided::new(affine, map.size));
        }
        let spans = match &map.form {
            _ if !pays(map, asked) => None,
            Form::Several(_) | Form::Mlut(_) => {
                let mut spans = Spans::default();
                let lpids = map.iter().filter(|process| process.pg == pg);
                let ends = lpids.fold(None, |ends, process| {
                    let (low, high) = ends.unwrap_or((process.lpid, process.lpid));
                    Some((low.min(process.lpid), high.max(process.lpid)))
                });
                let at = |lpid| position(Process { pg, lpid });
                ends.inspect(|&(low, high)| spans.add(at(low), at(high))).map(|_| spans)
            }
            _ => Some(spans(map)),
        };
        match spans.filter(|spans| close(spans, map, asked)) {
            Some(spans) => Ranks::Table { low: spans.low(), ranks: table(map, pg, &spans) },
            None => Ranks::Search(map, pg),
        }
    }
}

/// Returns true if a table of what a map spans is not too large.
fn close(spans: &Spans, map: &RankMap, asked: usize) -> bool {
    spans.words() * 64 <= (map.size as usize + asked) * SPARSE
}

fn pays(map: &RankMap, asked: usize) -> bool {
    asked >= (map.size / TABLE_FROM) as usize + 8
}

/// Ranks by lpid of process group `pg`.
fn table(map: &RankMap, pg: u32, spans: &Spans) -> Vec<u32> {
    let low = spans.low();
    let mut ranks = vec![Group::UNDEFINED; spans.words() * 64];
    if map.pg().is_none() {
        for (rank, process) in (0..).zip(map.iter()) {
            if process.pg == pg {
                ranks[(process.lpid - low) as usize] = rank;
            }
        }
        return ranks;
    }
    if super::members::is_table(map) {
        for (rank, &lpid) in (0..).zip(&*lpids(map)) {
            ranks[(lpid - low) as usize] = rank;
        }
        return ranks;
    }
    let mut rank = 0;
    for segment in segments(map) {
        let first = (segment.first - position(Process { pg: map.pg, lpid: low })) as usize;
        match segment.step {
            1 => {
                let places = &mut ranks[first..first + segment.len as usize];
                places.iter_mut().zip(rank..).for_each(|(place, rank)| *place = rank);
            }
            step => (0..segment.len as usize).for_each(|i| {
                ranks[first.wrapping_add_signed(step as isize * i as isize)] = rank + i as u32;
            }),
        }
        rank += segment.len;
    }
    ranks
}

/// Ranks by the place of a process.
fn table_of_groups(map: &RankMap, spans: &Spans) -> Vec<u32> {
    let windows = Windows::new(spans);
    let mut ranks = vec![Group::UNDEFINED; spans.words() * 64];
    for (rank, process) in (0..).zip(map.iter()) {
        if let Some(place) = windows.place(position(process)) {
            ranks[place] = rank;
        }
    }
    ranks
}

/// See [`Group::translate_ranks`]; `ranks` and `out` are as long.
pub(super) fn translate(
    from: &RankMap,
    ranks: &[u32],
    to: &RankMap,
    out: &mut [u32],
) -> Result<(), GroupError> {
    let size = from.size;
    let bad = |&rank: &u32| rank >= size && rank != Group::PROC_NULL;
    if let Some(index) = ranks.iter().position(bad) {
        return Err(GroupError::Rank { index, rank: ranks[index], size });
    }
    let apart = from.pg().zip(to.pg()).is_some_and(|(one, other)| one != other);
    if size == 0 || to.is_empty() || apart {
        each(ranks, out, |_| Group::UNDEFINED);
        return Ok(());
    }
    let Some(pg) = from.pg().or(to.pg()) else {
        several(from, ranks, to, out);
        return Ok(());
    };
    let inverse = Ranks::of(to, pg, ranks.len());
    match &from.form {
        Form::Regular(Regular::Affine(affine)) => {
            through(ranks, out, |rank| affine.get(rank), &inverse)
        }
        // No process has the last lpid there is.
        Form::Several(_) | Form::Mlut(_) => through(
            ranks,
            out,
            |rank| {
                let process = from.at(rank);
                if process.pg == pg { process.lpid } else { u32::MAX }
            },
            &inverse,
        ),
        Form::Lut(view) if view.step != 1 => {
            through(ranks, out, |rank| view.get(rank), &inverse);
        }
        form if matches!(form, Form::Lut(_)) || pays(from, ranks.len()) => {
            let lpids = lpids(from);
            through(ranks, out, |rank| lpids[rank as usize], &inverse);
        }
        _ => through(ranks, out, |rank| from.at(rank).lpid, &inverse),
    }
    Ok(())
}

/// Both groups are of several process groups.
fn several(from: &RankMap, ranks: &[u32], to: &RankMap, out: &mut [u32]) {
    let spans = pays(to, ranks.len()).then(|| spans(to));
    match spans.filter(|spans| close(spans, to, ranks.len())) {
        Some(spans) => {
            let (windows, table) = (Windows::new(&spans), table_of_groups(to, &spans));
            each(ranks, out, |rank| {
                let place = windows.place(position(from.at(rank)));
                place.map_or(Group::UNDEFINED, |place| table[place])
            });
        }
        None => each(ranks, out, |rank| to.rank_of(from.at(rank)).unwrap_or(Group::UNDEFINED)),
    }
}

fn through(ranks: &[u32], out: &mut [u32], lpid: impl Fn(u32) -> u32, inverse: &Ranks<'_>) {
    match inverse {
        Ranks::Strided(one) => each(ranks, out, |rank| one.rank(lpid(rank))),
        Ranks::Table { low, ranks: table } => each(ranks, out, |rank| {
            let place = lpid(rank).wrapping_sub(*low) as usize;
            table.get(place).copied().unwrap_or(Group::UNDEFINED)
        }),
        Ranks::Search(map, pg) => each(ranks, out, |rank| {
            let process = Process { pg: *pg, lpid: lpid(rank) };
            map.rank_of(process).unwrap_or(Group::UNDEFINED)
        }),
    }
}

#[inline(always)]
fn each(ranks: &[u32], out: &mut [u32], one: impl Fn(u32) -> u32) {
    for (&rank, out) in ranks.iter().zip(out) {
        *out = if rank == Group::PROC_NULL { Group::PROC_NULL } else { one(rank) };
    }
}
