//! Type signatures: which basic types, in order, whatever their places.

use super::basic::Basic;

/// A layout's sequence of basic types, as its length and a hash.
///
/// The hash is a polynomial over the field of 2^61 - 1 elements: that of a
/// sequence behind another follows from theirs, so counts of any size cost
/// little, and it is the same in every process. Two unequal sequences of up to n
/// elements have the same one with a probability of n / 2^61.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Signature {
    elements: u64,
    hash: u64,
}

const PRIME: u64 = (1 << 61) - 1;
/// Where the polynomial is taken: any number that is no power of a small one.
const POINT: u64 = 0x0123_4567_89ab_cdef;

fn product(a: u64, b: u64) -> u64 {
    let wide = u128::from(a) * u128::from(b);
    let sum = (wide as u64 & PRIME) + (wide >> 61) as u64;
    sum.checked_sub(PRIME).unwrap_or(sum)
}

fn sum(a: u64, b: u64) -> u64 {
    (a + b).checked_sub(PRIME).unwrap_or(a + b)
}

fn power(mut base: u64, mut exponent: u64) -> u64 {
    let mut all = 1;
    while exponent > 0 {
        if exponent & 1 == 1 {
            all = product(all, base);
        }
        base = product(base, base);
        exponent >>= 1;
    }
    all
}

impl Signature {
    /// One element.
    #[must_use]
    pub fn of(basic: Basic) -> Signature {
        Signature { elements: 1, hash: basic as u64 }
    }

    /// How many basic elements; at most 2^61, as each has a byte.
    #[must_use]
    pub fn elements(self) -> u64 {
        self.elements
    }

    /// A number that is the same for equal sequences, in every process.
    #[must_use]
    pub fn hash(self) -> u64 {
        self.hash
    }

    /// This one, then another.
    #[must_use]
    pub fn then(self, next: Signature) -> Signature {
        let hash = sum(product(self.hash, power(POINT, next.elements)), next.hash);
        Signature { elements: self.elements.saturating_add(next.elements), hash }
    }

    /// This one so many times.
    #[must_use]
    pub fn times(self, mut count: u64) -> Signature {
        let elements = self.elements.saturating_mul(count);
        // Squares, and what a sequence before one of them is multiplied by.
        let (mut square, mut shift) = (self.hash, power(POINT, self.elements));
        let mut hash = 0;
        while count > 0 {
            if count & 1 == 1 {
                hash = sum(product(hash, shift), square);
            }
            square = sum(product(square, shift), square);
            shift = product(shift, shift);
            count >>= 1;
        }
        Signature { elements, hash }
    }
}
