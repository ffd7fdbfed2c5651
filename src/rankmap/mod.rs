//! Rank maps: rank → (process group, lpid), compressed.
//!
//! A communicator's map says which process each rank is. Written out it costs
//! 4 or 8 bytes a rank in every process; but the maps programs make are nearly
//! always regular (Guo et al. 2017, Table I), and a regular map is a formula.
//! A [`RankMap`] holds the smallest form of its map:
//!
//! | model | form | bytes beside the 32 of the map | lookup | inverse |
//! |---|---|---|---|---|
//! | direct, offset, stride | `base + stride·rank`, any sign | 0 | 1 multiply | O(1) |
//! | blockstride | two digits: blocks of ranks, with a phase | 0 | 3 multiplies | O(1) |
//! | md-blockstride | three or four digits: boxes, planes, transposes | 56 | 2 multiplies a digit | O(1) |
//! | md-blockstride | a tile: up to 64 ranks of any order, repeated at a stride | 40 + 4 a rank of the tile | 3 multiplies | O(1) |
//! | segments | affine runs and a directory, at most one run for 8 ranks | 16–20 a run | a short search | O(log) |
//! | compact | near the entropy, if a strategy asks for it ([`compact`]) | by form | a few ns to some tens | by form |
//! | lut | u32 table, shared by every selection from it | 4 a rank, or 0 | 1 load | O(1), or O(log) |
//! | mlut | (process group, lpid): any form above over *numbers* of the members, which lie group behind group | the form's, 120, and 16 a group | the form's and a search among the groups | the form's |
//! | mlut | where that is irregular, a table, shared likewise | 8 a rank, or 0 | 2 loads | O(1), or O(log) |
//!
//! The models keep the names of Guo et al. (2017), "Memory Compression
//! Techniques for Network Address Management in MPI"; their blockstride and
//! md-blockstride are the mixed-radix affine maps of `mixed.rs`, which also
//! take negative strides, overlapping and repeated blocks (rank → node is one)
//! and maps that begin inside a block. More than four digits are a tile,
//! segments or a table.
//!
//! Maps come from [`RankMap::from_lpids`], [`RankMap::from_processes`] or a
//! [`Detector`] in one streaming pass, or from [`RankMap::compose`]. The form is
//! a function of the map alone: equal regular maps are equal field by field.
//! What the hot path reads is a [`Lookup`], made from a map and an address
//! vector directory. An irregular map is a table unless a [`compact::Strategy`]
//! is given ([`RankMap::with_strategy`], [`RankMap::compressed`]).
//!
//! ```
//! use rankway::rankmap::{Model, Process, RankMap};
//!
//! // Four of every eight ranks of the world, and of those the even ones.
//! let world = RankMap::direct(1 << 20);
//! let half = world.compose(&RankMap::from_lpids(0, (0..1 << 19).map(|r| r / 4 * 8 + r % 4))?)?;
//! assert_eq!(half.model(), Model::BlockStride);
//! let even = half.compose(&RankMap::affine(0, 0, 2, 1 << 18)?)?;
//! assert_eq!(even.get(3), Some(Process { pg: 0, lpid: 10 }));
//! assert_eq!(even.rank_of(Process { pg: 0, lpid: 10 }), Some(3));
//! assert_eq!(even.bytes(), size_of::<RankMap>());
//! # Ok::<(), rankway::rankmap::MapError>(())
//! ```
//!
//! Ordered sets of processes, with MPI's operations, are in [`group`].
//!
//! This module never looks at an address, never blocks, and knows no other module.

mod affine;
#[cfg_attr(not(feature = "device"), allow(dead_code, reason = "most of it is for splits"))]
mod combs;
pub mod compact;
mod compose;
mod detect;
mod error;
pub mod group;
mod irregular;
mod iter;
mod levels;
#[cfg(target_has_atomic = "64")]
mod lookup;
mod map;
mod mixed;
mod model;
mod numbering;
mod odometer;
mod process;
mod reciprocal;
mod regular;
mod segments;
mod several;
mod table;
#[cfg(test)]
mod tests;
mod tile;
mod translation;

pub use self::detect::Detector;
pub use self::error::MapError;
pub use self::iter::Iter;
#[cfg(target_has_atomic = "64")]
pub use self::lookup::{Lookup, body};
pub use self::map::RankMap;
pub use self::model::Model;
pub use self::process::{LPID_MAX, Process, SIZE_MAX};
pub(crate) use self::translation::Translation;
