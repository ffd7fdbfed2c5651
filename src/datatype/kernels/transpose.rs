//! Matrices whose rows become columns.

use super::line::{LINE, Word, copy, load, prefetch, store, write_line};
use super::{Level, Plan, Set};
use std::mem::MaybeUninit;
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
}

/// Rows and lines of a strip, and the gap between its columns, which are a power of
/// two apart otherwise and would meet in a few sets of the first cache.
const ROWS: usize = 64;
const LINES: usize = 8;
const GAP: usize = LINE;

/// Lines of the strip of the narrowest elements.
const STRIP: usize = LINES * LINE * (ROWS + GAP) / LINE;

/// How many squares ahead lines are asked for.
const AHEAD: usize = 2;

/// Writes element (r, c) of `from` to (c, r) of `to`; each has as many rows as the
/// other has columns.
///
/// Rows of `from` are taken in tiles of `plan.tile`, as each lies on a page of its
/// own; within a tile all columns go through, a few lines of the cache at a time, in
/// squares of a line's elements, which are transposed in registers. Past the caches
/// lines go to `to` from there; else a strip of them is put together in the first
/// cache, so that each line of `to` gets a long piece at once: lines that are a power
/// of two apart would drive each other out of the cache.
///
/// # Safety
/// [MEM] all elements of `from` can be read, those of `to` written, and they are
/// apart from each other.
#[inline(always)]
pub(super) unsafe fn transpose<S: Set, W: Word>(from: Rows, to: Rows, plan: &Plan) {
    // Elements of a line.
    let n = LINE / W::SIZE;
    let (rows, columns) = (from.count, to.count);
    // Rows of `from` before the first whole line of `to`.
    let lead = to.at.align_offset(LINE) / W::SIZE;
    let aligned = to.stride % LINE as isize == 0 && to.at.align_offset(W::SIZE) == 0;
    let lead = if aligned { lead.min(rows) } else { 0 };
    let direct = plan.streaming && aligned;
    let most = if direct { plan.tile } else { plan.tile.min(ROWS) }.max(n) / n * n;
    let (body, whole) = (lead + (rows - lead) / n * n, columns / n * n);
    // SAFETY: [MEM]; the four parts are the whole matrix.
    unsafe {
        plain::<W>(from, to, 0..lead, 0..columns);
        let mut row = lead;
        while row < body {
            let end = row.saturating_add(most).min(body);
            let mut column = 0;
            while column < whole {
                let last = (column + LINES * n).min(whole);
                if direct {
                    squares::<S, W, true>(from, to, row..end, column..last);
                } else {
                    strip::<S, W>(from, to, row..end, column..last, plan);
                }
                column = last;
            }
            plain::<W>(from, to, row..end, whole..columns);
            row = end;
        }
        plain::<W>(from, to, body..rows, 0..columns);
    }
}

/// All squares of some rows and columns, whose numbers are a line's elements or a
/// multiple.
///
/// # Safety
/// As [`transpose`].
#[inline(always)]
unsafe fn squares<S: Set, W: Word, const STREAM: bool>(
    from: Rows,
    to: Rows,
    rows: Range<usize>,
    columns: Range<usize>,
) {
    let n = LINE / W::SIZE;
    let mut row = rows.start;
    while row < rows.end {
        let mut column = columns.start;
        while column < columns.end {
            // Rows lie apart: no prefetcher of the machine's follows them.
            for i in 0..n {
                prefetch(from.element::<W>(row + AHEAD * n + i, column));
            }
            let (a, b) = (from.element::<W>(row, column), to.element::<W>(column, row));
            // SAFETY: [MEM].
            unsafe { square::<S, W, STREAM>(a, from.stride, b, to.stride) };
            column += n;
        }
        row += n;
    }
}

/// The same by way of a strip in the cache.
///
/// # Safety
/// As [`squares`]; at most `ROWS` rows and `LINES` lines of columns.
#[inline(always)]
unsafe fn strip<S: Set, W: Word>(
    from: Rows,
    to: Rows,
    rows: Range<usize>,
    columns: Range<usize>,
    plan: &Plan,
) {
    let mut strip = [const { MaybeUninit::<[u64; 8]>::uninit() }; STRIP];
    let len = rows.len() * W::SIZE;
    let at = strip.as_mut_ptr().cast::<u8>();
    let strip = Rows { at, stride: (len + GAP) as isize, count: columns.len() };
    // Numbered as rows and columns of `from` are.
    let numbered = Rows {
        at: at
            .wrapping_offset(-(columns.start as isize * strip.stride))
            .wrapping_sub(rows.start * W::SIZE),
        ..strip
    };
    // SAFETY: [MEM]; the strip has room for as many columns of as many rows, with the
    // gap behind each, whatever the element's width.
    unsafe {
        squares::<S, W, false>(from, numbered, rows.clone(), columns.clone());
        for column in columns {
            let at = numbered.element::<W>(column, rows.start);
            let to = to.element::<W>(column, rows.start);
            if plan.streaming {
                copy::<S, true>(at, to, len);
            } else {
                copy::<S, false>(at, to, len);
            }
        }
    }
}

/// Element by element.
///
/// # Safety
/// As [`transpose`].
#[inline(always)]
unsafe fn plain<W: Word>(from: Rows, to: Rows, rows: Range<usize>, columns: Range<usize>) {
    for row in rows {
        for column in columns.clone() {
            // SAFETY: [MEM].
            unsafe {
                store::<W>(to.element::<W>(column, row), load(from.element::<W>(row, column)))
            };
        }
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
        unsafe { avx2::square::<S, STREAM>(from, from_stride, to, to_stride) };
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
    use super::super::line::write_line;
    use super::Set;
    use std::arch::x86_64::{
        __m256d, _mm256_permute2f128_pd, _mm256_unpackhi_pd, _mm256_unpacklo_pd,
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
    pub(super) unsafe fn square<S: Set, const STREAM: bool>(
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
                    let line = std::mem::transmute::<[__m256d; 2], [u64; 8]>([upper[i], lower[i]]);
                    let column = (4 * half + i) as isize;
                    write_line::<S, STREAM>(to.wrapping_offset(column * to_stride), line);
                }
            }
        }
    }
}
