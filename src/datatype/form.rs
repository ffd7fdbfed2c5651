//! Canonical forms: which bytes, in the order of the packed stream.
//!
//! A *run* is a stretch of contiguous bytes as long as it can be. What a layout
//! selects is a sequence of runs, and its form is made from that sequence alone:
//! the smallest period of the sequence is a [`Kind::Loop`] over the canonical form
//! of one period, a sequence without a period a table. So equal layouts have
//! equal forms however they were built.
//!
//! Forms are put together without looking at every run where the parts decide: a
//! loop over a canonical form is canonical unless its last run touches the first
//! of the next round, or its stride goes on with that of the loop inside. What is
//! neither is flattened into runs, up to [`FLAT`] of them; beyond that the parts
//! are kept as they were given, and equality of two such is that of their runs.

use super::error::LayoutError;
use super::table::{Offsets, Run, Runs, divisor};
use std::sync::Arc;

/// Runs up to which a form is made from its runs where parts do not decide.
pub(super) const FLAT: u64 = 1 << 14;

/// Runs whose first begins at 0.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Form {
    pub(super) kind: Kind,
    /// Bytes of the packed stream.
    pub(super) size: u64,
    /// How many runs.
    pub(super) runs: u64,
    /// The lowest byte taken, and one past the highest.
    pub(super) low: i64,
    pub(super) high: i64,
    /// One past the last byte of the last run.
    pub(super) end: i64,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// `size` bytes from 0.
    Run,
    /// `count` times the body, `stride` bytes apart.
    Loop { count: u64, stride: i64, body: Arc<Form> },
    /// The body at each of these offsets.
    Blocks { at: Offsets, body: Arc<Form> },
    /// Runs of different lengths.
    Runs(Runs),
    /// Forms one after the other, each at its offset.
    Parts(Box<[Part]>),
}

/// One of several forms.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) offset: i64,
    /// Where it begins in the packed stream.
    pub(super) start: u64,
    pub(super) form: Arc<Form>,
}

/// A form and where its first run begins; `None` has no byte.
pub(super) type Placed = Option<(i64, Arc<Form>)>;

type Result<T> = std::result::Result<T, LayoutError>;

const OFFSETS: LayoutError = LayoutError::Overflow { what: "an offset" };
const SIZE: LayoutError = LayoutError::Overflow { what: "the size" };

/// Offsets stay within this either way, so that their differences are numbers too.
const LIMIT: i64 = 1 << 61;

pub(super) fn add(a: i64, b: i64) -> Result<i64> {
    a.checked_add(b).filter(|sum| (-LIMIT..=LIMIT).contains(sum)).ok_or(OFFSETS)
}

pub(super) fn times(count: u64, stride: i64) -> Result<i64> {
    let product = i64::try_from(count).ok().and_then(|count| count.checked_mul(stride));
    add(product.ok_or(OFFSETS)?, 0)
}

/// The sum of sizes.
fn bytes(a: u64, b: u64) -> Result<u64> {
    a.checked_add(b).filter(|&sum| sum <= LIMIT as u64).ok_or(SIZE)
}

/// The size of so many.
fn bytes_of(count: u64, size: u64) -> Result<u64> {
    bytes(count.checked_mul(size).ok_or(SIZE)?, 0)
}

impl Form {
    /// A run of `len` bytes, not 0.
    pub(super) fn run(len: u64) -> Result<Arc<Form>> {
        let end = bytes(len, 0)? as i64;
        Ok(Arc::new(Form { kind: Kind::Run, size: len, runs: 1, low: 0, high: end, end }))
    }

    /// In a matrix to transpose, which loop walks along contiguous runs, from the outermost: one
    /// outside of the innermost, where all are loops down to a run of 1 to 16 bytes, a power
    /// of two.
    pub(super) fn matrix(&self) -> Option<usize> {
        let mut run = self;
        while let Kind::Loop { body, .. } = &run.kind {
            run = body;
        }
        let (Kind::Run, 1 | 2 | 4 | 8 | 16) = (&run.kind, run.size) else { return None };
        let (mut at, mut outer) = (0, self);
        while let Kind::Loop { stride, body, .. } = &outer.kind {
            if *stride == run.size as i64 && matches!(body.kind, Kind::Loop { .. }) {
                return Some(at);
            }
            (at, outer) = (at + 1, body);
        }
        None
    }

