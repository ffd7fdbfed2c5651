//! A program forks its own ranks: no launcher, one machine.
//!
//! ```no_run
//! use rankway::boot::local;
//! let outcome = local::run(&local::Options::new(4), |boot| {
//!     println!("rank {} of {}", boot.rank(), boot.size());
//!     boot.fence(&mut || ()).map_or(1, |()| 0)
//! })?;
//! std::process::exit(outcome.exit_code());
//! # Ok::<(), rankway::boot::BootError>(())
//! ```
//!
//! [`run`] and [`spawn`] must be called **before the process starts a
//! thread**, because a forked child keeps only the thread that called fork;
//! they count `/proc/self/task` and refuse. Call them from the main thread:
//! the kernel takes the end of the thread that forked for the end of the
//! caller.
//!
//! Between the caller and the ranks stands one supervising process, so that
//! whatever ends the caller, Ctrl-C or SIGKILL, no rank and no segment in
//! `/dev/shm` is left: ranks die with the supervisor, the supervisor ends
//! the ranks when the caller is gone, and it sweeps after the last of them.
//! A rank that dies does not end the others; they hear of it in
//! [`fence`](crate::boot::Boot::fence).

mod arena;
mod child;
mod supervisor;

use super::{Boot, BootError, install, os, sweep};
use crate::ulimit;
use arena::{Arena, EXITED, GATE_CLOSED, GATE_OPEN, KILLED};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How ranks are dealt to simulated nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// Consecutive ranks share a node: 0 0 1 1. Nodes differ by at most one rank.
    #[default]
    Block,
    /// Ranks take turns: 0 1 0 1.
    RoundRobin,
}

impl Layout {
    /// Node of `rank` among `ranks` ranks on `nodes` nodes.
    pub fn node(self, rank: u32, ranks: u32, nodes: u32) -> u32 {
        match self {
            Layout::Block => (u64::from(rank) * u64::from(nodes) / u64::from(ranks)) as u32,
            Layout::RoundRobin => rank % nodes,
        }
    }
}

/// What job to fork.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Options {
    /// Ranks, at least 1.
    pub ranks: u32,
    /// Simulated nodes the ranks are dealt to, 1 to `ranks`. All of them are
    /// this machine; only [`Boot::node_of`] differs.
    pub nodes: u32,
    /// How they are dealt.
    pub layout: Layout,
    /// Binds rank r to the r-th CPU this process may use, round and round.
    pub pin: bool,
    /// Bytes of keys and values each rank may publish; costs memory only
    /// when used.
    pub space: usize,
}

impl Options {
    /// `ranks` ranks on one node, not pinned, 1 MiB of key space each.
    pub fn new(ranks: u32) -> Self {
        Options { ranks, nodes: 1, layout: Layout::Block, pin: false, space: 1 << 20 }
    }

    /// Deals the ranks to this many simulated nodes.
    #[must_use]
    pub fn nodes(self, nodes: u32) -> Self {
        Options { nodes, ..self }
    }

    /// Deals them so.
    #[must_use]
    pub fn layout(self, layout: Layout) -> Self {
        Options { layout, ..self }
    }

    /// Binds ranks to CPUs, or does not.
    #[must_use]
    pub fn pin(self, pin: bool) -> Self {
        Options { pin, ..self }
    }

    /// Lets each rank publish this many bytes of keys and values.
    #[must_use]
    pub fn space(self, space: usize) -> Self {
        Options { space, ..self }
    }

    fn check(&self) -> Result<(), BootError> {
        if self.ranks == 0 || self.ranks > i32::MAX as u32 {
            return Err(BootError::Options(format!("cannot fork {} ranks", self.ranks)));
        }
        if self.nodes == 0 || self.nodes > self.ranks {
            return Err(BootError::Options(format!(
                "cannot deal {} ranks to {} nodes; give 1 to {} nodes",
                self.ranks, self.nodes, self.ranks
            )));
        }
        match ulimit::processes() {
            // (Each takes memory until the system refuses the first too many.)
            Some(most) if u64::from(self.ranks) >= most => Err(BootError::Options(format!(
                "cannot fork {} ranks where there can be {most} processes; start fewer, or raise \
                 `ulimit -u`, kernel.threads-max or kernel.pid_max",
                self.ranks
            ))),
            _ => Ok(()),
        }
    }
}

