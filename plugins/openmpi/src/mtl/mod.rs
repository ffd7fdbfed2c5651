//! The MTL: messages of communicators, matched and carried by Rankway.
//!
//! ```text
//! component   what Open MPI loads and asks for a module
//! table       the entry points, communicators
//! module      what they are handed: the state
//! send recv   blocking and not
//! buffer      where their bytes are
//! probe       with and without taking the message
//! request     how they end
//! ```
//!
//! The channel of a message is the communicator's context id. Its match bits
//! are the sender's rank in its group and the tag, 32 bits each. Negative tags
//! are Open MPI's own (collectives): a receive from any tag keeps bit 31, which
//! they have, so that it does not take them.

mod buffer;
pub(crate) mod component;
mod module;
mod probe;
mod recv;
pub(crate) mod request;
mod send;
mod table;

use crate::comm::Comm;
use rankway::msg::{MatchSpec, Status};
use std::ffi::c_int;

const ANY_SOURCE: c_int = crate::ffi::MPI_ANY_SOURCE;
const ANY_TAG: c_int = crate::ffi::MPI_ANY_TAG;
/// Bits a receive from any source ignores, and from any tag.
const SOURCES: u64 = (u32::MAX as u64) << 32;
const TAGS: u64 = i32::MAX as u64;

/// A receive's choice.
#[inline]
fn match_spec(comm: &Comm, source: c_int, tag: c_int) -> MatchSpec {
    let (from, source, sources) = match source {
        ANY_SOURCE => (None, 0, SOURCES),
        rank => (Some(comm.peer(rank)), rank, 0),
    };
    let (tag, tags) = if tag == ANY_TAG { (0, TAGS) } else { (tag, 0) };
    let bits = u64::from(source as u32) << 32 | u64::from(tag as u32);
    MatchSpec { channel: comm.channel, bits, ignore: sources | tags, from }
}

/// Fills what a probe or a receive tells, but for the error field, which is
/// not a probe's to touch.
///
/// # Safety
/// `out` is a status to write to.
#[inline]
unsafe fn fill(out: *mut crate::ffi::ompi_status_public_t, status: &Status, bytes: usize) {
    // SAFETY: [MPI].
    let out = unsafe { &mut *out };
    out.MPI_SOURCE = status.source() as c_int;
    out.MPI_TAG = status.tag() as c_int;
    out._ucount = bytes;
    out._cancelled = c_int::from(status.cancelled);
}
