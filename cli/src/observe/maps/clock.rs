//! How long a lookup is: the least of many chunks, since everything that
//! disturbs a measurement makes it longer.

use super::Random;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Lookups between two looks at the clock.
const CHUNK: u32 = 4_000;
/// Chunks that are enough, where they take as long as [`WARM_UP`].
const CHUNKS: u32 = 250;
/// Caches take a while to warm up.
const WARM_UP: Duration = Duration::from_millis(100);

/// Least nanoseconds of one of the `each` things that a call does, of up to
/// `rounds` calls; no new one is begun once `budget` is over.
pub fn least(budget: Duration, rounds: u32, each: u32, mut call: impl FnMut()) -> f64 {
    let began = Instant::now();
    let mut best = f64::INFINITY;
    for round in 0..rounds {
        let start = Instant::now();
        if round > 0 && start - began > budget {
            break;
        }
        call();
        best = best.min(start.elapsed().as_secs_f64() * 1e9 / f64::from(each.max(1)));
    }
    best
}

/// A rank below `len` from any bits, by a multiplication instead of a division.
fn spread(bits: u32, len: u32) -> u32 {
    ((u64::from(bits.wrapping_mul(0x9e37_79b1)) * u64::from(len)) >> 32) as u32
}

/// Nanoseconds of a lookup of random ranks below `len` (not 0), each of which
/// depends on the answer before; the chain's own arithmetic is in it.
pub fn random(budget: Duration, len: u32, lookup: impl Fn(u32) -> u32) -> f64 {
    let (mut rank, mut salt) = (0u32, 1u32);
    let mut chunk = |rounds, budget| {
        let least = least(budget, rounds, CHUNK, || {
            for _ in 0..CHUNK {
                salt = salt.wrapping_add(0x61c8_8647);
                rank = spread(lookup(rank) ^ salt, len);
            }
        });
        black_box(rank);
        least
    };
    let began = Instant::now();
    let first = chunk(CHUNKS, budget);
    let left = WARM_UP.min(budget).saturating_sub(began.elapsed());
    // More for what is quick.
    if left.is_zero() { first } else { first.min(chunk(7 * CHUNKS, left)) }
}

/// Nanoseconds of the same chain over an array of so many bytes: what the
/// caches of this machine ask for any answer from so many bytes.
pub fn floor(budget: Duration, bytes: u64) -> f64 {
    let mut draw = Random::new(bytes);
    let table: Vec<u32> = (0..bytes.div_ceil(4).max(1)).map(|_| draw.below(1 << 20)).collect();
    random(budget, table.len() as u32, |rank| table[rank as usize])
}

/// Nanoseconds of an lpid of an iterator over all `len` ranks.
pub fn walk<I: Iterator<Item = u32>>(budget: Duration, len: u32, all: impl Fn() -> I) -> f64 {
    let mut sum = 0u32;
    let least = least(budget, 7, len, || all().for_each(|lpid| sum = sum.wrapping_add(lpid)));
    black_box(sum);
    least
}

/// Nanoseconds of the rank of a random member, each dependent on the one
/// before. What an inverse takes to be made on the first question is not in it.
pub fn inverse(budget: Duration, lpids: &[u32], position: impl Fn(u32) -> Option<u32>) -> f64 {
    let Some(&first) = lpids.first() else { return f64::NAN };
    position(first);
    let (mut at, mut salt) = (0u32, 1u32);
    let least = least(budget, CHUNKS / 2, CHUNK / 4, || {
        for _ in 0..CHUNK / 4 {
            salt = salt.wrapping_add(0x61c8_8647);
            at = position(lpids[spread(at ^ salt, lpids.len() as u32) as usize]).unwrap_or(0);
        }
    });
    black_box(at);
    least
}
