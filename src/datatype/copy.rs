//! Packing and unpacking, from any byte of the packed stream.

use super::error::LayoutError;
use super::form::{Form, Kind};
use super::kernels::{self, DEEPEST, Dim, Level, Plan};
use super::layout::Layout;
use super::plan::{Direction, by_hand, choose};
use super::table::Offsets;
use std::ops::Range;

/// A stretch of the packed stream in memory.
struct Stream {
    at: *mut u8,
    /// Bytes of the form before the stretch.
    skip: u64,
    /// Bytes of the stretch that are left.
    left: u64,
}

impl Stream {
    fn advance(&mut self, bytes: u64) {
        self.at = self.at.wrapping_add(bytes as usize);
        self.left -= bytes;
        self.skip = 0;
    }
}

impl Layout {
    /// Copies bytes `from..` of the packed stream into `out`, until either ends;
    /// returns how many.
    ///
    /// `memory` holds the layout's bytes, its origin `origin` bytes from the start.
    ///
    /// # Errors
    /// The layout takes bytes outside of `memory`; `RANKWAY_DATATYPE_PLAN` holds
    /// nonsense.
    pub fn pack(
        &self,
        memory: &[u8],
        origin: usize,
        from: u64,
        out: &mut [u8],
    ) -> Result<usize, LayoutError> {
        self.pack_planned(None, memory, origin, from, out)
    }

    /// [`Layout::pack`] by this plan in place of the chosen one.
    ///
    /// # Errors
    /// As [`Layout::pack`].
    pub fn pack_by(
        &self,
        plan: &Plan,
        memory: &[u8],
        origin: usize,
        from: u64,
        out: &mut [u8],
    ) -> Result<usize, LayoutError> {
        self.pack_planned(Some(plan), memory, origin, from, out)
    }

    fn pack_planned(
        &self,
        plan: Option<&Plan>,
        memory: &[u8],
        origin: usize,
        from: u64,
        out: &mut [u8],
    ) -> Result<usize, LayoutError> {
        self.check(memory.len(), origin)?;
        let plan = plan.map(there);
        let (at, len) = (out.as_mut_ptr(), out.len());
        let memory = memory.as_ptr().wrapping_add(origin).cast_mut();
        // SAFETY: all that the layout takes lies in `memory`, as was checked, and
        // `out` is apart from it, as it is borrowed alone.
        Ok(unsafe { self.copy::<true>(memory, from, at, len, plan.as_ref()) })
    }

    /// Copies `data` to where bytes `from..` of the packed stream belong, until
    /// either ends; returns how many.
    ///
    /// # Errors
    /// As [`Layout::pack`].
    pub fn unpack(
        &self,
        memory: &mut [u8],
        origin: usize,
        from: u64,
        data: &[u8],
    ) -> Result<usize, LayoutError> {
        self.unpack_planned(None, memory, origin, from, data)
    }

    /// [`Layout::unpack`] by this plan in place of the chosen one.
    ///
    /// # Errors
    /// As [`Layout::pack`].
    pub fn unpack_by(
        &self,
        plan: &Plan,
        memory: &mut [u8],
        origin: usize,
        from: u64,
        data: &[u8],
    ) -> Result<usize, LayoutError> {
        self.unpack_planned(Some(plan), memory, origin, from, data)
    }

    fn unpack_planned(
        &self,
        plan: Option<&Plan>,
        memory: &mut [u8],
        origin: usize,
        from: u64,
        data: &[u8],
    ) -> Result<usize, LayoutError> {
        self.check(memory.len(), origin)?;
        let plan = plan.map(there);
        let (at, len) = (data.as_ptr().cast_mut(), data.len());
        let memory = memory.as_mut_ptr().wrapping_add(origin);
        // SAFETY: as in `pack_planned`; the stream is only read.
        Ok(unsafe { self.copy::<false>(memory, from, at, len, plan.as_ref()) })
    }

    /// [`Layout::pack`] from memory that the caller knows to hold the layout.
    ///
    /// # Safety
    /// \[MEM\] the layout's bytes, from `memory` as its origin, can be read, nobody
    /// writes them meanwhile, and `out` is apart from them.
    pub unsafe fn pack_raw(&self, memory: *const u8, from: u64, out: &mut [u8]) -> usize {
        // SAFETY: [MEM].
        unsafe { self.copy::<true>(memory.cast_mut(), from, out.as_mut_ptr(), out.len(), None) }
    }

    /// [`Layout::unpack`] into memory that the caller knows to hold the layout.
    ///
    /// # Safety
    /// \[MEM\] the layout's bytes, from `memory` as its origin, can be written, nobody
    /// else uses them meanwhile, and `data` is apart from them.
    pub unsafe fn unpack_raw(&self, memory: *mut u8, from: u64, data: &[u8]) -> usize {
        // SAFETY: [MEM]; the stream is only read.
        unsafe { self.copy::<false>(memory, from, data.as_ptr().cast_mut(), data.len(), None) }
    }

