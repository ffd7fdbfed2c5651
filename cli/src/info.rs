//! `rankway info`: what this machine has for Rankway, what would be chosen,
//! and what is missing.

mod costs;
mod launchers;
mod machine;
mod memory;
mod report;
mod settings;

use self::costs::ProviderCosts;
use self::launchers::Launcher;
use self::machine::Machine;
use self::memory::Memory;
use self::settings::{Settings, Unusable};
use indicatif::ProgressBar;
use rankway::netmod::NetError;
use rankway::netmod::node;
use rankway::netmod::ofi::{self, Provider, Request};
use rankway::netmod::ucx;
use serde::Serialize;
use std::process::ExitCode;

const HELP: &str = "\
Examples:
  rankway info                                    everything
  rankway info --json | jq .choice.network        what would carry puts to other nodes
  RANKWAY_LIBFABRIC=/opt/lib/libfabric.so.1 rankway info   with another libfabric
  FI_PROVIDER=tcp rankway info                    what a setting of libfabric's leaves

Nothing is started and no network is opened. Caches and TLB, by which noncontiguous data is \
copied, are measured for under a second and kept for this host under XDG_CACHE_HOME or \
~/.cache, if that was not done before. The exit code is 0 whatever is missing, unless \
--strict.

Keys of --json: command, version, ok; environment {NAME: value}; \
unusable [{name, why, refused}]; \
libfabric, ucx, pmix {found, path, version, error}; ucx_transports[]; \
providers [{name, version, rma, node_local, only_by_name, inject_size, delivers, max_message, \
mr_mode, key_size, progress, max_peers, domains}]; \
choice {node, network} {provider, why, error}; \
launchers [{name, path, product, version, interface}]; \
machine {processors, kernel, architecture, memory_bytes, locked_memory_bytes, open_files, \
shm_bytes, shm_free_bytes, rdma_devices, ptrace, ptrace_error, hardware_counters, \
hardware_counters_error}; \
memory {first_cache_bytes, last_cache_bytes, caches_from, tlb_pages, tlb_from, page_bytes, \
shared_buffers, costs_ns {run, byte, next_line, line, line_apart, line_asked, line_past, page}, costs_from, \
kept, kept_error}; \
costs [{provider, call_ns, origin_entry_ns, target_entry_ns, byte_ns, from, kept, error}]; \
missing [{what, needed, why, debian, pypi, try}]. What is absent or unlimited is null.";

/// What this machine has: libraries, providers, launchers, and what is missing
#[derive(clap::Args)]
#[command(allow_negative_numbers = true, after_long_help = HELP, after_help = "More, with examples: rankway info --help")]
pub(crate) struct Args {
    /// Exits with 1 when something that is needed is missing
    #[arg(long)]
    strict: bool,

    /// Measures the TLB, what memory costs, and what operations cost over each provider, and
    /// keeps that for this host
    #[arg(long)]
    calibrate: bool,

    /// For programs: one JSON object, keys as in --help
    #[arg(long)]
    json: bool,
}

/// All that was found.
#[derive(Serialize)]
struct Info {
    command: &'static str,
    version: &'static str,
    /// Whether nothing that is needed is missing.
    ok: bool,
    /// Settings in force.
    environment: std::collections::BTreeMap<String, String>,
    /// Those that do not do what they were set for.
    unusable: Vec<Unusable>,
    libfabric: Library,
    ucx: Library,
    /// UCX's transports and devices, as `posix/memory`.
    ucx_transports: Vec<String>,
    pmix: Library,
    providers: Vec<ProviderReport>,
    choice: Choices,
    launchers: Vec<Launcher>,
    machine: Machine,
    memory: Memory,
    /// What operations cost, by provider.
    costs: Vec<ProviderCosts>,
    missing: Vec<Missing>,
}

/// A library that is opened at run time.
#[derive(Serialize)]
struct Library {
    found: bool,
    path: Option<String>,
    version: Option<String>,
    error: Option<String>,
}

