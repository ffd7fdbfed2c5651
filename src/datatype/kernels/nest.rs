//! Runs of one length at the places of nested loops.

use super::line::{LINE, Word, copy, copy_short, load, prefetch, store, write_line};
use super::transpose::{Rows, transpose};
use super::{DEEPEST, Dim, How, Set, dispatch};

dispatch! {
    pub(in super::super) unsafe fn nest<const PACK: bool>(
        mem: *mut u8, stream: *mut u8, len: usize, dims: &[Dim]
    ) => body
}

dispatch! {
    pub(in super::super) unsafe fn run<const PACK: bool>(
        mem: *mut u8, stream: *mut u8, len: usize
    ) => one
}

/// # Safety
/// As [`body`] with a nest of one run.
#[inline(always)]
unsafe fn one<S: Set, const PACK: bool>(mem: *mut u8, stream: *mut u8, len: usize, how: &How) {
    let (from, to) = if PACK { (mem, stream) } else { (stream, mem) };
    // SAFETY: the caller's.
    unsafe {
        if how.streaming {
            copy::<S, true>(from, to, len);
        } else {
            copy::<S, false>(from, to, len);
        }
    }
}

/// Copies all runs of a nest, the outermost loop first, between memory and the
/// stream, where they are one behind the other.
///
/// A loop that walks along contiguous elements outside of the innermost one makes
/// the nest a set of matrices to transpose.
///
/// # Safety
/// [MEM] every run of `len` bytes of the nest lies in memory that the caller may
/// read (write if not `PACK`), and the stream has room for (has) all of them.
#[inline(always)]
unsafe fn body<S: Set, const PACK: bool>(
    mem: *mut u8,
    stream: *mut u8,
    len: usize,
    dims: &[Dim],
    how: &How,
) {
    let Some((&inner, outer)) = dims.split_last() else {
        // SAFETY: the caller's.
        return unsafe { one::<S, PACK>(mem, stream, len, how) };
    };
    let contiguous = |dim: &Dim| dim.stride == len as isize && dim.count > 1;
    let unit = outer
        .iter()
        .position(contiguous)
        .filter(|_| matches!(len, 1 | 2 | 4 | 8 | 16) && inner.count > 1);
    // Loops around what is copied at once.
    let mut around = [Dim::ONE; DEEPEST];
    let mut steps = [0; DEEPEST];
    let (mut step, mut depth) = (len * inner.count, outer.len());
    for (i, dim) in outer.iter().enumerate().rev() {
        if Some(i) != unit {
            depth -= 1;
            (around[depth], steps[depth]) = (*dim, step);
        }
        step *= dim.count;
    }
    let loops = depth..outer.len();
    let unit = unit.map(|i| {
        let behind: usize = outer[i + 1..].iter().map(|dim| dim.count).product();
        (outer[i].count, (len * inner.count * behind) as isize)
    });
    let mut places = Places::new(&around[loops.clone()], &steps[loops], mem, stream);
    // (No closure: it would be compiled without the set's instructions.)
    while let Some((mem, stream)) = places.next() {
        // SAFETY: the caller's: every place is one of the nest's.
        unsafe {
            match unit {
                Some((columns, apart)) => {
                    matrix::<S, PACK>(mem, stream, len, inner, columns, apart, how);
                }
                None => strided::<S, PACK>(mem, stream, len, inner, how),
            }
        }
    }
}

/// The places of nested loops in memory and in the stream.
struct Places<'a> {
    dims: &'a [Dim],
    steps: &'a [usize],
    at: [usize; DEEPEST],
    next: Option<(*mut u8, *mut u8)>,
}

impl<'a> Places<'a> {
    #[inline(always)]
    fn new(dims: &'a [Dim], steps: &'a [usize], mem: *mut u8, stream: *mut u8) -> Self {
        Places { dims, steps, at: [0; DEEPEST], next: Some((mem, stream)) }
    }

