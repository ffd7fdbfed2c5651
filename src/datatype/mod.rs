//! Noncontiguous data: MPI's datatypes as values, and packing by vector kernels.
//!
//! A [`Layout`] is made by MPI's constructors and says which bytes of memory an
//! operation takes, in which order. It has one form however it was built. Pure: it
//! knows nothing of ranks and networks.
//!
//! ```
//! use rankway::datatype::{Basic, Layout};
//!
//! // A column of a matrix of 4 rows and 3 columns, and all columns: a transpose.
//! let column = Layout::vector(4, 1, 3, &Layout::basic(Basic::U8))?;
//! let all = Layout::hvector(3, 1, 1, &column)?;
//! let matrix: Vec<u8> = (0..12).collect();
//! let mut packed = [0; 12];
//! assert_eq!(all.pack(&matrix, 0, 0, &mut packed)?, 12);
//! assert_eq!(packed, [0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11]);
//! // From any byte of the packed stream on, as much as there is room for.
//! assert_eq!(all.pack(&matrix, 0, 5, &mut packed[..2])?, 2);
//! assert_eq!(packed[..2], [4, 7]);
//! # Ok::<(), rankway::datatype::LayoutError>(())
//! ```
//!
//! What it costs is predicted for each plan that there is, from the machine's caches
//! and TLB, so that a wrong choice shows:
//!
//! ```
//! use rankway::datatype::{Basic, Direction, Layout};
//!
//! let column = Layout::vector(512, 1, 512, &Layout::basic(Basic::F64))?;
//! let transpose = Layout::hvector(512, 1, 8, &column)?;
//! let (memory, mut packed) = (vec![1; 512 * 512 * 8], vec![0; 512 * 512 * 8]);
//! for candidate in transpose.plans(Direction::Pack) {
//!     transpose.pack_by(&candidate.plan, &memory, 0, 0, &mut packed)?;
//!     let mark = if candidate.chosen { "*" } else { " " };
//!     let cost = candidate.cost;
//!     println!("{mark} {}: {} ns a byte, {} misses of the TLB", candidate.plan,
//!         cost.ns_per_byte, cost.tlb.misses);
//! }
//! # Ok::<(), rankway::datatype::LayoutError>(())
//! ```
//!
//! Sources: MPI-4.1, chapter 5; Byna, Sun, Gropp, Thakur (2004) for the tiles.

mod basic;
mod between;
mod blocks;
mod combine;
mod contents;
mod copy;
mod encode;
mod error;
mod external;
mod foreign;
mod form;
mod kernels;
mod layout;
mod machine;
mod model;
mod part;
mod plan;
mod signature;
mod table;
#[cfg(test)]
mod tests;
mod types;

pub use basic::Basic;
pub use blocks::Blocks;
pub use combine::Carry;
pub use contents::{Combiner, Contents, Numbers};
pub use error::{BadPlan, LayoutError};
pub use foreign::Item;
pub use kernels::{Level, Plan};
pub use layout::{Dealt, Distribution, Layout, Order};
pub use machine::{Costs, Machine, Origin};
pub use model::{Accesses, Candidate, PlanCost};
pub use part::Columns;
pub use plan::Direction;
pub use signature::Signature;
