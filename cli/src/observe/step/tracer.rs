//! The tracing side: breakpoints, single steps, the count, and the end of the
//! child whatever happens.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::operands::Operands;
use super::page::{Outcome, SharedPage};
use super::{Limits, Marker, Region, StepError, Stop, Trace, child};
use crate::observe::symbols::modules_of;

/// The C libraries do not agree on the type of ptrace's first argument.
#[cfg(target_env = "musl")]
type Request = libc::c_int;
#[cfg(not(target_env = "musl"))]
type Request = libc::c_uint;

/// Longest x86-64 instruction.
const LONGEST: usize = 15;
/// Between asking a child to end and ending it.
const GRACE: Duration = Duration::from_millis(500);

pub(super) fn session(
    limits: Limits,
    run: impl FnOnce(&Marker<'_>) -> Result<(), String>,
) -> Result<Vec<Trace>, StepError> {
    let page = SharedPage::new().map_err(system("mmap"))?;
    // SAFETY: the child runs `child::live`, which never returns into this
    // frame. glibc makes its own locks usable after fork; what else the
    // closure may touch is for the caller, as `super::trace` documents.
    let pid = unsafe { libc::fork() };
    if pid == -1 {
        return Err(system("fork")(io::Error::last_os_error()));
    }
    if pid == 0 {
        child::live(&page, run);
    }
    let mut child = Child { pid, pidfd: None, reaped: false };
    child.pidfd = Some(Arc::new(pidfd_open(pid).map_err(system("pidfd_open"))?));

    match child.wait()? {
        Event::Stopped(libc::SIGSTOP) => {}
        Event::Exited(_) if page.outcome() == Outcome::Refused => {
            return Err(StepError::Refused(page.errno()));
        }
        Event::Exited(status) => return Err(StepError::Exited(status)),
        Event::Killed(signal) | Event::Stopped(signal) => return Err(StepError::Died { signal }),
    }
    child.die_with_tracer()?;
    let memory =
        File::open(format!("/proc/{pid}/mem")).map_err(system("opening /proc/<pid>/mem"))?;

    let watchdog = Watchdog::start(child.pidfd.clone(), limits.timeout)?;
    let result =
        Tracer { child: &mut child, memory, page: &page, limits, watchdog: &watchdog, seen: 0 }
            .drive()
            .map_err(|error| watchdog.attribute(error, limits));
    // End the child before the watchdog, which still bounds the waiting.
    drop(child);
    result
}

fn system(call: &'static str) -> impl FnOnce(io::Error) -> StepError {
    move |source| StepError::System { call, source }
}

fn pidfd_open(pid: libc::pid_t) -> io::Result<OwnedFd> {
    // SAFETY: pidfd_open(2) takes two integers.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel just gave us this descriptor; no one else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Through a pidfd a signal cannot hit another process that got the same pid.
fn pidfd_signal(pidfd: &OwnedFd, signal: i32) {
    // SAFETY: integers and a null siginfo, which means "as kill(2)". ESRCH
    // (already gone) is what we want anyway.
    unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            pidfd.as_raw_fd(),
            signal,
            std::ptr::null::<libc::siginfo_t>(),
            0,
        )
    };
}

enum Event {
    Exited(i32),
    Killed(i32),
    Stopped(i32),
}

/// A forked child; dropping it ends and reaps the process.
struct Child {
    pid: libc::pid_t,
    pidfd: Option<Arc<OwnedFd>>,
    reaped: bool,
}

impl Child {
    fn wait(&mut self) -> Result<Event, StepError> {
        loop {
            if let Some(event) = self.wait_with(0)? {
                return Ok(event);
            }
        }
    }

