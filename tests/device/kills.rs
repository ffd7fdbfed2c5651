//! The kill matrix: three ranks, one of them killed at a random moment of each
//! operation and collective, over each network. The survivors' bytes are
//! checked, the error names the dead and nobody else, nobody hangs or crashes,
//! nothing is left, buffers of failed calls are not written to late, and the
//! two that are left work together afterwards. A run that is ended itself takes
//! its jobs with it.
//!
//! As a test, ten trials a row (`RANKWAY_KILLS_TRIALS`), and some with ranks in
//! namespaces of their own; `make test-kills` runs all of it and prints a table.
//! A trial is told by row, network and seed.

mod deaths;
#[path = "../harness/mod.rs"]
mod harness;

use deaths::apart::{Apart, within};
use deaths::{ROWS, trial};
use harness::{Result, UCX_ABORTS};
use indicatif::{ProgressBar, ProgressStyle};
use libtest_mimic::{Arguments, Trial};
use rankway::boot::{Boot, local};
use rankway::netmod::node::Node;
use rankway::netmod::ofi::Ofi;
use rankway::netmod::ucx::Ucx;
use std::collections::BTreeMap;
use std::process::{Command, ExitCode, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

/// Row, network and seed of the trial this process was started for.
const TRIAL: &str = "RANKWAY_KILLS_TRIAL";
/// Longer than the survivors' own patience.
const LIMIT: Duration = Duration::from_secs(30);

/// What the rows may take as tests, all together.
const BUDGET: Duration = Duration::from_secs(150);

/// Members of a window are asked for their keys, where those differ.
const ASKED: (&str, &str) = ("RANKWAY_WINDOW_KEYS", "0");

/// A network: its name and what the job's environment says.
struct Network {
    name: &'static str,
    env: &'static [(&'static str, &'static str)],
    apart: Option<Apart>,
}

const fn network(
    name: &'static str,
    env: &'static [(&'static str, &'static str)],
    apart: Option<Apart>,
) -> Network {
    Network { name, env, apart }
}

const ALONE: (&str, &str) = ("RANKWAY_NODE_QUEUES", "0");
const TCP: (&str, &str) = ("RANKWAY_PROVIDER", "tcp");
const UCX_TCP: (&str, &str) = ("UCX_TLS", "tcp,self");

static NETWORKS: [Network; 14] = [
    network("default", &[], None),
    network("shm", &[("RANKWAY_PROVIDER", "shm"), ALONE], None),
    network("tcp", &[TCP], None),
    network("tcp alone", &[TCP, ALONE], None),
    network("node", &[], None),
    network("node alone", &[ALONE], None),
    network("ucx", &[], None),
    network("ucx posix", &[("UCX_TLS", "posix,self"), ALONE, ASKED], None),
    network("ucx tcp", &[UCX_TCP, ASKED], None),
    network("ucx tcp alone", &[UCX_TCP, ALONE], None),
    // Ranks in namespaces of their own. (In one /dev/shm, libfabric's shm takes
    // processes of the same number for one.)
    network("pid", &[TCP], Some(Apart::Pid)),
    network("ucx pid", &[UCX_TCP], Some(Apart::Pid)),
    network("ipc", &[TCP], Some(Apart::Ipc)),
    network("ucx ipc", &[UCX_TCP], Some(Apart::Ipc)),
];
/// So many of them have all ranks in one place.
const TOGETHER: usize = 10;

/// What can go wrong, as the table heads it.
const FAULTS: [&str; 10] =
    ["hang", "late", "name", "data", "write", "crash", "pair", "left", "other", LIBRARY];
/// A fault that is no fault of ours.
const LIBRARY: &str = "library's";

/// A fault that is the network library's own and stands in docs/architecture/limits.md:
/// where it has to be looked for, and what the job then says.
struct Limit {
    networks: &'static [&'static str],
    fault: &'static str,
    said: &'static str,
}

