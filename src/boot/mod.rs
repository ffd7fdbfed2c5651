//! Who are my peers: ranks, nodes, and the exchange of addresses and keys.
//!
//! A [`Boot`] is one process's view of the launcher that started the job:
//!
//! | launcher | found by | module |
//! |---|---|---|
//! | none, the program forks its own ranks | called by [`local::run`] | [`local`] |
//! | Open MPI's `mpirun`, `prterun`, `srun --mpi=pmix` | `PMIX_NAMESPACE`, `PMIX_RANK` | `pmix` |
//! | MPICH's `mpiexec` (Hydra) | `PMI_FD` | [`pmi1`] |
//! | none at all | nothing of the above | [`alone`] |
//! | none, the ranks share a process | [`in_process::Job`] | [`in_process`] |
//! | none, the job does not exist | made for measuring tables | [`simulated`] |
//!
//! Values published with [`Boot::put`] are visible after [`Boot::fence`] and
//! fetched one peer at a time, so that nobody holds a table of all peers
//! unless it wants one. [`Control`] is the set-up channel between any group
//! of ranks (barrier, allgather, broadcast), used to create communicators and
//! windows, where a launcher only knows the world. [`Liveness`] notices the
//! death of peers on the same machine.
//!
//! ```
//! use rankway::boot::Boot;
//! use rankway::boot::alone::Alone;
//!
//! // What `boot::connect()` returns to a process that nobody launched.
//! let boot = Alone::new()?;
//! boot.put("greeting", b"hello")?;
//! boot.fence(&mut || ())?;
//! assert_eq!((boot.rank(), boot.size()), (0, 1));
//! assert_eq!(boot.get(0, "greeting")?, b"hello");
//! # Ok::<(), rankway::boot::BootError>(())
//! ```
//!
//! This module never touches the network library and is never on the way of an
//! operation. It stands on the operating system and, at run time, on the
//! launcher's library.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod alone;
mod contact_info;
mod control;
mod error;
pub mod in_process;
mod introduction;
mod jobs;
pub mod kvs;
mod liveness;
pub mod local;
mod os;
mod other_jobs;
mod placement;
pub mod pmi1;
#[cfg(feature = "pmix")]
pub mod pmix;
pub mod simulated;
mod sweep;
mod values;

pub use crate::process::ProcessId;
pub use contact_info::ContactInfo;
pub(crate) use control::Around;
#[cfg(fuzzing)]
pub(crate) use control::fuzz as fuzz_control;
#[cfg(test)]
pub(crate) use control::gathered_by_all;
pub use control::{Channel, Control, Gathered, Group, Idle, World, gather_by};
pub use error::BootError;
pub use introduction::{ADDRESSES_KEY, Introduction, Introductions, Unmet};
pub use jobs::Jobs;
pub use liveness::{Liveness, Watch};
pub(crate) use os::timeout;
pub use other_jobs::OtherJobs;
pub use placement::{Dealt, Placement, parse_local_peers};
pub(crate) use sweep::{AGREEMENT, made_here};
pub use sweep::{segment_prefix, sweep, sweep_process, sweep_stale};

use crate::settings::BOOT;
use std::sync::{Arc, Mutex};

/// What a launcher knows of the end of a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Nothing: it may be running.
    Unknown,
    /// It ended in good order.
    Left,
    /// It was killed or failed, and how.
    Died(String),
}

/// One process's view of its launcher.
///
/// All methods may be called from any thread; [`fence`](Boot::fence) and
/// [`finalize`](Boot::finalize) are collective over the job and called by one
/// thread at a time.
pub trait Boot: Send + Sync {
    /// `"local"`, `"pmix"`, `"pmi1"`, `"alone"`, `"in-process"` or `"simulated"`.
    fn launcher(&self) -> &'static str;

    /// World rank of this process.
    fn rank(&self) -> u32;

    /// Ranks in the job.
    fn size(&self) -> u32;

    /// The same in all processes of the job, different between jobs on the
    /// machine; names shared-memory segments ([`segment_prefix`]). Not 0.
    fn job(&self) -> u64;

    /// Publishes `value` for all peers, who see it after the next fence.
    /// Each key is published once.
    fn put(&self, key: &str, value: &[u8]) -> Result<(), BootError>;

