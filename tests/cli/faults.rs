//! The command amidst bad luck: Ctrl-C, a death of all its processes, libraries
//! that are not there. Nothing hangs or is left behind.

#![allow(dead_code, unreachable_pub, reason = "a part of the harness is used")]

#[path = "../harness/processes.rs"]
mod processes;

use libtest_mimic::{Arguments, Trial};
use processes::{bounded, gone};
use std::process::{Child, Command, ExitCode};
use std::time::{Duration, Instant};

/// A process may map this much, which is enough.
const LIMIT_KIB: u32 = 8_000_000;

/// `rankway rate` in a process group of its own under a limit of memory, and its members,
/// once both ranks have their segments.
fn running() -> std::result::Result<(Child, Vec<u32>), libtest_mimic::Failed> {
    use std::os::unix::process::CommandExt;
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -v {LIMIT_KIB}; exec \"$0\" \"$@\"")]);
    command.arg(env!("CARGO_BIN_EXE_rankway"));
    command.args(["rate", "--network", "shm", "--rounds", "100000", "--models", "direct"]);
    command.process_group(0).stdout(std::process::Stdio::null());
    processes::interruptible(&mut command);
    let child = command.stderr(std::process::Stdio::piped()).spawn()?;
    let start = Instant::now();
    let mine = |members: &[u32]| {
        let of = |name: &String| members.iter().any(|pid| name.starts_with(&format!("{pid}:")));
        processes::leftovers().iter().filter(|name| of(name)).count()
    };
    let mut members = Vec::new();
    while mine(&members) < 2 {
        if start.elapsed() > Duration::from_secs(20) {
            kill_group(&child, libc::SIGKILL);
            return Err("the ranks never had their segments".into());
        }
        std::thread::sleep(Duration::from_millis(20));
        members = processes::group(child.id());
    }
    std::thread::sleep(Duration::from_millis(200));
    Ok((child, members))
}

fn kill_group(leader: &Child, signal: i32) {
    // SAFETY: the leader is our child and not reaped; so its group is ours.
    unsafe { libc::kill(-(leader.id() as i32), signal) };
}

/// Ctrl-C under `rankway rate` leaves nothing.
fn interrupted(everyone: bool) -> std::result::Result<(), libtest_mimic::Failed> {
    use std::os::unix::process::ExitStatusExt;
    let (mut child, members) = running()?;
    // SAFETY: as in `kill_group`.
    unsafe {
        let leader = child.id() as i32;
        libc::kill(if everyone { -leader } else { leader }, libc::SIGINT)
    };
    let start = Instant::now();
    let status = loop {
        match child.try_wait()? {
            Some(status) => break Some(status),
            None if start.elapsed() > Duration::from_secs(10) => break None,
            None => std::thread::sleep(Duration::from_millis(10)),
        }
    };
    let left = gone(&members);
    if status.is_none() {
        kill_group(&child, libc::SIGKILL);
    }
    let status = status.ok_or("still running 10 s after SIGINT")?;
    if status.signal() != Some(libc::SIGINT) && status.code() != Some(130) {
        return Err(format!("it ended with {status}").into());
    }
    Ok(left?)
}

/// Of those in the folder for temporary files, whose name has this process number.
fn temporary(pid: u32) -> Vec<String> {
    let all = std::fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten();
    let names = all.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let of = |name: &String| name.split('-').any(|part| part == pid.to_string());
    names.filter(|name| name.starts_with("rankway-") && of(name)).collect()
}

/// A signal to a command alone that has a folder, once it is there: the folder is gone, and so are
/// the processes that hold what it gave them.
fn folder_goes(
    args: &[&str],
    path: Option<&std::path::Path>,
    signal: i32,
) -> std::result::Result<(), libtest_mimic::Failed> {
    use std::io::Read;
    use std::os::unix::process::{CommandExt, ExitStatusExt};
    // Whoever was started has it open.
    let (mut held, given) = std::io::pipe()?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_rankway"));
    command.args(args).process_group(0).stdout(std::process::Stdio::null()).stderr(given);
    if let Some(path) = path {
        let old = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{old}", path.display()));
    }
    processes::interruptible(&mut command);
    let mut child = command.spawn()?;
    drop(command);
    let start = Instant::now();
    let is_ready = || match path {
        // The launcher says when it is there.
        Some(path) => path.join("started").exists(),
        None => !temporary(child.id()).is_empty(),
    };
    while !is_ready() && start.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(5));
    }
    let was_ready = is_ready();
    // SAFETY: our child, not reaped.
    unsafe { libc::kill(child.id() as i32, signal) };
    let pid = child.id();
    let status = child.wait()?;
    let left = temporary(pid);
    for name in &left {
        let _ = std::fs::remove_dir_all(std::env::temp_dir().join(name));
    }
    let mut said = String::new();
    held.read_to_string(&mut said)?;
    match (was_ready, status.signal() == Some(signal), left.is_empty()) {
        (true, true, true) => Ok(()),
        _ => Err(format!("ready: {was_ready}, {status}, left: {left:?}: {said}").into()),
    }
}

