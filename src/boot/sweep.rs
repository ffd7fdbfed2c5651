//! Removes what ended processes left in `/dev/shm`.
//!
//! Two kinds of names are known: Rankway's own segments, which start with
//! [`segment_prefix`], and those of libfabric's shm provider, `<pid>:<domain>:<endpoint>`,
//! which it leaks when a process is killed. Anything else, anything of another
//! user and anything of a living process is left alone.

use super::os;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

const SHM: &str = "/dev/shm";

/// Start of the name of every segment of a job: `rankway-<job in 16 hex digits>-`.
///
/// A segment owned by one process should go on with `<pid>-`, so that
/// [`sweep_process`] finds it when that process is known to be gone.
pub fn segment_prefix(job: u64) -> String {
    format!("rankway-{job:016x}-")
}

/// Removes every segment of job `job`, and libfabric's segments of those of
/// `pids` that have ended. Returns how many names were removed.
///
/// Call it when all processes of the job on this machine have ended.
pub fn sweep(pids: &[u32], job: u64) -> usize {
    let prefix = segment_prefix(job);
    remove(Path::new(SHM), |name| {
        name.starts_with(&prefix)
            || libfabric_owner(name).is_some_and(|pid| pids.contains(&pid) && os::ended(pid))
    })
}

/// Removes what one process of job `job` left, others still running: segments
/// named `rankway-<job>-<pid>-…` and libfabric's. Does nothing while `pid`
/// lives, unless it is the caller.
pub fn sweep_process(pid: u32, job: u64) -> usize {
    if pid != std::process::id() && !os::ended(pid) {
        return 0;
    }
    let prefix = format!("{}{pid}-", segment_prefix(job));
    remove(Path::new(SHM), |name| name.starts_with(&prefix) || libfabric_owner(name) == Some(pid))
}

/// Removes what an ended process of this one's pid left: libfabric refuses to
/// open a segment of that name again. Those that are mapped here are in use.
pub fn sweep_own_pid() -> usize {
    let me = std::process::id();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    remove(Path::new(SHM), |name| {
        libfabric_owner(name) == Some(me) && !maps.contains(&format!("{SHM}/{name}"))
    })
}

/// The pid in a libfabric segment name.
fn libfabric_owner(name: &str) -> Option<u32> {
    let (pid, rest) = name.split_once(':')?;
    let digits = !pid.is_empty() && pid.bytes().all(|byte| byte.is_ascii_digit());
    (digits && rest.contains(':')).then(|| pid.parse().ok())?
}

fn remove(directory: &Path, ours: impl Fn(&str) -> bool) -> usize {
    // SAFETY: geteuid reads the process's credentials and cannot fail.
    let me = unsafe { libc::geteuid() };
    let Ok(entries) = std::fs::read_dir(directory) else { return 0 };
    let mut removed = 0;
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        let mine = || entry.metadata().is_ok_and(|meta| meta.is_file() && meta.uid() == me);
        if ours(name) && mine() && std::fs::remove_file(entry.path()).is_ok() {
            removed += 1;
        }
    }
    removed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libfabric_names_are_told_from_others() {
        assert_eq!(libfabric_owner("1234:0:1"), Some(1234));
        assert_eq!(libfabric_owner("1234:dom:ep"), Some(1234));
        assert_eq!(libfabric_owner("1234:x"), None);
        assert_eq!(libfabric_owner("sem.1234:0:1"), None);
        assert_eq!(libfabric_owner(":0:1"), None);
        assert_eq!(libfabric_owner("+12:0:1"), None);
    }

    #[test]
    fn only_the_job_and_the_dead_are_swept() {
        let job = super::super::os::random_job().unwrap();
        let ours = format!("{SHM}/{}a", segment_prefix(job));
        let other = format!("{SHM}/{}a", segment_prefix(job ^ 1));
        let living = format!("{SHM}/{}:0:{job:x}", std::process::id());
        for path in [&ours, &other, &living] {
            std::fs::write(path, b"x").unwrap();
        }
        assert_eq!(sweep(&[std::process::id()], job), 1);
        assert!(!Path::new(&ours).exists());
        assert!(Path::new(&other).exists() && Path::new(&living).exists());
        std::fs::remove_file(other).unwrap();
        // Of an earlier process of this number, for all that can be told.
        assert!(sweep_own_pid() >= 1);
        assert!(!Path::new(&living).exists());
    }
}
