//! Messages between processes: tagged ones, matched as MPI demands, and active
//! ones.
//!
//! * [`Messenger`]: by communicator, rank and tag, with wildcards, probes,
//!   matched probes and cancelled receives.
//! * [`Tagged`]: the same by world rank, channel and 64 match bits, for device
//!   layers that lay the bits out themselves. A completion queue
//!   ([`Completion`]) tells of their requests where they have thousands.
//! * [`Messenger::scope`]: sends and receives that are under way together, of
//!   buffers that the compiler guards.
//! * [`Active`]: active messages, which call a handler where they arrive, with
//!   replies; [`Mailbox`] hands them to other threads.
//!
//! ```
//! # use std::sync::Arc;
//! use rankway::msg::{Active, Any, HandlerStatus, Messenger};
//! use rankway::rma::Communicator;
//!
//! # let boot = Arc::new(rankway::boot::alone::Alone::new()?);
//! # let context = rankway::device::open_null(boot)?;
//! let world = Communicator::world(&context); // a job of one rank
//! let messages = Messenger::open(&world)?;
//! messages.send(b"hello", 0, 7)?;
//! let mut greeting = [0; 5];
//! let status = messages.recv(&mut greeting, Any, 7)?;
//! assert_eq!((status.source(), &greeting), (0, b"hello"));
//!
//! let active = Active::open(&context)?;
//! active.register(1, |call| {
//!     assert_eq!(call.payload, [1, 2]);
//!     HandlerStatus::Consumed
//! })?;
//! active.send(0, 1, &[], &[1, 2])?;
//! context.progress()?; // calls the handler
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Matching is done here, over packets: one engine for all providers and both
//! transports at once, so that everything works the same everywhere.
//!
//! # Bounds
//! A process may have `RANKWAY_EAGER_CREDIT` bytes (1 MiB) of messages lying
//! unread at a peer, and `RANKWAY_EAGER_MESSAGES` (65,536) of them; the
//! settings must be equal in a job. Past the bytes, messages wait at the
//! sender for their receive, past the number their senders wait. Active
//! messages have as much again, and wait at their sender past either.
//! [`Messenger::counts`] tells what lies here.
//!
//! # Contracts
//! What the caller of an unsafe call answers for, named once:
//!
//! - **\[BUF\]** What is sent is readable for its length, and not written to, until
//!   the request is complete, also when it is dropped before.
//! - **\[INTO\]** Where a message goes is writable for its capacity, and not touched,
//!   until the request is complete, also when it is dropped before with its message
//!   on the way.
//!
//! # The end of a job
//! A short message is the network's when its send returns, not its receiver's:
//! as before `MPI_Finalize`, whoever leaves must have been heard; end with a
//! [barrier](crate::rma::Communicator::barrier).

mod active;
mod am_packet;
mod credit;
mod elsewhere;
mod error;
mod index;
mod kept;
mod mailbox;
mod matching;
mod messenger;
mod notifier;
mod pool;
mod posted;
mod recent;
mod scope;
mod tagged;
mod types;

/// What [`notifier`] is made of, which `proofs/` has made of something else.
mod sync {
    pub(super) use std::sync::{Condvar, Mutex, PoisonError};
}

pub use crate::shm::word::Word;
pub use active::{Active, Call, HandlerStatus, Reply};
pub use am_packet::HEADER;
pub use error::MsgError;
pub use mailbox::{AmMessage, Mailbox};
pub use messenger::{Any, Messenger, Source, Tag};
pub use scope::{Receive, Scope};
pub use tagged::{Message, Request, RequestId, Started, Tagged, test_all, wait_all, wait_any};
pub use types::{Completion, Counts, Envelope, MatchSpec, Status};