    #[inline(always)]
    fn next(&mut self) -> Option<(*mut u8, *mut u8)> {
        let now = self.next?;
        let (mut mem, mut stream) = now;
        self.next = None;
        for i in (0..self.dims.len()).rev() {
            let (dim, step) = (self.dims[i], self.steps[i]);
            self.at[i] += 1;
            mem = mem.wrapping_offset(dim.stride);
            stream = stream.wrapping_add(step);
            if self.at[i] < dim.count {
                self.next = Some((mem, stream));
                break;
            }
            self.at[i] = 0;
            mem = mem.wrapping_offset(-(dim.stride * dim.count as isize));
            stream = stream.wrapping_sub(step * dim.count);
        }
        Some(now)
    }
}

/// A matrix: `inner` goes from row to row in memory, `columns` elements a row are
/// contiguous there and `apart` bytes apart in the stream.
///
/// # Safety
/// As [`body`].
#[inline(always)]
unsafe fn matrix<S: Set, const PACK: bool>(
    mem: *mut u8,
    stream: *mut u8,
    len: usize,
    inner: Dim,
    columns: usize,
    apart: isize,
    how: &How,
) {
    let mem = Rows { at: mem, stride: inner.stride, count: inner.count };
    let stream = Rows { at: stream, stride: apart, count: columns };
    let (from, to) = if PACK { (mem, stream) } else { (stream, mem) };
    // SAFETY: the caller's.
    unsafe {
        match len {
            1 => transpose::<S, u8>(from, to, how),
            2 => transpose::<S, u16>(from, to, how),
            4 => transpose::<S, u32>(from, to, how),
            8 => transpose::<S, u64>(from, to, how),
            _ => transpose::<S, [u64; 2]>(from, to, how),
        }
    }
}

/// Runs one stride apart.
///
/// # Safety
/// As [`body`].
#[inline(always)]
unsafe fn strided<S: Set, const PACK: bool>(
    mem: *mut u8,
    stream: *mut u8,
    len: usize,
    dim: Dim,
    how: &How,
) {
    // SAFETY: the caller's.
    unsafe {
        match len {
            1 => words::<S, u8, PACK>(mem, stream, dim, how),
            2 => words::<S, u16, PACK>(mem, stream, dim, how),
            4 => words::<S, u32, PACK>(mem, stream, dim, how),
            8 => words::<S, u64, PACK>(mem, stream, dim, how),
            16 => words::<S, [u64; 2], PACK>(mem, stream, dim, how),
            32 => words::<S, [u64; 4], PACK>(mem, stream, dim, how),
            0..64 => {
                for i in 0..dim.count {
                    let mem = mem.wrapping_offset(i as isize * dim.stride);
                    let stream = stream.wrapping_add(i * len);
                    let (from, to) = if PACK { (mem, stream) } else { (stream, mem) };
                    copy_short(from, to, len);
                }
            }
            _ => blocks::<S, PACK>(mem, stream, len, dim, how),
        }
    }
}

/// Runs of a line and more.
///
/// # Safety
/// As [`body`].
#[inline(always)]
unsafe fn blocks<S: Set, const PACK: bool>(
    mem: *mut u8,
    stream: *mut u8,
    len: usize,
    dim: Dim,
    how: &How,
) {
    if PACK && how.streaming && len < 16 * LINE {
        // SAFETY: the caller's.
        return unsafe { lines::<S>(mem, stream, len, dim) };
    }
    for i in 0..dim.count {
        let mem = mem.wrapping_offset(i as isize * dim.stride);
        let stream = stream.wrapping_add(i * len);
        let (from, to) = if PACK { (mem, stream) } else { (stream, mem) };
        // SAFETY: the caller's.
        unsafe {
            if how.streaming && len >= 16 * LINE {
                copy::<S, true>(from, to, len);
            } else {
                std::ptr::copy_nonoverlapping(from, to, len);
            }
        }
    }
}

