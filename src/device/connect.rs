//! What this process publishes, and the first use of a peer: raw addresses into
//! the provider, its answer into the address vector.

use super::DeviceError;
use super::business_card::{self, BusinessCard};
use super::context::Context;
use super::node::Inbox;
use crate::av::{Entry, Transport};
use crate::boot::{ADDRESSES_KEY, BootError};
use crate::netmod::Netmod;
use crate::rankmap::Process;
use crate::shm::segment::Place;
use std::sync::Arc;

impl<N: Netmod> Context<N> {
    /// This context's own addresses.
    pub(super) fn business_card(&self) -> Result<BusinessCard, DeviceError> {
        let local = self.address_of(Transport::Local)?;
        note_segment::<N>(&local);
        Ok(BusinessCard {
            local,
            network: self.address_of(Transport::Network)?,
            inbox: self.inbox_place(),
            incarnation: if self.index() > 0 { self.streams.incarnation } else { 0 },
        })
    }

    /// Another shared-memory endpoint was opened.
    pub(super) fn note_local_segment(&self) {
        let _ = self.address_of(Transport::Local).map(|local| note_segment::<N>(&local));
    }

    fn inbox_place(&self) -> Option<Place> {
        self.node_inbox.get().map(Inbox::place)
    }

    /// This context's raw address on a transport; empty where none is open.
    fn address_of(&self, transport: Transport) -> Result<Vec<u8>, DeviceError> {
        match self.endpoint(transport) {
            Some((netmod, endpoint)) => Ok(netmod.address(endpoint)?),
            None => Ok(Vec::new()),
        }
    }

    /// Enables dynamic processes: makes this process known to those of other jobs,
    /// so that they and this one may [connect](Context::connect). `open` opens a network where
    /// there is none yet, as where shared memory reaches all of the job. For a
    /// process's first context; calls after the first do nothing.
    ///
    /// # Errors
    /// What `open`, the provider or the launcher refuse.
    pub fn enable_dynamic_processes(
        &self,
        open: impl FnOnce() -> Result<Arc<N>, DeviceError>,
    ) -> Result<(), DeviceError> {
        if self.dynamic_processes.get() {
            return Ok(());
        }
        if !self.endpoints.has_network() {
            let net = open()?;
            self.endpoints.add_network(&net)?;
            let _ = self.device().net.set(net);
        }
        if self.node_inbox.get().is_none()
            && let Some(inbox) = self.device().open_inbox(self.index())?
        {
            let _ = self.node_inbox.set(inbox);
        }
        let boot = self.device().boot();
        let network = self.address_of(Transport::Network)?;
        let business_card = BusinessCard::of_network(network, self.inbox_place());
        match boot.put(ADDRESSES_KEY, &business_card.encode()) {
            // (By a call that failed behind it.)
            Err(BootError::Twice { .. }) => {}
            other => other?,
        }
        // What others may fetch is committed; there is nobody to wait for.
        boot.commit()?;
        self.dynamic_processes.set(true);
        Ok(())
    }

    /// What [`ADDRESSES_KEY`] has of this context, without what only processes of its machine
    /// take: for names that people pass on, where all is too long.
    ///
    /// # Errors
    /// What the provider refuses.
    pub fn network_addresses(&self) -> Result<Vec<u8>, DeviceError> {
        let network = match self.endpoint(Transport::Network) {
            Some((netmod, endpoint)) => netmod.network_address(endpoint)?,
            None => Vec::new(),
        };
        Ok(BusinessCard::of_network(network, None).encode())
    }

    /// The address-vector entry of a process, inserted now if it was not. This
    /// is the cold path of a first operation.
    ///
    /// # Errors
    /// [`DeviceError::NoTransport`] when no provider reaches the peer,
    /// [`DeviceError::BadBusinessCard`] for garbage in its place,
    /// [`DeviceError::PeerDied`], or what the provider refuses.
    #[cold]
    pub fn connect(&self, p: Process) -> Result<Entry, DeviceError> {
        let av = self.av();
        let entry = av.get(p)?;
        if !entry.is_empty() {
            return Ok(entry);
        }
        let peer = self.device().world_rank(p)?;
        let entry = if p.pg == 0 {
            self.insert(peer)?
        } else {
            self.connect(Process { pg: 0, lpid: peer })?
        };
        av.set(p, entry)?;
        Ok(entry)
    }

    /// What a process has published.
    pub(super) fn published(&self, peer: u32) -> Result<BusinessCard, DeviceError> {
        let boot = self.device().boot();
        let key = if peer < boot.size() { business_card::KEY } else { ADDRESSES_KEY };
        BusinessCard::decode(&boot.get(peer, key)?)
            .ok_or(DeviceError::BadBusinessCard { rank: peer })
    }

    fn insert(&self, peer: u32) -> Result<Entry, DeviceError> {
        let device = self.device();
        let business_card = self.published(peer)?;
        if device.on_node(peer) {
            device.watch(peer)?;
            if let Some(entry) = self.insert_local(peer, &business_card)? {
                return Ok(entry);
            }
        }
        let (Some((net, endpoint)), false) =
            (self.endpoint(Transport::Network), business_card.network.is_empty())
        else {
            let why = if device.on_node(peer) {
                "it is on this node, but beyond what the shared-memory provider holds, or a side \
                 has no shared-memory provider; open a network provider too (RANKWAY_PROVIDER)"
            } else {
                "it is on another node and one of the two has no network provider open; unset \
                 RANKWAY_PROVIDER and the library's own variable, or name a network provider there"
            };
            return Err(DeviceError::NoTransport { rank: peer, why });
        };
        if peer >= device.boot.size() {
            device.watch_elsewhere(peer)?;
        }
        let address = net
            .insert(endpoint, &business_card.network)
            .map_err(|e| self.address_refused(peer, e))?;
        Ok(N::pack(address, Transport::Network)?)
    }

    /// The entry of a peer that shared memory reaches: its rank on the node,
    /// which both the mapped windows and the table of provider addresses take.
    fn insert_local(
        &self,
        peer: u32,
        business_card: &BusinessCard,
    ) -> Result<Option<Entry>, DeviceError> {
        let device = self.device();
        let Some((local, endpoint)) = self.endpoint(Transport::Local) else { return Ok(None) };
        if business_card.local.is_empty() {
            return Ok(None);
        }
        let limit = local.caps().max_peers;
        let ranks = (device.node_rank(peer), device.node_rank(device.boot.rank()));
        let (Some(theirs), Some(ours)) = ranks else { return Ok(None) };
        // Both ends take the same decision: a process past the limit would
        // overflow the table of those it writes to.
        if theirs >= limit || ours >= limit {
            return Ok(None);
        }
        if self.local_address(theirs).is_none() {
            let address = local
                .insert(endpoint, &business_card.local)
                .map_err(|e| self.address_refused(peer, e))?;
            self.set_local_address(theirs, address);
        }
        Ok(Some(N::pack(u64::from(theirs), Transport::Local)?))
    }
}

/// The segment behind an endpoint's address is this process's to remove.
fn note_segment<N: Netmod>(local: &[u8]) {
    if let Some(segment) = N::segment(local) {
        crate::boot::made_here(segment);
    }
}