/// How a rank ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It returned or exited with this code; 101 after a panic.
    Code(i32),
    /// It was killed by this signal.
    Signal(i32),
}

/// How a job ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// By rank.
    pub exits: Vec<Exit>,
    /// The rank that called [`Boot::abort`] first, and its code.
    pub aborted: Option<(u32, i32)>,
}

impl Outcome {
    /// Returns true if every rank returned 0.
    pub fn success(&self) -> bool {
        self.exits.iter().all(|exit| *exit == Exit::Code(0))
    }

    /// The first rank that did not return 0, and how it ended.
    pub fn first_failure(&self) -> Option<(u32, Exit)> {
        let failed = self.exits.iter().position(|exit| *exit != Exit::Code(0))?;
        Some((failed as u32, self.exits[failed]))
    }

    /// A code for the caller to exit with, as a shell would: 0, the abort's
    /// code, the first failing code, or 128 + signal.
    pub fn exit_code(&self) -> i32 {
        match (self.aborted, self.first_failure()) {
            (Some((_, code)), _) => code,
            (None, None) => 0,
            (None, Some((_, Exit::Code(code)))) => code,
            (None, Some((_, Exit::Signal(signal)))) => 128 + signal,
        }
    }
}

/// Forks the ranks, runs `f` in each and waits for all of them.
///
/// A rank exits with what `f` returns, without running exit handlers; so does
/// [`connect`](super::connect) inside it return the same boot. SIGINT and
/// SIGTERM to the caller end the ranks first and then take their effect on
/// the caller.
///
/// # Errors
/// [`BootError::Threads`] when the process has threads,
/// [`BootError::Options`], [`BootError::Os`] when the system refuses.
pub fn run(options: &Options, f: impl FnOnce(Arc<dyn Boot>) -> i32) -> Result<Outcome, BootError> {
    let (job, held) = launch(options, f)?;
    job.wait_holding(Some(held))
}

/// Forks the ranks, runs `f` in each, and leaves the caller in control.
///
/// Returns when all ranks exist. Rules and errors as for [`run`].
pub fn spawn(options: &Options, f: impl FnOnce(Arc<dyn Boot>) -> i32) -> Result<Job, BootError> {
    launch(options, f).map(|(job, _held)| job)
}

/// Forks the ranks. SIGINT and SIGTERM stay pending as long as the second
/// result lives, so that none falls between the fork and the wait.
fn launch(
    options: &Options,
    f: impl FnOnce(Arc<dyn Boot>) -> i32,
) -> Result<(Job, HeldSignals), BootError> {
    options.check()?;
    crate::netmod::check_settings()?;
    if let Some(count) = os::thread_count().filter(|&count| count > 1) {
        return Err(BootError::Threads { count });
    }
    let cpus = if options.pin { allowed_cpus() } else { Vec::new() };
    let arena = Arc::new(Arena::new(options.ranks, options.space)?);
    {
        // Buffered output would be printed once by every child.
        use std::io::Write;
        let _ = std::io::stdout().flush();
        let _ = std::io::stderr().flush();
    }
    let held = HeldSignals::hold();
    // SAFETY: getpid cannot fail. fork: the process has one thread, as just
    // counted, so the child is a whole process.
    let (caller, forked) = unsafe { (libc::getpid(), libc::fork()) };
    match forked {
        -1 => Err(BootError::os("forking the supervisor of the ranks")),
        0 => {
            let rank = supervisor::fork_ranks(&arena, caller, &held.old);
            be_rank(arena, rank, options, &cpus, f)
        }
        supervisor => {
            let job = Job { arena, supervisor, outcome: None };
            job.wait_for_gate()?;
            Ok((job, held))
        }
    }
}

/// The life of a rank. Never returns.
fn be_rank(
    arena: Arc<Arena>,
    rank: u32,
    options: &Options,
    cpus: &[usize],
    f: impl FnOnce(Arc<dyn Boot>) -> i32,
) -> ! {
    if !cpus.is_empty() {
        pin_to(cpus[rank as usize % cpus.len()]);
    }
    // SAFETY: getppid has no arguments and cannot fail.
    let supervisor = unsafe { libc::getppid() };
    let boot: Arc<dyn Boot> = Arc::new(child::Local::new(arena, rank, options, supervisor));
    install(boot.clone());
    // The panic message is already printed by the hook.
    let code = catch_unwind(AssertUnwindSafe(|| f(boot))).unwrap_or(101);
    os::leave(code)
}

