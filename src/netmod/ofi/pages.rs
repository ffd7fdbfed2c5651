//! An endpoint's own memory, in whole pages that cost nothing until touched.

use crate::netmod::NetError;
use std::ptr::{NonNull, null_mut};

/// Zeroed pages, unmapped on drop.
pub(super) struct Pages {
    start: NonNull<u8>,
    len: usize,
}

impl Pages {
    pub(super) fn new(len: usize) -> Result<Pages, NetError> {
        let (rw, private) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE);
        // SAFETY: a new mapping, where the system likes.
        let start =
            unsafe { libc::mmap(null_mut(), len, rw, private | libc::MAP_ANONYMOUS, -1, 0) };
        if start == libc::MAP_FAILED {
            let why = std::io::Error::last_os_error();
            let text = format!("no memory for {len} bytes of buffers: {why}");
            return Err(NetError::Library(crate::ulimit::explained(text)));
        }
        // A huge page would be touched as a whole by the first byte.
        // SAFETY: the mapping just made; advice only.
        unsafe { libc::madvise(start, len, libc::MADV_NOHUGEPAGE) };
        let start = NonNull::new(start.cast()).unwrap_or(NonNull::dangling());
        Ok(Pages { start, len })
    }

    pub(super) fn at(&self, offset: usize) -> *mut u8 {
        debug_assert!(offset < self.len);
        self.start.as_ptr().wrapping_add(offset)
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, unmapped once.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}
