//! What loops issue: through which access, where a put goes, what if it is not
//! taken, and the flush.

use crate::fixture::Fixture;
use rankway::netmod::Netmod;
use rankway::rma::Access;
use std::ops::Deref;

/// Places in a target's memory that puts go to, by rank: as many ranks would
/// put to as many processes, no two puts in a row touch one cache line.
pub(super) const CELLS: u32 = 64;

/// An access of a model.
pub(super) struct Issuer<N: Netmod> {
    access: Access<N>,
    /// A rank of each process: the others are the same processes over again, and a
    /// flush of all would be charged for each of them.
    flushed: Vec<u32>,
}

impl<N: Netmod> Issuer<N> {
    pub(super) fn new(fixture: &Fixture<N>, model: &str) -> Result<Issuer<N>, String> {
        let access = fixture.access(model)?;
        let flushed = fixture.rank_of_each_process(access.map());
        Ok(Issuer { access, flushed })
    }

    /// Waits until everything issued is done at the targets.
    pub(super) fn flush(&self) -> Result<(), String> {
        let mut ranks = self.flushed.iter();
        ranks.try_for_each(|&rank| self.access.flush(rank)).map_err(|e| e.to_string())
    }
}

impl<N: Netmod> Deref for Issuer<N> {
    type Target = Access<N>;

    fn deref(&self) -> &Access<N> {
        &self.access
    }
}

/// The displacement, in words, that puts to a rank go to.
#[inline(always)]
pub(super) fn place(rank: u32, shift: u32) -> usize {
    ((rank % CELLS) as usize) << shift
}

/// Puts what the provider did not take, as soon as it has space.
#[cold]
#[inline(never)]
pub(super) fn insist<N: Netmod>(
    access: &Access<N>,
    data: &[u8],
    rank: u32,
    disp: usize,
) -> Result<(), String> {
    // SAFETY: as where it was refused.
    unsafe { access.put_nb(data.as_ptr(), data.len(), rank, disp) }.map_err(|e| e.to_string())
}