    pub(crate) fn check(&self, len: usize, origin: usize) -> Result<(), LayoutError> {
        if let Err(bad) = by_hand() {
            return Err(bad.clone().into());
        }
        let Some((first, end)) = self.true_bounds() else { return Ok(()) };
        let behind = len.saturating_sub(origin);
        let fits = first >= 0 || first.unsigned_abs() <= origin as u64;
        if origin <= len && fits && (end <= 0 || end as u64 <= behind as u64) {
            return Ok(());
        }
        Err(LayoutError::Bounds { first, end, origin, behind })
    }

    /// # Safety
    /// As [`Layout::pack_raw`], or [`Layout::unpack_raw`]; the stream has `len`
    /// bytes; the processor has the plan's instructions.
    pub(super) unsafe fn copy<const PACK: bool>(
        &self,
        memory: *mut u8,
        from: u64,
        stream: *mut u8,
        len: usize,
        plan: Option<&Plan>,
    ) -> usize {
        let Some((offset, form)) = &self.placed else { return 0 };
        let Some(rest) = form.size.checked_sub(from) else { return 0 };
        let left = rest.min(len as u64);
        if left == 0 {
            return 0;
        }
        let memory = memory.wrapping_offset(*offset as isize);
        if plan.is_none()
            && left <= SHORT
            && let Kind::Run = form.kind
        {
            let memory = memory.wrapping_add(from as usize);
            let (from, to) = if PACK { (memory, stream) } else { (stream, memory) };
            // SAFETY: the caller's; the stretch ends within the run.
            unsafe { std::ptr::copy_nonoverlapping(from, to, left as usize) };
            return left as usize;
        }
        let chosen;
        let plan = match plan {
            Some(plan) => plan,
            None => {
                let direction = if PACK { Direction::Pack } else { Direction::Unpack };
                chosen = choose(form, direction, left);
                &chosen
            }
        };
        let mut part = Stream { at: stream, skip: from, left };
        // SAFETY: the caller's; the part ends within the form.
        unsafe { walk::<PACK>(form, memory, &mut part, plan) };
        if plan.streaming {
            kernels::fence();
        }
        left as usize
    }
}

/// Contiguous bytes for which no plan is made: any would copy them alike.
const SHORT: u64 = 64 << 10;

/// The plan with instructions that the processor has.
fn there(plan: &Plan) -> Plan {
    Plan { level: plan.level.min(Level::best()), ..*plan }
}

/// Copies what the stream wants of a form whose first run is at `mem`.
///
/// # Safety
/// \[MEM\] the form's runs are the caller's to read (write if not `PACK`); the stream
/// begins within the form and has bytes left.
unsafe fn walk<const PACK: bool>(form: &Form, mem: *mut u8, stream: &mut Stream, plan: &Plan) {
    // SAFETY: [MEM], for all of it: parts of the form are the form's.
    unsafe {
        if stream.skip == 0 && stream.left >= form.size {
            return whole::<PACK>(Dim::ONE, form, mem, stream, plan);
        }
        match &form.kind {
            Kind::Run => {
                let len = (form.size - stream.skip).min(stream.left);
                let mem = mem.wrapping_add(stream.skip as usize);
                kernels::run::<PACK>(mem, stream.at, len as usize, plan);
                stream.advance(len);
            }
            Kind::Loop { count, stride, body } => {
                let place = |i: u64| mem.wrapping_offset((i as i64 * stride) as isize);
                let rest = |i: u64, n: u64, stream: &mut Stream| {
                    let rounds = Dim { count: n as usize, stride: *stride as isize };
                    whole::<PACK>(rounds, body, place(i), stream, plan);
                };
                rounds::<PACK>(*count, body, &place, stream, plan, &rest);
            }
            Kind::Blocks { at, body } => {
                let place = |i: u64| mem.wrapping_offset(at.get(i as usize) as isize);
                let rest = |i: u64, n: u64, stream: &mut Stream| {
                    let range = i as usize..(i + n) as usize;
                    blocks::<PACK>(Dim::ONE, at, range, body, mem, stream, plan);
                };
                rounds::<PACK>(at.len() as u64, body, &place, stream, plan, &rest);
            }
            Kind::Runs(runs) => {
                // What a stretch begins or ends within goes alone.
                let one = |i: usize, within: u64, end: u64, stream: &mut Stream| {
                    let mem = mem.wrapping_offset(runs.get(i).0 as isize);
                    let mem = mem.wrapping_add(within as usize);
                    kernels::run::<PACK>(mem, stream.at, (end - within) as usize, plan);
                    stream.advance(end - within);
                };
                let mut at = stream.skip;
                let end = form.size.min(at + stream.left);
                let (mut first, within) = runs.find(at);
                let (last, part) = if end < form.size { runs.find(end) } else { (runs.len(), 0) };
                if within > 0 {
                    let end = if first == last { part } else { runs.get(first).1 };
                    one(first, within, end, stream);
                    (first, at) = (first + 1, at + end - within);
                }
                if first < last {
                    kernels::runs::<PACK>(mem, stream.at, Dim::ONE, runs, first..last, plan);
                    stream.advance(end - part - at);
                }
                if first <= last && part > 0 {
                    one(last, 0, part, stream);
                }
            }
            Kind::Parts(parts) => {
                let first = parts.partition_point(|part| part.start <= stream.skip) - 1;
                stream.skip -= parts[first].start;
                for part in &parts[first..] {
                    if stream.left == 0 {
                        return;
                    }
                    walk::<PACK>(
                        &part.form,
                        mem.wrapping_offset(part.offset as isize),
                        stream,
                        plan,
                    );
                }
            }
        }
    }
}

