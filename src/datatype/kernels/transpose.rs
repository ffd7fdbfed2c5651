//! Matrices whose rows become columns.

use super::line::{LINE, Word, apart, load, prefetch, prefetch_far, store, write_line};
use super::{Level, Plan, Set};
use std::ops::Range;

/// A matrix in memory: `count` lines, `stride` bytes apart, of contiguous elements.
#[derive(Clone, Copy)]
pub(super) struct Rows {
    pub(super) at: *mut u8,
    pub(super) stride: isize,
    pub(super) count: usize,
}

impl Rows {
    #[inline(always)]
    fn element<W: Word>(&self, row: usize, column: usize) -> *mut u8 {
        self.at.wrapping_offset(row as isize * self.stride).wrapping_add(column * W::SIZE)
    }

    /// Elements before it of the line that it begins within; 0 where its rows do not
    /// all begin so.
    #[inline(always)]
    fn before<W: Word>(&self) -> usize {
        let within = self.at.addr() % LINE;
        let all = self.stride % LINE as isize == 0 && within.is_multiple_of(W::SIZE);
        if all { within / W::SIZE } else { 0 }
    }

    /// Asks for as many lines from `at` on as there are elements in one.
    #[inline(always)]
    fn ask<W: Word>(&self, at: *const u8) {
        for i in 0..LINE / W::SIZE {
            prefetch(at.wrapping_offset(i as isize * self.stride));
        }
    }

    /// [`Rows::ask`] into the second cache.
    #[inline(always)]
    fn ask_far<W: Word>(&self, at: *const u8) {
        for i in 0..LINE / W::SIZE {
            prefetch_far(at.wrapping_offset(i as isize * self.stride));
        }
    }

    /// The same numbered from so many rows and columns before.
    #[inline(always)]
    fn back<W: Word>(self, rows: usize, columns: usize) -> Rows {
        let at = self.at.wrapping_offset(-(rows as isize * self.stride));
        Rows { at: at.wrapping_sub(columns * W::SIZE), ..self }
    }
}

/// Lines of a band of columns.
pub(in super::super) const BAND: usize = 16;

/// Lines of a row from which on squares lie between lines: what is left at either end
/// goes element by element.
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
/// and drive each other out. A row of a band is a piece of 16 lines, read or written
/// within a few diagonals.
#[derive(Clone, Copy)]
struct Squares {
    side: usize,
    /// All rows, and those of a tile; columns, and those of a band.
    rows: usize,
    tile: usize,
    columns: usize,
    band: usize,
    /// The tile and the band.
    top: usize,
    bottom: usize,
    left: usize,
    right: usize,
    /// Where the diagonal began, and the next square.
    start: usize,
    row: usize,
    column: usize,
}

impl Squares {
    /// Numbers of rows and columns are multiples of `side`.
    #[inline(always)]
    fn new(side: usize, rows: usize, tile: usize, columns: usize) -> Squares {
        let tile = tile.max(side) / side * side;
        let band = BAND * side;
        let (bottom, right) = (tile.min(rows), band.min(columns));
        let (top, left, start, row, column) = (0, 0, 0, 0, 0);
        Squares { side, rows, tile, columns, band, top, bottom, left, right, start, row, column }
    }

    /// The next square's row and column.
    #[inline(always)]
    fn next(&mut self) -> Option<(usize, usize)> {
        if self.column >= self.right && !self.next_diagonal() {
            return None;
        }
        let square = (self.row, self.column);
        self.column += self.side;
        self.row += self.side;
        if self.row == self.bottom {
            self.row = self.top;
        }
        Some(square)
    }