    fn wait_with(&mut self, flags: i32) -> Result<Option<Event>, StepError> {
        let mut status = 0;
        // SAFETY: `status` outlives the call.
        let got = unsafe { libc::waitpid(self.pid, &mut status, flags | libc::__WALL) };
        if got == 0 {
            return Ok(None);
        }
        if got == -1 {
            let error = io::Error::last_os_error();
            if error.kind() == io::ErrorKind::Interrupted {
                return Ok(None);
            }
            // Someone else reaped it (SIGCHLD ignored, a wait for any child).
            self.reaped = true;
            return Err(system("waitpid")(error));
        }
        if libc::WIFSTOPPED(status) {
            return Ok(Some(Event::Stopped(libc::WSTOPSIG(status))));
        }
        self.reaped = true;
        if libc::WIFSIGNALED(status) {
            return Ok(Some(Event::Killed(libc::WTERMSIG(status))));
        }
        Ok(Some(Event::Exited(libc::WEXITSTATUS(status))))
    }

    fn die_with_tracer(&self) -> Result<(), StepError> {
        self.ptrace(libc::PTRACE_SETOPTIONS, 0, libc::PTRACE_O_EXITKILL as usize)
            .map_err(system("ptrace(PTRACE_SETOPTIONS)"))?;
        Ok(())
    }

