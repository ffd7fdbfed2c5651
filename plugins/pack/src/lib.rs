//! `librankway_pack.so`: preloaded, it gives an MPI program's `MPI_Pack`,
//! `MPI_Unpack` and messages of derived types Rankway's kernels. One object for
//! Open MPI and MPICH; the program, its libraries and MPI stay as they are.
//!
//! ```text
//! settings  RANKWAY_PACK, RANKWAY_PACK_STATS
//! stats     what was taken and what was left, and why
//! buffers   packed bytes of messages: bounded, used again
//! mpi       functions of the MPI library that are called here
//! learn     a datatype's envelope and contents as a layout
//! types     the committed types, and whether a call is worth taking
//! requests  operations under way that have a packed buffer
//! packing   MPI_Pack and MPI_Unpack
//! message   sends and receives
//! complete  MPI_Wait, MPI_Test and their kin
//! exports   the functions that a program finds here before MPI's own
//! ```
//!
//! Each imports those above it alone. What is not known is handed to MPI's own
//! function as it came.
//!
//! The contracts that its blocks cite are those of `rankway_preload`.
//!
//! No panic leaves the library: work that fails before MPI is called is left to
//! MPI, and afterwards it is an error code.

mod buffers;
mod complete;
mod exports;
mod learn;
mod message;
mod mpi;
mod packing;
mod requests;
mod settings;
mod stats;
mod types;
