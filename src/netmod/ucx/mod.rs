//! The UCX netmod, opened at run time.
//!
//! One [`Ucx`] serves every peer: UCX itself takes shared memory on the node
//! and a network beyond, as `UCX_TLS` and `UCX_NET_DEVICES` allow. Its pitfalls
//! are handled here:
//!
//! | pitfall | what is done |
//! |---|---|
//! | an endpoint is good on its worker only | every context has an address vector of its own ([`Netmod::own_addresses`](super::Netmod::own_addresses)) |
//! | a remote key is a handle, made for one endpoint | [`Netmod::rkey_unpack`](super::Netmod::rkey_unpack) on first use ([`Netmod::KEY_HANDLES`](super::Netmod::KEY_HANDLES)) |
//! | addresses and keys are unpacked without a bounds check | they travel with a mark and a checksum (`frame`) |
//! | a put may keep the caller's buffer | an injected one asks for immediate completion or none; if there is none, it goes through a copy |
//! | shared memory excludes peer failure handling, and with it 1.20 has no fetching atomics over tcp | endpoints go without; the error handler is called all the same, and the device watches processes on the node |
//! | user memory is put to by messages, 50 times slower than stores | windows come from UCX's allocator where its own path is asked for |
//! | tcp's zero-copy puts crash their receiver now and then (1.13) | `UCX_TCP_PUT_ENABLE=n`, unless it is set |
//! | progress must not be made from within a callback | packets are handed out in a poll alone |
//! | a callback must not unwind | panics are caught and resumed behind UCX's frames |
//!
//! What the `SAFETY` comments cite in brackets are the contracts of
//! [`Netmod`](super::Netmod).
//!
//! UCX's types stay in this directory.

#[rustfmt::skip]
pub(crate) mod bindings;
#[cfg(feature = "baseline")]
pub mod baseline;
pub(crate) mod ffi;

mod arrivals;
mod atomic;
mod bulk;
mod constants;
mod describe;
mod domain;
mod endpoint;
mod frame;
mod inject;
mod netmod;
mod packet;
mod region;
mod slots;
mod transports;
mod wait;

pub use describe::{library, transports};
pub use domain::{Request, Ucx};
pub use endpoint::Worker;
pub use ffi::LoadError;
pub use inject::InjectHandle;
pub use region::Region;
