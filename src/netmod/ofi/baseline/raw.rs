//! Operations under way in a raw loop, and their completions counted.

use super::super::bindings as sys;
use super::super::endpoint::Endpoint;
use super::super::ffi;
use crate::netmod::{AGAIN, NetError};
use std::cell::{Cell, UnsafeCell};
use std::ffi::c_void;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ptr::null_mut;

/// Contexts of a window of operations, used round and round.
pub(super) struct Raw<'a> {
    endpoint: &'a Endpoint,
    contexts: ManuallyDrop<Box<[UnsafeCell<[*mut c_void; 8]>]>>,
    /// A word for each context and one more, as operands and results.
    words: ManuallyDrop<Box<[Cell<u64>]>>,
    done: Cell<usize>,
}

impl<'a> Raw<'a> {
    pub(super) fn new(endpoint: &'a Endpoint, window: usize) -> Raw<'a> {
        let window = window.max(1);
        let contexts = (0..window).map(|_| UnsafeCell::new([null_mut(); 8])).collect();
        let words = (0..=window).map(|_| Cell::new(0)).collect();
        Raw {
            endpoint,
            contexts: ManuallyDrop::new(contexts),
            words: ManuallyDrop::new(words),
            done: Cell::new(0),
        }
    }

    /// All has completed. After an error this is not said, and what operations
    /// under way may still use is left to them.
    pub(super) fn end(mut self) {
        // SAFETY: dropped once, as `self` is gone after this.
        unsafe {
            ManuallyDrop::drop(&mut self.contexts);
            ManuallyDrop::drop(&mut self.words);
        }
    }

    /// A word that stays as long as the operations do.
    #[inline]
    pub(super) fn word(&self, n: usize) -> &Cell<u64> {
        &self.words[n % self.words.len()]
    }

    /// The context of the `n`th operation.
    #[inline]
    pub(super) fn context(&self, n: usize) -> *mut c_void {
        self.contexts[n % self.contexts.len()].get().cast()
    }

    /// Operations that have completed.
    #[inline]
    pub(super) fn done(&self) -> usize {
        self.done.get()
    }

    /// Reads the completion queue once.
    ///
    /// # Errors
    /// An operation that failed.
    #[inline]
    pub(super) fn read(&self) -> Result<(), NetError> {
        const BATCH: usize = 16;
        let mut entries = [MaybeUninit::<sys::fi_cq_msg_entry>::uninit(); BATCH];
        // SAFETY: the queue is open with FI_CQ_FORMAT_MSG, and `entries` holds
        // BATCH of those.
        let n =
            unsafe { ffi::fi_cq_read(self.endpoint.queue(), entries.as_mut_ptr().cast(), BATCH) };
        if n == AGAIN {
            return Ok(());
        }
        if n < 0 {
            // The endpoint takes the error out of the queue and explains it.
            self.endpoint.poll(|_| {}, |_, _| {})?;
            return Err(self.endpoint.owner().explain("fi_cq_read", n));
        }
        for e in &entries[..n as usize] {
            // SAFETY: the provider filled the first `n`.
            let e = unsafe { e.assume_init_ref() };
            let offset = e.op_context.addr().wrapping_sub(self.contexts.as_ptr().addr());
            if offset < size_of_val(&**self.contexts) {
                self.done.set(self.done.get() + 1);
            } else {
                self.endpoint.complete_one(e, &mut |_| {}, &mut |_: &_, _: &[u8]| {});
            }
        }
        Ok(())
    }

    /// Reads until this many have completed.
    ///
    /// # Errors
    /// An operation that failed.
    #[inline]
    pub(super) fn wait(&self, count: usize) -> Result<(), NetError> {
        while self.done() < count {
            self.read()?;
        }
        Ok(())
    }

    /// Issues, again while there is no space.
    ///
    /// # Errors
    /// The provider's refusal.
    #[inline]
    pub(super) fn issue(
        &self,
        call: &'static str,
        mut issue: impl FnMut() -> isize,
    ) -> Result<(), NetError> {
        loop {
            match issue() {
                0 => return Ok(()),
                AGAIN => self.read()?,
                rc => return Err(self.endpoint.owner().explain(call, rc)),
            }
        }
    }
}
