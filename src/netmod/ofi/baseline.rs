//! The provider alone, for comparison: the loops a C program would write
//! around `fi_inject_write` and `fi_write`, on the very endpoint our own puts
//! use, and the addresses where the library's functions begin.

use super::ffi;
use super::port::Port;
use crate::netmod::{AGAIN, NetError, Netmod};
use std::ptr::null_mut;

/// A target as a raw loop knows it.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// `fi_addr_t`.
    pub dest: u64,
    /// Offset or virtual address at the target.
    pub addr: u64,
    /// Remote key.
    pub key: u64,
}

impl Port {
    /// Where the provider's `fi_inject_write` begins.
    pub fn inject_entry(&self) -> usize {
        // SAFETY: an open endpoint with RMA (checked at open) has the table.
        let entry = unsafe { (*(*self.wire().0).rma).inject };
        entry.map_or(0, |f| f as usize)
    }

    /// Issues `count` injected writes of `len` bytes, round and round over the
    /// targets.
    ///
    /// # Errors
    /// The provider's refusal, other than "no room now".
    ///
    /// # Safety
    /// As [`Netmod::inject`], for every target.
    #[inline(never)]
    pub unsafe fn raw_inject(
        &self,
        buf: *const u8,
        len: usize,
        targets: &[Target],
        count: usize,
    ) -> Result<(), NetError> {
        let ep = self.wire().0;
        let mut left = count;
        while left > 0 {
            let turn = &targets[..targets.len().min(left)];
            for t in turn {
                loop {
                    // SAFETY: the caller's duty.
                    let rc =
                        unsafe { ffi::fi_inject_write(ep, buf.cast(), len, t.dest, t.addr, t.key) };
                    match rc {
                        0 => break,
                        AGAIN => self.poll(|_| {})?,
                        rc => return Err(self.owner().explain("fi_inject_write", rc)),
                    }
                }
            }
            left -= turn.len();
        }
        Ok(())
    }

    /// Issues `count` writes of `len` bytes, round and round over the targets,
    /// with at most `window` of them not complete, and waits for the last. Their
    /// completions are counted by the endpoint's counter.
    ///
    /// # Errors
    /// The provider's refusal, other than "no room now".
    ///
    /// # Safety
    /// As [`Netmod::write`], for every target; `buf` needs no registration
    /// (providers without `FI_MR_LOCAL`).
    #[inline(never)]
    pub unsafe fn raw_write(
        &self,
        buf: *const u8,
        len: usize,
        targets: &[Target],
        count: usize,
        window: usize,
    ) -> Result<(), NetError> {
        let (ep, cntr) = (self.wire().0, self.counter());
        // SAFETY: the counter is open.
        let start = unsafe { ffi::fi_cntr_read(cntr) };
        let mut issued = 0;
        let mut next = targets.iter().cycle();
        while issued < count {
            let burst = window.min(count - issued);
            for t in next.by_ref().take(burst) {
                loop {
                    // SAFETY: the caller's duty.
                    let rc = unsafe {
                        let (desc, context) = (null_mut(), null_mut());
                        ffi::fi_write(ep, buf.cast(), len, desc, t.dest, t.addr, t.key, context)
                    };
                    match rc {
                        0 => break,
                        AGAIN => self.poll(|_| {})?,
                        rc => return Err(self.owner().explain("fi_write", rc)),
                    }
                }
            }
            issued += burst;
            // SAFETY: the counter is open.
            while unsafe { ffi::fi_cntr_read(cntr) } - start < issued as u64 {
                self.poll(|_| {})?;
            }
        }
        Ok(())
    }
}
