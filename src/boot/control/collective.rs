//! One collective under way on this process.

use super::failure_detector::FailureDetector;
use super::mesh::{Mesh, read_poison};
use super::protocol::{FailureNotice, Frame, Kind, Operation};
use super::{Control, Idle, Members};
use crate::boot::BootError;
use std::time::{Duration, Instant};

/// 1, 2, 4, … below `n`.
pub(super) fn doublings(n: u32) -> impl Iterator<Item = u32> {
    std::iter::successors(Some(1u32), |d| d.checked_mul(2)).take_while(move |&d| d < n)
}

pub(super) struct Collective<'a> {
    control: &'a Control,
    members: &'a Members<'a>,
    operation: Operation,
    tag: u64,
    /// Whom to send to, in order; `sent` of them are done.
    targets: Vec<u32>,
    sent: usize,
    received: u16,
    idle: Idle<'a>,
    start: Instant,
    timeout: Duration,
    /// Deaths already seen to be of no member.
    deaths_seen: usize,
    failure_detector: FailureDetector,
}

impl<'a> Collective<'a> {
    pub(super) fn new(
        control: &'a Control,
        members: &'a Members<'a>,
        (operation, tag): (Operation, u64),
        targets: Vec<u32>,
        idle: Idle<'a>,
    ) -> Self {
        Collective {
            control,
            members,
            operation,
            tag,
            targets,
            sent: 0,
            received: 0,
            idle,
            start: Instant::now(),
            timeout: control.timeout(),
            deaths_seen: 0,
            failure_detector: FailureDetector::new(operation),
        }
    }

    /// Runs `steps`, then waits until what was sent is on its way. When that
    /// fails, tells those who still wait for this process.
    pub(super) fn run<T>(
        &mut self,
        steps: impl FnOnce(&mut Self) -> Result<T, BootError>,
    ) -> Result<T, BootError> {
        let result = steps(self).and_then(|value| self.flush().map(|()| value));
        if let Err(error) = &result {
            self.poison(error);
        }
        result
    }

    /// Sends the next target its message.
    pub(super) fn send(&mut self, payload: Vec<u8>) -> Result<(), BootError> {
        let target = self.targets[self.sent];
        let frame = self.frame(Kind::Data, payload);
        self.control.mesh().send(target, frame)?;
        self.sent += 1;
        Ok(())
    }

    fn frame(&self, kind: Kind, payload: Vec<u8>) -> Frame {
        let Collective { operation, tag, .. } = *self;
        // In a broadcast the depth differs between sender and receiver.
        let round = if operation == Operation::Broadcast { 0 } else { self.sent as u16 };
        Frame { tag, sequence: 0, kind, operation, round, payload }
    }

    /// Waits for the next message of `from`.
    pub(super) fn receive(&mut self, from: u32) -> Result<Vec<u8>, BootError> {
        let tag = self.tag;
        self.control.mesh().watch(from)?;
        let frame = self.wait_until(&[from], |mesh| match mesh.take(from, tag) {
            None => mesh.lost(from).map_or(Ok(None), Err),
            frame => Ok(frame),
        })?;
        if frame.kind == Kind::Poison {
            return Err(read_poison(from, &frame.payload));
        }
        if (frame.operation, frame.round) != (self.operation, self.received) {
            return Err(BootError::Protocol {
                rank: from,
                what: format!(
                    "it is in round {} of {:?} while this process is in round {} of {:?}, both \
                     under tag {:#x}; call collectives in the same order on all members",
                    frame.round, frame.operation, self.received, self.operation, self.tag
                ),
            });
        }
        if self.operation != Operation::Broadcast {
            self.received += 1;
        }
        Ok(frame.payload)
    }

    /// Waits until everything sent is in the kernel's hands.
    fn flush(&mut self) -> Result<(), BootError> {
        let targets = self.targets[..self.sent].to_vec();
        self.wait_until(&targets, |mesh| {
            let mut done = true;
            for &target in targets.iter().filter(|&&target| !mesh.flushed(target)) {
                done = false;
                if let Some(lost) = mesh.lost(target) {
                    return Err(lost);
                }
            }
            Ok(done.then_some(()))
        })
    }

