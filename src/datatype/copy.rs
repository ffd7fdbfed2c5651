//! Packing and unpacking, from any byte of the packed stream.

use super::error::LayoutError;
use super::form::{Form, Kind};
use super::kernels::{self, DEEPEST, Dim, How};
use super::layout::Layout;
use super::plan;

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
    /// The layout takes bytes outside of `memory`.
    pub fn pack(
        &self,
        memory: &[u8],
        origin: usize,
        from: u64,
        out: &mut [u8],
    ) -> Result<usize, LayoutError> {
        self.check(memory.len(), origin)?;
        // SAFETY: all that the layout takes lies in `memory`, as was checked, and
        // `out` is apart from it, as it is borrowed alone.
        Ok(unsafe { self.pack_raw(memory.as_ptr().wrapping_add(origin), from, out) })
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
        self.check(memory.len(), origin)?;
        // SAFETY: as in `pack`.
        Ok(unsafe { self.unpack_raw(memory.as_mut_ptr().wrapping_add(origin), from, data) })
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

    fn check(&self, len: usize, origin: usize) -> Result<(), LayoutError> {
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
        how: Option<How>,
    ) -> usize {
        let Some((offset, form)) = &self.placed else { return 0 };
        let Some(rest) = form.size.checked_sub(from) else { return 0 };
        let left = rest.min(len as u64);
        if left == 0 {
            return 0;
        }
        let how = how.unwrap_or_else(|| plan::choose::<PACK>(form, left));
        let mut part = Stream { at: stream, skip: from, left };
        // SAFETY: the caller's; the part ends within the form.
        unsafe {
            walk::<PACK>(form, memory.wrapping_offset(*offset as isize), &mut part, &how);
        }
        if how.streaming {
            kernels::fence();
        }
        left as usize
    }
}