    /// The body `count` times, at least twice, as it stands.
    pub(super) fn repeat(count: u64, stride: i64, body: Arc<Form>) -> Result<Arc<Form>> {
        let size = bytes_of(count, body.size)?;
        let last = times(count - 1, stride)?;
        Ok(Arc::new(Form {
            size,
            runs: count.saturating_mul(body.runs),
            low: add(body.low, last.min(0))?,
            high: add(body.high, last.max(0))?,
            end: add(body.end, last)?,
            kind: Kind::Loop { count, stride, body },
        }))
    }

    /// Bytes in memory, with what it holds.
    pub(super) fn bytes_held(&self) -> usize {
        let inside = match &self.kind {
            Kind::Run => 0,
            Kind::Loop { body, .. } => body.bytes_held(),
            Kind::Blocks { at, body } => at.bytes() + body.bytes_held(),
            Kind::Runs(runs) => runs.bytes(),
            Kind::Parts(parts) => {
                let below = parts.iter().map(|part| part.form.bytes_held()).sum::<usize>();
                size_of_val::<[Part]>(parts) + below
            }
        };
        size_of::<Form>() + inside
    }

    /// Returns true if it may hold parts as they were given: others with the same
    /// runs may have another form.
    pub(super) fn is_kept(&self) -> bool {
        match &self.kind {
            Kind::Run | Kind::Runs(_) => false,
            Kind::Loop { stride, body, .. } => *stride == body.end || body.is_kept(),
            Kind::Blocks { body, .. } => !matches!(body.kind, Kind::Run),
            Kind::Parts(_) => true,
        }
    }

    /// Calls `each` with every run, in order, the first beginning at `base`.
    ///
    /// Neighbours that touch are not joined. Offsets were checked when the form
    /// was made.
    pub(super) fn each_run(&self, base: i64, each: &mut dyn FnMut(Run)) {
        match &self.kind {
            Kind::Run => each((base, self.size)),
            Kind::Loop { count, stride, body } => {
                (0..*count).for_each(|i| body.each_run(base + i as i64 * stride, each));
            }
            Kind::Blocks { at, body } => at.iter().for_each(|o| body.each_run(base + o, each)),
            Kind::Runs(runs) => runs.iter().for_each(|(o, len)| each((base + o, len))),
            Kind::Parts(parts) => {
                parts.iter().for_each(|part| part.form.each_run(base + part.offset, each));
            }
        }
    }
}

/// `count` times what is placed, `stride` bytes apart.
pub(super) fn repeat(count: u64, stride: i64, placed: &Placed) -> Result<Placed> {
    let made = fold(count, stride, placed)?;
    if let Some((offset, whole)) = &made
        && let Kind::Loop { stride, body, .. } = &whole.kind
        && body.end == *stride
        && whole.runs <= FLAT
    {
        return flatten(*offset, whole);
    }
    Ok(made)
}

/// The same, in constant time: runs of neighbours that touch are not joined.
pub(super) fn fold(count: u64, stride: i64, placed: &Placed) -> Result<Placed> {
    let Some((offset, form)) = placed else { return Ok(None) };
    if count == 0 {
        return Ok(None);
    }
    if count == 1 {
        return Ok(placed.clone());
    }
    if let Kind::Run = form.kind
        && stride == form.end
    {
        return Ok(Some((*offset, Form::run(bytes_of(count, form.size)?)?)));
    }
    if let Kind::Loop { count: inner, stride: step, body } = &form.kind
        && times(*inner, *step)? == stride
    {
        let count = inner.checked_mul(count).ok_or(SIZE)?;
        return Ok(Some((*offset, Form::repeat(count, *step, body.clone())?)));
    }
    let whole = Form::repeat(count, stride, form.clone())?;
    check(*offset, &whole)?;
    Ok(Some((*offset, whole)))
}

/// Forms one after the other, single runs among them as such.
#[derive(Default)]
pub(super) struct Pieces {
    runs: Vec<Run>,
    /// Other forms, with how many of the runs come before each.
    forms: Vec<(usize, i64, Arc<Form>)>,
    /// Runs of those forms; saturates.
    inside: u64,
}

