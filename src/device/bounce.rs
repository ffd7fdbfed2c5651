//! Bounce memory: the library's own in place of a caller's buffer.
//!
//! A call that borrows its buffer may fail while the provider still has the
//! operation: a peer died, and an operation with another is held back behind
//! it. No call of a provider makes sure then that it will not touch the buffer:
//! closing the endpoint does not keep a peer from writing into this process's
//! memory (shm's peers do), and one-sided operations cannot be cancelled. So
//! such calls hand the provider bounce memory, which is leaked unless the
//! operation completed.

use std::cell::{Cell, UnsafeCell};
use std::mem::ManuallyDrop;

/// The longest piece of a buffer that is moved at a time.
pub(crate) const PIECE: usize = 1 << 20;
/// The longest memory that is kept for reuse.
const MAX_REUSED: usize = 1 << 16;

/// Memory handed to a provider. Leaked, unless it is returned with
/// [`BouncePool::put_back`] or [`Bounce::release`].
#[derive(Debug)]
pub(crate) struct Bounce(ManuallyDrop<Vec<u64>>);

/// Bounce memory kept for reuse.
#[derive(Default)]
pub(crate) struct BouncePool(Cell<Option<Vec<u64>>>);

impl BouncePool {
    /// Memory for `len` bytes.
    pub(crate) fn take(&self, len: usize) -> Bounce {
        let words = len.div_ceil(8);
        let mut memory = self.0.take().unwrap_or_default();
        if memory.len() < words {
            memory = vec![0; words];
        }
        Bounce(ManuallyDrop::new(memory))
    }

    /// Takes memory back whose operations have completed.
    pub(crate) fn put_back(&self, bounce: Bounce) {
        let memory = ManuallyDrop::into_inner(bounce.0);
        if memory.len() * 8 <= MAX_REUSED {
            self.0.set(Some(memory));
        }
    }
}

impl Bounce {
    /// Memory for `len` bytes outside a pool.
    pub(crate) fn new(len: usize) -> Bounce {
        BouncePool::default().take(len)
    }

    /// Frees the memory; its operation has completed.
    pub(crate) fn release(self) {
        BouncePool::default().put_back(self);
    }

    pub(crate) fn start(&mut self) -> *mut u8 {
        self.0.as_mut_ptr().cast()
    }

    /// Bytes.
    pub(crate) fn len(&self) -> usize {
        self.0.len() * 8
    }
}

/// Bytes of the longest read that only asks whether puts are done.
pub(crate) const PROBE: usize = 8;

/// Where reads end whose bytes nobody looks at. Leaked where a read was given
/// up: the peer may carry it out later.
pub(super) struct ProbeBuffer(ManuallyDrop<Box<UnsafeCell<[u8; PROBE]>>>);

impl ProbeBuffer {
    pub(super) fn new() -> ProbeBuffer {
        ProbeBuffer(ManuallyDrop::new(Box::default()))
    }

    pub(super) fn start(&self) -> *mut u8 {
        self.0.get().cast()
    }

    /// Frees the memory.
    ///
    /// # Safety
    /// \[OVER\]: once, and all reads into it are over.
    pub(super) unsafe fn release(&mut self) {
        // SAFETY: [OVER].
        unsafe { ManuallyDrop::drop(&mut self.0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_over_is_used_again() {
        let pool = BouncePool::default();
        let first = pool.take(100).start();
        let mut second = pool.take(100);
        assert_ne!(second.start(), first);
        let start = second.start();
        pool.put_back(second);
        let mut third = pool.take(80);
        assert_eq!(third.start(), start);
        third.release();
        // SAFETY: made above with this size, and lost.
        drop(unsafe { Vec::from_raw_parts(first.cast::<u64>(), 13, 13) });
    }
}
