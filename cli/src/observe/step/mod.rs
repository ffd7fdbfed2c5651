//! Exact instruction counts: a child process is stepped one instruction at a
//! time, see ptrace(2), from the first instruction of a function to its return
//! or to another address.
//!
//! The count is of native code on the real machine: nothing is translated,
//! sampled or extrapolated, and it is the same on every run of the same binary
//! as long as the code takes the same branches. Rules of the count:
//!
//! - an instruction counts once when it has finished; a `rep` string
//!   instruction is one, however many iterations it runs;
//! - with [`Stop::Return`] the final `ret` is not counted, as in the tables of
//!   Guo et al. (2017);
//! - a system call is one instruction; the kernel's are not seen, nor what it reads and writes;
//! - a prefetch and an address that is only computed (`lea`) are no access to memory;
//! - asynchronous signals that arrive during the count are delivered after it,
//!   so their handlers are not in it.
//!
//! The measured code runs in a `fork` of the caller, stopped at full speed up
//! to the region by a breakpoint. Only the thread that runs the closure is
//! traced. The child is let run to the end of the closure so that it can close
//! what it opened (a killed libfabric process leaves segments in `/dev/shm`);
//! it is ended by force only when it exceeds its [`Limits`].
//!
//! Works on Linux on x86-64. Elsewhere every function returns
//! [`StepError::Unsupported`].
//!
//! ```
//! use rankway_cli::observe::step::{self, Stop};
//!
//! #[inline(never)]
//! extern "C" fn twice(x: u64) -> u64 {
//!     std::hint::black_box(x).wrapping_mul(2)
//! }
//!
//! let run = || {
//!     std::hint::black_box(twice(21));
//! };
//! match step::trace(run, twice as usize, Stop::Return) {
//!     Ok(trace) => println!("{} instructions", trace.count),
//!     Err(error) => println!("not counted: {error}"),
//! }
//! ```

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod child;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod operands;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod page;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod tracer;

use std::collections::BTreeMap;
use std::time::Duration;

use super::symbols::Module;

/// Where a count ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Before the `ret` that leaves the function entered at the region's
    /// start. The start must be the function's first instruction. Tail calls
    /// are followed.
    Return,
    /// When the instruction at this address is about to run; it is not
    /// counted. For example the entry of a provider's operation.
    At(usize),
}

/// What to count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// Address of the first counted instruction, for example `f as usize` of
    /// an `#[inline(never)]` function.
    pub start: usize,
    /// Where the count ends.
    pub stop: Stop,
    /// Which passage through `start` is counted, from 1. Earlier ones run at
    /// full speed and warm up what is lazy.
    pub nth: u32,
}

impl Region {
    /// The first call of the function at `entry`, up to its return.
    pub fn function(entry: usize) -> Self {
        Self { start: entry, stop: Stop::Return, nth: 1 }
    }

    /// From `start` until `end` is reached, the first time `start` is passed.
    pub fn between(start: usize, end: usize) -> Self {
        Self { start, stop: Stop::At(end), nth: 1 }
    }

    /// The same region at its `nth` passage, from 1.
    pub fn nth(self, nth: u32) -> Self {
        Self { nth, ..self }
    }

    /// Runs `run` in a child process and counts this region with the default
    /// [`Limits`].
    ///
    /// # Errors
    /// See [`StepError`].
    pub fn trace(self, run: impl FnOnce()) -> Result<Trace, StepError> {
        let traces = session(Limits::default(), |marker| {
            marker.count(self);
            run();
            Ok(())
        })?;
        traces.into_iter().next().ok_or(StepError::NeverReached {
            start: self.start,
            nth: self.nth,
            hits: 0,
        })
    }
}

/// Bounds of a [`session`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Single steps per region, iterations of `rep` instructions included. A
    /// machine makes some 20,000 to 100,000 a second.
    pub max_steps: usize,
    /// Wall-clock time of the whole child process.
    pub timeout: Duration,
}

impl Default for Limits {
    /// 500,000 steps a region, 30 seconds.
    fn default() -> Self {
        Self { max_steps: 500_000, timeout: Duration::from_secs(30) }
    }
}

/// Bytes that one instruction read or wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Place of the instruction in [`Trace::steps`].
    pub step: usize,
    /// The first byte.
    pub address: usize,
    /// How many; 1 where the decoder knows no size (`xsave`).
    pub bytes: usize,
    /// They were read.
    pub read: bool,
    /// They were written.
    pub write: bool,
}

/// The instructions one passage through a region ran.
#[derive(Clone, Debug)]
pub struct Trace {
    /// What was counted.
    pub region: Region,
    /// Addresses of the executed instructions, in order.
    pub steps: Vec<usize>,
    /// How many instructions: the length of `steps`.
    pub count: usize,
    /// Machine code at each executed address: up to 15 bytes, the instruction
    /// first. Read from the child, so libraries that only the child opened are
    /// in it.
    pub code: BTreeMap<usize, Vec<u8>>,
    /// The files mapped as code in the child, for naming addresses.
    pub modules: Vec<Module>,
    /// The address that would have run next: the `ret` for [`Stop::Return`].
    pub end: usize,
    /// What the instructions read and wrote, in order; every iteration of a
    /// `rep` string instruction is one.
    pub accesses: Vec<Access>,
    /// Memory operands whose addresses stand in vector registers, which are not
    /// read: they are not in `accesses`.
    pub unresolved: usize,
    /// The stack pointer at the first instruction: of a function, where its
    /// return address stands.
    pub stack: usize,
    /// The first six integer arguments of a function, by the System V ABI of
    /// x86-64.
    pub arguments: [usize; 6],
}

