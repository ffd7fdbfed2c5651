//! Elements, and lines of a cache written whole.

use super::{Level, Set};

/// Bytes of a line of the cache.
pub(in super::super) const LINE: usize = 64;

/// An element of a nest: so many bytes moved at once.
pub(super) trait Word: Copy {
    const SIZE: usize = size_of::<Self>();
}

macro_rules! words {
    ($($type:ty)*) => {$(
        impl Word for $type {}
    )*};
}
words!(u8 u16 u32 i32 u64 [u64; 2] [u64; 4] [u64; 8]);

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

/// Copies an element of 4 to 32 bytes, past the caches.
///
/// # Safety
/// [MEM] `from` has an element to read, `to` room for it; [ALIGNED] `to` is a multiple
/// of its size.
#[inline(always)]
pub(super) unsafe fn store_past<S: Set, const SIZE: usize>(from: *const u8, to: *mut u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64 as x86;
        // SAFETY: the set's instructions are there; [MEM], [ALIGNED].
        unsafe {
            match SIZE {
                4 => return x86::_mm_stream_si32(to.cast(), load::<u32>(from).cast_signed()),
                8 => return x86::_mm_stream_si64(to.cast(), load::<u64>(from).cast_signed()),
                16 => return x86::_mm_stream_si128(to.cast(), x86::_mm_loadu_si128(from.cast())),
                32 if S::LEVEL > Level::Portable => {
                    return x86::_mm256_stream_si256(
                        to.cast(),
                        x86::_mm256_loadu_si256(from.cast()),
                    );
                }
                _ => {}
            }
        }
    }
    // SAFETY: [MEM].
    unsafe { word::<S, SIZE>(from, to) };
}

/// Copies a word of 1 to 64 bytes, a power of two.
///
/// # Safety
/// [MEM] `from` has a word to read, `to` room for it, apart from each other.
#[inline(always)]
unsafe fn word<S: Set, const SIZE: usize>(from: *const u8, to: *mut u8) {
    // SAFETY: [MEM].
    unsafe {
        // (Arrays go through general registers, or the stack.)
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        {
            use std::arch::x86_64 as x86;
            match (SIZE, S::LEVEL) {
                (16, _) => {
                    return x86::_mm_storeu_si128(to.cast(), x86::_mm_loadu_si128(from.cast()));
                }
                (32, Level::Avx2 | Level::Avx512) => {
                    return x86::_mm256_storeu_si256(
                        to.cast(),
                        x86::_mm256_loadu_si256(from.cast()),
                    );
                }
                (64, Level::Avx512) => {
                    return x86::_mm512_storeu_si512(
                        to.cast(),
                        x86::_mm512_loadu_si512(from.cast()),
                    );
                }
                (32, Level::Portable) => {
                    word::<S, 16>(from, to);
                    return word::<S, 16>(from.add(16), to.add(16));
                }
                (64, Level::Portable | Level::Avx2) => {
                    word::<S, 32>(from, to);
                    return word::<S, 32>(from.add(32), to.add(32));
                }
                _ => {}
            }
        }
        match SIZE {
            1 => store::<u8>(to, load(from)),
            2 => store::<u16>(to, load(from)),
            4 => store::<u32>(to, load(from)),
            8 => store::<u64>(to, load(from)),
            _ => std::ptr::copy_nonoverlapping(from, to, SIZE),
        }
    }
}

/// Copies up to two words by one that is masked.
///
/// # Safety
/// [MEM] `len` bytes can be read on the one side and written on the other, which are apart;
/// they are 1 to twice `WORD`, 8, 16 or 32; the set is AVX-512.
#[inline(always)]
pub(super) unsafe fn masked<S: Set, const WORD: usize>(from: *const u8, to: *mut u8, len: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if S::LEVEL == Level::Avx512 {
        use std::arch::x86_64 as x86;
        let mask = u64::MAX >> (64 - len);
        let (from, to) = (from.cast::<i8>(), to.cast::<i8>());
        // SAFETY: the set's instructions are there; [MEM]: what is masked is not touched.
        unsafe {
            match WORD {
                8 => {
                    let word = x86::_mm_maskz_loadu_epi8(mask as u16, from);
                    x86::_mm_mask_storeu_epi8(to, mask as u16, word);
                }
                16 => {
                    let word = x86::_mm256_maskz_loadu_epi8(mask as u32, from);
                    x86::_mm256_mask_storeu_epi8(to, mask as u32, word);
                }
                _ => {
                    let word = x86::_mm512_maskz_loadu_epi8(mask, from);
                    x86::_mm512_mask_storeu_epi8(to, mask, word);
                }
            }
        }
        return;
    }
    // SAFETY: [MEM].
    unsafe { std::ptr::copy_nonoverlapping(from, to, len) };
}