/// A forked job whose caller does other things meanwhile.
///
/// Dropping it ends the ranks that still run.
pub struct Job {
    arena: Arc<Arena>,
    supervisor: libc::pid_t,
    outcome: Option<Outcome>,
}

impl Job {
    /// Name of the job, as its ranks know it.
    pub fn id(&self) -> u64 {
        self.arena.job
    }

    /// Process id of `rank`; `None` when it has ended or there is none.
    pub fn pid(&self, rank: u32) -> Option<u32> {
        if rank >= self.arena.ranks() || self.exit(rank).is_some() {
            return None;
        }
        Some(self.arena.slot(rank).pid.load(Ordering::Acquire))
    }

    /// Process id of the supervisor.
    pub fn supervisor(&self) -> u32 {
        self.supervisor as u32
    }

    /// How `rank` ended; `None` while it runs.
    pub fn exit(&self, rank: u32) -> Option<Exit> {
        if rank >= self.arena.ranks() {
            return None;
        }
        let slot = self.arena.slot(rank);
        let state = slot.state.load(Ordering::Acquire);
        let status = slot.status.load(Ordering::Relaxed);
        match state {
            EXITED => Some(Exit::Code(status)),
            KILLED => Some(Exit::Signal(status)),
            _ => None,
        }
    }

    /// Sends `signal` to `rank`.
    ///
    /// # Errors
    /// [`BootError::Rank`]; [`BootError::PeerDied`] when it has ended.
    pub fn kill(&self, rank: u32, signal: i32) -> Result<(), BootError> {
        super::check_rank(rank, self.arena.ranks())?;
        let how = || self.arena.obituary(rank).unwrap_or_default();
        let pid = self.pid(rank).ok_or_else(|| BootError::PeerDied { rank, how: how() })?;
        // SAFETY: kill takes two integers. The rank was alive a moment ago
        // and its pid is not reused within that moment.
        if unsafe { libc::kill(pid as libc::pid_t, signal) } != 0 {
            return Err(BootError::os(format!("sending signal {signal} to rank {rank}")));
        }
        Ok(())
    }

    /// Waits until all ranks have ended and their leftovers are removed.
    pub fn wait(self) -> Result<Outcome, BootError> {
        self.wait_holding(None)
    }

    fn wait_holding(mut self, held: Option<HeldSignals>) -> Result<Outcome, BootError> {
        let forwarding = Forwarding::start(self.supervisor);
        drop(held);
        let status = wait_for(self.supervisor);
        let interrupted = forwarding.stop();
        let outcome = self.conclude(status);
        if let Some(signal) = interrupted {
            // SAFETY: raises in the calling process what it was sent, now
            // under its own handler again.
            unsafe { libc::raise(signal) };
        }
        outcome
    }

    /// Reads the arena after the supervisor has ended with `status`.
    fn conclude(&mut self, status: i32) -> Result<Outcome, BootError> {
        let ranks = self.arena.ranks();
        // A supervisor that was killed has taken the ranks with it, without
        // noting their ends and without sweeping.
        if libc::WIFSIGNALED(status) {
            let pids: Vec<u32> =
                (0..ranks).map(|r| self.arena.slot(r).pid.load(Ordering::Acquire)).collect();
            let deadline = Instant::now() + Duration::from_secs(2);
            while !pids.iter().all(|&pid| os::ended(pid)) && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(5));
            }
            sweep::sweep(&pids, self.arena.job);
        }
        let header = self.arena.header();
        let aborted = header.aborted.load(Ordering::Acquire);
        let aborter = ((aborted >> 32) as u32).checked_sub(1);
        let outcome = Outcome {
            exits: (0..ranks)
                .map(|rank| self.exit(rank).unwrap_or(Exit::Signal(libc::SIGKILL)))
                .collect(),
            aborted: aborter.map(|rank| (rank, aborted as i32)),
        };
        self.outcome = Some(outcome.clone());
        Ok(outcome)
    }

    /// Returns when all ranks are forked, or with the reason they are not.
    fn wait_for_gate(&self) -> Result<(), BootError> {
        let header = self.arena.header();
        loop {
            let gate = header.gate.load(Ordering::Acquire);
            match gate {
                GATE_OPEN => return Ok(()),
                GATE_CLOSED => os::futex_wait(&header.gate, gate, Duration::from_millis(100)),
                _ => {
                    let errno = header.fork_errno.load(Ordering::Relaxed);
                    return Err(BootError::io(
                        format!(
                            "forking {} ranks (see `ulimit -u` and free memory)",
                            self.arena.ranks()
                        ),
                        std::io::Error::from_raw_os_error(errno),
                    ));
                }
            }
            // SAFETY: signal 0 asks whether our unreaped child exists; a
            // zombie counts, hence the look at its state below.
            let ended = unsafe {
                let mut info: libc::siginfo_t = std::mem::zeroed();
                libc::waitid(
                    libc::P_PID,
                    self.supervisor as libc::id_t,
                    &mut info,
                    libc::WEXITED | libc::WNOHANG | libc::WNOWAIT,
                ) == 0
                    && info.si_pid() == self.supervisor
            };
            if ended && header.gate.load(Ordering::Acquire) == GATE_CLOSED {
                return Err(BootError::Options(
                    "the supervisor of the ranks was killed while forking them".into(),
                ));
            }
        }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if self.outcome.is_none() {
            // SAFETY: the supervisor is our child and not reaped yet, since
            // there is no outcome; so the pid is still its.
            unsafe { libc::kill(self.supervisor, libc::SIGTERM) };
            let status = wait_for(self.supervisor);
            let _ = self.conclude(status);
        }
    }
}

