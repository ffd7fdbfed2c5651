//! Squares of a matrix with AVX2.

use super::line::{LINE, Word, on};
use std::arch::x86_64::{
    __m128i, __m256i, _mm_loadu_si128, _mm256_castsi128_si256, _mm256_inserti128_si256,
    _mm256_setzero_si256, _mm256_storeu_si256, _mm256_stream_si256, _mm256_unpackhi_epi8,
    _mm256_unpackhi_epi16, _mm256_unpackhi_epi32, _mm256_unpackhi_epi64, _mm256_unpacklo_epi8,
    _mm256_unpacklo_epi16, _mm256_unpacklo_epi32, _mm256_unpacklo_epi64,
};

/// Bytes of half a register: instructions that mix elements stay within halves.
const HALF: usize = 16;

/// Elements of two halves, those of the first at even places: the lower four, eight or
/// sixteen of each, or the upper.
#[inline(always)]
unsafe fn mixed<W: Word>(a: __m256i, b: __m256i) -> (__m256i, __m256i) {
    // SAFETY: the instructions are there.
    unsafe {
        match W::SIZE {
            1 => (_mm256_unpacklo_epi8(a, b), _mm256_unpackhi_epi8(a, b)),
            2 => (_mm256_unpacklo_epi16(a, b), _mm256_unpackhi_epi16(a, b)),
            4 => (_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b)),
            _ => (_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b)),
        }
    }
}

/// Each register with the one half of all behind it; so often done as a half has
/// elements in powers of two, rows are columns.
#[inline(always)]
unsafe fn mix<W: Word, const ROUND: usize>(lines: [__m256i; 16]) -> [__m256i; 16] {
    let k = HALF / W::SIZE;
    if 1 << ROUND >= k {
        return lines;
    }
    let mut mixed_lines = lines;
    for i in 0..k / 2 {
        // SAFETY: the instructions are there.
        (mixed_lines[2 * i], mixed_lines[2 * i + 1]) =
            unsafe { mixed::<W>(lines[i], lines[i + k / 2]) };
    }
    mixed_lines
}

/// As many columns as half a register has elements, of twice as many rows: each in a
/// register. And where the next row is.
///
/// # Safety
/// [MEM] as many elements can be read from each of these rows; the instructions are there.
#[inline(always)]
unsafe fn columns<W: Word>(mut from: *mut u8, stride: isize) -> ([__m256i; 16], *mut u8) {
    let k = HALF / W::SIZE;
    // SAFETY: [MEM].
    unsafe {
        let mut lines = [_mm256_setzero_si256(); 16];
        for line in &mut lines[..k] {
            *line = _mm256_castsi128_si256(_mm_loadu_si128(from.cast::<__m128i>()));
            from = on(from, stride);
        }
        for line in &mut lines[..k] {
            let row = _mm_loadu_si128(from.cast::<__m128i>());
            *line = _mm256_inserti128_si256::<1>(*line, row);
            from = on(from, stride);
        }
        let lines = mix::<W, 0>(lines);
        let lines = mix::<W, 1>(lines);
        let lines = mix::<W, 2>(lines);
        (mix::<W, 3>(lines), from)
    }
}

/// A square, some of its columns at a time.
///
/// # Safety
/// As `square` in `square.rs`; the instructions are there.
#[inline(always)]
pub(super) unsafe fn square<W: Word, const STREAM: bool>(
    from: *mut u8,
    from_stride: isize,
    mut to: *mut u8,
    to_stride: isize,
) -> (*mut u8, *mut u8) {
    let mut end = from;
    for at in (0..LINE).step_by(HALF) {
        // SAFETY: the caller's.
        unsafe {
            let (upper, middle) = columns::<W>(from.wrapping_add(at), from_stride);
            let (lower, below) = columns::<W>(middle, from_stride);
            for i in 0..HALF / W::SIZE {
                put::<STREAM>(to, upper[i]);
                put::<STREAM>(to.wrapping_add(LINE / 2), lower[i]);
                to = on(to, to_stride);
            }
            end = below.wrapping_add(HALF);
        }
    }
    (end, to.wrapping_add(LINE))
}

/// Half a line.
///
/// # Safety
/// [MEM] `to` has room for it; [ALIGNED] and is a multiple of 32 if `STREAM`.
#[inline(always)]
unsafe fn put<const STREAM: bool>(to: *mut u8, half: __m256i) {
    // SAFETY: the caller's.
    unsafe {
        if STREAM {
            _mm256_stream_si256(to.cast(), half);
        } else {
            _mm256_storeu_si256(to.cast(), half);
        }
    }
}
