//! Popcount and select in a word, by what the machine has.
//!
//! The choice is made at run time: one relaxed load of a byte that never changes
//! again, and a branch that always goes the same way. Each operation is written
//! once, generic over [`Bits`], and compiled twice ([`by_cpu!`]).

/// How ones are counted and found in a word.
pub(super) trait Bits {
    /// Ones of `word`.
    fn ones(word: u64) -> u32;
    /// Place of the one before which there are `n` ones; there are more than `n`.
    fn nth(word: u64, n: u32) -> u32;
}

/// Whatever the target was compiled for.
pub(super) struct Portable;

impl Bits for Portable {
    #[inline(always)]
    fn ones(word: u64) -> u32 {
        word.count_ones()
    }

    /// Byte sums by broadword arithmetic (Vigna 2008), then at most seven steps.
    #[inline(always)]
    fn nth(word: u64, n: u32) -> u32 {
        const EACH: u64 = 0x0101_0101_0101_0101;
        const HIGH: u64 = 0x8080_8080_8080_8080;
        let pairs = word - ((word >> 1) & 0x5555_5555_5555_5555);
        let nibbles = (pairs & 0x3333_3333_3333_3333) + ((pairs >> 2) & 0x3333_3333_3333_3333);
        let bytes = (nibbles + (nibbles >> 4)) & 0x0f0f_0f0f_0f0f_0f0f;
        // Byte k holds the ones of bytes 0..=k.
        let sums = bytes.wrapping_mul(EACH);
        let passed = ((u64::from(n) * EACH) | HIGH).wrapping_sub(sums) & HIGH;
        // Eight passed bytes would mean fewer ones than promised.
        let place = (passed.count_ones() * 8).min(56);
        let before = ((sums << 8) >> place) as u32 & 0xff;
        let mut byte = (word >> place) & 0xff;
        for _ in before..n {
            byte &= byte.wrapping_sub(1);
        }
        (place + byte.trailing_zeros()) & 63
    }
}

/// popcnt and pdep; only used behind [`fast`].
#[cfg(target_arch = "x86_64")]
pub(super) struct Bmi2;

#[cfg(target_arch = "x86_64")]
impl Bits for Bmi2 {
    #[inline(always)]
    fn ones(word: u64) -> u32 {
        word.count_ones()
    }

    #[inline(always)]
    fn nth(word: u64, n: u32) -> u32 {
        // SAFETY: `by_cpu!` names this type only behind `fast()`, which found bmi2.
        unsafe { core::arch::x86_64::_pdep_u64(1 << (n & 63), word) }.trailing_zeros()
    }
}

/// Returns true if the machine has popcnt, bmi1 and bmi2.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) fn fast() -> bool {
    use core::sync::atomic::{AtomicU8, Ordering};
    static STATE: AtomicU8 = AtomicU8::new(0);
    #[cold]
    #[inline(never)]
    fn look() -> bool {
        let found = !cfg!(miri)
            && std::arch::is_x86_feature_detected!("popcnt")
            && std::arch::is_x86_feature_detected!("bmi1")
            && std::arch::is_x86_feature_detected!("bmi2");
        STATE.store(1 + u8::from(found), Ordering::Relaxed);
        found
    }
    match STATE.load(Ordering::Relaxed) {
        0 => look(),
        state => state == 2,
    }
}

/// A method that calls its generic body with the best [`Bits`]:
/// `by_cpu!(select, select_bmi2, select_by, (rank: u32) -> u32)`.
macro_rules! by_cpu {
    ($name:ident, $bmi2:ident, $body:ident, ($($arg:ident : $type:ty),*) -> $out:ty) => {
        #[inline]
        pub(in crate::rankmap) fn $name(&self, $($arg: $type),*) -> $out {
            #[cfg(target_arch = "x86_64")]
            if $crate::rankmap::compact::cpu::fast() {
                // SAFETY: the machine has what the function was compiled for.
                return unsafe { self.$bmi2($($arg),*) };
            }
            self.$body::<$crate::rankmap::compact::cpu::Portable>($($arg),*)
        }

        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "popcnt,bmi1,bmi2")]
        fn $bmi2(&self, $($arg: $type),*) -> $out {
            self.$body::<$crate::rankmap::compact::cpu::Bmi2>($($arg),*)
        }
    };
}
pub(super) use by_cpu;

#[cfg(test)]
mod tests {
    use super::*;

    fn words() -> impl Iterator<Item = u64> {
        let mut x = 0x9e37_79b9_7f4a_7c15u64;
        [0, 1, u64::MAX, 1 << 63, 0x8000_0000_0000_0001, 0xff00_00ff].into_iter().chain(
            (0..2_000).map(move |k| {
                x ^= x << 13;
                x ^= x >> 7;
                x ^= x << 17;
                if k % 3 == 0 { x & (x >> 5) & (x << 9) } else { x }
            }),
        )
    }

    #[test]
    fn every_method_finds_the_same_one() {
        for word in words() {
            let places: Vec<u32> = (0..64).filter(|&p| word >> p & 1 == 1).collect();
            for (n, &place) in (0..).zip(&places) {
                assert_eq!(Portable::nth(word, n), place, "{word:x} {n}");
                #[cfg(target_arch = "x86_64")]
                if fast() {
                    assert_eq!(Bmi2::nth(word, n), place, "{word:x} {n}");
                }
            }
        }
    }
}
