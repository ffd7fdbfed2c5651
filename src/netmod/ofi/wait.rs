//! Sleeping until there is something to do.

use super::bindings as sys;
use super::endpoint::Endpoint;
use super::ffi;
use super::select::is_node_local;
use std::os::fd::RawFd;

/// Returns true if a descriptor should be asked for. With shared memory there is
/// none, or one that every sender has to write to.
pub(super) fn has_wait_fd(provider: &str) -> bool {
    !is_node_local(provider)
}

impl Endpoint {
    /// The completion queue's descriptor, as it was opened.
    #[cold]
    pub(super) fn queue_fd(&self) -> Option<RawFd> {
        let mut fd: RawFd = -1;
        // SAFETY: the queue is open with FI_WAIT_FD, for which this command
        // answers an int (fi_cq(3)).
        let rc = unsafe {
            let fid = &raw mut (*self.queue()).fid;
            ffi::fi_control(fid, sys::FI_GETWAIT as i32, (&raw mut fd).cast())
        };
        (rc == 0 && fd >= 0).then_some(fd)
    }

    /// See [`Netmod::arm`](crate::netmod::Netmod::arm).
    pub(super) fn arm(&self) -> bool {
        if self.fd.is_none() {
            return false;
        }
        // SAFETY: fabric and queue are open.
        unsafe {
            let mut fid = &raw mut (*self.queue()).fid;
            ffi::fi_trywait(self.owner().fabric, &mut fid, 1) == 0
        }
    }
}
