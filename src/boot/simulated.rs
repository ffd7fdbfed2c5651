//! A job of any size that exists in one process only.
//!
//! For measuring: the tables a process of a large job would hold are the real
//! ones, made over this boot, while the peers are not there. Every peer's
//! values are this process's own, nobody waits at a fence, and nothing can be
//! sent to anybody: a collective on the set-up channel would wait in vain.

use super::{Boot, BootError, ContactInfo, Dealt, Placement, alone::Alone, check_rank, os};
use std::sync::atomic::{AtomicU64, Ordering};

/// The [`Boot`] of one process of a job whose other processes do not exist.
///
/// Ranks fill the nodes one after the other, `per_node` on each.
pub struct Simulated {
    /// Keeps what is published, and the job's id.
    own: Alone,
    rank: u32,
    size: u32,
    per_node: u32,
    /// Values asked for.
    gets: AtomicU64,
}

impl Simulated {
    /// Rank `rank` of `size`, `per_node` ranks on each node.
    ///
    /// # Errors
    /// [`BootError::Rank`] for a rank outside the job, [`BootError::Options`]
    /// for nodes without ranks.
    pub fn new(size: u32, rank: u32, per_node: u32) -> Result<Self, BootError> {
        check_rank(rank, size)?;
        if per_node == 0 {
            return Err(BootError::Options("a simulated node holds at least one rank".into()));
        }
        Ok(Simulated { own: Alone::new()?, rank, size, per_node, gets: AtomicU64::new(0) })
    }
}

impl Boot for Simulated {
    fn launcher(&self) -> &'static str {
        "simulated"
    }

    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn job(&self) -> u64 {
        self.own.job()
    }

    fn put(&self, key: &str, value: &[u8]) -> Result<(), BootError> {
        self.own.put(key, value)
    }

    fn fence(&self, _idle: &mut dyn FnMut()) -> Result<(), BootError> {
        Ok(())
    }

    /// What this process published itself, whoever is asked for; but a peer's
    /// [`ContactInfo`] names no process that could be watched.
    fn get(&self, rank: u32, key: &str) -> Result<Vec<u8>, BootError> {
        check_rank(rank, self.size)?;
        self.gets.fetch_add(1, Ordering::Relaxed);
        let value = self.own.get(0, key)?;
        match ContactInfo::decode(&value) {
            Some(mut contact_info) if rank != self.rank => {
                contact_info.process.pid_namespace = 0;
                Ok(contact_info.encode())
            }
            _ => Ok(value),
        }
    }

    fn node_of(&self, rank: u32) -> Result<u32, BootError> {
        check_rank(rank, self.size)?;
        Ok(rank / self.per_node)
    }

    fn questions(&self) -> Option<u64> {
        Some(self.gets.load(Ordering::Relaxed))
    }

    fn placement(&self) -> Result<Placement, BootError> {
        let dealt = Dealt::new(self.per_node, self.size.div_ceil(self.per_node));
        Ok(dealt.map_or(Placement::Listed, Placement::Dealt))
    }

    fn abort(&self, code: i32, reason: &str) -> ! {
        os::say_aborted(self.rank, code, reason);
        os::leave(code)
    }

    fn finalize(&self) -> Result<(), BootError> {
        self.own.finalize()
    }

    /// The set-up channel stays on the loopback: nobody will call.
    fn one_machine(&self) -> Result<bool, BootError> {
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::av::Transport;
    use crate::device::Device;
    use crate::netmod::null::Null;
    use crate::rankmap::Process;
    use crate::rma::Communicator;
    use std::sync::Arc;

    #[test]
    fn a_large_job_has_its_nodes_and_peers() {
        let boot = Arc::new(Simulated::new(1000, 999, 16).unwrap());
        let context =
            Device::open(boot, Some(Null::open()), Some(Null::open()), false).expect("opens");
        let device = context.device();
        assert_eq!((device.nodes().len(), device.node_size()), (1000, 8));
        for (lpid, transport) in [(0, Transport::Network), (998, Transport::Local)] {
            let entry = context.connect(Process { pg: 0, lpid }).expect("a peer");
            assert_eq!(entry.as_index().map(|(_, transport)| transport), Some(transport));
        }
        // Nobody is watched who does not exist.
        assert!(device.dead_peers().is_empty());
        let world = Communicator::world(&context);
        assert_eq!((world.rank(), world.size()), (999, 1000));
    }

    #[test]
    fn jobs_that_cannot_be_are_refused() {
        assert!(matches!(Simulated::new(4, 4, 1), Err(BootError::Rank { rank: 4, size: 4 })));
        assert!(matches!(Simulated::new(4, 0, 0), Err(BootError::Options(_))));
    }
}
