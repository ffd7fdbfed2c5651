//! The traces of a directory: every file read but for its events, by job and rank, and what
//! is missing.

use super::word::word;
use crate::output::{Table, count, progress, several, shown};
use indicatif::ProgressBar;
use rankway::track::{Event, FILE_ENDING, Partial, ProcessTrace, Unified};
use serde::{Serialize, Serializer};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::ErrorKind;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Where recordings are put, and looked for, if nobody says.
pub(crate) const DIRECTORY: &str = "rankway-trace";

/// Which traces.
#[derive(clap::Args)]
pub(crate) struct Source {
    /// The directory that the traces are in
    #[arg(value_name = "DIR", default_value = DIRECTORY)]
    directory: PathBuf,

    /// Of several jobs in the directory only this: its place among them from 1, or its number
    #[arg(long, value_name = "JOB")]
    job: Option<String>,
}

/// What a directory has.
pub(crate) struct Traces {
    /// Jobs, by when they began.
    pub(crate) jobs: Vec<Job>,
    /// Files that could not be read.
    pub(crate) damaged: Vec<Damaged>,
}

/// The processes of a world.
pub(crate) struct Job {
    /// The number that no other job has.
    pub(crate) number: u64,
    /// Processes of the world.
    pub(crate) size: u32,
    /// Those that are there, by world rank, without events, which are many.
    pub(crate) processes: Vec<ProcessTrace>,
    /// Where the events of each are.
    pub(crate) files: Vec<Recorded>,
}

/// A file, and what of it is not kept.
pub(crate) struct Recorded {
    pub(crate) path: PathBuf,
    /// Bytes that were there when it was read.
    pub(crate) len: u64,
    pub(crate) events: u64,
    /// Threads that have events.
    pub(crate) threads: BTreeSet<u32>,
    /// When the first call that takes time began and the last ended, in ticks.
    pub(crate) calls: Option<(u64, u64)>,
    /// When the first event or definition began and the last ended, in ns since 1970.
    span: Option<(u64, u64)>,
}

/// A file that could not be read.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Damaged {
    file: String,
    why: String,
}

/// A job as every answer tells it.
#[derive(Serialize)]
pub(crate) struct JobSummary {
    job: String,
    program: Option<String>,
    mpi: Option<String>,
    hosts: Vec<String>,
    size: u32,
    processes: usize,
    #[serde(serialize_with = "first_of")]
    missing: Vec<Range<u32>>,
    not_ended: Vec<u32>,
    events: u64,
    dropped: u64,
    lost: u64,
    lost_on: Vec<LostOn>,
    seconds: f64,
}

/// How many records of what it made or freed a process had no space for.
#[derive(Serialize)]
struct LostOn {
    rank: u32,
    lost: u64,
}

/// What every answer begins with.
#[derive(Serialize)]
pub(crate) struct Answer<'a, T> {
    command: String,
    version: &'static str,
    jobs: Vec<JobSummary>,
    damaged: &'a [Damaged],
    #[serde(flatten)]
    body: T,
}

impl Source {
    /// Reads them but for events.
    ///
    /// # Errors
    /// The directory cannot be read, has no traces, or not the job that was asked for.
    pub(crate) fn load(&self) -> Result<Traces, String> {
        let mut traces = Traces::of_directory(&self.directory)?;
        if let Some(asked) = &self.job {
            let names: Vec<String> = traces.jobs.iter().map(Job::name).collect();
            let place = asked.parse().ok().and_then(|place: usize| place.checked_sub(1));
            let place = place.filter(|&place| place < names.len());
            let Some(at) = place.or_else(|| names.iter().position(|name| name == asked)) else {
                let here = self.directory.display();
                return Err(format!("--job: no job '{asked}' in {here}; it has {}", list(&names)));
            };
            traces.jobs = vec![traces.jobs.swap_remove(at)];
        }
        Ok(traces)
    }
}

