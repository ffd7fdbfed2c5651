//! The set-up channel: small collectives over any group of ranks.
//!
//! Launchers synchronise the whole world and know nothing smaller. Creating a
//! communicator or a window needs a barrier, an allgather or a broadcast over
//! some ranks only, so every process opens one listening TCP socket and
//! connects, on first use, to the few peers an algorithm pairs it with:
//! dissemination for the barrier (Hensgen, Finkel, Manber 1988), Bruck's
//! algorithm for the allgather (Bruck et al. 1997), a binomial tree for the
//! broadcast; O(log P) connections a process each. It is not built for speed
//! and is never on the way of an operation.
//!
//! **Who may talk.** When all ranks share a machine the socket is bound to
//! the loopback. A caller must show 128 random bits published in the called
//! rank's [`Card`](super::Card), and gets another 128 bits back; without them
//! a connection is closed unheard. The bits and the data cross the network in
//! the clear, as in other MPI launchers: the channel keeps out strangers and
//! mistakes, not someone who reads the network.
//!
//! **Death.** A closed connection without a goodbye, a refused connection or
//! a pidfd that fires ends the collective with [`BootError::PeerDied`]; so it
//! does on every other member, because whoever gives up says so to those who
//! wait for it. Peers that are alive but silent are waited for
//! `RANKWAY_TIMEOUT` seconds (300).
//!
//! **Tags.** Collectives that may overlap in time on the same pair of ranks
//! need different tags. Under one tag all members call the same collectives
//! in the same order. After an error, use neither tag nor group again.

mod mesh;
mod wire;

use super::card::Card;
use super::{Boot, BootError, Liveness, Watch, os};
use mesh::Mesh;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use wire::{Frame, Kind, Operation};

/// An ordered set of world ranks, seen by one of them.
pub trait Group {
    /// Members.
    fn len(&self) -> u32;
    /// Group rank of the caller.
    fn me(&self) -> u32;
    /// World rank of group rank `rank`, which is below [`len`](Group::len).
    fn world(&self, rank: u32) -> u32;
    /// Whether there are no members; a group one belongs to never is.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// All ranks of the job.
#[derive(Clone, Copy, Debug)]
pub struct World {
    rank: u32,
    size: u32,
}

impl World {
    /// The world of `boot`.
    pub fn of(boot: &dyn Boot) -> Self {
        World { rank: boot.rank(), size: boot.size() }
    }
}

impl Group for World {
    fn len(&self) -> u32 {
        self.size
    }
    fn me(&self) -> u32 {
        self.rank
    }
    fn world(&self, rank: u32) -> u32 {
        rank
    }
}

/// Called while waiting. Whether there is more to do at once, so that the wait
/// does not sleep; an error ends it with [`BootError::Idle`].
pub type Idle<'a> = &'a mut dyn FnMut() -> Result<bool, String>;

/// Out-of-band collectives between any group of world ranks.
///
/// Threads may run collectives at the same time under different tags.
/// Dropping it says goodbye to the peers.
pub struct Control {
    boot: Arc<dyn Boot>,
    mesh: Mutex<Mesh>,
}

impl Control {
    /// Opens a listening socket and publishes its address; the caller fences
    /// before the first collective. Once per process.
    ///
    /// # Errors
    /// [`BootError::Os`] without a usable network interface or descriptor,
    /// [`BootError::Twice`] when it was opened before, the boot's own errors.
    pub fn open(boot: Arc<dyn Boot>) -> Result<Control, BootError> {
        let mesh = Mutex::new(Mesh::open(boot.clone())?);
        Ok(Control { boot, mesh })
    }

    /// The boot below.
    pub fn boot(&self) -> &Arc<dyn Boot> {
        &self.boot
    }

    /// What world rank `rank` published about itself; fetched once.
    pub fn card(&self, rank: u32) -> Result<Card, BootError> {
        self.mesh().card(rank).cloned()
    }

    /// Has `liveness` watch world rank `rank`.
    pub fn watch(&self, liveness: &Liveness, rank: u32) -> Result<Watch, BootError> {
        let process = self.mesh().process(rank)?;
        Ok(liveness.watch(rank, &process))
    }

    /// Whether world rank `rank` is known to have ended, by a connection that is
    /// kept to it from the first time this is asked. For peers on other
    /// machines; it does not wait, so ask again.
    ///
    /// # Errors
    /// [`BootError::Os`] when the system refuses.
    pub fn ended(&self, rank: u32) -> Result<bool, BootError> {
        self.mesh().dial(rank)?;
        self.progress(Duration::ZERO)?;
        Ok(self.mesh().lost(rank).is_some())
    }

    /// Connections open or under way.
    pub fn connections(&self) -> usize {
        self.mesh().connections()
    }

