//! A stretch of a layout's packed stream as a layout of its own.

use super::basic::Basic;
use super::error::LayoutError;
use super::form::{self, Form, Kind};
use super::kernels;
use super::layout::Layout;
use super::table::Run;
use super::types::Types;
use std::ops::Range;
use std::sync::Arc;

type Result<T> = std::result::Result<T, LayoutError>;
/// Forms one after the other in the stream, with the offset of each.
type Parts = Vec<(i64, Arc<Form>)>;

impl Layout {
    /// The bytes `range` of the packed stream, or those of them that there are, as a
    /// layout of [`Basic::Byte`] around the same origin; its bounds are its true ones.
    ///
    /// Loops of this one are loops of the part, and what is before the range takes no
    /// time: for who describes a long layout piece by piece.
    ///
    /// ```
    /// use rankway::datatype::{Basic, Layout};
    ///
    /// let pairs = Layout::vector(100, 2, 5, &Layout::basic(Basic::U8))?;
    /// let part = pairs.part(3..7)?;
    /// assert_eq!(part.blocks_from(0).collect::<Vec<_>>(), [(6, 1), (10, 2), (15, 1)]);
    /// # Ok::<(), rankway::datatype::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// None that a layout which was made can have.
    pub fn part(&self, range: Range<u64>) -> Result<Layout> {
        self.part_of_each(range, 1, 0)
    }

    /// [`Layout::part`] of so many ranges one after the other, each `step` bytes behind
    /// the one before: of stretches of columns.
    ///
    /// # Errors
    /// As [`Layout::part`]; [`LayoutError::Overflow`] for ranges that have more than 2^61
    /// bytes together.
    pub fn part_of_each(&self, range: Range<u64>, count: u64, step: u64) -> Result<Layout> {
        let mut parts = Vec::new();
        if let Some((offset, form)) = &self.placed {
            let apart = apart(form, &range, count, step);
            for i in 0..if apart.is_some() { 1 } else { count } {
                let before = i.saturating_mul(step);
                let start = range.start.saturating_add(before);
                let range = start..range.end.saturating_add(before).min(form.size);
                if range.is_empty() {
                    break;
                }
                cut(form, *offset, range, &mut parts)?;
            }
            if let Some(stride) = apart {
                let one = if parts.len() == 1 { parts.pop() } else { form::kept(parts)? };
                parts = form::fold(count, stride, &one)?.into_iter().collect();
            }
        }
        let placed = match &parts[..] {
            [] | [_] => parts.pop(),
            [(first, _), ..] => match form::equal_blocks(&parts)? {
                Some(form) => Some((*first, form)),
                None => form::kept(parts)?,
            },
        };
        let types = match &placed {
            Some((_, form)) => Types::Same(Basic::Byte, form.size),
            None => Types::None,
        };
        let mut part = Layout { placed, lb: 0, ub: 0, alignment: 1, types };
        (part.lb, part.ub) = part.true_bounds().unwrap_or((0, 0));
        Ok(part)
    }

    /// The columns of a layout that takes those of a matrix one after the other, if
    /// they share cache lines: what was fetched for one is better used for all.
    #[must_use]
    pub fn columns(&self) -> Option<Columns> {
        let (_, form) = self.placed.as_ref()?;
        let Kind::Loop { count, stride, body } = &form.kind else { return None };
        let Kind::Loop { stride: row, body: block, .. } = &body.kind else { return None };
        let side_by_side = LINE / stride.unsigned_abs().max(1);
        let apart = matches!(block.kind, Kind::Run) && row.unsigned_abs() >= LINE;
        (apart && side_by_side > 1).then_some(Columns {
            side_by_side,
            count: *count,
            bytes: body.size,
            block: block.size,
        })
    }
}

/// Bytes of a cache line.
const LINE: u64 = kernels::LINE as u64;

/// Columns of equal blocks, several to a cache line, one after the other in the packed
/// stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Columns {
    /// How many share a line.
    pub side_by_side: u64,
    /// How many there are.
    pub count: u64,
    /// Bytes of one.
    pub bytes: u64,
    /// Bytes of a block.
    pub block: u64,
}

