//! Draws that are the same on every machine.

/// SplitMix64 (Steele et al. 2014).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The draws of this seed.
    pub const fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// A seed out of a seed and a number.
    pub(super) fn mix(seed: u64, number: u64) -> u64 {
        Random(seed.wrapping_mul(257).wrapping_add(number)).word()
    }

    /// 64 random bits.
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `limit`, which is not 0.
    pub fn below(&mut self, limit: u32) -> u32 {
        (((self.word() >> 32) * u64::from(limit)) >> 32) as u32
    }

    /// A number from 0 to 1, without 1.
    pub fn unit(&mut self) -> f64 {
        (self.word() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Any order (Fisher and Yates).
    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for at in (1..list.len()).rev() {
            list.swap(at, self.below(at as u32 + 1) as usize);
        }
    }

    /// `count` different numbers below `limit`, rising.
    pub fn subset(&mut self, limit: u32, count: u32) -> Vec<u32> {
        // Each number is taken with the chance that leaves the right count (Knuth's S).
        let mut wanted = u64::from(count.min(limit));
        let mut out = Vec::with_capacity(wanted as usize);
        for number in 0..limit {
            let left = u64::from(limit - number);
            if u64::from(self.below(left as u32)) < wanted {
                out.push(number);
                wanted -= 1;
            }
        }
        out
    }

    /// `count` ranges that do not touch, rising, with ends below `limit`.
    pub(super) fn ranges(&mut self, limit: u32, count: u32) -> Vec<(u32, u32)> {
        let cuts = self.subset(limit, 2 * count);
        cuts.chunks_exact(2).map(|cut| (cut[0], cut[1])).collect()
    }
}
