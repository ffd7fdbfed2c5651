//! Tells, from what `/proc` says, which threads of other processes cannot be
//! inside a short critical section.

use std::collections::BTreeMap;
use std::time::Duration;

/// Processor time that no critical section takes: shm's longest copies one
/// message.
const LONG: Duration = Duration::from_secs(1);
/// Times a thread is seen asleep before it counts as asleep outside: holders of
/// a spin lock do not sleep, but may wait a moment for memory.
const NAPS: u32 = 3;
/// Times a thread gave up its processor before it counts as one that yields: beside
/// threads that spin it uses next to no time, and takes minutes to use [`LONG`].
const YIELDS: u32 = 200;
/// Processor time between two yields, at most. A holder is preempted after a slice of
/// milliseconds.
const SHORT: Duration = Duration::from_micros(100);

/// The threads of living processes, observed since a critical section was
/// noticed that has not been left since.
#[derive(Default)]
pub(super) struct ThreadObserver {
    threads: BTreeMap<(u32, u32), Thread>,
}

#[derive(Default)]
struct Thread {
    /// When it was first seen.
    first: Option<State>,
    naps: u32,
    outside: bool,
}

impl ThreadObserver {
    /// Looks once. Returns true if each thread of the process was outside at
    /// some time since the first look, so that none of them is the one inside.
    pub(super) fn all_seen_outside(&mut self, pid: u32) -> bool {
        let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return false };
        let mut all = true;
        for task in tasks.flatten() {
            let tid = task.file_name().to_str().and_then(|name| name.parse().ok());
            let Some(tid) = tid.filter(|&tid| !is_caller(tid)) else { continue };
            let thread = self.threads.entry((pid, tid)).or_default();
            thread.observe(pid, tid);
            all &= thread.outside;
        }
        all
    }
}

impl Thread {
    fn observe(&mut self, pid: u32, tid: u32) {
        let Some(now) = State::of(pid, tid) else { return };
        let first = *self.first.get_or_insert(now);
        // Who is stopped, waits for memory or for a processor may go on inside.
        self.naps += u32::from(now.state == 'S');
        let used = now.used.saturating_sub(first.used);
        let preempted = now.preempted.saturating_sub(first.preempted);
        let yields = preempted >= YIELDS && used < preempted * SHORT;
        self.outside |= self.naps >= NAPS || yields || used >= LONG;
    }
}

/// What the system says of a thread.
#[derive(Clone, Copy)]
struct State {
    state: char,
    /// Processor time it has used.
    used: Duration,
    /// Times it had to leave its processor, or offered to.
    preempted: u32,
}

/// The calling thread takes no locks.
fn is_caller(tid: u32) -> bool {
    // SAFETY: asks for the thread's own number.
    i64::from(tid) == i64::from(unsafe { libc::gettid() })
}

impl State {
    fn of(pid: u32, tid: u32) -> Option<State> {
        let text = |what| std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/{what}")).ok();
        let (stat, status) = (text("stat")?, text("status")?);
        let (_, behind) = stat.rsplit_once(") ")?;
        let fields: Vec<&str> = behind.split_ascii_whitespace().collect();
        // SAFETY: asks for a constant of the system.
        let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) }.max(1) as u64;
        let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
        let (_, preempted) = status.split_once("nonvoluntary_ctxt_switches:")?;
        Some(State {
            state: fields.first()?.chars().next()?,
            used: Duration::from_millis((number(11)? + number(12)?) * 1000 / ticks),
            preempted: preempted.split_ascii_whitespace().next()?.parse().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use std::sync::atomic::Ordering::SeqCst;
    use std::sync::atomic::{AtomicBool, AtomicU32};
    use std::time::Instant;

    fn signal(pid: u32, signal: i32) {
        // SAFETY: a child of this test's that was not waited for.
        unsafe { libc::kill(pid as i32, signal) };
    }

    /// Runs on the first processor only from now on.
    fn share_a_processor() {
        // SAFETY: a set of processors for the calling thread, initialised here.
        unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            libc::sched_getaffinity(0, size_of_val(&set), &mut set);
            let first = (0..libc::CPU_SETSIZE as usize).find(|&cpu| libc::CPU_ISSET(cpu, &set));
            libc::CPU_ZERO(&mut set);
            libc::CPU_SET(first.unwrap_or(0), &mut set);
            libc::sched_setaffinity(0, size_of_val(&set), &set);
        }
    }

    #[test]
    fn who_yields_to_the_busy_is_outside() {
        let (tid, stop) = (AtomicU32::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                share_a_processor();
                // SAFETY: asks for the thread's own number.
                tid.store(unsafe { libc::gettid() } as u32, SeqCst);
                while !stop.load(SeqCst) {
                    std::thread::yield_now();
                }
            });
            scope.spawn(|| {
                share_a_processor();
                while !stop.load(SeqCst) {
                    std::hint::spin_loop();
                }
            });
            let (start, mut thread) = (Instant::now(), Thread::default());
            while !thread.outside && start.elapsed() < Duration::from_secs(60) {
                std::thread::sleep(Duration::from_millis(20));
                thread.observe(std::process::id(), tid.load(SeqCst));
            }
            stop.store(true, SeqCst);
            assert!(thread.outside, "not cleared");
        });
    }

    #[test]
    fn sleepers_and_the_busy_are_outside_and_the_stopped_may_be_inside() {
        let mut sleeper = Command::new("sleep").arg("60").spawn().unwrap();
        let mut busy = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(200));
        signal(sleeper.id(), libc::SIGSTOP);
        let mut observer = ThreadObserver::default();
        for _ in 0..8 {
            std::thread::sleep(Duration::from_millis(20));
            assert!(!observer.all_seen_outside(sleeper.id()));
        }
        assert!(!observer.all_seen_outside(busy.id()), "it may be inside for a while");
        signal(sleeper.id(), libc::SIGCONT);
        let start = Instant::now();
        while !(observer.all_seen_outside(sleeper.id()) & observer.all_seen_outside(busy.id())) {
            assert!(start.elapsed() < Duration::from_secs(60), "not cleared");
            std::thread::sleep(Duration::from_millis(20));
        }
        for child in [&mut sleeper, &mut busy] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert!(!ThreadObserver::default().all_seen_outside(busy.id()));
    }
}
