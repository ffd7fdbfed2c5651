//! Packets: sends that copy what is short; `ring` has the receives.
//!
//! A packet is a head and a body in one untagged message. Nothing here looks
//! into either, numbers packets or tries again.

use super::bindings as sys;
use super::constants::PACKET;
use super::endpoint::Endpoint;
use super::ffi;
use crate::netmod::{AGAIN, HEAD, PENDING, UNSUPPORTED, WordPacket};
use std::mem::MaybeUninit;
use std::ptr::null_mut;

impl Endpoint {
    /// See [`Netmod::send`](crate::netmod::Netmod::send).
    ///
    /// # Safety
    /// The same.
    #[inline]
    pub(super) unsafe fn send(
        &self,
        head: &[u8; HEAD],
        body: *const u8,
        len: usize,
        dest: u64,
        token: u64,
    ) -> isize {
        if self.ring.is_none() {
            return UNSUPPORTED;
        }
        let total = HEAD + len;
        if total > self.owner().inject {
            // SAFETY: [DEST]; [BUF] for the body, [LIMIT] for both parts.
            return unsafe { self.send_long(head, body, len, dest, token) };
        }
        let ep = self.ep();
        let _inside = self.enter();
        if len == 0 {
            // SAFETY: [DEST]; the endpoint is enabled and has messages; a head is no longer
            // than an inject (`total`).
            return unsafe { ffi::fi_inject(ep, head.as_ptr().cast(), HEAD, dest) };
        }
        let mut packet = [MaybeUninit::<u8>::uninit(); PACKET];
        let start = packet.as_mut_ptr().cast::<u8>();
        // SAFETY: [DEST]; an inject is no longer than a packet; [BUF]: the body holds `len`
        // bytes; the provider copies before it returns.
        unsafe {
            start.copy_from_nonoverlapping(head.as_ptr(), HEAD);
            start.add(HEAD).copy_from_nonoverlapping(body, len);
            ffi::fi_inject(ep, start.cast(), total, dest)
        }
    }

    /// See [`Netmod::inject_word`](crate::netmod::Netmod::inject_word).
    ///
    /// # Safety
    /// The same.
    #[inline(always)]
    pub(super) unsafe fn inject_word(&self, packet: &WordPacket, len: usize, dest: u64) -> isize {
        if self.ring.is_none() {
            return UNSUPPORTED;
        }
        let _inside = self.enter();
        let start = std::ptr::from_ref(packet).cast();
        // SAFETY: [DEST]; the endpoint is enabled and has messages; [LIMIT].
        unsafe { ffi::fi_inject(self.ep(), start, HEAD + len, dest) }
    }

    /// A packet longer than the provider's inject: copied to the slot's own
    /// buffer where it fits there, else sent from the caller's memory.
    ///
    /// # Safety
    /// As [`Netmod::send`].
    unsafe fn send_long(
        &self,
        head: &[u8; HEAD],
        body: *const u8,
        len: usize,
        dest: u64,
        token: u64,
    ) -> isize {
        let Some((index, slot)) = self.slots.tracked() else { return AGAIN };
        slot.token = token;
        slot.dest = dest;
        let total = HEAD + len;
        let mut desc = [null_mut(); 2];
        let mut iov = [sys::iovec { iov_base: null_mut(), iov_len: 0 }; 2];
        let bounce = self.bounce.as_ref().filter(|b| total <= b.each);
        slot.internal = bounce.is_some();
        let iov_count = if let Some(bounce) = bounce {
            let start = bounce.at(index);
            // SAFETY: this slot's part of the bounce memory holds `total` bytes; [BUF]: the
            // body holds `len`.
            unsafe {
                start.copy_from_nonoverlapping(head.as_ptr(), HEAD);
                start.add(HEAD).copy_from_nonoverlapping(body, len);
            }
            desc[0] = bounce.desc();
            iov[0] = sys::iovec { iov_base: start.cast(), iov_len: total };
            1
        } else {
            slot.head = *head;
            iov[0] = sys::iovec { iov_base: slot.head.as_mut_ptr().cast(), iov_len: HEAD };
            iov[1] = sys::iovec { iov_base: body.cast_mut().cast(), iov_len: len };
            2
        };
        let msg = sys::fi_msg {
            msg_iov: iov.as_ptr(),
            desc: desc.as_mut_ptr(),
            iov_count,
            addr: dest,
            context: slot.as_context(),
            data: 0,
        };
        let _inside = self.enter();
        // SAFETY: [DEST]; the endpoint is enabled and has messages; vectors are copied at
        // the call (fi_msg(3)); slot and body live until the completion: [BUF].
        let rc = unsafe { ffi::fi_sendmsg(self.ep(), &msg, sys::FI_COMPLETION) };
        if rc != 0 {
            self.slots.release(index, slot);
            return rc;
        }
        if bounce.is_some() { 0 } else { PENDING }
    }
}
