//! Receives for packets, always posted.

use super::bindings as sys;
use super::constants::{PACKET, RING};
use super::ffi;
use super::pages::Pages;
use super::region::Region;
use super::slots::Slots;
use crate::netmod::{AGAIN, HEAD};
use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::ptr::null_mut;

/// Bytes from one receive buffer to the next: bodies begin on a cache line's
/// half.
const PITCH: usize = PACKET.next_multiple_of(64);

/// Where receives are posted: an enabled endpoint and its contexts.
#[derive(Clone, Copy)]
pub(super) struct Posted<'a> {
    pub(super) ep: *mut sys::fid_ep,
    pub(super) slots: &'a Slots,
}

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
    /// Bytes of all buffers.
    pub(super) const BYTES: usize = RING * PITCH;

    /// Buffers in memory of [`Ring::BYTES`], registered where the provider wants
    /// that.
    pub(super) fn new(memory: Pages, region: Option<Region>) -> Ring {
        // SAFETY: just registered.
        let desc = region.as_ref().map_or(null_mut(), |r| unsafe { ffi::fi_mr_desc(r.mr) });
        let deferred = RefCell::new(Vec::with_capacity(RING));
        Ring { memory, region, desc, deferred, any_deferred: Cell::new(false) }
    }

    /// Posts a buffer.
    #[inline]
    fn post(&self, at: Posted<'_>, number: usize) -> isize {
        let (start, context) = (self.memory.at(number * PITCH), at.slots.packet(number));
        // SAFETY: the endpoint is enabled and has messages; the buffer is not
        // looked at until its completion, and lives longer than the endpoint.
        unsafe {
            ffi::fi_recv(at.ep, start.cast(), PACKET, self.desc, ffi::FI_ADDR_UNSPEC, context)
        }
    }

    fn post_or_defer(&self, at: Posted<'_>, number: usize) {
        if self.post(at, number) != 0 {
            self.defer(number);
        }
    }

    #[cold]
    fn defer(&self, number: usize) {
        self.deferred.borrow_mut().push(number);
        self.any_deferred.set(true);
    }

    /// Posts again what the provider had no space for. Zero, or its answer where it takes none of
    /// all buffers, and not for want of space: nothing comes in any more.
    #[inline(always)]
    pub(super) fn repost(&self, at: Posted<'_>) -> isize {
        if self.any_deferred.get() { self.repost_deferred(at) } else { 0 }
    }

    #[cold]
    fn repost_deferred(&self, at: Posted<'_>) -> isize {
        self.any_deferred.set(false);
        let mut answer = 0;
        for number in self.deferred.take() {
            let rc = self.post(at, number);
            if rc != 0 {
                self.defer(number);
                answer = rc;
            }
        }
        // (shm's word for a queue that is full.)
        let is_full = answer == -(libc::ENOMEM as isize) && at.slots.has_bulk();
        match self.deferred.borrow().len() {
            RING if answer != AGAIN && !is_full => answer,
            _ => 0,
        }
    }

    /// Hands out the packet in a buffer and posts the buffer again.
    #[inline]
    pub(super) fn arrived(
        &self,
        at: Posted<'_>,
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
        self.post_or_defer(at, number);
    }

    /// A receive failed; the buffer is offered again by a later poll.
    pub(super) fn failed(&self, number: usize) {
        self.defer(number);
    }

    /// Posts all; the endpoint is enabled. Zero, or what the provider answers
    /// other than that it has no space for so many.
    pub(super) fn post_all(&self, at: Posted<'_>) -> isize {
        for number in 0..RING {
            match self.post(at, number) {
                0 => {}
                AGAIN => self.defer(number),
                rc => return rc,
            }
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    thread_local! {
        /// What the provider below answers, and to how many it says so.
        static ANSWER: Cell<(isize, usize)> = const { Cell::new((0, 0)) };
    }

    unsafe extern "C" fn fake_recv(
        _: *mut sys::fid_ep,
        _: *mut c_void,
        _: usize,
        _: *mut c_void,
        _: sys::fi_addr_t,
        _: *mut c_void,
    ) -> isize {
        let (rc, times) = ANSWER.get();
        ANSWER.set((rc, times.saturating_sub(1)));
        if times > 0 { rc } else { 0 }
    }

    #[test]
    #[cfg_attr(miri, ignore = "maps memory")]
    fn a_provider_that_takes_no_receive_is_told_of() {
        const INVALID: isize = -(libc::EINVAL as isize);
        const NO_MEMORY: isize = -(libc::ENOMEM as isize);
        // SAFETY: null pointers and functions that are not there.
        let (mut ep, mut operations) =
            unsafe { (std::mem::zeroed::<sys::fid_ep>(), std::mem::zeroed::<sys::fi_ops_msg>()) };
        operations.recv = Some(fake_recv);
        ep.msg = &raw mut operations;
        let slots = Slots::new();
        let at = Posted { ep: &raw mut ep, slots: &slots };
        let ring = Ring::new(Pages::new(Ring::BYTES).unwrap(), None);
        let repost = |rc, times| {
            ANSWER.set((rc, times));
            ring.repost(at)
        };
        assert_eq!((ring.post_all(at), repost(INVALID, RING)), (0, 0), "all are posted");
        (0..RING).for_each(|number| ring.failed(number));
        assert_eq!(repost(AGAIN, RING), 0, "it has no space now");
        assert_eq!([INVALID, NO_MEMORY].map(|rc| repost(rc, RING)), [INVALID, NO_MEMORY]);
        // Bulk receives, which end, are in the way.
        let (index, slot) = slots.bulk().unwrap();
        assert_eq!(repost(NO_MEMORY, RING), 0);
        slots.release(index, slot);
        assert_eq!(repost(INVALID, RING - 1), 0, "one is posted");
        assert_eq!((repost(0, 0), repost(INVALID, RING)), (0, 0));
    }
}
