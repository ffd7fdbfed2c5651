//! Memory of the library's own in place of a caller's.
//!
//! A call that borrows its buffer may fail while the provider still has the
//! operation: a peer died, and what is under way with another is held back
//! behind it. Nothing that can be asked of a provider says then that it will
//! not touch the buffer: closing the endpoint does not keep a peer from writing
//! into this process's memory (shm's peers do), and cancelling is not there for
//! one-sided operations. So such calls lend the provider memory of this kind,
//! which is given up for good unless the operation ended.

use std::cell::Cell;
use std::mem::ManuallyDrop;

/// The longest piece of a buffer that is moved at a time.
pub(crate) const PIECE: usize = 1 << 20;
/// The longest memory that is kept for the next time.
const KEPT: usize = 1 << 16;

/// Memory lent to a provider. Dropped otherwise than by [`Bounce::done`] it is
/// leaked.
#[derive(Debug)]
pub(crate) struct Bounce(ManuallyDrop<Vec<u64>>);

/// What is kept of it for the next time.
#[derive(Default)]
pub(crate) struct Spare(Cell<Option<Vec<u64>>>);

impl Spare {
    /// Memory for `len` bytes.
    pub(crate) fn lend(&self, len: usize) -> Bounce {
        let words = len.div_ceil(8);
        let mut memory = self.0.take().unwrap_or_default();
        if memory.len() < words {
            memory = vec![0; words];
        }
        Bounce(ManuallyDrop::new(memory))
    }

    /// Takes memory back whose operations are over.
    pub(crate) fn done(&self, bounce: Bounce) {
        let memory = ManuallyDrop::into_inner(bounce.0);
        if memory.len() * 8 <= KEPT {
            self.0.set(Some(memory));
        }
    }
}

impl Bounce {
    /// Memory for `len` bytes that is not kept.
    pub(crate) fn new(len: usize) -> Bounce {
        Spare::default().lend(len)
    }

    /// The operation is over.
    pub(crate) fn done(self) {
        Spare::default().done(self);
    }

    pub(crate) fn start(&mut self) -> *mut u8 {
        self.0.as_mut_ptr().cast()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_over_is_used_again() {
        let spare = Spare::default();
        let first = spare.lend(100).start();
        let mut second = spare.lend(100);
        assert_ne!(second.start(), first);
        let start = second.start();
        spare.done(second);
        assert_eq!(spare.lend(80).start(), start);
        // SAFETY: made above with this size, and lost.
        drop(unsafe { Vec::from_raw_parts(first.cast::<u64>(), 13, 13) });
    }
}
