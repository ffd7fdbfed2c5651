//! The device: peers, providers and the address vector, put together.
//!
//! A [`Device`] is opened once in a process. It knows who the peers are
//! ([`crate::boot`]), holds up to two providers of one netmod (shared memory
//! for the node, a network for the rest) and fills the address vector on first
//! use. It never issues an operation: that is for [`crate::rma`], through a
//! [`Context`].
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
//! * Peers send to the first context's address, so its owner is the one who
//!   must make progress for operations that target this process.

mod card;
mod connect;
mod context;
mod error;
mod link;
mod open;

pub use context::Context;
pub(crate) use context::{Progress, Token};
pub use error::DeviceError;
#[allow(unused_imports, reason = "for the rooms above")]
pub(crate) use link::{Body, Class, Head, Room};
#[cfg(feature = "ofi")]
pub use open::open_ofi;
#[cfg(feature = "ucx")]
pub use open::open_ucx;
#[cfg(all(feature = "ofi", feature = "ucx"))]
pub use open::{AnyContext, open};
pub use open::{Options, open_null};

use crate::av::{AddressVector, Transport};
use crate::boot::{Boot, Control, Liveness};
use crate::netmod::Netmod;
use crate::rankmap::{Detector, Process, RankMap};
use card::Card;
use std::any::Any;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// A shared-memory address that was not inserted.
const NOT_INSERTED: u64 = u64::MAX;

/// Peers, providers and the address vector of this process.
pub struct Device<N: Netmod> {
    boot: Arc<dyn Boot>,
    control: Control,
    liveness: Liveness,
    net: Option<Arc<N>>,
    local: Option<Arc<N>>,
    av: Arc<AddressVector>,
    /// World rank → node.
    nodes: RankMap,
    /// World rank → rank on its node, in world order.
    node_ranks: RankMap,
    /// Processes on this node.
    node_size: u32,
    /// By rank on the node: the peer's address in the shared-memory provider.
    local_addresses: Box<[AtomicU64]>,
    /// By pgid, from 1: lpid → world rank. Held while groups are added.
    members: Mutex<Vec<Option<RankMap>>>,
    /// Address vectors of contexts that have their own; they get every group.
    further: Mutex<Vec<Weak<AddressVector>>>,
    /// Windows made so far, for keys that differ.
    next_key: AtomicU64,
    threads: bool,
    /// What the rooms above keep once for the process, by type.
    parts: Mutex<Vec<Arc<dyn Any + Send + Sync>>>,
}

impl<N: Netmod> std::fmt::Debug for Device<N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Device")
            .field("rank", &self.boot.rank())
            .field("size", &self.boot.size())
            .field("launcher", &self.boot.launcher())
            .field("network", &self.net.as_ref().map(|n| &n.caps().provider))
            .field("local", &self.local.as_ref().map(|n| &n.caps().provider))
            .finish_non_exhaustive()
    }
}

impl<N: Netmod> Device<N> {
    /// Makes a device of opened providers and meets the peers: publishes this
    /// process's addresses and waits until all have. Collective over the job.
    ///
    /// # Errors
    /// What the providers, the address vector or the launcher refuse.
    pub fn open(
        boot: Arc<dyn Boot>,
        net: Option<Arc<N>>,
        local: Option<Arc<N>>,
        threads: bool,
    ) -> Result<Rc<Context<N>>, DeviceError> {
        let (nodes, node_ranks, node_size) = node_tables(&*boot)?;
        let control = Control::open(Arc::clone(&boot))?;
        let av = Arc::new(AddressVector::new()?);
        av.add(boot.size(), boot.size())?;
        let node_peers = local.as_ref().map_or(0, |_| node_size);
        let device = Arc::new(Device {
            control,
            liveness: Liveness::new(),
            net,
            local,
            av,
            nodes,
            node_ranks,
            node_size,
            local_addresses: (0..node_peers).map(|_| AtomicU64::new(NOT_INSERTED)).collect(),
            members: Mutex::default(),
            further: Mutex::default(),
            next_key: AtomicU64::new(1),
            threads,
            parts: Mutex::default(),
            boot,
        });
        let context = Context::open(&device, 0)?;
        let card = Card {
            local: context.address_of(Transport::Local)?,
            network: context.address_of(Transport::Network)?,
        };
        device.boot.put(card::KEY, &card.encode())?;
        let mut failed = None;
        device.boot.fence(&mut || {
            if let Err(e) = context.progress() {
                failed = Some(e);
            }
        })?;
        failed.map_or(Ok(context), Err)
    }

