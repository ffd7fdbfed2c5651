//! Runs scenarios as jobs of real processes.
//!
//! A test binary with `harness = false` calls [`main`] with its scenarios. For
//! each of them it starts itself again, which forks the ranks (or is started
//! by a launcher) before any thread exists, runs the scenario's body in every
//! rank, and exits with what they say. A job that takes too long is killed and
//! reported: nothing hangs.

#![allow(dead_code, unreachable_pub, unused_imports, reason = "each test binary uses its part")]

mod bodies;
mod dice;
mod networks;
mod processes;
mod watched;
mod windows;

pub use bodies::{Opens, Over, add, in_threads, leave_together, panic_of, pattern, pids, same};
pub use dice::Dice;
pub use networks::{Far, cannot_join, join, sent};
pub use processes::{
    JOBS, OWN_SESSION, Result, bounded, bounded_for, die, ended, gone, group, leftovers, signal,
    stacks_of, told,
};
pub use watched::{CANARY, Watched};
pub use windows::{ALLOCATED, CREATED, DIRECT, Held, PROVIDED, make, own};

use crate::ensure;
use libtest_mimic::{Arguments, Failed, Trial};
use processes::LIMIT;
use rankway::boot::{self, Boot, in_process, local};
use std::process::{Command, ExitCode, Output};
use std::sync::Arc;
use std::time::Duration;

pub const SCENARIO: &str = "RANKWAY_TEST_SCENARIO";

/// One job and what its ranks do.
pub struct Scenario {
    pub name: String,
    pub ranks: u32,
    pub nodes: u32,
    pub layout: local::Layout,
    pub env: Vec<(&'static str, String)>,
    pub start: Start,
    /// How long it may take.
    pub limit: Duration,
    /// Run only with `--include-ignored`.
    pub slow: bool,
    pub body: fn(Arc<dyn Boot>) -> Result,
    /// Looks at what the job printed and how it ended, beyond "all ranks are
    /// content".
    pub verdict: fn(&Output) -> Result,
    /// What a network library says where it has ended the job itself, a known limit.
    /// Such a job proves nothing, and is played again.
    pub library: Option<&'static str>,
}

/// What UCX says where it aborts: over tcp, where a connection fails that is being made
/// or that it answers over (docs/architecture/limits.md).
pub const UCX_ABORTS: &str = "libucs.so.0(ucs_fatal_error_format";
/// How often a job is played that a library ends.
const PLAYS: usize = 4;

/// Who starts the ranks.
#[derive(Clone, Debug)]
pub enum Start {
    /// The program forks them.
    Fork,
    /// They are threads of the program.
    Threads,
    /// The program forks them, and is run by these words: in another namespace
    /// or under other limits.
    Under(Vec<String>),
    /// A launcher with these arguments; the program follows.
    Launcher(Vec<String>),
}

impl Scenario {
    pub fn new(name: impl Into<String>, ranks: u32, body: fn(Arc<dyn Boot>) -> Result) -> Scenario {
        Scenario {
            name: name.into(),
            ranks,
            nodes: 1,
            layout: local::Layout::Block,
            env: Vec::new(),
            start: Start::Fork,
            limit: LIMIT,
            slow: false,
            body,
            verdict: content,
            library: None,
        }
    }

    pub fn env(mut self, key: &'static str, value: impl Into<String>) -> Scenario {
        self.env.push((key, value.into()));
        self
    }

    pub fn nodes(mut self, nodes: u32) -> Scenario {
        self.nodes = nodes;
        self
    }

    pub fn limit(mut self, limit: Duration) -> Scenario {
        self.limit = limit;
        self
    }

    pub fn slow(mut self) -> Scenario {
        self.slow = true;
        self
    }

    pub fn in_one_process(mut self) -> Scenario {
        self.start = Start::Threads;
        self
    }

    pub fn start(mut self, words: &[&str]) -> Scenario {
        self.start = Start::Launcher(words.iter().map(|w| w.to_string()).collect());
        self
    }

    pub fn under(mut self, words: &[&str]) -> Scenario {
        self.start = Start::Under(words.iter().map(|w| w.to_string()).collect());
        self
    }

    pub fn verdict(mut self, verdict: fn(&Output) -> Result) -> Scenario {
        self.verdict = verdict;
        self
    }

    pub fn library(mut self, says: &'static str) -> Scenario {
        self.library = Some(says);
        self
    }

