//! Looks after all members of a group while a wait drags on.
//!
//! Who is waited for may be alive and elsewhere, having heard of a death that
//! this process has not heard of. So who waits looks for itself: processes
//! that can be seen from here are looked at, without a descriptor for each;
//! the others are called, a few at a time, since the end of a connection
//! tells of the end of a process. Where there are more of those than
//! descriptors, deaths are heard of from neighbours.

use super::Members;
use super::mesh::Mesh;
use super::wire::Operation;
use crate::boot::{Boot, BootError, ProcessId, liveness};
use std::time::{Duration, Instant};

/// Between two looks.
const ROUND: Duration = Duration::from_millis(100);
/// Members called in one round.
const CALLS: usize = 16;

pub(super) struct Patrol {
    /// How long one that is gone, and that nobody saw die, may have left in
    /// good order while others still are in the collective.
    grace: Duration,
    roll: Option<Roll>,
    next: Instant,
}

/// The other members.
struct Roll {
    visible: Vec<(u32, ProcessId)>,
    /// To be called, the next one last.
    others: Vec<u32>,
    /// Connections this process should not exceed.
    connections: usize,
}

impl Patrol {
    pub(super) fn new(operation: Operation) -> Self {
        let seconds = match operation {
            // Some return long before others come.
            Operation::Broadcast => 10,
            // When one returns, all have come.
            Operation::Barrier | Operation::Allgather | Operation::None => 2,
        };
        Patrol { grace: Duration::from_secs(seconds), roll: None, next: Instant::now() }
    }

    pub(super) fn look(
        &mut self,
        mesh: &mut Mesh,
        boot: &dyn Boot,
        members: &Members<'_>,
    ) -> Result<(), BootError> {
        if Instant::now() < self.next {
            return Ok(());
        }
        if self.roll.is_none() {
            self.roll = Some(Roll::call(mesh, boot, members)?);
        }
        if let Some(roll) = &mut self.roll {
            roll.look(mesh)?;
        }
        mesh.settle(self.grace);
        self.next = Instant::now() + ROUND;
        Ok(())
    }
}

impl Roll {
    fn call(mesh: &Mesh, boot: &dyn Boot, members: &Members<'_>) -> Result<Self, BootError> {
        let (mut visible, mut others) = (Vec::new(), Vec::new());
        let me = mesh.process(boot.rank())?;
        let home = boot.node_of(boot.rank())?;
        for rank in members.around().skip(1) {
            let process = match boot.node_of(rank)? == home {
                true => Some(mesh.process(rank)?).filter(|it| liveness::visible(&me, it)),
                false => None,
            };
            match process {
                Some(process) => visible.push((rank, process)),
                None => others.push(rank),
            }
        }
        others.reverse();
        Ok(Roll { visible, others, connections: descriptors() / 4 })
    }

    fn look(&mut self, mesh: &mut Mesh) -> Result<(), BootError> {
        for (rank, process) in &self.visible {
            if !mesh.watches(*rank) && liveness::has_ended(process) {
                mesh.has_ended(*rank)?;
            }
        }
        for _ in 0..CALLS {
            if mesh.connections() >= self.connections {
                break;
            }
            let Some(rank) = self.others.pop() else { break };
            // No descriptor for it is no reason to give up the wait.
            let _ = mesh.dial(rank);
        }
        Ok(())
    }
}

/// Descriptors this process may have.
fn descriptors() -> usize {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: fills the live local `limit`.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
    usize::try_from(limit.rlim_cur).unwrap_or(usize::MAX)
}
