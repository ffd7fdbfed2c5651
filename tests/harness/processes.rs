//! Processes of tests: run to an end that is sure to come, and looked for
//! afterwards. Needs nothing of the library.

use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Longer than any job takes on a loaded machine.
pub const LIMIT: Duration = Duration::from_secs(60);

/// Words before a launcher that give it a place of its own for its session: one
/// that ends removes the directory that all of a user share, while another makes
/// its own in it.
pub const OWN_SESSION: [&str; 4] =
    ["sh", "-c", "d=$(mktemp -d) && TMPDIR=$d \"$@\"; s=$?; rm -rf \"$d\"; exit $s", "sh"];

pub type Result<T = ()> = std::result::Result<T, String>;

pub fn told(why: &str, output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!("{why}\n--- stdout\n{}--- stderr\n{}", text(&output.stdout), text(&output.stderr))
}

/// Has a command end by SIGINT, though who started the tests may have had it ignored.
pub fn interruptible(command: &mut Command) {
    use std::os::unix::process::CommandExt;
    // SAFETY: a call that is safe in a forked process.
    unsafe {
        command.pre_exec(|| {
            libc::signal(libc::SIGINT, libc::SIG_DFL);
            Ok(())
        })
    };
}

/// Ends its process group when the test program that holds its standard input is
/// gone, killed or not: with a second for those who sweep behind their children.
const GUARD: &str = "trap '' TERM INT HUP; read -r _; kill 0; sleep 2; kill -9 0";

/// Runs a command, killing its whole process group when it takes too long.
pub fn bounded(command: Command) -> Result<Output> {
    bounded_for(command, LIMIT, |_| ())
}

/// The same with a limit of its own, and a look at the process group of a
/// command that is late before it is killed: what is told says where its threads
/// stood. The group is led by its [`GUARD`].
pub fn bounded_for(
    mut command: Command,
    limit: Duration,
    look: impl FnOnce(u32),
) -> Result<Output> {
    use std::os::unix::process::CommandExt;
    let mut guard = Command::new("sh");
    guard.args(["-c", GUARD]).process_group(0).stdin(Stdio::piped());
    let guard = guard.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let mut guard = guard.map_err(|e| format!("sh: {e}"))?;
    let group = guard.id() as i32;
    let command = command.process_group(group).stdin(Stdio::null());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let child = child.map_err(|e| format!("{command:?}: {e}"))?;
    let (tell, end) = std::sync::mpsc::channel();
    std::thread::spawn(move || tell.send(child.wait_with_output()));
    let started = Instant::now();
    let ended = end.recv_timeout(limit);
    let late = ended.is_err().then(|| {
        look(group as u32);
        (started.elapsed(), stacks(guard.id()))
    });
    // SAFETY: the group is the guard's, which is our child and not reaped.
    unsafe { libc::kill(-group, libc::SIGKILL) };
    guard.wait().map_err(|e| format!("sh: {e}"))?;
    match ended {
        Ok(output) => output.map_err(|e| e.to_string()),
        Err(_) => {
            let output = end.recv().map_err(|e| e.to_string())?.map_err(|e| e.to_string())?;
            let (after, stacks) = late.unwrap_or_default();
            Err(told(&format!("still running after {after:?}"), &output) + &stacks)
        }
    }
}

/// Where the threads of the first processes of a group stand, and of those that
/// they started in groups of their own (as Hydra does), by gdb where it is
/// installed (`ci/deps --gdb`).
fn stacks(leader: u32) -> String {
    const PROCESSES: usize = 8;
    let mut text = String::new();
    let mut job = group(leader);
    let mut seen = 0;
    while let Some(&parent) = job.get(seen) {
        seen += 1;
        let children = processes(|of| of.parent == parent);
        job.extend(children.into_iter().filter(|pid| !job.contains(pid)).collect::<Vec<_>>());
    }
    // What the launchers started comes last, and is what there is to see.
    for &pid in job.iter().rev().filter(|&&pid| pid != leader).take(PROCESSES) {
        text += &stacks_of(pid);
    }
    text
}

