//! Which peers are alive, and what the death of one means for what is under way.

use super::DeviceError;
use super::channels::{Channels, Enrolled};
use super::context::{ANYBODY, Context};
use super::failures::{Listener, NOBODY};
use super::walks::Walks;
use crate::av::Transport;
use crate::boot::{BootError, Fate};
use crate::netmod::{NetError, Netmod};
use crate::rankmap::{Process, RankMap};
use crate::ulimit::no_descriptor;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// How long the death of a peer may take to show after the network's error: a
/// process closes its sockets before it is seen to have ended.
const DEATH_SHOWS: Duration = Duration::from_millis(200);

/// How long a wait for a living peer goes on before it is asked whether it has left, and
/// whether another on the node that is known to be dead has taken a lock with it.
const HOPELESS: Duration = Duration::from_secs(2);

/// Returns true if a peer is not watched for want of a descriptor.
pub(super) fn lacks_descriptor(error: &DeviceError) -> bool {
    matches!(error, DeviceError::Boot(BootError::Os { source, .. }) if no_descriptor(source))
}

impl<N: Netmod> Context<N> {
    /// One that [`Context::take_failure`] tells of the failures from now on.
    pub(crate) fn failure_listener(&self) -> Listener {
        self.failures.listener()
    }

    /// Tells of the failure of tracked operations towards `peer` that nobody waited for, once.
    pub(crate) fn take_failure_of(&self, listener: Listener, peer: u32) -> Option<DeviceError> {
        let error = self.failures.tell(listener, peer)?;
        Some(self.attribute_failure(peer, error))
    }

    /// Tells of a failure of any operation towards these peers that nobody waited for, once.
    /// Injected puts fail without an address: a death explains them where there is one, of
    /// whomever.
    pub(crate) fn take_failure(
        &self,
        listener: Listener,
        among: impl Fn(u32) -> bool,
    ) -> Option<DeviceError> {
        let (rank, error) = self.failures.first(listener, |rank| rank == NOBODY || among(rank))?;
        if rank != NOBODY {
            return self.take_failure_of(listener, rank);
        }
        let dead = self.await_death(|| self.device().dead_peers().first().copied());
        let Some(dead) = dead else {
            self.failures.tell(listener, NOBODY);
            return Some(DeviceError::Net(error));
        };
        self.failures.forget_nobodys();
        match among(dead) {
            true => Some(DeviceError::PeerDied { rank: dead }),
            false => self.take_failure(listener, among),
        }
    }

    /// The death that `look` finds, asked for as long as one may take to show.
    fn await_death(&self, look: impl Fn() -> Option<u32>) -> Option<u32> {
        shows(look).inspect(|&rank| _ = self.mark_failed(rank))
    }

    /// A provider's refusal of a peer's address; the peer's end, where that is about to be told: its
    /// files and its memory are gone before, and a library says of them what it likes.
    pub(super) fn address_refused(&self, peer: u32, error: NetError) -> DeviceError {
        let ending = || self.device().is_ending(peer).then_some(peer);
        let by_library = matches!(error, NetError::Call { .. });
        match if by_library { shows(ending) } else { ending() } {
            Some(rank) => DeviceError::PeerDied { rank },
            None => DeviceError::peer(peer, error),
        }
    }

    /// An operation's error, attributed to the death of the peer where that is
    /// the cause.
    pub(crate) fn attribute_failure(&self, rank: u32, error: NetError) -> DeviceError {
        // Injected puts that failed at the same time failed for this.
        self.failures.forget_nobodys();
        let dead = || self.device().is_dead(rank).then_some(rank);
        let shows = if error.tells_end() { self.await_death(dead) } else { dead() };
        if shows.is_some() {
            self.mark_failed(rank);
            DeviceError::PeerDied { rank }
        } else {
            DeviceError::peer(rank, error)
        }
    }

    /// Gives up what is under way towards a dead peer. Returns true if that took
    /// another endpoint.
    fn mark_failed(&self, rank: u32) -> bool {
        if !self.failures.add_lost(rank) {
            return false;
        }
        if self.links.drop_peer(rank, None) {
            self.tell_lost(rank);
        }
        self.tell_netmod(rank);
        let operations = self.completions.give_up(rank) > 0;
        (operations || self.links.has_copies(rank)) && self.renew_for(rank)
    }

