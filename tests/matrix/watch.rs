//! Knows what is under way, and says so where it does not come to an end.

use super::factors::Completion;
use super::program::{Enclosed, Step};
use crate::harness::stacks_of;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

/// The variable that names the file where the number of the case under way is
/// kept, for whoever finds the job dead.
pub const NOTE: &str = "RANKWAY_MATRIX_NOTE";
/// Longer than any case takes on a machine that has much else to do.
const LIMIT: Duration = Duration::from_secs(90);

/// What is under way within a case, in words once somebody asks.
#[derive(Clone, Debug)]
pub enum Doing {
    Word(&'static str),
    Step(Step),
    /// Some stage of an epoch on so many ranks.
    Epoch(&'static str, Enclosed, Completion, usize),
}

impl std::fmt::Display for Doing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Doing::Word(word) => f.write_str(word),
            Doing::Step(step) => f.write_str(&step.name()),
            Doing::Epoch(stage, kind, completion, targets) => {
                write!(f, "the {stage} ({completion:?}) of {kind:?} of {targets} ranks")
            }
        }
    }
}

struct State {
    number: usize,
    name: String,
    /// By thread.
    doing: Vec<(ThreadId, Doing)>,
    since: Option<Instant>,
}

impl State {
    /// What each thread does.
    fn doing(&self) -> String {
        let all = self.doing.iter().map(|(_, doing)| doing.to_string());
        all.collect::<Vec<_>>().join("; beside ")
    }
}

pub struct Watch {
    state: Arc<Mutex<State>>,
    note: Option<File>,
}

impl Watch {
    /// Ends the process, and says why, if a case takes too long.
    pub fn new(rank: u32) -> Watch {
        let state = State { number: 0, name: String::new(), doing: Vec::new(), since: None };
        let state = Arc::new(Mutex::new(state));
        let watched = Arc::clone(&state);
        std::thread::spawn(move || {
            loop {
                std::thread::sleep(Duration::from_millis(250));
                let s = watched.lock().unwrap_or_else(PoisonError::into_inner);
                if s.since.is_some_and(|since| since.elapsed() > LIMIT) {
                    let State { number, name, .. } = &*s;
                    eprintln!("HANGS case {number} ({name}): rank {rank}: {}", s.doing());
                    eprintln!("{}", stacks_of(std::process::id()));
                    // SAFETY: nobody counts on what this process would do yet.
                    unsafe { libc::_exit(3) };
                }
            }
        });
        let path = std::env::var(NOTE).ok().filter(|_| rank == 0);
        let note = path.and_then(|path| File::options().write(true).open(path).ok());
        Watch { state, note }
    }

    pub fn begins(&self, number: usize, name: &str) {
        if let Some(note) = &self.note {
            let _ = note.write_all_at(format!("{number:20}").as_bytes(), 0);
        }
        let mut s = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        (s.number, s.since) = (number, Some(Instant::now()));
        s.doing.clear();
        s.name.clear();
        s.name.push_str(name);
    }

    pub fn now(&self, doing: Doing) {
        let me = thread::current().id();
        let mut s = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match s.doing.iter_mut().find(|(thread, _)| *thread == me) {
            Some((_, last)) => *last = doing,
            None => s.doing.push((me, doing)),
        }
    }

    /// What is under way, in a message's words.
    pub fn case(&self) -> String {
        let s = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        format!("{} ({}): {}", s.number, s.name, s.doing())
    }

    pub fn rests(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).since = None;
    }
}
