//! Matrices whose rows become columns.

use super::line::{LINE, Word, load, prefetch, store, write_line};
use super::{Level, Plan, Set};

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

/// Writes element (r, c) of `from` to (c, r) of `to`; each has as many rows as the
/// other has columns.
///
/// Rows of `from` are taken in tiles of `plan.tile`, as each lies on a page of its
/// own; within a tile all columns go through, a line of the cache at a time.
///
/// # Safety
/// [MEM] all elements of `from` can be read, those of `to` written, and they are
/// apart from each other.
#[inline(always)]
pub(super) unsafe fn transpose<S: Set, W: Word>(from: Rows, to: Rows, plan: &Plan) {
    // Elements of a line.
    let n = LINE / W::SIZE;
    let (rows, columns) = (from.count, to.count);
    // A row of `from` becomes a column of `to`: those before the first whole line.
    let lead = to.at.align_offset(LINE) / W::SIZE;
    let aligned = to.stride % LINE as isize == 0 && to.at.align_offset(W::SIZE) == 0;
    let lead = if aligned { lead.min(rows) } else { 0 };
    let streaming = plan.streaming && aligned;
    let body = lead + (rows - lead) / n * n;
    let whole = columns / n * n;
    // SAFETY: [MEM]; the four parts are the whole matrix.
    unsafe {
        plain::<W>(from, to, 0..lead, 0..columns);
        let mut tile = lead;
        while tile < body {
            let end = (tile + (plan.tile / n * n).max(n)).min(body);
            if streaming {
                tiles::<S, W, true>(from, to, tile..end, whole);
            } else {
                tiles::<S, W, false>(from, to, tile..end, whole);
            }
            plain::<W>(from, to, tile..end, whole..columns);
            tile = end;
        }
        plain::<W>(from, to, body..rows, 0..columns);
    }
}

/// How many squares ahead lines are asked for.
const AHEAD: usize = 1;
/// Lines of a row taken before the next rows' turn, where memory is the limit:
/// pages and DRAM rows are used before they are left.
const GROUP: usize = 16;

/// A tile, in squares of a line's elements.
///
/// # Safety
/// As [`transpose`]; lengths are multiples of a line's elements.
#[inline(always)]
unsafe fn tiles<S: Set, W: Word, const STREAM: bool>(
    from: Rows,
    to: Rows,
    rows: std::ops::Range<usize>,
    columns: usize,
) {
    let n = LINE / W::SIZE;
    let mut group = 0;
    while group < columns {
        let end = (group + if STREAM { GROUP * n } else { n }).min(columns);
        let mut row = rows.start;
        while row < rows.end {
            let mut column = group;
            while column < end {
                let (a, b) = (from.element::<W>(row, column), to.element::<W>(column, row));
                // Rows lie apart: no prefetcher of the machine's follows them.
                for i in 0..n {
                    prefetch(from.element::<W>(row + AHEAD * n + i, column));
                }
                // SAFETY: [MEM].
                unsafe { square::<S, W, STREAM>(a, from.stride, b, to.stride) };
                column += n;
            }
            row += n;
        }
        group = end;
    }
}

/// Element by element.
///
/// # Safety
/// As [`transpose`].
#[inline(always)]
unsafe fn plain<W: Word>(
    from: Rows,
    to: Rows,
    rows: std::ops::Range<usize>,
    columns: std::ops::Range<usize>,
) {
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
    if S::LEVEL == Level::Avx512 && W::SIZE >= 2 && W::SIZE <= 8 {
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
        let mut line = [W::ZERO; LINE];
        for (row, word) in line[..n].iter_mut().enumerate() {
            let at =
                from.wrapping_offset(row as isize * from_stride).wrapping_add(column * W::SIZE);
            // SAFETY: [MEM].
            *word = unsafe { load(at) };
        }
        // SAFETY: [MEM]; a line's words are 64 bytes.
        unsafe {
            let line = line.as_ptr().cast::<[u64; 8]>().read_unaligned();
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
                (
                    $permute(a, const { $index(GROUP, false) }, b),
                    $permute(a, const { $index(GROUP, true) }, b),
                )
            };
        }
        // SAFETY: the instructions are there.
        unsafe {
            match W::SIZE {
                2 => both!(index16, _mm512_permutex2var_epi16),
                4 => both!(index32, _mm512_permutex2var_epi32),
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
