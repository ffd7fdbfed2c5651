//! One square of a matrix, a line's elements wide, by the instructions there are.

use super::line::{LINE, Word, load, store, write_line};
use super::rows::Rows;
use super::{Level, Set};
#[cfg(all(target_arch = "x86_64", not(miri)))]
use super::{avx2, avx512};
use std::ops::Range;

/// The rows and the columns of a matrix, numbered from the beginnings of lines of both sides.
pub(super) struct Within {
    pub(super) rows: Span,
    pub(super) columns: Span,
}

/// Those from `start` on, before `end`.
pub(super) struct Span {
    pub(super) start: usize,
    pub(super) end: usize,
}

impl Span {
    /// Those that whole squares of `n` have.
    #[inline(always)]
    pub(super) fn whole(&self, n: usize) -> Range<usize> {
        self.start.next_multiple_of(n)..self.end / n * n
    }

    /// Returns true if a square of `n` from `at` on lies within.
    #[inline(always)]
    pub(super) fn has(&self, at: usize, n: usize) -> bool {
        self.start <= at && at + n <= self.end
    }
}

impl Within {
    /// Returns true if the square at this row and column is whole.
    #[inline(always)]
    pub(super) fn has(&self, row: usize, column: usize, n: usize) -> bool {
        self.rows.has(row, n) && self.columns.has(column, n)
    }
}

/// Returns true if squares are AVX-512's: one instruction writes a line.
#[inline(always)]
pub(super) fn by_whole_lines<S: Set, W: Word>() -> bool {
    S::LEVEL == Level::Avx512 && W::SIZE >= 2
}

/// What is within the matrix of the square at this row and column.
///
/// # Safety
/// As [`transpose`]; the matrix has as many rows and columns as a square.
#[inline(always)]
pub(super) unsafe fn part<S: Set, W: Word>(
    from: Rows,
    to: Rows,
    Within { rows, columns }: &Within,
    (row, column): (usize, usize),
) {
    let n = LINE / W::SIZE;
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if by_whole_lines::<S, W>() {
        let rows = rows.start.max(row)..rows.end.min(row + n);
        let columns = columns.start.max(column)..columns.end.min(column + n);
        // SAFETY: [MEM]; the instructions are there.
        return unsafe { avx512::part::<W>(from, to, rows, columns) };
    }
    // (The nearest square that is whole has all of it, and what others copy, too.)
    let row = row.clamp(rows.start, rows.end - n);
    let column = column.clamp(columns.start, columns.end - n);
    let (a, b) = (from.element::<W>(row, column), to.element::<W>(column, row));
    // SAFETY: [MEM].
    unsafe { square::<S, W, false>(a, from.stride, b, to.stride) };
}

/// One square: as many rows and columns as a line has elements. Returns where the next of
/// the diagonal is on both sides.
///
/// (Where nothing is optimized a caller's frame would hold each inlined copy's lines: more
/// than a thread's stack.)
///
/// # Safety
/// [MEM] as [`transpose`].
#[cfg_attr(debug_assertions, inline(never))]
#[cfg_attr(not(debug_assertions), inline(always))]
pub(super) unsafe fn square<S: Set, W: Word, const STREAM: bool>(
    mut from: *mut u8,
    from_stride: isize,
    mut to: *mut u8,
    to_stride: isize,
) -> (*mut u8, *mut u8) {
    let n = LINE / W::SIZE;
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if by_whole_lines::<S, W>() {
        // SAFETY: [MEM]; the instructions are there.
        return unsafe { avx512::square::<S, W, STREAM>(from, from_stride, to, to_stride) };
    }
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if S::LEVEL > Level::Portable {
        // SAFETY: [MEM]; the instructions are there.
        return unsafe { avx2::square::<W, STREAM>(from, from_stride, to, to_stride) };
    }
    let _ = Level::Portable;
    for _ in 0..n {
        let mut line = [0u64; 8];
        let words = line.as_mut_ptr().cast::<u8>();
        let mut at = from;
        for row in 0..n {
            // SAFETY: [MEM]; a line's words are 64 bytes.
            unsafe { store::<W>(words.add(row * W::SIZE), load(at)) };
            at = at.wrapping_offset(from_stride);
        }
        // SAFETY: [MEM].
        unsafe { write_line::<S, STREAM>(to, line) };
        (from, to) = (from.wrapping_add(W::SIZE), to.wrapping_offset(to_stride));
    }
    (from.wrapping_offset(n as isize * from_stride), to.wrapping_add(LINE))
}
