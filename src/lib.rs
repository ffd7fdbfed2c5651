//! Rankway turns *(communicator, rank)* into a network address in a handful of
//! instructions and hands the operation to the network library.
//!
//! # The modules
//!
//! ```text
//! rankmap   rank → lpid                 pure, no FFI, knows nothing
//! av        lpid → 64-bit entry         pure, no FFI, knows rankmap
//! netmod    entry → wire                libfabric, mapped windows, null   (feature `device`)
//! boot      who are my peers            local fork, PMIx, PMI-1, alone    (feature `device`)
//! device    peers, providers, entries   opens, inserts on first use       (feature `device`)
//! rma       communicators and windows   knows all of the above            (feature `device`)
//! msg       messages                    matched by tag, or calling handlers   (feature `device`)
//! settings  environment variables       what each takes                   (feature `device`)
//! ```
//!
//! Imports run downwards only. FFI stays in `netmod::*::ffi` and `boot::pmix`.
//!
//! # Features
//!
//! `ofi`, `ucx` and `pmix` are on by default; `--no-default-features` leaves
//! `rankmap` and `av`, which need no system library and no operating system
//! beyond `std`; where the machine has no 64-bit atomics, `rankmap` alone.
//! `baseline` adds the loops that a C program would write around libfabric and
//! UCX, on the same endpoints, to measure beside.

#[cfg(target_has_atomic = "64")]
pub mod av;
pub mod rankmap;

#[cfg(feature = "device")]
pub mod boot;
#[cfg(feature = "device")]
pub mod device;
#[cfg(any(feature = "ofi", feature = "ucx", feature = "pmix"))]
mod dl;
#[cfg(all(fuzzing, feature = "device"))]
#[doc(hidden)]
pub mod fuzzing;
#[cfg(feature = "device")]
pub mod msg;
#[cfg(feature = "device")]
pub mod netmod;
#[cfg(feature = "device")]
pub mod rma;
#[cfg(feature = "device")]
pub mod settings;
#[cfg(feature = "device")]
mod ulimit;

/// Compiles the README's examples with the tests.
#[cfg(all(doctest, feature = "ofi"))]
#[doc = include_str!("../README.md")]
struct Readme;

/// Compiles the guide's examples with the tests.
#[cfg(all(doctest, feature = "ofi"))]
#[doc = include_str!("../docs/guide.md")]
struct Guide;
