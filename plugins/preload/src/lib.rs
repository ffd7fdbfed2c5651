//! What libraries share that are preloaded under any MPI program: the MPI library
//! behind them, its handles and constants, and the functions that a program finds
//! there before MPI's own. One object for Open MPI, MPICH and the standard ABI, built
//! without the headers of any.
//!
//! ```text
//! function  functions of the MPI library by name
//! mpi       whose conventions it has: handles, constants, statuses
//! export    a function by both of its names
//! table     what is kept by handle
//! shield    panics stay here, words that nobody reads are no fault
//! ```
//!
//! # Contracts
//! What the program answers for when it calls MPI, named once:
//!
//! - **\[MPI\]** A handle is a live one of its kind or a constant, a place for an
//!   answer can be written, an array has as many members as the count beside it says.
//! - **\[BUF\]** A buffer holds what count and datatype say, and is the operation's
//!   until that has completed.
//! - **\[SIG\]** The function of this name in the MPI library takes what its type
//!   here says: handles as words, of which MPICH reads the lower half.

mod export;
mod function;
pub mod mpi;
mod shield;
mod table;

pub use export::{missing, name};
pub use function::{Function, Gate};
pub use shield::{say, shielded};
pub use table::{ByHandle, Spread};
