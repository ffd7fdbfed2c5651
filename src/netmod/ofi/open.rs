//! Which providers reach a job: shm on the node, a network beyond.

use super::domain::Domain;
use super::ffi;
use super::select::{self, Request};
use crate::netmod::{NetError, Netmod, OpenParams, Providers};
use std::sync::Arc;

/// Those that the parameters or `RANKWAY_PROVIDER` name, else the best there are.
pub(super) fn providers(params: &OpenParams) -> Result<Providers<Domain>, NetError> {
    if params.attachable == Some(false) {
        ffi::keep_from_attaching();
    }
    let from_env = || std::env::var("RANKWAY_PROVIDER").ok().filter(|v| !v.is_empty());
    match params.provider.clone().or_else(from_env) {
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

/// shm where libfabric has it, and a network when shm does not reach all.
fn automatic(params: &OpenParams) -> Result<Providers<Domain>, NetError> {
    let node = match Domain::open(&Request { node_local: true, ..request(params, None) }) {
        Ok(shm) => Some(shm),
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
