//! Packets: a ring of receives always posted, and sends that copy what is short.
//!
//! A packet is a head and a body in one untagged message. Nothing here looks
//! into either, numbers packets or tries again.

use super::bindings as sys;
use super::domain::{PACKET, Region};
use super::endpoint::Endpoint;
use super::ffi;
use super::pages::Pages;
use super::slots::RING;
use crate::netmod::{AGAIN, HEAD, NetError, Netmod, PENDING, UNSUPPORTED};
use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr::null_mut;

/// Bytes from one receive buffer to the next: bodies begin on a cache line's
/// half.
const PITCH: usize = PACKET.next_multiple_of(64);

/// Receive buffers, all posted but for those whose packet is being handed out.
pub(super) struct Ring {
    memory: Pages,
    /// With `FI_MR_LOCAL` only.
    pub(super) region: Option<Region>,
    desc: *mut c_void,
    /// Buffers that the provider had no space for; posted again by a later poll.
    deferred: RefCell<Vec<usize>>,
    any_deferred: Cell<bool>,
}

impl Ring {
    /// Buffers for an enabled endpoint.
    ///
    /// # Errors
    /// [`NetError::Call`] when they cannot be registered.
    pub(super) fn open(endpoint: &Endpoint) -> Result<Ring, NetError> {
        let memory = Pages::new(RING * PITCH)?;
        let region = endpoint.register_if_required(&memory)?;
        // SAFETY: just registered.
        let desc = region.as_ref().map_or(null_mut(), |r| unsafe { ffi::fi_mr_desc(r.mr) });
        let deferred = RefCell::new(Vec::with_capacity(RING));
        Ok(Ring { memory, region, desc, deferred, any_deferred: Cell::new(false) })
    }

    /// Posts a buffer.
    #[inline]
    fn post(&self, endpoint: &Endpoint, number: usize) -> isize {
        let (start, context) = (self.memory.at(number * PITCH), endpoint.slots.packet(number));
        // SAFETY: the endpoint is enabled and has messages; the buffer is not
        // looked at until its completion, and lives longer than the endpoint.
        unsafe {
            ffi::fi_recv(
                endpoint.ep(),
                start.cast(),
                PACKET,
                self.desc,
                ffi::FI_ADDR_UNSPEC,
                context,
            )
        }
    }

    fn post_or_defer(&self, endpoint: &Endpoint, number: usize) {
        if self.post(endpoint, number) != 0 {
            self.defer(number);
        }
    }

    #[cold]
    fn defer(&self, number: usize) {
        self.deferred.borrow_mut().push(number);
        self.any_deferred.set(true);
    }

    /// Posts again what the provider had no space for.
    #[inline(always)]
    pub(super) fn repost(&self, endpoint: &Endpoint) {
        if self.any_deferred.get() {
            self.repost_deferred(endpoint);
        }
    }

    #[cold]
    fn repost_deferred(&self, endpoint: &Endpoint) {
        self.any_deferred.set(false);
        let deferred = self.deferred.take();
        deferred.into_iter().for_each(|number| self.post_or_defer(endpoint, number));
    }

    /// Hands out the packet in a buffer and posts the buffer again.
    #[inline]
    pub(super) fn arrived(
        &self,
        endpoint: &Endpoint,
        number: usize,
        len: usize,
        take: &mut impl FnMut(&[u8; HEAD], &[u8]),
    ) {
        let start: *const u8 = self.memory.at(number * PITCH);
        // Shorter than a head: not a packet of ours.
        if (HEAD..=PACKET).contains(&len) {
            // SAFETY: the receive is complete and not posted again until below,
            // and the buffer's first `len` bytes hold the packet.
            let (head, body) = unsafe {
                (
                    &*start.cast::<[u8; HEAD]>(),
                    std::slice::from_raw_parts(start.wrapping_add(HEAD), len - HEAD),
                )
            };
            take(head, body);
        }
        self.post_or_defer(endpoint, number);
    }

    /// A receive failed; the buffer is offered again by a later poll.
    pub(super) fn failed(&self, _: &Endpoint, number: usize) {
        self.defer(number);
    }
}

impl Endpoint {
    /// Posts all receives; the endpoint is enabled.
    ///
    /// # Errors
    /// What the provider answers, other than that it has no space for so many.
    pub(super) fn post_all(&self) -> Result<(), NetError> {
        let Some(ring) = &self.ring else { return Ok(()) };
        for number in 0..RING {
            match ring.post(self, number) {
                0 => {}
                AGAIN => ring.defer(number),
                rc => return Err(self.owner().explain("fi_recv", rc)),
            }
        }
        Ok(())
    }

    /// See [`Netmod::send`].
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
            // SAFETY: the caller's duty.
            return unsafe { self.send_long(head, body, len, dest, token) };
        }
        let ep = self.ep();
        if len == 0 {
            // SAFETY: the endpoint is enabled and has messages; the rest is the
            // caller's duty.
            return unsafe { ffi::fi_inject(ep, head.as_ptr().cast(), HEAD, dest) };
        }
        let mut packet = [MaybeUninit::<u8>::uninit(); PACKET];
        let start = packet.as_mut_ptr().cast::<u8>();
        // SAFETY: an inject is no longer than a packet; the caller's body holds
        // `len` bytes; the provider copies before it returns.
        unsafe {
            start.copy_from_nonoverlapping(head.as_ptr(), HEAD);
            start.add(HEAD).copy_from_nonoverlapping(body, len);
            ffi::fi_inject(ep, start.cast(), total, dest)
        }
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
            // SAFETY: this slot's part of the bounce memory holds `total`
            // bytes, and the caller's body `len`.
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
        // SAFETY: the endpoint is enabled and has messages; vectors are copied
        // at the call (fi_msg(3)); slot and body live until the completion.
        let rc = unsafe { ffi::fi_sendmsg(self.ep(), &msg, sys::FI_COMPLETION) };
        if rc != 0 {
            self.slots.release(index, slot);
            return rc;
        }
        if bounce.is_some() { 0 } else { PENDING }
    }
}
