//! What the matrix is played over.

use super::factors::Place;
use crate::harness::Over;
use rankway::netmod::ucx;

#[derive(Clone, Debug)]
pub struct Network {
    pub name: String,
    /// By name, as `RANKWAY_NETMOD` has it.
    pub netmod: &'static str,
    pub nodes: u32,
    /// So many jobs have the ranks between them: those of more than one are under MPI only.
    pub jobs: u32,
    pub env: Vec<(&'static str, String)>,
    /// The same under MPI: options of mpirun.
    pub mpi: Option<Vec<&'static str>>,
}

impl Network {
    pub fn place(&self, mpi: bool) -> Place {
        Place { mpi, one_node: self.nodes == 1 && self.jobs == 1 }
    }
}

/// Where the jobs of one network are recorded.
pub const TRACES: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/matrix-traces");

const QUEUES: &str = "RANKWAY_NODE_QUEUES";
const PROVIDER: &str = "RANKWAY_PROVIDER";
/// Has each member of a window asked for its keys that differ from others'.
const ASKED: (&str, &str) = ("RANKWAY_WINDOW_KEYS", "0");

/// All that are here: the node's own queues and stores, then each provider as
/// between nodes.
pub fn all() -> Vec<Network> {
    if let Some(over) = Over::chosen() {
        let env = over.env().map(|(key, value)| (key, value.to_owned())).to_vec();
        let netmod = if over.ucx { "ucx" } else { "ofi" };
        return vec![Network { name: over.name, netmod, nodes: 1, jobs: 1, env, mpi: None }];
    }
    let network = |name: &str, nodes, env: &[(&'static str, &str)], mpi: &[&'static str]| Network {
        name: name.into(),
        netmod: ["ucx", "node", "in process"]
            .into_iter()
            .find(|n| name.starts_with(n))
            .unwrap_or("ofi"),
        nodes,
        jobs: 1,
        env: env.iter().map(|&(key, value)| (key, value.to_owned())).collect(),
        mpi: (nodes == 1 && name != "recorded").then(|| mpi.to_vec()),
    };
    let through = ["-x", "RANKWAY_NODE_QUEUES=0"];
    let mca = |key: &'static str, value: &'static str| ["--mca", key, value];
    let provider = "mtl_rankway_provider";
    let netmod = "mtl_rankway_netmod";
    let over_ucx = mca(netmod, "ucx");
    let (shm, tcp) = (mca(provider, "shm"), mca(provider, "tcp;ofi_rxm"));
    let mut all = vec![
        network("mapped", 1, &[], &[]),
        network("shm", 1, &[(PROVIDER, "shm"), (QUEUES, "0")], &[&shm[..], &through].concat()),
        network("tcp", 1, &[(PROVIDER, "tcp"), (QUEUES, "0")], &[&tcp[..], &through].concat()),
        network("two nodes", 2, &[(PROVIDER, "shm,tcp"), ASKED], &[]),
        network("two beside", 2, &[(PROVIDER, "node,tcp")], &[]),
        network("node", 1, &[], &mca(netmod, "node")),
        // Each rank a thread, and alone on its node.
        network("in process", 2, &[], &[]),
        // Recorded, which must change no byte.
        network("recorded", 1, &[("RANKWAY_TRACE", TRACES)], &[]),
        Network { jobs: 2, ..network("jobs", 1, &[], &["-x", "JOBS=2"]) },
    ];
    if let Err(e) = ucx::library() {
        eprintln!("UCX: skipped: {e}");
        return all;
    }
    let tls = |tls| [&over_ucx[..], &through, &["-x", tls]].concat();
    let (posix, sockets) = ("posix,self", "tcp,self");
    all.extend([
        network("ucx", 1, &[], &over_ucx),
        network("ucx-shm", 1, &[("UCX_TLS", posix), (QUEUES, "0")], &tls("UCX_TLS=posix,self")),
        network("ucx-tcp", 1, &[("UCX_TLS", sockets), (QUEUES, "0")], &tls("UCX_TLS=tcp,self")),
        network("ucx-nodes", 2, &[("UCX_TLS", "all"), ASKED], &[]),
    ]);
    all
}
