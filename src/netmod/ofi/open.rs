//! Which providers reach a job: shm on the node, a network beyond.

use super::domain::Domain;
use super::ffi;
use super::select::{self, Request};
use crate::netmod::{NetError, Netmod, OpenParams, Providers, node};
use std::sync::Arc;

/// The environment variable that names providers.
pub(super) const PROVIDERS_ENV: &str = "RANKWAY_PROVIDER";

/// The providers that the parameters or `RANKWAY_PROVIDER` name.
fn names(given: Option<&str>) -> Option<String> {
    let from_env = || std::env::var(PROVIDERS_ENV).ok().filter(|v| !v.is_empty());
    given.map(str::to_owned).or_else(from_env)
}

/// Returns true if `RANKWAY_LIBFABRIC` is set, or a provider of libfabric's is named.
pub(super) fn is_asked_for(provider: Option<&str>) -> Result<bool, NetError> {
    let file = std::env::var_os(ffi::LIBRARY_ENV).filter(|file| !file.is_empty());
    let names = names(provider).unwrap_or_default();
    let by = match (file, names.split(',').map(str::trim).find(|n| !["", node::NAME].contains(n))) {
        (Some(file), _) => format!("{} is '{}'", ffi::LIBRARY_ENV, file.display()),
        (None, Some(name)) => format!("provider '{name}' is libfabric's"),
        (None, None) => return Ok(false),
    };
    match ffi::Library::open() {
        Ok(_) => Ok(true),
        Err(error) => Err(NetError::Library(format!("{by}: {error}"))),
    }
}

/// Those that the parameters or `RANKWAY_PROVIDER` name, else the best there are.
pub(super) fn providers(params: &OpenParams) -> Result<Providers<Domain>, NetError> {
    if params.attachable == Some(false) {
        ffi::keep_from_attaching();
    }
    match names(params.provider.as_deref()) {
        Some(names) => named(&names, params),
        None => automatic(params),
    }
}

/// The best network that libfabric has, honouring `FI_PROVIDER`.
pub(super) fn network(params: &OpenParams) -> Result<Arc<Domain>, NetError> {
    Domain::open(&request(params, None))
}

fn request(params: &OpenParams, provider: Option<&str>) -> Request {
    Request {
        provider: provider.map(str::to_owned),
        node_local: false,
        threads: params.threads,
        peers: params.peers,
    }
}

fn named(names: &str, params: &OpenParams) -> Result<Providers<Domain>, NetError> {
    let (mut network, mut node) = (None, None);
    for name in names.split(',').map(str::trim).filter(|n| !n.is_empty()) {
        let place = if name == "shm" { &mut node } else { &mut network };
        *place = Some(Domain::open(&request(params, Some(name)))?);
    }
    if network.is_none() && node.is_none() {
        let have = select::providers(true)?;
        return Err(select::not_there(names.to_owned(), have));
    }
    Ok(Providers { network, node })
}

/// shm where libfabric has it and all can share it, and a network when shm does not reach all.
fn automatic(params: &OpenParams) -> Result<Providers<Domain>, NetError> {
    let node_local = || Request { node_local: true, ..request(params, None) };
    let node = match (!params.apart).then(|| Domain::open(&node_local())).transpose() {
        Ok(shm) => shm,
        // FI_PROVIDER may exclude shm, some builds lack it, and /dev/shm
        // may be full: the network serves the node then.
        Err(NetError::NoProvider { .. } | NetError::NoRma { .. } | NetError::NoSpace { .. }) => {
            None
        }
        Err(e) => return Err(e),
    };
    let serves_node = node.as_ref().is_some_and(|shm| params.on_node <= shm.caps().max_peers);
    let all = serves_node && params.on_node >= params.peers;
    let network = if all { None } else { Some(network(params)?) };
    Ok(Providers { network, node })
}
