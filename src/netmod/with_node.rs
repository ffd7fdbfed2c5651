//! A library's netmod, and the module for the node ([`node`]) that can stand in its
//! place for peers of the node.
//!
//! Each provider is either one; where both are open the transport of an
//! address-vector entry says which (Guo et al. 2017, section III-C).

use super::node::{self, Node};
use super::{
    Atomic, Bulk, Calls, Caps, Completion, Costs, ElementLock, HEAD, IovTransfer, Kind, Neighbours,
    NetError, Netmod, Op, OpenParams, Providers, Transfer, Type, UNSUPPORTED, WordPacket,
};
use crate::settings::BadSetting;
use std::os::fd::RawFd;
use std::sync::Arc;

/// A library's netmod beside which the module for the node can stand.
pub trait Library: Netmod {
    /// The setting that names providers, separated by commas.
    const PROVIDERS: &'static str;
    /// The library's own.
    const OWN_SETTING: &'static str;

    /// A handle by which a put is handed to the node's module.
    fn handle_of(node: node::InjectHandle) -> Self::InjectHandle;
}

/// A provider: the library's, or the node's module.
#[derive(Debug)]
pub enum WithNode<N> {
    /// The library's.
    Library(Arc<N>),
    /// The node's.
    Node(Arc<Node>),
}

/// An endpoint of either.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a context has one of each provider")]
pub enum Endpoint<E> {
    /// The library's.
    Library(E),
    /// The node's.
    Node(node::Endpoint),
}

impl<E> Endpoint<E> {
    /// The library's own endpoint.
    ///
    /// # Errors
    /// That it is the node's.
    pub fn library(&self) -> Result<&E, NetError> {
        match self {
            Endpoint::Library(endpoint) => Ok(endpoint),
            Endpoint::Node(_) => Err(not_its_own()),
        }
    }
}

/// Registered memory of either.
#[derive(Debug)]
pub enum Region<R> {
    /// The library's.
    Library(R),
    /// The node's.
    Node(node::Region),
}

/// Does the same by the one that it is. ([ENDPOINT]: an endpoint is never the other's.)
macro_rules! either {
    ($self:ident, $endpoint:ident, $netmod:ident => $then:expr, else $other:expr) => {
        match ($self, $endpoint) {
            (WithNode::Library($netmod), Endpoint::Library($endpoint)) => $then,
            (WithNode::Node($netmod), Endpoint::Node($endpoint)) => $then,
            _ => $other,
        }
    };
    ($self:ident, $netmod:ident => $then:expr) => {
        match $self {
            WithNode::Library($netmod) => $then,
            WithNode::Node($netmod) => $then,
        }
    };
}

fn setting(variable: &str) -> Option<String> {
    std::env::var(variable).ok().filter(|value| !value.is_empty())
}

/// The providers that were named, if any.
fn named<N: Library>(params: &OpenParams) -> String {
    params.provider.clone().or_else(|| setting(N::PROVIDERS)).unwrap_or_default()
}

/// An endpoint of the other one was given.
#[cold]
fn not_its_own() -> NetError {
    NetError::Library("the endpoint is another provider's".into())
}

impl<N: Library> Netmod for WithNode<N> {
    type Endpoint = Endpoint<N::Endpoint>;
    type InjectHandle = N::InjectHandle;
    type Region = Region<N::Region>;

    const NAME: &'static str = N::NAME;
    const CALLS: Calls = N::CALLS;
    const WITH_NODE: bool = true;

    fn is_installed() -> bool {
        N::is_installed()
    }

    fn is_asked_for(provider: Option<&str>) -> Result<bool, NetError> {
        N::is_asked_for(provider)
    }

    fn check_settings() -> Result<(), BadSetting> {
        N::check_settings()
    }

    fn segment_owner(name: &str) -> Option<u32> {
        N::segment_owner(name)
    }

    fn segment(address: &[u8]) -> Option<&str> {
        N::segment(address)
    }

