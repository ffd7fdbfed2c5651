//! Lists as they are: a table of lpids, and the same packed above the smallest
//! (the thesis's "optimized array").

use super::image::{Reader, Refused, Writer};
use super::packed::{Packed, width_of};

/// 4 bytes a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plain(Box<[u32]>);

impl Plain {
    /// Working memory: the result.
    pub(super) fn build(expected: usize, lpids: impl Iterator<Item = u32>) -> Plain {
        let mut list = Vec::with_capacity(expected);
        list.extend(lpids);
        Plain(list.into_boxed_slice())
    }

    pub(super) fn len(&self) -> u32 {
        self.0.len() as u32
    }

    pub(super) fn into_list(self) -> Vec<u32> {
        self.0.into_vec()
    }

    #[inline]
    pub(super) fn select(&self, rank: u32) -> u32 {
        self.0[rank as usize]
    }

    pub(super) fn fill(&self, rank: u32, out: &mut [u32]) {
        out.copy_from_slice(&self.0[rank as usize..rank as usize + out.len()]);
    }

    pub(super) fn heap_bytes(&self) -> usize {
        size_of_val(&*self.0)
    }

    pub(super) fn write(&self, out: &mut Writer) {
        out.numbers(&self.0);
    }

    pub(super) fn read(from: &mut Reader<'_>) -> Result<Plain, Refused> {
        from.numbers().map(|list| Plain(list.into_boxed_slice()))
    }
}

/// As many bits a rank as the range of lpids takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Offset {
    min: u32,
    above: Packed,
}

impl Offset {
    /// Working memory: the result.
    pub(super) fn build(min: u32, max: u32, lpids: impl Iterator<Item = u32>) -> Offset {
        let above = Packed::from_iter(width_of(max - min), lpids.map(|lpid| lpid - min));
        Offset { min, above }
    }

    pub(super) fn len(&self) -> u32 {
        self.above.len()
    }

    #[inline]
    pub(super) fn select(&self, rank: u32) -> u32 {
        self.min.wrapping_add(self.above.get(rank as usize))
    }

    pub(super) fn fill(&self, rank: u32, out: &mut [u32]) {
        self.above.fill(rank as usize, out);
        out.iter_mut().for_each(|slot| *slot = self.min.wrapping_add(*slot));
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.above.heap_bytes()
    }

    pub(super) fn write(&self, out: &mut Writer) {
        out.u32(self.min);
        self.above.write(out);
    }

    pub(super) fn read(from: &mut Reader<'_>) -> Result<Offset, Refused> {
        let (min, above) = (from.u32()?, Packed::read(from)?);
        if min > crate::rankmap::process::LPID_MAX || (min > 0 && above.width() == 32) {
            return Err(Refused::Content("lpids above the last one"));
        }
        Ok(Offset { min, above })
    }
}
