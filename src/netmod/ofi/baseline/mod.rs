//! The provider alone, for comparison: the loops a C program would write
//! around `fi_inject_write` and `fi_write`, tagged messages and atomics, on the
//! very endpoint that our own operations use, and the addresses where the
//! library's functions begin.

mod atomics;
mod raw;
mod tagged;

pub use tagged::Partner;

use super::bindings as sys;
use super::endpoint::Endpoint;
use super::ffi;
use crate::netmod::{AGAIN, NetError};
use std::mem::ManuallyDrop;
use std::ptr::null_mut;

/// A target as a raw loop knows it; the key is the same for all.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// `fi_addr_t`.
    pub dest: u64,
    /// Offset or virtual address at the target.
    pub addr: u64,
}

impl Endpoint {
    /// Where the provider's `fi_inject_write` begins.
    pub fn inject_entry(&self) -> usize {
        // SAFETY: an open endpoint with RMA (checked at open) has the table.
        let entry = unsafe { (*(*self.ep()).rma).inject };
        entry.map_or(0, |f| f as usize)
    }

    /// Issues `count` injected writes of `len` bytes, round and round over the
    /// targets.
    ///
    /// # Errors
    /// The provider's refusal, other than "no space now".
    ///
    /// # Safety
    /// As [`Netmod::inject`](crate::netmod::Netmod::inject), for every target.
    #[inline(never)]
    pub unsafe fn raw_inject(
        &self,
        buf: *const u8,
        len: usize,
        targets: &[Target],
        key: u64,
        count: usize,
    ) -> Result<(), NetError> {
        let ep = self.ep();
        let mut left = count;
        while left > 0 {
            let chunk = &targets[..targets.len().min(left)];
            for t in chunk {
                // SAFETY: [DEST], [BUF], [LIMIT]; the endpoint has RMA (checked at open).
                let issue =
                    || unsafe { ffi::fi_inject_write(ep, buf.cast(), len, t.dest, t.addr, key) };
                let rc = issue();
                if rc != 0 {
                    self.insist("fi_inject_write", rc, issue)?;
                }
            }
            left -= chunk.len();
        }
        Ok(())
    }

    /// Issues `count` writes of `len` bytes, round and round over the targets,
    /// with at most `window` of them not complete, and waits for the last. Their
    /// completions are counted by the endpoint's counter.
    ///
    /// # Errors
    /// The provider's refusal, other than "no space now".
    ///
    /// # Safety
    /// As [`Netmod::write`](crate::netmod::Netmod::write), for every target; `buf` stays until the loop is over,
    /// and after an error for good. A provider that wants it registered
    /// (`FI_MR_LOCAL`) has it registered once, for all writes.
    #[inline(never)]
    pub unsafe fn raw_write(
        &self,
        buf: *const u8,
        len: usize,
        targets: &[Target],
        key: u64,
        count: usize,
        window: usize,
    ) -> Result<(), NetError> {
        let (ep, cntr) = (self.ep(), self.counter());
        // Dropped behind the last completion; after an error never, for writes may be under way.
        let region = match self.owner().requires_registration(sys::FI_MR_LOCAL) {
            // SAFETY: [BUF]: `buf` stays for the writes.
            true => Some(ManuallyDrop::new(unsafe { self.register_local(buf, len)? })),
            false => None,
        };
        // SAFETY: the registration is open.
        let desc = region.as_ref().map_or(null_mut(), |r| unsafe { ffi::fi_mr_desc(r.mr) });
        // SAFETY: the counter is open.
        let start = unsafe { ffi::fi_cntr_read(cntr) };
        let mut issued = 0;
        let mut next = targets.iter().cycle();
        while issued < count {
            let burst = window.min(count - issued);
            for t in next.by_ref().take(burst) {
                // SAFETY: [DEST], [BUF], [LIMIT]; `desc` is that of `buf`, or null.
                let issue = || unsafe {
                    ffi::fi_write(ep, buf.cast(), len, desc, t.dest, t.addr, key, null_mut())
                };
                let rc = issue();
                if rc != 0 {
                    self.insist("fi_write", rc, issue)?;
                }
            }
            issued += burst;
            // SAFETY: the counter is open.
            while unsafe { ffi::fi_cntr_read(cntr) } - start < issued as u64 {
                self.poll(|_| {}, |_, _| {})?;
            }
        }
        drop(region.map(ManuallyDrop::into_inner));
        Ok(())
    }

    /// Makes space and issues again until the provider takes it.
    #[cold]
    fn insist(
        &self,
        call: &'static str,
        mut rc: isize,
        issue: impl Fn() -> isize,
    ) -> Result<(), NetError> {
        while rc == AGAIN {
            self.poll(|_| {}, |_, _| {})?;
            rc = issue();
        }
        if rc == 0 { Ok(()) } else { Err(self.owner().explain(call, rc)) }
    }
}