impl Pieces {
    pub(super) fn reserve(&mut self, runs: usize) {
        self.runs.reserve(runs);
    }

    /// A run of `len` bytes, not 0, that was checked to have offsets.
    pub(super) fn run(&mut self, offset: i64, len: u64) {
        let behind = self.forms.last().is_none_or(|form| form.0 < self.runs.len());
        match self.runs.last_mut() {
            Some((last, have)) if behind && *last + *have as i64 == offset => *have += len,
            _ => self.runs.push((offset, len)),
        }
    }

    /// A form placed there.
    pub(super) fn form(&mut self, offset: i64, form: &Arc<Form>) -> Result<()> {
        check(offset, form)?;
        if let Kind::Run = form.kind {
            self.run(offset, form.size);
        } else {
            self.inside = self.inside.saturating_add(form.runs);
            self.forms.push((self.runs.len(), offset, form.clone()));
        }
        Ok(())
    }

    /// The canonical form of all, where that costs little.
    pub(super) fn done(self) -> Result<Placed> {
        let parts = self.runs.len() + self.forms.len();
        if self.forms.is_empty() {
            return from_runs(&self.runs);
        }
        if let (1, [(_, offset, form)]) = (parts, &self.forms[..]) {
            return Ok(Some((*offset, form.clone())));
        }
        if self.inside.saturating_add(self.runs.len() as u64) <= FLAT.max(4 * parts as u64) {
            let mut runs = Vec::with_capacity(self.runs.len() + self.inside as usize);
            let mut done = 0;
            for (before, offset, form) in &self.forms {
                self.runs[done..*before].iter().for_each(|&run| push_run(&mut runs, run));
                form.each_run(*offset, &mut |run| push_run(&mut runs, run));
                done = *before;
            }
            self.runs[done..].iter().for_each(|&run| push_run(&mut runs, run));
            return from_runs(&runs);
        }
        let mut list = Vec::with_capacity(2 * self.forms.len() + 1);
        let mut done = 0;
        for (before, offset, form) in self.forms {
            list.extend(from_runs(&self.runs[done..before])?);
            list.push((offset, form));
            done = before;
        }
        list.extend(from_runs(&self.runs[done..])?);
        if let Some(blocks) = equal_blocks(&list)? {
            return Ok(Some((list[0].0, blocks)));
        }
        kept(list)
    }
}

/// The same form at many places, at least two, as a loop or a table.
pub(super) fn equal_blocks(parts: &[(i64, Arc<Form>)]) -> Result<Option<Arc<Form>>> {
    let (first, body) = &parts[0];
    if parts.iter().any(|(_, form)| !Arc::ptr_eq(form, body) && form != body) {
        return Ok(None);
    }
    let offsets: Vec<i64> = parts.iter().map(|(offset, _)| offset - first).collect();
    let stride = offsets[1];
    if offsets.windows(2).all(|pair| pair[1] - pair[0] == stride) {
        let Some((_, form)) = repeat(offsets.len() as u64, stride, &Some((0, body.clone())))?
        else {
            unreachable!("more than one of a form that has bytes")
        };
        return Ok(Some(form));
    }
    blocks(&offsets, body.clone()).map(Some)
}

/// The body at each offset, the first 0.
pub(super) fn blocks(offsets: &[i64], body: Arc<Form>) -> Result<Arc<Form>> {
    let count = offsets.len() as u64;
    let size = bytes_of(count, body.size)?;
    let (lowest, highest) =
        offsets.iter().fold((0, 0), |(low, high), &o| (o.min(low), o.max(high)));
    Ok(Arc::new(Form {
        size,
        runs: count.saturating_mul(body.runs),
        low: add(lowest, body.low)?,
        high: add(highest, body.high)?,
        end: add(offsets[offsets.len() - 1], body.end)?,
        kind: Kind::Blocks { at: Offsets::new(offsets), body },
    }))
}