/// Rounds of a loop or a table: what is left of the first, whole ones by `rest`,
/// the beginning of the last.
///
/// # Safety
/// As [`walk`].
unsafe fn rounds<const PACK: bool>(
    count: u64,
    body: &Form,
    place: &dyn Fn(u64) -> *mut u8,
    stream: &mut Stream,
    plan: &Plan,
    rest: &dyn Fn(u64, u64, &mut Stream),
) {
    let mut i = stream.skip / body.size;
    stream.skip %= body.size;
    // SAFETY: the caller's.
    unsafe {
        if stream.skip > 0 {
            walk::<PACK>(body, place(i), stream, plan);
            i += 1;
        }
        let full = (count - i).min(stream.left / body.size);
        if full > 0 {
            rest(i, full, stream);
            i += full;
        }
        if i < count && stream.left > 0 {
            walk::<PACK>(body, place(i), stream, plan);
        }
    }
}

/// Copies so many rounds of a form: at once where they are a nest down to a run, or
/// a table of runs.
///
/// # Safety
/// As [`walk`] for every round; the stream has room for (has) all of them.
unsafe fn whole<const PACK: bool>(
    rounds: Dim,
    form: &Form,
    mem: *mut u8,
    stream: &mut Stream,
    plan: &Plan,
) {
    let mut dims = [Dim::ONE; DEEPEST];
    dims[0] = rounds;
    let (mut depth, mut inner) = (1, form);
    while let Kind::Loop { count, stride, body } = &inner.kind
        && depth < DEEPEST
    {
        dims[depth] = Dim { count: *count as usize, stride: *stride as isize };
        (depth, inner) = (depth + 1, &**body);
    }
    // SAFETY: the caller's, for all of it: parts of the form are the form's.
    unsafe {
        match &form.kind {
            _ if matches!(inner.kind, Kind::Run) => {
                let dims = &dims[usize::from(rounds.count == 1)..depth];
                kernels::nest::<PACK>(mem, stream.at, inner.size as usize, dims, plan);
                stream.advance(rounds.count as u64 * form.size);
            }
            Kind::Runs(runs) => {
                kernels::runs::<PACK>(mem, stream.at, rounds, runs, 0..runs.len(), plan);
                stream.advance(rounds.count as u64 * form.size);
            }
            Kind::Blocks { at, body } => {
                blocks::<PACK>(rounds, at, 0..at.len(), body, mem, stream, plan);
            }
            Kind::Run | Kind::Loop { .. } | Kind::Parts(_) => {
                for i in 0..rounds.count {
                    let mem = mem.wrapping_offset(i as isize * rounds.stride);
                    if let Kind::Loop { count, stride, body } = &form.kind {
                        let rounds = Dim { count: *count as usize, stride: *stride as isize };
                        whole::<PACK>(rounds, body, mem, stream, plan);
                    } else if let Kind::Parts(parts) = &form.kind {
                        for part in parts {
                            let mem = mem.wrapping_offset(part.offset as isize);
                            whole::<PACK>(Dim::ONE, &part.form, mem, stream, plan);
                        }
                    }
                }
            }
        }
    }
}

/// Copies so many rounds of a range of a table.
///
/// # Safety
/// As [`whole`]; the range is in the table.
unsafe fn blocks<const PACK: bool>(
    rounds: Dim,
    at: &Offsets,
    range: Range<usize>,
    body: &Form,
    mem: *mut u8,
    stream: &mut Stream,
    plan: &Plan,
) {
    // SAFETY: the caller's.
    unsafe {
        if let Kind::Run = body.kind {
            let bytes = (rounds.count * range.len()) as u64 * body.size;
            let len = body.size as usize;
            kernels::equal_runs::<PACK>(mem, stream.at, rounds, len, at, range, plan);
            return stream.advance(bytes);
        }
        for i in 0..rounds.count {
            let mem = mem.wrapping_offset(i as isize * rounds.stride);
            for i in range.clone() {
                let mem = mem.wrapping_offset(at.get(i) as isize);
                whole::<PACK>(Dim::ONE, body, mem, stream, plan);
            }
        }
    }
}
