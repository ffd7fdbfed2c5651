//! Squares of a matrix with AVX-512: lines in registers, what is no whole square by masks.

use super::Set;
use super::line::{LINE, Word, on, write_line};
use super::rows::Rows;
use std::arch::x86_64::{
    __m512i, _mm512_mask_storeu_epi8, _mm512_maskz_loadu_epi8, _mm512_permutex2var_epi16,
    _mm512_permutex2var_epi32, _mm512_permutex2var_epi64,
};
use std::ops::Range;

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
            (lines[i], lines[i + GROUP]) = unsafe { step::<W, GROUP>(lines[i], lines[i + GROUP]) };
        }
    }
}

/// A square in registers: each step exchanges groups between pairs of lines.
///
/// # Safety
/// As `square` in `square.rs`; the instructions are there.
#[inline(always)]
pub(super) unsafe fn square<S: Set, W: Word, const STREAM: bool>(
    mut from: *mut u8,
    from_stride: isize,
    mut to: *mut u8,
    to_stride: isize,
) -> (*mut u8, *mut u8) {
    let n = LINE / W::SIZE;
    // SAFETY: the caller's; `n` lines either way.
    unsafe {
        let mut lines: [__m512i; 32] = std::mem::zeroed();
        for line in &mut lines[..n] {
            *line = from.cast::<__m512i>().read_unaligned();
            from = on(from, from_stride);
        }
        exchange_all::<W>(&mut lines, n);
        for line in &lines[..n] {
            let line = std::mem::transmute::<__m512i, [u64; 8]>(*line);
            write_line::<S, STREAM>(to, line);
            to = on(to, to_stride);
        }
    }
    (from.wrapping_add(LINE), to.wrapping_add(LINE))
}

/// As `part` in `square.rs`, by masks.
///
/// # Safety
/// As `part` in `square.rs`; the instructions are there.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512vl,avx512bw,avx2")]
pub(super) unsafe fn part<W: Word>(
    from: Rows,
    to: Rows,
    rows: Range<usize>,
    columns: Range<usize>,
) {
    let n = LINE / W::SIZE;
    let (row, column) = (rows.start / n * n, columns.start / n * n);
    let (mut a, mut b) = (from.element::<W>(row, column), to.element::<W>(column, row));
    let (rows, columns) =
        (rows.start - row..rows.end - row, columns.start - column..columns.end - column);
    let mask = |of: &Range<usize>| u64::MAX >> (LINE - of.len() * W::SIZE) << (of.start * W::SIZE);
    let (across, down) = (mask(&columns), mask(&rows));
    // SAFETY: the caller's: what is masked is neither read nor written.
    unsafe {
        let mut lines: [__m512i; 32] = std::mem::zeroed();
        for (i, line) in lines[..n].iter_mut().enumerate() {
            if rows.contains(&i) {
                *line = _mm512_maskz_loadu_epi8(across, a.cast());
            }
            a = on(a, from.stride);
        }
        exchange_all::<W>(&mut lines, n);
        for (i, line) in lines[..n].iter().enumerate() {
            if columns.contains(&i) {
                _mm512_mask_storeu_epi8(b.cast(), down, *line);
            }
            b = on(b, to.stride);
        }
    }
}

/// Rows of a square into its columns.
#[inline(always)]
unsafe fn exchange_all<W: Word>(lines: &mut [__m512i; 32], n: usize) {
    // SAFETY: the instructions are there.
    unsafe {
        exchange::<W, 1>(lines, n);
        exchange::<W, 2>(lines, n);
        exchange::<W, 4>(lines, n);
        exchange::<W, 8>(lines, n);
        exchange::<W, 16>(lines, n);
    }
}
