//! Rankway turns *(communicator, rank)* into a network address in a handful of
//! instructions and hands the operation to libfabric or UCX, or stores it into
//! memory that is mapped on the node.
//!
//! Two ranks, a window of words, a put:
//!
//! ```no_run
//! # #[cfg(feature = "ofi")]
//! # mod two {
//! use rankway::boot::{Boot, local};
//! use rankway::device::{self, Options};
//! use rankway::rma::Communicator;
//! use std::error::Error;
//! use std::sync::Arc;
//!
//! fn rank(boot: Arc<dyn Boot>) -> Result<(), Box<dyn Error>> {
//!     let context = device::open_ofi(boot.clone(), &Options::default())?;
//!     let world = Communicator::world(&context);
//!     let (me, size) = (world.rank(), world.size());
//!     let (left, right) = ((me + size - 1) % size, (me + 1) % size);
//!     // A zeroed word for each rank, in every rank.
//!     let mut window = world.window::<u64>().len(size as usize).allocate()?;
//!     window.fence()?;
//!     window.put_slice(&[1000 + u64::from(me)], right, me as usize)?;
//!     window.fence()?;
//!     assert_eq!(window.local()?.read(left as usize)?, 1000 + u64::from(left));
//!     // Operations that are under way together, until the scope ends.
//!     let (mut there, mut here) = ([0], [0]);
//!     window.scope(|s| {
//!         s.get(&mut there, right, me as usize)?;
//!         s.get(&mut here, me, left as usize)
//!     })?;
//!     assert_eq!((there, here), ([1000 + u64::from(me)], [1000 + u64::from(left)]));
//!     window.fence()?;
//!     window.free()?;
//!     Ok(boot.finalize()?)
//! }
//!
//! pub fn main() -> Result<(), Box<dyn Error>> {
//!     let outcome = local::run(&local::Options::new(2), |boot| match rank(boot) {
//!         Ok(()) => 0,
//!         Err(why) => {
//!             eprintln!("{why}");
//!             1
//!         }
//!     })?;
//!     std::process::exit(outcome.exit_code())
//! }
//! # }
//! # #[cfg(feature = "ofi")]
//! # two::main().unwrap();
//! ```
//!
//! [`boot::local::run`] forks the ranks; a program that mpirun or mpiexec starts
//! calls [`boot::connect`]. Everything from [`device`] on is generic over the
//! netmod: UCX is `device::open_ucx`, and nothing else changes.
//!
//! | to                                            | see |
//! |-----------------------------------------------|-----|
//! | move elements between ranks                   | [`rma::TypedWindow`], made by [`rma::Communicator::window`] |
//! | move bytes as MPI does, checked or not        | [`rma::Window`], [`rma::Access`] |
//! | send and receive by rank and tag              | [`msg::Messenger`] |
//! | call handlers where a message arrives         | [`msg::Active`] |
//! | translate ranks without any network           | [`rankmap`], [`av`] |
//! | pack and unpack noncontiguous memory          | [`datatype`] |
//! | record who talks in which communicator        | [`track`] |
//!
//! # The modules
//!
//! ```text
//! rankmap   rank → lpid                 pure, no FFI, knows nothing
//! av        lpid → 64-bit entry         pure, no FFI, knows rankmap
//! datatype  noncontiguous memory        pure, no FFI, knows nothing
//! track     communicators and calls     pure, no FFI, knows rankmap
//! netmod    entry → wire                libfabric, mapped windows, null   (feature `device`)
//! boot      who are my peers            local fork, PMIx, PMI-1, alone    (feature `device`)
//! device    peers, providers, entries   opens, inserts on first use       (feature `device`)
//! rma       communicators and windows   typed ones, and MPI's             (feature `device`)
//! msg       messages                    matched by tag, or calling handlers   (feature `device`)
//! settings  environment variables       what each takes                   (feature `device`)
//! ```
//!
//! Imports run downwards only. FFI stays in `netmod::*::ffi` and `boot::pmix`.
//!
//! # Features
//!
//! | feature    | default | brings |
//! |------------|---------|--------|
//! | `ofi`      | yes     | libfabric, opened at run time |
//! | `ucx`      | yes     | UCX, opened at run time |
//! | `netmods`  | yes     | every netmod |
//! | `pmix`     | yes     | launchers that speak PMIx (mpirun, prterun, srun), opened at run time |
//! | `device`   | implied | everything above [`av`]: [`boot`], [`device`], [`rma`], [`msg`] |
//! | `baseline` | no      | the loops that a C program would write around libfabric and UCX, on the same endpoints, to measure beside |
//! | `bindgen`  | no      | makes the bindings again (needs libclang and the libraries' headers) |
//!
//! `--no-default-features` leaves [`rankmap`], [`av`], [`datatype`] and [`track`], which need
//! no system library and no operating system beyond `std`; where the machine has
//! no 64-bit atomics, [`av`] is not there.

// What the page links to above `av` is not there without `device`.
#![cfg_attr(not(feature = "device"), allow(rustdoc::broken_intra_doc_links))]

#[cfg(target_has_atomic = "64")]
pub mod av;
pub mod datatype;
pub mod rankmap;
pub mod track;

#[cfg(feature = "device")]
pub mod boot;
#[cfg(feature = "device")]
pub mod device;
#[cfg(any(feature = "ofi", feature = "ucx", feature = "pmix"))]
mod dl;
#[cfg(all(fuzzing, feature = "device"))]
#[doc(hidden)]
pub mod fuzzing;
mod kept;
#[cfg(feature = "device")]
pub mod msg;
#[cfg(feature = "device")]
pub mod netmod;
#[cfg(feature = "device")]
mod process;
#[cfg(feature = "device")]
pub mod rma;
#[cfg(feature = "device")]
pub mod settings;
#[cfg(feature = "device")]
#[cfg_attr(not(feature = "node"), allow(dead_code, reason = "that netmod uses all of it"))]
mod shm;
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
