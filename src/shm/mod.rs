//! Memory that processes of a node share, and what lies there.
//!
//! Memory files without a name, rings of packets in them, flags by which who sleeps is
//! woken, and copies out of and into memory that is not shared.

pub(crate) mod attach;
pub(crate) mod barrier;
pub(crate) mod bell;
pub(crate) mod biased_lock;
pub(crate) mod copy;
pub(crate) mod element_lock;
pub(crate) mod lock_word;
pub(crate) mod ring;
pub(crate) mod segment;
mod wake_flag;
pub(crate) mod word;

/// What [`wake_flag`], [`biased_lock`] and [`lock_word`] are made of, which `proofs/` has made
/// of something else.
mod sync {
    pub(super) use std::sync::atomic::{
        AtomicU32, AtomicU64, Ordering, compiler_fence as light_fence, fence,
    };
}