impl Traces {
    /// All of a directory.
    pub(crate) fn of_directory(directory: &Path) -> Result<Traces, String> {
        let here = directory.display();
        let paths = paths(directory)?;
        let mut damaged = Vec::new();
        // A process of this number in the job has two files if a number was used again: the
        // one that began later counts.
        let mut found: BTreeMap<(u64, u32), (ProcessTrace, Recorded)> = BTreeMap::new();
        let sizes = paths.iter().filter_map(|path| Some(fs::metadata(path).ok()?.len()));
        let bar = progress(sizes.sum::<u64>(), "reading".to_owned());
        for path in paths {
            let read = survey(&path, &bar);
            let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let why = match read {
                Ok(process) => {
                    let header = process.0.header;
                    match found.insert((header.job, header.rank), process) {
                        Some(other) if other.0.header.unix_nanos > header.unix_nanos => {
                            found.insert((header.job, header.rank), other);
                        }
                        Some(_) => (),
                        None => continue,
                    }
                    format!("rank {} of job {:x} is there twice", header.rank, header.job)
                }
                Err(why) => why,
            };
            damaged.push(Damaged { file, why });
        }
        bar.finish_and_clear();
        if found.is_empty() {
            let Damaged { file, why } = &damaged[0];
            return Err(format!("{here} has no trace that can be read; {file}: {why}"));
        }
        let mut jobs: Vec<Job> = Vec::new();
        for ((number, _), process) in found {
            match jobs.last_mut() {
                Some(job) if job.number == number => job.add(process),
                _ => {
                    let (size, processes, files) = (0, Vec::new(), Vec::new());
                    let mut job = Job { number, size, processes, files };
                    job.add(process);
                    jobs.push(job);
                }
            }
        }
        jobs.sort_by_key(|job| job.processes.iter().map(|one| one.header.unix_nanos).min());
        Ok(Traces { jobs, damaged })
    }

    /// All processes.
    pub(crate) fn processes(&self) -> impl Iterator<Item = &ProcessTrace> {
        self.jobs.iter().flat_map(|job| &job.processes)
    }

    /// What all of them say together.
    pub(crate) fn unified(&self) -> Unified {
        Partial::merge_all(self.processes().map(Partial::of)).finish()
    }

    /// How a process is called: its rank, behind its job's place where there are several.
    pub(crate) fn label(&self, job: u64, rank: u32) -> String {
        match self.jobs.iter().position(|one| one.number == job) {
            Some(at) if self.jobs.len() > 1 => format!("{}:{rank}", at + 1),
            _ => rank.to_string(),
        }
    }

    /// Puts [`Traces::title`] above a table.
    pub(crate) fn head(&self, table: &mut Table) {
        self.title().into_iter().for_each(|line| {
            table.title(line);
        });
    }

    /// Lines on what these traces are of and what they miss.
    pub(crate) fn title(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for (place, job) in self.jobs.iter().enumerate() {
            let told = job.summary();
            let program = told.program.as_deref().unwrap_or("a program");
            let size = several(told.size.into(), "process", "processes");
            let mpi = told.mpi.map(|mpi| format!(", {mpi}")).unwrap_or_default();
            let number = match self.jobs.len() {
                1 => String::new(),
                _ => format!("job {} ({}): ", place + 1, told.job),
            };
            lines.push(format!("{number}{program}, {size}{mpi}"));
            if !told.missing.is_empty() {
                let them = runs(&told.missing);
                lines.push(format!("  no trace of {them}: what they did is not in the figures"));
            }
            if !told.not_ended.is_empty() {
                let them = ranks(&told.not_ended);
                lines.push(format!(
                    "  {them} did not come to the end: killed, aborted or still running"
                ));
            }
            if told.dropped > 0 {
                let dropped = count(told.dropped);
                lines.push(format!("  {dropped} events found no space and are not there"));
            }
            if told.lost > 0 {
                let of = told.lost_on.iter();
                let of: Vec<_> =
                    of.map(|one| format!("{} of rank {}", count(one.lost), one.rank)).collect();
                lines.push(format!(
                    "  {} records of what was made or freed found no space and are not there \
                     ({}): whether what these ranks have left was freed is not known",
                    count(told.lost),
                    list(&of)
                ));
            }
        }
        for Damaged { file, why } in &self.damaged {
            lines.push(format!("left out: {file}: {why}"));
        }
        // Programs and files have any names.
        lines.iter().map(|line| shown(line).into_owned()).collect()
    }

