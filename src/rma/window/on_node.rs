//! The members of a communicator on this process's node.

use crate::netmod::Netmod;
use crate::rankmap::{Detector, Model, Process, RankMap};
use crate::rma::{Communicator, Error};
use crate::shm::segment::{Place, Shared};

/// Their ranks, rising; this process is one of them.
pub(super) struct OnNode {
    pub(super) ranks: Vec<u32>,
    /// The communicator has no others.
    pub(super) all: bool,
    /// All members by process number, where some are of other jobs. Nothing of the window is
    /// shared then: `ranks` is this process alone.
    pub(super) across_jobs: Option<RankMap>,
}

impl OnNode {
    pub(super) fn of<N: Netmod>(communicator: &Communicator<N>) -> Result<OnNode, Error> {
        let (device, map) = (communicator.device(), communicator.map());
        let across_jobs = across_jobs(communicator)?;
        if across_jobs.is_some() {
            return Ok(OnNode { ranks: vec![communicator.rank()], all: false, across_jobs });
        }
        let mut ranks = Vec::new();
        // By the shorter way: the ranks of the node's processes, where they are known by a
        // formula, or the nodes of all ranks.
        if map.pg() == Some(0) && map.model().is_regular() && map.len() > device.node_size() {
            for process in &device.node_peers() {
                ranks.extend(map.rank_of(Process { pg: 0, lpid: process.lpid }));
            }
            ranks.sort_unstable();
        } else {
            for rank in 0..map.len() {
                if device.on_node(communicator.world_rank(rank)?) {
                    ranks.push(rank);
                }
            }
        }
        let all = ranks.len() == map.len() as usize;
        Ok(OnNode { ranks, all, across_jobs })
    }

    /// A memory file for all of them, if that is for this process to make: the first.
    pub(super) fn make<N: Netmod>(
        &self,
        communicator: &Communicator<N>,
        name: &'static str,
    ) -> Option<Shared> {
        let first = self.ranks.first() == Some(&communicator.rank());
        first.then(|| Shared::create(name).ok()).flatten()
    }

    /// Where the first made one, if it did. All members of the communicator call it at once,
    /// and whoever gets an error goes on to its next collective, where others wait.
    pub(super) fn tell<N: Netmod>(
        &self,
        communicator: &Communicator<N>,
        made: Option<Place>,
    ) -> Result<Option<Place>, Error> {
        let mine = made.map_or(Vec::new(), |place| place.encode().to_vec());
        let all = communicator.allgather_among(&self.ranks, &mine)?;
        let first = all.first().and_then(|bytes| bytes.as_slice().try_into().ok());
        Ok(first.map(Place::decode))
    }

    /// Returns true if all of them say so. As [`tell`](Self::tell).
    pub(super) fn agree<N: Netmod>(
        &self,
        communicator: &Communicator<N>,
        mine: bool,
    ) -> Result<bool, Error> {
        let all = communicator.allgather_among(&self.ranks, &[u8::from(mine)])?;
        Ok(all.iter().all(|said| said.as_slice() == [1]))
    }

    /// World ranks of them.
    pub(super) fn peers<N: Netmod>(
        &self,
        communicator: &Communicator<N>,
    ) -> Result<Vec<u32>, Error> {
        self.ranks.iter().map(|&rank| communicator.world_rank(rank)).collect()
    }
}

/// All members by process number, where some are of other jobs.
fn across_jobs<N: Netmod>(communicator: &Communicator<N>) -> Result<Option<RankMap>, Error> {
    let (device, map) = (communicator.device(), communicator.map());
    let (size, others) = (device.boot().size(), device.boot().universe());
    let is_other = |rank| Ok::<_, Error>(communicator.world_rank(rank)? >= size);
    let line = matches!(map.model(), Model::Direct | Model::Offset | Model::Stride);
    if others == size || map.is_empty() {
        return Ok(None);
    }
    // The ends of a line say all.
    if line && map.pg() == Some(0) && !is_other(0)? && !is_other(map.len() - 1)? {
        return Ok(None);
    }
    let mut detector = Detector::new();
    let mut any = false;
    for process in map.iter() {
        let peer = device.world_rank(process)?;
        any |= peer >= size;
        detector.push(peer);
    }
    Ok(if any { Some(detector.finish()?) } else { None })
}
