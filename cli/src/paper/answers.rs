//! What the other commands answer, each asked once.

use crate::{communicators, count, maps, memory, operations, pack, rate, trace};
use clap::{ArgMatches, Args, Command, FromArgMatches};
use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::PathBuf;

/// Answers by command.
pub(super) struct Answers {
    /// Fewer rounds, and not the largest.
    pub(super) quick: bool,
    /// Where programs were recorded.
    pub(super) traces: Vec<PathBuf>,
    known: BTreeMap<String, Value>,
    /// What was asked since [`take_asked`](Answers::take_asked).
    asked: Vec<String>,
}

impl Answers {
    pub(super) fn new(quick: bool, traces: Vec<PathBuf>) -> Answers {
        Answers { quick, traces, known: BTreeMap::new(), asked: Vec::new() }
    }

    /// What `rankway COMMAND --json` prints.
    pub(super) fn ask(&mut self, command: &str) -> Result<Value, String> {
        self.asked(command);
        if let Some(known) = self.known.get(command) {
            return Ok(known.clone());
        }
        let answer = answer(command.split_whitespace().map(OsStr::new).collect())?;
        self.known.insert(command.to_owned(), answer.clone());
        Ok(answer)
    }

    /// Of every program that was recorded.
    pub(super) fn censuses(&mut self) -> Result<Vec<Value>, String> {
        self.asked("trace comms DIR");
        let censuses = self.traces.iter().map(|directory| {
            answer(vec![OsStr::new("trace"), OsStr::new("comms"), directory.as_os_str()])
        });
        censuses.collect()
    }

    fn asked(&mut self, command: &str) {
        if !self.asked.iter().any(|asked| asked == command) {
            self.asked.push(command.to_owned());
        }
    }

    /// The commands that were asked.
    pub(super) fn take_asked(&mut self) -> Vec<String> {
        std::mem::take(&mut self.asked)
    }
}

fn answer(mut words: Vec<&OsStr>) -> Result<Value, String> {
    words.push(OsStr::new("--json"));
    match &*words[0].to_string_lossy() {
        "communicators" => communicators::value(&parsed(&words)?),
        "count" => count::value(&parsed(&words)?),
        "maps" => maps::value(&parsed(&words)?),
        "memory" => memory::value(&parsed(&words)?),
        "operations" => operations::value(&parsed(&words)?),
        "pack" => pack::value(&parsed(&words)?),
        "rate" => rate::value(&parsed(&words)?),
        "trace" => trace::value(&parsed(&words)?),
        other => Err(format!("there is no command {other}")),
    }
}

/// The arguments as the command line has them.
fn parsed<A: Args + FromArgMatches>(words: &[&OsStr]) -> Result<A, String> {
    let matches: Result<ArgMatches, _> =
        A::augment_args(Command::new("rankway")).try_get_matches_from(words);
    matches.and_then(|matches| A::from_arg_matches(&matches)).map_err(|e| e.to_string())
}

/// The number at a place, `/a/0/b`; none is not a number.
pub(super) fn number(answer: &Value, place: &str) -> f64 {
    answer.pointer(place).and_then(Value::as_f64).unwrap_or(f64::NAN)
}

/// That of the objects of a list in which these keys are these.
pub(super) fn find<'a>(
    answer: &'a Value,
    list: &str,
    wanted: &[(&str, Value)],
) -> Result<&'a Value, String> {
    let all = answer[list].as_array().into_iter().flatten();
    let mut found = all.filter(|one| wanted.iter().all(|(key, value)| one[*key] == *value));
    found.next().ok_or_else(|| format!("there is no {wanted:?} in {list}"))
}
