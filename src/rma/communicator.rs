//! Communicators: a rank map over a device.

mod collectives;
mod grid;
mod recorded;
mod simulated;
mod words;

pub use collectives::Allgather;
pub(super) use recorded::End;
pub use simulated::{Says, SimulatedMembers};

use super::am_fallback::RmaHandler;
use super::{Error, ErrorKind};
use crate::device::{Context, Device, DeviceError, Enrolled};
use crate::netmod::Netmod;
use crate::rankmap::compact::Strategy;
use crate::rankmap::group::Group;
use crate::rankmap::{Detector, Process, RankMap};
use crate::track::{Constructor, Kind, NO_PEER};
use recorded::Record;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use words::Words;

/// An ordered group of processes with a context of its own.
///
/// Holds a rank map and a few words: the map's tables, where it has any, are
/// shared by reference count, so a duplicate costs this struct and nothing
/// more. There are no node tables: the node of a rank, and its rank there, are
/// compositions of this map with the device's compressed world tables.
pub struct Communicator<N: Netmod> {
    context: Rc<Context<N>>,
    /// Empty where calls are recorded: messages find no rank here then, and what finds none
    /// is out of line.
    map: RankMap,
    /// Agreed on without a message: a hash of how this communicator was made,
    /// equal in all members.
    id: u64,
    rank: u32,
    /// Collective calls so far.
    calls: Cell<u32>,
    cold: OnceCell<Rc<ColdState>>,
    /// Somebody received from any rank.
    enrolled: OnceCell<Box<Enrolled>>,
}

/// What few communicators have, out of line. Those without are [`Strategy::Auto`].
struct ColdState {
    /// How irregular maps made of this one are held; `None` for tables.
    strategy: Option<Strategy>,
    /// The caller's allgather, in place of the set-up channel.
    allgather: Option<Rc<dyn Allgather>>,
    /// Where its calls are recorded.
    record: Option<Record>,
    /// How often a communicator was made of a group of this one alone, by a hash of both.
    groups: RefCell<BTreeMap<u64, u32>>,
}

impl ColdState {
    fn new(
        strategy: Option<Strategy>,
        allgather: Option<Rc<dyn Allgather>>,
    ) -> OnceCell<Rc<ColdState>> {
        let any = strategy != Some(Strategy::Auto) || allgather.is_some();
        let state = || Rc::new(ColdState { strategy, allgather, ..ColdState::default() });
        any.then(state).map_or_else(OnceCell::new, OnceCell::from)
    }

    /// Returns true if children may have it, too.
    fn is_heritable(&self) -> bool {
        self.allgather.is_none() && self.record.is_none() && self.groups.borrow().is_empty()
    }
}

impl Default for ColdState {
    fn default() -> ColdState {
        let (strategy, groups) = (Some(Strategy::Auto), RefCell::default());
        ColdState { strategy, allgather: None, record: None, groups }
    }
}

impl<N: Netmod> std::fmt::Debug for Communicator<N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Communicator")
            .field("rank", &self.rank)
            .field("size", &self.size())
            .field("model", &self.map().model())
            .field("id", &format_args!("{:016x}", self.id))
            .finish_non_exhaustive()
    }
}

/// Mixes words into an id (the finalizer of splitmix64).
fn mix(words: &[u64]) -> u64 {
    words.iter().fold(0x9e37_79b9_7f4a_7c15, |h, w| {
        let z = (h ^ w).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    })
}

/// The id of the communicator of all.
fn world_id<N: Netmod>(context: &Context<N>) -> u64 {
    let id = mix(&[context.device().boot().job()]);
    if context.index() == 0 { id } else { mix(&[id, u64::from(context.index())]) }
}

