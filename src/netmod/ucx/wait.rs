//! Sleeping until there is something to do.

use super::bindings as sys;
use super::endpoint::Worker;

impl Worker {
    /// See [`Netmod::wait_fd`](crate::netmod::Netmod::wait_fd).
    pub(super) fn wait_fd(&self) -> Option<std::os::fd::RawFd> {
        if !self.owner().wakeup {
            return None;
        }
        let mut fd = -1;
        // SAFETY: the worker is open, with wake-ups.
        let status = unsafe { (self.f().ucp_worker_get_efd)(self.handle(), &mut fd) };
        (status == sys::UCS_OK).then_some(fd)
    }

    /// See [`Netmod::arm`](crate::netmod::Netmod::arm).
    pub(super) fn arm(&self) -> bool {
        let inner = self.inner();
        let nothing = inner.done.borrow().is_empty()
            && inner.arrivals.is_empty()
            && inner.failures.borrow().is_empty();
        // SAFETY: the worker is open.
        let arm = || unsafe { (self.f().ucp_worker_arm)(self.handle()) };
        self.owner().wakeup && nothing && arm() == sys::UCS_OK
    }
}
