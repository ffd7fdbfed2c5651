//! The C interface: what a device layer that is not written in Rust links.
//!
//! `include/rankway.h` is made of this crate (`capi/tests/header.rs`) and of
//! `capi/inline.h`, whose functions stand in the header so that a translation
//! and an unchecked put cost no call. `docs/device-layer.md` says which call
//! stands for which of MPICH's and Open MPI's.
//!
//! No call crashes for a wrong handle, a null pointer or a wrong argument: it
//! answers a code, and `rankway_error_message` says what, who and what to do.
//! What C alone can know, that a buffer is as long as it says and lives as long
//! as it must, is the caller's word: every `unsafe` here stands on it.
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
pub mod error;
mod layout;
mod native;
mod objects;
mod operation;
mod slab;
mod table;