/// The last `left` bytes of a run, from `from` on, and the first of the next: a line.
///
/// # Safety
/// [MEM] both runs have as many bytes to read, and `left` is 1 to 63; the first has 64
/// bytes up to its end.
#[inline(always)]
pub(super) unsafe fn joint<S: Set>(from: *const u8, next: *const u8, left: usize) -> [u64; 8] {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if S::LEVEL == Level::Avx512 {
        use std::arch::x86_64 as x86;
        // SAFETY: the set's instructions are there; [MEM]: what is masked is not read.
        return unsafe {
            let first = x86::_mm512_maskz_loadu_epi8(u64::MAX >> (LINE - left), from.cast());
            let next = next.wrapping_sub(left).cast();
            let both = x86::_mm512_mask_loadu_epi8(first, u64::MAX << left, next);
            std::mem::transmute::<x86::__m512i, [u64; 8]>(both)
        };
    }
    // (A line before it, the line, and what is copied beyond.)
    let mut lines = [[0u64; 8]; 3];
    let at = lines.as_mut_ptr().cast::<u8>();
    // SAFETY: [MEM]; three lines have room for all.
    unsafe {
        store::<[u64; 8]>(at.add(left), load(from.add(left).sub(LINE)));
        store::<[u64; 8]>(at.add(LINE + left), load(next));
        load(at.add(LINE))
    }
}

/// Runs of one length: a word, and one of `LAST` bytes that ends where the run does and
/// may begin within the word; with `MANY` as many words before the last as it takes.
#[derive(Clone, Copy)]
pub(super) struct Piece<const WORD: usize, const LAST: usize, const MANY: bool> {
    /// Bytes: those of the word if `LAST` is 0, up to both, or more than a word.
    pub(super) len: usize,
}

impl<const WORD: usize, const LAST: usize, const MANY: bool> Piece<WORD, LAST, MANY> {
    /// Copies a run between memory and the stream.
    ///
    /// # Safety
    /// [MEM] it can be read on the one side and written on the other, which are apart.
    #[inline(always)]
    pub(super) unsafe fn between<S: Set, const PACK: bool>(self, mem: *mut u8, stream: *mut u8) {
        let (from, to) = if PACK { (mem, stream) } else { (stream, mem) };
        // SAFETY: [MEM]: words that overlap cover all between.
        unsafe {
            if S::LEVEL == Level::Avx512 && LAST != 0 && !MANY && matches!(WORD, 8 | 16) {
                return masked::<S, WORD>(from, to, self.len);
            }
            if MANY {
                let mut at = 0;
                while at + WORD < self.len {
                    word::<S, WORD>(from.add(at), to.add(at));
                    at += WORD;
                }
            } else {
                word::<S, WORD>(from, to);
            }
            if LAST != 0 {
                word::<S, LAST>(from.add(self.len - LAST), to.add(self.len - LAST));
            }
        }
    }
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

/// So many bytes on. (Where the compiler sees it, it makes all multiples of a stride before
/// a loop and keeps them on the stack: loads of them wait for stores to other pages at the
/// same place of a page.)
#[inline(always)]
#[allow(clippy::pointers_in_nomem_asm_block, reason = "what it points to is not touched")]
pub(super) fn on(at: *mut u8, by: isize) -> *mut u8 {
    let at = at.wrapping_offset(by);
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        let mut at = at;
        // SAFETY: no instruction.
        unsafe {
            std::arch::asm!("/* {0} */", inout(reg) at, options(nomem, nostack, preserves_flags));
        }
        at
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    at
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

/// [`prefetch`] of a run: its lines, one each 64 bytes from `at` on.
#[inline(always)]
pub(super) fn prefetch_run(at: *const u8, len: usize) {
    for within in (0..len).step_by(LINE) {
        prefetch(at.wrapping_add(within));
    }
}

/// Asks for the line at `at`, which is to be written in part; any address is allowed.
#[inline(always)]
pub(super) fn prefetch_write(at: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a hint, which faults on no address; processors without it do nothing.
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) at, options(nostack, preserves_flags));
    }
    let _ = at;
}