impl<N: Netmod> Communicator<N> {
    /// All processes of the job, in world order. Its children's maps are held
    /// as [`Device::map_strategy`] says until another is given. The worlds of contexts of
    /// different indices are different communicators, those of one context are one.
    pub fn world(context: &Rc<Context<N>>) -> Communicator<N> {
        if context.index() == 0 && context.device().has_threads() {
            // Peers' further contexts ask it about windows of this process's further ones.
            RmaHandler::of(context);
        }
        let boot = context.device().boot();
        let (map, rank) = (RankMap::direct(boot.size()), boot.rank());
        let cold = ColdState::new(context.device().map_strategy(), None);
        let world = Communicator::of(context, map, rank, world_id(context), cold);
        match context.device().trace() {
            Some(trace) => world.recorded_as(trace.world(context.index()), End::Never),
            None => world,
        }
    }

    /// This process's rank.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// The number that keeps its messages and windows apart from others':
    /// equal in all members, agreed on without a message.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Number of processes.
    pub fn size(&self) -> u32 {
        self.map().len()
    }

    /// The rank map: rank → (process group, lpid).
    pub fn map(&self) -> &RankMap {
        if self.map.is_empty()
            && let Some(record) = self.record()
        {
            return &record.map;
        }
        &self.map
    }

    /// Its members as a group, which shares the map. Local.
    pub fn group(&self) -> Group {
        // The members of a communicator differ, wherever its map is from.
        Group::of(self.map().clone())
    }

    /// The context operations are issued on.
    pub fn context(&self) -> &Rc<Context<N>> {
        &self.context
    }

    /// The device.
    pub fn device(&self) -> &Arc<Device<N>> {
        self.context.device()
    }

    /// The world rank of a rank.
    ///
    /// # Errors
    /// [`ErrorKind::Rank`].
    pub fn world_rank(&self, rank: u32) -> Result<u32, Error> {
        let size = self.size();
        let Some(process) = self.map().get(rank) else {
            return Err(ErrorKind::Rank { rank, size }.into());
        };
        Ok(self.device().world_rank(process)?)
    }

    /// A receive from anybody is told of the end of a member from now on.
    #[inline]
    pub(crate) fn enroll(&self) {
        self.enrolled.get_or_init(|| Box::new(self.context.enroll(self.id, self.map())));
    }

    /// The rank of a world rank here, if it is a member.
    pub fn rank_of(&self, peer: u32) -> Option<u32> {
        self.map().rank_of(Process { pg: 0, lpid: peer })
    }

    /// Rank → node, composed from the world's table; it is not stored.
    ///
    /// # Errors
    /// A map that reaches outside this job.
    pub fn nodes(&self) -> Result<RankMap, Error> {
        Ok(self.device().nodes().compose_with(self.map(), self.map_strategy())?)
    }

    /// Rank → rank on its node, in world order; composed, not stored.
    ///
    /// # Errors
    /// A map that reaches outside this job.
    pub fn node_ranks(&self) -> Result<RankMap, Error> {
        Ok(self.device().node_ranks().compose_with(self.map(), self.map_strategy())?)
    }

    /// A communicator of the same processes with a context of its own. Sends
    /// no message, shares the map. Collective.
    #[must_use]
    #[track_caller]
    pub fn dup(&self) -> Communicator<N> {
        match self.construct(Constructor::Dup, || Ok(Some(self.duplicate()))) {
            Ok(Some(made)) => made,
            // (It does not fail.)
            _ => self.duplicate(),
        }
    }

    /// [`dup`](Self::dup), of which nothing is recorded.
    pub(super) fn duplicate(&self) -> Communicator<N> {
        let id = mix(&[self.id, self.call(), 1]);
        let same = self.child(self.map().clone(), self.rank, id);
        let cold = ColdState::new(self.map_strategy(), self.shared_allgather());
        Communicator { cold, ..same }
    }

    /// How irregular maps made of this one are held; `None` for tables.
    pub fn map_strategy(&self) -> Option<Strategy> {
        self.cold.get().map_or(Some(Strategy::Auto), |cold| cold.strategy)
    }

    fn shared_allgather(&self) -> Option<Rc<dyn Allgather>> {
        self.cold.get().and_then(|cold| cold.allgather.clone())
    }

