//! Where the bytes of a noncontiguous operation lie, on either side.

use super::{Error, ErrorKind};

/// Where the bytes of a noncontiguous operation lie, in the order in which they
/// are taken: a strided vector or a list. Displacements are in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Layout<'a> {
    /// `count` blocks of `len` bytes, the starts `stride` bytes apart.
    Vector {
        /// Blocks.
        count: usize,
        /// Bytes of each.
        len: usize,
        /// Bytes from the start of one to that of the next.
        stride: usize,
    },
    /// Displacement and length of each block.
    List(&'a [(usize, usize)]),
}

impl Layout<'_> {
    /// `len` bytes in one block.
    #[must_use]
    pub const fn contiguous(len: usize) -> Layout<'static> {
        Layout::Vector { count: 1, len, stride: len }
    }

    /// Bytes of all blocks; `None` where that is not a number.
    #[must_use]
    pub fn bytes(&self) -> Option<usize> {
        match self {
            Layout::Vector { count, len, .. } => count.checked_mul(*len),
            Layout::List(list) => {
                list.iter().try_fold(0_usize, |sum, (_, len)| sum.checked_add(*len))
            }
        }
    }

    /// Bytes from displacement 0 to the end of the last byte; `None` where that
    /// is not a number.
    #[must_use]
    pub fn extent(&self) -> Option<usize> {
        match self {
            Layout::Vector { count: 0, .. } | Layout::Vector { len: 0, .. } => Some(0),
            Layout::Vector { count, len, stride } => {
                (count - 1).checked_mul(*stride)?.checked_add(*len)
            }
            Layout::List(list) => list
                .iter()
                .filter(|(_, len)| *len > 0)
                .try_fold(0_usize, |end, (at, len)| Some(end.max(at.checked_add(*len)?))),
        }
    }

    /// Block `i`: displacement and length.
    fn block(&self, i: usize) -> Option<(usize, usize)> {
        match self {
            Layout::Vector { count, len, stride } => (i < *count).then_some((i * stride, *len)),
            Layout::List(list) => list.get(i).copied(),
        }
    }
}

/// The contiguous pieces two layouts have in common: displacement here,
/// displacement there, length.
pub(super) struct Pieces<'a> {
    sides: [(&'a Layout<'a>, usize, usize); 2],
}

impl<'a> Pieces<'a> {
    pub(super) fn new(here: &'a Layout<'a>, there: &'a Layout<'a>) -> Pieces<'a> {
        Pieces { sides: [(here, 0, 0), (there, 0, 0)] }
    }
}

impl Iterator for Pieces<'_> {
    type Item = (usize, usize, usize);

    fn next(&mut self) -> Option<(usize, usize, usize)> {
        let mut found = [(0, 0); 2];
        for ((layout, index, done), found) in self.sides.iter_mut().zip(&mut found) {
            loop {
                let (at, len) = layout.block(*index)?;
                if *done < len {
                    *found = (at + *done, len - *done);
                    break;
                }
                (*index, *done) = (*index + 1, 0);
            }
        }
        let len = found[0].1.min(found[1].1);
        self.sides.iter_mut().for_each(|(_, _, done)| *done += len);
        Some((found[0].0, found[1].0, len))
    }
}

/// Refuses a buffer that does not hold a layout.
pub(super) fn fits(layout: &Layout<'_>, len: usize) -> Result<(), Error> {
    if layout.extent().is_some_and(|extent| extent <= len) {
        return Ok(());
    }
    let why = format!("a buffer of {len} bytes does not hold {layout:?}");
    Err(ErrorKind::Arguments(why).into())
}

/// Refuses a null buffer, unless the layout has no bytes.
pub(super) fn not_null(buf: *const u8, layout: &Layout<'_>) -> Result<(), Error> {
    match layout.bytes() {
        Some(len) if len > 0 && buf.is_null() => Err(ErrorKind::NullBuffer { len }.into()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn offsets(layout: &Layout<'_>) -> Vec<usize> {
        let mut all = Vec::new();
        let mut i = 0;
        while let Some((at, len)) = layout.block(i) {
            all.extend(at..at + len);
            i += 1;
        }
        all
    }

    proptest! {
        /// Byte by byte in the order of both layouts.
        #[test]
        fn pieces_pair_bytes(
            list in prop::collection::vec((0_usize..1000, 0_usize..20), 0..12),
            len in 1_usize..9, gap in 0_usize..9,
        ) {
            let here = Layout::List(&list);
            let bytes = here.bytes().unwrap();
            let count = bytes / len;
            let rest = bytes - count * len;
            let mut there: Vec<(usize, usize)> = (0..count).map(|i| (i * (len + gap), len)).collect();
            there.push((5000, rest));
            let there = Layout::List(&there);
            let mut got = (Vec::new(), Vec::new());
            for (h, t, n) in Pieces::new(&here, &there) {
                prop_assert!(n > 0);
                got.0.extend(h..h + n);
                got.1.extend(t..t + n);
            }
            prop_assert_eq!(got, (offsets(&here), offsets(&there)));
            let vector = Layout::Vector { count, len, stride: len + gap };
            let end = offsets(&vector).iter().max().map_or(0, |m| m + 1);
            prop_assert_eq!(vector.extent(), Some(end));
            prop_assert_eq!(vector.bytes(), Some(count * len));
        }
    }

    #[test]
    fn numbers_too_large() {
        let vector = Layout::Vector { count: usize::MAX, len: 2, stride: 1 };
        assert_eq!((vector.bytes(), vector.extent()), (None, None));
        let list = Layout::List(&[(usize::MAX, 2)]);
        assert_eq!((list.bytes(), list.extent()), (Some(2), None));
    }
}
