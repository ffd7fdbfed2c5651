//! What plug-ins under device layers share: the process's one device over the
//! netmod that was chosen, the lock around its context, progress, and completion.
//!
//! ```text
//! class    which errors MPI has a class for
//! custom   operations on elements that the target's device layer computes
//! epoch    epochs of windows, and the ranks that operations may go to
//! gather   an allgather of any lengths by one of equal ones
//! open     the device by the netmod's name
//! state    the context behind its lock, progress, what has ended
//! window_id  numbers of windows
//! ```
//!
//! Knows nothing of any device layer: a plug-in brings its own view of the
//! launcher (a [`Boot`](rankway::boot::Boot)) and says what to call ([`Layer`]).
//!
//! # Contracts
//! Named once, cited by the comments.
//! - **\[COOKIE\]** The cookie of an operation is one that [`Layer::ended`] takes,
//!   until it was called with it, once.
//! - **\[LOCK\]** Whoever reads or writes this holds the lock, or there is one
//!   thread only.

mod class;
pub mod custom;
mod epoch;
mod gather;
mod open;
mod state;
mod window_id;

pub use class::Class;
pub use epoch::{OpenRanks, Promises};
pub use gather::gather_padded;
pub use open::{Chosen, open};
pub use state::{Inner, Layer, State};
pub use window_id::next_window_id;
