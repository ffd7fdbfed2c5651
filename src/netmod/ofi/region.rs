//! Memory registered for remote access, or for the endpoint's own.

use super::bindings as sys;
use super::constants::REMOTE;
use super::domain::Domain;
use super::ffi;
use super::pages::Pages;
use super::stale_keys::StaleKey;
use crate::netmod::NetError;
use std::sync::Arc;

/// With these modes peers do not name memory by a key of ours and an offset, so
/// that nothing can be kept.
const UNSUPPORTED_MODES: i32 = sys::FI_MR_PROV_KEY | sys::FI_MR_VIRT_ADDR | sys::FI_MR_ENDPOINT;

/// Registered memory; deregistered on drop.
pub struct Region {
    pub(super) mr: *mut sys::fid_mr,
    /// What was asked for; the provider may have chosen another.
    key: u64,
    len: usize,
    owner: Arc<Domain>,
}

// SAFETY: a registration is only closed and asked for its key; both go to a
// domain whose threading rules `Domain` keeps.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl std::fmt::Debug for Region {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Region").field("provider", &self.owner.caps.provider).finish()
    }
}

impl Region {
    /// See [`Netmod::abandon`](crate::netmod::Netmod::abandon). Without memory for
    /// it the key is closed with its region.
    pub(super) fn abandon(self) {
        let (owner, key, len) = (Arc::clone(&self.owner), self.key, self.len);
        drop(self);
        if owner.requires_registration(UNSUPPORTED_MODES) || len == 0 {
            return;
        }
        let Ok(memory) = Pages::new(len) else { return };
        // SAFETY: the memory stays mapped until the registration is closed.
        if let Ok(mr) = unsafe { owner.open_mr(memory.at(0), len, REMOTE, key) } {
            owner.stale_keys.keep(StaleKey { mr, _memory: memory });
        }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: opened by register_for, closed once.
        unsafe { ffi::fi_close(self.mr.cast()) };
    }
}

impl Domain {
    /// Registers memory for `access` rights.
    ///
    /// # Safety
    /// \[MEM\], and the endpoint is an open one of this domain.
    pub(super) unsafe fn register_for(
        self: &Arc<Self>,
        endpoint: *mut sys::fid_ep,
        start: *const u8,
        len: usize,
        access: u64,
        key: u64,
    ) -> Result<Region, NetError> {
        // SAFETY: [MEM]: the region closes the registration when it is dropped.
        let mr = unsafe { self.open_mr(start, len, access, key)? };
        let region = Region { mr, key, len, owner: Arc::clone(self) };
        if self.requires_registration(sys::FI_MR_ENDPOINT) {
            // SAFETY: both objects are open and of the same domain (fi_mr(3),
            // FI_MR_ENDPOINT).
            let rc = unsafe { ffi::fi_mr_bind(mr, &raw mut (*endpoint).fid, 0) };
            self.check("fi_mr_bind", rc)?;
            // SAFETY: as above.
            let rc = unsafe { ffi::fi_mr_enable(mr) };
            self.check("fi_mr_enable", rc)?;
        }
        Ok(region)
    }
}
