//! The set-up channel: small collectives over any group of ranks.
//!
//! Launchers synchronise the whole world and know nothing smaller. Creating a
//! communicator or a window needs a barrier, an allgather or a broadcast over
//! some ranks only, so every process opens a listening socket and connects, on first use, to the few peers an algorithm pairs it with:
//! dissemination for barrier and vote (Hensgen, Finkel, Manber 1988), Bruck's
//! algorithm for the allgather (Bruck et al. 1997), a binomial tree for the
//! broadcast; O(log P) connections a process each. It is not built for speed
//! and is never on the way of an operation.
//!
//! **Authentication.** Processes that share a machine and a network namespace
//! meet at abstract Unix sockets, where the kernel says which user calls; all
//! others over TCP, at the addresses that their contact info names. A caller must
//! show 128 random bits published in the called rank's
//! [`ContactInfo`](super::ContactInfo), and gets another 128 bits back; without them a
//! connection is closed unheard. Who has not shown them after a second, or
//! is one too many, is cut off; peers call again. The bits and the data cross
//! the network in the clear, as in other MPI launchers: the channel keeps out
//! strangers and mistakes, not someone who reads the network.
//!
//! **Death.** A closed connection without a goodbye, a refused connection or
//! the end of a process that can be seen ends the collective with
//! [`BootError::PeerDied`]; so it does on every other member. Whoever gives up
//! says so to those who wait for it; deaths are passed on over all
//! connections; and who waits for long checks all members itself, since
//! those it waits for may be elsewhere. Members that are alive but silent are
//! waited for `RANKWAY_TIMEOUT` seconds (300).
//!
//! **Tags.** Collectives that may overlap in time on the same pair of ranks
//! need different tags. Under one tag all members call the same collectives
//! in the same order. After an error, use neither tag nor group again.

mod acceptor;
mod around;
mod channel;
mod collective;
mod connection;
mod failure_detector;
mod mesh;
mod protocol;
mod socket;

use super::contact_info::ContactInfo;
use super::{Boot, BootError, Fate, Liveness, Watch, os};
pub(crate) use around::Around;
pub use channel::Channel;
use collective::{Collective, doublings};
use mesh::Mesh;
use protocol::Operation;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// An ordered set of world ranks, seen by one of them.
pub trait Group {
    /// Members.
    fn len(&self) -> u32;
    /// Group rank of the caller.
    fn me(&self) -> u32;
    /// World rank of group rank `rank`, which is below [`len`](Group::len).
    fn world_rank(&self, rank: u32) -> u32;
    /// What the group is called by all its members, where it has a name of its
    /// own: one that gave up a collective of it is not waited for in others.
    fn name(&self) -> Option<u64> {
        None
    }
    /// Returns true if there are no members; a group one belongs to never is.
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
    fn world_rank(&self, rank: u32) -> u32 {
        rank
    }
}

/// Called while waiting. Returns true if there is more to do at once, so that the
/// wait does not sleep; an error ends it with [`BootError::Idle`].
pub type Idle<'a> = &'a mut dyn FnMut() -> Result<bool, String>;

