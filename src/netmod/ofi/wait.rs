//! Sleeping until there is something to do.

use super::endpoint::Endpoint;
use super::ffi;
use std::os::fd::RawFd;

impl Endpoint {
    /// See [`Netmod::wait_fd`](crate::netmod::Netmod::wait_fd).
    pub(super) fn wait_fd(&self) -> Option<RawFd> {
        self.fd
    }

    /// See [`Netmod::arm`](crate::netmod::Netmod::arm).
    pub(super) fn arm(&self) -> bool {
        if self.fd.is_none() || self.gather.as_ref().is_some_and(|gather| gather.holds_any()) {
            return false;
        }
        // SAFETY: fabric and queue are open.
        unsafe {
            let mut fid = &raw mut (*self.queue()).fid;
            ffi::fi_trywait(self.owner().fabric, &mut fid, 1) == 0
        }
    }
}
