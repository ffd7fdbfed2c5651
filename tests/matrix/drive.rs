//! The whole product, and random programs for a time: batch after batch in jobs
//! of their own, so that one that hangs or dies costs its case alone.

use super::factors::{self, Case, RANKS, Threads};
use super::harness::{self, Result, SCENARIO};
use super::job::{self, CASES, COUNT, FILTER, SEED};
use super::networks::{self, Network};
use super::program::of_case;
use super::{random, watch};
use std::io::{IsTerminal, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output};
use std::time::{Duration, Instant};

pub(super) const COMMANDS: [&str; 3] = ["pairs", "whole", "random"];

/// Time a job is to take, by those before it: so that a look at how far it is
/// comes now and then.
const BATCH: Duration = Duration::from_secs(30);
/// Cases of the first job, and at most: their numbers are one variable's value.
const CASES_FIRST: usize = 500;
const CASES_MOST: usize = 15_000;
/// A job watches its cases itself; this is for what it cannot see.
const LIMIT: Duration = Duration::from_secs(1200);

const USAGE: &str = "
  pairs                cases in which all pairs occur
  whole                the whole product, in order
  random               random programs
options:
  --network NAME       one network, not all; again for more
  --mpi                over Open MPI, with the components in OPENMPI_DIR
  --threads yes|no     jobs in which there may be several threads, or others
  --case N             whole: this case alone
  --from N, --to N     whole: from this one on, up to this one
  --every N            whole: one case of N
  --filter A,B         whole: cases whose names contain these words
  --seed N             random: of the first program
  --count N            random: this many, not for a time
  --seconds N          random: on each network (20); whole: no new job after these";

#[derive(Default)]
struct Options {
    networks: Vec<String>,
    mpi: bool,
    threads: Option<bool>,
    case: Option<usize>,
    from: usize,
    to: usize,
    every: usize,
    filter: String,
    seed: Option<u64>,
    count: Option<u64>,
    seconds: Option<u64>,
}

impl Options {
    fn parse(words: &[String]) -> Result<Options> {
        let mut options = Options { every: 1, to: usize::MAX, ..Options::default() };
        let mut words = words.iter();
        while let Some(option) = words.next() {
            if option == "--mpi" {
                options.mpi = true;
                continue;
            }
            let value = words.next().ok_or_else(|| format!("{option}: what?{USAGE}"))?;
            let number = || value.parse().map_err(|_| format!("{option} {value}: a number"));
            match option.as_str() {
                "--network" => options.networks.push(value.clone()),
                "--threads" => options.threads = Some(value == "yes"),
                "--case" => options.case = Some(number()? as usize),
                "--from" => options.from = number()? as usize,
                "--to" => options.to = number()? as usize,
                "--every" => options.every = (number()? as usize).max(1),
                "--filter" => options.filter.clone_from(value),
                "--seed" => options.seed = Some(number()?),
                "--count" => options.count = Some(number()?),
                "--seconds" => options.seconds = Some(number()?),
                _ => return Err(format!("{option} is no option{USAGE}")),
            }
        }
        Ok(options)
    }

    fn chosen(&self) -> Result<Vec<Network>> {
        let all = networks::all();
        let names: Vec<String> = all.iter().map(|n| n.name.clone()).collect();
        if let Some(wrong) = self.networks.iter().find(|name| !names.contains(name)) {
            return Err(format!("there is no network {wrong}, but {}", names.join(", ")));
        }
        let wanted = |n: &Network| self.networks.is_empty() || self.networks.contains(&n.name);
        Ok(all
            .into_iter()
            .filter(|n| wanted(n) && (if self.mpi { n.mpi.is_some() } else { n.jobs == 1 }))
            .collect())
    }

    fn several(&self) -> Vec<bool> {
        self.threads.map_or(vec![false, true], |several| vec![several])
    }

    fn cases(&self, network: &Network, several: bool, pairs: bool) -> Vec<usize> {
        let place = network.place(self.mpi);
        let all = if pairs { factors::pairs(place) } else { factors::possible(place) };
        let words: Vec<&str> = self.filter.split(',').collect();
        let wanted = |&n: &usize| {
            let case = Case::numbered(n);
            let mine = (case.threads != Threads::One) == several;
            mine && self.case.is_none_or(|case| case == n)
                && words.iter().all(|word| case.name().contains(word))
        };
        let all = all.into_iter().filter(|n| (self.from..=self.to).contains(n));
        all.filter(wanted).step_by(self.every).collect()
    }
}

