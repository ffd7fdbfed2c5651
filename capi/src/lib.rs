//! The C interface: what a device layer that is not written in Rust links.
//!
//! `include/rankway.h` is made of this crate (`capi/tests/header.rs`) and of
//! `capi/inline.h`, whose functions stand in the header so that a translation
//! and an unchecked put cost no call. `docs/device-layer.md` says which call
//! stands for which of MPICH's and Open MPI's.
//!
//! No call crashes for a wrong handle, a null pointer or a wrong argument: it
//! answers a code, and `rankway_error_message` says what, who and what to do.
//! What C alone can know is its word, and every `unsafe` here stands on it:
//!
//! - **\[PTR\]** A pointer argument is null, or good until the call returns for what
//!   the header says that it is: a place for the answer, an array of as many
//!   elements as its count, a structure, a text with its zero.
//! - **\[BUF\]** A buffer is null only where it is empty; else it holds the bytes or
//!   elements that the call says, and is the operation's until that is complete:
//!   when the call returns, its request is complete, or the window is flushed.
//! - **\[MEM\]** Memory that a window is made over or that is attached stays until
//!   the window is freed or the memory detached.
//! - **\[LOOKUP\]** What a lookup was made of (map or communicator, and context)
//!   outlives it.
//! - **\[CALLBACK\]** A function may be called with its argument until what it was
//!   registered on is closed.
//!
//! This crate decides nothing: it looks at arguments and calls the library.

#![allow(
    clippy::missing_safety_doc,
    reason = "the contract of every function is C's: pointers are null or good, as the header says"
)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod abi;
mod am;
mod args;
mod boot;
pub mod calls;
mod custom;
pub mod error;
mod layout;
mod native;
mod objects;
mod operation;
mod slab;
mod table;
mod window;
