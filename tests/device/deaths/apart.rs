//! Ranks each in a namespace of its own, as containers have them.

use super::trial::{board, mix, now};
use std::io::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

/// What each rank has to itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Apart {
    /// Process ids: every rank is process 1, and its /proc shows no other.
    Pid,
    /// System V's and POSIX's shared memory: another /dev/shm.
    Ipc,
    /// Networks, the loopback too.
    Net,
}

/// Runs what a rank does within a namespace of its own.
pub fn within(apart: Apart, rank: u32, seed: u64, body: impl FnOnce() -> i32) -> i32 {
    match apart {
        Apart::Pid => {
            separate(libc::CLONE_NEWPID | libc::CLONE_NEWNS);
            // The next child is the first process there.
            // SAFETY: the rank has one thread yet, so the child is whole.
            match unsafe { libc::fork() } {
                0 => be_first(body),
                child => supervise(child, mix(seed) % 3 == u64::from(rank)),
            }
        }
        Apart::Ipc => {
            separate(libc::CLONE_NEWIPC | libc::CLONE_NEWNS);
            mount(c"tmpfs", c"/dev/shm");
            body()
        }
        Apart::Net => {
            separate(libc::CLONE_NEWNET);
            body()
        }
    }
}

fn separate(what: i32) {
    // SAFETY: integers and strings that live for the calls.
    unsafe {
        assert_eq!(libc::unshare(what), 0, "unshare: {}", Error::last_os_error());
        if what & libc::CLONE_NEWNS != 0 {
            let private = libc::MS_REC | libc::MS_PRIVATE;
            let made = libc::mount(null(), c"/".as_ptr(), null(), private, null());
            assert_eq!(made, 0, "mount: {}", Error::last_os_error());
        }
    }
}

fn mount(kind: &std::ffi::CStr, place: &std::ffi::CStr) {
    let (kind, place) = (kind.as_ptr(), place.as_ptr());
    // SAFETY: strings that live for the call.
    let made = unsafe { libc::mount(kind, place, kind, 0, null()) };
    assert_eq!(made, 0, "mount: {}", Error::last_os_error());
}

fn be_first(body: impl FnOnce() -> i32) -> ! {
    // SAFETY: integers only.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong) };
    mount(c"proc", c"/proc");
    let code = catch_unwind(AssertUnwindSafe(body)).unwrap_or(101);
    // SAFETY: ends this process alone, as ranks do.
    unsafe { libc::_exit(code) }
}

/// Kills the child when its time has come (nobody within its namespace can),
/// and ends as it does.
fn supervise(child: libc::pid_t, victim: bool) -> i32 {
    assert!(child > 0, "fork: {}", Error::last_os_error());
    loop {
        let mut status = 0;
        // SAFETY: a live local; the child is ours and not reaped yet.
        let ended = unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) } == child;
        if ended && libc::WIFSIGNALED(status) {
            // SAFETY: ends this process as the child ended.
            unsafe {
                libc::signal(libc::WTERMSIG(status), libc::SIG_DFL);
                libc::raise(libc::WTERMSIG(status));
            }
            return 101;
        }
        if ended {
            return libc::WEXITSTATUS(status);
        }
        let end = board().end.load(SeqCst);
        if victim && end > 0 && now() >= end {
            // SAFETY: as above.
            unsafe { libc::kill(child, libc::SIGKILL) };
        }
        std::thread::sleep(Duration::from_micros(100));
    }
}
