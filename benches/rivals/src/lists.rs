//! Lists: packed numbers and wavelet matrices.

use crate::Rival;
use sucds::bit_vectors::Rank9Sel;
use sucds::char_sequences::WaveletMatrix;
use sucds::int_vectors::{Access as _, CompactVector};
use sux::prelude::BitFieldVec;
use sux::traits::bit_field_slice::*;

fn width(lpids: &[u32]) -> usize {
    let most = lpids.iter().max().copied().unwrap_or(0);
    (u32::BITS - most.leading_zeros()).max(1) as usize
}

impl Rival for BitFieldVec<Box<[u64]>> {
    fn select(&self, rank: u32) -> u32 {
        self.index_value(rank as usize) as u32
    }

    /// Not asked.
    fn rank(&self, _: u32) -> Option<u32> {
        None
    }
}

pub(crate) fn sux_packed(lpids: &[u32]) -> Box<dyn Rival> {
    let mut packed = BitFieldVec::<Vec<u64>>::with_capacity(width(lpids), lpids.len());
    packed.extend(lpids.iter().map(|&lpid| u64::from(lpid)));
    Box::new(BitFieldVec::<Box<[u64]>>::from(packed))
}

fn compact(lpids: &[u32]) -> CompactVector {
    let mut packed =
        CompactVector::with_capacity(lpids.len(), width(lpids)).expect("a width of 1 to 32");
    packed.extend(lpids.iter().map(|&lpid| lpid.into())).expect("all of that width");
    packed
}

impl Rival for CompactVector {
    fn select(&self, rank: u32) -> u32 {
        self.access(rank as usize).map_or(u32::MAX, |lpid| lpid as u32)
    }

    /// Not asked.
    fn rank(&self, _: u32) -> Option<u32> {
        None
    }
}

pub(crate) fn sucds_packed(lpids: &[u32]) -> Box<dyn Rival> {
    Box::new(compact(lpids))
}

impl Rival for WaveletMatrix<Rank9Sel> {
    fn select(&self, rank: u32) -> u32 {
        self.access(rank as usize).map_or(u32::MAX, |lpid| lpid as u32)
    }

    fn rank(&self, lpid: u32) -> Option<u32> {
        // Neither says whether a number occurs.
        let rank = self.select(0, lpid.into())?;
        (self.access(rank) == Some(lpid.into())).then_some(rank as u32)
    }
}

pub(crate) fn sucds_wavelet(lpids: &[u32]) -> Box<dyn Rival> {
    let layers = |bits| Rank9Sel::new(bits).select1_hints().select0_hints();
    Box::new(WaveletMatrix::new(compact(lpids), layers).expect("it is not empty"))
}

impl Rival for vers_vecs::WaveletMatrix {
    fn select(&self, rank: u32) -> u32 {
        self.get_u64_unchecked(rank as usize) as u32
    }

    fn rank(&self, lpid: u32) -> Option<u32> {
        let rank = self.select_u64(0, lpid.into())?;
        (self.get_u64(rank) == Some(lpid.into())).then_some(rank as u32)
    }
}

pub(crate) fn vers_wavelet(lpids: &[u32]) -> Box<dyn Rival> {
    let wide: Vec<u64> = lpids.iter().map(|&lpid| lpid.into()).collect();
    Box::new(vers_vecs::WaveletMatrix::from_slice(&wide, width(lpids) as u16))
}