    fn tell_netmod(&self, rank: u32) {
        let entry = self.av().get(Process { pg: 0, lpid: rank }).ok().filter(|e| !e.is_empty());
        let at = entry.and_then(|entry| self.dest_of(entry));
        for transport in [Transport::Local, Transport::Network] {
            let dest = at.filter(|at| at.0 == transport).map(|at| at.1);
            if let Some((netmod, endpoint)) = self.endpoint(transport) {
                netmod.peer_died(endpoint, dest);
            }
        }
    }

    /// Handlers are told of a loss by the next progress, never at once: it
    /// may be noticed amidst a handler's own work.
    fn tell_lost(&self, peer: u32) {
        self.dispatch.add_lost(peer);
    }

    fn channels(&self) -> &Rc<Channels> {
        self.channels.get_or_init(Rc::default)
    }

    /// The processes of a map send on a channel of tagged messages.
    pub(crate) fn enroll(&self, channel: u64, map: &RankMap) -> Enrolled {
        self.channels().enroll(channel, map)
    }

    /// Who sends on the channels of tagged messages, for a device layer that lays channels out
    /// itself: `senders` calls what it is given with the number of each process that sends on a
    /// channel, and returns false for a channel that it does not know. A receive from anybody
    /// is told of the end of each of them. Asked after an end alone; only the first call
    /// counts.
    pub fn set_senders(&self, senders: impl Fn(u64, &mut dyn FnMut(u32)) -> bool + 'static) {
        self.channels().set_layer(Box::new(senders));
    }

    /// Calls `see` with each process that sends on a channel, which may be this one; false
    /// where nobody knows.
    pub(crate) fn senders(&self, channel: u64, see: &mut dyn FnMut(u32)) -> bool {
        let number = |process| self.device().world_rank(process).ok();
        self.channels.get().is_some_and(|channels| channels.senders(channel, number, see))
    }

    /// Returns true where a device layer tells who sends: on a channel that it does not know
    /// anybody may, also one that nobody has met yet.
    pub(crate) fn layer_knows_senders(&self) -> bool {
        self.channels.get().is_some_and(|channels| channels.has_layer())
    }

    /// Returns true if a peer of which nothing more comes has not just done its part: it died,
    /// its link broke, or a device layer that knows who sends waits for it.
    pub(crate) fn ended_badly(&self, peer: u32) -> bool {
        let died = || matches!(self.device().fate(peer), Fate::Died(_));
        self.layer_knows_senders() || self.check_alive(peer).is_ok() || died()
    }

    /// Nothing more goes over a link.
    #[cold]
    pub(super) fn break_link(&self, peer: u32, why: NetError) {
        if self.links.drop_peer(peer, Some(why)) {
            self.tell_lost(peer);
        }
    }

    /// Goes on with another shared-memory endpoint if something is under way
    /// there towards a dead peer, once for each death.
    pub(crate) fn renew_for(&self, rank: u32) -> bool {
        let renew = self.over_shared_memory(rank) && self.failures.add_renewed(rank);
        if renew {
            self.renew();
        }
        renew
    }

    /// Returns true if a peer is reached through queues that a death may stop.
    pub(crate) fn over_shared_memory(&self, rank: u32) -> bool {
        let device = self.device();
        let node_rank = device.node_rank(rank).filter(|_| device.on_node(rank));
        let queues = device.provider(Transport::Local).is_some_and(|n| n.caps().node_queues);
        queues && node_rank.is_some_and(|n| self.local_address(n).is_some())
    }

    /// Goes on with another shared-memory endpoint. libfabric's shm hands out
    /// completions in the order of the operations, so that one towards a dead
    /// peer, which never completes, holds back all behind it. What else was
    /// under way there has failed, as far as anybody will ever know.
    fn renew(&self) {
        let Some(netmod) = self.endpoints.renew() else { return };
        self.note_local_segment();
        let held_back = || NetError::Operation {
            provider: netmod.caps().provider.clone(),
            peer: None,
            code: i64::from(libc::EAGAIN),
            text: "its completion is held back by a peer that died; repeat it".into(),
        };
        let failed = self.completions.fail_all(|rank| self.over_shared_memory(rank), held_back);
        failed.into_iter().for_each(|rank| self.failures.add(rank, held_back()));
    }

