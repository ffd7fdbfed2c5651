//! Communicators and windows: one-sided operations by rank.
//!
//! A [`Communicator`] is a rank map over a device; a [`Window`] is memory that
//! its members may put to and get from. What a put goes through:
//!
//! ```text
//! Access::put            checks: epoch, rank, displacement, length
//!   path                 one test: network, mapped, or the general path
//!   Lookup::entry        rank → entry                       rankmap
//!   Netmod::inject       entry → the provider's function    netmod
//! ```
//!
//! Everything else (inserting a peer, long messages, uneven windows, errors) is
//! out of line. Operations on elements ([`Access::accumulate`] and its like),
//! operations with a [`Layout`](crate::datatype::Layout) and epochs stand beside
//! the put, and cost it nothing. What is *not* here: messages.
//!
//! A window of elements of one type, and a communicator of some ranks:
//!
//! ```
//! # use std::sync::Arc;
//! use rankway::netmod::Op;
//! use rankway::rma::Communicator;
//!
//! # let boot = Arc::new(rankway::boot::alone::Alone::new()?);
//! # let context = rankway::device::open_null(boot)?;
//! let world = Communicator::world(&context);
//! let even = world.split((world.rank() % 2 == 0).then_some(0), 0)?;
//! if let Some(even) = even {
//!     let last = even.size() - 1;
//!     let mut counters = even.window::<u32>().len(16).allocate()?;
//!     counters.lock_all()?;
//!     counters.put_slice(&[7, 8], last, 14)?;
//!     counters.flush(last)?;
//!     assert_eq!(counters.fetch_and_op(1, Op::Sum, last, 15)?, 8);
//!     assert_eq!(counters.get_value(last, 15)?, 9);
//!     counters.unlock_all()?;
//!     counters.free()?;
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`TypedWindow`] is the interface of a program; [`Window`] and [`Access`],
//! to which it dereferences, are what a device layer calls.
//!
//! # Buffers
//! [`Access::put`] and [`Access::get`] take slices and are done with them when
//! they return; the operation itself may still be under way until a flush.
//! [`Access::put_nb`] and [`Access::get_nb`] keep MPI's rule instead: the
//! buffer belongs to the operation until the flush.
//!
//! # Contracts
//! What the caller of an unsafe call answers for, named once:
//!
//! - **\[LIVE\]** The window is not freed.
//! - **\[RANK\]** The rank is below the size of the access's map.
//! - **\[TARGET\]** The target's memory holds the bytes of the operation from `disp`
//!   units on.
//! - **\[BUF\]** What is put or operated with stays readable, for the bytes, elements
//!   or extent that the call names, until the operation is complete here: as the
//!   call says, when it returns, its request was waited for, or the access was
//!   flushed for the rank.
//! - **\[INTO\]** Where results go stays writable, and untouched, for as much and as
//!   long.
//! - **\[APART\]** The buffer does not overlap the target's bytes.
//! - **\[MEM\]** Memory that a window is made over, or that is attached, stays mapped,
//!   and is touched by the process only as MPI's rules for windows allow, until the
//!   window is freed or dropped or the memory detached.

mod access;
mod am_fallback;
mod atomic;
mod atomic_layout;
mod atomic_provider;
mod cold;
mod column;
mod communicator;
mod custom;
mod dynamic;
mod element;
mod element_gate;
mod epoch;
mod error;
mod exposed_region;
mod hints;
mod keys;
mod lanes;
mod layout;
mod locks;
mod node_barrier;
mod node_words;
mod numbered;
mod packets;
mod pieces;
mod places;
mod registration;
mod request;
mod state;
mod sync;
mod transfer;
mod typed;
mod types;
mod view;
mod window;

pub use access::{Access, FAILED};
pub use communicator::{Allgather, Communicator, Says, SimulatedMembers};
pub use custom::register_operator;
pub use element::Element;
pub use element_gate::InlineGate;
pub(crate) use error::too_long;
pub use error::{Error, ErrorKind, WindowError};
pub use hints::{Hints, SameOp};
pub use request::Pending;
pub use state::WindowState;
pub use typed::{LocalView, Pod, Scope, TypedWindow, WindowBuilder};
pub(crate) use typed::{bytes_of, bytes_of_mut};
pub use types::{Assert, Custom, Lock, Operator, RawTarget};
pub use view::View;
pub use window::{Backing, Flavor, Window};

/// Copies `len` bytes between a buffer and memory of a window that is mapped here, as
/// puts and gets do: by what is best for the length.
///
/// # Safety
/// \[BUF\], \[INTO\], \[APART\]: both sides hold `len` bytes and do not overlap.
#[inline]
pub unsafe fn copy_mapped(to: *mut u8, from: *const u8, len: usize) {
    // SAFETY: by the contract.
    unsafe { crate::shm::copy::copy(to, from, len) }
}
