//! The device: peers, providers and the address vector, put together.
//!
//! A [`Device`] is opened once in a process. It knows who the peers are
//! ([`crate::boot`]), holds up to two providers of one netmod (shared memory
//! for the node, a network for the rest) and fills the address vector on first
//! use. It never issues an operation: that is for [`crate::rma`], through a
//! [`Context`].
//!
//! ```
//! use rankway::boot::alone::Alone;
//! use rankway::device;
//! use std::sync::Arc;
//!
//! // `open_ofi` and `open_ucx` open a network; this one reaches nobody.
//! let context = device::open_null(Arc::new(Alone::new()?))?;
//! assert_eq!(context.device().boot().size(), 1);
//! context.progress()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Threads
//! * A [`Device`] may be used from any thread.
//! * A [`Context`] is one endpoint with its completion queue for each provider.
//!   It lives and dies in the thread that opened it; everything made on it
//!   (communicators, windows, accesses) stays there too, which the compiler
//!   checks: none of them is `Send`.
//! * A thread that wants to issue operations opens a context of its own with
//!   [`Device::context`], on a device opened with [`Options::threads`]. Without
//!   that option the providers skip their locks and there is one context.
//!   [`Shared`] is one context for several threads, under a lock.
//! * Contexts are numbered, and what is sent on one arrives on the peer's of
//!   the same number. Puts, gets and requests of windows target the first
//!   context's address, so its owner is the one who must make progress for
//!   those; it also tells peers where the others are.

mod agreement;
mod bounce;
mod business_card;
#[cfg(target_os = "linux")]
mod caller;
mod channels;
mod completions;
mod connect;
mod context;
mod contexts;
mod dispatch;
mod endpoints;
mod error;
mod failures;
mod finish;
mod forwarder;
mod keys;
mod link;
mod liveness;
mod missing;
mod node;
mod node_tables;
mod open;
mod other_jobs;
mod pace;
mod packet;
mod peers;
mod progress;
mod progress_lock;
mod questions;
mod route;
mod shared;
mod streams;
pub(crate) mod trace;
mod transfer;
mod transmit;
mod vci;
mod wait;
mod walks;

pub(crate) use bounce::{Bounce, BouncePool, PIECE, PROBE};
pub(crate) use channels::Enrolled;
pub(crate) use completions::{Outcome, Token};
pub use context::Context;
pub(crate) use context::{ANYBODY, PacketHandler};
pub use error::DeviceError;
pub(crate) use failures::Listener;
pub(crate) use keys::Key;
#[cfg(feature = "ofi")]
pub use open::open_ofi;
#[cfg(feature = "ucx")]
pub use open::open_ucx;
pub use open::{
    AnyContext, OpenedBy, Options, open, open_by_name, open_network, open_null, open_over,
};
pub(crate) use packet::{Body, Class, Head};
pub(crate) use peers::PerPeer;
pub use shared::{ProgressThread, Shared};
pub use transfer::{Explanation, Medium, Method, explain};
pub(crate) use transfer::{FRAGMENT, Shape, fragment_of};
pub(crate) use wait::Progress;

use crate::av::{AddressVector, Table, Transport};
use crate::boot::{Boot, BootError, Control, Fate, Liveness, Watch};
use crate::netmod::Netmod;
use crate::rankmap::compact::Strategy;
use crate::rankmap::{Process, RankMap};
use business_card::BusinessCard;
use node_tables::NodeTables;
use std::any::Any;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

