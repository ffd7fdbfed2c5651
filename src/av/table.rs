//! A dense array of entries in demand-zero memory that never moves.

use super::{AvError, Entry};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Entries of one process group: a fixed address range, zero until written.
///
/// The range is reserved at once for `capacity` entries and opened as the
/// table grows, so that a pointer into it stays good for the table's life.
/// On Unix it is an anonymous private mapping, never backed by huge pages: a
/// single insert would otherwise cost two megabytes.
#[derive(Debug)]
pub struct Table {
    entries: *const AtomicU64,
    capacity: u32,
    len: AtomicU32,
}

// SAFETY: the memory behind `entries` belongs to this table alone until drop
// and is only ever accessed through atomics.
unsafe impl Send for Table {}
// SAFETY: as above; all access is atomic, and growth only opens pages past
// the published length.
unsafe impl Sync for Table {}

impl Table {
    /// A table of `len` empty entries that can grow to `capacity`.
    ///
    /// # Errors
    /// [`AvError::Memory`] when the system refuses the address space.
    pub fn new(len: u32, capacity: u32) -> Result<Table, AvError> {
        let capacity = capacity.max(len);
        // (One that stays empty takes no mapping.)
        let entries = match capacity {
            0 => std::ptr::dangling(),
            _ => os::reserve(bytes_of(capacity))?.cast(),
        };
        let table = Table { entries, capacity, len: AtomicU32::new(0) };
        table.grow(len)?;
        Ok(table)
    }

    /// Makes space for `len` entries; shrinking is not possible. Lookups may go
    /// on in other threads; callers that grow must take turns.
    ///
    /// # Errors
    /// [`AvError::Capacity`] past the reservation, [`AvError::Memory`] when
    /// the system refuses.
    pub fn grow(&self, len: u32) -> Result<(), AvError> {
        if len > self.capacity {
            return Err(AvError::Capacity { capacity: self.capacity, wanted: len });
        }
        if len > self.len() {
            os::open(self.entries.cast(), bytes_of(len))?;
            self.len.store(len, Ordering::Release);
        }
        Ok(())
    }

    /// Number of entries, inserted or not.
    pub fn len(&self) -> u32 {
        self.len.load(Ordering::Acquire)
    }

    /// Returns true if the table has no entries at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The first entry; valid for [`Table::len`] entries while the table lives.
    #[inline(always)]
    pub fn entries(&self) -> *const AtomicU64 {
        self.entries
    }

    /// The address range in use, for accounting: start and bytes.
    pub fn range(&self) -> (*const u8, usize) {
        (self.entries.cast(), bytes_of(self.len()))
    }

    /// The entry of `lpid`, or `None` past the end.
    pub fn get(&self, lpid: u32) -> Option<Entry> {
        self.slot(lpid).map(|s| Entry::from_bits(s.load(Ordering::Acquire)))
    }

    /// Stores the entry of `lpid`; `None` past the end.
    pub fn set(&self, lpid: u32, entry: Entry) -> Option<()> {
        self.slot(lpid).map(|s| s.store(entry.to_bits(), Ordering::Release))
    }

    fn slot(&self, lpid: u32) -> Option<&AtomicU64> {
        if lpid >= self.len() {
            return None;
        }
        // SAFETY: lpid < len, and `grow` opened the pages of all entries below
        // len before publishing it.
        Some(unsafe { &*self.entries.add(lpid as usize) })
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        if self.capacity > 0 {
            os::release(self.entries.cast_mut().cast(), bytes_of(self.capacity));
        }
    }
}

fn bytes_of(entries: u32) -> usize {
    (entries as usize).saturating_mul(size_of::<u64>())
}

#[cfg(all(unix, not(miri)))]
mod os {
    use super::AvError;

    fn refused(bytes: usize) -> AvError {
        AvError::Memory { bytes, reason: std::io::Error::last_os_error().to_string() }
    }

