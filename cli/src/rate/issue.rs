//! One put of a loop: where it goes, and what if it is not taken.

use rankway::netmod::{AGAIN, Netmod};
use rankway::rma::Access;

/// Places in a target's memory that puts go to, by rank: as many ranks would
/// put to as many processes, no two puts in a row touch one cache line.
pub(super) const CELLS: u32 = 64;

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