    /// [`dup`](Self::dup) with its map, and those of its children, held as
    /// `strategy` says where they are irregular; `None` for tables. Operations
    /// are as they were, but for one lookup in the map's form each. Collective,
    /// sends no message; the strategy may differ between members.
    ///
    /// # Errors
    /// None in practice: whatever was a map can be one in another form.
    #[track_caller]
    pub fn with_strategy(&self, strategy: Option<Strategy>) -> Result<Communicator<N>, Error> {
        self.construct_one(Constructor::Dup, || self.held_by(strategy))
    }

    fn held_by(&self, strategy: Option<Strategy>) -> Result<Communicator<N>, Error> {
        let id = mix(&[self.id, self.call(), 11]);
        let map = match (strategy, self.map().pg()) {
            (Some(strategy), _) => self.map().compressed(strategy)?,
            (None, Some(pg)) if self.map().as_compact().is_some() => {
                RankMap::from_lpids(pg, self.map().iter().map(|process| process.lpid))?
            }
            (None, _) => self.map().clone(),
        };
        Ok(Communicator { cold: ColdState::new(strategy, None), ..self.child(map, self.rank, id) })
    }

    /// The same processes in reverse order. Collective, sends no message.
    ///
    /// # Errors
    /// None in practice: the reverse of a map is a map.
    #[track_caller]
    pub fn reversed(&self) -> Result<Communicator<N>, Error> {
        self.construct_one(Constructor::Create, || {
            let id = mix(&[self.id, self.call(), 2]);
            let child = RankMap::affine(0, self.size() - 1, -1, self.size())?;
            let map = self.map().compose_with(&child, self.map_strategy())?;
            Ok(self.child(map, self.size() - 1 - self.rank, id))
        })
    }

    /// One communicator for each color; ranks in the order of `key`, then of
    /// rank here. `None` joins none. Collective.
    ///
    /// # Errors
    /// A peer that died.
    #[track_caller]
    pub fn split(&self, color: Option<u32>, key: i32) -> Result<Option<Communicator<N>>, Error> {
        self.construct(Constructor::Split, || self.split_by(color, key))
    }

    fn split_by(&self, color: Option<u32>, key: i32) -> Result<Option<Communicator<N>>, Error> {
        self.context.check_may_wait()?;
        let call = self.call();
        let said = Words::of(&Words::said_in_split(color, key), 0);
        let words = self.gather_words(mix(&[self.id, call, 3]), said)?;
        let Some(color) = color else { return Ok(None) };
        let ranks = words.joined(color)?;
        let map = self.map().compose_with(&ranks, self.map_strategy())?;
        let rank = ranks.find(Process { pg: 0, lpid: self.rank });
        let id = mix(&[self.id, call, 4, u64::from(color)]);
        Ok(rank.map(|rank| self.child(map, rank, id)))
    }

    /// A communicator of the given ranks, in the given order; `None` for
    /// processes that are not among them. Collective over this communicator
    /// with the same list, and sends no message.
    ///
    /// # Errors
    /// [`ErrorKind::Rank`] for a rank that is not here,
    /// [`ErrorKind::Arguments`] for one that is named twice.
    #[track_caller]
    pub fn create(
        &self,
        ranks: impl IntoIterator<Item = u32>,
    ) -> Result<Option<Communicator<N>>, Error> {
        self.construct(Constructor::Create, || {
            let id = mix(&[self.id, self.call(), 5]);
            self.subset(ranks, id)
        })
    }

    /// A communicator of the members of a group, in its order; `None` for
    /// processes that are not among them. Collective over the group, whose members name
    /// it alike; others need not call it. Sends no message, and takes a time by the
    /// members.
    ///
    /// # Errors
    /// [`ErrorKind::Arguments`] for a group with a process that is not here.
    #[track_caller]
    pub fn create_group(&self, group: &Group) -> Result<Option<Communicator<N>>, Error> {
        self.construct(Constructor::Create, || self.of_group(group))
    }

