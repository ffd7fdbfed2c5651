//! Peers as a device layer knows them: its functions as a [`Boot`].

use crate::abi::rankway_boot_t;
use crate::error::Fail;
use std::collections::HashSet;
use std::ffi::{CString, c_char, c_void};
use std::io::Write;
use std::sync::{Mutex, PoisonError};
use transport::boot::{ADDRESSES_KEY, Boot, BootError, OtherJobs};

/// The caller's functions. They may be called by any thread of the caller's
/// that calls Rankway.
pub(crate) struct Caller {
    table: rankway_boot_t,
    put: Put,
    get: Get,
    fence: unsafe extern "C" fn(*mut c_void) -> i32,
    node: unsafe extern "C" fn(*mut c_void, u32) -> u32,
    keys: Mutex<HashSet<String>>,
    other_jobs: OtherJobs,
}

type Put = unsafe extern "C" fn(*mut c_void, *const c_char, *const c_void, usize) -> i32;
type Get =
    unsafe extern "C" fn(*mut c_void, u32, *const c_char, *mut c_void, usize, *mut usize) -> i32;

// SAFETY: the caller of `rankway_init` answers that its functions may be called
// by every thread that calls Rankway; `self_` is only given back to them.
unsafe impl Send for Caller {}
// SAFETY: as above.
unsafe impl Sync for Caller {}

impl Caller {
    pub(crate) const LAUNCHER: &str = "caller";

    pub(crate) fn new(table: rankway_boot_t) -> Result<Caller, Fail> {
        let missing = |what: &str| Fail::null(&format!("{what} of the rankway_boot_t"));
        if table.size == 0 || table.rank >= table.size || table.job == 0 {
            let (rank, size, job) = (table.rank, table.size, table.job);
            let why = format!("a rankway_boot_t with rank {rank} of {size} in job {job}");
            return Err(Fail::new(crate::abi::rankway_code::RANKWAY_ERR_ARG, why));
        }
        Ok(Caller {
            put: table.put.ok_or_else(|| missing("put"))?,
            get: table.get.ok_or_else(|| missing("get"))?,
            fence: table.fence.ok_or_else(|| missing("fence"))?,
            node: table.node.ok_or_else(|| missing("node"))?,
            other_jobs: OtherJobs::new(table.job, table.size, table.rank),
            table,
            keys: Mutex::default(),
        })
    }
}

fn key_of(key: &str) -> Result<CString, BootError> {
    let bad = |_| BootError::Options(format!("the key `{key}` has a zero in it"));
    CString::new(key).map_err(bad)
}

fn refused(call: &str, code: i32) -> BootError {
    BootError::Launcher {
        launcher: "caller",
        call: call.into(),
        why: format!("the device layer's function answered {code}"),
        hint: "see what its launcher says".into(),
    }
}

impl Boot for Caller {
    fn launcher(&self) -> &'static str {
        Caller::LAUNCHER
    }

    fn rank(&self) -> u32 {
        self.table.rank
    }

    fn size(&self) -> u32 {
        self.table.size
    }

    fn job(&self) -> u64 {
        self.table.job
    }

    fn other_jobs(&self) -> Option<&OtherJobs> {
        Some(&self.other_jobs)
    }

    fn put(&self, key: &str, value: &[u8]) -> Result<(), BootError> {
        // The caller's store is its job's.
        if key == ADDRESSES_KEY {
            return self.other_jobs.publish(value);
        }
        let name = key_of(key)?;
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        if !keys.insert(key.to_owned()) {
            return Err(BootError::Twice { key: key.into() });
        }
        drop(keys);
        // SAFETY: the caller's function, with its own pointer and good memory.
        let code = unsafe {
            (self.put)(self.table.self_, name.as_ptr(), value.as_ptr().cast(), value.len())
        };
        if code == 0 { Ok(()) } else { Err(refused("put", code)) }
    }

    fn fence(&self, idle: &mut dyn FnMut()) -> Result<(), BootError> {
        idle();
        // SAFETY: the caller's function, with its own pointer.
        match unsafe { (self.fence)(self.table.self_) } {
            0 => Ok(()),
            code => Err(refused("fence", code)),
        }
    }

    fn get(&self, rank: u32, key: &str) -> Result<Vec<u8>, BootError> {
        /// Longer than what is published here as a rule.
        const CAPACITY: usize = 1024;
        /// No launcher's values are longer.
        const MOST: usize = 1 << 26;
        let size = self.table.size;
        if rank >= size {
            return self.other_jobs.get(rank, key).ok_or(BootError::Rank { rank, size });
        }
        let name = key_of(key)?;
        let mut value = vec![0_u8; CAPACITY];
        loop {
            let (capacity, mut len) = (value.len(), 0);
            let to = value.as_mut_ptr().cast();
            // SAFETY: the caller's function, with its own pointer and as much
            // memory as it is told.
            let code = unsafe {
                (self.get)(self.table.self_, rank, name.as_ptr(), to, capacity, &raw mut len)
            };
            match code {
                0 if len <= capacity => {
                    value.truncate(len);
                    return Ok(value);
                }
                0 if len <= MOST && capacity == CAPACITY => value.resize(len, 0),
                0 => return Err(refused("get", 0)),
                _ => return Err(BootError::NotPublished { rank, key: key.into() }),
            }
        }
    }

    fn node_of(&self, rank: u32) -> Result<u32, BootError> {
        let size = self.table.size;
        if rank >= size {
            return Err(BootError::Rank { rank, size });
        }
        // SAFETY: the caller's function, with its own pointer.
        let node = unsafe { (self.node)(self.table.self_, rank) };
        if node >= size {
            let why = format!("rank {rank} is on node {node}; number nodes from 0");
            return Err(BootError::Options(why));
        }
        Ok(node)
    }

    fn abort(&self, code: i32, reason: &str) -> ! {
        if let Some(abort) = self.table.abort {
            let why = CString::new(reason.replace('\0', " ")).unwrap_or_default();
            // SAFETY: the caller's function, with its own pointer.
            unsafe { abort(self.table.self_, code, why.as_ptr()) };
        }
        // (Who has closed its standard error is no worse off.)
        let _ = writeln!(std::io::stderr(), "rankway: aborted with code {code}: {reason}");
        // SAFETY: ends the process at once, without handlers that may wait.
        unsafe { libc::_exit(code) }
    }

    fn finalize(&self) -> Result<(), BootError> {
        transport::boot::sweep_process(std::process::id(), self.table.job);
        Ok(())
    }
}