/// Copies what the stream wants of a form whose first run is at `mem`.
///
/// # Safety
/// \[MEM\] the form's runs are the caller's to read (write if not `PACK`); the stream
/// begins within the form and has bytes left.
unsafe fn walk<const PACK: bool>(form: &Form, mem: *mut u8, stream: &mut Stream, how: &How) {
    // SAFETY: [MEM], for all of it: parts of the form are the form's.
    unsafe {
        if stream.skip == 0 && stream.left >= form.size {
            return whole::<PACK>(form, mem, stream, how);
        }
        match &form.kind {
            Kind::Run => {
                let len = (form.size - stream.skip).min(stream.left);
                let mem = mem.wrapping_add(stream.skip as usize);
                kernels::run::<PACK>(mem, stream.at, len as usize, how);
                stream.advance(len);
            }
            Kind::Loop { count, stride, body } => {
                let place = |i: u64| mem.wrapping_offset((i as i64 * stride) as isize);
                let rest = |i: u64, n: u64, stream: &mut Stream| {
                    looped::<PACK>(n, *stride, body, place(i), stream, how);
                };
                rounds::<PACK>(*count, body, &place, stream, how, &rest);
            }
            Kind::Blocks { at, body } => {
                let place = |i: u64| mem.wrapping_offset(at.get(i as usize) as isize);
                let rest = |i: u64, n: u64, stream: &mut Stream| {
                    if let Kind::Run = body.kind {
                        let range = i as usize..(i + n) as usize;
                        let len = body.size as usize;
                        kernels::equal_runs::<PACK>(mem, stream.at, Dim::ONE, len, at, range, how);
                        stream.advance(n * body.size);
                    } else {
                        (i..i + n).for_each(|i| whole::<PACK>(body, place(i), stream, how));
                    }
                };
                rounds::<PACK>(at.len() as u64, body, &place, stream, how, &rest);
            }
            Kind::Runs(runs) => {
                let (mut i, mut within) = runs.find(stream.skip);
                // What a stretch begins or ends within goes alone.
                while i < runs.len() && stream.left > 0 {
                    let (offset, len) = runs.get(i);
                    let len = (len - within).min(stream.left);
                    let mem = mem.wrapping_offset(offset as isize).wrapping_add(within as usize);
                    kernels::run::<PACK>(mem, stream.at, len as usize, how);
                    stream.advance(len);
                    (i, within) = (i + 1, 0);
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
                        how,
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
    how: &How,
    rest: &dyn Fn(u64, u64, &mut Stream),
) {
    let mut i = stream.skip / body.size;
    stream.skip %= body.size;
    // SAFETY: the caller's.
    unsafe {
        if stream.skip > 0 {
            walk::<PACK>(body, place(i), stream, how);
            i += 1;
        }
        let full = (count - i).min(stream.left / body.size);
        if full > 0 {
            rest(i, full, stream);
            i += full;
        }
        if i < count && stream.left > 0 {
            walk::<PACK>(body, place(i), stream, how);
        }
    }
}

/// Copies all of a form.
///
/// # Safety
/// As [`walk`]; the stream has room for (has) all of it.
unsafe fn whole<const PACK: bool>(form: &Form, mem: *mut u8, stream: &mut Stream, how: &How) {
    // SAFETY: the caller's.
    unsafe {
        match &form.kind {
            Kind::Run => {
                kernels::run::<PACK>(mem, stream.at, form.size as usize, how);
                stream.advance(form.size);
            }
            Kind::Loop { count, stride, body } => {
                looped::<PACK>(*count, *stride, body, mem, stream, how);
            }
            Kind::Blocks { at, body } => {
                if let Kind::Run = body.kind {
                    let len = body.size as usize;
                    kernels::equal_runs::<PACK>(
                        mem,
                        stream.at,
                        Dim::ONE,
                        len,
                        at,
                        0..at.len(),
                        how,
                    );
                    stream.advance(form.size);
                } else {
                    for offset in at.iter() {
                        whole::<PACK>(body, mem.wrapping_offset(offset as isize), stream, how);
                    }
                }
            }
            Kind::Runs(runs) => {
                kernels::runs::<PACK>(mem, stream.at, Dim::ONE, runs, how);
                stream.advance(form.size);
            }
            Kind::Parts(parts) => {
                for part in parts {
                    whole::<PACK>(
                        &part.form,
                        mem.wrapping_offset(part.offset as isize),
                        stream,
                        how,
                    );
                }
            }
        }
    }
}

/// Copies so many rounds of a loop: at once where it is a nest down to a run.
///
/// # Safety
/// As [`whole`].
unsafe fn looped<const PACK: bool>(
    count: u64,
    stride: i64,
    body: &Form,
    mem: *mut u8,
    stream: &mut Stream,
    how: &How,
) {
    let rounds = Dim { count: count as usize, stride: stride as isize };
    // SAFETY: the caller's.
    unsafe {
        match &body.kind {
            Kind::Blocks { at, body: run } if matches!(run.kind, Kind::Run) => {
                let (len, all) = (run.size as usize, 0..at.len());
                kernels::equal_runs::<PACK>(mem, stream.at, rounds, len, at, all, how);
                stream.advance(count * body.size);
                return;
            }
            Kind::Runs(runs) => {
                kernels::runs::<PACK>(mem, stream.at, rounds, runs, how);
                stream.advance(count * body.size);
                return;
            }
            _ => {}
        }
    }
    let mut dims = [Dim::ONE; DEEPEST];
    dims[0] = rounds;
    let (mut depth, mut inner) = (1, body);
    while let Kind::Loop { count, stride, body } = &inner.kind
        && depth < DEEPEST
    {
        dims[depth] = Dim { count: *count as usize, stride: *stride as isize };
        (depth, inner) = (depth + 1, &**body);
    }
    // SAFETY: the caller's.
    unsafe {
        if let Kind::Run = inner.kind {
            kernels::nest::<PACK>(mem, stream.at, inner.size as usize, &dims[..depth], how);
            stream.advance(count * body.size);
        } else {
            for i in 0..count {
                whole::<PACK>(body, mem.wrapping_offset((i as i64 * stride) as isize), stream, how);
            }
        }
    }
}