/// Waits for child `pid`; returns its wait status.
fn wait_for(pid: libc::pid_t) -> i32 {
    let mut status = 0;
    loop {
        // SAFETY: `status` is a live local.
        let got = unsafe { libc::waitpid(pid, &mut status, 0) };
        let interrupted = std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted;
        if got == pid || !interrupted {
            return status;
        }
    }
}

/// Keeps SIGINT and SIGTERM pending while it lives.
struct HeldSignals {
    old: libc::sigset_t,
}

impl HeldSignals {
    fn hold() -> Self {
        // SAFETY: signal sets are plain data which the calls fill; every
        // pointer is to a live local.
        unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            let mut old: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            libc::sigaddset(&mut set, libc::SIGINT);
            libc::sigaddset(&mut set, libc::SIGTERM);
            libc::pthread_sigmask(libc::SIG_BLOCK, &set, &mut old);
            HeldSignals { old }
        }
    }
}

impl Drop for HeldSignals {
    fn drop(&mut self) {
        // SAFETY: `old` is the mask this thread had.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.old, std::ptr::null_mut()) };
    }
}

/// While a caller waits, SIGINT and SIGTERM go to the supervisor instead, to all of those that
/// are waited for.
struct Forwarding {
    /// Its place in [`SUPERVISORS`], if there was one.
    place: Option<usize>,
}

/// Callers that wait at once.
const WAITERS: usize = 64;

/// Whose ends are waited for, 0 for nobody, and the signal that came meanwhile.
static SUPERVISORS: [(AtomicI32, AtomicI32); WAITERS] =
    [const { (AtomicI32::new(0), AtomicI32::new(0)) }; WAITERS];

/// The handlers from before the first waiter, while there are any.
static HANDLERS: Mutex<Vec<(i32, libc::sigaction)>> = Mutex::new(Vec::new());

extern "C" fn forward(signal: i32) {
    for (supervisor, came) in &SUPERVISORS {
        let supervisor = supervisor.load(Ordering::Acquire);
        if supervisor > 0 {
            came.store(signal, Ordering::Relaxed);
            // SAFETY: kill is async-signal-safe; the supervisor is not reaped
            // while it stands there. errno is restored for the interrupted code.
            unsafe {
                let errno = *libc::__errno_location();
                libc::kill(supervisor, signal);
                *libc::__errno_location() = errno;
            }
        }
    }
}

impl Forwarding {
    fn start(supervisor: libc::pid_t) -> Self {
        let mut handlers = HANDLERS.lock().unwrap_or_else(|poison| poison.into_inner());
        let place = SUPERVISORS.iter().position(|it| it.0.load(Ordering::Relaxed) == 0);
        if let Some(place) = place {
            SUPERVISORS[place].1.store(0, Ordering::Relaxed);
            SUPERVISORS[place].0.store(supervisor, Ordering::Release);
        }
        if handlers.is_empty() {
            *handlers = [libc::SIGINT, libc::SIGTERM].map(replace_handler).into();
        }
        Forwarding { place }
    }

