//! The fixture on which rates and instructions are measured: two processes, a
//! window, and a communicator of every rank-map model.
//!
//! A model shows with many ranks, and a machine holds few processes. So each
//! model's communicator has many ranks that name the same few peers: process
//! groups whose lpids are those peers in turn ([`Device::add_group`]). Maps, tables, entries
//! and puts are the real ones.

use rankway::av::Transport;
use rankway::boot::Boot;
use rankway::boot::alone::Alone;
use rankway::device::{self, Context, Device, DeviceError, Options};
use rankway::netmod::ofi::Ofi;
use rankway::netmod::{NetError, Netmod};
use rankway::rankmap::{MapError, Process, RankMap};
use rankway::rma::{Access, Backing, Communicator, Window};
use std::cell::OnceCell;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

/// The models, by the paper's names, in its order.
pub(crate) const MODELS: [&str; 6] = ["direct", "offset", "stride", "blockstride", "lut", "mlut"];

/// Communicators that this many odd/even splits of the world make, one of the other.
pub(crate) const GENERATIONS: [&str; 4] = ["gen1", "gen2", "gen3", "gen4"];

/// How many splits a generation is from the world, if that is one's name.
pub(crate) fn splits(name: &str) -> Option<usize> {
    GENERATIONS.iter().position(|generation| *generation == name).map(|at| at + 1)
}

/// What many communicators of all models at once are called.
pub(crate) const MIXED: &str = "mixed";

/// What the puts go through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Network {
    /// libfabric's provider of this name, user memory.
    Provider(String),
    /// A window Rankway allocated: puts are stores.
    Mapped,
    /// A window in the network library's own memory, put to by its own path.
    Provided,
    /// The user's memory, over whatever transports the library takes.
    Created,
}

/// Name of the provider in `plugins/null-provider`.
pub(crate) const NULL: &str = "rankway_null";

/// Lets libfabric find the null provider that was built beside this program.
/// Call before any thread is started and before libfabric is opened.
pub(crate) fn find_null_provider() {
    if std::env::var_os("FI_PROVIDER_PATH").is_some() {
        return;
    }
    let beside = || -> Option<PathBuf> {
        let dir = std::env::current_exe().ok()?.parent()?.join("providers");
        dir.is_dir().then_some(dir)
    };
    if let Some(dir) = beside() {
        // SAFETY: the command has one thread so far.
        unsafe { std::env::set_var("FI_PROVIDER_PATH", dir) };
    }
}

/// Why a device was not opened, with what helps where the null provider, which
/// is no package's, was not built.
pub(crate) fn explain(error: &DeviceError) -> String {
    match error {
        DeviceError::Net(NetError::NoProvider { wanted, .. }) if wanted == NULL => {
            "the infinitely fast network is a provider that `make build` puts into `providers` \
             beside this command, where it is not; build it, name its directory in \
             FI_PROVIDER_PATH, or measure over another network"
                .into()
        }
        other => other.to_string(),
    }
}

/// A window and what is needed to make accesses on it.
pub(crate) struct Fixture<N: Netmod = Ofi> {
    pub(crate) context: Rc<Context<N>>,
    pub(crate) window: Window<N>,
    /// Beside a mapped window: one that the library's own loop puts to.
    pub(crate) beside: Option<Window<N>>,
    groups: [u32; 2],
    /// The world that generations are split off, once it is asked for.
    world: OnceCell<u32>,
    /// World ranks that the models' ranks name, in turn.
    targets: Vec<u32>,
    /// Size of the models' communicators.
    pub(crate) ranks: u32,
    /// Kept for the window's sake; empty when the window allocates.
    _memory: Vec<u64>,
}

impl Fixture {
    /// One process over the null provider, to count instructions on, and where
    /// the provider's put begins.
    pub(crate) fn to_count(ranks: u32) -> Result<(Fixture, usize), String> {
        let boot = Arc::new(Alone::new().map_err(|e| e.to_string())?);
        let fixture = Self::new(boot, &Network::Provider(NULL.into()), ranks, 4096, &[0])?;
        let endpoint = fixture.context.endpoint(Transport::Network);
        let (_, endpoint) = endpoint.ok_or("the null provider is not open")?;
        let provider = endpoint.library().map_err(|e| e.to_string())?.inject_entry();
        Ok((fixture, provider))
    }
}

impl<N: Netmod> Fixture<N> {
    /// Opens a device and sets the stage on it. Collective over the job.
    ///
    /// `ranks` is the size of the models' communicators, `bytes` that of each
    /// process's memory, and `targets` the world ranks that their ranks name,
    /// in turn.
    pub(crate) fn new(
        boot: Arc<dyn Boot>,
        network: &Network,
        ranks: u32,
        bytes: usize,
        targets: &[u32],
    ) -> Result<Fixture<N>, String> {
        let provider = match network {
            Network::Provider(name) => Some(name.clone()),
            _ => None,
        };
        let options = Options::default().provider(provider);
        let context = device::open_over(boot, &options).map_err(|e| explain(&e))?;
        Fixture::on(context, network, ranks, bytes, targets)
    }

