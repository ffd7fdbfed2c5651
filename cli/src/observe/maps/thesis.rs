//! What the thesis's representations take for a map, by its own descriptions
//! (chapter 4), where they leave a choice the smaller.
//!
//! | representation | bytes |
//! |---|---|
//! | canonical | an int of 4 bytes a member |
//! | optimized canonical (4.3.1) | `log2 universe` bits a member |
//! | range/stride (4.1.1) | three ints |
//! | bitmap (4.1.3) | a bit from the first member to the last, an int for each 1,000 |
//! | gap encoding (4.1.4) | `log2` of the largest gap a member, an int for each 1,000 |
//! | BDD (4.1.2) | `2 log2 universe` bits a path, an int for each bit of the universe |
//! | … + WTR (4.2.1) | of the set, and `log2` of the number of rising runs a member |
//!
//! Packed arrays are whole words and one more, so that a word can be read at any
//! bit. Permutations of many runs have no wavelet tree, as there. Its
//! block-compressed list takes a compressor: `benches/rivals` has one, and it is
//! the smallest for none of the classes. It gives no bytes for its objects'
//! heads; none are counted.

use super::super::figures;

/// A representation of the thesis, for one map.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weight {
    /// Its name there.
    pub name: &'static str,
    /// Bytes, without a head.
    pub bytes: u64,
    /// Nanoseconds of a lookup it tells, on a Core i7 of 2.67 GHz.
    pub ns: Option<f64>,
}

/// Bits of a number.
fn width(most: u32) -> u64 {
    u64::from(u32::BITS - most.leading_zeros())
}

/// Bytes of so many bits, packed.
fn packed(bits: u64) -> u64 {
    (bits.div_ceil(64) + 1) * 8
}

/// All that can hold the map, smallest first. `lpids` are below `universe`, none
/// twice.
pub fn weigh(universe: u32, lpids: &[u32]) -> Vec<Weight> {
    let len = lpids.len() as u64;
    let bits = width(universe.saturating_sub(1)).max(1);
    let mut out = Vec::new();
    let mut add = |name, bytes, ns| out.push(Weight { name, bytes, ns });
    add("canonical", 4 * len, None);
    add("optimized canonical", packed(len * bits), None);
    let steps = || lpids.windows(2).map(|two| i64::from(two[1]) - i64::from(two[0]));
    if steps().is_sorted_by(|a, b| a == b) {
        add("range/stride", 12, None);
    }
    if !lpids.is_empty() {
        let rising = steps().all(|step| step > 0);
        let runs = 1 + steps().filter(|&step| step <= 0).count() as u64;
        if runs < figures::MIR_TAHERI_RUNS_TOO_MANY {
            let mut sorted = lpids.to_vec();
            sorted.sort_unstable();
            let [gaps, bitmap, bdd] = match rising {
                true => ["gap encoding", "bitmap", "BDD"],
                false => ["gap encoding + WTR", "bitmap + WTR", "BDD + WTR"],
            };
            let order = (len as f64 * (runs as f64).log2() / 8.0).ceil() as u64;
            // Published for sets only.
            let told = |ns| rising.then_some(ns);
            let most = sorted.windows(2).map(|two| two[1] - two[0]).max().unwrap_or(0);
            let gap_bytes = packed(len * width(most)) + 4 * len.div_ceil(1000);
            add(gaps, gap_bytes + order, told(figures::MIR_TAHERI_GAP_NS));
            let range = u64::from(sorted[sorted.len() - 1] - sorted[0]) + 1;
            let bitmap_bytes = range.div_ceil(64) * 8 + 4 * range.div_ceil(1000);
            add(bitmap, bitmap_bytes + order, told(figures::MIR_TAHERI_BITMAP_NS));
            let paths = paths(&sorted, 0, bits as u32);
            add(bdd, (2 * paths * bits).div_ceil(8) + 4 * bits + order, None);
        }
    }
    out.sort_by_key(|weight| weight.bytes);
    out
}

/// Paths to true of the reduced diagram of a set, the highest bit first: `set`
/// rises and lies in the `2^bits` numbers from `base` on.
fn paths(set: &[u32], base: u64, bits: u32) -> u64 {
    if set.is_empty() {
        return 0;
    }
    if set.len() as u64 == 1 << bits {
        return 1;
    }
    let half = base + (1 << (bits - 1));
    let (low, high) = set.split_at(set.partition_point(|&lpid| u64::from(lpid) < half));
    let shift = (half - base) as u32;
    // A test whose branches agree is none.
    if low.len() == high.len() && low.iter().zip(high).all(|(a, b)| a + shift == *b) {
        return paths(low, base, bits - 1);
    }
    paths(low, base, bits - 1) + paths(high, half, bits - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(all: &[Weight], name: &str) -> Option<u64> {
        all.iter().find(|one| one.name == name).map(|one| one.bytes)
    }

    /// The thesis's own examples.
    #[test]
    fn its_examples() {
        // 4.1.2.1: a set of three paths.
        let set = [
            16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 49, 53, 57, 61, 77, 93,
            109, 125,
        ];
        let [tail, rest @ ..] = [&set[20..], &set[16..20], &set[..16]];
        assert_eq!(paths(tail, 0, 8), 1);
        assert_eq!(rest.map(|part| paths(part, 0, 8)), [1, 1]);
        // Figure 4.3: a row and a column of a matrix of 2^20, one path of 40 bits each.
        let row: Vec<u32> = (1 << 10..2 << 10).collect();
        let column: Vec<u32> = (0..1 << 10).map(|y| y << 10 | 1).collect();
        for set in [row, column] {
            assert_eq!(paths(&set, 0, 20), 1);
        }
        assert_eq!((2u64 * 20).div_ceil(8), figures::MIR_TAHERI_SUBMESH_BYTES);
    }

    #[test]
    fn sets_and_lists() {
        let set: Vec<u32> = (0..1000).filter(|lpid| lpid % 3 != 0).collect();
        let all = weigh(1000, &set);
        assert_eq!(bytes(&all, "canonical"), Some(666 * 4));
        assert_eq!(bytes(&all, "optimized canonical"), Some(106 * 8));
        assert_eq!(bytes(&all, "gap encoding"), Some(22 * 8 + 4));
        assert_eq!(bytes(&all, "bitmap"), Some(16 * 8 + 4));
        assert_eq!(bytes(&all, "range/stride"), None);
        assert!(all.is_sorted_by_key(|one| one.bytes));
        // Two runs of equal length: a bit a member.
        let list: Vec<u32> = (512..1024).chain(0..512).collect();
        let all = weigh(1024, &list);
        assert_eq!(bytes(&all, "bitmap + WTR"), Some(128 + 8 + 128));
        assert_eq!(bytes(&all, "gap encoding"), None);
        let falling: Vec<u32> = (0..100).rev().collect();
        assert_eq!(bytes(&weigh(100, &falling), "range/stride"), Some(12));
        let pairs: Vec<u32> = (0..60_000).rev().flat_map(|k| [2 * k, 2 * k + 1]).collect();
        assert_eq!(bytes(&weigh(120_000, &pairs), "bitmap + WTR"), None);
        assert_eq!(weigh(100, &[])[0].bytes, 0);
    }
}