    fn costs(provider: &str) -> Option<Costs> {
        N::costs(provider).or_else(|| Node::costs(provider))
    }

    fn takes_node(params: &OpenParams) -> bool {
        named::<N>(params).is_empty() && setting(N::OWN_SETTING).is_none()
    }

    fn open_providers(params: &OpenParams) -> Result<Providers<Self>, NetError> {
        let named = named::<N>(params);
        let names: Vec<&str> = named.split(',').map(str::trim).filter(|n| !n.is_empty()).collect();
        if !names.contains(&node::NAME) && !params.takes_node {
            let Providers { network, node } = N::open_providers(params)?;
            let library = |netmod: Option<Arc<N>>| netmod.map(|n| Arc::new(WithNode::Library(n)));
            return Ok(Providers { network: library(network), node: library(node) });
        }
        let node = Arc::new(WithNode::Node(Arc::new(Node::open(params)?)));
        let rest: Vec<&str> = names.into_iter().filter(|&name| name != node::NAME).collect();
        let network = if !rest.is_empty() {
            let params = OpenParams { provider: Some(rest.join(",")), ..params.clone() };
            let named = N::open_providers(&params)?.network;
            named.map(|netmod| Arc::new(WithNode::Library(netmod)))
        } else if params.on_node < params.peers {
            Some(Self::open_network(params)?)
        } else {
            None
        };
        Ok(Providers { network, node: Some(node) })
    }

    fn open_network(params: &OpenParams) -> Result<Arc<Self>, NetError> {
        Ok(Arc::new(WithNode::Library(N::open_network(params)?)))
    }

    fn caps(&self) -> &Caps {
        either!(self, netmod => netmod.caps())
    }

    fn own_addresses(&self) -> bool {
        either!(self, netmod => netmod.own_addresses())
    }

    fn peer_died(&self, endpoint: &Self::Endpoint, dest: Option<u64>) {
        either!(self, endpoint, netmod => netmod.peer_died(endpoint, dest), else ())
    }

    fn flushes(&self) -> bool {
        either!(self, netmod => netmod.flushes())
    }

    fn locks_elements(&self) -> bool {
        either!(self, netmod => netmod.locks_elements())
    }

    fn open_endpoint(self: &Arc<Self>) -> Result<Self::Endpoint, NetError> {
        Ok(match &**self {
            WithNode::Library(netmod) => Endpoint::Library(netmod.open_endpoint()?),
            WithNode::Node(netmod) => Endpoint::Node(netmod.open_endpoint()?),
        })
    }

    fn set_neighbours(&self, neighbours: Neighbours) {
        either!(self, netmod => netmod.set_neighbours(neighbours));
    }

    fn address(&self, endpoint: &Self::Endpoint) -> Result<Vec<u8>, NetError> {
        either!(self, endpoint, netmod => netmod.address(endpoint), else Err(not_its_own()))
    }

    fn network_address(&self, endpoint: &Self::Endpoint) -> Result<Vec<u8>, NetError> {
        either!(self, endpoint, netmod => netmod.network_address(endpoint), else Err(not_its_own()))
    }

    fn insert(&self, endpoint: &Self::Endpoint, raw: &[u8]) -> Result<u64, NetError> {
        either!(self, endpoint, netmod => netmod.insert(endpoint, raw), else Err(not_its_own()))
    }

    fn remove(&self, endpoint: &Self::Endpoint, address: u64) {
        either!(self, endpoint, netmod => netmod.remove(endpoint, address), else ())
    }

    fn is_drained(&self, endpoint: &Self::Endpoint, dest: u64) -> bool {
        either!(self, endpoint, netmod => netmod.is_drained(endpoint, dest), else true)
    }