    /// Returns when every member has called it.
    ///
    /// # Errors
    /// [`BootError::PeerDied`], [`BootError::TimedOut`],
    /// [`BootError::Protocol`] when members called different collectives
    /// under this tag, [`BootError::Idle`], [`BootError::Rank`] for a group
    /// that does not fit the world.
    pub fn barrier(&self, group: &dyn Group, tag: u64, idle: Idle<'_>) -> Result<(), BootError> {
        let members = Members::check(group, &*self.boot)?;
        let (n, me) = (members.count, members.me);
        let steps = doublings(n).map(|distance| members.world((me + distance) % n)).collect();
        let mut call = Call::new(self, &members, (Operation::Barrier, tag), steps, idle);
        call.close(|call| {
            for distance in doublings(n) {
                call.send(Vec::new())?;
                call.receive(members.world((me + n - distance) % n))?;
            }
            Ok(())
        })
    }

    /// Collects every member's bytes, by group rank; lengths may differ.
    ///
    /// # Errors
    /// As [`barrier`](Control::barrier).
    pub fn allgather(
        &self,
        group: &dyn Group,
        tag: u64,
        mine: &[u8],
        idle: Idle<'_>,
    ) -> Result<Vec<Vec<u8>>, BootError> {
        let members = Members::check(group, &*self.boot)?;
        let (n, me) = (members.count, members.me);
        let steps = doublings(n).map(|distance| members.world((me + n - distance) % n)).collect();
        let mut call = Call::new(self, &members, (Operation::Allgather, tag), steps, idle);
        call.close(|call| {
            // blocks[i] belongs to group rank me + i.
            let mut blocks = vec![mine.to_vec()];
            for distance in doublings(n) {
                let count = distance.min(n - distance) as usize;
                call.send(pack(&blocks[..count]))?;
                let from = members.world((me + distance) % n);
                let bytes = call.receive(from)?;
                blocks.extend(unpack(&bytes, count).ok_or_else(|| BootError::Protocol {
                    rank: from,
                    what: format!("its allgather message does not hold {count} values"),
                })?);
            }
            blocks.rotate_right(me as usize);
            Ok(blocks)
        })
    }

    /// Gives every member the bytes of group rank `root`, which alone passes
    /// a `value`; others' values are not looked at.
    ///
    /// # Errors
    /// As [`barrier`](Control::barrier); [`BootError::Options`] when the root
    /// passes nothing. Returning from the root does not mean that anyone has
    /// the value yet.
    pub fn broadcast(
        &self,
        group: &dyn Group,
        tag: u64,
        root: u32,
        value: Option<&[u8]>,
        idle: Idle<'_>,
    ) -> Result<Vec<u8>, BootError> {
        let members = Members::check(group, &*self.boot)?;
        let (n, me) = (members.count, members.me);
        super::check_rank(root, n)?;
        let place = (me + n - root) % n;
        let at = |place: u32| members.world((place + root) % n);
        // Place p hangs below p with its lowest bit cleared; so its own
        // subtree is as wide as that bit.
        let width = match place {
            0 => n.next_power_of_two(),
            place => 1 << place.trailing_zeros(),
        };
        let children =
            doublings(width).map(|d| place + d).filter(|&p| p < n).map(at).collect::<Vec<_>>();
        let below = children.iter().rev().copied().collect();
        let mut call = Call::new(self, &members, (Operation::Broadcast, tag), below, idle);
        call.close(|call| {
            let value = match place {
                0 => value.map(<[u8]>::to_vec).ok_or_else(|| {
                    BootError::Options("the root of a broadcast must pass a value".into())
                })?,
                place => call.receive(at(place & (place - 1)))?,
            };
            for _ in &children {
                call.send(value.clone())?;
            }
            Ok(value)
        })
    }

    fn mesh(&self) -> MutexGuard<'_, Mesh> {
        self.mesh.lock().unwrap_or_else(|poison| poison.into_inner())
    }

    /// Waits for sockets at most `limit`, without the lock, then serves them.
    fn progress(&self, limit: Duration) -> Result<(), BootError> {
        let mut set = self.mesh().poll_set();
        set.wait(limit)?;
        self.mesh().service(&set)
    }
}

/// A group that was checked against the world.
struct Members<'a> {
    group: &'a dyn Group,
    count: u32,
    me: u32,
}

impl<'a> Members<'a> {
    fn check(group: &'a dyn Group, boot: &dyn Boot) -> Result<Self, BootError> {
        let (count, me) = (group.len(), group.me());
        if count > boot.size() {
            return Err(BootError::Options(format!(
                "a group of {count} members in a job of {} ranks",
                boot.size()
            )));
        }
        super::check_rank(me, count)?;
        if group.world(me) != boot.rank() {
            return Err(BootError::Options(format!(
                "group rank {me} is world rank {}, but this process is world rank {}",
                group.world(me),
                boot.rank()
            )));
        }
        Ok(Members { group, count, me })
    }

    fn world(&self, rank: u32) -> u32 {
        self.group.world(rank)
    }
}

/// 1, 2, 4, … below `n`.
fn doublings(n: u32) -> impl Iterator<Item = u32> {
    std::iter::successors(Some(1u32), |d| d.checked_mul(2)).take_while(move |&d| d < n)
}

