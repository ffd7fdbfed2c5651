//! The fewest bits that tell a map from the others of its class.

/// Bits of a whole map, and the class in which so many are needed on average.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bound {
    /// Bits, all ranks together.
    pub bits: f64,
    /// The maps it is told from.
    pub what: &'static str,
}

/// log2 of n!, by Stirling's series; exact enough from 1 on.
pub(super) fn factorial(n: f64) -> f64 {
    if n < 1.5 {
        return 0.0;
    }
    let ln = n * n.ln() - n + 0.5 * (std::f64::consts::TAU * n).ln() + 1.0 / (12.0 * n)
        - 1.0 / (360.0 * n.powi(3));
    ln * std::f64::consts::LOG2_E
}

/// log2 of n over k.
fn choose(n: f64, k: f64) -> f64 {
    if k > n { 0.0 } else { (factorial(n) - factorial(k) - factorial(n - k)).max(0.0) }
}

impl Bound {
    /// Any set of `size` of `universe`.
    pub fn set(universe: u32, size: usize) -> Bound {
        Bound { bits: choose(universe.into(), size as f64), what: "sets of this size" }
    }

    /// Any `count` ranges of `universe` that do not touch, in rising order or in
    /// another that is known.
    pub fn ranges(universe: u32, count: usize) -> Bound {
        let bits = choose(f64::from(universe) + 1.0, 2.0 * count as f64);
        Bound { bits, what: "so many ranges" }
    }

    /// Any `count` ranges in any order.
    pub fn ordered_ranges(universe: u32, count: usize) -> Bound {
        let bits = Bound::ranges(universe, count).bits + factorial(count as f64);
        Bound { bits, what: "so many ranges in any order" }
    }

    /// Any `size` of `universe`, in any order.
    pub fn list(universe: u32, size: usize) -> Bound {
        let universe = f64::from(universe);
        let bits = factorial(universe) - factorial((universe - size as f64).max(0.0));
        Bound { bits: bits.max(0.0), what: "lists of this size" }
    }

    /// `count` of `of` things, of which the map is made.
    pub fn pick(of: u32, count: u32, what: &'static str) -> Bound {
        Bound { bits: choose(of.into(), count.into()), what }
    }

    /// So many numbers below `universe`: base, size, a stride and radix for each digit.
    pub fn numbers(universe: u32, count: u32, what: &'static str) -> Bound {
        Bound { bits: f64::from(count) * f64::from(universe.max(2)).log2(), what }
    }

    /// A list of which nothing else is known: the smallest of the bounds of
    /// strides, sets and ranges that it belongs to.
    pub fn of(universe: u32, lpids: &[u32]) -> Bound {
        let steps = || lpids.windows(2).map(|two| i64::from(two[1]) - i64::from(two[0]));
        if steps().is_sorted_by(|a, b| a == b) {
            return Bound::numbers(universe, 3, "strides");
        }
        let ranges = 1 + steps().filter(|&step| step != 1).count();
        let (all, ranged) = if steps().all(|step| step > 0) {
            (Bound::set(universe, lpids.len()), Bound::ranges(universe, ranges))
        } else {
            (Bound::list(universe, lpids.len()), Bound::ordered_ranges(universe, ranges))
        };
        if ranged.bits < all.bits { ranged } else { all }
    }

    /// Bytes, in fractions.
    pub fn bytes(&self) -> f64 {
        self.bits / 8.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_ones_by_hand() {
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-3, "{a} {b}");
        near(Bound::set(5, 2).bits, 10f64.log2());
        near(Bound::list(5, 2).bits, 20f64.log2());
        near(Bound::list(4, 4).bits, 24f64.log2());
        // 0..1, 0..2, 0..3, 1..2, 1..3, 2..3
        near(Bound::ranges(3, 1).bits, 6f64.log2());
        near(Bound::pick(60, 12, "").bits, 1_399_358_844_975f64.log2());
        near(Bound::numbers(1024, 3, "").bits, 30.0);
        assert_eq!(Bound::set(7, 7).bits, 0.0);
    }

    #[test]
    fn what_is_known_of_a_list() {
        let what = |lpids: &[u32]| Bound::of(1000, lpids).what;
        assert_eq!(what(&[]), "strides");
        assert_eq!(what(&[9, 7, 5]), "strides");
        assert_eq!(what(&[1, 2, 3, 4, 5, 10, 11, 12, 13, 14]), "so many ranges");
        assert_eq!(what(&[1, 3, 4, 9, 20]), "sets of this size");
        assert_eq!(what(&[10, 11, 12, 13, 14, 1, 2, 3, 4, 5]), "so many ranges in any order");
        assert_eq!(what(&[3, 1, 9, 4]), "lists of this size");
    }
}
