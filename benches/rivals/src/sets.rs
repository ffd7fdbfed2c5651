//! Sets: Elias-Fano, bitmaps, containers.

use crate::Rival;
use sux::prelude::{BitVec, EfSeq, EfSeqDict, EliasFanoBuilder, Rank9, SelectAdapt};

fn universe(lpids: &[u32]) -> u64 {
    lpids.last().map_or(0, |&last| u64::from(last) + 1)
}

/// A bit for each lpid up to the last.
fn bits(lpids: &[u32]) -> impl Iterator<Item = bool> {
    let mut next = lpids.iter().copied().peekable();
    (0..universe(lpids) as u32).map(move |lpid| next.next_if_eq(&lpid).is_some())
}

impl Rival for EfSeq<u64> {
    fn select(&self, rank: u32) -> u32 {
        sux::traits::IndexedSeq::get(self, rank as usize) as u32
    }

    /// Not asked.
    fn rank(&self, _: u32) -> Option<u32> {
        None
    }
}

impl Rival for EfSeqDict<u64> {
    fn select(&self, rank: u32) -> u32 {
        sux::traits::IndexedSeq::get(self, rank as usize) as u32
    }

    fn rank(&self, lpid: u32) -> Option<u32> {
        sux::traits::IndexedDict::index_of(self, u64::from(lpid)).map(|rank| rank as u32)
    }
}

fn builder(lpids: &[u32]) -> EliasFanoBuilder<u64> {
    let mut builder = EliasFanoBuilder::new(lpids.len(), universe(lpids));
    lpids.iter().for_each(|&lpid| builder.push(u64::from(lpid)));
    builder
}

pub(crate) fn sux_elias_fano(lpids: &[u32]) -> Box<dyn Rival> {
    Box::new(builder(lpids).build_with_seq())
}

pub(crate) fn sux_elias_fano_dict(lpids: &[u32]) -> Box<dyn Rival> {
    Box::new(builder(lpids).build_with_seq_and_dict())
}

impl Rival for sucds::mii_sequences::EliasFano {
    fn select(&self, rank: u32) -> u32 {
        self.select(rank as usize).map_or(u32::MAX, |lpid| lpid as u32)
    }

    fn rank(&self, lpid: u32) -> Option<u32> {
        self.binsearch(lpid.into()).map(|rank| rank as u32)
    }
}

pub(crate) fn sucds_elias_fano(lpids: &[u32]) -> Box<dyn Rival> {
    use sucds::mii_sequences::EliasFanoBuilder;
    let mut builder =
        EliasFanoBuilder::new(universe(lpids) as _, lpids.len()).expect("a set that is not empty");
    builder.extend(lpids.iter().map(|&lpid| lpid.into())).expect("lpids rise");
    Box::new(builder.build().enable_rank())
}

impl Rival for vers_vecs::EliasFanoVec {
    fn select(&self, rank: u32) -> u32 {
        self.get_unchecked(rank as usize) as u32
    }

    fn rank(&self, lpid: u32) -> Option<u32> {
        let rank = self.rank(lpid.into());
        let found = self.get(rank as usize) == Some(lpid.into());
        found.then_some(rank as u32)
    }
}

pub(crate) fn vers_elias_fano(lpids: &[u32]) -> Box<dyn Rival> {
    let lpids: Vec<u64> = lpids.iter().map(|&lpid| lpid.into()).collect();
    Box::new(vers_vecs::EliasFanoVec::from_slice(&lpids))
}

type SuxBitmap = SelectAdapt<Rank9<BitVec>>;

impl Rival for SuxBitmap {
    fn select(&self, rank: u32) -> u32 {
        sux::traits::Select::select(self, rank as usize).map_or(u32::MAX, |lpid| lpid as u32)
    }

    fn rank(&self, lpid: u32) -> Option<u32> {
        let at = lpid as usize;
        let there = at < self.len() && self[at];
        there.then(|| sux::traits::Rank::rank(self, at) as u32)
    }
}

pub(crate) fn sux_bitmap(lpids: &[u32]) -> Box<dyn Rival> {
    let bits: BitVec = bits(lpids).collect();
    Box::new(SelectAdapt::new(Rank9::new(bits)))
}

/// The bit vectors of sucds that have all three.
struct Sucds<B>(B);

impl<B> Rival for Sucds<B>
where
    B: sucds::bit_vectors::Access + sucds::bit_vectors::Rank + sucds::bit_vectors::Select,
{
    fn select(&self, rank: u32) -> u32 {
        self.0.select1(rank as usize).map_or(u32::MAX, |lpid| lpid as u32)
    }

    fn rank(&self, lpid: u32) -> Option<u32> {
        let there = self.0.access(lpid as usize) == Some(true);
        there.then(|| self.0.rank1(lpid as usize)).flatten().map(|rank| rank as u32)
    }
}

pub(crate) fn sucds_bitmap(lpids: &[u32]) -> Box<dyn Rival> {
    Box::new(Sucds(sucds::bit_vectors::Rank9Sel::from_bits(bits(lpids)).select1_hints()))
}

pub(crate) fn sucds_darray(lpids: &[u32]) -> Box<dyn Rival> {
    Box::new(Sucds(sucds::bit_vectors::DArray::from_bits(bits(lpids)).enable_rank()))
}

impl Rival for vers_vecs::RsVec {
    fn select(&self, rank: u32) -> u32 {
        self.select1(rank as usize) as u32
    }

    fn rank(&self, lpid: u32) -> Option<u32> {
        (self.get(lpid as usize) == Some(1)).then(|| self.rank1(lpid as usize) as u32)
    }
}

pub(crate) fn vers_bitmap(lpids: &[u32]) -> Box<dyn Rival> {
    let mut vec = vers_vecs::BitVec::with_capacity(universe(lpids) as usize);
    bits(lpids).for_each(|bit| vec.append(bit));
    Box::new(vers_vecs::RsVec::from_bit_vec(vec))
}

impl Rival for roaring::RoaringBitmap {
    fn select(&self, rank: u32) -> u32 {
        self.select(rank).unwrap_or(u32::MAX)
    }

    fn rank(&self, lpid: u32) -> Option<u32> {
        self.contains(lpid).then(|| self.rank(lpid) as u32 - 1)
    }
}

pub(crate) fn roaring(lpids: &[u32]) -> Box<dyn Rival> {
    let mut bitmap: roaring::RoaringBitmap = lpids.iter().copied().collect();
    bitmap.optimize();
    Box::new(bitmap)
}
