//! Division by a number that stays the same, as a multiplication.

/// `⌊x / divisor⌋` of any 32-bit `x` (Granlund and Montgomery 1994): `2^32 + low` is
/// `2^(32 + shift) / divisor`, rounded up, with a `shift` that leaves an error too small to
/// reach the next whole number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Divisor {
    pub(super) low: u32,
    pub(super) shift: u8,
}

impl Divisor {
    /// Of a number that is not 0.
    pub(super) fn new(divisor: u32) -> Divisor {
        let shift = Divisor::shift(divisor);
        // 2^32 · (2^shift - divisor) / divisor: what 2^(32 + shift) / divisor has above 2^32.
        let above = (1u64 << shift) - u64::from(divisor);
        Divisor { low: (above << 32).div_ceil(u64::from(divisor)) as u32, shift }
    }

    /// The shift for a number that is not 0.
    #[inline]
    pub(super) fn shift(divisor: u32) -> u8 {
        (32 - (divisor - 1).leading_zeros()) as u8
    }

    /// The number: rounding moved the quotient by less than one part in 2^32.
    pub(super) fn value(self) -> u32 {
        let whole = (1u128 << 32) + u128::from(self.low);
        (1u128 << (32 + self.shift)).div_ceil(whole) as u32
    }

    #[inline]
    pub(super) fn floor(self, x: u32) -> u32 {
        let high = (u64::from(x) * u64::from(self.low)) >> 32;
        ((high + u64::from(x)) >> self.shift) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::Divisor;

    #[test]
    fn a_multiplication_divides() {
        let near = |x: u32| [x.wrapping_sub(1), x, x.wrapping_add(1)];
        let powers = (0..32).flat_map(|bit| near(1 << bit));
        let odd = [3u32, 7, 641, 15_625, 46_341, 1_000_003, 0x7fff_ffed, 0xffff_fffb];
        let numbers: Vec<u32> = powers.chain(odd.into_iter().flat_map(near)).collect();
        for &divisor in numbers.iter().filter(|&&divisor| divisor != 0) {
            let fast = Divisor::new(divisor);
            assert_eq!(fast.value(), divisor);
            let multiple = (u32::MAX / divisor).wrapping_mul(divisor);
            for x in numbers.iter().copied().chain(near(multiple)).chain(near(divisor / 2)) {
                assert_eq!(fast.floor(x), x / divisor, "{x} / {divisor}");
            }
        }
        (1..2_000).for_each(|divisor| assert_eq!(Divisor::new(divisor).value(), divisor));
    }
}