/// How far apart so many ranges of a form lie in memory, where each is as the first:
/// whole rounds of a loop behind it, or bytes of one run.
fn apart(form: &Form, range: &Range<u64>, count: u64, step: u64) -> Option<i64> {
    let end = step.checked_mul(count.checked_sub(1)?)?.checked_add(range.end)?;
    let (round, stride) = match &form.kind {
        Kind::Run => (1, 1),
        Kind::Loop { stride, body, .. } => (body.size, *stride),
        _ => return None,
    };
    let regular = !range.is_empty() && end <= form.size && step.is_multiple_of(round);
    i64::try_from(step / round).ok().filter(|_| regular)?.checked_mul(stride)
}

/// Appends the forms of the bytes `range` of a form at `at`, in order; it has them.
fn cut(form: &Arc<Form>, at: i64, range: Range<u64>, parts: &mut Parts) -> Result<()> {
    if range == (0..form.size) {
        parts.push((at, form.clone()));
        return Ok(());
    }
    match &form.kind {
        Kind::Run => parts.push((at + range.start as i64, Form::run(range.end - range.start)?)),
        Kind::Loop { stride, body, .. } => {
            let place = |i: u64| at + i as i64 * stride;
            let whole = |rounds: Range<u64>, parts: &mut Parts| {
                let body = Some((place(rounds.start), body.clone()));
                parts.extend(form::fold(rounds.end - rounds.start, *stride, &body)?);
                Ok(())
            };
            rounds(body, &place, range, parts, whole)?;
        }
        Kind::Blocks { at: offsets, body } => {
            let place = |i: u64| at + offsets.get(i as usize);
            let whole = |rounds: Range<u64>, parts: &mut Parts| {
                let first = place(rounds.start);
                let list: Vec<i64> = rounds.map(|i| place(i) - first).collect();
                parts.push(match list.len() {
                    1 => (first, body.clone()),
                    _ => (first, form::blocks(&list, body.clone())?),
                });
                Ok(())
            };
            rounds(body, &place, range, parts, whole)?;
        }
        Kind::Runs(runs) => {
            let (first, within) = runs.find(range.start);
            let mut left = range.end - range.start;
            let mut list: Vec<Run> = Vec::new();
            let (mut i, mut skip) = (first, within);
            while left > 0 {
                let (offset, len) = runs.get(i);
                let taken = (len - skip).min(left);
                list.push((at + offset + skip as i64, taken));
                (i, skip, left) = (i + 1, 0, left - taken);
            }
            parts.push(match list[..] {
                [(at, len)] => (at, Form::run(len)?),
                _ => (list[0].0, form::table(&list)?),
            });
        }
        Kind::Parts(inner) => {
            let first = inner.partition_point(|part| part.start <= range.start) - 1;
            for part in inner[first..].iter().take_while(|part| part.start < range.end) {
                let start = range.start.saturating_sub(part.start);
                let end = (range.end - part.start).min(part.form.size);
                cut(&part.form, at + part.offset, start..end, parts)?;
            }
        }
    }
    Ok(())
}

/// Bytes `range` of so many bodies: what is left of the first, whole ones by `whole`,
/// the beginning of the last.
fn rounds(
    body: &Arc<Form>,
    place: &dyn Fn(u64) -> i64,
    range: Range<u64>,
    parts: &mut Parts,
    whole: impl Fn(Range<u64>, &mut Parts) -> Result<()>,
) -> Result<()> {
    let (mut first, skip) = (range.start / body.size, range.start % body.size);
    let (last, rest) = (range.end / body.size, range.end % body.size);
    if skip > 0 {
        let end = if first == last { rest } else { body.size };
        cut(body, place(first), skip..end, parts)?;
        first += 1;
    }
    if first < last {
        whole(first..last, parts)?;
    }
    if first <= last && rest > 0 {
        cut(body, place(last), 0..rest, parts)?;
    }
    Ok(())
}
