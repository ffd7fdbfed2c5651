//! The libfabric netmod.
//!
//! One [`Domain`] is one provider: `shm` for peers on this node, or a network
//! provider such as `tcp;ofi_rxm` or `verbs;ofi_rxm`. Their differences are
//! handled here, once, at open:
//!
//! | pitfall | what is done |
//! |---|---|
//! | an `fi_inject_write` under way when the peer dies crashes inside rxm (1.17 and 2.x) | an `FI_WRITE` counter is bound to every endpoint |
//! | shm takes its slower CMA path, out of order with queued puts, when `FI_MR_VIRT_ADDR` is offered | it is not offered to shm |
//! | shm before 1.18 guards its queues with spin locks in shared memory: a peer killed while it holds one hangs those who put to it, inside the library | a thread inspects the locks and frees those of dead processes; windows of [`Window::allocate`](crate::rma::Window::allocate) do not go through them, and newer libraries have no such lock |
//! | shm hands out completions in order, and one towards a dead peer never comes | the device goes on with another endpoint |
//! | shm of 2.5 crashes or waits for ever where a thread inserts an address, opens or closes an endpoint while another is inside it | these are done one at a time, and behind closed gates of all endpoints (`gate.rs`) |
//! | shm holds 256 peers | [`Caps::max_peers`](super::Caps) says so |
//! | `net` claims atomics it lacks; hooks and test providers come first in the list | taken only when named |
//! | rxm over soft-RoCE cannot be enabled with more than 127 expected peers | the AV's size hint follows the job, and `FI_UNIVERSE_SIZE` is left to the user |
//! | fetching atomics of less than 8 bytes in shm of 1.17 go wrong when two are under way | they are not taken from it |
//! | software atomics (shm, rxm): the C source reads the word twice around its compare and swap, and nothing promises that this is one access | [`Caps::cpu_atomics`](super::Caps) is not claimed |
//! | rxm with `FI_ATOMIC` does not promise `FI_ORDER_RAW` | it is taken without atomics: a flush needs the order |
//! | an injected put is not acknowledged | a flush reads back from the target, behind it in order |
//! | a put or get with a key that is not registered (any more) ends the connection over tcp, and other operations on it are lost | after a death, the keys of windows that were not freed by all stay registered, over unused memory |
//! | registrations that are kept for buffers that come again (verbs) go stale when free(3) gives memory back, which memhooks of 1.17 does not hear of: puts carry old bytes | `FI_MR_CACHE_MONITOR=userfaultfd` unless the user says otherwise |
//! | `FI_MR_LOCAL` | tracked transfers go through registered bounce buffers, long ones are registered until they complete |
//!
//! What the `SAFETY` comments cite in brackets are the contracts of
//! [`Netmod`](super::Netmod).
//!
//! libfabric types stay in this directory.

#[rustfmt::skip]
pub(crate) mod bindings;
#[cfg(feature = "baseline")]
pub mod baseline;

mod atomic;
mod bulk;
mod calls;
mod command_queue;
mod constants;
mod describe;
mod domain;
mod endpoint;
pub(crate) mod ffi;
mod gate;
mod gather;
mod inject;
mod iov;
mod lock_reaper;
mod netmod;
mod open;
mod packet;
mod pages;
mod region;
mod ring;
mod select;
mod shm;
mod slots;
mod stale_keys;
mod threads;
mod wait;

pub use describe::{Provider, describe, library, would_select};
pub use domain::Domain;
pub use endpoint::Endpoint;
pub use inject::InjectHandle;
pub use region::Region;
pub use select::{Request, providers};

/// libfabric, with the module for the node where that is named.
pub type Ofi = super::with_node::WithNode<Domain>;