impl Library {
    fn of<E: ToString>(opened: Result<(String, String), E>) -> Library {
        let (found, error) = match opened {
            Ok(found) => (Some(found), None),
            Err(error) => (None, Some(error.to_string())),
        };
        let (path, version) = found.unzip();
        Library { found: path.is_some(), path, version, error }
    }
}

/// A libfabric provider of reliable datagram endpoints.
#[derive(Serialize)]
struct ProviderReport {
    name: String,
    version: String,
    rma: bool,
    node_local: bool,
    only_by_name: bool,
    inject_size: usize,
    delivers: bool,
    max_message: usize,
    mr_mode: Vec<&'static str>,
    key_size: usize,
    progress: &'static str,
    max_peers: Option<u32>,
    domains: Vec<String>,
}

impl From<Provider> for ProviderReport {
    fn from(p: Provider) -> ProviderReport {
        ProviderReport {
            name: p.name,
            version: format!("{}.{}", p.version.0, p.version.1),
            rma: p.rma,
            node_local: p.node_local,
            only_by_name: p.only_by_name,
            inject_size: p.inject_size,
            delivers: p.delivers,
            max_message: p.max_message,
            mr_mode: p.mr_mode,
            key_size: p.key_size,
            progress: p.progress,
            max_peers: p.max_peers,
            domains: p.domains,
        }
    }
}

#[derive(Serialize)]
struct Choices {
    node: Choice,
    network: Choice,
}

/// What a device opened now would take.
#[derive(Serialize)]
struct Choice {
    provider: Option<String>,
    why: String,
    error: Option<String>,
}

