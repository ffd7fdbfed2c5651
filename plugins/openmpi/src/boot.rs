//! The launcher, as Open MPI knows it: names of processes and the modex.
//!
//! Open MPI connects to the launcher long before components are opened, and
//! exchanges what all of them published once, after they were opened. So a fence
//! here commits and does not wait. Ranks whose messages go this way meet before,
//! by a fence of their own, which ends the job where one does not take part: its
//! messages would go another way. Values are fetched one peer at a time; the store
//! answers once the peer has committed.

use crate::ffi;
use crate::log::abort_with;
use rankway::boot::{
    Boot, BootError, Dealt, Jobs, Placement, parse_local_peers, sweep_process, sweep_stale,
};
use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// A process's name: its job and its rank there. The upper half of a job's
/// number is that of its `mpirun`, the lower counts what that started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Name {
    pub(crate) jobid: u32,
    pub(crate) vpid: u32,
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Name { jobid, vpid } = self;
        write!(f, "rank {vpid} of job {}.{}", jobid >> 16, jobid & 0xffff)
    }
}

/// The most processes of other jobs that this one can number.
const MAX_OTHER_PROCESSES: u32 = 1 << 20;
/// Set in the names of processes of other jobs in packets; below are 15 bits of
/// their job and 16 of their rank there.
const OTHER_JOB: u32 = 1 << 31;
const JOBS: u32 = 0x7fff;
const RANKS: u32 = 0xffff;

/// How long a rank waits for the others of its job at their start.
const MEETING: Duration = Duration::from_secs(120);

/// How a meeting went: a code of Open MPI's, or [`NOT_YET`].
type Met = AtomicI32;
const NOT_YET: c_int = c_int::MAX;

/// All ranks came.
unsafe extern "C" fn came(code: c_int, met: *mut c_void) {
    // SAFETY: the place that `meet` gave, which stays.
    unsafe { &*met.cast::<Met>() }.store(code, Ordering::Release);
}

/// [`Boot`] over Open MPI's modex.
pub(crate) struct Modex {
    me: Name,
    size: u32,
    one_node: bool,
    /// Hosts in the order of the ranks.
    hosts: OnceLock<HashMap<String, u32>>,
    /// Ranks of this node, rising, where they are not all and the launcher says.
    local: Option<Vec<u32>>,
    /// Processes of other jobs, numbered from the job's size on.
    other_jobs: Mutex<Jobs>,
    /// Values asked for.
    questions: AtomicU64,
    published: Mutex<Vec<String>>,
    /// The other ranks are sure to meet, too.
    meets: bool,
}

impl Modex {
    /// This process's own view; `meets` if the others open one for their messages,
    /// too.
    pub(crate) fn new(meets: bool) -> Modex {
        let (mut jobid, mut vpid, mut size, mut peers) = (0, 0, 0, 0);
        // SAFETY: four live places.
        unsafe { ffi::rw_process(&mut jobid, &mut vpid, &mut size, &mut peers) };
        // A process of this number that was killed may have left segments of
        // libfabric's, which stand in the way of ours.
        sweep_stale();
        let one_node = peers + 1 >= size;
        Modex {
            me: Name { jobid, vpid },
            size,
            one_node,
            hosts: OnceLock::new(),
            local: if one_node { None } else { local_peers(vpid, size) },
            other_jobs: Mutex::new(Jobs::new(size..universe(jobid, size))),
            questions: AtomicU64::new(u64::from(!one_node)),
            published: Mutex::default(),
            // SAFETY: no arguments.
            meets: meets && unsafe { ffi::rw_modex_meets() },
        }
    }

    /// The number of a process: its rank in this job, or the one it has here as
    /// a process of another, which is met now if it was not. `None` for those of another
    /// `mpirun`, and for too large jobs.
    pub(crate) fn number(&self, name: Name) -> Option<u32> {
        if name.jobid == self.me.jobid {
            return (name.vpid < self.size).then_some(name.vpid);
        }
        let mut jobs = self.other_jobs();
        let id = u64::from(name.jobid);
        if !jobs.knows(id) {
            if !self.is_nameable(name) {
                return None;
            }
            jobs.meet(id, job_size(name.jobid).max(name.vpid + 1))?;
        }
        jobs.number(id, name.vpid)
    }

    /// Returns true if a process of another job can have a name in packets.
    fn is_nameable(&self, Name { jobid, vpid }: Name) -> bool {
        jobid >> 16 == self.me.jobid >> 16 && jobid & 0xffff <= JOBS && vpid <= RANKS
    }

    /// Returns true if a process is of a job that was not met yet, or was forgotten.
    pub(crate) fn is_news(&self, name: Name) -> bool {
        name.jobid != self.me.jobid && !self.other_jobs().knows(name.jobid.into())
    }

    /// A communicator has members in another job, which was met.
    pub(crate) fn hold(&self, jobid: u32) {
        self.other_jobs().hold(jobid.into());
    }

    /// A communicator that had is gone.
    pub(crate) fn release(&self, jobid: u32) {
        self.other_jobs().release(jobid.into());
    }