    /// Commits what was put and waits for all ranks of the job. `idle` is
    /// called again and again meanwhile; it drives network progress.
    ///
    /// # Errors
    /// [`BootError::PeerDied`] when a rank ended before it came,
    /// [`BootError::TimedOut`] naming the missing where the launcher tells.
    fn fence(&self, idle: &mut dyn FnMut()) -> Result<(), BootError>;

    /// Returns true if all ranks of the job are sure to come to a [`meet`](Boot::meet),
    /// the same on all of them.
    fn meets(&self) -> bool {
        true
    }

    /// Waits for all ranks of the job, also where [`fence`](Boot::fence) only commits
    /// and the launcher waits later. For who [`meets`](Boot::meets).
    ///
    /// # Errors
    /// As [`Boot::fence`].
    fn meet(&self) -> Result<(), BootError> {
        self.fence(&mut || {})
    }

    /// Commits what was put, and waits for nobody: peers that ask for it by
    /// other ways than a fence wait for it themselves.
    ///
    /// # Errors
    /// The launcher's refusal.
    fn commit(&self) -> Result<(), BootError> {
        Ok(())
    }

    /// The value `rank` published under `key` before the last fence.
    fn get(&self, rank: u32, key: &str) -> Result<Vec<u8>, BootError>;

    /// Node of `rank`, a dense number from 0 that all processes agree on.
    /// Answers for any rank at any time; asked in rank order it streams into
    /// a compressed map.
    fn node_of(&self, rank: u32) -> Result<u32, BootError>;

    /// The nodes of all ranks at once, where that is known without a question for each.
    /// The same kind of answer on all processes.
    fn placement(&self) -> Result<Placement, BootError> {
        Ok(Placement::Listed)
    }

    /// What was [`Supposed`](Placement::Supposed) is so, as all processes have found.
    fn confirm_placement(&self) {}

    /// Returns true if `rank` is on this process's node.
    fn is_local(&self, rank: u32) -> Result<bool, BootError> {
        Ok(self.node_of(rank)? == self.node_of(self.rank())?)
    }

    /// Values this process has asked the launcher for so far, where they are counted.
    fn questions(&self) -> Option<u64> {
        None
    }

    /// Ends every process of the job, this one with `code`.
    fn abort(&self, code: i32, reason: &str) -> !;

    /// Says goodbye to the launcher and removes this process's leftovers from
    /// `/dev/shm`. Calls after the first do nothing.
    fn finalize(&self) -> Result<(), BootError>;

    /// How `rank` ended, where the launcher tells those who ask.
    fn fate(&self, _rank: u32) -> Fate {
        Fate::Unknown
    }

    /// One past the largest number of any process this one may speak to. More
    /// than `size` where processes of other jobs can be met: those have numbers
    /// from `size` on, each process its own, and are asked for with
    /// [`get`](Boot::get) like members.
    fn universe(&self) -> u32 {
        self.other_jobs().map_or_else(|| self.size(), OtherJobs::end)
    }

    /// Returns true if some process has a number that is no rank of this job.
    fn has_met(&self) -> bool {
        self.other_jobs().is_some_and(OtherJobs::has_met)
    }

    /// What processes of other jobs are told this one is: a name that is the
    /// same for all of them, from 2³¹ on.
    fn name(&self) -> u32 {
        self.other_jobs().map_or_else(|| self.rank(), OtherJobs::name)
    }

    /// Resolves the name of a process of another job to its number here, given
    /// out now if it was not known.
    fn resolve_name(&self, name: u32) -> Option<u32> {
        self.other_jobs()?.resolve_name(name)
    }

    /// What is kept of processes of other jobs, where they can be met and no launcher tells
    /// of them. The first packet to one of them introduces this process.
    fn other_jobs(&self) -> Option<&OtherJobs> {
        None
    }

    /// What carries the set-up channel where all ranks share this process.
    fn channel(&self) -> Option<&Channel> {
        None
    }

