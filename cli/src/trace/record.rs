//! `rankway trace record`: runs a program with the library that records preloaded.

use super::leaks::Limit;
use super::load::{DIRECTORY, Job, Traces};
use crate::output::{bytes, complain, several};
use crate::signals::handle;
use rankway::track::{Asked, TrackError};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// The library that is preloaded.
const LIBRARY: &str = "librankway_track.so";
/// What all that it says begins with.
const MARK: &[u8] = b"rankway_track: ";
/// The variable that says whether calls are recorded.
const EVENTS: &str = "RANKWAY_TRACE_EVENTS";

const HELP: &str = "\
Examples:
  rankway trace record -- mpirun -n 4 ./program
  rankway trace record -o run1 -- mpiexec.hydra -n 4 ./program argument
  srun rankway trace record -- ./program

The program runs as it is, in C, C++, Fortran, Python or Rust, under Open MPI or MPICH; it must not be \
linked to a static MPI library. The library that records is looked for in RANKWAY_TRACK_LIBRARY, \
beside this command and in ../lib. The status is the program's.";

/// Runs a program and records it
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// Where to put the traces; those that are there stay
    #[arg(short, long, value_name = "DIR", default_value = DIRECTORY)]
    output: PathBuf,

    /// Communicators, groups and windows only, no calls
    #[arg(long)]
    no_events: bool,

    /// The program as it is started without us, with its arguments
    #[arg(
        value_name = "COMMAND",
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    command: Vec<OsString>,
}

/// Signals that are passed on.
const SIGNALS: [libc::c_int; 6] =
    [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGUSR1, libc::SIGUSR2];

/// The program's process, while it runs.
static CHILD: AtomicI32 = AtomicI32::new(0);
/// Signals that it has yet to get, by bits: they may come before it is there.
static PENDING: AtomicU64 = AtomicU64::new(0);

pub(crate) fn run(args: &Args) -> Result<ExitCode, String> {
    let library = library()?;
    refuse_settings(args.no_events)?;
    let made = !args.output.exists();
    let directory = prepare(&args.output)?;
    let began = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    let (name, rest) = args.command.split_first().ok_or("no command")?;

    // What else is preloaded stays, behind ours.
    let mut preload = library.into_os_string();
    if let Some(other) = std::env::var_os("LD_PRELOAD").filter(|other| !other.is_empty()) {
        preload.push(":");
        preload.push(other);
    }
    let mut settings =
        vec![("LD_PRELOAD", preload), ("RANKWAY_TRACE", directory.clone().into_os_string())];
    if args.no_events {
        settings.push((EVENTS, "off".into()));
    }
    let mut command = Command::new(name);
    // Open MPI's launcher passes on what it is told to; Hydra's and Slurm's all.
    if is_open_mpi_launcher(name) {
        settings.iter().for_each(|(name, _)| {
            command.arg("-x").arg(name);
        });
    }
    command.args(rest).envs(settings);

    let ended = supervised(&mut command);
    // (Before a directory that we made goes.)
    let said = ended.is_ok().then(|| recorded(&directory, u64::try_from(began).unwrap_or(0)));
    if made {
        // (Only one that nobody wrote into goes.)
        let _ = fs::remove_dir(&directory);
    }
    let status = ended.map_err(|e| {
        format!("cannot start {}: {e}; write the command as without us", Path::new(name).display())
    })?;
    // (Where nobody reads it the status is the program's all the same.)
    complain(&said.unwrap_or_default());
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    Ok(ExitCode::from(code as u8))
}

/// Where the library is.
fn library() -> Result<PathBuf, String> {
    if let Some(path) = std::env::var_os("RANKWAY_TRACK_LIBRARY").filter(|path| !path.is_empty()) {
        let path = PathBuf::from(path);
        let here = path.display();
        let wrong = |why: &dyn std::fmt::Display| {
            format!(
                "RANKWAY_TRACK_LIBRARY: {here}: {why}; `make preload` builds {LIBRARY}; without the \
                 variable it is looked for beside this command and in ../lib"
            )
        };
        let bytes = fs::read(&path).map_err(|why| wrong(&why))?;
        if !bytes.windows(MARK.len()).any(|part| part == MARK) {
            return Err(wrong(&format!("this is not {LIBRARY}")));
        }
        return path.canonicalize().map_err(|why| wrong(&why));
    }
    let own = std::env::current_exe().map_err(|e| format!("where this command is: {e}"))?;
    let own = own.canonicalize().unwrap_or(own);
    let beside = own.parent().unwrap_or(Path::new("/"));
    let places = [beside.join(LIBRARY), beside.join("../lib").join(LIBRARY)];
    places.iter().find_map(|path| path.canonicalize().ok()).ok_or_else(|| {
        format!(
            "{LIBRARY} is neither beside this command ({}) nor in ../lib; `make preload` builds it, \
             RANKWAY_TRACK_LIBRARY can name another",
            beside.display()
        )
    })
}

/// What the library would not take from the environment is refused here, before the program runs.
/// (The directory is ours to say, and so are calls with `--no-events`.)
fn refuse_settings(no_events: bool) -> Result<(), String> {
    match Asked::from_environment() {
        Err(why @ TrackError::Setting { name: EVENTS, .. }) if !no_events => Err(why.to_string()),
        _ => Ok(()),
    }
}

