//! What arrives for memory that is registered no more.
//!
//! A connection's provider (tcp, verbs) that meets a key it does not know ends
//! the connection, and whatever else is under way on it is lost: injects
//! without a word, between two processes that live. That is what becomes of a
//! put to a survivor that has dropped the window because a third one died. So
//! the key stays, over memory that nobody reads.

use super::bindings as sys;
use super::domain::{Ofi, Region};
use super::ffi;
use super::pages::Pages;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// Keys kept, the latest: peers hear of the death that ended a window soon.
const MOST: usize = 256;
/// What peers name otherwise than by a key of ours and an offset cannot be kept.
const OTHERWISE: i32 = sys::FI_MR_PROV_KEY | sys::FI_MR_VIRT_ADDR | sys::FI_MR_ENDPOINT;

/// A key over memory that costs nothing until something arrives.
struct Kept {
    mr: *mut sys::fid_mr,
    /// Unmapped behind it.
    _memory: Pages,
}

impl Drop for Kept {
    fn drop(&mut self) {
        // SAFETY: opened by `keep`, closed once, before its domain.
        unsafe { ffi::fi_close(self.mr.cast()) };
    }
}

/// The keys kept of one domain.
#[derive(Default)]
pub(super) struct Late(Mutex<VecDeque<Kept>>);

impl Late {
    /// Deregisters all; before the domain is closed.
    pub(super) fn end(&mut self) {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// See [`Netmod::abandon`](crate::netmod::Netmod::abandon). Where there is no
/// memory to keep the key with, it ends as it would without.
pub(super) fn keep(region: Region) {
    let (owner, key, len) = (Arc::clone(&region.owner), region.key, region.len);
    drop(region);
    if owner.duty(OTHERWISE) || len == 0 {
        return;
    }
    if let Some(kept) = of_nobody(&owner, key, len) {
        let mut late = owner.late.0.lock().unwrap_or_else(PoisonError::into_inner);
        late.truncate(MOST - 1);
        late.push_front(kept);
    }
}

fn of_nobody(owner: &Ofi, key: u64, len: usize) -> Option<Kept> {
    let memory = Pages::new(len).ok()?;
    // SAFETY: the memory stays mapped until the registration is closed.
    let mr = unsafe { owner.open_mr(memory.at(0), len, super::domain::REMOTE, key) };
    mr.ok().map(|mr| Kept { mr, _memory: memory })
}