/// Out-of-band collectives between any group of world ranks.
///
/// Threads may run collectives at the same time under different tags.
/// Dropping it says goodbye to the peers.
pub struct Control {
    boot: Arc<dyn Boot>,
    mesh: Mutex<Mesh>,
    /// Silence has no limit.
    patient: AtomicBool,
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
        Ok(Control { boot, mesh, patient: AtomicBool::new(false) })
    }

    /// Has collectives wait as long as their members live, as MPI's do: `RANKWAY_TIMEOUT` is no
    /// limit to those that begin from now on.
    pub fn set_patient(&self) {
        self.patient.store(true, Ordering::Relaxed);
    }

    /// How long a collective waits for members that live but are silent.
    fn timeout(&self) -> Duration {
        if self.patient.load(Ordering::Relaxed) { Duration::MAX } else { os::timeout() }
    }

    /// The boot below.
    pub fn boot(&self) -> &Arc<dyn Boot> {
        &self.boot
    }

    /// What world rank `rank` published about itself; fetched once.
    pub fn contact_info(&self, rank: u32) -> Result<ContactInfo, BootError> {
        self.mesh().contact_info(rank).cloned()
    }

    /// Has `liveness` watch world rank `rank`.
    ///
    /// # Errors
    /// [`BootError::Os`] where that takes a descriptor too many; what the
    /// launcher answers.
    pub fn watch(&self, liveness: &Liveness, rank: u32) -> Result<Watch, BootError> {
        let process = self.mesh().process(rank)?;
        match liveness.watch(rank, &process) {
            Watch::NoDescriptor => {
                let what = format!("watching rank {rank}");
                Err(BootError::io(what, std::io::Error::from_raw_os_error(libc::EMFILE)))
            }
            watched => Ok(watched),
        }
    }

    /// Returns true if world rank `rank` is known to have ended, by a
    /// connection that is kept to it from the first time this is asked. For
    /// peers on other machines; it does not wait, so ask again.
    ///
    /// # Errors
    /// [`BootError::Os`] when the system refuses.
    pub fn ended(&self, rank: u32) -> Result<bool, BootError> {
        self.mesh().dial(rank)?;
        self.progress(Duration::ZERO)?;
        Ok(self.mesh().lost(rank).is_some())
    }

    /// [`ended`](Control::ended) for one that may be on this machine, asked where connections
    /// take few of the descriptors that this process may have; no where the system refuses.
    pub(crate) fn has_closed(&self, rank: u32) -> bool {
        if self.mesh().lost(rank).is_some() {
            return true;
        }
        let few = self.mesh().is_in_process()
            || self.connections() < failure_detector::most_connections();
        few && self.ended(rank).unwrap_or(false)
    }

    /// How world rank `rank` ended, whose process was seen to.
    pub(crate) fn fate(&self, rank: u32) -> Fate {
        match self.boot.fate(rank) {
            Fate::Unknown if rank < self.boot.size() => self.fate_by_channel(rank),
            told => told,
        }
    }

    fn fate_by_channel(&self, rank: u32) -> Fate {
        let seen = || self.mesh().process_has_ended(rank);
        if self.mesh().is_in_process()
            || seen().and_then(|()| self.progress(Duration::ZERO)).is_err()
        {
            return Fate::Unknown;
        }
        self.mesh().fate(rank)
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
        self.disseminate(group, (Operation::Barrier, tag), &mut Vec::new(), |_, _| (), idle)
    }

    /// Returns true if every member says so.
    ///
    /// # Errors
    /// As [`barrier`](Control::barrier).
    pub fn unanimous(
        &self,
        group: &dyn Group,
        tag: u64,
        mine: bool,
        idle: Idle<'_>,
    ) -> Result<bool, BootError> {
        let mut all = vec![u8::from(mine)];
        // (Whoever says anything but yes says no.)
        let both = |all: &mut Vec<u8>, theirs: Vec<u8>| all[0] &= u8::from(theirs == [1]);
        self.disseminate(group, (Operation::Unanimous, tag), &mut all, both, idle)?;
        Ok(all == [1])
    }

    /// Every member's value reaches every other, joined with whatever it met on the way,
    /// itself among it.
    fn disseminate(
        &self,
        group: &dyn Group,
        operation: (Operation, u64),
        value: &mut Vec<u8>,
        join: impl Fn(&mut Vec<u8>, Vec<u8>),
        idle: Idle<'_>,
    ) -> Result<(), BootError> {
        let members = Members::check(group, &*self.boot)?;
        let (n, me) = (members.count, members.me);
        let steps = doublings(n).map(|distance| members.world_rank((me + distance) % n)).collect();
        let mut collective = Collective::new(self, &members, operation, steps, idle);
        collective.run(|collective| {
            for distance in doublings(n) {
                collective.send(value.clone())?;
                let theirs = collective.receive(members.world_rank((me + n - distance) % n))?;
                join(value, theirs);
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
        let mut all = Listed(vec![mine.to_vec()]);
        self.gather_as((Operation::Allgather, tag), group, &mut all, idle)?;
        all.0.rotate_right(group.me() as usize);
        Ok(all.0)
    }

    /// Collects a value of every member, joined: `value` is the caller's own and ends as that of
    /// all members, the caller first and each of the others behind the one before it. The
    /// steps are those of [`allgather`](Control::allgather), and what is sent is as long as
    /// the values joined.
    ///
    /// # Errors
    /// As [`barrier`](Control::barrier); [`BootError::Protocol`] for what cannot be joined.
    pub fn gather(
        &self,
        group: &dyn Group,
        tag: u64,
        value: &mut dyn Gathered,
        idle: Idle<'_>,
    ) -> Result<(), BootError> {
        self.gather_as((Operation::Gather, tag), group, value, idle)
    }

    fn gather_as(
        &self,
        operation: (Operation, u64),
        group: &dyn Group,
        value: &mut dyn Gathered,
        idle: Idle<'_>,
    ) -> Result<(), BootError> {
        let members = Members::check(group, &*self.boot)?;
        let (n, me) = (members.count, members.me);
        let steps =
            doublings(n).map(|distance| members.world_rank((me + n - distance) % n)).collect();
        let mut collective = Collective::new(self, &members, operation, steps, idle);
        collective.run(|collective| {
            gather_by((n, me), value, |_, from, head| {
                collective.send(head)?;
                let from = members.world_rank(from);
                Ok((from, collective.receive(from)?))
            })
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
        let at = |place: u32| members.world_rank((place + root) % n);
        // Place p hangs below p with its lowest bit cleared; so its own
        // subtree is as wide as that bit.
        let width = match place {
            0 => n.next_power_of_two(),
            place => 1 << place.trailing_zeros(),
        };
        let children =
            doublings(width).map(|d| place + d).filter(|&p| p < n).map(at).collect::<Vec<_>>();
        let below = children.iter().rev().copied().collect();
        let mut collective =
            Collective::new(self, &members, (Operation::Broadcast, tag), below, idle);
        collective.run(|collective| {
            let value = match place {
                0 => value.map(<[u8]>::to_vec).ok_or_else(|| {
                    BootError::Options("the root of a broadcast must pass a value".into())
                })?,
                place => collective.receive(at(place & (place - 1)))?,
            };
            for _ in &children {
                collective.send(value.clone())?;
            }
            Ok(value)
        })
    }

    fn mesh(&self) -> MutexGuard<'_, Mesh> {
        self.mesh.lock().unwrap_or_else(|poison| poison.into_inner())
    }

    /// Waits for sockets at most `limit`, without the lock, then serves them.
    fn progress(&self, limit: Duration) -> Result<(), BootError> {
        if self.mesh().receive_in_process() {
            return Ok(());
        }
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
        if group.world_rank(me) != boot.rank() {
            return Err(BootError::Options(format!(
                "group rank {me} is world rank {}, but this process is world rank {}",
                group.world_rank(me),
                boot.rank()
            )));
        }
        Ok(Members { group, count, me })
    }

    fn world_rank(&self, rank: u32) -> u32 {
        self.group.world_rank(rank)
    }

    /// What the group is called, 0 where it has no name.
    fn name(&self) -> u64 {
        self.group.name().unwrap_or(0)
    }

    /// World ranks of all members, this process first, then upwards.
    fn around(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.count).map(|step| {
            let rank = (u64::from(self.me) + u64::from(step)) % u64::from(self.count);
            self.world_rank(rank as u32)
        })
    }
}

/// What a gather collects: the values of consecutive members.
pub trait Gathered {
    /// The values of the first members alone.
    fn head(&self, members: u32) -> Vec<u8>;

    /// Appends the values of so many more.
    ///
    /// # Errors
    /// Why the bytes are no such values.
    fn append(&mut self, members: u32, values: &[u8]) -> Result<(), String>;
}

/// The steps of [`Control::gather`] of member `me` of `n`, in which `exchange` gives its value to
/// one member and gets the value of another, with the name that it has in errors.
///
/// # Errors
/// As `exchange`; [`BootError::Protocol`] for what cannot be joined.
pub fn gather_by(
    (n, me): (u32, u32),
    value: &mut dyn Gathered,
    mut exchange: impl FnMut(u32, u32, Vec<u8>) -> Result<(u32, Vec<u8>), BootError>,
) -> Result<(), BootError> {
    for distance in doublings(n) {
        let count = distance.min(n - distance);
        let (to, from) = ((me + n - distance) % n, (me + distance) % n);
        let (rank, values) = exchange(to, from, value.head(count))?;
        let why = |why| BootError::Protocol { rank, what: format!("it gathers otherwise: {why}") };
        value.append(count, &values).map_err(why)?;
    }
    Ok(())
}

/// What each member has after its steps of [`gather_by`], all of them in this thread.
#[cfg(test)]
pub(crate) fn gathered_by_all<G: Gathered>(mut all: Vec<G>) -> Vec<G> {
    let n = all.len() as u32;
    for distance in doublings(n) {
        let count = distance.min(n - distance);
        let heads: Vec<_> = all.iter().map(|one| one.head(count)).collect();
        for (me, one) in (0..n).zip(&mut all) {
            one.append(count, &heads[((me + distance) % n) as usize])
                .expect("what one of these said");
        }
    }
    all
}

/// Values as they are.
struct Listed(Vec<Vec<u8>>);

impl Gathered for Listed {
    fn head(&self, members: u32) -> Vec<u8> {
        pack(&self.0[..members as usize])
    }

    fn append(&mut self, members: u32, values: &[u8]) -> Result<(), String> {
        let values = unpack(values, members as usize);
        self.0.extend(values.ok_or_else(|| format!("there are not {members} values"))?);
        Ok(())
    }
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

#[cfg(fuzzing)]
pub(crate) fn fuzz(bytes: &[u8]) {
    protocol::fuzz(bytes);
}