    /// Address space without memory: not counted by the kernel's overcommit.
    pub(super) fn reserve(bytes: usize) -> Result<*const u8, AvError> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: an anonymous mapping at an address of the kernel's choice
        // touches nothing that exists.
        let p = unsafe { libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_NONE, flags, -1, 0) };
        if p == libc::MAP_FAILED {
            return Err(refused(bytes));
        }
        #[cfg(target_os = "linux")]
        // SAFETY: advice on the range just mapped; a kernel without huge pages
        // refuses it, which changes nothing.
        unsafe {
            libc::madvise(p, bytes, libc::MADV_NOHUGEPAGE);
        }
        Ok(p.cast())
    }

    /// Makes the first `bytes` of a reservation readable and writable.
    pub(super) fn open(start: *const u8, bytes: usize) -> Result<(), AvError> {
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: start is a reservation of at least `bytes`, ours alone; pages
        // already open keep what they hold.
        match unsafe { libc::mprotect(start.cast_mut().cast(), bytes, prot) } {
            0 => Ok(()),
            _ => Err(refused(bytes)),
        }
    }

    pub(super) fn release(start: *mut u8, bytes: usize) {
        // SAFETY: the table is being dropped, so nothing points here any more.
        unsafe { libc::munmap(start.cast(), bytes) };
    }
}

// (Miri has no memory that cannot be read yet.)
#[cfg(any(not(unix), miri))]
mod os {
    use super::AvError;
    use std::alloc::{Layout, alloc_zeroed, dealloc};

    fn layout(bytes: usize) -> Layout {
        Layout::from_size_align(bytes, 8).expect("a table is smaller than the address space")
    }

    pub(super) fn reserve(bytes: usize) -> Result<*const u8, AvError> {
        // SAFETY: `bytes` is never zero: a table without capacity reserves nothing.
        let p = unsafe { alloc_zeroed(layout(bytes)) };
        if p.is_null() {
            return Err(AvError::Memory { bytes, reason: "allocation failed".into() });
        }
        Ok(p)
    }

    pub(super) fn open(_: *const u8, _: usize) -> Result<(), AvError> {
        Ok(())
    }

    pub(super) fn release(start: *mut u8, bytes: usize) {
        // SAFETY: allocated by `reserve` with the same layout.
        unsafe { dealloc(start, layout(bytes)) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::av::Transport;

    #[test]
    fn starts_empty_and_keeps_what_is_set() {
        let t = Table::new(1000, 1000).unwrap();
        assert!((0..1000).all(|i| t.get(i) == Some(Entry::EMPTY)));
        let e = Entry::index(7, Transport::Local).unwrap();
        t.set(999, e).unwrap();
        assert_eq!(t.get(999), Some(e));
        assert_eq!(t.get(1000), None);
        assert_eq!(t.set(1000, e), None);
    }

    #[test]
    fn grows_in_place_while_others_read() {
        let t = Table::new(1, 1 << 20).unwrap();
        let first = t.entries();
        let e = |i: u32| Entry::index(u64::from(i), Transport::Network).unwrap();
        std::thread::scope(|s| {
            let reader = s.spawn(|| {
                let mut seen = 0;
                while seen < 1 << 20 {
                    let len = t.len();
                    let last = t.get(len - 1).unwrap();
                    assert!(last.is_empty() || last == e(len - 1));
                    seen = len;
                }
            });
            let mut len = 1;
            while len < 1 << 20 {
                t.set(len - 1, e(len - 1)).unwrap();
                len = (len * 2).min(1 << 20);
                t.grow(len).unwrap();
            }
            reader.join().unwrap();
        });
        assert_eq!(t.entries(), first);
        let too_far = t.grow((1 << 20) + 1).unwrap_err();
        assert_eq!(too_far, AvError::Capacity { capacity: 1 << 20, wanted: (1 << 20) + 1 });
    }
}
