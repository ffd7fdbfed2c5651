//! What loops issue: through which access, where a put goes, what if it is not
//! taken, and the flush.

use crate::fixture::Fixture;
use rankway::netmod::{AGAIN, Netmod};
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

/// Makes space and puts again until the provider takes it.
#[cold]
#[inline(never)]
pub(super) fn insist<N: Netmod>(
    access: &Access<N>,
    mut rc: isize,
    data: &[u8],
    rank: u32,
    disp: usize,
) -> Result<(), String> {
    while rc == AGAIN {
        access.context().progress().map_err(|e| e.to_string())?;
        // SAFETY: as where it was refused.
        rc = unsafe { access.put_unchecked(data.as_ptr(), data.len(), rank, disp) };
    }
    if rc == 0 { Ok(()) } else { Err(refused(access, rc)) }
}

#[cold]
fn refused<N: Netmod>(access: &Access<N>, rc: isize) -> String {
    access.take_error().map_or_else(|| format!("the provider answered {rc}"), |e| e.to_string())
}