    /// Returns true if all ranks run on this machine, so that listening sockets
    /// can stay on the loopback. Simulated nodes share a machine.
    fn one_machine(&self) -> Result<bool, BootError> {
        let home = self.node_of(self.rank())?;
        for rank in 0..self.size() {
            if self.node_of(rank)? != home {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// World ranks on this process's node, ascending, this one included.
    /// Looks at every rank of the job where there is no [`placement`](Boot::placement).
    fn local_ranks(&self) -> Result<Vec<u32>, BootError> {
        ranks_here(self)
    }
}

/// [`Boot::local_ranks`], by the rule where there is one, else by a question for each rank.
fn ranks_here<B: Boot + ?Sized>(boot: &B) -> Result<Vec<u32>, BootError> {
    if let Placement::Dealt(dealt) = boot.placement()? {
        return Ok(dealt.ranks_of(dealt.node_of(boot.rank()), boot.size()).collect());
    }
    let home = boot.node_of(boot.rank())?;
    let mut ranks = Vec::new();
    for rank in 0..boot.size() {
        if boot.node_of(rank)? == home {
            ranks.push(rank);
        }
    }
    Ok(ranks)
}

/// The processes of the job on this node, by rank, and whether each has ended;
/// `None` where some cannot be seen from here.
pub(crate) fn neighbours(boot: &dyn Boot) -> Option<Vec<(u32, ProcessId, bool)>> {
    let me = ProcessId::current();
    let seen = |rank| {
        let process = ContactInfo::decode(&boot.get(rank, contact_info::KEY).ok()?)?.process;
        let visible = liveness::visible(&me, &process);
        visible.then(|| (rank, process, liveness::has_ended(&process)))
    };
    boot.local_ranks().ok()?.into_iter().map(seen).collect()
}

/// Returns true if a launcher started this process: [`connect`] would find
/// peers without forking any.
pub fn launched() -> bool {
    match BOOT.get() {
        Some(name) => name == "pmix" || name == "pmi1",
        None => in_pmix() || pmi1::present(),
    }
}

/// The process's one connection to its launcher: launchers greet a process
/// only once, so later calls share it.
static CONNECTED: Mutex<Option<Arc<dyn Boot>>> = Mutex::new(None);

/// Connects to whatever started this process.
///
/// ```no_run
/// let boot = rankway::boot::connect()?;
/// println!("rank {} of {}, launched by {}", boot.rank(), boot.size(), boot.launcher());
/// # Ok::<(), rankway::boot::BootError>(())
/// ```
///
/// `RANKWAY_BOOT=local|pmix|pmi1|alone` forces the choice. A second call
/// returns the first call's boot.
///
/// # Errors
/// A launcher that is there but cannot be reached, with what to install; a
/// forced launcher that is not there.
pub fn connect() -> Result<Arc<dyn Boot>, BootError> {
    let mut connected = CONNECTED.lock().unwrap_or_else(|poison| poison.into_inner());
    if let Some(boot) = &*connected {
        return Ok(boot.clone());
    }
    crate::netmod::check_settings()?;
    sweep_stale();
    let boot: Arc<dyn Boot> = match BOOT.get() {
        None if in_pmix() => connect_pmix()?,
        None if pmi1::present() => Arc::new(pmi1::Pmi1::connect()?),
        None | Some("alone") => Arc::new(alone::Alone::new()?),
        Some("pmix") => connect_pmix()?,
        Some("pmi1") => Arc::new(pmi1::Pmi1::connect()?),
        // `local`, as the settings were checked.
        Some(_) => {
            return Err(BootError::Options(
                "RANKWAY_BOOT=local, but this process was not forked by boot::local::run; \
                 let the program fork its ranks itself"
                    .into(),
            ));
        }
    };
    *connected = Some(boot.clone());
    Ok(boot)
}

/// Makes `boot` the answer of [`connect`] in this process.
fn install(boot: Arc<dyn Boot>) {
    *CONNECTED.lock().unwrap_or_else(|poison| poison.into_inner()) = Some(boot);
}

fn in_pmix() -> bool {
    std::env::var_os("PMIX_NAMESPACE").is_some() && std::env::var_os("PMIX_RANK").is_some()
}

#[cfg(feature = "pmix")]
fn connect_pmix() -> Result<Arc<dyn Boot>, BootError> {
    Ok(Arc::new(pmix::Pmix::connect()?))
}

#[cfg(not(feature = "pmix"))]
fn connect_pmix() -> Result<Arc<dyn Boot>, BootError> {
    Err(BootError::Launcher {
        launcher: "pmix",
        call: "connect".into(),
        why: "this build has no PMIx support".into(),
        hint: "build with the `pmix` feature, or start with MPICH's mpiexec".into(),
    })
}

fn check_rank(rank: u32, size: u32) -> Result<(), BootError> {
    if rank < size { Ok(()) } else { Err(BootError::Rank { rank, size }) }
}