const LIMITS: [Limit; 8] = [
    // UCX answers puts, gets and atomics over tcp by messages of its own, and
    // aborts when the answer's endpoint has just failed; it also asserts, in
    // several places, when a connection fails while it is being made.
    Limit {
        networks: &["ucx", "ucx tcp", "ucx tcp alone", "ucx pid", "ucx ipc"],
        fault: "crash",
        said: UCX_ABORTS,
    },
    // Who is killed while it writes into a queue of UCX's shared memory leaves a
    // gap there, behind which nothing is read.
    Limit { networks: &["ucx", "ucx posix"], fault: "pair", said: "put and flush" },
    Limit { networks: &["ucx", "ucx posix"], fault: "pair", said: "get of a thread" },
    Limit { networks: &["ucx", "ucx posix"], fault: "pair", said: "put in a new window" },
    // What waits behind the gap when the worker is closed.
    Limit { networks: &["ucx", "ucx posix"], fault: "crash", said: "ucs_arbiter_group_purge" },
    // The same where packets go over it, too: then the living wait for each other.
    Limit { networks: &["ucx posix"], fault: "hang", said: "still running after" },
    Limit { networks: &["ucx posix"], fault: "late", said: "the other's last message" },
    // Killed between making a segment and taking its name away.
    Limit { networks: &["ucx", "ucx posix"], fault: "left", said: "left: ucx_shm_posix_" },
];

/// What became of one trial.
struct Told {
    row: &'static str,
    network: &'static Network,
    seed: u64,
    /// The fault, and what the job said.
    fault: Option<(&'static str, String)>,
}

impl Told {
    /// The fault, unless it is the library's.
    fn ours(&self) -> Option<&(&'static str, String)> {
        self.fault.as_ref().filter(|(kind, _)| *kind != LIBRARY)
    }

    fn again(&self) -> String {
        let (row, network, seed) = (self.row, self.network.name, self.seed);
        format!(
            "make test-kills ARGS=\"--row '{row}' --network '{network}' --seed {seed} --trials 1\""
        )
    }
}

/// The job of one trial, in the process that was started for it.
fn play(what: &str) -> ExitCode {
    let mut parts = what.split('|');
    let (Some(row), Some(network), Some(seed)) = (parts.next(), parts.next(), parts.next()) else {
        eprintln!("{TRIAL} is row|network|seed, not '{what}'");
        return ExitCode::FAILURE;
    };
    let seed = seed.parse::<u64>().expect("a seed");
    let apart = NETWORKS.iter().find(|n| n.name == network).and_then(|n| n.apart);
    trial::make_board();
    let play = |boot: Arc<dyn Boot>| {
        let rank = boot.rank();
        let ended = match network.split(' ').next() {
            _ if row == STAYS => loop {
                std::thread::park();
            },
            _ if row == NOWHERE => deaths::unreachable::<Ofi>(boot),
            Some("ucx") => deaths::play::<Ucx>(row, seed, boot),
            Some("node") => deaths::play::<Node>(row, seed, boot),
            _ => deaths::play::<Ofi>(row, seed, boot),
        };
        let line = match &ended {
            Ok(()) => format!("rank {rank} is content.\n"),
            Err(why) => format!("fault: {why} (told by rank {rank})\n"),
        };
        // In one piece: the other survivor may write too.
        print!("{line}");
        i32::from(ended.is_err())
    };
    let apart = if row == NOWHERE { Some(Apart::Net) } else { apart };
    let body = |boot: Arc<dyn Boot>| match apart {
        Some(apart) => within(apart, boot.rank(), seed, || play(boot)),
        None => play(boot),
    };
    match local::run(&local::Options::new(trial::RANKS as u32), body) {
        Ok(outcome) => {
            println!("outcome: {:?}", outcome.exits);
            ExitCode::SUCCESS
        }
        Err(e) => {
            eprintln!("{e}");
            ExitCode::FAILURE
        }
    }
}

/// Words before a job that give it a /dev/shm of its own and list what it left
/// there; none where the system does not let us.
fn apart() -> &'static [&'static str] {
    const WORDS: &[&str] = &["unshare", "--mount", "sh", "-c", OWN_SHM, "sh"];
    const OWN_SHM: &str = "mount -t tmpfs tmpfs /dev/shm && \"$@\"; status=$?; \
        ls -A /dev/shm | sed 's/^/left: /'; exit $status";
    static CAN: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    let can = || Command::new(WORDS[0]).args(&WORDS[1..]).arg("true").output();
    if *CAN.get_or_init(|| can().is_ok_and(|o| o.status.success())) { WORDS } else { &[] }
}

