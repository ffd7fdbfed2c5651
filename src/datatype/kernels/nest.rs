//! Runs of one length at the places of nested loops.

use super::line::copy;
use super::rows::Rows;
use super::table::{SMALL, few};
use super::transpose::transpose;
use super::words::{Rounds, SHORT, Strided, by_width};
use super::{DEEPEST, Dim, Plan, Set, dispatch};

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

// (A call of its own, as it needs room on the stack that other nests do not.)
dispatch! {
    #[inline(never)]
    unsafe fn matrix<const PACK: bool>(
        mem: *mut u8, stream: *mut u8, len: usize, inner: Dim, columns: usize, apart: isize
    ) => transposed
}

/// # Safety
/// As [`body`] with a nest of one run.
#[inline(always)]
unsafe fn one<S: Set, const PACK: bool>(mem: *mut u8, stream: *mut u8, len: usize, plan: &Plan) {
    let (from, to) = if PACK { (mem, stream) } else { (stream, mem) };
    // SAFETY: the caller's.
    unsafe {
        if plan.streaming {
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
    plan: &Plan,
) {
    let Some((&inner, outer)) = dims.split_last() else {
        // SAFETY: the caller's.
        return unsafe { one::<S, PACK>(mem, stream, len, plan) };
    };
    let contiguous = |dim: &Dim| dim.stride == len as isize && dim.count > 1;
    let unit = outer
        .iter()
        .position(contiguous)
        .filter(|_| plan.tile > 0 && matches!(len, 1 | 2 | 4 | 8 | 16) && inner.count > 1);
    // The two innermost loops go at once; a few runs in many rounds are a table in a loop.
    let (rounds, outer) = match outer.split_last() {
        Some((&rounds, outer)) if unit.is_none() => (rounds, outer),
        _ => (Dim::ONE, outer),
    };
    let small = rounds.count > 1 && inner.count <= SMALL && len <= SHORT;
    if outer.is_empty() && !small {
        // SAFETY: the caller's.
        return unsafe { strided::<S, PACK>(mem, stream, len, inner, rounds, plan) };
    }
    let mut offsets = [0; SMALL];
    let offsets = &mut offsets[..if small { inner.count } else { 0 }];
    for (i, offset) in offsets.iter_mut().enumerate() {
        *offset = inner.stride.wrapping_mul(i as isize);
    }
    // Loops around what is copied at once.
    let mut around = [Dim::ONE; DEEPEST];
    let mut steps = [0; DEEPEST];
    let (mut step, mut depth) = (len * inner.count * rounds.count, outer.len());
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
    let mut places = Around::new(&around[loops.clone()], &steps[loops], mem, stream);
    // (No closure: it would be compiled without the set's instructions.)
    while let Some((mem, stream)) = places.next() {
        // SAFETY: the caller's: every place is one of the nest's.
        unsafe {
            match unit {
                Some((columns, apart)) => {
                    matrix::<PACK>(mem, stream, len, inner, columns, apart, plan);
                }
                None if small => few::<S, PACK>(mem, stream, rounds, len, offsets),
                None => strided::<S, PACK>(mem, stream, len, inner, rounds, plan),
            }
        }
    }
}

/// The places of nested loops in memory and in the stream.
struct Around<'a> {
    dims: &'a [Dim],
    steps: &'a [usize],
    at: [usize; DEEPEST],
    next: Option<(*mut u8, *mut u8)>,
}

impl<'a> Around<'a> {
    #[inline(always)]
    fn new(dims: &'a [Dim], steps: &'a [usize], mem: *mut u8, stream: *mut u8) -> Self {
        Around { dims, steps, at: [0; DEEPEST], next: Some((mem, stream)) }
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
unsafe fn transposed<S: Set, const PACK: bool>(
    mem: *mut u8,
    stream: *mut u8,
    len: usize,
    inner: Dim,
    columns: usize,
    apart: isize,
    plan: &Plan,
) {
    let mem = Rows { at: mem, stride: inner.stride, count: inner.count };
    let stream = Rows { at: stream, stride: apart, count: columns };
    let (from, to) = if PACK { (mem, stream) } else { (stream, mem) };
    // SAFETY: the caller's.
    unsafe {
        match len {
            1 => transpose::<S, u8>(from, to, plan),
            2 => transpose::<S, u16>(from, to, plan),
            4 => transpose::<S, u32>(from, to, plan),
            8 => transpose::<S, u64>(from, to, plan),
            _ => transpose::<S, [u64; 2]>(from, to, plan),
        }
    }
}

/// Runs one stride apart, in rounds.
///
/// # Safety
/// As [`body`].
#[inline(always)]
unsafe fn strided<S: Set, const PACK: bool>(
    mem: *mut u8,
    stream: *mut u8,
    len: usize,
    inner: Dim,
    rounds: Dim,
    plan: &Plan,
) {
    let places = Strided { mem, stride: inner.stride };
    let all = Rounds { stream, step: len, count: inner.count, rounds };
    // SAFETY: the caller's.
    unsafe { by_width::<S, _, PACK>(places, all, len, plan) };
}
