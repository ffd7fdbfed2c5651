//! Tagged messages of a context: calls, protocol, packets.
//!
//! A payload travels in its packet when it fits one and the peer has credit
//! for it ([`eager`]), else by [`rendezvous`]. A send whose peer has no credit
//! for another header waits in its queue ([`flow`]), and those behind it do too:
//! messages to a peer are never reordered.
//!
//! Each file knows those below it:
//!
//! ```text
//! layouts                       calls for what is not contiguous
//! completion_queue  request     nonblocking calls: with a cookie, with an object
//! calls                         Tagged, blocking calls, probes
//! protocol                      a packet or a completion comes: who takes it
//! failure                       deaths, failed waits, delivery queries
//! send  receive                 a call comes: eager, rendezvous, or it waits
//! eager  rendezvous  pull       how a body travels
//! state                         what a context keeps
//! flow  slots                   by peer; by request
//! staging                       memory in place of a caller's
//! pieces  packets  tokens       pure: pieces of a body, layouts
//! ```

mod calls;
mod completion_queue;
mod eager;
mod failure;
mod flow;
mod layouts;
mod packets;
mod pieces;
mod protocol;
mod pull;
mod receive;
mod rendezvous;
mod request;
mod send;
mod slots;
mod staging;
mod state;
mod tokens;

pub use calls::{Message, Tagged};
pub use completion_queue::{RequestId, Started};
pub use request::{Request, test_all, wait_all, wait_any};
