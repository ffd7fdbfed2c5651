//! Matrices whose rows become columns.

use super::along::along;
use super::line::{LINE, Word, apart, load, store};
use super::rows::Rows;
use super::square::{Span, Within, part, square};
use super::{Level, Plan, Set};
use std::ops::Range;

/// Lines of a band of columns: few enough that lines which lie in two squares stay in the
/// first cache up to the next diagonal, and the other side's pages in the TLB.
pub(in super::super) const BAND: usize = 16;

/// The same where each line lies in one square and both sides go through the caches: longer
/// diagonals are begun more rarely.
const WIDE: usize = 64;

/// Bytes of a matrix up to which its lines come from the caches before they are waited for.
const SMALL: usize = 4 << 20;

/// Lines of a row from which on squares lie between lines: what is left at either end
/// is no whole square.
const MANY: usize = 8;

/// How many lines of a side are asked for ahead of their use.
const NEAR: usize = 48;

/// How many lines of `from` are asked for into the second cache where `to` goes past
/// the caches: of those more can be under way.
const FAR: usize = 192;

/// Columns, or rows, that are copied at a time where there is no square.
const THIN: usize = 512;

/// Writes element (r, c) of `from` to (c, r) of `to`; each has as many rows as the
/// other has columns.
///
/// Squares of a line's elements are transposed in registers. They lie between the
/// lines of a side whose rows are whole lines apart, and [`Squares`] has their order.
/// Lines of `to` go past the caches where they are whole: put together in the first
/// cache before, they take longer than through it.
///
/// # Safety
/// [MEM] all elements of `from` can be read, those of `to` written, and they are
/// apart from each other.
#[inline(always)]
pub(super) unsafe fn transpose<S: Set, W: Word>(from: Rows, to: Rows, plan: &Plan) {
    let aligned = to.stride % LINE as isize == 0 && to.at.align_offset(W::SIZE) == 0;
    // SAFETY: [MEM].
    unsafe {
        if plan.streaming && aligned {
            walk::<S, W, true>(from, to, plan);
        } else {
            walk::<S, W, false>(from, to, plan);
        }
    }
}

/// Squares of a matrix in the order in which they are copied: tiles of rows, in these
/// bands of columns, in these diagonals.
///
/// Along a diagonal both sides go on to the next line with each square: down a row or
/// a column, lines a power of two apart would meet in a few sets of the first cache
/// and drive each other out.
#[derive(Clone, Copy)]
struct Squares {
    /// Elements of a side; multiples of it are all rows, those of a tile, all columns, those
    /// of a band.
    side: usize,
    rows: usize,
    tile: usize,
    columns: usize,
    band: usize,
    /// The tile and the band.
    top: usize,
    bottom: usize,
    left: usize,
    right: usize,
    /// The row that the diagonal began with.
    start: usize,
    /// The next square, and how many there are from it on before the diagonal ends or goes
    /// on at the top; 0 at the end of the matrix.
    row: usize,
    column: usize,
    count: usize,
}

impl Squares {
    #[inline(always)]
    fn new(side: usize, rows: usize, tile: usize, columns: usize, band: usize) -> Squares {
        let (tile, band) = (even(rows, tile, side), even(columns, band, side));
        let (top, left, start, row, column) = (0, 0, 0, 0, 0);
        let count = tile.min(band) / side;
        let (bottom, right) = (tile, band);
        Squares {
            side,
            rows,
            tile,
            columns,
            band,
            top,
            bottom,
            left,
            right,
            start,
            row,
            column,
            count,
        }
    }

    /// Goes on by so many squares, `count` at most.
    #[inline(always)]
    fn advance(&mut self, squares: usize) {
        self.row += squares * self.side;
        self.column += squares * self.side;
        self.count -= squares;
        if self.count == 0 {
            self.next_stretch();
        }
    }

    /// So many squares later.
    fn after(mut self, mut squares: usize) -> Squares {
        while squares > 0 && self.count > 0 {
            let some = squares.min(self.count);
            self.advance(some);
            squares -= some;
        }
        self
    }