fn pack(blocks: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(blocks.iter().map(|block| block.len() + 8).sum());
    for block in blocks {
        bytes.extend((block.len() as u64).to_le_bytes());
        bytes.extend(block);
    }
    bytes
}

fn unpack(mut bytes: &[u8], count: usize) -> Option<Vec<Vec<u8>>> {
    let mut blocks = Vec::with_capacity(count);
    for _ in 0..count {
        let (length, rest) = bytes.split_first_chunk::<8>()?;
        let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
        let (block, rest) = rest.split_at_checked(length)?;
        blocks.push(block.to_vec());
        bytes = rest;
    }
    bytes.is_empty().then_some(blocks)
}

/// One collective under way on this process.
struct Call<'a> {
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
    patience: Duration,
}

impl<'a> Call<'a> {
    fn new(
        control: &'a Control,
        members: &'a Members<'a>,
        (operation, tag): (Operation, u64),
        targets: Vec<u32>,
        idle: Idle<'a>,
    ) -> Self {
        let (start, patience) = (Instant::now(), os::patience());
        let (sent, received) = (0, 0);
        Call { control, members, operation, tag, targets, sent, received, idle, start, patience }
    }

    /// Runs `steps`, then waits until what was sent is on its way. When that
    /// fails, tells those who still wait for this process.
    fn close<T>(
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
    fn send(&mut self, payload: Vec<u8>) -> Result<(), BootError> {
        let target = self.targets[self.sent];
        let frame = self.frame(Kind::Data, payload);
        self.control.mesh().send(target, frame)?;
        self.sent += 1;
        Ok(())
    }

    fn frame(&self, kind: Kind, payload: Vec<u8>) -> Frame {
        let Call { operation, tag, .. } = *self;
        // In a broadcast the depth differs between sender and receiver.
        let round = if operation == Operation::Broadcast { 0 } else { self.sent as u16 };
        Frame { tag, sequence: 0, kind, operation, round, payload }
    }

    /// Waits for the next message of `from`.
    fn receive(&mut self, from: u32) -> Result<Vec<u8>, BootError> {
        let tag = self.tag;
        self.control.mesh().attend(from)?;
        let frame = self.wait_until(&[from], |mesh| match mesh.take(from, tag) {
            Ok(None) => mesh.lost(from).map_or(Ok(None), Err),
            other => other,
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
    fn wait_until<T>(
        &mut self,
        on: &[u32],
        mut done: impl FnMut(&mut Mesh) -> Result<Option<T>, BootError>,
    ) -> Result<T, BootError> {
        /// Turns without sleeping, for peers that are just about to answer.
        const EAGER: u32 = 20;
        const NAP: Duration = Duration::from_millis(1);
        /// After that, call the silent ones whose end would go unnoticed.
        const SILENCE: Duration = Duration::from_millis(250);
        let begin = Instant::now();
        let mut called = false;
        let mut busy = false;
        for turn in 0u32.. {
            if let Some(value) = done(&mut self.control.mesh())? {
                return Ok(value);
            }
            let awake = busy || turn < EAGER;
            self.control.progress(if awake { Duration::ZERO } else { NAP })?;
            busy = (self.idle)().map_err(BootError::Idle)?;
            if !called && begin.elapsed() > SILENCE {
                called = true;
                let mut mesh = self.control.mesh();
                for &rank in on {
                    if mesh.unobserved(rank) {
                        mesh.dial(rank)?;
                    }
                }
            }
            if self.start.elapsed() > self.patience {
                return Err(BootError::TimedOut {
                    what: format!("{:?} under tag {:#x}", self.operation, self.tag),
                    missing: on.to_vec(),
                    seconds: self.patience.as_secs(),
                });
            }
        }
        unreachable!("the loop above only ends by returning")
    }

    /// Tells why this process gives up: those who wait for it in this
    /// collective, and those who completed it and will wait in the next one
    /// under the tag. All algorithms pair ranks a power of two apart. Best
    /// effort, for a short while.
    fn poison(&self, error: &BootError) {
        const LIMIT: Duration = Duration::from_secs(2);
        let rank = self.control.boot.rank();
        let (rank, how) = match error {
            BootError::PeerDied { rank, how } => (*rank, how.clone()),
            other => (rank, format!("gave up: {other}")),
        };
        let payload = [&rank.to_le_bytes()[..], how.as_bytes()].concat();
        let Members { count: n, me, .. } = *self.members;
        let mut neighbours: Vec<u32> = doublings(n)
            .flat_map(|distance| [(me + distance) % n, (me + n - distance) % n])
            .map(|member| self.members.world(member))
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

fn read_poison(from: u32, payload: &[u8]) -> BootError {
    match payload.split_first_chunk::<4>() {
        Some((rank, how)) => BootError::PeerDied {
            rank: u32::from_le_bytes(*rank),
            how: String::from_utf8_lossy(how).into_owned(),
        },
        None => BootError::PeerDied { rank: from, how: "gave up the collective".into() },
    }
}
