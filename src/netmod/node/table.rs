//! The memory that a process has registered, as its peers on the node find it.
//!
//! A table in a memory file: first the [lock](crate::shm::element_lock) of elements there,
//! then key, start, length. Its owner writes, everybody reads. An
//! entry is found at its key, modulo the table's length, or behind it; keys are small
//! numbers that grow, so mostly at once, and pages without entries are never touched.
//!
//! # Contracts
//! - **\[TABLE\]** The start is that of [`BYTES`] that were zeroed when they were made,
//!   mapped as long as the table lives.

use crate::shm::element_lock::{ElementLock, Holder};
use crate::shm::segment::{PAGE, Segment};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Regions at once.
const ENTRIES: usize = 1 << 16;
/// Bytes of a table.
pub(super) const BYTES: usize = PAGE + ENTRIES * size_of::<Entry>();

/// No key was here: what is looked for is not behind it either.
const NEVER: u64 = 0;
/// A key was here.
const GONE: u64 = u64::MAX;

/// All zero: never used.
#[repr(C)]
struct Entry {
    /// The key plus one, [`NEVER`] or [`GONE`].
    key: AtomicU64,
    start: AtomicU64,
    len: AtomicU64,
    _unused: u64,
}

/// A process's regions.
#[derive(Debug)]
pub(super) struct Table(Arc<Segment>);

impl Table {
    /// # Safety
    /// \[TABLE\].
    pub(super) unsafe fn new(segment: Segment) -> Table {
        Table(Arc::new(segment))
    }

    fn entries(&self) -> &[Entry] {
        let start = self.0.start().wrapping_add(PAGE);
        // SAFETY: [TABLE]; all that changes is atomic.
        unsafe { std::slice::from_raw_parts(start.cast(), ENTRIES) }
    }

    /// The lock of elements in this memory, as process `me` takes it.
    pub(super) fn element_lock(&self, me: Holder) -> ElementLock {
        // SAFETY: [TABLE]: the first word is the lock's.
        unsafe { ElementLock::new(Arc::clone(&self.0), me) }
    }

    /// Places from where a key belongs.
    fn places(key: u64) -> impl Iterator<Item = usize> {
        (0..ENTRIES).map(move |i| (key as usize + i) % ENTRIES)
    }

    fn word(&self, at: usize) -> u64 {
        self.entries()[at].key.load(Ordering::Acquire)
    }

    fn place_of(&self, key: u64) -> Option<usize> {
        let wanted = word_of(key)?;
        let mut known = Table::places(key).take_while(|&at| self.word(at) != NEVER);
        known.find(|&at| self.word(at) == wanted)
    }

    /// The address of `len` bytes at an offset in the region of this key; `None` where
    /// there is no such region, or it is shorter.
    #[inline]
    pub(super) fn find(&self, key: u64, offset: u64, len: usize) -> Option<u64> {
        let entry = &self.entries()[self.place_of(key)?];
        let (start, bytes) =
            (entry.start.load(Ordering::Relaxed), entry.len.load(Ordering::Acquire));
        // Given to another since?
        let same = entry.key.load(Ordering::Relaxed) == word_of(key)?;
        let end = offset.checked_add(len as u64)?;
        (same && end <= bytes).then(|| start.wrapping_add(offset))
    }

    /// Enters a region; false where the key is taken or the table full. For its owner,
    /// one at a time.
    pub(super) fn insert(&self, key: u64, start: u64, len: u64) -> bool {
        let Some(word) = word_of(key).filter(|_| self.place_of(key).is_none()) else {
            return false;
        };
        let free = Table::places(key).find(|&at| matches!(self.word(at), NEVER | GONE));
        let Some(at) = free else { return false };
        let entry = &self.entries()[at];
        entry.start.store(start, Ordering::Relaxed);
        entry.len.store(len, Ordering::Relaxed);
        entry.key.store(word, Ordering::Release);
        true
    }

    /// Takes a region out. For its owner, one at a time.
    pub(super) fn remove(&self, key: u64) {
        let Some(mut last) = self.place_of(key) else { return };
        let entries = self.entries();
        entries[last].key.store(GONE, Ordering::Release);
        entries[last].len.store(0, Ordering::Release);
        // Where nothing is behind it, nobody has to look further.
        while self.word(last) == GONE && self.word((last + 1) % ENTRIES) == NEVER {
            entries[last].key.store(NEVER, Ordering::Release);
            last = (last + ENTRIES - 1) % ENTRIES;
        }
    }
}

/// What an entry has for a key.
fn word_of(key: u64) -> Option<u64> {
    key.checked_add(1).filter(|&word| word != GONE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    #[cfg_attr(miri, ignore = "maps memory")]
    fn regions_are_found_until_they_are_removed() {
        // SAFETY: zeroed memory.
        let table = unsafe { Table::new(Segment::private(BYTES).unwrap()) };
        let mut known = BTreeMap::new();
        let mut state = 7_u64;
        for step in 0..20_000_u64 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            // Keys that share places, and neighbours.
            let key = (state >> 33) % 40 + (state >> 60) % 3 * ENTRIES as u64;
            if state >> 40 & 1 == 0 {
                let new = table.insert(key, step << 20, 1 + step % 100);
                assert_eq!(new, !known.contains_key(&key), "{key} in step {step}");
                if new {
                    known.insert(key, (step << 20, 1 + step % 100));
                }
            } else {
                table.remove(key);
                known.remove(&key);
            }
            for asked in [key, (key + 1) % 40, ENTRIES as u64 + step % 40] {
                let len = known.get(&asked).map_or(1, |&(_, len)| len);
                let found = known.get(&asked).map(|&(start, _)| start);
                assert_eq!(table.find(asked, 0, len as usize), found, "{asked} in step {step}");
                assert_eq!(table.find(asked, 1, len as usize), None);
                assert_eq!(table.find(asked, u64::MAX, 1), None);
            }
        }
        assert!(!known.is_empty());
        assert_eq!(table.find(u64::MAX, 0, 1), None);
        assert!(!table.insert(u64::MAX, 0, 1) && !table.insert(u64::MAX - 1, 0, 1));
    }
}
