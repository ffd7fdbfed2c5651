//! Packets: active messages, and sends that copy what is short; `slots` takes
//! them in.

use super::bindings as sys;
use super::constants::PACKETS;
use super::endpoint::Worker;
use super::slots::{self, Started};
use crate::netmod::{AGAIN, HEAD, PENDING};
use std::ptr::null;

impl Worker {
    /// See [`Netmod::send`](crate::netmod::Netmod::send).
    ///
    /// # Safety
    /// The same.
    pub(super) unsafe fn send(
        &self,
        head: &[u8; HEAD],
        body: *const u8,
        len: usize,
        dest: u64,
        token: u64,
    ) -> isize {
        let copied = HEAD + len <= self.owner().caps.packet_inject;
        let token = (!copied).then_some(token);
        let Some(slot) = self.inner().take(token, dest) else { return AGAIN };
        // SAFETY: [DEST]; the slot is ours until the callback; [BUF] for the body, until the
        // callback where it is not copied.
        unsafe {
            let mut param = slots::tracked(slot);
            param.op_attr_mask |= sys::UCP_OP_ATTR_FIELD_FLAGS;
            param.flags = sys::UCP_AM_SEND_FLAG_EAGER;
            let (ep, send) = (dest as sys::ucp_ep_h, self.f().ucp_am_send_nbx);
            let pointer = if copied {
                // In one piece, for which UCX has a shorter path.
                let (frame, len) = (*slot).frame(head, body, len);
                send(ep, PACKETS, null(), 0, frame.cast(), len, &param)
            } else {
                (*slot).head = *head;
                let head = (&raw const (*slot).head).cast();
                send(ep, PACKETS, head, HEAD, body.cast(), len, &param)
            };
            match self.inner().started(slot, pointer) {
                Ok(Started::InProgress) if !copied => PENDING,
                Ok(_) => 0,
                Err(code) => code,
            }
        }
    }
}
