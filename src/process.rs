//! Processes of this machine: who they are, and whether they still are.

use std::io::Error;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// A process of this machine, named for good: pids are reused, a pid with
/// its start time is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessId {
    /// Process id in its own pid namespace.
    pub pid: u32,
    /// Clock ticks since boot, field 22 of `/proc/<pid>/stat`; 0 if unknown.
    pub start_time: u64,
    /// Inode of the pid namespace; 0 if unknown, as where `/proc` is that of
    /// another one: its numbers mean other processes there.
    pub pid_namespace: u64,
    /// The running kernel (`boot_id`).
    pub machine: [u8; 16],
}

impl ProcessId {
    /// Bytes of one that is sent.
    pub const LEN: usize = 36;

    /// As it is sent.
    pub fn encode(&self) -> [u8; ProcessId::LEN] {
        let mut out = [0; ProcessId::LEN];
        out[..4].copy_from_slice(&self.pid.to_le_bytes());
        out[4..12].copy_from_slice(&self.start_time.to_le_bytes());
        out[12..20].copy_from_slice(&self.pid_namespace.to_le_bytes());
        out[20..].copy_from_slice(&self.machine);
        out
    }

    /// Reads what [`encode`](ProcessId::encode) wrote.
    pub fn decode(bytes: &[u8; ProcessId::LEN]) -> ProcessId {
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        ProcessId {
            pid: u32::from_le_bytes(std::array::from_fn(|i| bytes[i])),
            start_time: word(4),
            pid_namespace: word(12),
            machine: std::array::from_fn(|i| bytes[20 + i]),
        }
    }

    /// Bytes of one that says no more than its own machine and pid namespace need.
    pub(crate) const BRIEF: usize = 20;

    /// As it is sent where there is little space.
    pub(crate) fn encode_brief(&self) -> [u8; ProcessId::BRIEF] {
        let mut out = [0; ProcessId::BRIEF];
        out[..4].copy_from_slice(&self.pid.to_le_bytes());
        out[4..12].copy_from_slice(&self.start_time.to_le_bytes());
        out[12..].copy_from_slice(&self.place().to_le_bytes());
        out
    }

    /// Reads what [`encode_brief`](ProcessId::encode_brief) wrote; `None` of a process that `here`,
    /// the calling one, could not see.
    pub(crate) fn decode_brief(bytes: &[u8; ProcessId::BRIEF], here: &ProcessId) -> Option<Self> {
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        let pid = u32::from_le_bytes(std::array::from_fn(|i| bytes[i]));
        (word(12) == here.place()).then_some(ProcessId { pid, start_time: word(4), ..*here })
    }

    /// Tells machines and pid namespaces apart.
    fn place(&self) -> u64 {
        fnv1a(&[&self.machine[..], &self.pid_namespace.to_le_bytes()].concat())
    }

    /// The calling process.
    pub fn current() -> Self {
        let pid = std::process::id();
        let true_proc = proc_knows(pid);
        ProcessId {
            pid,
            start_time: start_time(pid).filter(|_| true_proc).unwrap_or(0),
            pid_namespace: if true_proc { namespace("pid") } else { 0 },
            machine: machine(),
        }
    }
}

/// Returns true if the process behind a pidfd has begun to exit (PF_EXITING);
/// yes for one that is gone, no where /proc does not say.
pub(crate) fn is_exiting(pidfd: i32) -> bool {
    const PF_EXITING: u64 = 4;
    let Ok(info) = std::fs::read_to_string(format!("/proc/self/fdinfo/{pidfd}")) else {
        return false;
    };
    let Some(pid) = info.lines().find_map(|line| line.strip_prefix("Pid:")) else { return false };
    let Some(stat) = pid.trim().parse().ok().and_then(stat_after_name) else { return true };
    // state parent group session terminal its-group flags
    let flags = stat.split_ascii_whitespace().nth(6).and_then(|flags| flags.parse::<u64>().ok());
    flags.is_some_and(|flags| flags & PF_EXITING != 0) && !has_threads(&stat)
}

/// A descriptor that polls readable once process `pid` has ended.
pub(crate) fn pidfd_open(pid: u32) -> std::io::Result<OwnedFd> {
    // SAFETY: takes two integers; the result is checked before it is owned.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid as libc::pid_t, 0u32) };
    if fd < 0 {
        return Err(Error::last_os_error());
    }
    // SAFETY: the kernel just handed this descriptor to us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Returns true if the process of this descriptor has ended.
pub(crate) fn has_exited(pidfd: &OwnedFd) -> bool {
    let mut entry = [libc::pollfd { fd: pidfd.as_raw_fd(), events: libc::POLLIN, revents: 0 }];
    !matches!(poll(&mut entry, Duration::ZERO), Ok(0))
}

/// Polls `fds`, going on for what is left of `limit` when a signal interrupts, however often
/// they come; 0 returns at once.
pub(crate) fn poll(fds: &mut [libc::pollfd], limit: Duration) -> std::io::Result<usize> {
    let start = (!limit.is_zero()).then(Instant::now);
    let mut left = limit;
    loop {
        let millis = left.as_millis().min(i32::MAX as u128) as i32;
        // SAFETY: pointer and length describe the caller's live slice.
        let ready = unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, millis) };
        if ready >= 0 {
            return Ok(ready as usize);
        }
        let error = Error::last_os_error();
        if error.kind() != std::io::ErrorKind::Interrupted {
            return Err(error);
        }
        left = start.map_or(limit, |start| limit.saturating_sub(start.elapsed()));
    }
}

