//! Compact forms: irregular maps near their entropy.
//!
//! A [`RankMap`](super::RankMap) that is a formula costs nothing; one that is not
//! is a table of 4 bytes a rank. A [`Compact`] holds such a map in a tenth or a
//! thousandth of that, for a few nanoseconds a lookup. The framework is Mir
//! Taheri's (2011), "Scalability of Communicators in MPI": a map is a set (the
//! lpids rise) or a list, each [`Representation`] can hold some maps, and a
//! [`Strategy`] picks one.
//!
//! # Which wins when
//!
//! | map | space | hybrid | time |
//! |---|---|---|---|
//! | a formula (stride, box, transpose, tile) | formula | formula | formula |
//! | a transpose or box of more than four digits | mixed-radix | mixed-radix | mixed-radix, plain or packed where the caches hold it |
//! | few ranges, any order | segments, or runs if they rise | segments | blocks, plain when small |
//! | a few hundred ranges and more, rising | runs | runs | blocks |
//! | faces and planes of a topology | diagram by its radices | diagram | packed |
//! | random set, more than a quarter of its range | slim-bitmap | darray | packed, plain when small |
//! | random set, sparser | Elias-Fano | Elias-Fano | packed, plain when small |
//! | nearly sorted list | blocks | blocks | blocks |
//! | list of some other order: shuffled nodes, repeated odd steps | coded, if an eighth smaller than all others | packed or blocks | packed |
//! | random list or permutation | packed | packed | packed, plain when small |
//! | a permutation of few interleaved rising runs | wavelet | blocks or wavelet | blocks, plain when small |
//! | a child whose ranks are regular | child | child | as by itself |
//!
//! What small is, and where a larger form is slower than a smaller one, caches
//! decide: a table takes what its bytes take. The space-time curve of a map is in
//! `cargo bench -p rankway-cli --bench compact`.
//!
//! # What each costs
//!
//! `n` ranks in a range of `u` lpids, `k` ranges or segments. Building reads the
//! lpids twice (coded: three times): once for the estimates (8 KB), then into the
//! form.
//!
//! | representation | holds | bits | select | rank | memory while building |
//! |---|---|---|---|---|---|
//! | formula | regular maps | 0–4 KB | O(1) | O(1) | 1 KB |
//! | mixed-radix | boxes and transposes of up to 16 digits | 128 a digit above the first | O(digits) multiplications, independent | O(digits) divisions if lpids differ, else by an inverse | 0.3 KB |
//! | segments | lists | 144 a segment | O(log), mostly O(1) | O(log k), an index on first use | 4 B a rank at worst |
//! | elias-fano | sets | `n(2.5 + log u/n)` | O(1) | O(log n/64) | the result |
//! | bitmap | sets | `1.125u + n/16` | O(1), three dependent loads | O(1) | the result |
//! | slim-bitmap | sets | `1.008u` | O(log u/65,536), then ≤ 32 words | O(1), ≤ 32 words | the result |
//! | darray | sets | `1.03u + n/2` (dense) to `1.03u + 2n` (sparse) | O(1), two dependent loads | O(1) | the result |
//! | runs | sets | `k(5 + log u/k + log n/k)` | O(log k/64) | O(log k/64) | 8 B a range |
//! | gaps | sets | `n(1 + log largest gap)` | ≤ 31 steps | O(log n/32) + 31 steps | the result |
//! | diagram | sets | by structure | a search in each level | O(levels) | 8 B an edge |
//! | blocks | lists | `1.5n` + residuals | O(1) | by an inverse | the result |
//! | packed | lists | `n log u` | O(1) | by an inverse | the result |
//! | plain | lists | `32n` | O(1) | by an inverse | the result |
//! | wavelet | permuted sets of `ρ` rising runs | the set + `1.125n log ρ` | O(log ρ · log n) | O(log ρ) | 16 B a rank |
//! | coded | lists | the entropy of the steps | decodes a block of 1,024 ranks, but the last one | by an inverse with the lpids | the result and 8 KB |
//! | child | ranks of a parent | the ranks' | both maps' | both maps' | the ranks' |
//!
//! Sets answer `rank` from what they are. Lists make an inverse on the first
//! question, which counts in [`Compact::bytes`] from then on: back-pointers on
//! the cycles of a permutation (about 3/8 of a packed list more), else the ranks
//! sorted by lpid, packed, with a bitmap of the lpids unless those repeat or lie
//! far apart. It takes 8 bytes a rank while it is made.
//!
//! Words are counted and searched by popcnt and pdep, and packed numbers read
//! eight at a time by AVX2, where the machine has them, asked at run time, else
//! portably. Maps are written as images, versioned and
//! with a checksum ([`Compact::to_image`]).
//!
//! ```
//! use rankway::rankmap::compact::{Compact, Strategy};
//!
//! // Every prime below 100,000 is a member.
//! let prime = |n: &u32| (2..).take_while(|d| d * d <= *n).all(|d| n % d != 0);
//! let primes: Vec<u32> = (2..100_000).filter(prime).collect();
//! let map = Compact::new(Strategy::Space, primes.iter().copied())?;
//! assert!(map.bytes() < primes.len());
//! assert_eq!((map.find(3), map.position(7)), (Some(7), Some(3)));
//! let image = map.to_image();
//! assert!(Compact::from_image(&image)?.iter().eq(primes));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub(super) mod bitmap;
mod blocks;
mod build;
mod builder;
mod child;
mod coded;
mod counts;
mod cpu;
mod darray;
mod diagram;
mod elias_fano;
mod error;
mod estimate;
mod formula;
mod gaps;
mod image;
mod inverse;
mod iter;
mod map;
mod mixed_radix;
mod ones;
mod packed;
mod plain;
#[cfg(test)]
mod refused;
mod representation;
pub(super) mod runs;
mod serial;
mod slim;
mod stats;
mod strategy;
#[cfg(test)]
mod tests;
mod wavelet;

pub use self::builder::Builder;
pub use self::error::CompactError;
pub use self::estimate::Estimate;
pub use self::image::{Refused, VERSION};
pub use self::iter::Iter;
pub use self::map::Compact;
pub(super) use self::map::Simplest;
pub use self::representation::Representation;
pub use self::strategy::{Strategy, UnknownStrategy};