    /// Opens another context, for the calling thread.
    ///
    /// # Errors
    /// [`DeviceError::OneThread`] when the device was not opened for several
    /// threads; what the provider refuses.
    pub fn context(self: &Arc<Self>) -> Result<Rc<Context<N>>, DeviceError> {
        if !self.threads {
            return Err(DeviceError::OneThread);
        }
        Context::open(self, 1)
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
            Transport::Network => self.net.as_ref(),
            Transport::Local => self.local.as_ref(),
        }
    }

    /// The address vector of the first context, and of all where the netmod's
    /// addresses are good for every port ([`Netmod::OWN_ADDRESSES`]).
    pub fn av(&self) -> &Arc<AddressVector> {
        &self.av
    }

    /// World rank → node.
    pub fn nodes(&self) -> &RankMap {
        &self.nodes
    }

    /// World rank → rank on its node, in world order.
    pub fn node_ranks(&self) -> &RankMap {
        &self.node_ranks
    }

    /// Processes on this node, this one included.
    pub fn node_size(&self) -> u32 {
        self.node_size
    }

    /// Whether a world rank runs on this process's node.
    pub fn on_node(&self, world: u32) -> bool {
        self.nodes.get(world) == self.nodes.get(self.boot.rank())
    }

    /// The rank on its node of a world rank on this node.
    pub fn node_rank(&self, world: u32) -> Option<u32> {
        self.node_ranks.get(world).map(|p| p.lpid)
    }

    /// The peer's address in the shared-memory provider, by rank on the node;
    /// `None` when it is not reached that way.
    #[inline]
    pub fn local_address(&self, node_rank: u32) -> Option<u64> {
        let slot = self.local_addresses.get(node_rank as usize)?;
        Some(slot.load(Ordering::Acquire)).filter(|&a| a != NOT_INSERTED)
    }

    /// Adds a process group whose processes are members of this job:
    /// `members` gives the world rank of each lpid. Several lpids may name the
    /// same process.
    ///
    /// # Errors
    /// [`DeviceError::Av`] when the directory is full,
    /// [`DeviceError::NoRank`] for a member that is not in the job.
    pub fn add_group(&self, members: RankMap) -> Result<u32, DeviceError> {
        let world = self.boot.size();
        if let Some(p) = members.iter().find(|p| p.lpid >= world) {
            return Err(DeviceError::NoRank { rank: p.lpid, size: world });
        }
        let mut known = self.members();
        let pg = self.av.add(members.len(), members.len())?;
        let at = pg as usize - 1;
        if known.len() <= at {
            known.resize(at + 1, None);
        }
        let len = members.len();
        known[at] = Some(members);
        let mut further = self.further.lock().unwrap_or_else(PoisonError::into_inner);
        further.retain(|av| av.strong_count() > 0);
        for av in further.iter().filter_map(Weak::upgrade) {
            // The same groups in the same order have the same pgids.
            av.add(len, len)?;
        }
        Ok(pg)
    }

    /// An address vector for a context of its own: every group that exists, and
    /// those that will be added, without entries.
    fn further_av(&self) -> Result<Arc<AddressVector>, DeviceError> {
        let known = self.members();
        let av = Arc::new(AddressVector::new()?);
        av.add(self.boot.size(), self.boot.size())?;
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
        let size = self.av.size(p.pg)?;
        let out_of_range = crate::av::AvError::Lpid { pg: p.pg, lpid: p.lpid, size };
        if p.lpid >= size {
            return Err(out_of_range.into());
        }
        if p.pg == 0 {
            return Ok(p.lpid);
        }
        let members = self.members();
        let group = members.get(p.pg as usize - 1).and_then(Option::as_ref);
        group.and_then(|m| m.get(p.lpid)).map(|m| m.lpid).ok_or_else(|| out_of_range.into())
    }

    /// Lpid → world rank of a process group; `None` for the world itself.
    pub fn members_of(&self, pg: u32) -> Option<RankMap> {
        self.members().get((pg as usize).checked_sub(1)?)?.clone()
    }

    /// Watches a peer on this node from now on.
    ///
    /// # Errors
    /// [`DeviceError::PeerDied`] when it is dead already.
    pub fn watch(&self, world: u32) -> Result<(), DeviceError> {
        if world == self.boot.rank() || !self.on_node(world) {
            return Ok(());
        }
        match self.control.watch(&self.liveness, world)? {
            crate::boot::Watch::Dead => Err(DeviceError::PeerDied { rank: world }),
            _ => Ok(()),
        }
    }

    /// Whether a watched peer is known to be dead.
    pub fn is_dead(&self, world: u32) -> bool {
        self.liveness.is_dead(world)
    }

    /// Whether a peer on another node, which cannot be watched, has ended:
    /// asked over the set-up channel. No for peers on this node.
    ///
    /// # Errors
    /// [`DeviceError::Boot`] when the system refuses.
    pub fn has_left(&self, world: u32) -> Result<bool, DeviceError> {
        Ok(!self.on_node(world) && self.control.ended(world)?)
    }

    /// The watched peers that died.
    pub fn dead_peers(&self) -> Vec<u32> {
        self.liveness.all_dead()
    }

    /// The smallest window key not used here yet.
    pub(crate) fn next_key(&self) -> u64 {
        self.next_key.load(Ordering::Relaxed)
    }

    /// Marks all keys up to `key` as used.
    pub(crate) fn use_key(&self, key: u64) {
        self.next_key.fetch_max(key + 1, Ordering::Relaxed);
    }

    /// What a room above keeps once for the process, made on first use.
    pub(crate) fn part<T: Any + Send + Sync + Default>(&self) -> Arc<T> {
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        let known = parts.iter().find_map(|p| Arc::clone(p).downcast().ok());
        known.unwrap_or_else(|| {
            let part = Arc::new(T::default());
            parts.push(Arc::clone(&part) as Arc<dyn Any + Send + Sync>);
            part
        })
    }

    fn members(&self) -> MutexGuard<'_, Vec<Option<RankMap>>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Rank → node and rank → rank on the node, compressed while they stream by,
/// and the number of processes on this node.
fn node_tables(boot: &dyn Boot) -> Result<(RankMap, RankMap, u32), DeviceError> {
    let mut nodes = Detector::new();
    let mut ranks = Detector::new();
    let mut sizes: Vec<u32> = Vec::new();
    for rank in 0..boot.size() {
        let node = boot.node_of(rank)? as usize;
        if sizes.len() <= node {
            sizes.resize(node + 1, 0);
        }
        nodes.push(node as u32);
        ranks.push(sizes[node]);
        sizes[node] += 1;
    }
    let mine = boot.node_of(boot.rank())? as usize;
    Ok((nodes.finish()?, ranks.finish()?, sizes[mine]))
}
