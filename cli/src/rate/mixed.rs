//! Many communicators of all models at once, called in random order: no loop
//! around one map, and no branch that is always the same.

use super::issue::{Issuer, insist, place};
use super::vc::{Connections, VcWindow};
use crate::fixture::{Fixture, MODELS};
use rankway::netmod::Netmod;

/// Communicators, and as many places in an order where each is called.
const COUNT: usize = 64;
/// Puts before the order begins again: more than a predictor of branches keeps.
const PERIOD: usize = 8192;

/// A communicator and a rank for each put, in turn.
pub(super) struct Order(Vec<(u32, u32)>);

impl Order {
    pub(super) fn new(ranks: u32) -> Order {
        // xorshift64 (Marsaglia 2003).
        let mut state = 7_u64;
        let mut random = |below: u32| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state % u64::from(below)) as u32
        };
        Order((0..PERIOD).map(|_| (random(COUNT as u32), random(ranks))).collect())
    }

    #[inline(always)]
    fn follow(
        &self,
        count: usize,
        mut put: impl FnMut(usize, u32) -> Result<(), String>,
    ) -> Result<(), String> {
        let mut left = count;
        while left > 0 {
            let chunk = &self.0[..self.0.len().min(left)];
            for &(at, rank) in chunk {
                put(at as usize % COUNT, rank)?;
            }
            left -= chunk.len();
        }
        Ok(())
    }
}

/// An access of each communicator: the models in turn, each with a map of its own.
pub(super) fn issuers<N: Netmod>(fixture: &Fixture<N>) -> Result<[Issuer<N>; COUNT], String> {
    let models = MODELS.iter().cycle().take(COUNT);
    let all = models.map(|model| Issuer::new(fixture, model)).collect::<Result<Vec<_>, _>>()?;
    all.try_into().map_err(|_| "as many accesses as communicators".into())
}

/// Of these the first of each model: the others have the same processes.
pub(super) fn distinct<N: Netmod>(issuers: &[Issuer<N>; COUNT]) -> &[Issuer<N>] {
    &issuers[..MODELS.len()]
}

/// The same communicators as tables of references to virtual connections.
pub(super) fn vc_windows<'a, N: Netmod>(
    fixture: &Fixture<N>,
    issuers: &'a [Issuer<N>; COUNT],
    connections: &'a Connections,
) -> Result<[VcWindow<'a, N>; COUNT], String> {
    let all = issuers.iter().map(|issuer| VcWindow::new(fixture, issuer, connections));
    let all = all.collect::<Result<Vec<_>, _>>()?;
    all.try_into().map_err(|_| "as many tables as communicators".into())
}

fn flush<N: Netmod>(issuers: &[Issuer<N>; COUNT]) -> Result<(), String> {
    issuers.iter().try_for_each(Issuer::flush)
}

#[inline(never)]
pub(super) fn unchecked<N: Netmod>(
    issuers: &[Issuer<N>; COUNT],
    order: &Order,
    data: &[u8],
    count: usize,
    shift: u32,
) -> Result<(), String> {
    let (buf, len) = (data.as_ptr(), data.len());
    order.follow(count, |at, rank| {
        let (issuer, disp) = (&issuers[at], place(rank, shift));
        // SAFETY: the order has ranks of all communicators, every target holds all
        // places, and `data` outlives the flush.
        let rc = unsafe { issuer.put_unchecked(buf, len, rank, disp) };
        if rc == 0 { Ok(()) } else { insist(issuer, data, rank, disp) }
    })?;
    flush(issuers)
}

#[inline(never)]
pub(super) fn checked<N: Netmod>(
    issuers: &[Issuer<N>; COUNT],
    order: &Order,
    data: &[u8],
    count: usize,
    shift: u32,
) -> Result<(), String> {
    order.follow(count, |at, rank| {
        // SAFETY: `data` outlives the flush below.
        unsafe { issuers[at].put_nb(data.as_ptr(), data.len(), rank, place(rank, shift)) }
            .map_err(|e| e.to_string())
    })?;
    flush(issuers)
}

/// Puts through virtual connections, each by this call of theirs.
#[inline(never)]
pub(super) fn vc<'a, N: Netmod>(
    windows: &[VcWindow<'a, N>; COUNT],
    order: &Order,
    count: usize,
    issue: impl Fn(&VcWindow<'a, N>, u32) -> Result<(), String>,
) -> Result<(), String> {
    order.follow(count, |at, rank| issue(&windows[at], rank))?;
    windows[0].flush()
}
