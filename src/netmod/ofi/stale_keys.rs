//! Keys of memory that is no longer registered.
//!
//! A provider over connections (tcp, verbs) that receives a key it does not know
//! ends the connection, and whatever else is under way on it is lost, injected
//! puts without an error, between two living processes. A put to a survivor that
//! has dropped the window because a third process died would do that. So the key
//! stays registered, over memory that nobody reads.

use super::bindings as sys;
use super::ffi;
use super::pages::Pages;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// Keys kept, the latest: peers hear of the death that ended a window soon.
const MAX_STALE_KEYS: usize = 256;
/// A key over memory that costs nothing until something arrives.
pub(super) struct StaleKey {
    pub(super) mr: *mut sys::fid_mr,
    /// Unmapped behind it.
    pub(super) _memory: Pages,
}

impl Drop for StaleKey {
    fn drop(&mut self) {
        // SAFETY: opened by `Region::abandon`, closed once, before its domain.
        unsafe { ffi::fi_close(self.mr.cast()) };
    }
}

/// The stale keys of one domain.
#[derive(Default)]
pub(super) struct StaleKeys(Mutex<VecDeque<StaleKey>>);

impl StaleKeys {
    /// Keeps one, in the place of the oldest where there are too many.
    pub(super) fn keep(&self, key: StaleKey) {
        let mut keys = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        keys.truncate(MAX_STALE_KEYS - 1);
        keys.push_front(key);
    }

    /// Deregisters all; before the domain is closed.
    pub(super) fn clear(&mut self) {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner).clear();
    }
}
