//! The launcher, as MPICH knows it: its PMI and its map of nodes.
//!
//! MPICH has met the launcher before the netmod is opened. Values go through its
//! key-value space in pieces ([`kvs`]); a fence is its barrier.

use crate::host;
use crate::log::{abort, text};
use crate::nodes;
use rankway::boot::{
    ADDRESSES_KEY, Boot, BootError, Introduction, Introductions, ProcessId, Unmet, kvs,
    sweep_process, sweep_stale,
};
use std::collections::HashSet;
use std::ffi::{CStr, c_int};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// The most processes of other jobs that this one can number.
const MAX_OTHER_PROCESSES: u32 = 1 << 20;

/// That of this process, while the device is open: for communicators' maps.
static CURRENT: Mutex<Option<Arc<Pmi>>> = Mutex::new(None);

/// [`Boot`] over MPICH's PMI.
pub(crate) struct Pmi {
    rank: u32,
    size: u32,
    job: u64,
    limits: kvs::Limits,
    /// Bytes of a value with the zero that ends it.
    value: usize,
    published: Mutex<HashSet<String>>,
    /// Numbered from the job's size on.
    other_jobs: Mutex<Introductions>,
    /// This process's addresses for them.
    addresses: OnceLock<Vec<u8>>,
}

impl Pmi {
    pub(crate) fn new(rank: u32, size: u32, space: &str) -> Pmi {
        let (mut key, mut value) = (0, 0);
        // SAFETY: two live places.
        unsafe { host::rkw_host_limits(&mut key, &mut value) };
        // A process of this number that was killed may have left segments.
        sweep_stale();
        // (Process managers read lines of 1024 bytes, names and all.)
        let piece = (value.max(32) as usize - 24).min(600);
        let job = kvs::job_of(space);
        let numbers = size..size.saturating_add(MAX_OTHER_PROCESSES);
        Pmi {
            rank,
            size,
            job,
            other_jobs: Mutex::new(Introductions::new(job, size, numbers)),
            addresses: OnceLock::new(),
            limits: kvs::Limits { key: key.max(16) as usize, piece },
            value: value.max(32) as usize + 1,
            published: Mutex::default(),
        }
    }

    /// Makes this the process's, or none.
    pub(crate) fn set_current(pmi: Option<Arc<Pmi>>) {
        *CURRENT.lock().unwrap_or_else(PoisonError::into_inner) = pmi;
    }

    /// The process's, while its device is open.
    pub(crate) fn current() -> Option<Arc<Pmi>> {
        CURRENT.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns true if some process has a number that is no rank of this job.
    pub(crate) fn has_met(&self) -> bool {
        !self.other_jobs().is_empty()
    }

    /// What other jobs are told of this process, once it has addresses for them.
    pub(crate) fn own_introduction(&self) -> Option<Introduction> {
        Some(Introduction {
            job: self.job,
            size: self.size,
            rank: self.rank,
            process: Some(ProcessId::current()),
            addresses: self.addresses.get()?.clone(),
        })
    }

    /// That of a process of another job.
    pub(crate) fn introduction_of(&self, number: u32) -> Option<Vec<u8>> {
        self.other_jobs().of(number).map(Introduction::encode)
    }

    /// Meets a process: its number.
    pub(crate) fn meet(&self, introduction: &[u8]) -> Result<u32, Unmet> {
        self.other_jobs().meet(introduction)
    }

    /// The job of a number that is no rank of this one.
    pub(crate) fn other_job_of(&self, number: u32) -> Option<u64> {
        if number < self.size { None } else { self.other_jobs().job_of(number) }
    }

    /// A communicator has members in these other jobs.
    pub(crate) fn hold(&self, jobs: &[u64]) {
        let mut other_jobs = self.other_jobs();
        jobs.iter().for_each(|&job| other_jobs.hold(job));
    }

    /// A communicator that had is gone.
    pub(crate) fn release(&self, jobs: &[u64]) {
        let mut other_jobs = self.other_jobs();
        jobs.iter().for_each(|&job| other_jobs.release(job));
    }

    /// Forgets the jobs in which no communicator has members any more, where `forget` agrees, given
    /// the numbers of its processes.
    pub(crate) fn forget_idle(&self, mut forget: impl FnMut(Range<u32>) -> bool) {
        let idle = self.other_jobs().idle();
        for (job, numbers) in idle {
            if forget(numbers) {
                self.other_jobs().forget(job);
            }
        }
    }

    fn other_jobs(&self) -> MutexGuard<'_, Introductions> {
        self.other_jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check(&self, rank: u32) -> Result<c_int, BootError> {
        let size = self.size;
        if rank < size { Ok(rank as c_int) } else { Err(BootError::Rank { rank, size }) }
    }
}

fn refusal(call: &str, why: String) -> BootError {
    BootError::Launcher {
        launcher: "mpich",
        call: call.into(),
        why,
        hint: "see what mpiexec says; it must outlive the ranks".into(),
    }
}

fn check(call: &str, code: c_int) -> Result<(), BootError> {
    if code == 0 { Ok(()) } else { Err(refusal(call, format!("MPICH's PMI answered {code:#x}"))) }
}

impl Boot for Pmi {
    fn launcher(&self) -> &'static str {
        "mpich"
    }

    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn job(&self) -> u64 {
        self.job
    }

