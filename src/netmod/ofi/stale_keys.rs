//! Keys of memory that is no longer registered.
//!
//! A provider over connections (tcp, verbs) that receives a key it does not know
//! ends the connection, and whatever else is under way on it is lost, injected
//! puts without an error, between two living processes. A put to a survivor that
//! has dropped the window because a third process died would do that. So the key
//! stays registered, over memory that nobody reads.

use super::bindings as sys;
use super::domain::{Ofi, Region};
use super::ffi;
use super::pages::Pages;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// Keys kept, the latest: peers hear of the death that ended a window soon.
const MAX_STALE_KEYS: usize = 256;
/// With these modes peers do not name memory by a key of ours and an offset, so
/// that nothing can be kept.
const UNSUPPORTED_MODES: i32 = sys::FI_MR_PROV_KEY | sys::FI_MR_VIRT_ADDR | sys::FI_MR_ENDPOINT;

/// A key over memory that costs nothing until something arrives.
struct StaleKey {
    mr: *mut sys::fid_mr,
    /// Unmapped behind it.
    _memory: Pages,
}

impl Drop for StaleKey {
    fn drop(&mut self) {
        // SAFETY: opened by `keep`, closed once, before its domain.
        unsafe { ffi::fi_close(self.mr.cast()) };
    }
}

/// The stale keys of one domain.
#[derive(Default)]
pub(super) struct StaleKeys(Mutex<VecDeque<StaleKey>>);

impl StaleKeys {
    /// Deregisters all; before the domain is closed.
    pub(super) fn clear(&mut self) {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// See [`Netmod::abandon`](crate::netmod::Netmod::abandon). Without memory for
/// it the key is closed with its region.
pub(super) fn keep(region: Region) {
    let (owner, key, len) = (Arc::clone(&region.owner), region.key, region.len);
    drop(region);
    if owner.requires_registration(UNSUPPORTED_MODES) || len == 0 {
        return;
    }
    if let Some(kept) = register_unused(&owner, key, len) {
        let mut keys = owner.stale_keys.0.lock().unwrap_or_else(PoisonError::into_inner);
        keys.truncate(MAX_STALE_KEYS - 1);
        keys.push_front(kept);
    }
}

fn register_unused(owner: &Ofi, key: u64, len: usize) -> Option<StaleKey> {
    let memory = Pages::new(len).ok()?;
    // SAFETY: the memory stays mapped until the registration is closed.
    let mr = unsafe { owner.open_mr(memory.at(0), len, super::domain::REMOTE, key) };
    mr.ok().map(|mr| StaleKey { mr, _memory: memory })
}