/// The row of ranks that cannot reach each other.
const NOWHERE: &str = "no network";
/// The row of ranks that do nothing, and do not end.
const STAYS: &str = "stays";

/// What [`TRIAL`] says.
fn told_as(row: &str, network: &Network, seed: u64) -> String {
    format!("{row}|{}|{seed}", network.name)
}

fn run_one(row: &'static str, network: &'static Network, seed: u64, stacks: bool) -> Told {
    let me = std::env::current_exe().expect("this program");
    let mut command = match apart() {
        [] => Command::new(&me),
        words => {
            let mut command = Command::new(words[0]);
            command.args(&words[1..]).arg(&me);
            command
        }
    };
    command.env(TRIAL, told_as(row, network, seed));
    command.envs(network.env.iter().copied());
    let ended = harness::bounded_for(command, LIMIT, |group| {
        if stacks {
            harness::group(group).into_iter().for_each(|pid| eprint!("{}", harness::stacks_of(pid)))
        }
    });
    let fault = match ended {
        Err(late) => Some(("hang", late)),
        Ok(output) => judge(&output, seed).err().map(|kind| (kind, harness::told("", &output))),
    };
    let limited = |kind: &str, said: &str| {
        let of = |l: &&Limit| {
            l.networks.contains(&network.name) && l.fault == kind && said.contains(l.said)
        };
        LIMITS.iter().any(|l| of(&l))
    };
    let fault = fault.map(|(kind, said)| (if limited(kind, &said) { LIBRARY } else { kind }, said));
    Told { row, network, seed, fault }
}

/// Both survivors are content, the victim was killed, nothing is left.
fn judge(output: &Output, seed: u64) -> std::result::Result<(), &'static str> {
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let ends = said.lines().find_map(|line| line.strip_prefix("outcome: ["));
    let ends: Vec<&str> = ends.unwrap_or_default().trim_end_matches(']').split(", ").collect();
    let victim = (trial::mix(seed) % trial::RANKS as u64) as usize;
    for (rank, end) in ends.iter().enumerate().filter(|(rank, _)| *rank != victim) {
        if end.starts_with("Signal") || *end == "Code(101)" {
            eprintln!("rank {rank} ended with {end}");
            return Err("crash");
        }
    }
    if let Some(fault) = said.lines().find_map(|line| line.strip_prefix("fault: ")) {
        let kind = fault.split(':').next().unwrap_or_default();
        return Err(FAULTS.iter().find(|f| **f == kind).copied().unwrap_or("other"));
    }
    if said.matches(" is content.").count() != 2 || ends.get(victim) != Some(&"Signal(9)") {
        return Err("other");
    }
    if said.lines().any(|line| line.starts_with("left: ")) { Err("left") } else { Ok(()) }
}

/// What `make test-kills` was asked for.
struct Asked {
    rows: Vec<&'static str>,
    networks: Vec<&'static Network>,
    trials: usize,
    seed: u64,
    jobs: usize,
    /// No trial begins after that.
    limit: Duration,
    stacks: bool,
}

impl Asked {
    fn read(words: &[String]) -> Result<Asked> {
        let mut asked = Asked {
            rows: ROWS.to_vec(),
            networks: NETWORKS[..TOGETHER].iter().collect(),
            trials: 200,
            seed: fresh_seed(),
            jobs: 2,
            limit: Duration::MAX,
            stacks: false,
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            if word == "--stacks" {
                asked.stacks = true;
                continue;
            }
            let value = words.next().ok_or(format!("{word} takes a value"))?;
            let number = || value.parse::<u64>().map_err(|e| format!("{word} {value}: {e}"));
            match word.as_str() {
                "--row" => asked.rows = chosen(value, &ROWS, |row| row)?,
                "--network" => {
                    let all: Vec<&Network> = NETWORKS.iter().collect();
                    asked.networks = chosen(value, &all, |network| network.name)?;
                }
                "--trials" => asked.trials = number()? as usize,
                "--seed" => asked.seed = number()?,
                "--jobs" => asked.jobs = number()? as usize,
                "--seconds" => asked.limit = Duration::from_secs(number()?),
                _ => {
                    return Err(format!(
                        "'{word}' is none of --row A,B --network A,B --trials N --seed N --jobs N \
                         --seconds N --stacks"
                    ));
                }
            }
        }
        Ok(asked)
    }