    /// Goes to the next diagonal, if there is one.
    #[inline(never)]
    fn next_diagonal(&mut self) -> bool {
        if self.top == self.rows {
            return false;
        }
        self.start += self.side;
        if self.start == self.bottom {
            self.left = self.right;
            if self.left == self.columns {
                self.left = 0;
                self.top = self.bottom;
                self.bottom = self.top.saturating_add(self.tile).min(self.rows);
            }
            self.right = (self.left + self.band).min(self.columns);
            self.start = self.top;
        }
        (self.row, self.column) = (self.start, self.left);
        self.top < self.rows
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
    let (rows, columns) = (above + from.count, beside + to.count);
    let whole_rows = above.next_multiple_of(n)..rows / n * n;
    let whole_columns = beside.next_multiple_of(n)..columns / n * n;
    if whole_rows.is_empty() || whole_columns.is_empty() {
        // SAFETY: [MEM].
        return unsafe { thin::<W>(from, to) };
    }
    // Numbered from the beginning of these lines.
    let (from, to) = (from.back::<W>(above, beside), to.back::<W>(beside, above));
    let (down, right) = (rows.next_multiple_of(n), columns.next_multiple_of(n));
    let mut squares = Squares::new(n, down, plan.tile, right);
    let (mut near, mut far) = (squares, squares);
    for _ in 0..NEAR.div_ceil(n) {
        near.next();
    }
    for _ in 0..if STREAM { FAR.div_ceil(n) } else { 0 } {
        far.next();
    }
    while let Some((row, column)) = squares.next() {
        if plan.prefetch
            && let Some((row, column)) = near.next()
        {
            from.ask::<W>(from.element::<W>(row, column));
            if !STREAM {
                to.ask::<W>(to.element::<W>(column, row));
            }
        }
        if STREAM
            && plan.prefetch
            && let Some((row, column)) = far.next()
        {
            from.ask_far::<W>(from.element::<W>(row, column));
        }
        // SAFETY: [MEM]: of what is no whole square, what is within the matrix;
        // [ALIGNED]: squares begin where lines of `to` do.
        unsafe {
            if whole_rows.contains(&row) && whole_columns.contains(&column) {
                let (a, b) = (from.element::<W>(row, column), to.element::<W>(column, row));
                square::<S, W, STREAM>(a, from.stride, b, to.stride);
            } else {
                let rows = row.max(above)..(row + n).min(rows);
                plain::<W>(from, to, rows, column.max(beside)..(column + n).min(columns));
            }
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

/// One square: as many rows and columns as a line has elements.
///
/// # Safety
/// [MEM] as [`transpose`].
#[inline(always)]
unsafe fn square<S: Set, W: Word, const STREAM: bool>(
    from: *const u8,
    from_stride: isize,
    to: *mut u8,
    to_stride: isize,
) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if S::LEVEL == Level::Avx512 && W::SIZE >= 2 {
        // SAFETY: [MEM]; the instructions are there.
        unsafe { avx512::square::<S, W, STREAM>(from, from_stride, to, to_stride) };
        return;
    }
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if S::LEVEL == Level::Avx2 && W::SIZE == 8 {
        // SAFETY: [MEM]; the instructions are there.
        unsafe { avx2::square::<STREAM>(from, from_stride, to, to_stride) };
        return;
    }
    let _ = Level::Portable;
    let n = LINE / W::SIZE;
    for column in 0..n {
        let mut line = [0u64; 8];
        let words = line.as_mut_ptr().cast::<u8>();
        for row in 0..n {
            let at =
                from.wrapping_offset(row as isize * from_stride).wrapping_add(column * W::SIZE);
            // SAFETY: [MEM]; a line's words are 64 bytes.
            unsafe { store::<W>(words.add(row * W::SIZE), load(at)) };
        }
        // SAFETY: [MEM].
        unsafe {
            write_line::<S, STREAM>(to.wrapping_offset(column as isize * to_stride), line);
        }
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod avx512 {
    use super::super::line::{LINE, Word, write_line};
    use super::Set;
    use std::arch::x86_64::{
        __m512i, _mm512_permutex2var_epi16, _mm512_permutex2var_epi32, _mm512_permutex2var_epi64,
    };

    /// Which elements of two lines make the lower or the upper of the pair that
    /// stands in their place after the step that exchanges groups of `group`.
    macro_rules! index {
        ($name:ident: $word:ty; $n:literal) => {
            const fn $name(group: usize, upper: bool) -> __m512i {
                let mut index: [$word; $n] = [0; $n];
                let mut i = 0;
                while i < $n {
                    let (block, within) = (i / (2 * group), i % (2 * group));
                    let column = block * 2 * group + within % group + if upper { group } else { 0 };
                    index[i] = (column + if within >= group { $n } else { 0 }) as $word;
                    i += 1;
                }
                // SAFETY: an array of 64 bytes.
                unsafe { std::mem::transmute::<[$word; $n], __m512i>(index) }
            }
        };
    }
    index!(index16: u16; 32);
    index!(index32: u32; 16);
    index!(index64: u64; 8);

    /// Both lines of a pair after a step.
    #[inline(always)]
    unsafe fn step<W: Word, const GROUP: usize>(a: __m512i, b: __m512i) -> (__m512i, __m512i) {
        macro_rules! both {
            ($index:ident, $permute:ident) => {
                both!($index, $permute, 1)
            };
            ($index:ident, $permute:ident, $each:literal) => {
                (
                    $permute(a, const { $index(GROUP * $each, false) }, b),
                    $permute(a, const { $index(GROUP * $each, true) }, b),
                )
            };
        }
        // SAFETY: the instructions are there.
        unsafe {
            match W::SIZE {
                2 => both!(index16, _mm512_permutex2var_epi16),
                4 => both!(index32, _mm512_permutex2var_epi32),
                16 => both!(index64, _mm512_permutex2var_epi64, 2),
                _ => both!(index64, _mm512_permutex2var_epi64),
            }
        }
    }

    #[inline(always)]
    unsafe fn exchange<W: Word, const GROUP: usize>(lines: &mut [__m512i; 32], n: usize) {
        if GROUP >= n {
            return;
        }
        for i in 0..n {
            if i & GROUP == 0 {
                // SAFETY: the instructions are there.
                (lines[i], lines[i + GROUP]) =
                    unsafe { step::<W, GROUP>(lines[i], lines[i + GROUP]) };
            }
        }
    }

    /// A square in registers: each step exchanges groups between pairs of lines.
    ///
    /// # Safety
    /// As [`super::square`]; the instructions are there.
    #[inline(always)]
    pub(super) unsafe fn square<S: Set, W: Word, const STREAM: bool>(
        from: *const u8,
        from_stride: isize,
        to: *mut u8,
        to_stride: isize,
    ) {
        let n = LINE / W::SIZE;
        // SAFETY: the caller's; `n` lines either way.
        unsafe {
            let mut lines: [__m512i; 32] = std::mem::zeroed();
            for (row, line) in lines[..n].iter_mut().enumerate() {
                *line = from
                    .wrapping_offset(row as isize * from_stride)
                    .cast::<__m512i>()
                    .read_unaligned();
            }
            exchange::<W, 1>(&mut lines, n);
            exchange::<W, 2>(&mut lines, n);
            exchange::<W, 4>(&mut lines, n);
            exchange::<W, 8>(&mut lines, n);
            exchange::<W, 16>(&mut lines, n);
            for (column, line) in lines[..n].iter().enumerate() {
                let line = std::mem::transmute::<__m512i, [u64; 8]>(*line);
                write_line::<S, STREAM>(to.wrapping_offset(column as isize * to_stride), line);
            }
        }
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod avx2 {
    use std::arch::x86_64::{
        __m256d, _mm256_permute2f128_pd, _mm256_storeu_pd, _mm256_stream_pd, _mm256_unpackhi_pd,
        _mm256_unpacklo_pd,
    };

    /// Four lines of four.
    ///
    /// # Safety
    /// Four words can be read from each of four lines; the instructions are there.
    #[inline(always)]
    unsafe fn four(from: *const u8, stride: isize) -> [__m256d; 4] {
        // SAFETY: the caller's.
        unsafe {
            let row =
                |i: isize| from.wrapping_offset(i * stride).cast::<__m256d>().read_unaligned();
            let (a, b, c, d) = (row(0), row(1), row(2), row(3));
            let (low, high) = (_mm256_unpacklo_pd(a, b), _mm256_unpackhi_pd(a, b));
            let (lower, higher) = (_mm256_unpacklo_pd(c, d), _mm256_unpackhi_pd(c, d));
            [
                _mm256_permute2f128_pd::<0x20>(low, lower),
                _mm256_permute2f128_pd::<0x20>(high, higher),
                _mm256_permute2f128_pd::<0x31>(low, lower),
                _mm256_permute2f128_pd::<0x31>(high, higher),
            ]
        }
    }

    /// A square of eight, half of its columns at a time.
    ///
    /// # Safety
    /// As [`super::square`]; the instructions are there.
    #[inline(always)]
    pub(super) unsafe fn square<const STREAM: bool>(
        from: *const u8,
        from_stride: isize,
        to: *mut u8,
        to_stride: isize,
    ) {
        for half in 0..2usize {
            let at = from.wrapping_add(32 * half);
            // SAFETY: the caller's.
            unsafe {
                let upper = four(at, from_stride);
                let lower = four(at.wrapping_offset(4 * from_stride), from_stride);
                for i in 0..4 {
                    let column = (4 * half + i) as isize;
                    let to = to.wrapping_offset(column * to_stride);
                    put::<STREAM>(to, upper[i]);
                    put::<STREAM>(to.wrapping_add(32), lower[i]);
                }
            }
        }
    }

    /// Half a line.
    ///
    /// # Safety
    /// [MEM] `to` has room for it; [ALIGNED] and is a multiple of 32 if `STREAM`.
    #[inline(always)]
    unsafe fn put<const STREAM: bool>(to: *mut u8, half: __m256d) {
        // SAFETY: the caller's.
        unsafe {
            if STREAM {
                _mm256_stream_pd(to.cast(), half);
            } else {
                _mm256_storeu_pd(to.cast(), half);
            }
        }
    }
}