    fn of_group(&self, group: &Group) -> Result<Option<Communicator<N>>, Error> {
        let outside = group.difference(&self.group());
        let outside = outside.map_err(|e| ErrorKind::Arguments(e.to_string()))?;
        if let Some(process) = outside.get(0) {
            let why = format!("process {process} of the group is not in the communicator");
            return Err(ErrorKind::Arguments(why).into());
        }
        let Some(me) = self.map().get(self.rank) else { return Ok(None) };
        let map = group.map();
        let Some(rank) = map.find(me) else { return Ok(None) };
        let child = self.child(map.clone(), rank, self.id_of_group(map));
        Ok(Some(child))
    }

    /// The number of a communicator that a group's members alone make: of the group, and
    /// of how often they did so before, which they all know.
    fn id_of_group(&self, group: &RankMap) -> u64 {
        let word = |process: Process| u64::from(process.pg) << 32 | u64::from(process.lpid);
        let members = group.iter().fold(self.id, |hash, process| mix(&[hash, word(process)]));
        let mut groups = if self.is_world() {
            self.context.world_groups.borrow_mut()
        } else {
            self.cold.get_or_init(Rc::default).groups.borrow_mut()
        };
        let times = groups.entry(members).or_default();
        *times = times.wrapping_add(1);
        mix(&[members, (*times).into(), 11])
    }

    /// The sub-grid of a Cartesian layout this process is in: `dims` are the
    /// extents, slowest first, and `keep[d]` says which dimensions stay.
    /// Collective over this communicator, sends no message.
    ///
    /// # Errors
    /// [`ErrorKind::Arguments`] when the extents do not multiply to the size
    /// or the lengths differ.
    #[track_caller]
    pub fn cart_sub(&self, dims: &[u32], keep: &[bool]) -> Result<Communicator<N>, Error> {
        self.construct_one(Constructor::CartSub, || self.sub_grid(dims, keep))
    }

    fn sub_grid(&self, dims: &[u32], keep: &[bool]) -> Result<Communicator<N>, Error> {
        let id = mix(&[self.id, self.call(), 6]);
        let cells = dims.iter().try_fold(1_u32, |n, &d| n.checked_mul(d));
        if cells != Some(self.size()) || dims.len() != keep.len() {
            let (size, flags) = (self.size(), keep.len());
            let why = match cells {
                Some(cells) if cells == size => format!(
                    "{flags} flags for the extents {dims:?}: one says of each whether it stays"
                ),
                _ => format!(
                    "a grid of {dims:?} does not hold the {size} ranks of the communicator: its extents multiply to that"
                ),
            };
            return Err(ErrorKind::Arguments(why).into());
        }
        let (ranks, mine) = grid::sub_grid(dims, keep, self.rank)?;
        let map = self.map().compose_with(&ranks, self.map_strategy())?;
        let first = ranks.get(0).map_or(0, |it| u64::from(it.lpid));
        Ok(self.child(map, mine, mix(&[id, first])))
    }

    /// Waits for all members, making progress meanwhile. Collective.
    ///
    /// # Errors
    /// A peer that died, by name.
    pub fn barrier(&self) -> Result<(), Error> {
        self.collective(Kind::Barrier, NO_PEER, 0, || self.meet())
    }

