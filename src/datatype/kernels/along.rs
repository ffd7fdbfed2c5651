//! Squares of a matrix along its rows, a page of each at a time, for matrices of more
//! pages than the TLB has: the processor's prefetcher follows the rows, and each page is
//! looked up once for all of its lines.

use super::Set;
use super::line::{LINE, Word, load, write_line};
use super::rows::Rows;
use super::square::{Within, by_whole_lines, part, square};

/// Bytes of a row that are taken at a time: the prefetcher follows no further.
const PAGE: usize = 4096;

/// Columns that are taken at a time, at most.
const COLUMNS: usize = 512;

/// Columns of elements of so many bytes that are taken at a time.
pub(in super::super) fn columns(size: usize) -> usize {
    (PAGE / size).min(COLUMNS)
}

/// Lines of a row of `to` that are put together before they go past the caches where two
/// instructions write one: single ones, each in another page, take twice as long so. With one
/// instruction for each they are written as they come.
pub(in super::super) const TOGETHER: usize = 8;

/// Lines from one row of what is put together to the next: an odd number, so that the
/// rows' first lines lie in different sets of the caches.
const APART: usize = TOGETHER + 1;

/// Writes element (r, c) of `from` to (c, r) of `to`, lines past the caches where
/// `STREAM`; returns false, and has written nothing, where there is no memory to put
/// them together in. Rows and columns are numbered from the beginnings of lines,
/// [`Within`] has those of the matrix.
///
/// # Safety
/// [MEM] all elements of the matrix can be read, those of `to` written, and they are
/// apart from each other; [ALIGNED] lines of `to` begin there if `STREAM`.
#[inline(always)]
pub(super) unsafe fn along<S: Set, W: Word, const STREAM: bool>(
    from: Rows,
    to: Rows,
    within: &Within,
) -> bool {
    let n = LINE / W::SIZE;
    let width = columns(W::SIZE);
    let staged = STREAM && !by_whole_lines::<S, W>();
    let mut stage = Vec::<Line>::new();
    if staged && stage.try_reserve_exact(width * APART).is_err() {
        return false;
    }
    let together =
        Rows { at: stage.as_mut_ptr().cast(), stride: (APART * LINE) as isize, count: width };
    let (rows, across) = (within.rows.whole(n), within.columns.whole(n));
    let (down, right) =
        (within.rows.end.next_multiple_of(n), within.columns.end.next_multiple_of(n));
    let height = if staged { TOGETHER * n } else { down };
    for left in (0..right).step_by(width) {
        let end = right.min(left + width);
        let (first, last) = (across.start.max(left), across.end.min(end));
        for top in (0..down).step_by(height) {
            let bottom = down.min(top + height);
            for row in (top..bottom).step_by(n) {
                let whole = rows.start <= row && row < rows.end;
                let (first, last) = if whole { (first, last) } else { (end, end) };
                // SAFETY: [MEM]: of what is no whole square, what is within the matrix;
                // those that are put together are as many as there is memory for.
                unsafe {
                    for column in (left..first).step_by(n) {
                        part::<S, W>(from, to, within, (row, column));
                    }
                    let mut a = from.element::<W>(row, first);
                    let (mut b, stride) = if staged {
                        (together.element::<W>(first - left, row - top), together.stride)
                    } else {
                        (to.element::<W>(first, row), to.stride)
                    };
                    for _ in (first..last).step_by(n) {
                        // (Where the next of the row is, not of the diagonal.)
                        (_, b) = if STREAM && !staged {
                            square::<S, W, true>(a, from.stride, b, stride)
                        } else {
                            square::<S, W, false>(a, from.stride, b, stride)
                        };
                        b = b.wrapping_sub(LINE);
                        a = a.wrapping_add(LINE);
                    }
                    for column in (last..end).step_by(n) {
                        part::<S, W>(from, to, within, (row, column));
                    }
                }
            }
            let (top_line, lines) = (rows.start.max(top), rows.end.min(bottom));
            let lines = if staged { lines.saturating_sub(top_line) / n } else { 0 };
            for column in first..last.max(first) {
                let a = together.element::<W>(column - left, top_line - top);
                let b = to.element::<W>(column, top_line);
                for at in (0..lines * LINE).step_by(LINE) {
                    // SAFETY: [MEM], [ALIGNED]: the whole squares above wrote these lines.
                    unsafe { write_line::<S, true>(b.add(at), load(a.add(at))) };
                }
            }
        }
    }
    true
}

/// A line of the cache.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u64; 8]);