    /// Goes on at the top, or with the next diagonal.
    #[inline(never)]
    fn next_stretch(&mut self) {
        self.row = self.top;
        if self.column == self.right {
            self.start += self.side;
            if self.start == self.bottom {
                self.left = self.right;
                if self.left == self.columns {
                    self.left = 0;
                    self.top = self.bottom;
                    self.bottom = (self.top + self.tile).min(self.rows);
                }
                self.right = (self.left + self.band).min(self.columns);
                self.start = self.top;
            }
            (self.row, self.column) = (self.start, self.left);
        }
        self.count = (self.bottom - self.row).min(self.right - self.column) / self.side;
    }
}

/// The length of pieces of `all` that are as many as those of `most` would be, but none much
/// shorter than others; multiples of `side`.
#[inline(always)]
fn even(all: usize, most: usize, side: usize) -> usize {
    let pieces = all.div_ceil(most.max(side) / side * side);
    all.div_ceil(pieces * side) * side
}

/// Where squares are that are asked for next, if there are some: on both sides, and of
/// `from` into the second cache.
struct Ahead {
    from: Rows,
    to: Rows,
    asks: bool,
    near: (*mut u8, *mut u8),
    asks_far: bool,
    far: *mut u8,
}

impl Ahead {
    /// Asks for them, and goes on to the next of their diagonals.
    #[inline(always)]
    fn ask<W: Word, const STREAM: bool>(&mut self) {
        if self.asks {
            self.near.0 = self.from.ask::<W, false>(self.near.0);
            if !STREAM {
                self.near.1 = self.to.ask::<W, false>(self.near.1);
            }
        }
        if STREAM && self.asks_far {
            self.far = self.from.ask::<W, true>(self.far);
        }
    }
}

/// Square by square, those ahead asked for; to lines past the caches where `STREAM`.
///
/// # Safety
/// As [`transpose`]; [ALIGNED] rows of `to` are whole lines apart if `STREAM`, and
/// elements multiples of their size.
#[inline(always)]
unsafe fn walk<S: Set, W: Word, const STREAM: bool>(from: Rows, to: Rows, plan: &Plan) {
    let n = LINE / W::SIZE;
    // Elements of the first line before the matrix.
    let above = if STREAM || from.count >= MANY * n { to.before::<W>() } else { 0 };
    let beside = if to.count >= MANY * n { from.before::<W>() } else { 0 };
    let within = Within {
        rows: Span { start: above, end: above + from.count },
        columns: Span { start: beside, end: beside + to.count },
    };
    let (rows, columns) = (&within.rows, &within.columns);
    if !within.has(rows.start.next_multiple_of(n), columns.start.next_multiple_of(n), n) {
        // SAFETY: [MEM].
        return unsafe { thin::<W>(from, to) };
    }
    // Numbered from the beginning of these lines.
    let (from, to) = (from.back::<W>(above, beside), to.back::<W>(beside, above));
    // SAFETY: [MEM], [ALIGNED].
    if plan.along && unsafe { along::<S, W, STREAM>(from, to, &within) } {
        return;
    }
    let places = |row, column| (from.element::<W>(row, column), to.element::<W>(column, row));
    let lined = (from.stride | to.stride) % LINE as isize == 0;
    let band = if lined && !STREAM { WIDE } else { BAND };
    let (down, right) = (rows.end.next_multiple_of(n), columns.end.next_multiple_of(n));
    let mut now = Squares::new(n, down, plan.tile, right, band * n);
    let none = Squares { count: 0, ..now };
    let (mut near, mut far) = (none, none);
    // (Instructions that ask are a third of those that copy a square by halves of lines.)
    let small = S::LEVEL < Level::Avx512 && from.count * to.count * W::SIZE <= SMALL;
    let asks = plan.prefetch && !small;
    if asks {
        near = now.after(NEAR.div_ceil(n));
    }
    if asks && STREAM {
        far = now.after(FAR.div_ceil(n));
    }
    while now.count > 0 {
        let (asks, asks_far) = (near.count > 0, far.count > 0);
        let mut count = now.count;
        if asks {
            count = count.min(near.count);
        }
        if asks_far {
            count = count.min(far.count);
        }
        let end = ((count - 1) * n + now.row, (count - 1) * n + now.column);
        // (Only the first and the last of a diagonal may be no whole squares.)
        let first = !within.has(now.row, now.column, n);
        let last = count > 1 && !within.has(end.0, end.1, n);
        let begin = usize::from(first) * n;
        let (mut a, mut b) = places(now.row + begin, now.column + begin);
        let (near_a, near_b) = places(near.row, near.column);
        let (far_a, _) = places(far.row, far.column);
        let mut ahead = Ahead { from, to, asks, near: (near_a, near_b), asks_far, far: far_a };
        // SAFETY: [MEM]: of what is no whole square, what is within the matrix; [ALIGNED]:
        // squares begin where lines of `to` do.
        unsafe {
            if first {
                ahead.ask::<W, STREAM>();
                part::<S, W>(from, to, &within, (now.row, now.column));
            }
            for _ in usize::from(first) + usize::from(last)..count {
                ahead.ask::<W, STREAM>();
                (a, b) = square::<S, W, STREAM>(a, from.stride, b, to.stride);
            }
            if last {
                ahead.ask::<W, STREAM>();
                part::<S, W>(from, to, &within, end);
            }
        }
        now.advance(count);
        if asks {
            near.advance(count);
        }
        if asks_far {
            far.advance(count);
        }
    }
}

