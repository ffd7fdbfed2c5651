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

/// The threads of living processes, observed since a critical section was
/// noticed that has not been left since.
#[derive(Default)]
pub(super) struct ThreadObserver {
    threads: BTreeMap<(u32, u32), Thread>,
}

#[derive(Default)]
struct Thread {
    /// Processor time when it was first seen.
    first: Option<Duration>,
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
        let Some((state, used)) = state_of(pid, tid) else { return };
        let first = *self.first.get_or_insert(used);
        // Who is stopped, waits for memory or for a processor may go on inside.
        self.naps += u32::from(state == 'S');
        self.outside |= self.naps >= NAPS || used.saturating_sub(first) >= LONG;
    }
}

/// The calling thread takes no locks.
fn is_caller(tid: u32) -> bool {
    // SAFETY: asks for the thread's own number.
    i64::from(tid) == i64::from(unsafe { libc::gettid() })
}

/// The state of a thread, and the processor time it has used.
fn state_of(pid: u32, tid: u32) -> Option<(char, Duration)> {
    let text = |what: &str| std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/{what}")).ok();
    let stat = text("stat")?;
    let (_, behind) = stat.rsplit_once(") ")?;
    let fields: Vec<&str> = behind.split_ascii_whitespace().collect();
    // SAFETY: asks for a constant of the system.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) }.max(1) as u64;
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    let used = Duration::from_millis((number(11)? + number(12)?) * 1000 / ticks);
    Some((fields.first()?.chars().next()?, used))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn signal(pid: u32, signal: i32) {
        // SAFETY: a child of this test's that was not waited for.
        unsafe { libc::kill(pid as i32, signal) };
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
        let start = std::time::Instant::now();
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