    /// For programs.
    ///
    /// # Errors
    /// What JSON cannot say, or standard output.
    pub(crate) fn json(&self, command: &str, body: impl Serialize) -> Result<(), String> {
        crate::output::emit(&crate::output::json(&self.answer(command, body))?)
    }

    /// What a command says of them.
    pub(crate) fn answer<T>(&self, command: &str, body: T) -> Answer<'_, T> {
        Answer {
            command: format!("trace {command}"),
            version: env!("CARGO_PKG_VERSION"),
            jobs: self.jobs.iter().map(Job::summary).collect(),
            damaged: &self.damaged,
            body,
        }
    }
}

impl JobSummary {
    /// What was run.
    pub(super) fn program(self) -> Option<String> {
        self.program
    }
}

impl Job {
    /// Its number as it is written.
    pub(crate) fn name(&self) -> String {
        format!("{:x}", self.number)
    }

    /// What is known of it as a whole.
    pub(crate) fn summary(&self) -> JobSummary {
        let there: BTreeSet<u32> = self.processes.iter().map(|one| one.header.rank).collect();
        let fact = |key| self.processes.iter().find_map(|one| one.facts.get(key).cloned());
        let hosts: BTreeSet<_> =
            self.processes.iter().filter_map(|one| one.facts.get("host").cloned()).collect();
        let (begin, end) = self.times();
        JobSummary {
            job: self.name(),
            program: fact("program"),
            mpi: fact("mpi"),
            hosts: hosts.into_iter().collect(),
            size: self.size,
            processes: self.processes.len(),
            missing: gaps(&there, self.size),
            not_ended: (self.processes.iter().filter(|one| !one.ended))
                .map(|one| one.header.rank)
                .collect(),
            events: self.events(),
            dropped: self.processes.iter().map(|one| one.dropped).sum(),
            lost: self.processes.iter().map(|one| one.lost).sum(),
            lost_on: (self.processes.iter().filter(|one| one.lost > 0))
                .map(|one| LostOn { rank: one.header.rank, lost: one.lost })
                .collect(),
            seconds: end.saturating_sub(begin) as f64 / 1e9,
        }
    }

    /// When the first event or definition began and the last ended, in ns since 1970.
    pub(crate) fn times(&self) -> (u64, u64) {
        self.files.iter().map(|file| file.span).fold(None, wider).unwrap_or((0, 0))
    }

    /// Events of all.
    pub(crate) fn events(&self) -> u64 {
        self.files.iter().map(|file| file.events).sum()
    }

    fn add(&mut self, (trace, file): (ProcessTrace, Recorded)) {
        self.size = self.size.max(trace.header.size);
        self.files.push(file);
        self.processes.push(trace);
    }
}

/// The traces of a directory, which has some.
///
/// # Errors
/// The directory cannot be read, or has none.
pub(crate) fn paths(directory: &Path) -> Result<Vec<PathBuf>, String> {
    let here = directory.display();
    let entries = fs::read_dir(directory).map_err(|e| match e.kind() {
        ErrorKind::NotADirectory => {
            format!("{here} is a file; name the directory of the traces")
        }
        _ => format!("{here}: {e}; traces are made by `rankway trace record -- mpirun …`"),
    })?;
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.to_string_lossy().ends_with(FILE_ENDING));
    paths.sort();
    if paths.is_empty() {
        return Err(format!(
            "{here} has no traces (*{FILE_ENDING}); `rankway trace record -- mpirun …` makes some"
        ));
    }
    Ok(paths)
}