    /// A request whose address and data are numbers for the child, not
    /// pointers of ours.
    fn ptrace(&self, request: Request, address: usize, data: usize) -> io::Result<()> {
        // SAFETY: callers pass requests that read or write only the child.
        if unsafe { libc::ptrace(request, self.pid, address, data) } == -1 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    /// Lets the stopped child go on, delivering `signal` (0: none), until it
    /// reports again.
    fn resume(&mut self, request: Request, signal: i32) -> Result<Event, StepError> {
        match self.ptrace(request, 0, signal as usize) {
            // Killed while stopped: the wait tells.
            Err(error) if error.raw_os_error() != Some(libc::ESRCH) => {
                Err(system("ptrace(continue)")(error))
            }
            _ => self.wait(),
        }
    }

    fn registers(&self) -> Result<libc::user_regs_struct, StepError> {
        let mut registers = std::mem::MaybeUninit::<libc::user_regs_struct>::uninit();
        // SAFETY: PTRACE_GETREGS fills one user_regs_struct at `data`.
        let done = unsafe {
            libc::ptrace(libc::PTRACE_GETREGS, self.pid, 0, registers.as_mut_ptr()) != -1
        };
        if !done {
            return Err(system("ptrace(PTRACE_GETREGS)")(io::Error::last_os_error()));
        }
        // SAFETY: filled by the successful call above.
        Ok(unsafe { registers.assume_init() })
    }

    fn set_registers(&self, registers: &libc::user_regs_struct) -> Result<(), StepError> {
        self.ptrace(libc::PTRACE_SETREGS, 0, std::ptr::from_ref(registers) as usize)
            .map_err(system("ptrace(PTRACE_SETREGS)"))
    }

    fn signal_info(&self) -> Result<libc::siginfo_t, StepError> {
        let mut info = std::mem::MaybeUninit::<libc::siginfo_t>::uninit();
        // SAFETY: PTRACE_GETSIGINFO fills one siginfo_t at `data`.
        let done =
            unsafe { libc::ptrace(libc::PTRACE_GETSIGINFO, self.pid, 0, info.as_mut_ptr()) != -1 };
        if !done {
            return Err(system("ptrace(PTRACE_GETSIGINFO)")(io::Error::last_os_error()));
        }
        // SAFETY: filled by the successful call above.
        Ok(unsafe { info.assume_init() })
    }

    fn read_word(&self, address: usize) -> io::Result<usize> {
        // SAFETY: errno is this thread's own.
        unsafe { *libc::__errno_location() = 0 };
        // SAFETY: PTRACE_PEEKTEXT reads the child; glibc and musl return the
        // word and tell an error by errno.
        let word = unsafe { libc::ptrace(libc::PTRACE_PEEKTEXT, self.pid, address, 0) };
        let error = io::Error::last_os_error();
        if word == -1 && error.raw_os_error() != Some(0) {
            return Err(error);
        }
        Ok(word as usize)
    }

    /// Asks the child to end, lets it handle that, then ends it.
    fn end(&mut self) {
        if let Some(pidfd) = &self.pidfd {
            pidfd_signal(pidfd, libc::SIGTERM);
        }
        let deadline = Instant::now() + GRACE;
        let mut signal = 0;
        // It is stopped, or running after a failed request; continuing a
        // running child fails and does no harm.
        while !self.reaped && Instant::now() < deadline {
            let _ = self.ptrace(libc::PTRACE_CONT, 0, signal as usize);
            signal = 0;
            match self.wait_with(libc::WNOHANG) {
                Ok(Some(Event::Stopped(got))) => signal = got,
                Ok(Some(_)) | Err(_) => return,
                Ok(None) => std::thread::sleep(Duration::from_millis(1)),
            }
        }
        // SAFETY: not reaped, so the pid is still our child's.
        unsafe { libc::kill(self.pid, libc::SIGKILL) };
        while !self.reaped && self.wait().is_ok() {}
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if !self.reaped {
            self.end();
        }
    }
}

/// Ends the child when its time is over, because the tracer itself waits
/// without a bound.
struct Watchdog {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    done: Mutex<bool>,
    wake: Condvar,
    expired: AtomicBool,
}

impl Watchdog {
    fn start(pidfd: Option<Arc<OwnedFd>>, timeout: Duration) -> Result<Self, StepError> {
        let shared = Arc::new(Shared {
            done: Mutex::new(false),
            wake: Condvar::new(),
            expired: AtomicBool::new(false),
        });
        let watched = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("step-watchdog".into())
            .spawn(move || {
                for (patience, signal) in [(timeout, libc::SIGTERM), (GRACE, libc::SIGKILL)] {
                    let done = watched.done.lock().unwrap_or_else(PoisonError::into_inner);
                    let (done, _) = watched
                        .wake
                        .wait_timeout_while(done, patience, |done| !*done)
                        .unwrap_or_else(PoisonError::into_inner);
                    if *done {
                        return;
                    }
                    watched.expired.store(true, Ordering::SeqCst);
                    if let Some(pidfd) = &pidfd {
                        pidfd_signal(pidfd, signal);
                    }
                }
            })
            .map_err(system("starting a thread"))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    fn expired(&self) -> bool {
        self.shared.expired.load(Ordering::SeqCst)
    }

    /// The reason behind `error`, when that is the watchdog.
    fn attribute(&self, error: StepError, limits: Limits) -> StepError {
        if self.expired() { StepError::TimedOut(limits.timeout) } else { error }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        *self.shared.done.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.shared.wake.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A region with its breakpoint in place.
struct Armed {
    region: Region,
    hits: u32,
    /// The original word under the breakpoint.
    word: usize,
}

struct Tracer<'a> {
    child: &'a mut Child,
    memory: File,
    page: &'a SharedPage,
    limits: Limits,
    watchdog: &'a Watchdog,
    /// Value of `page.armed()` that was acted upon.
    seen: u32,
}

impl Tracer<'_> {
    fn drive(mut self) -> Result<Vec<Trace>, StepError> {
        let mut traces = Vec::new();
        let mut armed: Option<Armed> = None;
        let mut signal = 0;
        loop {
            let event = self.child.resume(libc::PTRACE_CONT, signal)?;
            signal = 0;
            match event {
                Event::Stopped(libc::SIGSTOP) if self.page.armed() != self.seen => {
                    if let Some(armed) = &armed {
                        return Err(never_reached(armed));
                    }
                    self.seen = self.page.armed();
                    armed = Some(self.arm(self.page.region())?);
                }
                Event::Stopped(libc::SIGTRAP) => {
                    let registers = self.child.registers()?;
                    match armed.take() {
                        Some(mut hit) if registers.rip as usize == hit.region.start + 1 => {
                            self.lift(&hit, registers)?;
                            hit.hits += 1;
                            if hit.hits == hit.region.nth {
                                traces.push(self.count(hit.region)?);
                            } else {
                                self.step_over(hit.region)?;
                                armed = Some(Armed { hits: hit.hits, ..self.arm(hit.region)? });
                            }
                        }
                        other => {
                            armed = other;
                            signal = libc::SIGTRAP;
                        }
                    }
                }
                // Someone stopped it by hand; a traced child just goes on.
                Event::Stopped(libc::SIGSTOP) => {}
                Event::Stopped(other) => signal = other,
                Event::Killed(signal) => return Err(StepError::Died { signal }),
                Event::Exited(status) => {
                    return match (self.page.outcome(), armed) {
                        (Outcome::Closure, _) => Err(StepError::Closure(self.page.text())),
                        (Outcome::Panicked, _) => Err(StepError::Panicked(self.page.text())),
                        (Outcome::Done, None) => Ok(traces),
                        (Outcome::Done, Some(armed)) => Err(never_reached(&armed)),
                        _ => Err(StepError::Exited(status)),
                    };
                }
            }
        }
    }

    /// Plants the breakpoint.
    fn arm(&self, region: Region) -> Result<Armed, StepError> {
        let failed = |source| StepError::Breakpoint { start: region.start, source };
        // An aligned word never reaches into an unmapped next page.
        let word_at = region.start & !7;
        let shift = (region.start & 7) * 8;
        let word = self.child.read_word(word_at).map_err(failed)?;
        let with_int3 = word & !(0xff << shift) | 0xcc << shift;
        self.child.ptrace(libc::PTRACE_POKETEXT, word_at, with_int3).map_err(failed)?;
        Ok(Armed { region, hits: 0, word })
    }

    /// Takes the breakpoint away and puts the child back before it.
    fn lift(&self, armed: &Armed, mut registers: libc::user_regs_struct) -> Result<(), StepError> {
        let start = armed.region.start;
        self.child
            .ptrace(libc::PTRACE_POKETEXT, start & !7, armed.word)
            .map_err(|source| StepError::Breakpoint { start, source })?;
        registers.rip = start as u64;
        self.child.set_registers(&registers)
    }

    fn step_over(&mut self, region: Region) -> Result<(), StepError> {
        let mut held = Vec::new();
        self.step(region, region.start, 0, &mut held)?;
        self.release(held);
        Ok(())
    }

    /// One finished single step. Asynchronous signals that come in between are
    /// held back.
    fn step(
        &mut self,
        region: Region,
        at: usize,
        steps: usize,
        held: &mut Vec<i32>,
    ) -> Result<(), StepError> {
        let left = |why| StepError::Left { start: region.start, at, steps, why };
        let mut signal = 0;
        loop {
            match self.child.resume(libc::PTRACE_SINGLESTEP, signal)? {
                Event::Stopped(libc::SIGTRAP) => return Ok(()),
                Event::Stopped(libc::SIGSTOP) if self.page.armed() != self.seen => {
                    return Err(StepError::Nested { start: region.start });
                }
                Event::Stopped(fault) if self.is_fault(fault)? => {
                    return Err(left(match fault {
                        libc::SIGSEGV => "it faulted (SIGSEGV)",
                        libc::SIGBUS => "it faulted (SIGBUS)",
                        libc::SIGFPE => "it faulted (SIGFPE)",
                        _ => "it faulted (SIGILL)",
                    }));
                }
                // Out of time: the signal is the watchdog's, let it work.
                Event::Stopped(other) if self.watchdog.expired() => signal = other,
                Event::Stopped(other) => {
                    signal = 0;
                    held.push(other);
                }
                Event::Killed(signal) => return Err(StepError::Died { signal }),
                Event::Exited(_) => return Err(left("the process exited")),
            }
        }
    }

    /// Returns true if the child's own instruction raised `signal`, so that
    /// holding it back would raise it again for ever.
    fn is_fault(&self, signal: i32) -> Result<bool, StepError> {
        let faults = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL];
        Ok(faults.contains(&signal) && self.child.signal_info()?.si_code > 0)
    }

