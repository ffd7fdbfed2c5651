//! Puts through compact rank maps: whatever holds the map, the bytes arrive
//! where a table would have sent them.

use super::{ALLOCATED, Opens, all_to_all, make};
use crate::ensure;
use crate::harness::{Result, text};
use rankway::boot::Boot;
use rankway::netmod::Netmod;
use rankway::rankmap::compact::{Compact, Representation, Strategy};
use rankway::rankmap::{Model, RankMap};
use rankway::rma::Communicator;
use std::sync::Arc;

fn puts<N: Netmod>(comm: &Communicator<N>) -> Result {
    let mut window = make::<ALLOCATED, _>(comm, comm.size() as usize * 3 * 8, 8).map_err(text)?;
    all_to_all(&window)?;
    window.free().map_err(text)
}

/// Of n ranks: all, in no order, and some, which are no formula from 8 ranks on.
fn lists(n: u32) -> [Vec<u32>; 2] {
    let mut all: Vec<u32> = (0..n).collect();
    all.swap(0, 1);
    all.swap(2, n as usize - 1);
    [all, [0, 1, 2, 4, 7].into_iter().filter(|&r| r < n).collect()]
}

/// Communicators whose maps the environment's strategy holds, and their children,
/// also when the parent was freed.
pub fn strategies<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    let context = <N as Opens>::open(boot)?;
    let world = Communicator::world(&context);
    let said = Strategy::from_env().map_err(text)?;
    ensure!(said.is_some() && world.map_strategy() == said, "{:?}", world.map_strategy());
    for list in lists(world.size()) {
        let table = RankMap::from_lpids(0, list.iter().copied()).map_err(text)?;
        let regular = table.model().is_regular();
        ensure!(!regular || list.len() < world.size() as usize, "{table:?}");
        for strategy in [said, None, Some(Strategy::Time), Some(Strategy::default())] {
            let parent = world.with_strategy(strategy).map_err(text)?;
            let Some(comm) = parent.create(list.iter().copied()).map_err(text)? else { continue };
            drop(parent);
            let model = comm.map().model();
            match strategy {
                Some(Strategy::Space) => ensure!(regular || model == Model::Compact, "{model}"),
                None => ensure!(regular || model == Model::Lut, "{model}"),
                _ => {}
            }
            puts(&comm)?;
            let back = comm.reversed().map_err(text)?;
            ensure!(back.map_strategy() == strategy, "{:?}", back.map_strategy());
            drop(comm);
            puts(&back)?;
            let half = back.split(Some(back.rank() % 2), 0).map_err(text)?.ok_or("no half")?;
            puts(&half)?;
            let table = half.with_strategy(None).map_err(text)?;
            ensure!(table.map() == half.map(), "{:?} is not {:?}", table.map(), half.map());
            puts(&table)?;
        }
    }
    Ok(())
}

/// Every representation, and a child whose parent was freed, on the put path.
pub fn representations<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    let context = <N as Opens>::open(boot)?;
    let world = Communicator::world(&context);
    let mut held = 0;
    for list in lists(world.size()) {
        let Some(me) = list.iter().position(|&r| r == world.rank()) else { continue };
        for representation in Representation::ALL {
            let Ok(map) = Compact::build(representation, list.iter().copied()) else { continue };
            let map = RankMap::from(map);
            held += u32::from(map.model() == Model::Compact);
            puts(&world.with_map(map, me as u32))?;
        }
        let parent = Compact::new(Strategy::Space, list.iter().copied()).map_err(text)?;
        let ranks = Compact::new(Strategy::Space, (0..list.len() as u32).rev()).map_err(text)?;
        let child = Compact::child(&Arc::new(parent), ranks).map_err(text)?;
        ensure!(child.representation() == Representation::Child, "{child:?}");
        puts(&world.with_map(RankMap::from(child), (list.len() - 1 - me) as u32))?;
    }
    ensure!(held > 3, "only {held} representations held the maps");
    Ok(())
}