/// Something that is not there.
#[derive(Serialize)]
struct Missing {
    what: String,
    /// Whether puts cannot be made without it.
    needed: bool,
    why: String,
    debian: Option<&'static str>,
    pypi: Option<&'static str>,
    /// Anything else to do.
    r#try: Option<String>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, String> {
    let bar = if args.json { ProgressBar::hidden() } else { ProgressBar::new_spinner() };
    let info = Info::gather(args.calibrate.then_some(&bar));
    bar.finish_and_clear();
    let columns = crate::output::columns();
    crate::output::report(&info, args.json, |out| report::text(&info, columns, out))?;
    Ok(if args.strict && !info.ok { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

impl Info {
    /// What can be measured is measured anew where there is a bar to show it.
    fn gather(measured: Option<&ProgressBar>) -> Info {
        // The machine first: single-stepping forks, which is cheap before the
        // libraries are there.
        let machine = Machine::look();
        let libfabric = Library::of(ofi::library());
        let providers = ofi::describe().unwrap_or_default();
        let reliable = providers.iter().filter(|p| p.rma && !p.only_by_name);
        let names: Vec<&str> = reliable.map(|p| p.name.as_str()).collect();
        // Forks, too, and before UCX starts threads.
        let ucx = Library::of(ucx::library());
        let costs = costs::look(&names, ucx.found, measured);
        let settings = Settings::look();
        let mut info = Info {
            command: "info",
            version: env!("CARGO_PKG_VERSION"),
            ok: true,
            environment: settings.known,
            unusable: settings.unusable,
            ucx,
            ucx_transports: ucx::transports().unwrap_or_default(),
            pmix: Library::of(rankway::boot::pmix::found().map(|(path, line)| {
                // The rest of the line names the standard and the build.
                let short = line.split([',', '(']).next().unwrap_or(&line).trim().to_owned();
                (path, short)
            })),
            choice: choose(&providers),
            providers: providers.into_iter().map(ProviderReport::from).collect(),
            launchers: launchers::find(),
            libfabric,
            machine,
            memory: Memory::look(measured.is_some()),
            costs,
            missing: Vec::new(),
        };
        info.missing = info.missing();
        info.ok = !info.missing.iter().any(|missing| missing.needed)
            && !info.unusable.iter().any(|setting| setting.refused);
        info
    }

    fn missing(&self) -> Vec<Missing> {
        let mut missing = Vec::new();
        let mut miss = |what: &str, needed, why: String, debian, pypi, try_: Option<String>| {
            missing.push(Missing { what: what.into(), needed, why, debian, pypi, r#try: try_ });
        };
        if let Some(why) = &self.libfabric.error {
            miss(
                "libfabric",
                true,
                format!("no provider can be opened without it ({})", short(why)),
                Some("libfabric1"),
                Some("mpich"),
                Some(
                    "the file of any other, as in PyPI's: RANKWAY_LIBFABRIC=/path/libfabric.so.1"
                        .into(),
                ),
            );
        } else {
            let neither = self.choice.node.error.is_some() && self.choice.network.error.is_some();
            let filter = self.environment.contains_key("FI_PROVIDER")
                || self.environment.contains_key("RANKWAY_PROVIDER");
            let unset = filter.then(|| "unset FI_PROVIDER and RANKWAY_PROVIDER".to_owned());
            for (what, choice, why) in [
                ("a provider for the node", &self.choice.node, "puts to ranks on the same node"),
                ("a network provider", &self.choice.network, "puts to other nodes"),
            ] {
                if let Some(error) = &choice.error {
                    let why = format!("{why}: {error}");
                    miss(what, neither, why, Some("libfabric1"), Some("mpich"), unset.clone());
                }
            }
        }
        if self.libfabric.found
            && self.machine.rdma_devices.is_empty()
            && !self.providers.iter().any(|p| p.name.starts_with("verbs"))
        {
            let why = "no RDMA device: puts to other nodes go through tcp".into();
            let soft = "a soft-RoCE device serves for trials (rdma link add, package rdma-core)";
            miss("RDMA", false, why, Some("rdma-core ibverbs-providers"), None, Some(soft.into()));
        }
        if let Some(why) = &self.ucx.error {
            let try_ = Some("RANKWAY_UCX=/path/to/libucp.so.0".into());
            miss("UCX", false, short(why), Some("libucx0"), Some("openmpi"), try_);
        }
        if let Some(why) = &self.pmix.error {
            let why = format!("needed under mpirun, prterun and srun only ({})", short(why));
            let try_ = Some("RANKWAY_PMIX=/path/to/libpmix.so.2".into());
            miss("PMIx", false, why, Some("libpmix2"), Some("openmpi"), try_);
        }
        let served = |interface| self.launchers.iter().any(|l| l.interface == Some(interface));
        if !served("pmix") {
            let why = "rankway forks its own ranks on one machine; for more, a launcher".into();
            miss("mpirun or prterun", false, why, Some("openmpi-bin"), Some("openmpi"), None);
        }
        if !served("pmi1") {
            let why = "MPICH's launcher, the other way to start jobs".into();
            let try_ = Some("Debian's package hydra is something else".into());
            miss("mpiexec.hydra", false, why, Some("mpich"), Some("mpich"), try_);
        }
        let machine = &self.machine;
        if let Some(why) = &machine.ptrace_error {
            let try_ = "run as the same user with kernel.yama.ptrace_scope at most 1; \
                        in a container: --cap-add SYS_PTRACE";
            miss("ptrace", false, format!("rankway count: {why}"), None, None, Some(try_.into()));
        }
        if machine.hardware_counters_error.is_some() {
            let why = "cycles and cache misses are not counted; instructions are".to_owned();
            let try_ = "a machine, not a virtual one, with kernel.perf_event_paranoid at most 2";
            miss("hardware counters", false, why, None, None, Some(try_.into()));
        }
        /// A segment for a few ranks and libfabric's own queues.
        const SHM_LEAST: u64 = 128 << 20;
        if machine.shm_free_bytes.is_some_and(|free| free < SHM_LEAST) {
            let free = crate::output::bytes(machine.shm_free_bytes.unwrap_or(0));
            let why =
                format!("{free} are free in /dev/shm; the shm provider needs some MiB a rank");
            let try_ = "mount -o remount,size=1g /dev/shm; in a container: --shm-size=1g";
            miss("shared memory", false, why, None, None, Some(try_.into()));
        }
        const LOCKED_LEAST: u64 = 64 << 20;
        let little = machine.locked_memory_bytes.is_some_and(|bytes| bytes < LOCKED_LEAST);
        if little && !machine.rdma_devices.is_empty() {
            let why = "registering windows over RDMA locks their memory".into();
            let try_ = "ulimit -l unlimited (/etc/security/limits.conf: memlock)";
            miss("locked memory", false, why, None, None, Some(try_.into()));
        }
        missing
    }
}

/// The part of a library's message before its own advice, which is repeated
/// here.
fn short(error: &str) -> String {
    error.split(';').next().unwrap_or(error).to_owned()
}

/// The module for the node.
fn module(why: &str) -> Choice {
    Choice { provider: Some(node::NAME.to_owned()), why: why.to_owned(), error: None }
}

/// What opening a device would take, as [`rankway::device::open_ofi`] does.
fn choose(providers: &[Provider]) -> Choices {
    let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let Some(names) = set("RANKWAY_PROVIDER") else {
        let node = ofi::would_select(&Request { node_local: true, ..Request::default() });
        let network = ofi::would_select(&Request::default());
        let over = providers
            .iter()
            .filter(|p| p.rma && p.only_by_name)
            .map(|p| p.name.as_str())
            .collect::<Vec<_>>()
            .join(", ");
        let filter = set("FI_PROVIDER").map(|v| format!(" that FI_PROVIDER={v} leaves"));
        let first = format!(
            "the first with RMA in libfabric's order{}{}",
            filter.unwrap_or_default(),
            if over.is_empty() { String::new() } else { format!("; only when named: {over}") }
        );
        let network = Choice::new(network, &first);
        if set("FI_PROVIDER").is_none() && node::is_possible() {
            return Choices {
                node: module("no provider is named, and it needs no library"),
                network,
            };
        }
        let shm = "shared memory reaches ranks on the node faster than any network";
        let mut node = Choice::new(node, shm);
        if node.provider.is_none() && network.provider.is_some() {
            // The network serves the node too.
            node.why = format!("no shared-memory provider ({}); the network's serves", node.why);
            node.provider.clone_from(&network.provider);
            node.error = None;
        }
        return Choices { node, network };
    };
    let named = |on_node: bool| {
        let of_node = |name: &str| name == "shm" || name == node::NAME;
        let mut fitting =
            names.split(',').map(str::trim).filter(|n| !n.is_empty() && of_node(n) == on_node);
        fitting.next_back()
    };
    let why = format!("RANKWAY_PROVIDER={names} names it");
    let take = |name: &str| {
        let request = Request { provider: Some(name.to_owned()), ..Request::default() };
        Choice::new(ofi::would_select(&request), &why)
    };
    let absent = |what: &str| Choice {
        provider: None,
        why: format!("RANKWAY_PROVIDER={names} names none"),
        error: Some(format!("RANKWAY_PROVIDER={names} names no provider for {what}")),
    };
    let network = named(false).map_or_else(|| absent("other nodes"), take);
    let node = match named(true) {
        Some(node::NAME) => module(&why),
        Some(name) => take(name),
        None if network.provider.is_some() => Choice {
            provider: network.provider.clone(),
            why: format!("RANKWAY_PROVIDER={names} names no shm: the network's serves"),
            error: None,
        },
        None => absent("the node"),
    };
    Choices { node, network }
}

impl Choice {
    fn new(taken: Result<Provider, NetError>, why: &str) -> Choice {
        match taken {
            Ok(provider) => {
                Choice { provider: Some(provider.name), why: why.to_owned(), error: None }
            }
            Err(error) => {
                let error = error.to_string();
                Choice { provider: None, why: short(&error), error: Some(error) }
            }
        }
    }
}