    /// Trials of each row take turns with the networks, so that a run that is
    /// broken off has seen some of everything.
    fn list(&self) -> Vec<(&'static str, &'static Network, u64)> {
        let mut list = Vec::new();
        for i in 0..self.trials {
            for (at, row) in self.rows.iter().enumerate() {
                let network = self.networks[(i + at) % self.networks.len()];
                list.push((*row, network, self.seed + i as u64));
            }
        }
        list
    }
}

fn chosen<T: Copy>(words: &str, all: &[T], name: fn(&T) -> &str) -> Result<Vec<T>> {
    let find = |word: &str| {
        let found = all.iter().find(|t| name(t) == word).copied();
        let names: Vec<&str> = all.iter().map(name).collect();
        found.ok_or(format!("'{word}' is none of {}", names.join(", ")))
    };
    words.split(',').map(|word| find(word.trim())).collect()
}

fn fresh_seed() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(1, |t| t.as_millis() as u64 % 100_000_000)
}

/// Somebody has had enough (Ctrl-C): no trial begins any more.
static ENDED: AtomicBool = AtomicBool::new(false);

/// The first Ctrl-C ends with the table of what was played, the second at once.
fn end_with_a_table() {
    extern "C" fn ended(_: libc::c_int) {
        ENDED.store(true, Ordering::SeqCst);
    }
    // SAFETY: zeros are a valid action; the handler stores a flag and no more.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = ended as extern "C" fn(libc::c_int) as usize;
        action.sa_flags = libc::SA_RESETHAND | libc::SA_RESTART;
        libc::sigaction(libc::SIGINT, &action, std::ptr::null_mut());
    }
}

/// The whole, with progress, and a table at the end.
fn matrix(words: &[String]) -> ExitCode {
    let asked = match Asked::read(words) {
        Ok(asked) => asked,
        Err(why) => {
            eprintln!("{why}");
            return ExitCode::from(2);
        }
    };
    let list = asked.list();
    println!("{} trials from seed {}", list.len(), asked.seed);
    let style = "{elapsed_precise} {bar:30} {pos} of {len}, {msg}; {eta} left";
    let bar = ProgressBar::new(list.len() as u64).with_message("no faults");
    bar.set_style(ProgressStyle::with_template(style).expect("a template"));
    let (started, next) = (Instant::now(), AtomicUsize::new(0));
    let all = Mutex::new(Vec::new());
    end_with_a_table();
    std::thread::scope(|scope| {
        for _ in 0..asked.jobs {
            scope.spawn(|| {
                while !ENDED.load(Ordering::SeqCst)
                    && started.elapsed() < asked.limit
                    && let Some(&(row, network, seed)) =
                        list.get(next.fetch_add(1, Ordering::SeqCst))
                {
                    let told = run_one(row, network, seed, asked.stacks);
                    // Its processes may have had the signal, too.
                    if ENDED.load(Ordering::SeqCst) {
                        break;
                    }
                    let mut all = all.lock().expect("no panic within");
                    // Who asks for stacks wants to see the library's, too.
                    let shown = if asked.stacks { told.fault.as_ref() } else { told.ours() };
                    if let Some((kind, said)) = shown {
                        bar.suspend(|| println!("\n{kind}: {}\n{said}", told.again()));
                    }
                    all.push(told);
                    let faults = all.iter().filter(|t| t.ours().is_some()).count();
                    bar.set_message(format!("{faults} faults"));
                    bar.inc(1);
                    if bar.is_hidden() && all.len() % 500 == 0 {
                        println!("{} of {}, {faults} faults", all.len(), list.len());
                    }
                }
            });
        }
    });
    bar.finish_and_clear();
    let all = all.into_inner().expect("no panic within");
    show(&all);
    ExitCode::from(u8::from(all.iter().any(|told| told.ours().is_some())))
}