    /// Makes progress until `done` has something; `on` names who is waited for.
    /// Ends, too, when any member has died, or has given up a collective of
    /// the group.
    fn wait_until<T>(
        &mut self,
        on: &[u32],
        mut done: impl FnMut(&mut Mesh) -> Result<Option<T>, BootError>,
    ) -> Result<T, BootError> {
        /// Time without sleeping, for peers that are just about to answer.
        const EAGER: Duration = Duration::from_millis(10);
        const NAP: Duration = Duration::from_millis(1);
        /// After that, call the silent ones whose end would go unnoticed, and
        /// check the other members.
        const SILENCE: Duration = Duration::from_millis(250);
        let begin = Instant::now();
        let mut called = false;
        let mut busy = false;
        loop {
            let control = self.control;
            {
                let mut mesh = control.mesh();
                let outcome = done(&mut mesh);
                if let Ok(Some(value)) = outcome {
                    return Ok(value);
                }
                // A death explains whatever else went wrong.
                self.failed_member(&mesh).map_or(Ok(()), Err)?;
                outcome?;
            }
            let awake = busy || begin.elapsed() < EAGER;
            control.progress(if awake { Duration::ZERO } else { NAP })?;
            busy = (self.idle)().map_err(BootError::Idle)?;
            if begin.elapsed() > SILENCE {
                let mut mesh = control.mesh();
                if !called {
                    called = true;
                    for &rank in
                        on.iter().filter(|&&rank| mesh.unobserved(rank)).collect::<Vec<_>>()
                    {
                        mesh.dial(rank)?;
                    }
                }
                self.failure_detector.check(&mut mesh, &*control.boot, self.members)?;
            }
            if self.start.elapsed() > self.timeout {
                return Err(BootError::TimedOut {
                    what: format!("{:?} under tag {:#x}", self.operation, self.tag),
                    missing: on.to_vec(),
                    seconds: self.timeout.as_secs(),
                });
            }
        }
    }

    /// The first death of a member, or why the group is of no use any more.
    fn failed_member(&mut self, mesh: &Mesh) -> Option<BootError> {
        let deaths = &mesh.deaths()[self.deaths_seen..];
        for (rank, how) in deaths {
            if self.members.around().any(|member| member == *rank) {
                return Some(BootError::PeerDied { rank: *rank, how: how.clone() });
            }
            self.deaths_seen += 1;
        }
        mesh.broken(self.members.name())
    }

    /// Tells why this process gives up: those who wait for it in this
    /// collective, and those who completed it and will wait in the next one of
    /// the group. All algorithms pair ranks a power of two apart. Best effort,
    /// for a short while.
    fn poison(&self, error: &BootError) {
        const LIMIT: Duration = Duration::from_secs(2);
        let group = self.members.name();
        let (is_others, rank, gave_up, how) = match error {
            BootError::PeerDied { rank, how } => (true, *rank, false, how.clone()),
            BootError::GaveUp { rank, why } => (true, *rank, true, why.clone()),
            own => (false, self.control.boot.rank(), true, own.to_string()),
        };
        let notice = FailureNotice { rank, group, gave_up, how };
        let payload = notice.encode();
        if is_others {
            self.control.mesh().note_broken(notice);
        }
        let Members { count: n, me, .. } = *self.members;
        let mut neighbours: Vec<u32> = doublings(n)
            .flat_map(|distance| [(me + distance) % n, (me + n - distance) % n])
            .map(|member| self.members.world_rank(member))
            .collect();
        neighbours.sort_unstable();
        neighbours.dedup();
        for &neighbour in &neighbours {
            let frame = self.frame(Kind::Poison, payload.clone());
            let _ = self.control.mesh().send(neighbour, frame);
        }
        let start = Instant::now();
        // Steps taken before the failure may still be on their way, too.
        let told = |mesh: &Mesh| {
            neighbours.iter().all(|&rank| mesh.flushed(rank) || mesh.lost(rank).is_some())
        };
        while !told(&self.control.mesh()) && start.elapsed() < LIMIT {
            if self.control.progress(Duration::from_millis(1)).is_err() {
                return;
            }
        }
    }
}
