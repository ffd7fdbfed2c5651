//! Bulk messages: tagged ones, whose receiver has posted before the sender
//! sends. And the cancelling of operations.

use super::bindings as sys;
use super::endpoint::Endpoint;
use super::ffi;
use crate::netmod::{AGAIN, Bulk, PENDING, UNSUPPORTED};

impl Endpoint {
    /// See [`Netmod::send_bulk`](crate::netmod::Netmod::send_bulk).
    ///
    /// # Safety
    /// The same.
    pub(super) unsafe fn send_bulk(&self, op: Bulk<*const u8>) -> isize {
        if self.owner().caps.max_bulk == 0 {
            return UNSUPPORTED;
        }
        let Some((index, slot)) = self.slots.tracked() else { return AGAIN };
        slot.token = op.token;
        slot.dest = op.dest;
        // SAFETY: [BUF]: `buf` stays until the completion.
        let mut desc = match unsafe { self.register_for_operation(slot, op.buf, op.len) } {
            Ok(desc) => desc,
            Err(code) => {
                self.slots.release(index, slot);
                return code;
            }
        };
        let iov = sys::iovec { iov_base: op.buf.cast_mut().cast(), iov_len: op.len };
        let msg = sys::fi_msg_tagged {
            msg_iov: &iov,
            desc: &mut desc,
            iov_count: 1,
            addr: op.dest,
            tag: op.tag,
            ignore: 0,
            context: slot.as_context(),
            data: 0,
        };
        let _inside = self.enter();
        // SAFETY: [DEST]; the endpoint is enabled; vectors are copied at the call
        // (fi_tagged(3)); slot and buffer live until the completion: [BUF].
        let rc = unsafe { ffi::fi_tsendmsg(self.ep(), &msg, sys::FI_COMPLETION) };
        if rc != 0 {
            self.slots.release(index, slot);
            return rc;
        }
        PENDING
    }

    /// See [`Netmod::recv_bulk`](crate::netmod::Netmod::recv_bulk).
    ///
    /// # Safety
    /// The same.
    pub(super) unsafe fn recv_bulk(&self, op: Bulk<*mut u8>) -> isize {
        if self.owner().caps.max_bulk == 0 {
            return UNSUPPORTED;
        }
        let Some((index, slot)) = self.slots.bulk() else { return AGAIN };
        slot.token = op.token;
        slot.dest = ffi::FI_ADDR_UNSPEC;
        slot.len = op.len;
        // SAFETY: [BUF]: `buf` stays until the completion.
        let desc = match unsafe { self.register_for_operation(slot, op.buf, op.len) } {
            Ok(desc) => desc,
            Err(code) => {
                self.slots.release(index, slot);
                return code;
            }
        };
        // SAFETY: the endpoint is enabled; slot and buffer live until the completion:
        // [BUF].
        let rc = unsafe {
            let (ep, any) = (self.ep(), ffi::FI_ADDR_UNSPEC);
            let context = slot.as_context();
            ffi::fi_trecv(ep, op.buf.cast(), op.len, desc, any, op.tag, 0, context)
        };
        if rc != 0 {
            self.slots.release(index, slot);
            // (shm's word for a queue that is full.)
            let full = rc == -(libc::ENOMEM as isize) && self.slots.has_bulk();
            return if full { AGAIN } else { rc };
        }
        PENDING
    }

    /// See [`Netmod::cancel`](crate::netmod::Netmod::cancel).
    #[cold]
    pub(super) fn cancel(&self, token: u64) {
        if let Some(context) = self.slots.context_of(token) {
            // An operation that cannot be cancelled completes as it would have.
            // SAFETY: the endpoint is open, the context is that of an operation
            // under way.
            unsafe { ffi::fi_cancel(self.ep(), context) };
        }
    }
}
