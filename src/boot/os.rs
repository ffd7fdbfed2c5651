//! The few system calls and /proc files this module needs.

use super::BootError;
pub(crate) use crate::process::{
    ended, fnv1a, is_exiting, namespace, pidfd_open, poll, start_time,
};
use std::io::Write;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// `N` bytes nobody can guess.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], BootError> {
    crate::process::random().map_err(|error| BootError::io("getrandom", error))
}

/// A random number that is never 0.
pub(crate) fn random_job() -> Result<u64, BootError> {
    Ok(u64::from_le_bytes(random()?).max(1))
}

/// How long a fence or collective waits for live but silent peers.
///
/// Long by default, because a peer stopped in a debugger is not dead.
pub(crate) fn timeout() -> Duration {
    const DEFAULT: u64 = 300;
    Duration::from_secs(crate::settings::TIMEOUT.get().unwrap_or(DEFAULT))
}

/// Threads of this process, or `None` where /proc is not mounted.
pub(crate) fn thread_count() -> Option<usize> {
    std::fs::read_dir("/proc/self/task").ok().map(Iterator::count)
}

/// Sleeps while `*word == expected`, at most `limit`; may return early.
/// `word` may lie in memory shared with other processes.
pub(crate) fn futex_wait(word: &AtomicU32, expected: u32, limit: Duration) {
    let time = libc::timespec {
        tv_sec: limit.as_secs() as libc::time_t,
        tv_nsec: limit.subsec_nanos() as _,
    };
    // SAFETY: `word` is a live aligned 32-bit word and `time` outlives the
    // call; FUTEX_WAIT only reads both. Failures (EAGAIN, EINTR, ETIMEDOUT)
    // all mean "look again", which every caller does.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, expected, &time);
    }
}

/// Wakes every process sleeping on `word`.
pub(crate) fn futex_wake_all(word: &AtomicU32) {
    // SAFETY: `word` is a live aligned 32-bit word; FUTEX_WAKE reads nothing
    // but its address.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX);
    }
}

/// Says that this process ends its job. (Where standard error cannot be written, nobody
/// is there to be told, and the job ends all the same.)
pub(crate) fn say_aborted(rank: u32, code: i32, reason: &str) {
    let (mut out, what) = (std::io::stderr(), "aborted the job with code");
    let _ = writeln!(out, "rankway: rank {rank} {what} {code}: {reason}");
}

/// Flushes standard output and ends the process without running the exit
/// handlers it may have inherited from the program that forked it. Files of what
/// it recorded end.
pub(crate) fn leave(code: i32) -> ! {
    let _ = std::panic::catch_unwind(crate::track::close_all);
    let _ = std::io::stdout().flush();
    let _ = std::io::stderr().flush();
    // SAFETY: _exit never returns and touches no memory of ours.
    unsafe { libc::_exit(code) }
}

/// Name of a signal for messages.
pub(crate) fn signal_name(signal: i32) -> String {
    let name = match signal {
        libc::SIGHUP => "SIGHUP",
        libc::SIGINT => "SIGINT",
        libc::SIGQUIT => "SIGQUIT",
        libc::SIGILL => "SIGILL",
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGKILL => "SIGKILL",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGPIPE => "SIGPIPE",
        libc::SIGTERM => "SIGTERM",
        other => return format!("signal {other}"),
    };
    name.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_are_not_empty() {
        assert_ne!(random::<16>().unwrap(), random::<16>().unwrap());
        assert!(thread_count().unwrap() >= 1);
    }
}
