//! The launcher, as MPICH knows it: its PMI and its map of nodes.
//!
//! MPICH has met the launcher before the netmod is opened. Values go through its
//! key-value space in pieces ([`kvs`]); a fence is its barrier.

use crate::host;
use crate::log::{abort, text};
use crate::nodes;
use rankway::boot::alone::Alone;
use rankway::boot::{ADDRESSES_KEY, Boot, BootError, OtherJobs, kvs, sweep_process, sweep_stale};
use std::collections::HashSet;
use std::ffi::{CStr, c_int};
use std::sync::{Arc, Mutex, PoisonError};

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
    pub(crate) other_jobs: OtherJobs,
    /// A job of this process, which may have no launcher.
    alone: Option<Alone>,
}

impl Pmi {
    pub(crate) fn new(rank: u32, size: u32, space: &str) -> Result<Pmi, BootError> {
        let (mut key, mut value) = (0, 0);
        // SAFETY: two live places.
        unsafe { host::rkw_host_limits(&mut key, &mut value) };
        // A process of this number that was killed may have left segments.
        sweep_stale();
        // (Process managers read lines of 1024 bytes, names and all.)
        let piece = (value.max(32) as usize - 24).min(600);
        let alone = (size == 1).then(Alone::new).transpose()?;
        let job = alone.as_ref().map_or_else(|| kvs::job_of(space), Boot::job);
        Ok(Pmi {
            rank,
            size,
            job,
            alone,
            other_jobs: OtherJobs::new(job, size, rank),
            limits: kvs::Limits { key: key.max(16) as usize, piece },
            value: value.max(32) as usize + 1,
            published: Mutex::default(),
        })
    }

    /// Makes this the process's, or none.
    pub(crate) fn set_current(pmi: Option<Arc<Pmi>>) {
        *CURRENT.lock().unwrap_or_else(PoisonError::into_inner) = pmi;
    }

    /// The process's, while its device is open.
    pub(crate) fn current() -> Option<Arc<Pmi>> {
        CURRENT.lock().unwrap_or_else(PoisonError::into_inner).clone()
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

    fn other_jobs(&self) -> Option<&OtherJobs> {
        Some(&self.other_jobs)
    }

    fn put(&self, key: &str, value: &[u8]) -> Result<(), BootError> {
        // No launcher's store is between jobs.
        if key == ADDRESSES_KEY {
            return self.other_jobs.publish(value);
        }
        if let Some(alone) = &self.alone {
            return alone.put(key, value);
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
        if self.alone.is_some() {
            return Ok(());
        }
        // SAFETY: no arguments.
        check("barrier", unsafe { host::rkw_host_barrier() })
    }

    fn get(&self, rank: u32, key: &str) -> Result<Vec<u8>, BootError> {
        if rank >= self.size {
            let value = self.other_jobs.get(rank, key);
            return value.ok_or_else(|| BootError::NotPublished { rank, key: key.into() });
        }
        if let Some(alone) = &self.alone {
            return alone.get(rank, key);
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