    unsafe fn register(
        self: &Arc<Self>,
        endpoint: &Self::Endpoint,
        start: *mut u8,
        len: usize,
        key: u64,
    ) -> Result<Self::Region, NetError> {
        // SAFETY: [MEM], [ENDPOINT].
        unsafe {
            Ok(match (&**self, endpoint) {
                (WithNode::Library(netmod), Endpoint::Library(endpoint)) => {
                    Region::Library(netmod.register(endpoint, start, len, key)?)
                }
                (WithNode::Node(netmod), Endpoint::Node(endpoint)) => {
                    Region::Node(netmod.register(endpoint, start, len, key)?)
                }
                _ => return Err(not_its_own()),
            })
        }
    }

    fn abandon(region: Self::Region) {
        match region {
            Region::Library(region) => N::abandon(region),
            Region::Node(region) => Node::abandon(region),
        }
    }

    fn key(&self, region: &Self::Region) -> u64 {
        match (self, region) {
            (WithNode::Library(netmod), Region::Library(region)) => netmod.key(region),
            (WithNode::Node(netmod), Region::Node(region)) => netmod.key(region),
            // (That of no region.)
            _ => u64::MAX,
        }
    }

    #[inline(always)]
    fn inject_handle(endpoint: &Self::Endpoint) -> N::InjectHandle {
        match endpoint {
            Endpoint::Library(endpoint) => N::inject_handle(endpoint),
            Endpoint::Node(endpoint) => N::handle_of(Node::inject_handle(endpoint)),
        }
    }

    #[inline(always)]
    unsafe fn inject(
        handle: N::InjectHandle,
        buf: *const u8,
        len: usize,
        dest: u64,
        addr: u64,
        key: u64,
    ) -> isize {
        // SAFETY: [ENDPOINT], [DEST], [KEY], [BUF], [LIMIT].
        unsafe { N::inject(handle, buf, len, dest, addr, key) }
    }

    unsafe fn write(&self, endpoint: &Self::Endpoint, op: Transfer<*const u8>) -> isize {
        // SAFETY: [ENDPOINT], [DEST], [KEY], [BUF], [LIMIT].
        unsafe { either!(self, endpoint, netmod => netmod.write(endpoint, op), else UNSUPPORTED) }
    }

    unsafe fn read(&self, endpoint: &Self::Endpoint, op: Transfer<*mut u8>) -> isize {
        // SAFETY: [ENDPOINT], [DEST], [KEY], [BUF], [LIMIT].
        unsafe { either!(self, endpoint, netmod => netmod.read(endpoint, op), else UNSUPPORTED) }
    }

    unsafe fn write_iov(&self, endpoint: &Self::Endpoint, op: IovTransfer<'_>) -> isize {
        // SAFETY: [ENDPOINT], [DEST], [KEY], [BUF], [LIMIT].
        unsafe {
            either!(self, endpoint, netmod => netmod.write_iov(endpoint, op), else UNSUPPORTED)
        }
    }

    unsafe fn read_iov(&self, endpoint: &Self::Endpoint, op: IovTransfer<'_>) -> isize {
        // SAFETY: [ENDPOINT], [DEST], [KEY], [BUF], [LIMIT].
        unsafe {
            either!(self, endpoint, netmod => netmod.read_iov(endpoint, op), else UNSUPPORTED)
        }
    }

    unsafe fn flush(&self, endpoint: &Self::Endpoint, dest: u64, token: u64) -> isize {
        // SAFETY: [ENDPOINT], [DEST].
        unsafe {
            either!(self, endpoint, netmod => netmod.flush(endpoint, dest, token), else UNSUPPORTED)
        }
    }

    fn element_lock(&self) -> Option<ElementLock> {
        either!(self, netmod => netmod.element_lock())
    }

    unsafe fn element_lock_of(&self, endpoint: &Self::Endpoint, dest: u64) -> Option<ElementLock> {
        // SAFETY: [ENDPOINT], [DEST].
        unsafe {
            either!(self, endpoint, netmod => netmod.element_lock_of(endpoint, dest), else None)
        }
    }