    /// Forgets the jobs in which no communicator has members, where `forget` agrees, given
    /// the numbers of its processes.
    pub(crate) fn forget_idle(&self, mut forget: impl FnMut(Range<u32>) -> bool) {
        let idle = self.other_jobs().idle();
        for (id, numbers) in idle {
            if forget(numbers) {
                self.other_jobs().forget(id);
            }
        }
    }

    /// The name of a process by its number.
    pub(crate) fn name_of(&self, number: u32) -> Option<Name> {
        if number < self.size {
            return Some(Name { vpid: number, ..self.me });
        }
        self.name_elsewhere(number)
    }

    /// The same, `None` of members of this job.
    pub(crate) fn name_elsewhere(&self, number: u32) -> Option<Name> {
        let (jobid, vpid) = self.other_jobs().process(number)?;
        Some(Name { jobid: jobid as u32, vpid })
    }

    fn other_jobs(&self) -> MutexGuard<'_, Jobs> {
        self.other_jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check(&self, call: &str, code: c_int) -> Result<(), BootError> {
        match code {
            ffi::SUCCESS => Ok(()),
            code => Err(refusal(call, &format!("error {code}"))),
        }
    }

    fn check_rank(&self, rank: u32) -> Result<(), BootError> {
        let size = self.size;
        if rank < size { Ok(()) } else { Err(BootError::Rank { rank, size }) }
    }

    fn host(&self, rank: u32) -> Result<String, BootError> {
        let mut name = std::ptr::null_mut();
        self.questions.fetch_add(1, Ordering::Relaxed);
        // SAFETY: a live place for a C string that is ours then.
        let code = unsafe { ffi::rw_modex_host(self.me.jobid, rank, &mut name) };
        self.check(&format!("the host of rank {rank}"), code)?;
        // SAFETY: null, or a C string of malloc's.
        let host = unsafe { owned_text(name) };
        host.ok_or_else(|| refusal(&format!("the host of rank {rank}"), "not known"))
    }

    fn hosts(&self) -> Result<&HashMap<String, u32>, BootError> {
        if let Some(hosts) = self.hosts.get() {
            return Ok(hosts);
        }
        let mut hosts = HashMap::new();
        for rank in 0..self.size {
            let next = hosts.len() as u32;
            hosts.entry(self.host(rank)?).or_insert(next);
        }
        Ok(self.hosts.get_or_init(|| hosts))
    }
}

/// A text that Open MPI gave, which is freed; `None` for null.
///
/// # Safety
/// Null, or a C string of malloc's that is used no more.
unsafe fn owned_text(text: *mut c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: by contract, freed once.
    unsafe {
        let owned = CStr::from_ptr(text).to_string_lossy().into_owned();
        ffi::rw_free(text.cast());
        Some(owned)
    }
}

/// The ranks of this process's node, rising, where the launcher lists them.
fn local_peers(rank: u32, size: u32) -> Option<Vec<u32>> {
    let mut list = std::ptr::null_mut();
    // SAFETY: a live place for a C string that is ours then, or null.
    let list = unsafe {
        ffi::rw_modex_local_peers(&mut list);
        owned_text(list)
    };
    parse_local_peers(&list?, rank, size)
}

/// How many processes another job has; as many as can have a name where the launcher does not
/// tell.
fn job_size(jobid: u32) -> u32 {
    let mut size = 0;
    // SAFETY: a live place.
    let code = unsafe { ffi::rw_modex_job_size(jobid, &mut size) };
    if code == ffi::SUCCESS && (1..=RANKS + 1).contains(&size) { size } else { RANKS + 1 }
}

/// One past the last number of any process in a job of `size`.
fn universe(jobid: u32, size: u32) -> u32 {
    let nameable = jobid & 0xffff <= JOBS && size <= RANKS + 1;
    size + if nameable { MAX_OTHER_PROCESSES } else { 0 }
}

/// Not 0, and unlike the random numbers of other launchers.
fn job_number(jobid: u32) -> u64 {
    u64::from(jobid) | 0x6f6d_7069 << 32
}

fn refusal(call: &str, why: &str) -> BootError {
    BootError::Launcher {
        launcher: "openmpi",
        call: call.into(),
        why: why.into(),
        hint: "see what Open MPI itself reports".into(),
    }
}

fn c_key(key: &str) -> CString {
    ffi::text(key)
}

