//! Memory of messages that came before their receive, used again.

/// Buffers by size: powers of two from 64 bytes.
pub(super) struct Pool {
    classes: [Vec<Vec<u8>>; CLASSES],
}

const SMALLEST: u32 = 6;
const CLASSES: usize = 12;
/// Buffers of a size that are kept for later.
const KEPT: usize = 64;

fn class(len: usize) -> usize {
    let bits = usize::BITS - len.saturating_sub(1).leading_zeros();
    bits.saturating_sub(SMALLEST) as usize
}

impl Pool {
    pub(super) fn new() -> Pool {
        Pool { classes: Default::default() }
    }

    /// A copy of the bytes.
    #[inline]
    pub(super) fn copy(&mut self, bytes: &[u8]) -> Vec<u8> {
        if bytes.is_empty() {
            return Vec::new();
        }
        let at = class(bytes.len());
        let mut buffer = self.classes.get_mut(at).and_then(Vec::pop);
        let buffer = buffer.get_or_insert_with(|| Vec::with_capacity(1 << (at as u32 + SMALLEST)));
        buffer.clear();
        buffer.extend_from_slice(bytes);
        std::mem::take(buffer)
    }

    /// Gives a copy back.
    pub(super) fn give(&mut self, buffer: Vec<u8>) {
        if buffer.capacity() == 0 {
            return;
        }
        if let Some(list) = self.classes.get_mut(class(buffer.capacity()))
            && list.len() < KEPT
        {
            list.push(buffer);
        }
    }
}
