//! The endpoints of a context, one for each provider, and those that took their
//! place.

use crate::av::Transport;
use crate::netmod::{NetError, Netmod};
use std::cell::{Cell, OnceCell};
use std::rc::Rc;
use std::sync::Arc;

/// A provider and an endpoint of it.
struct Open<N: Netmod> {
    netmod: Arc<N>,
    endpoint: N::Endpoint,
}

impl<N: Netmod> Open<N> {
    fn new(netmod: &Arc<N>) -> Result<Open<N>, NetError> {
        Ok(Open { endpoint: netmod.open_endpoint()?, netmod: Arc::clone(netmod) })
    }

    #[inline]
    fn parts(&self) -> (&Arc<N>, &N::Endpoint) {
        (&self.netmod, &self.endpoint)
    }
}

/// The endpoints of a context.
pub(super) struct Endpoints<N: Netmod> {
    network: OnceCell<Open<N>>,
    local: Option<Local<N>>,
}

/// Those in shared memory.
struct Local<N: Netmod> {
    netmod: Arc<N>,
    chain: Chain<N::Endpoint>,
    /// The handle of the endpoint in use, shared by all accesses that inject
    /// themselves, so that none keeps the handle of an endpoint that was given
    /// up.
    inject_handle: Rc<Cell<N::InjectHandle>>,
    /// Endpoints after the first.
    renewals: Cell<usize>,
}

impl<N: Netmod> Endpoints<N> {
    pub(super) fn open(
        network: Option<&Arc<N>>,
        local: Option<&Arc<N>>,
    ) -> Result<Endpoints<N>, NetError> {
        let network = network.map(Open::new).transpose()?;
        Ok(Endpoints {
            network: network.map_or_else(OnceCell::new, OnceCell::from),
            local: local.map(Local::open).transpose()?,
        })
    }

    /// Opens an endpoint of a network; where there is one, that stays.
    pub(super) fn add_network(&self, netmod: &Arc<N>) -> Result<(), NetError> {
        let _ = self.network.set(Open::new(netmod)?);
        Ok(())
    }

    pub(super) fn has_network(&self) -> bool {
        self.network.get().is_some()
    }

    /// The endpoint in use of a transport, and its provider.
    #[inline]
    pub(super) fn get(&self, transport: Transport) -> Option<(&Arc<N>, &N::Endpoint)> {
        match transport {
            Transport::Network => self.network.get().map(Open::parts),
            Transport::Local => {
                self.local.as_ref().map(|local| (&local.netmod, local.chain.last()))
            }
        }
    }

    /// Returns true if a poll of each would find nothing, as far as that is told at once
    /// ([`Netmod::is_quiet`]).
    #[inline]
    pub(super) fn are_quiet(&self) -> bool {
        let network = self.network.get().map(Open::parts);
        !self.has_retired()
            && [network, self.get(Transport::Local)]
                .into_iter()
                .flatten()
                .all(|(netmod, endpoint)| netmod.is_quiet(endpoint))
    }

    /// The endpoint at which peers' packets and bulk messages arrive: the first.
    pub(super) fn first(&self, transport: Transport) -> Option<(&Arc<N>, &N::Endpoint)> {
        match transport {
            Transport::Network => self.network.get().map(Open::parts),
            Transport::Local => {
                self.local.as_ref().map(|local| (&local.netmod, &local.chain.endpoint))
            }
        }
    }

    /// The shared-memory endpoints that were given up, which peers still send
    /// to.
    pub(super) fn retired(&self) -> impl Iterator<Item = (&Arc<N>, &N::Endpoint)> {
        self.local
            .iter()
            .flat_map(|local| local.chain.retired().map(move |endpoint| (&local.netmod, endpoint)))
    }

    pub(super) fn has_retired(&self) -> bool {
        self.local.as_ref().is_some_and(|local| local.chain.next.get().is_some())
    }

    /// The inject handle of the shared-memory endpoint in use. The cell changes
    /// when that endpoint is replaced.
    pub(super) fn local_inject_handle(&self) -> Option<&Rc<Cell<N::InjectHandle>>> {
        self.local.as_ref().map(|local| &local.inject_handle)
    }

    /// Goes on with another shared-memory endpoint. Returns its provider;
    /// `None` where the old one has to do.
    pub(super) fn renew(&self) -> Option<&Arc<N>> {
        let local = self.local.as_ref()?;
        let endpoint = local.netmod.open_endpoint().ok()?;
        local.chain.append(endpoint);
        local.inject_handle.set(N::inject_handle(local.chain.last()));
        local.renewals.set(local.renewals.get() + 1);
        Some(&local.netmod)
    }

    /// Leaves endpoints of libfabric's shm open until the process ends: one that lives may be
    /// about to take an operation that was given up here, and 1.17's progress ended a process
    /// by a signal where the segment had gone meanwhile.
    pub(super) fn leave_segments(&mut self) {
        std::mem::forget(self.local.take_if(|local| local.netmod.caps().provider == "shm"));
    }

    /// How often another shared-memory endpoint was taken.
    pub(super) fn renewals(&self) -> usize {
        self.local.as_ref().map_or(0, |local| local.renewals.get())
    }
}

impl<N: Netmod> Local<N> {
    fn open(netmod: &Arc<N>) -> Result<Local<N>, NetError> {
        let endpoint = netmod.open_endpoint()?;
        let inject_handle = Rc::new(Cell::new(N::inject_handle(&endpoint)));
        Ok(Local {
            netmod: Arc::clone(netmod),
            chain: Chain::new(endpoint),
            inject_handle,
            renewals: Cell::new(0),
        })
    }
}

/// An endpoint and those that took its place, the last of which is in use. None
/// is closed before the others: peers have the first one's address.
struct Chain<P> {
    endpoint: P,
    next: OnceCell<Box<Chain<P>>>,
}

impl<P> Chain<P> {
    fn new(endpoint: P) -> Chain<P> {
        Chain { endpoint, next: OnceCell::new() }
    }

    fn links(&self) -> impl Iterator<Item = &Chain<P>> {
        std::iter::successors(Some(self), |link| link.next.get().map(|next| &**next))
    }

    #[inline]
    fn last(&self) -> &P {
        if self.next.get().is_none() {
            return &self.endpoint;
        }
        self.links().last().map_or(&self.endpoint, |link| &link.endpoint)
    }

    fn retired(&self) -> impl Iterator<Item = &P> {
        self.links().filter(|link| link.next.get().is_some()).map(|link| &link.endpoint)
    }

    fn append(&self, endpoint: P) {
        if let Some(link) = self.links().last() {
            let _ = link.next.set(Box::new(Chain::new(endpoint)));
        }
    }
}
