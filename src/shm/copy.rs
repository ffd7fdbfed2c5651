//! Copies between a buffer and memory that processes share, by what is best for the
//! length.
//!
//! glibc's memcpy has the processor copy strings from some 2 to 4 KiB on (`rep
//! movsb`), which starts slowly and is slower still where the two sides lie unlucky
//! to each other within their pages, as a window's first byte and malloc's memory do.
//! A loop of vectors is never behind it until the caches end, where memcpy writes past
//! them.

/// Where a loop of vectors pays.
#[cfg(all(target_arch = "x86_64", not(miri)))]
const VECTORS: std::ops::RangeInclusive<usize> = 256..=2 << 20;

/// Copies `len` bytes.
///
/// # Safety
/// \[SIDES\]: both hold `len` bytes and do not overlap.
#[inline]
pub(crate) unsafe fn copy(to: *mut u8, from: *const u8, len: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if VECTORS.contains(&len) && std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: [SIDES]; the processor has it, and the length is at least two
        // rounds.
        return unsafe { by_vectors(to, from, len) };
    }
    // SAFETY: [SIDES].
    unsafe { std::ptr::copy_nonoverlapping(from, to, len) };
}

/// # Safety
/// \[SIDES\]; the processor has AVX2, `len` is at least 160.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[target_feature(enable = "avx2")]
unsafe fn by_vectors(to: *mut u8, from: *const u8, len: usize) {
    use std::arch::x86_64::{_mm256_loadu_si256, _mm256_store_si256, _mm256_storeu_si256};
    const WIDE: usize = 32;
    const ROUND: usize = 4 * WIDE;
    // SAFETY: [SIDES]: the first vector; whole rounds from the next multiple of its
    // width on, as long as more than a round is left; and the last round, which may
    // begin within the one before.
    unsafe {
        let load = |at: usize| _mm256_loadu_si256(from.add(at).cast());
        _mm256_storeu_si256(to.cast(), load(0));
        let mut at = WIDE - (to.addr() & (WIDE - 1));
        while at < len - ROUND {
            let [a, b, c, d] =
                [load(at), load(at + WIDE), load(at + 2 * WIDE), load(at + 3 * WIDE)];
            let to = to.add(at);
            _mm256_store_si256(to.cast(), a);
            _mm256_store_si256(to.add(WIDE).cast(), b);
            _mm256_store_si256(to.add(2 * WIDE).cast(), c);
            _mm256_store_si256(to.add(3 * WIDE).cast(), d);
            at += ROUND;
        }
        let last = len - ROUND;
        for k in 0..4 {
            _mm256_storeu_si256(to.add(last + k * WIDE).cast(), load(last + k * WIDE));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every length around the changes, at every place of the two sides to a vector.
    #[test]
    fn lengths_and_places() {
        let lengths: &[usize] = match cfg!(miri) {
            true => &[0, 1, 255, 256, 300],
            false => &[
                0, 1, 7, 255, 256, 257, 287, 288, 289, 383, 384, 385, 511, 1000, 4096, 4097, 65_535,
            ],
        };
        let from: Vec<u8> = (0..70_000_u32).map(|i| ((i * 31) >> 3) as u8).collect();
        let mut to = vec![0_u8; 70_000];
        for &len in lengths {
            for (there, here) in [(0, 0), (1, 0), (0, 1), (31, 32), (33, 5), (64, 17), (95, 63)] {
                to.fill(0xa5);
                // SAFETY: both hold as much behind these places.
                unsafe { copy(to.as_mut_ptr().add(there), from.as_ptr().add(here), len) };
                assert!(to[there..there + len] == from[here..here + len], "{len} to {there}");
                let outside = to[..there].iter().chain(&to[there + len..]);
                assert!(outside.copied().all(|b| b == 0xa5), "{len} to {there}: beyond");
            }
        }
        if cfg!(not(miri)) {
            for len in [2 << 20, (2 << 20) + 1] {
                let from: Vec<u8> = (0..len as u32).map(|i| ((i * 7) >> 2) as u8).collect();
                let mut to = vec![0; len];
                // SAFETY: both are as long.
                unsafe { copy(to.as_mut_ptr(), from.as_ptr(), len) };
                assert!(to == from, "{len}");
            }
        }
    }
}
