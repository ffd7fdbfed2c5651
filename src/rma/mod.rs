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
//! iov operations ([`Layout`]) and epochs stand beside the put, and cost it
//! nothing. What is *not* here: messages.
//!
//! # Buffers
//! [`Access::put`] and [`Access::get`] take slices and are done with them when
//! they return; the operation itself may still be under way until a flush.
//! [`Access::put_nb`] and [`Access::get_nb`] keep MPI's rule instead: the
//! buffer belongs to the operation until the flush.

mod access;
mod am_fallback;
mod atomic;
mod cold;
mod column;
mod communicator;
mod compute;
mod custom;
mod dynamic;
mod epoch;
mod error;
mod exposed_region;
mod hints;
mod iov;
mod keys;
mod locks;
mod registration;
mod request;
mod state;
mod sync;
mod typed;
mod types;
mod view;
mod window;

pub use access::{Access, FAILED};
pub use atomic::Element;
pub use communicator::{Allgather, Communicator};
pub use custom::register_operator;
pub use error::{Error, ErrorKind, WindowError};
pub use hints::{Hints, SameOp};
pub use iov::Layout;
pub use request::Pending;
pub use state::WindowState;
pub(crate) use typed::bytes_of;
pub use typed::{LocalView, Pod, Scope, TypedWindow, WindowBuilder};
pub use types::{Assert, Custom, Lock, Operator, RawTarget};
pub use view::View;
pub use window::{Backing, Flavor, Window};