    /// Sends the signals held back during single steps.
    fn release(&self, held: Vec<i32>) {
        if let Some(pidfd) = &self.child.pidfd {
            for signal in held {
                pidfd_signal(pidfd, signal);
            }
        }
    }

    fn count(&mut self, region: Region) -> Result<Trace, StepError> {
        let entry = self.child.registers()?;
        let floor = entry.rsp;
        let back = self.child.read_word(floor as usize).unwrap_or(0);

        let mut code = BTreeMap::new();
        let mut steps = Vec::new();
        let mut held = Vec::new();
        let mut operands = Operands::new();
        let mut before = entry;
        let mut at = region.start;
        let mut made = 0;
        loop {
            if made == self.limits.max_steps {
                return Err(StepError::TooLong { start: region.start, steps: made, at });
            }
            made += 1;
            let bytes = code.entry(at).or_insert_with(|| self.code_at(at)).as_slice();
            let repeats = repeats(bytes);
            operands.record(bytes, steps.len(), &before);
            self.step(region, at, steps.len(), &mut held)?;
            let registers = self.child.registers()?;
            before = registers;
            let next = registers.rip as usize;
            if !(repeats && next == at) {
                steps.push(at);
            }
            match region.stop {
                Stop::Return if registers.rsp > floor => {
                    if next != back {
                        let why = "not by ret; is the start the first instruction of a function?";
                        let start = region.start;
                        return Err(StepError::Left { start, at, steps: steps.len(), why });
                    }
                    steps.pop();
                    operands.forget(steps.len());
                    break;
                }
                Stop::At(address) if next == address => {
                    at = next;
                    break;
                }
                _ => at = next,
            }
        }
        self.release(held);
        let modules =
            modules_of(self.child.pid as u32).map_err(system("reading /proc/<pid>/maps"))?;
        let arguments = [entry.rdi, entry.rsi, entry.rdx, entry.rcx, entry.r8, entry.r9];
        Ok(Trace {
            region,
            count: steps.len(),
            steps,
            code,
            modules,
            end: at,
            accesses: operands.accesses,
            unresolved: operands.unresolved,
            stack: floor as usize,
            arguments: arguments.map(|word| word as usize),
        })
    }

