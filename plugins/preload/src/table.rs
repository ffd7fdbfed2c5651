//! What is kept by handle.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Spreads handles: addresses and small numbers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_usize(usize::from(byte));
        }
    }

    fn write_usize(&mut self, value: usize) {
        // (The upper bits of the product are the well mixed ones, and tables take
        // from both ends.)
        let product = (self.0 ^ value as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ product >> 32;
    }
}

/// A table by handle.
pub type ByHandle<T> = HashMap<usize, T, BuildHasherDefault<Spread>>;