/// Reads a file but for events.
fn survey(path: &Path, bar: &ProgressBar) -> Result<(ProcessTrace, Recorded), String> {
    // (A pipe would have us wait for who writes into it.)
    if !fs::metadata(path).map_err(|e| e.to_string())?.is_file() {
        return Err("not a regular file".to_owned());
    }
    let file = File::open(path).map_err(|e| e.to_string())?;
    let len = file.metadata().map_err(|e| e.to_string())?.len();
    let mut told = Recorded {
        path: path.to_owned(),
        len,
        events: 0,
        threads: BTreeSet::new(),
        calls: None,
        span: None,
    };
    let (mut all, mut last) = (None, None);
    let done = bar.position();
    let trace = ProcessTrace::read(file, len, |thread, event| {
        let span = Some((event.start, event.end()));
        all = wider(all, span);
        if event.kind().and_then(word).is_some() {
            told.calls = wider(told.calls, span);
        }
        if last != Some(thread) {
            told.threads.insert(thread);
            last = Some(thread);
        }
        told.events += 1;
        if told.events.is_multiple_of(1 << 16) {
            bar.inc((Event::BYTES as u64) << 16);
        }
    });
    bar.set_position(done + len);
    let trace = trace.map_err(|damage| damage.to_string())?;
    let definitions = trace.definitions.iter();
    let definitions = definitions.map(|one| Some((one.made, one.freed.unwrap_or(one.made))));
    let span = definitions.fold(all, wider);
    told.span = span.map(|(begin, end)| (trace.nanos(begin), trace.nanos(end)));
    Ok((trace, told))
}

fn wider(one: Option<(u64, u64)>, other: Option<(u64, u64)>) -> Option<(u64, u64)> {
    let (Some(a), Some(b)) = (one, other) else { return one.or(other) };
    Some((a.0.min(b.0), a.1.max(b.1)))
}

/// Runs of the ranks of a job that are not there: they may be millions.
fn gaps(there: &BTreeSet<u32>, size: u32) -> Vec<Range<u32>> {
    let mut next = 0;
    let gap = |rank| std::mem::replace(&mut next, rank + 1)..rank;
    there.iter().copied().chain([size]).map(gap).filter(|gap| !gap.is_empty()).collect()
}

/// The ranks of runs, the first of many.
fn first_of<S: Serializer>(runs: &[Range<u32>], to: S) -> Result<S::Ok, S::Error> {
    const MOST: usize = 1 << 16;
    to.collect_seq(runs.iter().cloned().flatten().take(MOST))
}

/// `rank 3`, `ranks 1, 4-7 and 9`.
pub(crate) fn ranks(ranks: &[u32]) -> String {
    let mut all: Vec<Range<u32>> = Vec::new();
    for &rank in ranks {
        match all.last_mut() {
            Some(run) if run.end == rank => run.end += 1,
            _ => all.push(rank..rank + 1),
        }
    }
    runs(&all)
}

/// The same of runs.
fn runs(runs: &[Range<u32>]) -> String {
    let said: Vec<String> = runs
        .iter()
        .map(|run| match run.len() {
            1 => run.start.to_string(),
            _ => format!("{}-{}", run.start, run.end - 1),
        })
        .collect();
    let is_one = matches!(runs, [run] if run.len() == 1);
    format!("{} {}", if is_one { "rank" } else { "ranks" }, list(&said))
}

/// `a, b and c`; of many the first.
fn list(all: &[String]) -> String {
    const MOST: usize = 8;
    match all {
        [] => "none".to_owned(),
        [one] => one.clone(),
        [rest @ .., last] if all.len() <= MOST => format!("{} and {last}", rest.join(", ")),
        _ => format!("{} and {} more", all[..MOST].join(", "), all.len() - MOST),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_runs() {
        assert_eq!(ranks(&[3]), "rank 3");
        assert_eq!(ranks(&[1, 4, 5, 6, 9]), "ranks 1, 4-6 and 9");
        let many: Vec<u32> = (0..30).map(|r| r * 2).collect();
        assert_eq!(ranks(&many), "ranks 0, 2, 4, 6, 8, 10, 12, 14 and 22 more");
        assert_eq!(runs(&gaps(&BTreeSet::from([0, 3]), 5)), "ranks 1-2 and 4");
        assert_eq!(runs(&gaps(&BTreeSet::from([1]), 2)), "rank 0");
        assert_eq!(gaps(&BTreeSet::from([0, 1]), 2), []);
    }
}