/// Parts as they were given, those of parts among them.
pub(super) fn kept(parts: Vec<(i64, Arc<Form>)>) -> Result<Placed> {
    let first = parts[0].0;
    let mut list: Vec<Part> = Vec::with_capacity(parts.len());
    let mut whole = Form { kind: Kind::Run, size: 0, runs: 0, low: 0, high: 0, end: 0 };
    let mut push = |offset: i64, form: Arc<Form>| -> Result<()> {
        whole.low = whole.low.min(add(offset, form.low)?);
        whole.high = whole.high.max(add(offset, form.high)?);
        whole.end = add(offset, form.end)?;
        whole.runs = whole.runs.saturating_add(form.runs);
        let start = whole.size;
        whole.size = bytes(start, form.size)?;
        list.push(Part { offset, start, form });
        Ok(())
    };
    for (offset, form) in parts {
        let offset = offset - first;
        if let Kind::Parts(inner) = &form.kind {
            for part in inner {
                push(add(offset, part.offset)?, part.form.clone())?;
            }
        } else {
            push(offset, form)?;
        }
    }
    whole.kind = Kind::Parts(list.into());
    Ok(Some((first, Arc::new(whole))))
}

/// All bytes of a form placed there have offsets.
pub(super) fn check(offset: i64, form: &Form) -> Result<()> {
    add(offset, form.low)?;
    add(offset, form.high)?;
    add(offset, form.end).map(drop)
}

/// The canonical form of its runs.
fn flatten(offset: i64, form: &Form) -> Result<Placed> {
    let mut runs: Vec<Run> = Vec::with_capacity(form.runs as usize);
    form.each_run(offset, &mut |run| push_run(&mut runs, run));
    from_runs(&runs)
}

/// Appends a run, or makes the last one longer.
pub(super) fn push_run(runs: &mut Vec<Run>, (offset, len): Run) {
    match runs.last_mut() {
        Some((last, have)) if *last + *have as i64 == offset => *have += len,
        _ => runs.push((offset, len)),
    }
}

/// The canonical form of a sequence of runs, none of which is empty or touches the
/// next.
pub(super) fn from_runs(runs: &[Run]) -> Result<Placed> {
    let Some(&(first, len)) = runs.first() else { return Ok(None) };
    if runs.len() == 1 {
        return Ok(Some((first, Form::run(len)?)));
    }
    let period = smallest_period(runs);
    if period == runs.len()
        && let Some((period, rounds)) = inner_period(runs)
    {
        // Elements whose last run touches the next one's first: all but the ends.
        let (head, rest) = runs.split_at(1);
        let (rounds, tail) = rest.split_at(period * rounds);
        let parts = [head, rounds, tail].into_iter().filter_map(|part| from_runs(part).transpose());
        return kept(parts.collect::<Result<_>>()?);
    }
    let form = if period < runs.len() {
        let Some((_, body)) = from_runs(&runs[..period])? else {
            unreachable!("a period has runs")
        };
        Form::repeat((runs.len() / period) as u64, runs[period].0 - first, body)?
    } else {
        table(runs)?
    };
    Ok(Some((first, form)))
}

/// A table of runs: offsets alone where all are of one length, or are cut into blocks
/// of one that are no more than twice as many.
pub(super) fn table(runs: &[Run]) -> Result<Arc<Form>> {
    let first = runs[0].0;
    if let Some((block, count)) = equal_parts(runs) {
        let mut offsets = Vec::with_capacity(count);
        for &(offset, len) in runs {
            let end = add(offset - first, bytes(len, 0)? as i64)?;
            offsets.extend((offset - first..end).step_by(block as usize));
        }
        return blocks(&offsets, Form::run(block)?);
    }
    if let Some(ends) = equal_stretches(runs) {
        let (mut done, mut parts) = (0, Vec::with_capacity(ends.len()));
        for end in ends {
            parts.extend(from_runs(&runs[done..end])?);
            done = end;
        }
        let Some((_, form)) = kept(parts)? else { unreachable!("stretches have runs") };
        return Ok(form);
    }
    let (mut size, mut low, mut high) = (0u64, 0, 0);
    let mut list = Vec::with_capacity(runs.len());
    for &(offset, len) in runs {
        let offset = offset - first;
        let end = add(offset, bytes(len, 0)? as i64)?;
        size = bytes(size, len)?;
        (low, high) = (offset.min(low), end.max(high));
        list.push((offset, len));
    }
    let (offset, len) = list[list.len() - 1];
    let (count, end) = (list.len() as u64, offset + len as i64);
    let kind = Kind::Runs(Runs::new(&list));
    Ok(Arc::new(Form { kind, size, runs: count, low, high, end }))
}

