//! Shared windows, whose regions are contiguous, in every kind of epoch.

use super::*;
use rankway::rankmap::RankMap;
use rankway::rma::{Access, Assert, Lock};

const BYTES: usize = 8192;
/// Short, the longest that shm injects, and longer.
const LENGTHS: [usize; 4] = [1, 8, 4096, 6000];

/// Who puts what to whom differs from round to round.
fn message(from: u32, to: u32, round: usize) -> Vec<u8> {
    let seed = from as usize * 7 + to as usize * 31 + round * 101;
    (0..LENGTHS[round / 4 % LENGTHS.len()]).map(|i| (seed + i * 13) as u8 | 1).collect()
}

fn arrived<N: Netmod>(w: &Window<N>, froms: &[u32], round: usize) -> Result {
    let comm = w.communicator();
    for &from in froms {
        let want = message(from, comm.rank(), round);
        let all = own(w)?;
        let at = place(from, comm.size());
        let what = format!("round {round}, {} bytes from rank {from}", want.len());
        let want = &want[..want.len().min(capacity(comm.size()))];
        same(&what, &all[at..at + want.len()], want)?;
    }
    comm.barrier().map_err(text)
}

fn capacity(n: u32) -> usize {
    BYTES / n as usize
}

/// Where a rank's messages go, in bytes: a multiple of every unit.
fn place(from: u32, n: u32) -> usize {
    from as usize * capacity(n) / 16 * 16
}

fn put<N: Netmod>(w: &Window<N>, to: u32, unit: usize, round: usize) -> Result {
    let comm = w.communicator();
    let message = message(comm.rank(), to, round);
    let len = message.len().min(capacity(comm.size()));
    w.put(&message[..len], to, place(comm.rank(), comm.size()) / unit).map_err(text)
}

fn epochs<N: Netmod>(w: &Window<N>, units: &[usize]) -> Result {
    let n = w.communicator().size();
    let all: Vec<u32> = (0..n).collect();
    for round in 0..LENGTHS.len() * 4 {
        match round % 4 {
            // Groups of several.
            0 => {
                w.post(&all, Assert::NONE).map_err(text)?;
                w.start(&all, Assert::NONE).map_err(text)?;
                all.iter().try_for_each(|&to| put(w, to, units[to as usize], round))?;
                w.complete().map_err(text)?;
                w.wait().map_err(text)?;
            }
            // Several locks at once.
            1 => {
                for &to in &all {
                    w.lock(Lock::Shared, to, Assert::NONE).map_err(text)?;
                }
                all.iter().try_for_each(|&to| put(w, to, units[to as usize], round))?;
                all.iter().try_for_each(|&to| w.unlock(to)).map_err(text)?;
            }
            // One at a time.
            2 => {
                for &to in &all {
                    w.lock(Lock::Exclusive, to, Assert::NONE).map_err(text)?;
                    put(w, to, units[to as usize], round)?;
                    w.unlock(to).map_err(text)?;
                }
            }
            // All.
            _ => {
                w.lock_all().map_err(text)?;
                all.iter().try_for_each(|&to| put(w, to, units[to as usize], round))?;
                w.unlock_all().map_err(text)?;
            }
        }
        w.communicator().barrier().map_err(text)?;
        arrived(w, &all, round)?;
        w.write_local(0, &vec![0; w.local().map_err(text)?.1]).map_err(text)?;
        w.communicator().barrier().map_err(text)?;
    }
    Ok(())
}

/// Regions of one size, units alike or not.
pub fn every_epoch<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    let context = N::open(boot)?;
    let world = Communicator::world(&context);
    let (me, n) = (world.rank() as usize, world.size() as usize);
    for kinds in [[8; 4], [4, 16, 2, 1]] {
        let units: Vec<usize> = (0..n).map(|rank| kinds[rank % 4]).collect();
        let mut w = Window::shared(&world, BYTES, units[me]).map_err(text)?;
        epochs(&w, &units)?;
        w.free().map_err(text)?;
    }
    Ok(())
}

/// A shared window seen by other maps of its members: each rank is where it is said to be.
pub fn by_maps<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    let context = N::open(boot)?;
    let world = Communicator::world(&context);
    let (me, n) = (world.rank(), world.size());
    let mut w = Window::shared(&world, 64, 8).map_err(text)?;
    let state = w.state().map_err(text)?;
    let turned = RankMap::affine(0, n - 1, -1, n).map_err(text)?;
    let order = (0..n).map(|rank| if rank < 2 { 1 - rank } else { rank });
    let swapped = RankMap::from_lpids(0, order).map_err(text)?;
    let alone = RankMap::affine(0, me, 1, 1).map_err(text)?;
    let mine = if me < 2 { 1 - me } else { me };
    for (at, map, own_rank) in [(1, turned, n - 1 - me), (3, swapped, mine), (5, alone, 0)] {
        let access = Access::open(&state, &context, &map).map_err(text)?;
        access.lock_all().map_err(text)?;
        access.put(&[me as u8 + 1; 8], own_rank, at).map_err(text)?;
        access.unlock_all().map_err(text)?;
        world.barrier().map_err(text)?;
        same("put to itself", &own(&w)?[8 * at..8 * at + 8], &[me as u8 + 1; 8])?;
    }
    drop(state);
    w.free().map_err(text)
}