    /// Puts the old handlers back where nobody else waits; returns the signal that came, if any.
    fn stop(self) -> Option<i32> {
        let mut handlers = HANDLERS.lock().unwrap_or_else(|poison| poison.into_inner());
        let place = self.place?;
        let is_free = |(at, it): (usize, &(AtomicI32, AtomicI32))| {
            at == place || it.0.load(Ordering::Relaxed) == 0
        };
        if SUPERVISORS.iter().enumerate().all(is_free) {
            for (signal, old) in handlers.drain(..) {
                // SAFETY: `old` is what sigaction reported for this signal.
                unsafe { libc::sigaction(signal, &old, std::ptr::null_mut()) };
            }
        }
        let (supervisor, came) = &SUPERVISORS[place];
        supervisor.store(0, Ordering::Release);
        Some(came.swap(0, Ordering::Relaxed)).filter(|&signal| signal != 0)
    }
}

/// Has [`forward`] called for a signal; returns what was before.
fn replace_handler(signal: i32) -> (i32, libc::sigaction) {
    // SAFETY: sigaction structs are plain data; the handler is
    // async-signal-safe; a signal the user ignores stays ignored.
    unsafe {
        let mut new: libc::sigaction = std::mem::zeroed();
        let mut old: libc::sigaction = std::mem::zeroed();
        let handler: extern "C" fn(i32) = forward;
        new.sa_sigaction = handler as usize;
        libc::sigaction(signal, std::ptr::null(), &mut old);
        if old.sa_sigaction != libc::SIG_IGN {
            libc::sigaction(signal, &new, std::ptr::null_mut());
        }
        (signal, old)
    }
}

/// CPUs this process may run on, ascending.
fn allowed_cpus() -> Vec<usize> {
    // SAFETY: cpu_set_t is plain data which sched_getaffinity fills; CPU
    // numbers stay below CPU_SETSIZE.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        if libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) != 0 {
            return Vec::new();
        }
        (0..libc::CPU_SETSIZE as usize).filter(|&cpu| libc::CPU_ISSET(cpu, &set)).collect()
    }
}

/// Binds the calling process to `cpu`; a refusal leaves it where it was.
fn pin_to(cpu: usize) {
    // SAFETY: as in `allowed_cpus`.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_use_every_node_and_stay_balanced() {
        for (ranks, nodes) in [(1, 1), (5, 4), (8, 2), (7, 7), (64, 3)] {
            for layout in [Layout::Block, Layout::RoundRobin] {
                let mut counts = vec![0u32; nodes as usize];
                for rank in 0..ranks {
                    counts[layout.node(rank, ranks, nodes) as usize] += 1;
                }
                let (least, most) = (counts.iter().min(), counts.iter().max());
                assert!(most.unwrap() - least.unwrap() <= 1, "{layout:?} {ranks}/{nodes}");
            }
        }
        assert_eq!(Layout::Block.node(3, 4, 2), 1);
        assert_eq!(Layout::RoundRobin.node(2, 4, 2), 0);
    }

    #[test]
    fn impossible_jobs_are_refused() {
        let refused = |options: &Options| matches!(options.check(), Err(BootError::Options(_)));
        assert!(refused(&Options::new(0)));
        assert!(refused(&Options { nodes: 0, ..Options::new(2) }));
        assert!(refused(&Options { nodes: 3, ..Options::new(2) }));
        // More than any system has processes.
        assert!(refused(&Options::new(i32::MAX as u32)));
    }

    #[test]
    fn threads_are_refused() {
        // The test harness runs tests in threads, so there are two at least.
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let result = spawn(&Options::new(1), |_| 0);
                assert!(matches!(result, Err(BootError::Threads { count }) if count >= 2));
            });
        });
    }

    #[test]
    fn exit_codes_follow_the_shell() {
        let outcome = |exits: &[Exit]| Outcome { exits: exits.to_vec(), aborted: None };
        assert_eq!(outcome(&[Exit::Code(0)]).exit_code(), 0);
        assert_eq!(outcome(&[Exit::Code(0), Exit::Code(3)]).exit_code(), 3);
        assert_eq!(outcome(&[Exit::Signal(9)]).exit_code(), 137);
    }
}