/// Returns true if process `pid` has ended, reaped or not.
pub(crate) fn ended(pid: u32) -> bool {
    // SAFETY: signal 0 only asks whether the process exists.
    if unsafe { libc::kill(pid as libc::pid_t, 0) } != 0 {
        return Error::last_os_error().raw_os_error() == Some(libc::ESRCH);
    }
    stat_after_name(pid).is_some_and(|stat| stat.starts_with(['Z', 'X']) && !has_threads(&stat))
}

/// The number of a process that has ended, for tests.
#[cfg(test)]
pub(crate) fn one_that_ended() -> u32 {
    let mut child = std::process::Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    child.id()
}

/// Returns true if what [`stat_after_name`] tells is of a process with other threads than its first,
/// which live on where that one has ended by pthread_exit(3).
fn has_threads(stat: &str) -> bool {
    let count = stat.split_ascii_whitespace().nth(17).and_then(|count| count.parse::<u32>().ok());
    count.is_some_and(|count| count > 1)
}

/// Start time of `pid` in clock ticks since boot: field 22 of
/// `/proc/<pid>/stat` (proc(5)). With the pid it names a process for good.
pub(crate) fn start_time(pid: u32) -> Option<u64> {
    stat_after_name(pid)?.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// `/proc/<pid>/stat` from field 3, the state, on. The command name before
/// it may hold spaces and brackets.
fn stat_after_name(pid: u32) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(stat.rsplit_once(')')?.1.trim_start().to_string())
}

/// Returns true if `/proc` calls this process by its pid: not so where it was
/// mounted for another pid namespace.
pub(crate) fn proc_knows(pid: u32) -> bool {
    std::fs::read_link("/proc/self").is_ok_and(|name| name.as_os_str() == pid.to_string().as_str())
}

/// Inode number of a namespace of this process, 0 if unknown.
pub(crate) fn namespace(kind: &str) -> u64 {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(format!("/proc/self/ns/{kind}")).map_or(0, |meta| meta.ino())
}

/// 128 bits naming the running kernel; falls back to the host's name.
pub(crate) fn machine() -> [u8; 16] {
    let mut id = [0u8; 16];
    if let Ok(text) = std::fs::read_to_string("/proc/sys/kernel/random/boot_id") {
        let hex: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
        for (byte, pair) in id.iter_mut().zip(hex.chunks_exact(2)) {
            *byte = std::str::from_utf8(pair)
                .ok()
                .and_then(|pair| u8::from_str_radix(pair, 16).ok())
                .unwrap_or(0);
        }
    }
    if id == [0; 16] {
        let name = hostname();
        id[..8].copy_from_slice(&fnv1a(name.as_bytes()).to_le_bytes());
        id[8..].copy_from_slice(b"hostname");
    }
    id
}

/// The host's name as gethostname(2) has it.
pub(crate) fn hostname() -> String {
    let mut buffer = [0u8; 256];
    // SAFETY: pointer and length describe the local buffer; its last byte is
    // kept 0 so that it is terminated whatever the call wrote.
    unsafe { libc::gethostname(buffer.as_mut_ptr().cast(), buffer.len() - 1) };
    let end = buffer.iter().position(|&byte| byte == 0).unwrap_or(0);
    String::from_utf8_lossy(&buffer[..end]).into_owned()
}

/// `N` bytes nobody can guess.
pub(crate) fn random<const N: usize>() -> std::io::Result<[u8; N]> {
    const { assert!(N <= 256) };
    let mut bytes = [0; N];
    // SAFETY: the array holds that many bytes; up to 256 come whole.
    match unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), N, 0) } {
        0.. => Ok(bytes),
        _ => Err(Error::last_os_error()),
    }
}

/// FNV-1a, 64 bits (Fowler, Noll, Vo): names keys, protects nothing.
pub(crate) fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ byte as u64).wrapping_mul(0x100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_start_time_is_stable() {
        let pid = std::process::id();
        assert!(start_time(pid).is_some());
        assert_eq!(start_time(pid), start_time(pid));
        assert_eq!(start_time(u32::MAX), None);
    }

    /// Its first thread may have ended by pthread_exit(3).
    #[test]
    #[cfg_attr(miri, ignore = "forks")]
    fn a_process_lives_as_long_as_one_of_its_threads() {
        // SAFETY: the child starts a thread and ends its first one; nothing of this process is
        // used there.
        let child = unsafe { libc::fork() };
        if child == 0 {
            std::thread::spawn(|| std::thread::sleep(Duration::from_secs(60)));
            // SAFETY: ends this thread alone.
            unsafe { libc::syscall(libc::SYS_exit, 0) };
        }
        let pid = child as u32;
        let fd = pidfd_open(pid).unwrap();
        while stat_after_name(pid).is_some_and(|stat| !stat.starts_with('Z')) {
            std::thread::yield_now();
        }
        let lives = !ended(pid) && !is_exiting(fd.as_raw_fd());
        // SAFETY: a child of ours, not reaped yet.
        unsafe { libc::kill(child, libc::SIGKILL) };
        while !has_exited(&fd) {
            std::thread::yield_now();
        }
        let ended = ended(pid);
        // SAFETY: reaped once; the status is not asked for.
        unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
        assert!(lives && ended, "{lives} {ended}");
    }

    #[test]
    fn the_machine_has_a_name() {
        assert_ne!(machine(), [0; 16]);
        assert!(!hostname().is_empty());
    }
}