impl Boot for Modex {
    fn launcher(&self) -> &'static str {
        "openmpi"
    }

    fn rank(&self) -> u32 {
        self.me.vpid
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn universe(&self) -> u32 {
        universe(self.me.jobid, self.size)
    }

    fn has_met(&self) -> bool {
        self.other_jobs().met().next().is_some()
    }

    fn name(&self) -> u32 {
        OTHER_JOB | (self.me.jobid & JOBS) << 16 | self.me.vpid & RANKS
    }

    fn resolve_name(&self, name: u32) -> Option<u32> {
        if name & OTHER_JOB == 0 {
            return None;
        }
        let jobid = self.me.jobid & 0xffff_0000 | name >> 16 & JOBS;
        self.number(Name { jobid, vpid: name & RANKS })
    }

    fn job(&self) -> u64 {
        job_number(self.me.jobid)
    }

    fn put(&self, key: &str, value: &[u8]) -> Result<(), BootError> {
        let mut published = self.published.lock().unwrap_or_else(PoisonError::into_inner);
        if published.iter().any(|known| known == key) {
            return Err(BootError::Twice { key: key.into() });
        }
        // SAFETY: the value is copied before the call returns.
        let code =
            unsafe { ffi::rw_modex_put(c_key(key).as_ptr(), value.as_ptr().cast(), value.len()) };
        self.check(&format!("publishing {key}"), code)?;
        published.push(key.into());
        Ok(())
    }

    fn fence(&self, _idle: &mut dyn FnMut()) -> Result<(), BootError> {
        self.commit()
    }

    fn meets(&self) -> bool {
        self.meets
    }

    fn meet(&self) -> Result<(), BootError> {
        let met: &'static Met = Box::leak(Box::new(Met::new(NOT_YET)));
        // SAFETY: a function that outlives the call, and a place that stays.
        let mut code = unsafe { ffi::rw_modex_meet(Some(came), std::ptr::from_ref(met) as *mut _) };
        let start = Instant::now();
        while code == ffi::SUCCESS {
            match met.load(Ordering::Acquire) {
                NOT_YET if start.elapsed() < MEETING => {
                    std::thread::sleep(Duration::from_micros(100));
                }
                NOT_YET => code = NOT_YET,
                ffi::SUCCESS => return Ok(()),
                refused => code = refused,
            }
        }
        // Open MPI's own fences do not fit any more.
        let how = match code {
            NOT_YET => format!("waited {MEETING:?} for the other ranks at the start"),
            code => format!("cannot meet the other ranks at the start: error {code}"),
        };
        let remedy = "is the mtl rankway installed, and chosen alike, for all of them?";
        abort_with(1, &format!("rank {} {how}; {remedy}", self.me.vpid))
    }

    fn commit(&self) -> Result<(), BootError> {
        // SAFETY: no arguments.
        let code = unsafe { ffi::rw_modex_commit() };
        self.check("committing what was published", code)
    }

    fn get(&self, rank: u32, key: &str) -> Result<Vec<u8>, BootError> {
        let size = self.size;
        let Name { jobid, vpid } = self.name_of(rank).ok_or(BootError::Rank { rank, size })?;
        let (mut start, mut len) = (std::ptr::null_mut(), 0);
        self.questions.fetch_add(1, Ordering::Relaxed);
        // SAFETY: live places for an allocation that is ours then.
        let code =
            unsafe { ffi::rw_modex_get(jobid, vpid, c_key(key).as_ptr(), &mut start, &mut len) };
        if code != ffi::SUCCESS || start.is_null() {
            return Err(BootError::NotPublished { rank, key: key.into() });
        }
        // SAFETY: `len` bytes of malloc's, freed once.
        let value = unsafe { std::slice::from_raw_parts(start.cast::<u8>(), len) }.to_vec();
        // SAFETY: as above.
        unsafe { ffi::rw_free(start) };
        Ok(value)
    }

    fn node_of(&self, rank: u32) -> Result<u32, BootError> {
        self.check_rank(rank)?;
        if self.one_node {
            return Ok(0);
        }
        let number = self.hosts()?.get(&self.host(rank)?).copied();
        number.ok_or_else(|| refusal(&format!("the host of rank {rank}"), "it has changed"))
    }

    fn placement(&self) -> Result<Placement, BootError> {
        Ok(match Dealt::new(self.size, 1).filter(|_| self.one_node) {
            Some(whole) => Placement::Dealt(whole),
            // The others may never come where they do not meet.
            None if self.meets => Placement::OwnNode,
            None => Placement::Listed,
        })
    }

    fn is_local(&self, rank: u32) -> Result<bool, BootError> {
        self.check_rank(rank)?;
        match &self.local {
            _ if self.one_node => Ok(true),
            Some(local) => Ok(local.binary_search(&rank).is_ok()),
            None => Ok(self.host(rank)? == self.host(self.me.vpid)?),
        }
    }

    fn local_ranks(&self) -> Result<Vec<u32>, BootError> {
        match &self.local {
            Some(local) => Ok(local.clone()),
            None => (0..self.size)
                .filter_map(|rank| self.is_local(rank).map(|here| here.then_some(rank)).transpose())
                .collect(),
        }
    }

    fn one_machine(&self) -> Result<bool, BootError> {
        Ok(self.one_node)
    }

    fn questions(&self) -> Option<u64> {
        Some(self.questions.load(Ordering::Relaxed))
    }

    fn abort(&self, code: i32, reason: &str) -> ! {
        abort_with(code, reason)
    }

    fn finalize(&self) -> Result<(), BootError> {
        sweep_process(std::process::id(), self.job());
        Ok(())
    }
}