fn simulation_goes(signal: i32) -> std::result::Result<(), libtest_mimic::Failed> {
    folder_goes(&["trace", "simulate", "--processes", "4194304"], None, signal)
}

/// The same of a launcher that goes on until it is told to end.
fn launcher_goes(signal: i32) -> std::result::Result<(), libtest_mimic::Failed> {
    use std::os::unix::fs::PermissionsExt;
    let name = format!("rankway_launcher_{signal}_{}", std::process::id());
    let path = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&path)?;
    let (launcher, told) = (path.join("mpirun.openmpi"), path.join("told"));
    let script = format!(
        "#!/bin/sh\ntrap 'echo >>{}; exit 1' TERM\n: >{}\nwhile :; do sleep 0.02; done\n",
        told.display(),
        path.join("started").display()
    );
    std::fs::write(&launcher, script)?;
    std::fs::set_permissions(&launcher, std::fs::Permissions::from_mode(0o755))?;
    let args = ["mpi", "--program", "/bin/true", "--components", "/", "--stack", "ucx"];
    let went = folder_goes(&args, Some(&path), signal);
    let times = std::fs::read_to_string(&told).map_or(0, |told| told.lines().count());
    let _ = std::fs::remove_dir_all(&path);
    went?;
    if times != 1 {
        return Err(format!("the launcher was told {times} times").into());
    }
    Ok(())
}

/// Ranks that crash tell no reason; that memory is limited is told for them.
fn all_ranks_killed() -> std::result::Result<(), libtest_mimic::Failed> {
    let (child, members) = running()?;
    let mine =
        |name: &str| members.iter().find(|pid| name.starts_with(&format!("{pid}:"))).copied();
    let ranks: Vec<u32> = processes::leftovers().iter().filter_map(|name| mine(name)).collect();
    // None sees another's death and tells of that.
    for signal in [libc::SIGSTOP, libc::SIGKILL] {
        for &rank in &ranks {
            // SAFETY: a rank of a job of ours, which its supervisor has not reaped.
            unsafe { libc::kill(rank as i32, signal) };
        }
    }
    let output = child.wait_with_output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    let limit = format!("{LIMIT_KIB} KiB");
    let missing = ["Signal(9)", "ulimit -v", &limit].into_iter().find(|word| !said.contains(word));
    if output.status.code() != Some(1) || missing.is_some() {
        return Err(format!("{}, without {missing:?}: {said}", output.status).into());
    }
    Ok(gone(&members)?)
}

/// Nobody is left to sweep after the ranks: the next job does.
fn all_killed() -> std::result::Result<(), libtest_mimic::Failed> {
    let (mut child, members) = running()?;
    kill_group(&child, libc::SIGKILL);
    child.wait()?;
    // One that is still on its way out has its segment, which the next start leaves.
    processes::ended(&members)?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_rankway"));
    command.args(["rate", "--network", "shm", "--rounds", "1", "--models", "direct"]);
    let output = bounded(command)?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    Ok(gone(&members)?)
}

/// The command says what is wrong, too, and with a failing status.
fn command_refuses(
    env: &[(&str, &str)],
    words: &[&str],
) -> std::result::Result<(), libtest_mimic::Failed> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rankway"));
    command.args(["rate", "--network", "shm", "--rounds", "1"]).envs(env.iter().copied());
    let output = bounded(command)?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let missing = words.iter().find(|word| !said.contains(**word));
    if output.status.success() || missing.is_some() {
        return Err(format!("{}, without {missing:?}: {said}", output.status).into());
    }
    Ok(())
}

fn main() -> ExitCode {
    let command = |name: &str, env: &'static [(&str, &str)], words: &'static [&str]| {
        Trial::test(format!("command/{name}"), move || command_refuses(env, words))
    };
    let nowhere = &[("RANKWAY_LIBFABRIC", "/nonexistent")];
    let trials = vec![
        Trial::test("command/Ctrl-C", || interrupted(true)),
        Trial::test("command/SIGINT to the leader", || interrupted(false)),
        Trial::test("command/SIGKILL to all", all_killed),
        Trial::test("command/SIGKILL to all ranks", all_ranks_killed),
        Trial::test("command/SIGINT to a simulation", || simulation_goes(libc::SIGINT)),
        Trial::test("command/SIGTERM to a simulation", || simulation_goes(libc::SIGTERM)),
        Trial::test("command/SIGINT beside a launcher", || launcher_goes(libc::SIGINT)),
        Trial::test("command/SIGTERM beside a launcher", || launcher_goes(libc::SIGTERM)),
        Trial::test("command/SIGHUP beside a launcher", || launcher_goes(libc::SIGHUP)),
        command("no libfabric", nowhere, &["/nonexistent", "install"]),
        command("FI_PROVIDER", &[("FI_PROVIDER", "nosuch")], &["FI_PROVIDER"]),
    ];
    let mut arguments = Arguments::from_args();
    arguments.test_threads = arguments.test_threads.or(Some(processes::JOBS));
    libtest_mimic::run(&arguments, trials).exit_code()
}