/// The directory, made if need be, as every process can name it.
fn prepare(directory: &Path) -> Result<PathBuf, String> {
    let here = directory.display();
    fs::create_dir_all(directory).map_err(|e| format!("--output: cannot make {here}: {e}"))?;
    let directory = directory.canonicalize().map_err(|e| format!("--output: {here}: {e}"))?;
    let probe = directory.join(format!(".rankway-{}", std::process::id()));
    fs::write(&probe, []).map_err(|e| format!("--output: cannot write into {here}: {e}"))?;
    fs::remove_file(&probe).map_err(|e| format!("--output: {here}: {e}"))?;
    Ok(directory)
}

/// Returns true if the program is a launcher that takes `-x`: it calls itself Open MPI's.
fn is_open_mpi_launcher(name: &OsStr) -> bool {
    let file = Path::new(name).file_name().unwrap_or_default().to_string_lossy().into_owned();
    if !["mpirun", "mpiexec", "orterun", "prterun"].iter().any(|one| file.starts_with(one)) {
        return false;
    }
    let asked =
        Command::new(name).arg("--version").stdin(Stdio::null()).stderr(Stdio::null()).output();
    let said = asked.map(|out| String::from_utf8_lossy(&out.stdout).to_lowercase());
    said.is_ok_and(|said| {
        ["open mpi", "openrte", "open-mpi", "prrte"].iter().any(|name| said.contains(name))
    })
}

/// Passes a signal on that somebody sent us. What a terminal sends goes to all of its
/// foreground processes: the program has it already.
extern "C" fn pass_on(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    _context: *mut libc::c_void,
) {
    // SAFETY: the system passes a valid structure to a handler with SA_SIGINFO.
    let from_a_process = unsafe { (*info).si_code } <= 0;
    if from_a_process {
        PENDING.fetch_or(1 << signal, Ordering::SeqCst);
        deliver();
    }
}

/// Sends the program what came for it, once it is there.
fn deliver() {
    let child = CHILD.load(Ordering::SeqCst);
    if child == 0 {
        return;
    }
    let came = PENDING.swap(0, Ordering::SeqCst);
    for signal in SIGNALS.into_iter().filter(|signal| came >> signal & 1 == 1) {
        // SAFETY: kill(2) may be called in a handler; the number is of a process that we
        // have not waited for yet.
        unsafe { libc::kill(child, signal) };
    }
}

/// What to do when a signal comes that is passed on. One that is ignored stays so for the program
/// too.
fn on_signals(handler: libc::sighandler_t) {
    for signal in SIGNALS {
        // SAFETY: the default, or one that only calls kill(2) and works on atomics.
        unsafe { handle(signal, handler, libc::SA_SIGINFO | libc::SA_RESTART) };
    }
}

/// Runs it to its end; signals that we get it gets too.
fn supervised(command: &mut Command) -> io::Result<std::process::ExitStatus> {
    on_signals(pass_on as *const () as usize);
    let mut child = command.spawn()?;
    CHILD.store(child.id() as i32, Ordering::SeqCst);
    deliver();
    // Not reaped before nobody can send to its number any more.
    // SAFETY: all-zero is a valid siginfo_t.
    let mut ended: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let options = libc::WEXITED | libc::WNOWAIT;
    // SAFETY: a structure of ours.
    while unsafe { libc::waitid(libc::P_PID, child.id(), &mut ended, options) } != 0 {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    CHILD.store(0, Ordering::SeqCst);
    on_signals(libc::SIG_DFL);
    child.wait()
}

/// What to say of what was recorded since.
fn recorded(directory: &Path, began: u64) -> String {
    let here = directory.display();
    let nothing = format!(
        "rankway: nothing was recorded in {here}: the program called no MPI_Init, or its MPI library \
         is static or unknown\n"
    );
    if !directory.is_dir() {
        return format!(
            "rankway: {here} was removed while the program ran, and what was recorded with it\n"
        );
    }
    let Ok(mut traces) = Traces::of_directory(directory) else { return nothing };
    traces.jobs.retain_mut(|job| {
        let mut since = job.processes.iter().map(|process| process.header.unix_nanos >= began);
        let files = std::mem::take(&mut job.files).into_iter();
        job.files = files.filter(|_| since.next() == Some(true)).collect();
        drop(since);
        job.processes.retain(|process| process.header.unix_nanos >= began);
        !job.processes.is_empty()
    });
    let processes = traces.processes().count() as u64;
    if processes == 0 {
        return nothing;
    }
    let events = traces.jobs.iter().map(Job::events).sum();
    let files = traces.jobs.iter().flat_map(|job| &job.files);
    // (Those of another command that records there meanwhile are among them.)
    let jobs = match traces.jobs.len() {
        1 => String::new(),
        several => format!(" of {several} jobs"),
    };
    let mut said = format!(
        "rankway: {}{jobs} and {} recorded in {here} ({})\n",
        several(processes, "process", "processes"),
        several(events, "call", "calls"),
        bytes(files.map(|file| file.len).sum())
    );
    for line in traces.title().into_iter().filter(|line| line.starts_with([' ', 'l'])) {
        said += &format!("rankway: {}\n", line.trim_start());
    }
    if let Some(warning) = Limit::of(&traces).warning() {
        said += &format!("rankway: {warning}\n");
    }
    for (what, says) in [
        ("comms", "communicators, who made them, what went through"),
        ("leaks", "what was never freed, by line"),
        ("matrix", "who sent how much to whom"),
        ("waits", "who waited for whom"),
        ("report -o report.html", "all of it as a page"),
    ] {
        said += &format!("  rankway trace {what} {here}  # {says}\n");
    }
    said
}