/// [`prefetch`] into the second cache.
#[inline(always)]
pub(super) fn prefetch_far(at: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a hint, which faults on no address.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T1 }>(at.cast());
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

/// Copies a row of a line and more, in words of a line that do not cross the lines of
/// the destination.
///
/// # Safety
/// As [`copy`]; `len` is [`LINE`] or more.
#[inline(always)]
pub(super) unsafe fn copy_row<S: Set>(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: [MEM]; the first and the last word overlap those between.
    unsafe {
        word::<S, LINE>(from, to);
        let mut at = LINE - to.addr() % LINE;
        while at + 4 * LINE < len {
            for i in 0..4 {
                word::<S, LINE>(from.add(at + i * LINE), to.add(at + i * LINE));
            }
            at += 4 * LINE;
        }
        while at + LINE < len {
            word::<S, LINE>(from.add(at), to.add(at));
            at += LINE;
        }
        word::<S, LINE>(from.add(len - LINE), to.add(len - LINE));
    }
}

/// Copies a row past the caches, what is no whole line at its ends through them.
///
/// # Safety
/// As [`copy`]; `len` is [`LINE`] or more.
#[inline(always)]
pub(super) unsafe fn copy_row_past<S: Set>(from: *const u8, to: *mut u8, len: usize) {
    let mut at = (LINE - to.addr() % LINE) % LINE;
    // SAFETY: [MEM].
    unsafe {
        copy_short::<S>(from, to, at);
        while at + LINE <= len {
            write_line::<S, true>(to.add(at), load(from.add(at)));
            at += LINE;
        }
        copy_short::<S>(from.add(at), to.add(at), len - at);
    }
}

/// Copies a long row as the processor copies strings, which does not read the lines of the
/// destination first.
///
/// # Safety
/// As [`copy`]; `len` is [`LINE`] or more, the processor has [`strings`].
#[inline(always)]
pub(super) unsafe fn copy_string<S: Set>(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: [MEM].
    unsafe {
        // (Strings that begin with a line are the quickest.)
        word::<S, LINE>(from, to);
        let at = LINE - to.addr() % LINE;
        let (from, to, len) = (from.add(at), to.add(at), len - at);
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        std::arch::asm!(
            "rep movsb",
            inout("rcx") len => _, inout("rsi") from => _, inout("rdi") to => _,
            options(nostack, preserves_flags)
        );
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        std::ptr::copy_nonoverlapping(from, to, len);
    }
}

/// Returns true if the processor copies strings quickly.
pub(super) fn strings() -> bool {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    return is_x86_feature_detected!("ermsb");
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    false
}

/// Copies a few bytes, without a call for most lengths. (Words with masks of lengths that
/// change take several times as long as the branches.)
///
/// # Safety
/// As [`copy`].
#[inline(always)]
pub(super) unsafe fn copy_short<S: Set>(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: [MEM]; two words of a size that overlap cover all between.
    unsafe {
        macro_rules! two {
            ($size:literal) => {{
                word::<S, $size>(from, to);
                word::<S, $size>(from.add(len - $size), to.add(len - $size));
            }};
        }
        match len {
            0 => {}
            1 => word::<S, 1>(from, to),
            2..4 => two!(2),
            4..8 => two!(4),
            8..16 => two!(8),
            16..=32 => two!(16),
            33..=64 => two!(32),
            _ => std::ptr::copy_nonoverlapping(from, to, len),
        }
    }
}
