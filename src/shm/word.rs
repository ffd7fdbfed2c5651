//! Short bodies, by value.

/// A body of at most 8 bytes, in a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word {
    /// Its bytes as they lie in memory, zeros behind them.
    bytes: u64,
    len: u32,
}

impl Word {
    /// The longest, bytes.
    pub const BYTES: usize = size_of::<u64>();

    /// All 8 bytes.
    #[inline(always)]
    pub const fn whole(bytes: u64) -> Word {
        Word { bytes, len: Word::BYTES as u32 }
    }

    /// The `len` bytes from `start` on; of more, the first 8.
    ///
    /// # Safety
    /// They are readable, at any alignment.
    #[inline]
    pub unsafe fn read(start: *const u8, len: usize) -> Word {
        let mut bytes = [0; Word::BYTES];
        let len = len.min(Word::BYTES);
        // SAFETY: the caller's; no more than `bytes` holds.
        unsafe {
            match len {
                4 => bytes[..4].copy_from_slice(&start.cast::<[u8; 4]>().read()),
                _ => bytes.as_mut_ptr().copy_from_nonoverlapping(start, len),
            }
        }
        Word { bytes: u64::from_ne_bytes(bytes), len: len as u32 }
    }

    /// How many bytes it has.
    #[inline(always)]
    pub const fn len(self) -> usize {
        self.len as usize
    }

    /// Returns true if it has none.
    pub const fn is_empty(self) -> bool {
        self.len == 0
    }

    /// Its bytes as they lie in memory, zeros behind them.
    #[inline(always)]
    pub(crate) const fn bytes(self) -> u64 {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_hold_what_was_read_and_no_more() {
        let memory = *b"0123456789";
        for len in 0..=Word::BYTES {
            // SAFETY: within `memory`.
            let word = unsafe { Word::read(memory[1..].as_ptr(), len) };
            let mut bytes = [0; Word::BYTES];
            bytes[..len].copy_from_slice(&memory[1..1 + len]);
            assert_eq!((word.bytes(), word.len()), (u64::from_ne_bytes(bytes), len));
            assert_eq!(word.is_empty(), len == 0);
        }
        // SAFETY: no byte is read.
        assert!(unsafe { Word::read(std::ptr::null(), 0) }.is_empty());
        // SAFETY: within `memory`.
        let word = unsafe { Word::read(memory.as_ptr(), 10) };
        assert_eq!(word, Word::whole(u64::from_ne_bytes(*b"01234567")));
    }
}
