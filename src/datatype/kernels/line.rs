//! Elements, and lines of a cache written whole.

use super::{Level, Set};

/// Bytes of a line of the cache.
pub(super) const LINE: usize = 64;

/// An element of a nest: so many bytes moved at once.
pub(super) trait Word: Copy {
    const SIZE: usize = size_of::<Self>();
    const ZERO: Self;
}

macro_rules! words {
    ($($type:ty = $zero:expr;)*) => {$(
        impl Word for $type {
            const ZERO: Self = $zero;
        }
    )*};
}
words! {
    u8 = 0; u16 = 0; u32 = 0; u64 = 0; [u64; 2] = [0; 2]; [u64; 4] = [0; 4]; [u64; 8] = [0; 8];
}

/// The element at `from`.
///
/// # Safety
/// [MEM] `from` has an element to read.
#[inline(always)]
pub(super) unsafe fn load<W: Word>(from: *const u8) -> W {
    // SAFETY: [MEM]; unaligned.
    unsafe { from.cast::<W>().read_unaligned() }
}

/// Writes the element to `to`.
///
/// # Safety
/// [MEM] `to` has room for an element.
#[inline(always)]
pub(super) unsafe fn store<W: Word>(to: *mut u8, word: W) {
    // SAFETY: [MEM]; unaligned.
    unsafe { to.cast::<W>().write_unaligned(word) }
}

/// Writes a line past the caches where `STREAM`, for which `to` is aligned to it.
///
/// # Safety
/// [MEM] `to` has room for 64 bytes; [ALIGNED] and is a multiple of 64 if `STREAM`.
#[inline(always)]
pub(super) unsafe fn write_line<S: Set, const STREAM: bool>(to: *mut u8, line: [u64; 8]) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if STREAM {
        use std::arch::x86_64 as x86;
        // SAFETY: the set's instructions are there; [MEM], [ALIGNED].
        unsafe {
            match S::LEVEL {
                Level::Avx512 => {
                    x86::_mm512_stream_si512(
                        to.cast(),
                        std::mem::transmute::<[u64; 8], x86::__m512i>(line),
                    );
                }
                Level::Avx2 => {
                    let halves: [x86::__m256i; 2] = std::mem::transmute(line);
                    x86::_mm256_stream_si256(to.cast(), halves[0]);
                    x86::_mm256_stream_si256(to.add(32).cast(), halves[1]);
                }
                Level::Portable => {
                    let parts: [x86::__m128i; 4] = std::mem::transmute(line);
                    for (i, part) in parts.into_iter().enumerate() {
                        x86::_mm_stream_si128(to.add(16 * i).cast(), part);
                    }
                }
            }
        }
        return;
    }
    let _ = Level::Portable;
    // SAFETY: [MEM].
    unsafe { to.cast::<[u64; 8]>().write_unaligned(line) }
}

/// Writes an element past the caches, of 4 bytes and more.
///
/// # Safety
/// [MEM] `to` has room for an element; [ALIGNED] and is a multiple of its size.
#[inline(always)]
pub(super) unsafe fn store_past<S: Set, W: Word>(to: *mut u8, word: W) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64 as x86;
        use std::mem::transmute_copy as cast;
        // SAFETY: the set's instructions are there; [MEM], [ALIGNED]; a cast is of an
        // element to as many bytes.
        unsafe {
            match (W::SIZE, S::LEVEL) {
                (4, _) => return x86::_mm_stream_si32(to.cast(), cast(&word)),
                (8, _) => return x86::_mm_stream_si64(to.cast(), cast(&word)),
                (16, _) => return x86::_mm_stream_si128(to.cast(), cast(&word)),
                (32, Level::Avx2 | Level::Avx512) => {
                    return x86::_mm256_stream_si256(to.cast(), cast(&word));
                }
                (64, _) => return write_line::<S, true>(to, cast(&word)),
                _ => {}
            }
        }
    }
    // SAFETY: [MEM].
    unsafe { store(to, word) };
}

/// Keeps the compiler from making one gather or scatter of what stands before and
/// after it; no instruction.
#[inline(always)]
pub(super) fn apart() {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: no instruction.
    unsafe {
        std::arch::asm!("", options(nostack, preserves_flags));
    }
}

/// Orders what was written past the caches before what the caller does next.
pub(in super::super) fn fence() {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: every x86-64 processor has it.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}

/// Asks for the line at `at` ahead of its use; any address is allowed.
#[inline(always)]
pub(in super::super) fn prefetch(at: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a hint, which faults on no address.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(at.cast());
    }
    let _ = at;
}

/// Copies `len` contiguous bytes, past the caches where `STREAM`.
///
/// # Safety
/// [MEM] `from` has `len` bytes to read, `to` room for them, apart from each other.
#[inline(always)]
pub(super) unsafe fn copy<S: Set, const STREAM: bool>(from: *const u8, to: *mut u8, len: usize) {
    if !STREAM || len < 4 * LINE {
        // SAFETY: [MEM].
        unsafe { std::ptr::copy_nonoverlapping(from, to, len) };
        return;
    }
    let head = to.align_offset(LINE).min(len);
    // SAFETY: [MEM]; lines from the first aligned one on, what is left by bytes.
    unsafe {
        std::ptr::copy_nonoverlapping(from, to, head);
        let mut at = head;
        while at + LINE <= len {
            prefetch(from.wrapping_add(at + 8 * LINE));
            write_line::<S, true>(to.add(at), from.add(at).cast::<[u64; 8]>().read_unaligned());
            at += LINE;
        }
        std::ptr::copy_nonoverlapping(from.add(at), to.add(at), len - at);
    }
}

/// Copies a few bytes, without a call for most lengths.
///
/// # Safety
/// As [`copy`].
#[inline(always)]
pub(super) unsafe fn copy_short(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: [MEM]; two words of a size that overlap cover all between.
    unsafe {
        macro_rules! two {
            ($w:ty) => {{
                let size = size_of::<$w>();
                let (a, b): ($w, $w) = (load(from), load(from.add(len - size)));
                store(to, a);
                store(to.add(len - size), b);
            }};
        }
        match len {
            0 => {}
            1 => store::<u8>(to, load(from)),
            16 => store::<[u64; 2]>(to, load(from)),
            2..4 => two!(u16),
            4..8 => two!(u32),
            8..16 => two!(u64),
            17..32 => two!([u64; 2]),
            32 => store::<[u64; 4]>(to, load(from)),
            33..=64 => two!([u64; 4]),
            _ => std::ptr::copy_nonoverlapping(from, to, len),
        }
    }
}