    /// Refuses peers known to be dead.
    ///
    /// # Errors
    /// [`DeviceError::PeerDied`].
    pub(crate) fn check_alive(&self, rank: u32) -> Result<(), DeviceError> {
        if self.failures.has_lost() && self.failures.is_lost(rank) {
            return Err(DeviceError::PeerDied { rank });
        }
        Ok(())
    }

    /// Returns true if any peer is known to be dead.
    #[inline(always)]
    pub(crate) fn has_lost(&self) -> bool {
        self.failures.has_lost()
    }

    /// Checks the liveness of all peers on this machine that were ever waited for or
    /// connected to here, or that requests wait for now, at most every 20 ms, and of those on
    /// others that requests wait for, every 250 ms: what is under way with one that died ends
    /// with an error that names it. For callers that make progress in loops of their own;
    /// waits do it themselves.
    #[cold]
    #[inline(never)]
    pub fn check_watched_peers(&self) {
        let walks = self.walks();
        let Some(begun) = walks.begin() else { return };
        let mut awaited = walks.take_sought();
        let mut add = |peer| {
            awaited.insert(peer);
        };
        self.dispatch.handlers().for_each(|handler| handler.awaited(&mut add));
        let anybody = awaited.remove(&ANYBODY);
        let node = (anybody && self.failures.add_node()).then(|| self.device().node_peers());
        let node = node.iter().flatten().map(|process| process.lpid);
        for rank in awaited.iter().copied().chain(node) {
            // (One that the system refuses to watch is as one of another node.)
            let _ = self.watch(rank);
        }
        self.mark_dead();
        if walks.is_asking_due() {
            self.compare_counts(awaited.iter().copied(), anybody);
            self.ask_awaited(awaited, anybody);
        }
        walks.end(begun);
    }

    pub(super) fn walks(&self) -> &Walks {
        self.walks.get_or_init(Box::default)
    }

    /// Asks those who are waited for and whose end this process does not see.
    fn ask_awaited(&self, mut awaited: BTreeSet<u32>, anybody: bool) {
        awaited.extend(self.completions.pending(&[]));
        if anybody {
            awaited.extend(self.links.known());
        }
        let far = |&rank: &u32| {
            let ours = rank < self.device().boot().size() && !self.failures.is_lost(rank);
            ours && self.device().is_unwatchable(rank).unwrap_or(false)
        };
        awaited.retain(far);
        let gone = self.walks().ask(&awaited, |rank| self.device().has_closed(rank));
        for rank in gone {
            self.mark_failed(rank);
        }
    }

    /// [`Context::progress`] in a loop of the caller's own, which
    /// [checks](Context::check_watched_peers) now and then whether peers have died.
    ///
    /// # Errors
    /// As [`Context::progress`].
    #[inline]
    pub fn progress_and_check(&self) -> Result<(), DeviceError> {
        self.progress()?;
        if self.failures.is_round_due() {
            self.check_watched_peers();
        }
        Ok(())
    }

    /// Notes that a call found no word of a peer, or of [`ANYBODY`], and may be made again:
    /// loops of such calls are told of its death.
    #[inline]
    pub(crate) fn note_awaited(&self, peer: u32) {
        self.walks().add_sought(peer);
    }

    /// Gives up what is under way with watched peers that have died, and with those that do not
    /// reach this context.
    fn mark_dead(&self) {
        self.give_up_refusers();
        for rank in self.device().dead_peers().into_iter().chain(self.device().others.all_dead()) {
            self.mark_failed(rank);
        }
    }

    /// Watches a peer from now on. One that has ended is marked; one that there is no descriptor for
    /// is as one of another node, until there is.
    ///
    /// # Errors
    /// What the launcher answers.
    #[inline]
    fn watch(&self, rank: u32) -> Result<(), DeviceError> {
        if self.failures.add_watched(rank) { self.begin_to_watch(rank) } else { Ok(()) }
    }

    fn begin_to_watch(&self, rank: u32) -> Result<(), DeviceError> {
        match self.device().watch(rank) {
            Err(DeviceError::PeerDied { rank }) => {
                self.mark_failed(rank);
                Ok(())
            }
            Err(e) if lacks_descriptor(&e) => {
                self.failures.remove_watched(rank);
                Ok(())
            }
            other => other,
        }
    }