/// Peers, providers and the address vector of this process.
pub struct Device<N: Netmod> {
    boot: Arc<dyn Boot>,
    control: Control,
    liveness: Liveness,
    /// Of processes of other jobs that this one spoke to.
    others: Liveness,
    net: OnceLock<Arc<N>>,
    local: Option<Arc<N>>,
    av: Arc<AddressVector>,
    /// Set before [`Device::open`] returns.
    node_tables: OnceLock<NodeTables>,
    /// Processes on this node.
    node_size: u32,
    /// Of contexts that have none of their own ([`Context::local_address`]).
    local_addresses: Arc<Table>,
    /// By pgid, from 1: lpid → world rank. Held while groups are added.
    members: Mutex<Vec<Option<RankMap>>>,
    /// Address vectors of contexts that have their own; they get every group.
    further: Mutex<Vec<Weak<AddressVector>>>,
    /// Of windows' memory.
    keys: keys::Keys,
    threads: bool,
    /// How irregular maps are held; `None` for tables.
    map_strategy: Option<Strategy>,
    /// What the layers above keep once for the process, by type.
    extensions: Mutex<Vec<Arc<dyn Any + Send + Sync>>>,
    /// This process's contexts, by index.
    vcis: Mutex<Vec<Vci>>,
    /// Peers that one does not reach, or is not reached from: world ranks and indices.
    refusals: Mutex<Vec<(u32, u32)>>,
    /// Some collective has failed here.
    diverged: AtomicBool,
    /// What the program does is recorded.
    trace: OnceLock<Arc<trace::Trace>>,
}

/// What there is of an index.
#[derive(Clone, Default)]
struct Vci {
    /// Contexts that had it, were for messages, and are closed.
    closed: u64,
    /// The addresses of the one that has it.
    business_card: Option<BusinessCard>,
    /// What the last of them had counted: what the next makes goes by other ids.
    world: WorldCalls,
}

/// Calls of the communicator of all, and communicators of groups of it alone, by a hash.
#[derive(Clone, Default)]
struct WorldCalls {
    calls: u32,
    groups: BTreeMap<u64, u32>,
}

impl<N: Netmod> std::fmt::Debug for Device<N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Device")
            .field("rank", &self.boot.rank())
            .field("size", &self.boot.size())
            .field("launcher", &self.boot.launcher())
            .field("network", &self.net.get().map(|n| &n.caps().provider))
            .field("local", &self.local.as_ref().map(|n| &n.caps().provider))
            .finish_non_exhaustive()
    }
}

impl<N: Netmod> Device<N> {
    /// Takes an index for a context, the smallest that is free if none is
    /// named. Its business card is empty until the context is open.
    fn reserve(&self, index: Option<u32>) -> Result<u32, DeviceError> {
        /// More than any machine has cores.
        const MOST: u32 = 4096;
        let mut vcis = self.vcis();
        let free = |vcis: &[Vci], at: u32| {
            at > 0 && vcis.get(at as usize).is_none_or(|vci| vci.business_card.is_none())
        };
        let at = index.or_else(|| (1..=MOST).find(|&at| free(&vcis, at)));
        let at = at.filter(|&at| at <= MOST && free(&vcis, at));
        let at = at.ok_or(DeviceError::ContextTaken { index: index.unwrap_or(MOST) })?;
        if vcis.len() <= at as usize {
            vcis.resize(at as usize + 1, Vci::default());
        }
        vcis[at as usize].business_card = Some(BusinessCard::of_network(Vec::new(), None));
        Ok(at)
    }

    /// The addresses of one of this process's contexts, if it is open.
    fn business_card_of(&self, index: u32) -> Option<BusinessCard> {
        let business_card = self.vcis().get(index as usize)?.business_card.clone()?;
        Some(business_card).filter(|business_card| {
            !business_card.local.is_empty() || !business_card.network.is_empty()
        })
    }

    /// How many contexts for messages have had an index and were closed.
    fn closed_of(&self, index: u32) -> u64 {
        self.vcis().get(index as usize).map_or(0, |vci| vci.closed)
    }

    /// A peer and the open context of this index do not reach each other.
    fn add_refusal(&self, peer: u32, index: u32) {
        let mut refusals = self.refusals();
        if !refusals.contains(&(peer, index)) {
            refusals.push((peer, index));
        }
    }

    /// Peers that the open context of this index does not reach, or is not reached from.
    fn refusers(&self, index: u32) -> Vec<u32> {
        self.refusals().iter().filter(|(_, of)| *of == index).map(|(peer, _)| *peer).collect()
    }

    fn refusals(&self) -> MutexGuard<'_, Vec<(u32, u32)>> {
        self.refusals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where the world of the context that opens under this index goes on.
    fn take_world(&self, index: u32) -> WorldCalls {
        let world = self.vcis().get_mut(index as usize).map(|vci| std::mem::take(&mut vci.world));
        world.unwrap_or_default()
    }

