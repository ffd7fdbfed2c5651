//! Detects failures among all members of a group while a wait drags on.
//!
//! Who is waited for may be alive and elsewhere, having heard of a death that
//! this process has not heard of. So who waits checks for itself: processes
//! that can be seen from here are looked at, without a descriptor for each;
//! the others are connected to, a few at a time, since the end of a connection
//! tells of the end of a process. Where there are more of those than
//! descriptors, deaths are reported by neighbours.

use super::Members;
use super::mesh::Mesh;
use super::protocol::Operation;
use crate::boot::{Boot, BootError, ProcessId, liveness};
use std::time::{Duration, Instant};

/// Between two checks.
const ROUND: Duration = Duration::from_millis(100);
/// Members dialed in one round.
const DIALS: usize = 16;

pub(super) struct FailureDetector {
    /// How long one that is gone, and that nobody saw die, may have left in
    /// good order while others still are in the collective.
    grace: Duration,
    membership: Option<Membership>,
    next: Instant,
}

/// The other members.
struct Membership {
    visible: Vec<(u32, ProcessId)>,
    /// To be dialed, the next one last.
    others: Vec<u32>,
    /// Connections this process should not exceed.
    connections: usize,
}

impl FailureDetector {
    pub(super) fn new(operation: Operation) -> Self {
        let seconds = match operation {
            // Some return long before others come.
            Operation::Broadcast => 10,
            // When one returns, all have come.
            _ => 2,
        };
        FailureDetector {
            grace: Duration::from_secs(seconds),
            membership: None,
            next: Instant::now(),
        }
    }

    pub(super) fn check(
        &mut self,
        mesh: &mut Mesh,
        boot: &dyn Boot,
        members: &Members<'_>,
    ) -> Result<(), BootError> {
        // (There who waits is told, and tells the others.)
        if mesh.is_in_process() || Instant::now() < self.next {
            return Ok(());
        }
        if self.membership.is_none() {
            self.membership = Some(Membership::new(mesh, boot, members)?);
        }
        if let Some(membership) = &mut self.membership {
            membership.check(mesh)?;
        }
        mesh.declare_deaths(self.grace);
        self.next = Instant::now() + ROUND;
        Ok(())
    }
}

impl Membership {
    fn new(mesh: &Mesh, boot: &dyn Boot, members: &Members<'_>) -> Result<Self, BootError> {
        let (mut visible, mut others) = (Vec::new(), Vec::new());
        let me = mesh.process(boot.rank())?;
        for rank in members.around().skip(1) {
            let process = match boot.is_local(rank)? {
                true => Some(mesh.process(rank)?).filter(|it| liveness::visible(&me, it)),
                false => None,
            };
            match process {
                Some(process) => visible.push((rank, process)),
                None => others.push(rank),
            }
        }
        others.reverse();
        Ok(Membership { visible, others, connections: most_connections() })
    }

    fn check(&mut self, mesh: &mut Mesh) -> Result<(), BootError> {
        for (rank, process) in &self.visible {
            if !mesh.watches(*rank) && liveness::has_ended(process) {
                mesh.process_has_ended(*rank)?;
            }
        }
        for _ in 0..DIALS {
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

/// Connections this process should not exceed for the sake of hearing of deaths: a quarter of
/// the descriptors it may have.
pub(super) fn most_connections() -> usize {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: fills the live local `limit`.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
    usize::try_from(limit.rlim_cur / 4).unwrap_or(usize::MAX)
}