    fn code_at(&self, address: usize) -> Vec<u8> {
        let mut bytes = vec![0; LONGEST];
        // Short at the end of a mapping; the instruction itself is there,
        // since it runs.
        let got = self.memory.read_at(&mut bytes, address as u64).unwrap_or(0);
        bytes.truncate(got);
        bytes
    }
}

fn never_reached(armed: &Armed) -> StepError {
    let Region { start, nth, .. } = armed.region;
    StepError::NeverReached { start, nth, hits: armed.hits }
}

/// Returns true if `code` is a string instruction with a repeat prefix, which
/// traps after every iteration (Intel SDM vol. 1, 7.3.9.3 and vol. 2, REP).
fn repeats(code: &[u8]) -> bool {
    let mut repeat = false;
    for &byte in code {
        match byte {
            0xf2 | 0xf3 => repeat = true,
            0x26 | 0x2e | 0x36 | 0x3e | 0x64..=0x67 | 0x40..=0x4f => {}
            0x6c..=0x6f | 0xa4..=0xa7 | 0xaa..=0xaf => return repeat,
            _ => return false,
        }
    }
    false
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::repeats;

    #[test]
    fn repeat_prefixes() {
        assert!(repeats(&[0xf3, 0xa4]), "rep movsb");
        assert!(repeats(&[0xf3, 0x48, 0xab]), "rep stosq");
        assert!(repeats(&[0x66, 0xf2, 0xae]), "repne scas");
        assert!(!repeats(&[0xa4]), "movsb");
        assert!(!repeats(&[0xf3, 0x90]), "pause");
        assert!(!repeats(&[0xf3, 0x0f, 0xb8, 0xc1]), "popcnt");
        assert!(!repeats(&[0xeb, 0xfe]), "jump to itself");
        assert!(!repeats(&[]));
    }
}