    /// Keeps what a context that closes has counted. Before its index is free.
    fn keep_world(&self, index: u32, world: WorldCalls) {
        if let Some(vci) = self.vcis().get_mut(index as usize) {
            vci.world = world;
        }
    }

    /// A context was closed, or was not opened; had it messages?
    fn give_back(&self, index: u32, had_messages: bool) {
        self.refusals().retain(|&(_, of)| of != index);
        if let Some(vci) = self.vcis().get_mut(index as usize) {
            vci.business_card = None;
            vci.closed += u64::from(had_messages);
        }
    }

    fn vcis(&self) -> MutexGuard<'_, Vec<Vci>> {
        self.vcis.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The launcher's view of the job.
    pub fn boot(&self) -> &Arc<dyn Boot> {
        &self.boot
    }

    /// The set-up channel between peers.
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// The provider that reaches peers over `transport`.
    pub fn provider(&self, transport: Transport) -> Option<&Arc<N>> {
        match transport {
            Transport::Network => self.net.get(),
            Transport::Local => self.local.as_ref(),
        }
    }

    /// Returns true if what ended well was done by a living peer: not where a provider maps
    /// the memory of peers, which outlives them.
    #[inline]
    pub(crate) fn dead_are_silent(&self) -> bool {
        let providers = [self.net.get(), self.local.as_ref()];
        providers.into_iter().flatten().all(|netmod| !netmod.caps().node_queues)
    }

    /// The address vector of the first context, and of all where the providers'
    /// addresses are good for every endpoint ([`Netmod::own_addresses`]).
    pub fn av(&self) -> &Arc<AddressVector> {
        &self.av
    }

    /// World rank → node.
    pub fn nodes(&self) -> &RankMap {
        &self.node_tables().nodes
    }

    /// World rank → rank on its node, in world order.
    pub fn node_ranks(&self) -> &RankMap {
        &self.node_tables().ranks
    }

    fn node_tables(&self) -> &NodeTables {
        debug_assert!(self.node_tables.get().is_some(), "asked while the job is opened");
        self.node_tables.get_or_init(NodeTables::of_nobody)
    }

    /// Returns true if it was opened for several threads ([`Options::threads`]).
    pub fn has_threads(&self) -> bool {
        self.threads
    }

    /// Processes on this node, this one included.
    pub fn node_size(&self) -> u32 {
        self.node_size
    }

    /// World ranks on this process's node.
    pub(crate) fn node_peers(&self) -> RankMap {
        self.node_tables().node_peers(self.boot.rank())
    }

    /// Returns true if a world rank runs on this process's node.
    pub fn on_node(&self, peer: u32) -> bool {
        self.nodes().get(peer) == self.nodes().get(self.boot.rank())
    }

    /// The rank on its node of a world rank on this node.
    pub fn node_rank(&self, peer: u32) -> Option<u32> {
        self.node_ranks().get(peer).map(|p| p.lpid)
    }

    /// Places for the addresses of peers in the node's provider, by rank on the node.
    fn local_address_table(&self) -> Result<Arc<Table>, DeviceError> {
        let peers = self.local.as_ref().map_or(0, |_| self.node_size);
        Ok(Arc::new(Table::new(peers, peers)?))
    }

    /// Whose inbox a context of a process on this node has.
    fn inbox_owner(&self, peer: u32, context: u32) -> node::Owner {
        node::Owner { job: self.boot.job(), peer, context, places: self.node_size }
    }

    /// Opens an inbox of this process's for packets of this machine, if there can be one.
    fn open_inbox(&self, context: u32) -> Result<Option<node::Inbox>, DeviceError> {
        let opened = node::Inbox::open(self.inbox_owner(self.boot.rank(), context));
        opened.map_err(|source| {
            BootError::io("opening the inbox for packets of this node", source).into()
        })
    }

