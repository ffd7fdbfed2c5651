//! What of this machine matters: limits, shared memory, what may be measured.

use rankway_cli::observe::perf;
use rankway_cli::observe::step::Region;
use serde::Serialize;
use std::ffi::CStr;

/// Limits and abilities; `None` where the system does not say.
#[derive(Serialize)]
pub(super) struct Machine {
    pub(super) processors: usize,
    pub(super) kernel: Option<String>,
    pub(super) architecture: &'static str,
    pub(super) memory_bytes: Option<u64>,
    /// Memory that may be locked, which registration over RDMA needs; null for
    /// no limit.
    pub(super) locked_memory_bytes: Option<u64>,
    /// Files and sockets that may be open; null for no limit.
    pub(super) open_files: Option<u64>,
    pub(super) shm_bytes: Option<u64>,
    pub(super) shm_free_bytes: Option<u64>,
    /// RDMA devices the kernel has.
    pub(super) rdma_devices: Vec<String>,
    /// Whether instructions can be counted by single-stepping a child.
    pub(super) ptrace: bool,
    pub(super) ptrace_error: Option<String>,
    /// Whether the processor's own counters can be read.
    pub(super) hardware_counters: bool,
    pub(super) hardware_counters_error: Option<String>,
}

impl Machine {
    pub(super) fn look() -> Machine {
        let ptrace = probe_ptrace();
        let ((), counts) = perf::measure(|| {
            std::hint::black_box((0..1000_u64).sum::<u64>());
        });
        let (shm_bytes, shm_free_bytes) = space(c"/dev/shm").unzip();
        Machine {
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: first_line("/proc/sys/kernel/osrelease"),
            architecture: std::env::consts::ARCH,
            memory_bytes: memory(),
            locked_memory_bytes: limit(libc::RLIMIT_MEMLOCK),
            open_files: limit(libc::RLIMIT_NOFILE),
            shm_bytes,
            shm_free_bytes,
            rdma_devices: names_in("/sys/class/infiniband"),
            ptrace: ptrace.is_ok(),
            ptrace_error: ptrace.err(),
            hardware_counters: counts.instructions.is_some(),
            hardware_counters_error: counts.missing,
        }
    }
}

/// Steps through a function of a few instructions, as `rankway count` does.
fn probe_ptrace() -> Result<(), String> {
    #[inline(never)]
    fn stepped(x: u64) -> u64 {
        std::hint::black_box(x)
    }
    let region = Region::function(stepped as *const () as usize);
    let trace = region.trace(|| {
        std::hint::black_box(stepped(std::hint::black_box(7)));
    });
    trace.map(drop).map_err(|e| e.to_string())
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
type Resource = libc::__rlimit_resource_t;
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
type Resource = libc::c_int;

/// The soft limit of a resource; `None` for no limit.
fn limit(resource: Resource) -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: getrlimit fills the structure it is given.
    let asked = unsafe { libc::getrlimit(resource, &mut limit) } == 0;
    (asked && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}

/// Size and free bytes of a file system.
fn space(path: &CStr) -> Option<(u64, u64)> {
    let mut found = std::mem::MaybeUninit::<libc::statvfs>::zeroed();
    // SAFETY: `path` is a C string and `found` is a structure statvfs(3) fills;
    // all zeroes is a valid one.
    let found = unsafe {
        (libc::statvfs(path.as_ptr(), found.as_mut_ptr()) == 0).then(|| found.assume_init())
    }?;
    Some((found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize))
}

fn memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? << 10)
}

fn first_line(path: &str) -> Option<String> {
    Some(std::fs::read_to_string(path).ok()?.trim().to_owned())
}

fn names_in(folder: &str) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}