    fn universe(&self) -> u32 {
        self.size.saturating_add(MAX_OTHER_PROCESSES)
    }

    fn name(&self) -> u32 {
        self.other_jobs().name(self.rank)
    }

    fn resolve_name(&self, name: u32) -> Option<u32> {
        self.other_jobs().resolve_name(name)
    }

    fn introduction(&self) -> Option<Vec<u8>> {
        self.own_introduction().map(|own| own.encode())
    }

    fn accept_introduction(&self, introduction: &[u8]) -> Option<u32> {
        self.meet(introduction).ok()
    }

    fn put(&self, key: &str, value: &[u8]) -> Result<(), BootError> {
        // No launcher's store is between jobs.
        if key == ADDRESSES_KEY {
            let first = self.addresses.set(value.to_vec());
            return first.map_err(|_| BootError::Twice { key: key.into() });
        }
        let mut published = self.published.lock().unwrap_or_else(PoisonError::into_inner);
        if !published.insert(key.to_owned()) {
            return Err(BootError::Twice { key: key.into() });
        }
        self.limits.put(self.rank, key, value, |name, piece| {
            let (name, piece) = (text(name), text(piece));
            // SAFETY: two C strings.
            check("put", unsafe { host::rkw_host_put(name.as_ptr(), piece.as_ptr()) })
        })
    }

    fn fence(&self, idle: &mut dyn FnMut()) -> Result<(), BootError> {
        idle();
        // SAFETY: no arguments.
        check("barrier", unsafe { host::rkw_host_barrier() })
    }

    fn get(&self, rank: u32, key: &str) -> Result<Vec<u8>, BootError> {
        if rank >= self.size {
            let value = self.other_jobs().get(rank, key);
            return value.ok_or_else(|| BootError::NotPublished { rank, key: key.into() });
        }
        let from = self.check(rank)?;
        let ask = |name: &str| {
            let (name, mut value) = (text(name), vec![0_u8; self.value]);
            let (to, size) = (value.as_mut_ptr().cast(), self.value as c_int);
            // SAFETY: a C string, and as much memory as it is told.
            if unsafe { host::rkw_host_get(from, name.as_ptr(), to, size) } != 0 {
                return Err(BootError::NotPublished { rank, key: key.into() });
            }
            let value = CStr::from_bytes_until_nul(&value);
            Ok(value.map_or(String::new(), |text| text.to_string_lossy().into_owned()))
        };
        let wrong = |why: &str| refusal(&format!("getting {key} of rank {rank}"), why.into());
        self.limits.get(rank, key, ask, wrong)
    }

    fn node_of(&self, rank: u32) -> Result<u32, BootError> {
        nodes::node_of(rank).ok_or(BootError::Rank { rank, size: self.size })
    }

    fn abort(&self, code: i32, reason: &str) -> ! {
        abort(code, reason)
    }

    fn finalize(&self) -> Result<(), BootError> {
        sweep_process(std::process::id(), self.job);
        Ok(())
    }
}
