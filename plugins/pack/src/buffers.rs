//! Packed bytes of messages: bounded for the process, and used again.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of all packed messages of the process at one time; beyond it MPI packs.
pub(crate) const MOST: usize = 256 << 20;
/// Bytes kept to be used again.
const KEPT: usize = 32 << 20;
/// The smallest buffer, and how a buffer is aligned: a line of the caches.
const LEAST: usize = 4096;
const LINE: usize = 64;

/// Bytes of all buffers, those in use and those kept.
static HELD: AtomicUsize = AtomicUsize::new(0);
static FREE: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

/// Memory for the packed bytes of one message.
pub(crate) struct Buffer {
    /// Empty once it was given back.
    memory: Vec<u8>,
    start: usize,
    len: usize,
}

/// A buffer of so many bytes; `None` if that is more than there may be.
pub(crate) fn get(len: usize) -> Option<Buffer> {
    let size = len.max(LEAST).checked_next_power_of_two()? + LINE;
    let memory = kept(size).or_else(|| new(size))?;
    let start = memory.as_ptr().align_offset(LINE);
    Some(Buffer { memory, start, len })
}

fn kept(size: usize) -> Option<Vec<u8>> {
    let mut free = FREE.lock().ok()?;
    let found = free.iter().rposition(|memory| memory.len() == size)?;
    Some(free.swap_remove(found))
}

fn new(size: usize) -> Option<Vec<u8>> {
    if !reserve(size) {
        // What is kept for other sizes goes first.
        let kept = FREE.lock().map(|mut free| std::mem::take(&mut *free)).ok()?;
        HELD.fetch_sub(kept.iter().map(Vec::len).sum(), Ordering::Relaxed);
        drop(kept);
        if !reserve(size) {
            return None;
        }
    }
    // (Zeroes that the system hands out cost nothing until they are written. Not
    // `vec!`, which ends the process where memory has run out.)
    let layout = std::alloc::Layout::array::<u8>(size).ok()?;
    // SAFETY: the size is not 0.
    let memory = unsafe { std::alloc::alloc_zeroed(layout) };
    if memory.is_null() {
        HELD.fetch_sub(size, Ordering::Relaxed);
        return None;
    }
    // SAFETY: so many bytes, all zero, come from the allocator of vectors with the
    // layout of a vector of that capacity.
    Some(unsafe { Vec::from_raw_parts(memory, size, size) })
}

fn reserve(size: usize) -> bool {
    let fits = |held: usize| held.checked_add(size).filter(|&sum| sum <= MOST);
    HELD.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok()
}

impl Buffer {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.len]
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.len]
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let memory = std::mem::take(&mut self.memory);
        let size = memory.len();
        if let Ok(mut free) = FREE.lock()
            && free.iter().map(Vec::len).sum::<usize>() + size <= KEPT
        {
            free.push(memory);
            return;
        }
        drop(memory);
        HELD.fetch_sub(size, Ordering::Relaxed);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    // (One test: the counts are of the process.)
    #[test]
    fn buffers_are_bounded_and_come_back() {
        assert!(get(MOST + 1).is_none() && get(usize::MAX).is_none());
        let mut first = get(5000).unwrap();
        assert_eq!((first.bytes().len(), first.bytes().as_ptr() as usize % LINE), (5000, 0));
        first.bytes_mut().fill(7);
        let at = first.bytes().as_ptr();
        drop(first);
        assert_eq!(get(6000).unwrap().bytes().as_ptr(), at, "the same memory again");
        let half = get(MOST / 4).unwrap();
        let other = get(MOST / 4).unwrap();
        assert!(get(MOST / 2).is_none(), "more than there may be");
        drop((half, other));
        assert!(get(MOST / 2).is_some(), "memory came back");
        assert!(HELD.load(Ordering::Relaxed) <= KEPT);
    }
}