    /// Adds a process group whose processes are members of this job:
    /// `members` gives the world rank of each lpid. Several lpids may name the
    /// same process.
    ///
    /// # Errors
    /// [`DeviceError::Av`] when the directory is full,
    /// [`DeviceError::NoRank`] for a member that is not in the job.
    pub fn add_group(&self, members: RankMap) -> Result<u32, DeviceError> {
        let size = self.boot.size();
        let members = match members.pg() {
            Some(0) => members,
            _ => {
                let ranks = members.iter().map(|p| self.world_rank(p));
                RankMap::from_lpids(0, ranks.collect::<Result<Vec<_>, _>>()?)?
            }
        };
        if let Some(p) = members.iter().find(|p| p.lpid >= size) {
            return Err(DeviceError::NoRank { rank: p.lpid, size });
        }
        let mut known = self.members();
        let pg = self.add_to_all(members.len())?;
        let at = pg as usize - 1;
        if known.len() <= at {
            known.resize(at + 1, None);
        }
        known[at] = Some(members);
        Ok(pg)
    }

    /// Adds a group to the address vectors of all contexts, or to none. While the members are
    /// held.
    fn add_to_all(&self, len: u32) -> Result<u32, DeviceError> {
        let pg = self.av.add(len, len)?;
        let mut further = self.further.lock().unwrap_or_else(PoisonError::into_inner);
        further.retain(|av| av.strong_count() > 0);
        let mut all = vec![Arc::clone(&self.av)];
        for av in further.iter().filter_map(Weak::upgrade) {
            // The same groups in the same order have the same pgids.
            if let Err(error) = av.add(len, len) {
                for av in all {
                    // SAFETY: nobody was told of the group.
                    let _ = unsafe { av.remove(pg) };
                }
                return Err(error.into());
            }
            all.push(av);
        }
        Ok(pg)
    }

    /// An address vector for a context of its own: every group that exists, and
    /// those that will be added, without entries.
    fn further_av(&self) -> Result<Arc<AddressVector>, DeviceError> {
        let known = self.members();
        let av = Arc::new(AddressVector::new()?);
        av.add(self.boot.universe(), self.boot.universe())?;
        for group in known.iter() {
            let len = group.as_ref().map_or(0, RankMap::len);
            av.add(len, len)?;
        }
        let mut further = self.further.lock().unwrap_or_else(PoisonError::into_inner);
        further.push(Arc::downgrade(&av));
        Ok(av)
    }

    /// The world rank of a process.
    ///
    /// # Errors
    /// [`DeviceError::Av`] for a group or an lpid that does not exist.
    pub fn world_rank(&self, p: Process) -> Result<u32, DeviceError> {
        // (The address vector's sizes are under a lock.)
        if p.pg == 0 && p.lpid < self.boot.size() {
            return Ok(p.lpid);
        }
        let size = self.av.size(p.pg)?;
        let out_of_range = || crate::av::AvError::Lpid { pg: p.pg, lpid: p.lpid, size }.into();
        if p.lpid >= size {
            return Err(out_of_range());
        }
        if p.pg == 0 {
            return Ok(p.lpid);
        }
        let members = self.members();
        let group = members.get(p.pg as usize - 1).and_then(Option::as_ref);
        group.and_then(|m| m.get(p.lpid)).map(|m| m.lpid).ok_or_else(out_of_range)
    }

    /// Lpid → world rank of a process group; `None` for the world itself.
    pub fn members_of(&self, pg: u32) -> Option<RankMap> {
        self.members().get((pg as usize).checked_sub(1)?)?.clone()
    }

    /// Watches a peer on this node from now on, or one of another job, where no launcher has
    /// to be asked who it is.
    ///
    /// # Errors
    /// [`DeviceError::PeerDied`] when it is dead already.
    pub fn watch(&self, peer: u32) -> Result<(), DeviceError> {
        if peer >= self.boot.size() && self.boot.other_jobs().is_some() {
            return self.watch_elsewhere(peer);
        }
        if peer == self.boot.rank() || !self.on_node(peer) {
            return Ok(());
        }
        match self.control.watch(&self.liveness, peer)? {
            Watch::Dead => Err(DeviceError::PeerDied { rank: peer }),
            _ => Ok(()),
        }
    }