/// The greatest length that all runs are multiples of, and of how many such blocks they
/// are; `None` if those are more than twice the runs.
///
/// Runs of one or two blocks are copied faster block by block, as nobody can tell the
/// next one's length ahead.
fn equal_parts(runs: &[Run]) -> Option<(u64, usize)> {
    let (mut block, mut total) = (0, 0u64);
    for &(_, len) in runs {
        total = total.checked_add(len)?;
        if block == 0 || len % block != 0 {
            block = divisor(block, len);
        }
    }
    let count = usize::try_from(total / block).ok()?;
    let few = count <= runs.len().saturating_mul(2);
    (few && isize::try_from(block).is_ok()).then_some((block, count))
}

/// Where stretches end that can be cut like this, each as long as it can be; `None` if
/// they are of less than 64 runs on average, or the whole is one.
///
/// Lists of several fields one after the other, in which elements have other lengths.
fn equal_stretches(runs: &[Run]) -> Option<Vec<usize>> {
    let (mut ends, mut begin) = (Vec::new(), 0);
    let (mut block, mut total) = (0, 0u64);
    for (i, &(_, len)) in runs.iter().enumerate() {
        let next = if block == 0 || len % block != 0 { divisor(block, len) } else { block };
        let sum = total.checked_add(len)?;
        if sum / next <= 2 * (i - begin + 1) as u64 {
            (block, total) = (next, sum);
            continue;
        }
        ends.push(i);
        if ends.len() > 4 + i / 64 {
            return None;
        }
        (begin, block, total) = (i, len, len);
    }
    ends.push(runs.len());
    (ends.len() > 1 && ends.len() * 64 <= runs.len()).then_some(ends)
}

/// The smallest `p` that divides the number of runs, such that each run is the one
/// `p` before it moved by a constant; the number itself if there is none.
///
/// (Periods of the sequence of length and distance to the next, by its borders.)
fn smallest_period(runs: &[Run]) -> usize {
    let symbols = runs.len() - 1;
    let symbol = |i: usize| (runs[i].1, runs[i + 1].0 - runs[i].0);
    if symbols > u32::MAX as usize {
        return runs.len();
    }
    let borders = borders(symbols, |i, j| symbol(i) == symbol(j));
    let last = runs.len() - 1;
    let mut border = borders[symbols - 1] as usize;
    loop {
        let period = symbols - border;
        if runs.len().is_multiple_of(period) && runs[last].1 == runs[last - period].1 {
            return period;
        }
        if border == 0 {
            return runs.len();
        }
        border = borders[border - 1] as usize;
    }
}

/// The period of all runs but the first and what follows the last whole round, and the
/// rounds of it, at least 8; short periods of many runs only.
fn inner_period(runs: &[Run]) -> Option<(usize, usize)> {
    let inner = &runs[1..runs.len() - 1];
    if inner.len() < 64 {
        return None;
    }
    let symbol = |i: usize| (inner[i].1, inner[i + 1].0 - inner[i].0);
    let periodic = |&period: &usize| {
        (period..inner.len() - 1).all(|i| symbol(i) == symbol(i - period))
            && inner[inner.len() - 1].1 == inner[inner.len() - 1 - period].1
    };
    let period = (1..=(inner.len() / 8).min(16)).find(periodic)?;
    Some((period, inner.len() / period))
}

/// How long the longest end of the first `i + 1` symbols is that they begin with too,
/// for each i (Knuth, Morris and Pratt).
pub(super) fn borders(symbols: usize, equal: impl Fn(usize, usize) -> bool) -> Vec<u32> {
    let mut borders = vec![0u32; symbols];
    let mut have = 0;
    for i in 1..symbols {
        while have > 0 && !equal(i, have) {
            have = borders[have - 1] as usize;
        }
        have += usize::from(equal(i, have));
        borders[i] = have as u32;
    }
    borders
}