    /// The whole job, in the process that was started for it.
    fn play(&self) -> ExitCode {
        let body = |boot: Arc<dyn Boot>| {
            let rank = boot.rank();
            match (self.body)(boot) {
                Ok(()) => 0,
                Err(why) => {
                    eprintln!("rank {rank}: {why}");
                    1
                }
            }
        };
        if let Start::Launcher(_) = self.start {
            let boot = boot::connect().expect("the launcher's environment");
            let code = body(Arc::clone(&boot));
            let _ = boot.finalize();
            return ExitCode::from(code as u8);
        }
        if let Start::Threads = self.start {
            return self.play_in_threads();
        }
        let mut options = local::Options::new(self.ranks);
        options.nodes = self.nodes;
        options.layout = self.layout;
        match local::run(&options, body) {
            Ok(outcome) => {
                println!("outcome: {:?}", outcome.exits);
                ExitCode::from(outcome.exit_code() as u8)
            }
            Err(e) => {
                eprintln!("{e}");
                ExitCode::FAILURE
            }
        }
    }

    fn play_in_threads(&self) -> ExitCode {
        let job = in_process::Job::new(self.ranks, std::thread::yield_now).expect("a job");
        let failed = std::thread::scope(|scope| {
            let rank = |rank| {
                let boot = job.rank(rank).expect("one of its ranks");
                scope.spawn(move || match (self.body)(boot) {
                    Ok(()) => true,
                    Err(why) => {
                        eprintln!("rank {rank}: {why}");
                        false
                    }
                })
            };
            let ranks: Vec<_> = (0..self.ranks).map(rank).collect();
            let content = ranks.into_iter().map(|rank| rank.join().unwrap_or(false));
            content.filter(|content| !content).count()
        });
        ExitCode::from(u8::from(failed > 0))
    }

    fn command(&self) -> std::result::Result<Command, String> {
        let me = std::env::current_exe().map_err(|e| e.to_string())?;
        let mut command = match &self.start {
            Start::Fork | Start::Threads => Command::new(&me),
            Start::Under(words) | Start::Launcher(words) => {
                let mut c = Command::new(&words[0]);
                c.args(&words[1..]).arg(&me);
                c
            }
        };
        command.env(SCENARIO, &self.name).envs(self.env.iter().map(|(k, v)| (*k, v.as_str())));
        Ok(command)
    }

    fn trial(self) -> Trial {
        let (name, slow) = (self.name.clone(), self.slow);
        let trial = Trial::test(name, move || {
            let mut played = Ok(());
            for _ in 0..PLAYS {
                let output = bounded_for(self.command()?, self.limit, |_| ())?;
                played = (self.verdict)(&output).map_err(|why| Failed::from(told(&why, &output)));
                let said = String::from_utf8_lossy(&output.stderr);
                if played.is_ok() || !self.library.is_some_and(|says| said.contains(says)) {
                    break;
                }
                eprintln!("{}: the library ended the job, which is played again", self.name);
            }
            played
        });
        trial.with_ignored_flag(slow)
    }
}

/// The usual verdict: every rank ended well.
pub fn content(output: &Output) -> Result {
    if output.status.success() {
        Ok(())
    } else {
        Err(format!("the job ended with {}", output.status))
    }
}

/// Returns true if this process was started to play a scenario.
pub fn in_scenario() -> bool {
    std::env::var_os(SCENARIO).is_some()
}

/// Plays the scenario this process was started for, or runs all as tests.
pub fn main(scenarios: Vec<Scenario>) -> ExitCode {
    main_with(scenarios, Vec::new())
}

/// The same, with tests that are no jobs of this binary.
pub fn main_with(scenarios: Vec<Scenario>, others: Vec<Trial>) -> ExitCode {
    main_of(scenarios, others, JOBS)
}

/// The same, so many at a time.
pub fn main_of(scenarios: Vec<Scenario>, others: Vec<Trial>, jobs: usize) -> ExitCode {
    if let Ok(name) = std::env::var(SCENARIO) {
        let mine = scenarios.iter().find(|s| s.name == name);
        return mine.expect("a scenario of this binary").play();
    }
    let mut arguments = Arguments::from_args();
    arguments.test_threads = arguments.test_threads.or(Some(jobs));
    let trials = scenarios.into_iter().map(Scenario::trial).chain(others).collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Prints which process this is, for [`clean`].
pub fn print_pid() {
    println!("pid {}.", std::process::id());
}

/// No process that printed its pid is left, nor a segment of one.
pub fn clean(output: &Output) -> Result {
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let pid = |part: &str| part.split_once('.').and_then(|(pid, _)| pid.parse::<u32>().ok());
    let pids: Vec<u32> = said.split("pid ").filter_map(pid).collect();
    ensure!(!pids.is_empty(), "no process printed its pid");
    gone(&pids)
}

/// An error as text, for `?` in scenarios.
pub fn text(e: impl std::fmt::Display) -> String {
    e.to_string()
}

/// Fails the scenario with a reason.
#[macro_export]
macro_rules! ensure {
    ($cond:expr, $($why:tt)+) => {
        if !$cond {
            return Err(format!("{} ({}:{})", format!($($why)+), file!(), line!()));
        }
    };
}
