//! A running odometer over the digits of a mixed-radix map: its affine runs in
//! rank order, without a division.

use super::mixed::{MAX_DIGITS, Mixed};

#[derive(Clone, Debug)]
pub(super) struct Odometer {
    mixed: Mixed,
    /// First lpid of the run to come.
    next: u32,
    /// Ranks in the run to come.
    run: u32,
    /// Turns of level `k` left before level `k + 1` turns; entry 0 unused.
    left: [u32; MAX_DIGITS],
}

impl Odometer {
    pub(super) fn new(mixed: &Mixed) -> Odometer {
        let mut left = [0; MAX_DIGITS];
        let top = mixed.digits as usize - 1;
        for (pair, left) in mixed.radix.windows(2).zip(&mut left[1..top]) {
            *left = (pair[1] - mixed.phase % pair[1]).div_ceil(pair[0]);
        }
        let block = mixed.radix[0];
        let run = block - mixed.phase % block;
        Odometer { mixed: *mixed, next: mixed.first, run, left }
    }

    /// First lpid and length of the next run, the last one uncut. The step is
    /// `mixed.step[0]`.
    #[inline]
    pub(super) fn advance(&mut self) -> (u32, u32) {
        let (first, run) = (self.next, self.run);
        let top = self.mixed.digits as usize - 1;
        let mut level = 1;
        while level < top {
            self.left[level] -= 1;
            if self.left[level] != 0 {
                break;
            }
            self.left[level] = self.mixed.radix[level] / self.mixed.radix[level - 1];
            level += 1;
        }
        self.next = first
            .wrapping_add((self.mixed.step[0] as u32).wrapping_mul(run - 1))
            .wrapping_add(self.mixed.step[level] as u32);
        self.run = self.mixed.radix[0];
        (first, run)
    }
}
