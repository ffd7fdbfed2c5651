//! Fetching atomics of 8 bytes as a C program would issue them.

use super::super::bindings as sys;
use super::super::endpoint::Endpoint;
use super::super::ffi;
use super::Target;
use super::raw::Raw;
use crate::netmod::NetError;
use std::ptr::null_mut;

/// The comparand, never written to.
static ZERO: u64 = 0;

impl Endpoint {
    /// Adds 1 to a 64-bit word `count` times, fetching it, with at most
    /// `window` under way; with 1, each waits for the one before.
    ///
    /// # Errors
    /// The provider's refusal, `-FI_ENOSYS` where it has no atomics.
    ///
    /// # Safety
    /// \[DEST\]; the target's word is registered there and aligned, the provider
    /// wants no local registration (`FI_MR_LOCAL`).
    #[inline(never)]
    pub unsafe fn raw_fetch_add(
        &self,
        target: Target,
        key: u64,
        count: usize,
        window: usize,
    ) -> Result<(), NetError> {
        let ep = self.ep();
        // SAFETY: [DEST]; `raw_atomics` waits for all, or leaves to them what they use.
        unsafe {
            self.raw_atomics(target, key, count, window, 1, |msg, result| {
                (*msg).op = sys::FI_SUM;
                let (desc, done) = (&mut null_mut(), sys::FI_COMPLETION);
                ffi::fi_fetch_atomicmsg(ep, msg, result, desc, 1, done)
            })
        }
    }

    /// Compares a 64-bit word with 0 and swaps 0 in, `count` times, with at
    /// most `window` under way.
    ///
    /// # Errors
    /// As [`Endpoint::raw_fetch_add`].
    ///
    /// # Safety
    /// As [`Endpoint::raw_fetch_add`].
    #[inline(never)]
    pub unsafe fn raw_compare_swap(
        &self,
        target: Target,
        key: u64,
        count: usize,
        window: usize,
    ) -> Result<(), NetError> {
        let ep = self.ep();
        let compare = sys::fi_ioc { addr: (&raw const ZERO).cast_mut().cast(), count: 1 };
        // SAFETY: as above; nobody writes to the comparand.
        unsafe {
            self.raw_atomics(target, key, count, window, 0, |msg, result| {
                (*msg).op = sys::FI_CSWAP;
                let (no_desc, desc) = (&mut null_mut(), &mut null_mut());
                let done = sys::FI_COMPLETION;
                ffi::fi_compare_atomicmsg(ep, msg, &compare, no_desc, 1, result, desc, 1, done)
            })
        }
    }

    /// # Safety
    /// As [`Endpoint::raw_fetch_add`].
    #[inline(always)]
    unsafe fn raw_atomics(
        &self,
        target: Target,
        key: u64,
        count: usize,
        window: usize,
        operand: u64,
        issue: impl Fn(*mut sys::fi_msg_atomic, *mut sys::fi_ioc) -> isize,
    ) -> Result<(), NetError> {
        let window = window.max(1);
        let raw = Raw::new(self, window);
        raw.word(window).set(operand);
        let operand = sys::fi_ioc { addr: raw.word(window).as_ptr().cast(), count: 1 };
        let remote = sys::fi_rma_ioc { addr: target.addr, count: 1, key };
        let mut desc = null_mut();
        let mut msg = sys::fi_msg_atomic {
            msg_iov: &operand,
            desc: &mut desc,
            iov_count: 1,
            addr: target.dest,
            rma_iov: &remote,
            rma_iov_count: 1,
            datatype: sys::FI_UINT64,
            op: sys::FI_SUM,
            context: null_mut(),
            data: 0,
        };
        for n in 0..count {
            // Completions may come out of order: a context is free again for
            // sure when all before the window have come.
            raw.wait((n + 1).saturating_sub(window))?;
            msg.context = raw.context(n);
            let mut result = sys::fi_ioc { addr: raw.word(n % window).as_ptr().cast(), count: 1 };
            raw.issue("fi_fetch_atomicmsg", || issue(&mut msg, &mut result))?;
        }
        raw.wait(count)?;
        raw.end();
        Ok(())
    }
}
