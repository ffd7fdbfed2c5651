//! Removes what ended processes left in `/dev/shm`.
//!
//! Two kinds of names are known: Rankway's own segments, which start with
//! [`segment_prefix`], and those that a network library leaks when a process is
//! killed, whose names its netmod knows ([`segment_owner`]). Anything else and
//! anything of another user is left alone.
//!
//! A pid in a name proves nothing: `/dev/shm` may be shared by containers that
//! number their processes alike, and other parts of a program use the library
//! too. So a segment of a library's goes only if this process made it
//! ([`made_here`]), or if nobody on the machine has it open or mapped, which
//! the kernel says by granting a lease on it (fcntl(2)), and its owner is known:
//! by its pid, or by a mark ([`MARK`]) where all of a job were killed and none
//! is left that knows the pids.

use super::os;
use crate::netmod::segment_owner;
use std::fs::{File, Metadata};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

const SHM: &str = "/dev/shm";
/// Chooses the signal for those who hold a lease; the libc crate lacks it.
const F_SETSIG: i32 = 10;
/// The sticky bit, which Linux ignores on files (chmod(2)), says that a segment
/// of a library's was made by a process of Rankway.
const MARK: u32 = 0o1000;

/// Start of the name of every segment of a job: `rankway-<job in 16 hex digits>-`.
///
/// A segment owned by one process should go on with `<pid>-`, so that
/// [`sweep_process`] finds it when that process is known to be gone.
pub fn segment_prefix(job: u64) -> String {
    format!("{PREFIX}{job:016x}-")
}

const PREFIX: &str = "rankway-";
/// Behind the prefix in the name of a file that lives for a moment of a job's start.
pub(crate) const AGREEMENT: &str = "agreed-";

/// Segments that endpoints of this process made: its pid, their inodes.
static MADE: Mutex<Vec<(u32, u64)>> = Mutex::new(Vec::new());

/// Notes that this process made a segment of a library's, so that it may remove
/// it, and marks it for later processes. Those of others are left alone.
pub(crate) fn made_here(name: &str) {
    let me = std::process::id();
    if segment_owner(name) != Some(me) {
        return;
    }
    let path = Path::new(SHM).join(name);
    let Ok(known) = path.symlink_metadata() else { return };
    if !known.is_file() {
        return;
    }
    let mode = known.permissions().mode() | MARK;
    // Without the mark the next process of this pid removes it, as ever.
    let _ = std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode));
    let made = (me, known.ino());
    let mut all = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    if !all.contains(&made) {
        // Of those that are gone none is needed.
        all.retain(|&(pid, _)| pid == me);
        all.push(made);
    }
}

/// Removes every segment of job `job`, and libraries' segments of those of
/// `pids` that have ended, unless somebody has them. Returns how many names
/// were removed.
///
/// Call it when all processes of the job on this machine have ended.
pub fn sweep(pids: &[u32], job: u64) -> usize {
    let prefix = segment_prefix(job);
    remove(Path::new(SHM), |name, path, _| {
        name.starts_with(&prefix)
            || segment_owner(name).is_some_and(|pid| pids.contains(&pid) && os::ended(pid))
                && nobody_has(path)
    })
}

/// Removes what one process of job `job` left, others still running: segments
/// named `rankway-<job>-<pid>-…`, and libraries' that it made, if it is the
/// caller, or that nobody has. Does nothing while another `pid` lives.
pub fn sweep_process(pid: u32, job: u64) -> usize {
    let own = pid == std::process::id();
    if !own && !os::ended(pid) {
        return 0;
    }
    let prefix = format!("{}{pid}-", segment_prefix(job));
    let made = MADE.lock().unwrap_or_else(PoisonError::into_inner).clone();
    remove(Path::new(SHM), |name, path, known| {
        let by_me = || own && made.contains(&(pid, known.ino()));
        name.starts_with(&prefix)
            || segment_owner(name) == Some(pid) && (by_me() || nobody_has(path))
    })
}

/// Removes what ended processes left that nobody swept after: libraries'
/// segments of this process's pid, of which the library refuses to open another,
/// those that bear Rankway's mark, and the files by which processes of a node agree at
/// their start. Those that somebody has are in use.
pub fn sweep_stale() -> usize {
    let me = std::process::id();
    remove(Path::new(SHM), |name, path, known| {
        let is_marked = known.permissions().mode() & MARK != 0;
        let left = segment_owner(name).is_some_and(|pid| pid == me || is_marked);
        let agreement = name.starts_with(PREFIX) && name.contains(AGREEMENT);
        (left || agreement) && nobody_has(path)
    })
}

/// Returns true if no process of this machine, whatever its namespaces, has the
/// file open or mapped: only then is a lease for writing granted.
fn nobody_has(path: &Path) -> bool {
    let mut options = File::options();
    options.read(true).write(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    let Ok(file) = options.open(path) else { return false };
    // SAFETY: a descriptor of ours and integers. Who opens the file while the
    // lease is held makes a signal; that one is ignored by default.
    unsafe {
        libc::fcntl(file.as_raw_fd(), F_SETSIG, libc::SIGURG) == 0
            && libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_WRLCK) == 0
    }
}

