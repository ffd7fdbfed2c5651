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
use rankway::boot::{Boot, BootError, sweep_process, sweep_stale};
use std::collections::HashMap;
use std::ffi::{CStr, CString, c_int, c_void};
use std::fmt;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
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

/// Processes of other jobs, numbered in the order of their first use, from the
/// job's size on.
#[derive(Default)]
struct OtherJobs {
    names: Vec<Name>,
    numbers: HashMap<Name, u32>,
}

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
    other_jobs: Mutex<OtherJobs>,
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
        Modex {
            me: Name { jobid, vpid },
            size,
            one_node: peers + 1 >= size,
            hosts: OnceLock::new(),
            other_jobs: Mutex::default(),
            published: Mutex::default(),
            // SAFETY: no arguments.
            meets: meets && unsafe { ffi::rw_modex_meets() },
        }
    }

    /// The number of a process: its rank in this job, or the one it has here as
    /// a process of another. `None` for those of another `mpirun`, and for too
    /// large jobs.
    pub(crate) fn number(&self, name: Name) -> Option<u32> {
        if name.jobid == self.me.jobid {
            return (name.vpid < self.size).then_some(name.vpid);
        }
        let family = name.jobid >> 16 == self.me.jobid >> 16;
        if !family || name.jobid & 0xffff > JOBS || name.vpid > RANKS {
            return None;
        }
        let mut other_jobs = self.other_jobs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&number) = other_jobs.numbers.get(&name) {
            return Some(number);
        }
        let number = self.size + other_jobs.names.len() as u32;
        if number >= self.universe() {
            return None;
        }
        other_jobs.names.push(name);
        other_jobs.numbers.insert(name, number);
        Some(number)
    }

    /// The name of a process by its number.
    pub(crate) fn name_of(&self, number: u32) -> Option<Name> {
        if number < self.size {
            return Some(Name { vpid: number, ..self.me });
        }
        let other_jobs = self.other_jobs.lock().unwrap_or_else(PoisonError::into_inner);
        other_jobs.names.get((number - self.size) as usize).copied()
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
        // SAFETY: a live place for a C string that is ours then.
        let code = unsafe { ffi::rw_modex_host(self.me.jobid, rank, &mut name) };
        self.check(&format!("the host of rank {rank}"), code)?;
        if name.is_null() {
            return Err(refusal(&format!("the host of rank {rank}"), "not known"));
        }
        // SAFETY: a C string of malloc's, freed once.
        let host = unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
        // SAFETY: as above.
        unsafe { ffi::rw_free(name.cast()) };
        Ok(host)
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
        let nameable = self.me.jobid & 0xffff <= JOBS && self.size <= RANKS + 1;
        self.size + if nameable { MAX_OTHER_PROCESSES } else { 0 }
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

    fn abort(&self, code: i32, reason: &str) -> ! {
        abort_with(code, reason)
    }

    fn finalize(&self) -> Result<(), BootError> {
        sweep_process(std::process::id(), self.job());
        Ok(())
    }
}