    /// Watches a process of another job from now on, if it is on this machine and has said
    /// which it is.
    fn watch_elsewhere(&self, peer: u32) -> Result<(), DeviceError> {
        match self.control.watch(&self.others, peer) {
            Ok(Watch::Dead) => Err(DeviceError::PeerDied { rank: peer }),
            Ok(_) | Err(BootError::NotPublished { .. }) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    /// Returns true if a watched peer, of this job or another, is known to be dead.
    pub fn is_dead(&self, peer: u32) -> bool {
        self.watched(peer).is_dead(peer)
    }

    /// Returns true if a watched peer has ended or is about to.
    pub(crate) fn is_ending(&self, peer: u32) -> bool {
        self.watched(peer).is_ending(peer)
    }

    /// How a peer ended that is known to have; one of another job has died.
    pub(crate) fn fate(&self, peer: u32) -> Fate {
        match peer < self.boot.size() {
            true => self.control.fate(peer),
            false => Fate::Died("its process has ended".into()),
        }
    }

    /// Where a peer is watched: this job's, or another's.
    fn watched(&self, peer: u32) -> &Liveness {
        if peer < self.boot.size() { &self.liveness } else { &self.others }
    }

    /// Returns true if a peer that cannot be watched, on another node or in
    /// another pid namespace, has ended: asked over the set-up channel. No for
    /// those of other jobs, which have no part in the channel.
    ///
    /// # Errors
    /// [`DeviceError::Boot`] when the system refuses.
    pub fn has_left(&self, peer: u32) -> Result<bool, DeviceError> {
        if peer >= self.boot.size() || peer == self.boot.rank() {
            return Ok(false);
        }
        Ok(self.is_unwatchable(peer)? && self.control.ended(peer)?)
    }

    /// Returns true if this process does not see a peer of the job end, which is on another
    /// node or in another pid namespace.
    pub(crate) fn is_unwatchable(&self, peer: u32) -> Result<bool, DeviceError> {
        Ok(!self.on_node(peer) || self.control.watch(&self.liveness, peer)? == Watch::Unwatchable)
    }

    /// Returns true if a peer of the job has closed its side of the set-up channel: it left,
    /// though its process may live. The connection that tells stays open: for waits that last.
    pub(crate) fn has_closed(&self, peer: u32) -> bool {
        let ours = peer < self.boot.size() && peer != self.boot.rank();
        ours && self.control.has_closed(peer)
    }

    /// A collective has failed here: others may be further, or not as far.
    pub(crate) fn set_diverged(&self) {
        self.diverged.store(true, Ordering::Relaxed);
    }

    /// Returns true if the living may be at different places of the program,
    /// since one of them died or a collective failed.
    pub(crate) fn has_diverged(&self) -> bool {
        self.diverged.load(Ordering::Relaxed) || !self.dead_peers().is_empty()
    }

    /// The watched peers that died.
    pub fn dead_peers(&self) -> Vec<u32> {
        self.liveness.all_dead()
    }

    /// How irregular rank maps are held where a communicator is told nothing
    /// else: `RANKWAY_MAP_STRATEGY` when the device was opened, else
    /// [`Strategy::Auto`]; `None` for tables.
    pub fn map_strategy(&self) -> Option<Strategy> {
        self.map_strategy
    }

    /// The record of what the program does, where there is one.
    pub(crate) fn trace(&self) -> Option<&Arc<trace::Trace>> {
        self.trace.get()
    }

    /// A key for a window's memory that no other of this process has.
    pub(crate) fn reserve_key(&self) -> Key {
        self.keys.reserve()
    }

    /// What a layer above keeps once for the process, made on first use.
    pub(crate) fn extension<T: Any + Send + Sync + Default>(&self) -> Arc<T> {
        let mut extensions = self.extensions.lock().unwrap_or_else(PoisonError::into_inner);
        let known = extensions.iter().find_map(|p| Arc::clone(p).downcast().ok());
        known.unwrap_or_else(|| {
            let extension = Arc::new(T::default());
            extensions.push(Arc::clone(&extension) as Arc<dyn Any + Send + Sync>);
            extension
        })
    }

    fn members(&self) -> MutexGuard<'_, Vec<Option<RankMap>>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
