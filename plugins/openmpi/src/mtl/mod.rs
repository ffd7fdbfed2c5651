//! The MTL: messages of communicators, matched and carried by Rankway.
//!
//! ```text
//! component   what Open MPI loads and asks for a module
//! table       the entry points, communicators
//! module      what they are handed: the state
//! send recv   blocking and not
//! probe       with and without taking the message
//! ```
//!
//! Where their bytes are and how they end: [`buffer`](crate::buffer),
//! [`request`](crate::request).
//!
//! The channel of a message is the communicator's context id. Its match bits
//! are the sender's rank in its group and the tag, 32 bits each. Negative tags
//! are Open MPI's own (collectives): a receive from any tag keeps bit 31, which
//! they have, so that it does not take them.

pub(crate) mod component;
mod module;
mod probe;
mod recv;
mod send;
mod table;

use crate::comm::Comm;
use rankway::msg::MatchSpec;
use std::ffi::c_int;

const ANY_SOURCE: c_int = crate::ffi::MPI_ANY_SOURCE;
const ANY_TAG: c_int = crate::ffi::MPI_ANY_TAG;
/// Bits a receive from any source ignores, and from any tag.
const SOURCES: u64 = (u32::MAX as u64) << 32;
const TAGS: u64 = i32::MAX as u64;

/// A receive's choice.
fn match_spec(comm: &Comm, source: c_int, tag: c_int) -> MatchSpec {
    let from = if source == ANY_SOURCE { None } else { Some(comm.peer(source)) };
    let (bits, ignore) = match_bits(source, tag);
    MatchSpec { channel: comm.channel, bits, ignore, from }
}

/// The bits of a source and a tag, and which of them are wildcards.
#[inline]
fn match_bits(source: c_int, tag: c_int) -> (u64, u64) {
    let (source, sources) = if source == ANY_SOURCE { (0, SOURCES) } else { (source, 0) };
    let (tag, tags) = if tag == ANY_TAG { (0, TAGS) } else { (tag, 0) };
    (u64::from(source as u32) << 32 | u64::from(tag as u32), sources | tags)
}