/// Packs runs of a line and more in whole lines of the stream, wherever these
/// begin and end within runs.
///
/// # Safety
/// As [`body`]; `len` is a line or more.
#[inline(always)]
unsafe fn lines<S: Set>(mem: *mut u8, stream: *mut u8, len: usize, dim: Dim) {
    let total = len * dim.count;
    let place = |i: usize| mem.wrapping_offset(i as isize * dim.stride).cast_const();
    let line = |from: *const u8| -> [u64; 8] {
        // SAFETY: the caller's: within a run.
        unsafe { from.cast::<[u64; 8]>().read_unaligned() }
    };
    let head = stream.align_offset(LINE).min(total);
    // (A line before it, the line, and what is copied beyond.)
    let mut joint = [[0u64; 8]; 3];
    let joint = joint.as_mut_ptr().cast::<u8>();
    let (mut run, mut within, mut at) = (0, head, head);
    // SAFETY: the caller's: runs are a line at least, so a line lies in two of
    // them at most, the second of which is there as the stream has the line.
    unsafe {
        std::ptr::copy_nonoverlapping(place(0), stream, head);
        while at + LINE <= total {
            if within >= len {
                (run, within) = (run + 1, within - len);
            }
            let from = place(run);
            prefetch(from.wrapping_offset(4 * dim.stride).wrapping_add(within));
            let left = len - within;
            let whole = if left >= LINE {
                line(from.add(within))
            } else {
                store::<[u64; 8]>(joint.add(left), line(from.add(len - LINE)));
                store::<[u64; 8]>(joint.add(LINE + left), line(place(run + 1)));
                line(joint.add(LINE))
            };
            write_line::<S, true>(stream.add(at), whole);
            (within, at) = (within + LINE, at + LINE);
        }
        // What is left of the last run.
        if at < total {
            let from = place(dim.count - 1).add(len - (total - at));
            std::ptr::copy_nonoverlapping(from, stream.add(at), total - at);
        }
    }
}

/// Single elements one stride apart.
///
/// # Safety
/// As [`body`].
#[inline(always)]
unsafe fn words<S: Set, W: Word, const PACK: bool>(
    mem: *mut u8,
    stream: *mut u8,
    dim: Dim,
    how: &How,
) {
    // The commonest strides are constants, for which there are shuffles.
    // SAFETY: the caller's.
    unsafe {
        if dim.stride == 2 * W::SIZE as isize {
            elements::<S, W, PACK>(mem, stream, dim.count, 2 * W::SIZE as isize, how);
        } else {
            elements::<S, W, PACK>(mem, stream, dim.count, dim.stride, how);
        }
    }
}

/// # Safety
/// As [`body`].
#[inline(always)]
unsafe fn elements<S: Set, W: Word, const PACK: bool>(
    mem: *mut u8,
    stream: *mut u8,
    count: usize,
    stride: isize,
    how: &How,
) {
    let n = LINE / W::SIZE;
    let place = |i: usize| mem.wrapping_offset(i as isize * stride);
    // Neighbours beyond a quarter of a page have no prefetcher of their own.
    let far = how.ahead && stride.unsigned_abs() >= 1024;
    let mut i = 0;
    // SAFETY: the caller's; elements before `i` are done.
    unsafe {
        if PACK && how.streaming && stream.align_offset(W::SIZE) == 0 {
            let lead = (stream.align_offset(LINE) / W::SIZE).min(count);
            while i < lead {
                store::<W>(stream.add(i * W::SIZE), load(place(i)));
                i += 1;
            }
            while i + n <= count {
                let mut line = [0u64; 8];
                let words = line.as_mut_ptr().cast::<u8>();
                for k in 0..n {
                    if far {
                        prefetch(place(i + k + n));
                    }
                    store::<W>(words.add(k * W::SIZE), load(place(i + k)));
                }
                write_line::<S, true>(stream.add(i * W::SIZE), line);
                i += n;
            }
        }
        while i < count {
            let at = stream.add(i * W::SIZE);
            if far {
                prefetch(place(i + n));
            }
            let (from, to) = if PACK { (place(i), at) } else { (at, place(i)) };
            store::<W>(to, load(from));
            i += 1;
        }
    }
}