/// Rows by networks: trials, and what was wrong.
fn show(all: &[Told]) {
    let mut cells: BTreeMap<(&str, &str), Vec<&Told>> = BTreeMap::new();
    for told in all {
        cells.entry((told.row, told.network.name)).or_default().push(told);
    }
    let seen = |network: &&Network| all.iter().any(|told| told.network.name == network.name);
    let networks: Vec<&str> = NETWORKS.iter().filter(seen).map(|network| network.name).collect();
    let line = |head: &str, cells: Vec<String>| {
        println!("{head:<18}{}", cells.iter().map(|c| format!(" {c:>15}")).collect::<String>());
    };
    println!("\ntrials, and faults among them:");
    line("", networks.iter().map(|n| (*n).to_owned()).collect());
    for row in ROWS {
        let of = |network: &&str| match cells.get(&(row, *network)) {
            None => "-".to_owned(),
            Some(trials) => format!("{}{}", trials.len(), faults_of(trials)),
        };
        if networks.iter().any(|n| cells.contains_key(&(row, *n))) {
            line(row, networks.iter().map(of).collect());
        }
    }
    let count = |kind: &str| {
        let of = |told: &&Told| told.fault.as_ref().is_some_and(|(k, _)| *k == kind);
        format!("{} {kind}", all.iter().filter(of).count())
    };
    let counts: Vec<String> = FAULTS.iter().map(|kind| count(kind)).collect();
    println!("\n{} trials: {}", all.len(), counts.join(", "));
}

fn faults_of(trials: &[&Told]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for (kind, _) in trials.iter().filter_map(|told| told.fault.as_ref()) {
        *counts.entry(kind).or_default() += 1;
    }
    counts.iter().map(|(kind, n)| format!(" {n} {kind}")).collect()
}

/// Some trials of one row, over all networks in turn; fewer on a machine that
/// is slow, so that all rows together stay within [`BUDGET`].
fn row_of(
    at: usize,
    trials: usize,
    seed: u64,
    started: Instant,
) -> std::result::Result<(), libtest_mimic::Failed> {
    let mine = BUDGET * (at as u32 + 1) / ROWS.len() as u32;
    for i in 0..trials {
        if i >= 3 && started.elapsed() > mine {
            break;
        }
        // Another network comes first with each row and each run.
        let network = &NETWORKS[(i + at + seed as usize) % TOGETHER];
        let told = run_one(ROWS[at], network, seed + i as u64, false);
        if let Some((kind, said)) = told.ours() {
            return Err(format!("{kind}: {}\n{said}", told.again()).into());
        }
    }
    Ok(())
}

/// What ranks in namespaces of their own can do: not share memory side by side.
const APART: [&str; 9] =
    ["put", "get", "accumulate", "lock", "fence", "pscw", "barrier", "eager", "rendezvous"];

/// Some of these rows, with each rank in a namespace of its own.
fn apart_by(
    network: &'static Network,
    trials: usize,
    seed: u64,
) -> std::result::Result<(), libtest_mimic::Failed> {
    for i in 0..trials {
        let row = APART[(seed as usize + i) % APART.len()];
        let told = run_one(row, network, seed + i as u64, false);
        if let Some((kind, said)) = told.ours() {
            return Err(format!("{kind}: {}\n{said}", told.again()).into());
        }
    }
    Ok(())
}

/// Ranks in network namespaces of their own cannot meet: all are told, in time.
fn nowhere() -> std::result::Result<(), libtest_mimic::Failed> {
    let mut command = Command::new(std::env::current_exe()?);
    command.env(TRIAL, format!("{NOWHERE}|default|1")).env("RANKWAY_TIMEOUT", "5");
    let output = harness::bounded_for(command, LIMIT, |_| ())?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    match said.matches(" is content.").count() == 3 {
        true => Ok(()),
        false => Err(harness::told("not all were told", &output).into()),
    }
}

/// Processes whose environment has this variable of this value.
fn having(variable: &str, value: &str) -> Vec<u32> {
    let words = format!("{variable}={value}");
    let has = |pid: &u32| {
        let all = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        all.split(|byte| *byte == 0).any(|one| one == words.as_bytes())
    };
    let entries = std::fs::read_dir("/proc").map(|d| d.flatten().collect::<Vec<_>>());
    let pid = |e: std::fs::DirEntry| e.file_name().to_str()?.parse().ok();
    entries.unwrap_or_default().into_iter().filter_map(pid).filter(has).collect()
}