/// Where the threads of a process stand.
pub fn stacks_of(pid: u32) -> String {
    const WORDS: [&str; 8] =
        ["-k", "1", "20", "gdb", "-batch", "-nx", "-ex", "thread apply all bt 32"];
    let mut gdb = Command::new("timeout");
    let gdb = gdb.args(WORDS).args(["-p", &pid.to_string()]).stdin(Stdio::null());
    match gdb.output() {
        Ok(output) if output.status.code() != Some(NO_PROGRAM) => {
            format!("--- stacks of {pid}\n{}", String::from_utf8_lossy(&output.stdout))
        }
        _ => format!("--- no stacks of {pid}: gdb is not installed\n"),
    }
}

/// Jobs at a time, on two processors: of all scenarios some third waits for a clock.
/// Those that compute throughout get slower by more than two.
pub const JOBS: usize = 3;

/// What timeout(1) ends with where there is no such program.
const NO_PROGRAM: i32 = 127;

/// Sends a signal to a process of this job, which nobody has reaped yet.
pub fn signal(pid: u32, number: i32) {
    // SAFETY: no memory; whose process it is, the caller says.
    unsafe { libc::kill(pid as i32, number) };
}

/// Kills this process, so that nothing of it is cleaned up.
pub fn die() -> ! {
    // SAFETY: ends this process.
    unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    loop {
        std::hint::spin_loop();
    }
}

/// What `/proc` says of a process.
struct Place {
    parent: u32,
    group: u32,
}

/// Process ids of those that are wanted.
fn processes(wanted: impl Fn(Place) -> bool) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").map(|d| d.flatten().collect::<Vec<_>>());
    let pid = |e: std::fs::DirEntry| e.file_name().to_str()?.parse::<u32>().ok();
    let place = |pid: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // pid (name) state parent group
        let (_, behind) = stat.rsplit_once(')')?;
        let mut words = behind.split_whitespace().skip(1).map(str::parse);
        Some(Place { parent: words.next()?.ok()?, group: words.next()?.ok()? })
    };
    let all = entries.unwrap_or_default().into_iter().filter_map(pid);
    all.filter(|pid| place(pid).is_some_and(&wanted)).collect()
}

/// Process ids in a process group, its leader included.
pub fn group(leader: u32) -> Vec<u32> {
    processes(|of| of.group == leader)
}

/// What is still in /dev/shm that a job may have left there.
pub fn leftovers() -> Vec<String> {
    let entries = std::fs::read_dir("/dev/shm").map(|d| d.flatten().collect::<Vec<_>>());
    let names = entries.unwrap_or_default().into_iter();
    names.map(|e| e.file_name().to_string_lossy().into_owned()).collect()
}

/// Returns true if a process runs: exists and is no zombie, whose parent has not
/// asked yet.
pub fn alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, behind)| !behind.starts_with(['Z', 'X']))
}

/// These processes have ended, or do so within 10 s.
pub fn ended(pids: &[u32]) -> Result {
    let start = Instant::now();
    while pids.iter().any(|&pid| alive(pid)) && start.elapsed() < Duration::from_secs(10) {
        std::thread::sleep(Duration::from_millis(10));
    }
    let left: Vec<_> = pids.iter().filter(|&&pid| alive(pid)).collect();
    if left.is_empty() { Ok(()) } else { Err(format!("processes {left:?} are left")) }
}

/// Neither these processes nor segments of theirs are there.
pub fn gone(pids: &[u32]) -> Result {
    ended(pids)?;
    for pid in pids {
        let mut left = leftovers();
        left.retain(|name| {
            name.starts_with(&format!("{pid}:")) || name.contains(&format!("-{pid}-"))
        });
        if !left.is_empty() {
            return Err(format!("/dev/shm holds {left:?}"));
        }
    }
    Ok(())
}