/// A matrix of fewer rows or columns than a square's.
///
/// # Safety
/// As [`transpose`].
#[inline(always)]
unsafe fn thin<W: Word>(from: Rows, to: Rows) {
    let (rows, columns) = (from.count, to.count);
    for row in (0..rows).step_by(THIN) {
        for column in (0..columns).step_by(THIN) {
            let (end, last) = ((row + THIN).min(rows), (column + THIN).min(columns));
            // SAFETY: [MEM].
            unsafe { plain::<W>(from, to, row..end, column..last) };
        }
    }
}

/// Element by element, the longer way innermost.
///
/// # Safety
/// As [`transpose`].
#[inline(always)]
unsafe fn plain<W: Word>(from: Rows, to: Rows, rows: Range<usize>, columns: Range<usize>) {
    let (a, b) =
        (from.element::<W>(rows.start, columns.start), to.element::<W>(columns.start, rows.start));
    // SAFETY: [MEM], for both.
    unsafe {
        if rows.len() < columns.len() {
            lines::<W>(
                a,
                (from.stride, W::SIZE as isize),
                b,
                (W::SIZE as isize, to.stride),
                rows.len(),
                columns.len(),
            );
        } else {
            lines::<W>(
                a,
                (W::SIZE as isize, from.stride),
                b,
                (to.stride, W::SIZE as isize),
                columns.len(),
                rows.len(),
            );
        }
    }
}

/// `outer` times `inner` elements, so many bytes apart on each side.
///
/// # Safety
/// [MEM] the elements can be read on the one side and written on the other, which are
/// apart.
#[inline(always)]
unsafe fn lines<W: Word>(
    mut from: *const u8,
    from_strides: (isize, isize),
    mut to: *mut u8,
    to_strides: (isize, isize),
    outer: usize,
    inner: usize,
) {
    for _ in 0..outer {
        let (mut a, mut b) = (from, to);
        for _ in 0..inner {
            apart();
            // SAFETY: [MEM].
            unsafe { store::<W>(b, load(a)) };
            a = a.wrapping_offset(from_strides.1);
            b = b.wrapping_offset(to_strides.1);
        }
        from = from.wrapping_offset(from_strides.0);
        to = to.wrapping_offset(to_strides.0);
    }
}
