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
        self.filled(bytes.len(), |buffer| buffer.extend_from_slice(bytes))
    }

    /// Memory for so many bytes, all 0.
    pub(super) fn zeroed(&mut self, len: usize) -> Vec<u8> {
        self.filled(len, |buffer| buffer.resize(len, 0))
    }

    /// A buffer for so many bytes, empty before it is filled.
    #[inline(always)]
    fn filled(&mut self, len: usize, fill: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        if len == 0 {
            return Vec::new();
        }
        let at = class(len);
        let mut buffer = self.classes.get_mut(at).and_then(Vec::pop);
        let buffer = buffer.get_or_insert_with(|| Vec::with_capacity(1 << (at as u32 + SMALLEST)));
        buffer.clear();
        fill(buffer);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_used_again_by_what_fits_it() {
        let mut pool = Pool::new();
        let copy = pool.copy(&[3; 100]);
        assert_eq!(copy, [3; 100]);
        let first = copy.as_ptr();
        pool.give(copy);
        let longer = pool.copy(&[4; 200]);
        assert_eq!((longer.len(), longer.as_ptr() == first), (200, false));
        let again = pool.copy(&[5; 65]);
        assert_eq!((&again[..], again.as_ptr()), (&[5; 65][..], first));
        pool.give(again);
        let zeroed = pool.zeroed(90);
        assert_eq!((&zeroed[..], zeroed.as_ptr()), (&[0; 90][..], first));
        assert_eq!(pool.zeroed(0).capacity(), 0);
    }

    #[test]
    fn no_more_is_kept_than_it_has_space_for() {
        let mut pool = Pool::new();
        assert!(pool.copy(&[]).capacity() == 0);
        pool.give(Vec::new());
        let copies: Vec<_> = (0..KEPT + 3).map(|_| pool.copy(b"short")).collect();
        copies.into_iter().for_each(|copy| pool.give(copy));
        // The longest that is kept, and one that is longer.
        for len in
            [1 << (SMALLEST as usize + CLASSES - 1), (1 << (SMALLEST as usize + CLASSES - 1)) + 1]
        {
            let copy = pool.copy(&vec![1; len]);
            assert_eq!(copy.len(), len);
            pool.give(copy);
        }
        let kept: Vec<usize> = pool.classes.iter().map(Vec::len).collect();
        assert_eq!((kept[0], kept[1], kept[CLASSES - 1]), (KEPT, 0, 1));
    }
}