pub(super) fn main(words: &[String]) -> ExitCode {
    let done = Options::parse(&words[1..]).and_then(|options| match words[0].as_str() {
        "random" => programs(&options),
        command => whole(&options, command == "pairs"),
    });
    match done {
        Ok(0) => ExitCode::SUCCESS,
        Ok(failed) => {
            eprintln!("{failed} failed");
            ExitCode::FAILURE
        }
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

/// Files of this run.
struct Files {
    note: PathBuf,
    cases: PathBuf,
    program: PathBuf,
}

impl Files {
    fn new(mpi: bool) -> Result<Files> {
        let dir = std::env::temp_dir().join(format!("rankway-matrix-{}", std::process::id()));
        std::fs::create_dir_all(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
        let file = |name: &str| dir.join(name);
        let all = Files { note: file("note"), cases: file("cases"), program: file("osc_matrix") };
        if mpi {
            let source =
                Path::new(env!("CARGO_MANIFEST_DIR")).join("plugins/openmpi/tests/osc_matrix.c");
            let mut compiler = Command::new("mpicc.openmpi");
            compiler
                .args(["-std=gnu11", "-O1", "-o"])
                .arg(&all.program)
                .arg(source)
                .arg("-lpthread");
            let made = compiler.status().map_err(|e| format!("mpicc.openmpi: {e}"))?;
            if !made.success() {
                return Err("mpicc.openmpi cannot build osc_matrix.c".into());
            }
        }
        Ok(all)
    }

    fn reset(&self) -> Result {
        std::fs::write(&self.note, [b' '; 20]).map_err(|e| format!("{}: {e}", self.note.display()))
    }

    /// The case that was under way when a job ended.
    fn recorded(&self) -> Option<usize> {
        std::fs::read_to_string(&self.note).ok()?.trim().parse().ok()
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = self.note.parent().map(std::fs::remove_dir_all);
    }
}

fn job(
    network: &Network,
    scenario: String,
    env: &[(&str, String)],
    files: &Files,
) -> Result<Output> {
    let me = std::env::current_exe().map_err(|e| e.to_string())?;
    let mut command = Command::new(me);
    command.env(SCENARIO, scenario).env(watch::NOTE, &files.note);
    command.envs(network.env.iter().map(|(key, value)| (key, value)));
    command.envs(env.iter().map(|(key, value)| (key, value)));
    harness::bounded_for(command, LIMIT, |_| ())
}

fn inject_size(network: &Network, files: &Files) -> Result<usize> {
    let output = job(network, job::name("inject", network, false), &[], files)?;
    let said = String::from_utf8_lossy(&output.stdout);
    let size = said.lines().find_map(|line| line.strip_prefix("inject ")?.parse().ok());
    size.ok_or_else(|| {
        format!("{}: no inject size: {}", network.name, String::from_utf8_lossy(&output.stderr))
    })
}

/// Has programs that were written to a file played under MPI.
fn under_mpi(network: &Network, text: &str, files: &Files) -> Result<Output> {
    std::fs::write(&files.cases, text).map_err(|e| e.to_string())?;
    let components = std::env::var("OPENMPI_DIR").unwrap_or_else(|_| "target/openmpi".into());
    let components =
        std::fs::canonicalize(&components).map_err(|e| format!("{components}: {e}"))?;
    let mut command = Command::new("mpirun.openmpi");
    // A session of its own: a launcher that ends removes what all share.
    command.env("TMPDIR", files.note.parent().expect("the directory of this run"));
    command.args([
        "--allow-run-as-root",
        "--oversubscribe",
        "-n",
        &(RANKS / network.jobs).to_string(),
    ]);
    let components = format!("{}:SYS_DEFAULT", components.display());
    command.args(["--mca", "mca_base_component_path", &components]);
    command.args(["--mca", "pml", "cm", "--mca", "mtl", "rankway", "--mca", "osc", "rankway"]);
    command.args(network.mpi.iter().flatten());
    command.arg(&files.program).arg(&files.cases).arg(&files.note);
    harness::bounded_for(command, LIMIT, |_| ())
}

/// What a job of programs said.
struct Outcome {
    /// It came to its end.
    completed: bool,
    /// The numbers of those that failed, once each.
    failed: Vec<usize>,
    /// Of these, how many did not come to an end.
    hangs: usize,
}

fn verdict(output: &Result<Output>, files: &Files) -> Outcome {
    let output = match output {
        Ok(output) => output,
        Err(why) => {
            println!("  {why}");
            let failed: Vec<usize> = files.recorded().into_iter().collect();
            return Outcome { completed: false, hangs: failed.len(), failed };
        }
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (said, told) = (text(&output.stdout), text(&output.stderr));
    let completed = said.lines().any(|line| line.starts_with("completed"));
    let (mut failed, mut hangs) = (Vec::new(), 0);
    for line in said.lines().chain(told.lines()) {
        let case = line.strip_prefix("FAILED case ").or_else(|| line.strip_prefix("HANGS case "));
        let number = case.and_then(|rest| rest.split(' ').next()?.parse().ok());
        if let Some(number) = number.filter(|n| !failed.contains(n)) {
            println!("  {line}");
            failed.push(number);
            hangs += usize::from(line.starts_with("HANGS"));
        }
    }
    if !completed && failed.is_empty() {
        failed.extend(files.recorded());
        println!(
            "  {}: {}",
            output.status,
            told.lines().rev().take(8).collect::<Vec<_>>().join("\n  ")
        );
    }
    Outcome { completed, failed, hangs }
}

fn options_of(network: &Network, mpi: bool, several: bool) -> String {
    let mpi = if mpi { " --mpi" } else { "" };
    let threads = if several { "yes" } else { "no" };
    format!("--network {}{mpi} --threads {threads}", network.name)
}

/// The cases as a text for the player under MPI.
fn written(cases: &[usize], several: bool, inject: usize) -> String {
    let mut text = format!("threads {}\n", u8::from(several));
    for &number in cases {
        of_case(&Case::numbered(number), RANKS, inject).write(&mut text);
    }
    text
}

/// What came of some cases.
#[derive(Default)]
struct Tally {
    played: usize,
    wrong: usize,
    hangs: usize,
    /// Where to go on, if the time was over before the cases were.
    next: Option<String>,
}

fn whole(options: &Options, pairs: bool) -> Result<usize> {
    let files = Files::new(options.mpi)?;
    let mut failed = 0;
    for network in options.chosen()? {
        let (mut tally, since) = (Tally::default(), Instant::now());
        let inject = inject_size(&network, &files)?;
        for several in options.several() {
            let cases = options.cases(&network, several, pairs);
            product(options, &network, several, &cases, inject, &files, since, &mut tally)?;
            if tally.next.is_some() {
                break;
            }
        }
        let Tally { played, wrong, hangs, next } = tally;
        let (name, seconds) = (&network.name, since.elapsed().as_secs());
        let next = next.map_or(String::new(), |next| format!("; go on with {next}"));
        println!("{name}: {played} cases, {seconds} s, {wrong} wrong, {hangs} hangs{next}");
        failed += wrong + hangs;
    }
    Ok(failed)
}

/// Says how far it is: on a terminal in one line.
fn progress(line: &str, last: bool) {
    let mut out = std::io::stdout();
    let _ = match out.is_terminal() && !last {
        true => write!(out, "{line}\x1b[K\r"),
        false => writeln!(out, "{line}"),
    };
    let _ = out.flush();
}

/// How to play a case again, alone and with those before it on its window.
fn again(of: &str, batch: &[usize], number: usize, inject: usize) {
    println!("  again: make test-matrix ARGS=\"{of} --case {number}\"");
    let frame = |n: usize| of_case(&Case::numbered(n), RANKS, inject).frame;
    let before = batch.iter().rev().skip_while(|&&n| n >= number);
    if let Some(first) = before.take_while(|&&n| frame(n) == frame(number)).last() {
        println!("  after others on its window: ARGS=\"{of} --from {first} --to {number}\"");
    }
}

/// Cases of a network, with threads or without.
#[allow(clippy::too_many_arguments, reason = "what each job needs, and whom it adds to")]
fn product(
    options: &Options,
    network: &Network,
    several: bool,
    cases: &[usize],
    inject: usize,
    files: &Files,
    start: Instant,
    tally: &mut Tally,
) -> Result {
    let of = options_of(network, options.mpi, several);
    let (mut done, since, mut size) = (0, Instant::now(), CASES_FIRST);
    while done < cases.len() {
        if options.seconds.is_some_and(|seconds| start.elapsed().as_secs() >= seconds) {
            tally.next = Some(format!("{of} --from {}", cases[done]));
            break;
        }
        let batch = &cases[done..cases.len().min(done + size)];
        let begun = Instant::now();
        files.reset()?;
        let output = if options.mpi {
            under_mpi(network, &written(batch, several, inject), files)
        } else {
            let list: Vec<String> = batch.iter().map(usize::to_string).collect();
            let env = [(CASES, list.join(",")), (FILTER, String::new())];
            job(network, job::name("pairs", network, several), &env, files)
        };
        let Outcome { completed, failed, hangs } = verdict(&output, files);
        failed.iter().for_each(|&number| again(&of, batch, number, inject));
        // One that ended the job is passed over.
        let last = failed.last().and_then(|n| batch.iter().position(|m| m == n));
        let played = match (completed, last) {
            (true, _) => batch.len(),
            (false, Some(at)) => at + 1,
            (false, None) => return Err(format!("{of}: no case could be played: {output:?}")),
        };
        done += played;
        tally.played += played;
        tally.hangs += hangs;
        tally.wrong += failed.len() - hangs;
        let each = begun.elapsed().as_secs_f64() / played as f64;
        size = ((BATCH.as_secs_f64() / each) as usize).clamp(100, CASES_MOST);
        let time = since.elapsed().as_secs_f64();
        let line = format!(
            "{of}: {done} of {} cases, {} wrong, {} hangs, {:.2} ms each, {time:.0} s, {:.0} s to \
             go; next: --from {}",
            cases.len(),
            tally.wrong,
            tally.hangs,
            each * 1e3,
            time / done as f64 * (cases.len() - done) as f64,
            cases.get(done).map_or_else(|| "none".into(), usize::to_string)
        );
        progress(&line, done == cases.len());
    }
    Ok(())
}

fn programs(options: &Options) -> Result<usize> {
    let files = Files::new(options.mpi)?;
    let mut all = 0;
    for network in options.chosen()? {
        let inject = inject_size(&network, &files)?;
        for several in options.several() {
            let seconds = options.seconds.unwrap_or(20) / options.several().len() as u64;
            all += programs_of(options, &network, several, seconds, inject, &files)?;
        }
    }
    Ok(all)
}

/// Random programs for a time, in batches; how many failed.
fn programs_of(
    options: &Options,
    network: &Network,
    several: bool,
    seconds: u64,
    inject: usize,
    files: &Files,
) -> Result<usize> {
    const EACH: u64 = 60;
    let of = options_of(network, options.mpi, several);
    let mut seed = options.seed.map_or_else(job::seed, Ok)?;
    let (first, since, mut failed) = (seed, Instant::now(), Vec::new());
    let end = options.count.map(|count| seed + count);
    let more = |seed: u64| match end {
        Some(end) => seed < end,
        None => since.elapsed().as_secs() < seconds,
    };
    while more(seed) {
        let count = end.map_or(EACH, |end| EACH.min(end - seed));
        files.reset()?;
        let output = if options.mpi {
            let mut text = format!("threads {}\n", u8::from(several));
            for seed in seed..seed + count {
                let place = network.place(true);
                random::program(seed, several, RANKS, place, inject).write(&mut text);
            }
            under_mpi(network, &text, files)
        } else {
            let env = [(SEED, seed.to_string()), (COUNT, count.to_string())];
            job(network, job::name("random", network, several), &env, files)
        };
        let Outcome { completed, failed: wrong, .. } = verdict(&output, files);
        for number in &wrong {
            println!("  again: make test-random ARGS=\"{of} --seed {number} --count 1\"");
        }
        seed = match (completed, wrong.last()) {
            (true, _) => seed + count,
            (false, Some(&last)) => last as u64 + 1,
            (false, None) => return Err(format!("{of}: no program could be played: {output:?}")),
        };
        failed.extend(wrong);
    }
    println!(
        "{of}: {} programs, seeds {first} to {}, {} failed, {} s",
        seed - first,
        seed.saturating_sub(1),
        failed.len(),
        since.elapsed().as_secs()
    );
    Ok(failed.len())
}