    fn on(
        context: Rc<Context<N>>,
        network: &Network,
        ranks: u32,
        bytes: usize,
        targets: &[u32],
    ) -> Result<Fixture<N>, String> {
        let text = |e: &dyn std::fmt::Display| e.to_string();
        let world = Communicator::world(&context);
        let mut memory = Vec::new();
        let window = match network {
            Network::Mapped => Window::allocate(&world, bytes, 8),
            Network::Provided => Window::allocate_with(&world, bytes, 8, Backing::Provider),
            Network::Provider(_) | Network::Created => {
                memory = vec![0_u64; bytes / 8];
                // SAFETY: `memory` is kept beside the window and never resized.
                unsafe { Window::create(&world, memory.as_mut_ptr().cast(), bytes, 8) }
            }
        };
        let window = window.map_err(|e| text(&e))?;
        let beside = match network {
            Network::Mapped if N::KEY_HANDLES => {
                let beside = Window::allocate_with(&world, bytes, 8, Backing::Provider);
                Some(beside.map_err(|e| text(&e))?)
            }
            _ => None,
        };
        let group = || group(context.device(), targets, ranks * 2);
        let (groups, world, targets) = ([group()?, group()?], OnceCell::new(), targets.to_vec());
        Ok(Fixture { context, window, beside, groups, world, targets, ranks, _memory: memory })
    }

    /// The rank map of a model or of a generation, over the groups that name the target.
    pub(crate) fn map(&self, model: &str) -> Result<RankMap, String> {
        match splits(model) {
            Some(splits) => self.generation(splits),
            None => map_over(model, self.ranks, self.groups),
        }
    }

    /// The odd ranks of the odd ranks, so many times, of a world; as many as other
    /// models have, however often it was split.
    fn generation(&self, splits: usize) -> Result<RankMap, String> {
        let text = |e: MapError| e.to_string();
        let mut size = self.ranks << GENERATIONS.len();
        let world = match self.world.get() {
            Some(&pg) => pg,
            None => {
                let pg = group(self.context.device(), &self.targets, size)?;
                *self.world.get_or_init(|| pg)
            }
        };
        let mut map = RankMap::affine(world, 0, 1, size).map_err(text)?;
        for _ in 0..splits {
            size /= 2;
            let odd = RankMap::affine(0, 1, 2, size).map_err(text)?;
            map = map.compose(&odd).map_err(text)?;
        }
        map.slice(0..self.ranks).map_err(text)
    }

    /// Of the ranks of a map from here the first of each process.
    pub(crate) fn rank_of_each_process(&self, map: &RankMap) -> Vec<u32> {
        let peers = self.targets.len() as u32;
        let mut of_peer = vec![None; self.targets.len()];
        for (rank, process) in (0..map.len()).zip(map.iter()) {
            of_peer[(process.lpid % peers) as usize].get_or_insert(rank);
            if of_peer.iter().all(Option::is_some) {
                break;
            }
        }
        of_peer.into_iter().flatten().collect()
    }

    /// An access to the window through a model's map, in an open epoch, every
    /// entry inserted.
    pub(crate) fn access(&self, model: &str) -> Result<Access<N>, String> {
        self.access_to(&self.window, model)
    }

    /// The same to another window.
    pub(crate) fn access_to(&self, window: &Window<N>, model: &str) -> Result<Access<N>, String> {
        let map = self.map(model)?;
        let state = window.state().map_err(|e| e.to_string())?;
        let access = Access::open(&state, &self.context, &map).map_err(|e| e.to_string())?;
        access.lock_all().map_err(|e| e.to_string())?;
        for rank in 0..map.len() {
            access.put(&[0; 8], rank, 0).map_err(|e| e.to_string())?;
        }
        access.flush_all().map_err(|e| e.to_string())?;
        Ok(access)
    }
}

/// Adds a process group of so many lpids, which name these world ranks in turn.
fn group<N: Netmod>(device: &Device<N>, targets: &[u32], size: u32) -> Result<u32, String> {
    let lpids = targets.iter().copied().cycle().take(size as usize);
    let members = RankMap::from_lpids(0, lpids).map_err(|e| e.to_string())?;
    device.add_group(members).map_err(|e| e.to_string())
}

/// The rank map of a model with `n` ranks, over two process groups of `2 n` each.
pub(crate) fn map_over(model: &str, n: u32, [a, b]: [u32; 2]) -> Result<RankMap, String> {
    let map = match model {
        "direct" => RankMap::affine(a, 0, 1, n),
        "offset" => RankMap::affine(a, n, 1, n),
        "stride" => RankMap::affine(a, 0, 2, n),
        "blockstride" => RankMap::from_lpids(a, (0..n).map(|r| r / 4 * 8 + r % 4)),
        "lut" => RankMap::from_lpids(a, scattered(n)),
        "mlut" => RankMap::from_processes(
            scattered(n).zip(0..).map(|(lpid, r)| Process { pg: [a, b][r % 2], lpid }),
        ),
        other => return Err(format!("no model is called {other}")),
    };
    map.map_err(|e| e.to_string())
}

/// A permutation of 0..n without any pattern (multiplicative congruence).
fn scattered(n: u32) -> impl Iterator<Item = u32> {
    let mut all: Vec<u32> = (0..n).collect();
    let mut state = 0x2545_f491_u32;
    for i in (1..n as usize).rev() {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        all.swap(i, (state >> 8) as usize % (i + 1));
    }
    all.into_iter()
}
