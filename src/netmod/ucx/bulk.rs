//! Bulk messages: tagged ones, whose receiver has posted before the sender
//! sends. And the cancelling of operations.

use super::bindings as sys;
use super::endpoint::Worker;
use super::slots;
use crate::netmod::{AGAIN, Bulk, PENDING};

impl Worker {
    /// See [`Netmod::send_bulk`](crate::netmod::Netmod::send_bulk).
    ///
    /// # Safety
    /// The same.
    pub(super) unsafe fn send_bulk(&self, op: Bulk<*const u8>) -> isize {
        let Some(slot) = self.inner().take(Some(op.token), op.dest) else { return AGAIN };
        // SAFETY: [DEST], [BUF]; the slot lives until the callback.
        unsafe {
            let param = slots::tracked(slot);
            let send = self.f().ucp_tag_send_nbx;
            let ep = op.dest as sys::ucp_ep_h;
            let pointer = send(ep, op.buf.cast(), op.len, op.tag, &param);
            slots::pending(self.inner().started(slot, pointer))
        }
    }

    /// See [`Netmod::recv_bulk`](crate::netmod::Netmod::recv_bulk).
    ///
    /// # Safety
    /// The same.
    pub(super) unsafe fn recv_bulk(&self, op: Bulk<*mut u8>) -> isize {
        let Some(slot) = self.inner().take_receive(op.token) else { return AGAIN };
        // SAFETY: [BUF]; the slot lives until the callback.
        unsafe {
            let param = slots::tracked_receive(slot);
            let receive = self.f().ucp_tag_recv_nbx;
            let pointer = receive(self.handle(), op.buf.cast(), op.len, op.tag, u64::MAX, &param);
            match self.inner().complete_tracked(op.token, 0, self.inner().started(slot, pointer)) {
                0 => PENDING,
                code => code,
            }
        }
    }

    /// Asks UCX to give an operation up; it does so with receives.
    pub(super) fn cancel(&self, token: u64) {
        let all = self.inner().slots.borrow().clone();
        for slot in all {
            // SAFETY: slots live as long as the worker; its owner is here.
            let (request, known) = unsafe { ((*slot).request, (*slot).token) };
            if !request.is_null() && known == Some(token) {
                // SAFETY: under way, as the request says.
                unsafe { (self.f().ucp_request_cancel)(self.handle(), request) };
                return;
            }
        }
    }
}