    /// Collects `mine` from all members, by rank; lengths may differ.
    /// Collective.
    ///
    /// # Errors
    /// A peer that died, by name.
    pub fn allgather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        self.collective(Kind::Allgatherv, NO_PEER, mine.len(), || {
            self.allgather_tagged(self.collective_tag(8)?, mine)
        })
    }

    /// Sends the root's bytes to all members. Collective.
    ///
    /// # Errors
    /// [`ErrorKind::Rank`] for a root that is not here; a peer that died.
    pub fn broadcast(&self, root: u32, value: Option<&[u8]>) -> Result<Vec<u8>, Error> {
        let given = value.filter(|_| root == self.rank).map_or(0, <[u8]>::len);
        self.collective(Kind::Bcast, root, given, || self.send_to_all(root, value))
    }

    /// The number of this collective call, equal in all members.
    fn call(&self) -> u64 {
        let calls = if self.is_world() { &self.context.world_calls } else { &self.calls };
        u64::from(calls.replace(calls.get().wrapping_add(1)))
    }

    /// Returns true if it is a handle of the communicator of all, whose handles are all one.
    fn is_world(&self) -> bool {
        self.id == world_id(&self.context)
    }

    fn subset(
        &self,
        ranks: impl IntoIterator<Item = u32>,
        id: u64,
    ) -> Result<Option<Communicator<N>>, Error> {
        let size = self.size();
        let mut detector = Detector::new();
        let mut mine = None;
        for (at, rank) in ranks.into_iter().enumerate() {
            if rank >= size {
                return Err(ErrorKind::Rank { rank, size }.into());
            }
            if rank == self.rank && mine.replace(at as u32).is_some() {
                let why = format!("rank {rank} is named twice in the new communicator");
                return Err(ErrorKind::Arguments(why).into());
            }
            detector.push(rank);
        }
        let child = detector.finish()?;
        if let Some(Process { lpid: rank, .. }) = child.duplicate() {
            let why = format!("rank {rank} is named twice in the new communicator");
            return Err(ErrorKind::Arguments(why).into());
        }
        let map = self.map().compose_with(&child, self.map_strategy())?;
        Ok(mine.map(|rank| self.child(map, rank, id)))
    }

    /// A communicator over any map under a number that all members have agreed
    /// on by themselves, which no other in use has, and with an allgather of the
    /// caller's: for device layers that bring all three. No message, no check of
    /// membership.
    #[must_use]
    pub fn with_allgather(
        &self,
        map: RankMap,
        rank: u32,
        id: u64,
        allgather: Rc<dyn Allgather>,
    ) -> Communicator<N> {
        let child = self.child(map, rank, mix(&[id, 11]));
        let cold = ColdState::new(child.map_strategy(), Some(allgather));
        Communicator { cold, ..child }
    }

    /// A communicator over any map, for structures that are measured and for
    /// device layers that bring their own: no message, no check of membership.
    #[must_use]
    #[track_caller]
    pub fn with_map(&self, map: RankMap, rank: u32) -> Communicator<N> {
        let id = mix(&[self.id, self.call(), 10]);
        self.child(map, rank, id).recorded_by_id()
    }

    /// A communicator whose map and id a device layer has agreed on: this
    /// process is `rank` of `map`, and members that name the same `id`, also those of
    /// other jobs, mean the same communicator. No message, no check of membership. An id of which
    /// a collective has failed is not given again: members that have not seen that hear of it in
    /// what comes next under it.
    #[must_use]
    #[track_caller]
    pub fn with_id(context: &Rc<Context<N>>, map: RankMap, rank: u32, id: u64) -> Communicator<N> {
        let cold = ColdState::new(context.device().map_strategy(), None);
        Communicator::of(context, map, rank, mix(&[id, 12]), cold).recorded_by_id()
    }

    fn child(&self, map: RankMap, rank: u32, id: u64) -> Communicator<N> {
        let cold = match self.cold.get() {
            Some(cold) if !cold.is_heritable() => ColdState::new(cold.strategy, None),
            _ => self.cold.clone(),
        };
        Communicator::of(&self.context, map, rank, id, cold)
    }

    fn of(
        context: &Rc<Context<N>>,
        map: RankMap,
        rank: u32,
        id: u64,
        cold: OnceCell<Rc<ColdState>>,
    ) -> Communicator<N> {
        let (context, calls, enrolled) = (Rc::clone(context), Cell::new(0), OnceCell::new());
        Communicator { context, map, id, rank, calls, cold, enrolled }
    }
}

impl From<DeviceError> for ErrorKind {
    fn from(e: DeviceError) -> ErrorKind {
        ErrorKind::Device(e)
    }
}