/// Why there is no count.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StepError {
    /// Not Linux on x86-64.
    #[error("single-step counting needs Linux on x86-64; this is {os} on {arch}")]
    Unsupported {
        /// `std::env::consts::OS`
        os: &'static str,
        /// `std::env::consts::ARCH`
        arch: &'static str,
    },
    /// The kernel or a sandbox does not let the child be traced.
    #[error(
        "ptrace is refused here ({0}); in a container allow it with --cap-add=SYS_PTRACE \
         or a seccomp profile that has ptrace, and do not run under a debugger or strace"
    )]
    Refused(std::io::Error),
    /// The closure ended, or armed its next region, before the region started.
    #[error(
        "the region at {start:#x} was passed {hits} times, passage {nth} was to be counted; \
         is the function inlined, or called on another thread?"
    )]
    NeverReached {
        /// The region's start.
        start: usize,
        /// The passage asked for.
        nth: u32,
        /// The passages seen.
        hits: u32,
    },
    /// The region started and the process ended, or left the function by
    /// something else than `ret`, before the stop was met.
    #[error("the region at {start:#x} was left at {at:#x} after {steps} instructions: {why}")]
    Left {
        /// The region's start.
        start: usize,
        /// Last known instruction address.
        at: usize,
        /// Instructions counted until then.
        steps: usize,
        /// What happened.
        why: &'static str,
    },
    /// More steps than [`Limits::max_steps`].
    #[error(
        "the region at {start:#x} did not end within {steps} steps (now at {at:#x}); \
         raise Limits::max_steps or check the stop address"
    )]
    TooLong {
        /// The region's start.
        start: usize,
        /// Steps made.
        steps: usize,
        /// Where the child was.
        at: usize,
    },
    /// Longer than [`Limits::timeout`].
    #[error("the counted process did not end within {0:?} and was ended; raise Limits::timeout")]
    TimedOut(Duration),
    /// The child died of a signal.
    #[error("the counted process died of signal {signal}{hint}", hint = signal_hint(*.signal))]
    Died {
        /// Signal number, see signal(7).
        signal: i32,
    },
    /// The child called exit itself.
    #[error("the counted process exited with status {0} in the middle of the closure")]
    Exited(i32),
    /// The closure returned an error.
    #[error("{0}")]
    Closure(String),
    /// The closure panicked.
    #[error("the counted closure panicked: {0}")]
    Panicked(String),
    /// The address is not mapped in the child, or cannot be changed.
    #[error("no breakpoint at {start:#x}: {source}; is it the address of code?")]
    Breakpoint {
        /// The region's start.
        start: usize,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// [`Marker::count`] inside a region that is being counted.
    #[error("a region was armed inside the region at {start:#x}")]
    Nested {
        /// The outer region's start.
        start: usize,
    },
    /// A system call that should work did not.
    #[error("{call} failed while counting: {source}")]
    System {
        /// The system call.
        call: &'static str,
        /// What the kernel said.
        source: std::io::Error,
    },
}

fn signal_hint(signal: i32) -> &'static str {
    match signal {
        libc::SIGTRAP => " (a breakpoint hit on a thread other than the one that runs the closure)",
        libc::SIGKILL => " (killed from outside; out of memory?)",
        _ => "",
    }
}

/// Counts the first passage of `run` through `start` until `stop`.
///
/// `run` runs in a forked child: what it changes is not seen by the caller.
/// Other threads of the caller do not exist in the child, so `run` must not
/// wait for them or for a lock they might hold.
///
/// # Errors
/// See [`StepError`]; nothing hangs, see [`Limits`].
pub fn trace(run: impl FnOnce(), start: usize, stop: Stop) -> Result<Trace, StepError> {
    Region { start, stop, nth: 1 }.trace(run)
}

/// Counts several regions in one child process: `run` opens what it needs at
/// full speed, then arms each region with [`Marker::count`] right before it
/// runs it. Regions may lie in libraries that `run` itself opens.
///
/// The traces come in the order in which the regions were armed. An `Err` of
/// `run` comes back as [`StepError::Closure`].
///
/// # Errors
/// See [`StepError`]. The first failing region ends the session.
pub fn session(
    limits: Limits,
    run: impl FnOnce(&Marker<'_>) -> Result<(), String>,
) -> Result<Vec<Trace>, StepError> {
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    return tracer::session(limits, run);

    #[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
    {
        let _ = (limits, run);
        Err(StepError::Unsupported { os: std::env::consts::OS, arch: std::env::consts::ARCH })
    }
}

/// Handed to the closure of a [`session`]: arms regions.
#[derive(Debug)]
pub struct Marker<'a> {
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    page: &'a page::Page,
    #[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
    page: std::marker::PhantomData<&'a ()>,
}

impl Marker<'_> {
    /// Arms `region`: its next passages are watched and the `nth` is counted.
    /// A region armed before must have been counted by now.
    pub fn count(&self, region: Region) {
        #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
        {
            self.page.arm(region);
            child::stop_self();
        }
        #[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
        let _ = (region, self.page);
    }
}