/// Waits until nobody else on this machine sweeps, for at most 100 ms: two who
/// try for a lease on one file at once both have it open, so neither gets it.
/// The turn ends when the file is closed.
fn turn(directory: &Path) -> Option<File> {
    let file = File::open(directory).ok()?;
    for _ in 0..50 {
        // SAFETY: a descriptor of ours and an integer.
        if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
            return Some(file);
        }
        if std::io::Error::last_os_error().kind() != std::io::ErrorKind::WouldBlock {
            return None;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    None
}

fn remove(directory: &Path, ours: impl Fn(&str, &Path, &Metadata) -> bool) -> usize {
    // Without it a segment may be left to the next start.
    let _turn = turn(directory);
    // SAFETY: geteuid reads the process's credentials and cannot fail.
    let me = unsafe { libc::geteuid() };
    let Ok(entries) = std::fs::read_dir(directory) else { return 0 };
    let mut removed = 0;
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        let path = entry.path();
        let mine =
            |known: Metadata| known.is_file() && known.uid() == me && ours(name, &path, &known);
        if entry.metadata().is_ok_and(mine) && std::fs::remove_file(&path).is_ok() {
            removed += 1;
        }
    }
    removed
}

// (Names of segments are those of libfabric's shm.)
#[cfg(all(test, feature = "ofi"))]
mod tests {
    use super::*;
    use std::path::PathBuf;

    /// Held by tests that sweep: one would sweep what another has made.
    static SWEEPING: Mutex<()> = Mutex::new(());

    #[test]
    fn only_the_job_and_the_dead_are_swept() {
        let _alone = SWEEPING.lock().unwrap_or_else(PoisonError::into_inner);
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
        // Of a process of this number in another namespace: it has it open.
        let held = File::open(&living).unwrap();
        sweep_stale();
        sweep_process(std::process::id(), job);
        assert!(Path::new(&living).exists());
        drop(held);
        // Of an earlier process of this number: nobody has it.
        assert!(sweep_stale() >= 1);
        assert!(!Path::new(&living).exists());
        // By which a job of which nothing is left was to agree, and one that still is.
        let agreement = |job| format!("{SHM}/{}{AGREEMENT}0", segment_prefix(job));
        let (left, going_on) = (agreement(job), File::create(agreement(job ^ 1)).unwrap());
        std::fs::write(&left, b"x").unwrap();
        sweep_stale();
        assert!(!Path::new(&left).exists() && Path::new(&agreement(job ^ 1)).exists());
        std::fs::remove_file(agreement(job ^ 1)).unwrap();
        drop(going_on);
        // Of this process, which still has it.
        let own = File::create(&living).unwrap();
        made_here(&format!("{}:0:{job:x}", std::process::id()));
        sweep_stale();
        assert!(Path::new(&living).exists());
        assert!(sweep_process(std::process::id(), job) >= 1);
        assert!(!Path::new(&living).exists());
        drop(own);
    }

    #[test]
    fn who_sweep_at_once_leave_nothing() {
        let _alone = SWEEPING.lock().unwrap_or_else(PoisonError::into_inner);
        let job = super::super::os::random_job().unwrap();
        for round in 0..20 {
            let path = |i| PathBuf::from(format!("{SHM}/4194306:{round}.{i}:{job:x}"));
            for i in 0..20 {
                std::fs::write(path(i), b"x").unwrap();
                let marked = std::fs::Permissions::from_mode(0o1600);
                std::fs::set_permissions(path(i), marked).unwrap();
            }
            let start = std::sync::Barrier::new(4);
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| (start.wait(), sweep_stale()));
                }
            });
            assert_eq!((0..20).filter(|&i| path(i).exists()).count(), 0, "round {round}");
        }
    }

    #[test]
    fn what_bears_the_mark_is_swept_by_whoever_starts_next() {
        let _alone = SWEEPING.lock().unwrap_or_else(PoisonError::into_inner);
        let job = super::super::os::random_job().unwrap();
        // Of no process: pids end below this.
        let path = |what: &str| PathBuf::from(format!("{SHM}/4194305:{what}:{job:x}"));
        let (marked, held, bare) = (path("0"), path("1"), path("2"));
        for path in [&marked, &held, &bare] {
            std::fs::write(path, b"x").unwrap();
        }
        for path in [&marked, &held] {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o1600)).unwrap();
        }
        let open = File::open(&held).unwrap();
        sweep_stale();
        assert!(!marked.exists() && held.exists() && bare.exists());
        drop(open);
        sweep_stale();
        assert!(!held.exists() && bare.exists());
        std::fs::remove_file(bare).unwrap();
    }
}