/// A run that is ended itself leaves no process, even of a job that would not end.
fn driver_ended_by(signal: i32) -> std::result::Result<(), libtest_mimic::Failed> {
    let seed = (u64::from(std::process::id()) << 8) + signal as u64;
    let mut driver = Command::new(std::env::current_exe()?);
    driver.args([STAYS, &seed.to_string()]).stdout(Stdio::null()).stderr(Stdio::null());
    let mut driver = driver.spawn()?;
    // The shell around the job, the job, the process that forks the ranks, and these.
    let all = usize::from(!apart().is_empty()) + 2 + trial::RANKS;
    let (started, mut job) = (Instant::now(), Vec::new());
    while job.len() < all && started.elapsed() < LIMIT {
        std::thread::sleep(Duration::from_millis(5));
        job = having(TRIAL, &told_as(STAYS, &NETWORKS[0], seed));
    }
    // SAFETY: our child, not reaped.
    unsafe { libc::kill(driver.id() as i32, signal) };
    driver.wait()?;
    let ended = harness::ended(&job);
    for &pid in &job {
        // SAFETY: a process of the job, if it is still there.
        unsafe { libc::kill(pid as i32, libc::SIGKILL) };
    }
    if job.len() < all {
        return Err(format!("the job had {} processes", job.len()).into());
    }
    Ok(ended?)
}

/// Returns true if the system lets us have namespaces.
fn can_separate() -> bool {
    let words = ["--mount", "--pid", "--ipc", "--net", "--fork", "true"];
    Command::new("unshare").args(words).output().is_ok_and(|o| o.status.success())
}

/// The number that a variable holds, if it is set; nonsense ends this program.
fn number(variable: &str) -> Option<u64> {
    let value = std::env::var_os(variable).filter(|value| !value.is_empty())?;
    let number = value.to_str().and_then(|value| value.trim().parse().ok());
    if number.is_none() {
        eprintln!("{variable} is '{}'; it takes a whole number", value.display());
        std::process::exit(2);
    }
    number
}

fn main() -> ExitCode {
    if let Ok(what) = std::env::var(TRIAL) {
        return play(&what);
    }
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.first().is_some_and(|word| word == "matrix") {
        return matrix(&words[1..]);
    }
    if let [row, seed] = &words[..]
        && row == STAYS
    {
        run_one(STAYS, &NETWORKS[0], seed.parse().expect("a seed"), false);
        return ExitCode::SUCCESS;
    }
    let mut arguments = Arguments::from_args();
    arguments.test_threads = arguments.test_threads.or(Some(harness::JOBS));
    let seed = number("RANKWAY_KILLS_SEED").unwrap_or_else(fresh_seed);
    let trials = number("RANKWAY_KILLS_TRIALS").unwrap_or(10) as usize;
    eprintln!("RANKWAY_KILLS_SEED={seed} RANKWAY_KILLS_TRIALS={trials}");
    if apart().is_empty() {
        eprintln!("leftovers in /dev/shm: not looked for, no mount namespace");
    }
    let started = Instant::now();
    let row = |(at, name): (usize, &str)| {
        Trial::test(format!("killed in {name}"), move || row_of(at, trials, seed, started))
    };
    let mut all: Vec<Trial> = ROWS.iter().copied().enumerate().map(row).collect();
    for (name, signal) in [("TERM", libc::SIGTERM), ("INT", libc::SIGINT), ("KILL", libc::SIGKILL)]
    {
        let name = format!("driver/ended by SIG{name}");
        all.push(Trial::test(name, move || driver_ended_by(signal)));
    }
    if can_separate() {
        all.extend(NETWORKS[TOGETHER..].iter().map(|network| {
            let name = format!("apart/{}", network.name);
            Trial::test(name, move || apart_by(network, trials.min(6), seed))
        }));
        all.push(Trial::test("apart/no network", nowhere));
    } else {
        eprintln!("apart: skipped, the system gives us no namespaces (unshare)");
    }
    libtest_mimic::run(&arguments, all).exit_code()
}
