//! Communicators, the set-up channel, and the two ends of a job.

use super::onesided::base;
use super::pair;
use super::trial::*;
use crate::ensure;
use crate::harness::{Opens, Result};
use rankway::boot::Boot;
use rankway::rma::{Communicator, Error};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

type Round<N> = fn(&Run<'_, N>, u32) -> std::result::Result<bool, Error>;

/// One collective after the other, until the death is heard of.
pub fn collective<N: Opens>(run: &Run<'_, N>, call: Round<N>) -> Result {
    let w = base(run)?;
    run.go(20)?;
    let mut round = 0;
    while run.t.going()? {
        if run.t.hear("a collective", call(run, round))? == Some(false) {
            return Err(format!("data: wrong in round {round}"));
        }
        round += 1;
    }
    pair::with_locks(run, &w)
}

pub fn split<N: Opens>(run: &Run<'_, N>, round: u32) -> std::result::Result<bool, Error> {
    let alone = round % 3;
    let child = run.world.split(Some(u32::from(run.t.me == alone)), 0)?;
    let want = if run.t.me == alone { 1 } else { 2 };
    Ok(child.is_some_and(|c| c.size() == want))
}

pub fn dup<N: Opens>(run: &Run<'_, N>, _: u32) -> std::result::Result<bool, Error> {
    let child = run.world.dup();
    child.barrier()?;
    Ok(child.size() == 3)
}

/// A communicator of all, which it needs no message to make, and one of those but
/// one, which nobody uses: who would wait in it for a living rank that has left
/// would wait for good.
pub fn create_group<N: Opens>(run: &Run<'_, N>, round: u32) -> std::result::Result<bool, Error> {
    let ranks = [0, 1, 2].map(|i| (i + round) % 3);
    let group = |ranks: &[u32]| run.world.group().incl(ranks).expect("ranks of the world");
    let some = run.world.create_group(&group(&ranks[..2]))?;
    let all = run.world.create_group(&group(&ranks))?;
    let there = some.is_some() == ranks[..2].contains(&run.t.me);
    Ok(there && speaks(run, all, &ranks)?)
}

/// The same by lists, by a grid, and the other way around.
pub fn subsets<N: Opens>(run: &Run<'_, N>, round: u32) -> std::result::Result<bool, Error> {
    let ranks = [0, 1, 2].map(|i| (i + round) % 3);
    match round % 3 {
        0 => speaks(run, run.world.create(ranks)?, &ranks),
        1 => speaks(run, Some(run.world.cart_sub(&[1, 3], &[false, true])?), &[0, 1, 2]),
        _ => speaks(run, Some(run.world.reversed()?), &[2, 1, 0]),
    }
}

/// The members of a communicator tell each other who they are.
fn speaks<N: Opens>(
    run: &Run<'_, N>,
    child: Option<Communicator<N>>,
    ranks: &[u32; 3],
) -> std::result::Result<bool, Error> {
    let Some(child) = child else { return Ok(false) };
    let all = child.allgather(&run.t.me.to_le_bytes())?;
    Ok(all.iter().map(Vec::as_slice).eq(ranks.iter().map(|rank| rank.to_le_bytes())))
}

pub fn barrier<N: Opens>(run: &Run<'_, N>, _: u32) -> std::result::Result<bool, Error> {
    run.world.barrier().map(|()| true)
}

pub fn allgather<N: Opens>(run: &Run<'_, N>, round: u32) -> std::result::Result<bool, Error> {
    let of = |rank: u32| vec![rank as u8 + 1; (mix((round + rank).into()) % 3000) as usize];
    let all = run.world.allgather(&of(run.t.me))?;
    Ok(all.iter().zip(0..).all(|(got, rank)| *got == of(rank)))
}

pub fn broadcast<N: Opens>(run: &Run<'_, N>, round: u32) -> std::result::Result<bool, Error> {
    let root = round % 3;
    let value = vec![round as u8; (mix(round.into()) % 3000) as usize];
    let got = run.world.broadcast(root, (root == run.t.me).then_some(&value))?;
    // A root may be far ahead: what keeps them together is asked for too.
    run.world.barrier()?;
    Ok(got == value)
}

/// Death while the job begins: while devices are opened, and before the first
/// messages.
pub fn boot<N: Opens>(t: &Trial, boot: Arc<dyn Boot>) -> Result {
    t.go(60, &mut || ())?;
    let opened = N::open(boot);
    let mine = &board().opened[t.me as usize];
    let context = match opened {
        Ok(context) => context,
        Err(why) => {
            mine.store(2, SeqCst);
            t.told("opening", &why)?;
            return t.finish(&mut || ());
        }
    };
    mine.store(1, SeqCst);
    let world = Communicator::world(&context);
    let run = Run { t, context, world };
    while t.going()? {
        if let Some(all) = t.hear("allgather", run.world.allgather(&[t.me as u8]))? {
            ensure!(all == [[0], [1], [2]], "data: {all:?}");
        }
    }
    let other = &board().opened[t.other as usize];
    t.wait("the other's device", || other.load(SeqCst) > 0, &mut || run.idle())?;
    // A survivor whose device did not open cannot be worked with.
    if other.load(SeqCst) == 1 {
        pair::anew(&run)?;
    }
    t.finish(&mut || run.idle())
}

/// Death while the job ends.
pub fn finalize<N: Opens>(t: &Trial, boot: Arc<dyn Boot>) -> Result {
    let context = N::open(Arc::clone(&boot)).map_err(|e| format!("name: before: {e}"))?;
    let world = Communicator::world(&context);
    let run = Run { t, context, world };
    {
        let mut w = base(&run)?;
        w.fence().map_err(|e| format!("name: before: {e}"))?;
        for to in run.others() {
            t.hear("put", w.put(&[1; 8], to, share(t.me)))?;
        }
        run.go(5)?;
        t.hear("free", w.free())?;
    }
    t.hear("barrier", run.world.barrier())?;
    let Run { context, world, .. } = run;
    drop(world);
    drop(context);
    boot.finalize().map_err(|e| format!("name: finalize: {e}"))?;
    t.finish(&mut || ())
}
