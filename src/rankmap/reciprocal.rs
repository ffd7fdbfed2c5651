//! Floors of divisions, by multiplications with numbers computed once.

/// `⌈2^64 / radix⌉` of a radix of at least 2: its high product with any 32-bit
/// number is the floor of the division. Elsewhere than on 64-bit machines the
/// radix itself.
pub(super) fn reciprocal(radix: u32) -> u64 {
    if cfg!(target_pointer_width = "64") {
        u64::MAX / u64::from(radix) + 1
    } else {
        u64::from(radix)
    }
}

/// `⌊x / radix⌋`, for the `reciprocal` of the radix.
#[inline(always)]
pub(super) fn floor(x: usize, reciprocal: u64) -> usize {
    if cfg!(target_pointer_width = "64") {
        ((x as u128 * u128::from(reciprocal)) >> 64) as usize
    } else {
        x / reciprocal as usize
    }
}
