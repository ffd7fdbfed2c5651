//! Succinct structures of maintained crates behind one trait, to be measured
//! beside rankway's compact rank maps and to test them against.
//!
//! | rival | crate | like our |
//! |---|---|---|
//! | Elias-Fano | sux, sucds, vers-vecs | elias-fano |
//! | bitmap with counts | sux, sucds, vers-vecs | bitmap, darray |
//! | containers of arrays, bitmaps and runs | roaring | bitmap, runs |
//! | decision diagram ([`bdd`]; counts members, has no SELECT) | biodivine-lib-bdd | diagram of bits |
//! | wavelet matrix | sucds, vers-vecs | wavelet |
//! | packed numbers | sux, sucds | packed |
//! | bzip2, 1,000 ranks a block (the thesis) | bzip2 | coded |
//!
//! All crates decide at compile time whether there is popcnt or pdep; a plain
//! build of them has neither, one with `RUSTFLAGS="-C target-cpu=x86-64-v3"` (for
//! all, ours too) has both. qwt is left out: its select (0.4.0) answers wrongly after a
//! sparse block.

pub mod bdd;
mod blocks;
mod lists;
mod sets;

use rankway::rankmap::compact::Compact;

/// A map from ranks to lpids.
pub trait Rival {
    /// The lpid of a rank below the size.
    fn select(&self, rank: u32) -> u32;

    /// The rank of an lpid, if it has one.
    fn rank(&self, lpid: u32) -> Option<u32>;
}

/// Ours, behind the same trait.
impl Rival for Compact {
    fn select(&self, rank: u32) -> u32 {
        self.find(rank).unwrap_or(u32::MAX)
    }

    fn rank(&self, lpid: u32) -> Option<u32> {
        self.position(lpid)
    }
}

/// What can be built.
#[derive(Clone, Copy)]
pub struct Kind {
    /// Crate and structure.
    pub name: &'static str,
    /// Our representation that is like it, by its name.
    pub like: &'static str,
    /// Whether it takes lists, and not only sets.
    pub lists: bool,
    /// Whether ranks take microseconds to build and look up, so that a test asks
    /// less often.
    pub slow: bool,
    /// Whether it answers for the rank of an lpid.
    pub ranks: bool,
    make: fn(&[u32]) -> Box<dyn Rival>,
}

impl Kind {
    /// The map of these lpids, not none; a set if it takes only sets.
    pub fn build(&self, lpids: &[u32]) -> Box<dyn Rival> {
        (self.make)(lpids)
    }
}

const fn set(name: &'static str, like: &'static str, make: fn(&[u32]) -> Box<dyn Rival>) -> Kind {
    Kind { name, like, lists: false, slow: false, ranks: true, make }
}

const fn list(name: &'static str, like: &'static str, make: fn(&[u32]) -> Box<dyn Rival>) -> Kind {
    Kind { name, like, lists: true, slow: false, ranks: false, make }
}

/// All of them.
pub static KINDS: &[Kind] = &[
    Kind { ranks: false, ..set("sux EfSeq", "elias-fano", sets::sux_elias_fano) },
    set("sux EfSeqDict", "elias-fano", sets::sux_elias_fano_dict),
    set("sucds EliasFano", "elias-fano", sets::sucds_elias_fano),
    set("vers-vecs EliasFanoVec", "elias-fano", sets::vers_elias_fano),
    set("sux Rank9+SelectAdapt", "bitmap", sets::sux_bitmap),
    set("sucds Rank9Sel", "bitmap", sets::sucds_bitmap),
    set("sucds DArray", "darray", sets::sucds_darray),
    set("vers-vecs RsVec", "bitmap", sets::vers_bitmap),
    set("roaring, with runs", "runs", sets::roaring),
    list("sux BitFieldVec", "packed", lists::sux_packed),
    list("sucds CompactVector", "packed", lists::sucds_packed),
    Kind { ranks: true, ..list("sucds WaveletMatrix", "wavelet", lists::sucds_wavelet) },
    Kind { ranks: true, ..list("vers-vecs WaveletMatrix", "wavelet", lists::vers_wavelet) },
    Kind { slow: true, ..list("bzip2, blocks of 1,000", "coded", blocks::bzip2) },
];