    fn atomic_limit(&self, endpoint: &Self::Endpoint, kind: Kind, ty: Type, op: Op) -> usize {
        either!(self, endpoint, netmod => netmod.atomic_limit(endpoint, kind, ty, op), else 0)
    }

    unsafe fn atomic(&self, endpoint: &Self::Endpoint, op: &Atomic) -> isize {
        // SAFETY: [ENDPOINT], [DEST], [KEY], [BUF], [LIMIT].
        unsafe { either!(self, endpoint, netmod => netmod.atomic(endpoint, op), else UNSUPPORTED) }
    }

    #[inline]
    unsafe fn send(
        &self,
        endpoint: &Self::Endpoint,
        head: &[u8; HEAD],
        body: *const u8,
        len: usize,
        dest: u64,
        token: u64,
    ) -> isize {
        // SAFETY: [ENDPOINT], [DEST], [BUF], [LIMIT].
        unsafe {
            either!(
                self, endpoint,
                netmod => netmod.send(endpoint, head, body, len, dest, token),
                else UNSUPPORTED
            )
        }
    }

    #[inline(always)]
    unsafe fn inject_word(
        &self,
        endpoint: &Self::Endpoint,
        packet: &WordPacket,
        len: usize,
        dest: u64,
    ) -> isize {
        // SAFETY: [ENDPOINT], [DEST], [LIMIT].
        unsafe {
            either!(
                self, endpoint,
                netmod => netmod.inject_word(endpoint, packet, len, dest),
                else UNSUPPORTED
            )
        }
    }

    unsafe fn send_bulk(&self, endpoint: &Self::Endpoint, op: Bulk<*const u8>) -> isize {
        // SAFETY: [ENDPOINT], [DEST], [BUF], [LIMIT].
        unsafe {
            either!(self, endpoint, netmod => netmod.send_bulk(endpoint, op), else UNSUPPORTED)
        }
    }

    unsafe fn recv_bulk(&self, endpoint: &Self::Endpoint, op: Bulk<*mut u8>) -> isize {
        // SAFETY: [ENDPOINT], [DEST], [BUF], [LIMIT].
        unsafe {
            either!(self, endpoint, netmod => netmod.recv_bulk(endpoint, op), else UNSUPPORTED)
        }
    }

    fn cancel(&self, endpoint: &Self::Endpoint, token: u64) {
        either!(self, endpoint, netmod => netmod.cancel(endpoint, token), else ());
    }

    fn wait_fd(&self, endpoint: &Self::Endpoint) -> Option<RawFd> {
        either!(self, endpoint, netmod => netmod.wait_fd(endpoint), else None)
    }

    fn arm(&self, endpoint: &Self::Endpoint) -> bool {
        either!(self, endpoint, netmod => netmod.arm(endpoint), else false)
    }

    #[inline]
    fn is_quiet(&self, endpoint: &Self::Endpoint) -> bool {
        either!(self, endpoint, netmod => netmod.is_quiet(endpoint), else false)
    }

    #[inline]
    fn poll(
        &self,
        endpoint: &Self::Endpoint,
        done: impl FnMut(Completion),
        arrived: impl FnMut(&[u8; HEAD], &[u8]),
    ) -> Result<bool, NetError> {
        either!(
            self, endpoint,
            netmod => netmod.poll(endpoint, done, arrived),
            else Err(not_its_own())
        )
    }

    fn explain(&self, call: &'static str, code: isize) -> NetError {
        match self {
            WithNode::Library(netmod) => netmod.explain(call, code),
            WithNode::Node(netmod) => netmod.explain(N::CALLS.generic(call), code),
        }
    }
}

#[cfg(all(test, feature = "ofi"))]
mod tests {
    use super::*;
    use crate::netmod::ofi::Ofi;

    #[test]
    fn the_costs_of_both_are_known() {
        assert!(Node::costs(node::NAME).is_some());
        assert_eq!(Ofi::costs(node::NAME), Node::costs(node::NAME));
        assert!(Ofi::costs("shm").is_some());
    }
}
