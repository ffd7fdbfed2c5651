//! The process between the caller and its ranks.
//!
//! It forks the ranks, reaps them, notes in the arena how each ended, and
//! removes what they left in `/dev/shm`. Being a process of its own it can do
//! that even when the caller is killed with SIGKILL. It is single-threaded
//! and waits in sigtimedwait(2), so that no signal can slip in between a
//! check and a wait.

use super::arena::{Arena, EXITED, GATE_FAILED, GATE_OPEN, KILLED};
use crate::boot::{os, sweep};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Between asking ranks to end and killing them.
const GRACE: Duration = Duration::from_secs(1);
/// Ends are announced by SIGCHLD; this only bounds a lost one.
const LOOK: Duration = Duration::from_millis(200);

/// Signals the supervisor waits for, and what was there before.
struct Signals {
    wait: libc::sigset_t,
    old_mask: libc::sigset_t,
    old_child: libc::sigaction,
}

impl Signals {
    /// Blocks the signals. Those the caller's user chose to ignore (nohup)
    /// stay ignored, SIGTERM excepted: it announces the caller's death.
    ///
    /// `old_mask` is what ranks shall have.
    fn block(old_mask: &libc::sigset_t) -> Self {
        // SAFETY: sigset_t and sigaction are plain data that the calls below
        // fill; every pointer is to a live local. Signal numbers are valid.
        unsafe {
            let mut signals: Signals = std::mem::zeroed();
            let mut default: libc::sigaction = std::mem::zeroed();
            default.sa_sigaction = libc::SIG_DFL;
            libc::sigaction(libc::SIGCHLD, &default, &mut signals.old_child);
            libc::sigemptyset(&mut signals.wait);
            libc::sigaddset(&mut signals.wait, libc::SIGCHLD);
            libc::sigaddset(&mut signals.wait, libc::SIGTERM);
            for signal in [libc::SIGINT, libc::SIGHUP] {
                let mut now: libc::sigaction = std::mem::zeroed();
                libc::sigaction(signal, std::ptr::null(), &mut now);
                if now.sa_sigaction != libc::SIG_IGN {
                    libc::sigaddset(&mut signals.wait, signal);
                }
            }
            libc::sigprocmask(libc::SIG_BLOCK, &signals.wait, std::ptr::null_mut());
            signals.old_mask = *old_mask;
            signals
        }
    }

    /// In a rank: back to what the caller had.
    fn restore(&self) {
        // SAFETY: both were filled by `block` in this process or its parent.
        unsafe {
            libc::sigaction(libc::SIGCHLD, &self.old_child, std::ptr::null_mut());
            libc::sigprocmask(libc::SIG_SETMASK, &self.old_mask, std::ptr::null_mut());
        }
    }

    /// The next signal, or `None` after `limit`.
    fn next(&self, limit: Duration) -> Option<i32> {
        let time = libc::timespec {
            tv_sec: limit.as_secs() as libc::time_t,
            tv_nsec: limit.subsec_nanos() as _,
        };
        // SAFETY: both pointers are to live values; no siginfo is asked for.
        let signal = unsafe { libc::sigtimedwait(&self.wait, std::ptr::null_mut(), &time) };
        (signal > 0).then_some(signal)
    }
}

/// Has the kernel send `signal` to this process when `parent` ends. False
/// when it has ended already.
fn die_with(parent: libc::pid_t, signal: i32) -> bool {
    // SAFETY: prctl with integer arguments and getppid touch no memory.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, signal as libc::c_ulong);
        libc::getppid() == parent
    }
}

/// Forks every rank, then opens the gate they wait at. In a rank, returns its
/// number; in the supervisor, never returns. Ranks get the signal mask `mask`.
pub(super) fn fork_ranks(arena: &Arena, caller: libc::pid_t, mask: &libc::sigset_t) -> u32 {
    let signals = Signals::block(mask);
    if !die_with(caller, libc::SIGTERM) {
        os::leave(1);
    }
    // SAFETY: getpid has no arguments and cannot fail.
    let me = unsafe { libc::getpid() };
    let header = arena.header();
    for rank in 0..arena.ranks() {
        // SAFETY: the supervisor has one thread (checked before the first
        // fork), so the child is a whole process.
        match unsafe { libc::fork() } {
            -1 => {
                let errno = std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
                header.fork_errno.store(errno, Ordering::Relaxed);
                header.gate.store(GATE_FAILED, Ordering::Release);
                os::futex_wake_all(&header.gate);
                // The ranks forked so far see the gate and leave.
                for _ in 0..rank {
                    // SAFETY: a null status is allowed; these are our children.
                    unsafe { libc::waitpid(-1, std::ptr::null_mut(), 0) };
                }
                os::leave(1);
            }
            0 => {
                if !die_with(me, libc::SIGKILL) {
                    os::leave(1);
                }
                signals.restore();
                arena.slot(rank).pid.store(std::process::id(), Ordering::Release);
                loop {
                    match header.gate.load(Ordering::Acquire) {
                        GATE_OPEN => return rank,
                        GATE_FAILED => os::leave(1),
                        closed => os::futex_wait(&header.gate, closed, LOOK),
                    }
                }
            }
            pid => arena.slot(rank).pid.store(pid as u32, Ordering::Release),
        }
    }
    header.gate.store(GATE_OPEN, Ordering::Release);
    os::futex_wake_all(&header.gate);
    watch_over(arena, &signals);
    let pids: Vec<u32> =
        (0..arena.ranks()).map(|rank| arena.slot(rank).pid.load(Ordering::Relaxed)).collect();
    sweep::sweep(&pids, arena.job);
    os::leave(0)
}

/// Reaps until no rank is left; a terminating signal ends them all.
fn watch_over(arena: &Arena, signals: &Signals) {
    let mut running = arena.ranks();
    let mut deadline: Option<Instant> = None;
    loop {
        running -= reap(arena);
        if running == 0 {
            return;
        }
        match signals.next(LOOK) {
            None | Some(libc::SIGCHLD) => {}
            Some(signal) => {
                kill_running(arena, signal);
                deadline.get_or_insert_with(|| Instant::now() + GRACE);
            }
        }
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            kill_running(arena, libc::SIGKILL);
        }
    }
}

fn kill_running(arena: &Arena, signal: i32) {
    for rank in (0..arena.ranks()).filter(|&rank| arena.obituary(rank).is_none()) {
        let pid = arena.slot(rank).pid.load(Ordering::Relaxed) as libc::pid_t;
        // SAFETY: the rank is our unreaped child, so the pid is still its.
        unsafe { libc::kill(pid, signal) };
    }
}

/// Notes every child that has ended; returns how many.
fn reap(arena: &Arena) -> u32 {
    let mut count = 0;
    loop {
        let mut status = 0;
        // SAFETY: `status` is a live local.
        let pid = unsafe { libc::waitpid(-1, &mut status, libc::WNOHANG) };
        if pid <= 0 {
            return count;
        }
        let of = |&rank: &u32| arena.slot(rank).pid.load(Ordering::Relaxed) == pid as u32;
        let alive = (0..arena.ranks()).filter(|&rank| arena.obituary(rank).is_none());
        let Some(rank) = alive.into_iter().find(of) else { continue };
        if libc::WIFSIGNALED(status) {
            arena.mark_ended(rank, KILLED, libc::WTERMSIG(status));
        } else {
            arena.mark_ended(rank, EXITED, libc::WEXITSTATUS(status));
        }
        count += 1;
    }
}
