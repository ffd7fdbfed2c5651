//! `librankway_track.so`: preloaded, it records an MPI program's communicators, windows
//! and files, what it never frees, and its calls. One object for Open MPI, MPICH and the
//! standard ABI; the program, its libraries and MPI stay as they are.
//!
//! ```text
//! settings  RANKWAY_TRACE, RANKWAY_TRACE_EVENTS
//! mpi       functions of the MPI library that are called here
//! site      the place in the program that called
//! handles   what a handle names: numbers of objects
//! job       the process's record, from MPI_Init to MPI_Finalize
//! census    who holds how many, where MPI has no more
//! launcher  what a process knows of its job by who launched it
//! agree     what the members of a communicator tell each other of it
//! objects   constructors and frees
//! counts    counts as int and as MPI_Count
//! calls     a call as an event
//! requests  receives under way
//! complete  MPI_Wait, MPI_Test and their kin
//! begin     MPI_Init, and how a process ends
//! exports   the functions that a program finds here before MPI's own
//! ```
//!
//! Each imports those above it alone. The contracts that its blocks cite are those of
//! `rankway_preload`.
//!
//! No panic leaves the library, and nothing that fails in it changes what MPI returns.

mod agree;
mod begin;
mod calls;
mod census;
mod complete;
mod counts;
mod exports;
mod handles;
mod job;
mod launcher;
mod mpi;
mod objects;
mod requests;
mod settings;
mod site;