    /// Checks the liveness of peers: of all that were ever checked, at most every
    /// [`LIVENESS_INTERVAL`](super::failures::LIVENESS_INTERVAL), so that no call
    /// is always too early.
    ///
    /// # Errors
    /// [`DeviceError::PeerDied`].
    pub(crate) fn check_liveness(&self, peers: &[u32]) -> Result<(), DeviceError> {
        peers.iter().try_for_each(|&rank| self.watch(rank))?;
        if self.failures.is_check_due() {
            self.mark_dead();
        }
        if !self.failures.has_lost() {
            return Ok(());
        }
        peers.iter().try_for_each(|&rank| self.check_alive(rank))
    }

    /// A process among these that has died: on this node, and where this context has a
    /// connection. Looked for as long as a death may take to show.
    #[cold]
    pub(crate) fn find_dead(&self, among: impl Fn(u32) -> bool) -> Option<u32> {
        let device = self.device();
        let node = device.node_peers();
        let watched = |rank: &u32| matches!(device.watch(*rank), Err(DeviceError::PeerDied { .. }));
        let left = |rank: &u32| device.has_left(*rank).unwrap_or(false);
        self.await_death(|| {
            let near = node.iter().map(|process| process.lpid);
            let dead = near.filter(|&rank| among(rank)).find(watched);
            let dead = dead.or_else(|| device.dead_peers().into_iter().find(|&rank| among(rank)));
            let known = || self.links.known().into_iter().filter(|&rank| among(rank)).find(left);
            dead.or_else(known)
        })
    }

    /// Returns true if a peer that cannot be watched has ended, or, after a long wait for it,
    /// any that has closed its side: it may have ended all it had of the library, and live on.
    ///
    /// # Errors
    /// [`DeviceError::Boot`] when the system refuses.
    pub(crate) fn has_left(&self, peer: u32, waited: Duration) -> Result<bool, DeviceError> {
        let device = self.device();
        Ok(device.has_left(peer)? || (waited > HOPELESS && device.has_closed(peer)))
    }

    /// What a wait that drags on checks: whether peers on other nodes are still
    /// there, and whether anybody on this node has died. A process that is
    /// killed while it writes into this one's shared-memory queue takes the
    /// queue's lock with it, and nothing that goes through there ever ends;
    /// likewise in the queue of a living peer, hence `waited`.
    /// `anybody`: the wait is for whoever is still there.
    pub(super) fn check_liveness_everywhere(
        &self,
        peers: &[u32],
        anybody: bool,
        waited: Duration,
    ) -> Result<(), DeviceError> {
        let far = if anybody { self.links.known() } else { Vec::new() };
        let far = far.iter().map(|&rank| (rank, Duration::ZERO));
        for (rank, waited) in peers.iter().map(|&rank| (rank, waited)).chain(far) {
            if self.has_left(rank, waited)? {
                self.mark_failed(rank);
                return Err(DeviceError::PeerDied { rank });
            }
        }
        let network = self.device().provider(Transport::Network);
        let queues = network.is_some_and(|net| net.caps().node_queues);
        let within = |rank| queues && self.device().on_node(rank);
        let shared = |&rank: &u32| self.over_shared_memory(rank) || within(rank);
        if !anybody && !peers.iter().any(shared) {
            return Ok(());
        }
        // (Of another job that was one that has ended as it should.)
        if waited > HOPELESS
            && let Some(rank) = self.failures.first_lost_below(self.device().boot().size())
        {
            return Err(DeviceError::PeerDied { rank });
        }
        if !self.failures.has_node() {
            let mut all = true;
            for process in &self.device().node_peers() {
                match self.device().watch(process.lpid) {
                    Ok(()) | Err(DeviceError::PeerDied { .. }) => {}
                    Err(e) if lacks_descriptor(&e) => all = false,
                    Err(e) => return Err(e),
                }
            }
            if all {
                self.failures.add_node();
            }
        }
        let new = |rank: &u32| !self.failures.is_lost(*rank);
        if let Some(rank) = self.device().dead_peers().into_iter().find(new) {
            if !self.mark_failed(rank) {
                self.renew_for(rank);
            }
            return Err(DeviceError::PeerDied { rank });
        }
        Ok(())
    }
}

/// What `look` finds, asked for as long as a death may take to show.
fn shows(look: impl Fn() -> Option<u32>) -> Option<u32> {
    let start = Instant::now();
    loop {
        let dead = look();
        if dead.is_some() || start.elapsed() > DEATH_SHOWS {
            return dead;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
