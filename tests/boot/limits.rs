//! Few descriptors, and strangers who want them: callers of another user at
//! the set-up channel, by the thousand, while a job starts.
#![cfg(all(target_os = "linux", feature = "ofi"))]
#![allow(clippy::unwrap_used)]

#[path = "../harness/parts.rs"]
mod parts;

use parts::*;
use rankway::boot::local::{self, Options};
use rankway::boot::{Boot, World};
use rankway::device::{self, open_ofi};
use rankway::rma::{Communicator, Window};
use std::io::Write;
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::{Duration, Instant};

plays!(part);

/// Where the ranks write how they can be called, for the stranger.
const PLACE: &str = "RANKWAY_TEST_PLACE";
/// Connections of the stranger.
const CALLS: usize = 1000;

fn part(name: &str) {
    match name {
        "start" => start(64, 4, |boot| boot),
        "start far apart" => start(64, 4, |boot| Arc::new(Far(boot))),
        "stranger" => stranger(),
        "watched" => watched(),
        "spy" => spy(),
        "normal job" => normal_job(),
        other => match other.split_once(" ranks with ") {
            Some((ranks, descriptors)) => {
                tight(ranks.parse().unwrap(), descriptors.parse().unwrap());
            }
            None => panic!("no part {other}"),
        },
    }
}

fn allow_descriptors(count: u64) {
    let limit = libc::rlimit { rlim_cur: count, rlim_max: count };
    // SAFETY: reads the live local `limit`.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) }, 0);
}

/// Writes what a rank tells at a place, there in one piece.
fn tell(place: &Path, rank: u32, text: &str) {
    let name = place.join(format!("rank{rank}"));
    std::fs::write(name.with_extension("new"), text).unwrap();
    std::fs::rename(name.with_extension("new"), name).unwrap();
}

/// What so many ranks told there, once all have.
fn told(place: &Path, ranks: u32) -> Vec<String> {
    let read = |rank| {
        let name = place.join(format!("rank{rank}"));
        assert!(eventually(30, || name.exists()));
        std::fs::read_to_string(name).unwrap()
    };
    (0..ranks).map(read).collect()
}

/// A job that opens the channel, and meets once the stranger is there.
fn start(descriptors: u64, ranks: u32, wrap: impl Fn(Arc<dyn Boot>) -> Arc<dyn Boot>) {
    allow_descriptors(descriptors);
    let place = std::env::var_os(PLACE).map(PathBuf::from);
    all_succeed(ranks, |boot| {
        let boot = wrap(boot);
        let control = open(&boot);
        if let Some(place) = &place {
            let contact_info = control.contact_info(boot.rank()).unwrap();
            let text = match contact_info.addresses.first() {
                Some(ip) => format!("{ip} {}", contact_info.port),
                None => contact_info.local.iter().map(|byte| format!("{byte:02x}")).collect(),
            };
            tell(place, boot.rank(), &text);
            assert!(eventually(30, || place.join("calling").exists()));
        }
        let begin = Instant::now();
        let world = World::of(&*boot);
        for round in 0..20 {
            let all = control.allgather(&world, 1, &sample(boot.rank(), round), &mut ok).unwrap();
            assert!(all.iter().zip(0..).all(|(got, rank)| *got == sample(rank, round)));
        }
        println!("rank {} met after {:?}", boot.rank(), begin.elapsed());
        assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
        boot.fence(&mut || ()).unwrap();
    });
}

/// Calls every rank again and again, keeps up to [`CALLS`] connections, and
/// says a byte now and then.
fn stranger() {
    // A loop without end must not outlive the test, whatever becomes of it.
    // SAFETY: alarm takes an integer.
    unsafe { libc::alarm(60) };
    let place = PathBuf::from(std::env::var_os(PLACE).unwrap());
    let ranks = told(&place, 4);
    let mut held = std::collections::VecDeque::new();
    let mut calls = 0;
    loop {
        for rank in &ranks {
            held.extend(call(rank));
            calls += 1;
        }
        while held.len() > CALLS {
            held.pop_front();
        }
        if calls % 16 == 0 {
            for stream in held.iter_mut().step_by(7) {
                let _ = stream.write(b"r");
            }
        }
        if calls == CALLS {
            std::fs::write(place.join("calling"), b"").unwrap();
        }
    }
}

fn call(rank: &str) -> Option<TcpStream> {
    let stream: TcpStream = match rank.split_once(' ') {
        Some((ip, port)) => {
            let address = std::net::SocketAddr::new(ip.parse().unwrap(), port.parse().unwrap());
            TcpStream::connect_timeout(&address, Duration::from_millis(20)).ok()?
        }
        None => {
            let address = SocketAddr::from_abstract_name(format!("rankway-{rank}")).unwrap();
            OwnedFd::from(UnixStream::connect_addr(&address).ok()?).into()
        }
    };
    stream.set_nonblocking(true).ok()?;
    Some(stream)
}

struct KillOnDrop(Child, PathBuf);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
        let _ = std::fs::remove_dir_all(&self.1);
    }
}

/// A job with windows and packets that waits until the spy has tried everything.
fn watched() {
    let place = PathBuf::from(std::env::var_os(PLACE).unwrap());
    all_succeed(2, |boot| {
        let context =
            open_ofi(boot.clone(), &device::Options::default().provider("shm".to_owned())).unwrap();
        let world = Communicator::world(&context);
        let mut window = Window::allocate(&world, 64, 1).unwrap();
        window.fence().unwrap();
        window.put(&[7; 8], 1 - boot.rank(), 0).unwrap();
        window.fence().unwrap();
        tell(&place, boot.rank(), &std::process::id().to_string());
        assert!(eventually(30, || place.join("tried").exists()));
        window.free().unwrap();
    });
    assert_eq!(std::fs::read_to_string(place.join("tried")).unwrap(), "");
}

/// Another user tries the memory, the descriptors and the segments of a job,
/// and to end it; says what it got at.
fn spy() {
    let place = PathBuf::from(std::env::var_os(PLACE).unwrap());
    let pids = told(&place, 2);
    let mut got = String::new();
    let mut tries = |what: String, refused: bool| {
        if !refused {
            got += &format!("{what}\n");
        }
    };
    let open = |path: &std::path::Path, write: bool| {
        std::fs::OpenOptions::new().read(!write).write(write).open(path)
    };
    // (A /proc mounted with hidepid says that there is no such process.)
    let denied = |error: std::io::Error| {
        matches!(error.kind(), std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::NotFound)
    };
    let mut segments = 0;
    for pid in &pids {
        let process = PathBuf::from(format!("/proc/{pid}"));
        tries(format!("descriptors of {pid}"), process.join("fd").read_dir().is_err_and(denied));
        tries(format!("memory of {pid}"), open(&process.join("mem"), true).is_err_and(denied));
        let number = pid.parse().unwrap();
        // SAFETY: kill takes two integers.
        let rc = unsafe { libc::kill(number, libc::SIGTERM) };
        let errno = std::io::Error::last_os_error().raw_os_error();
        tries(format!("a signal to {pid}"), rc != 0 && errno == Some(libc::EPERM));
        for entry in std::fs::read_dir("/dev/shm").unwrap().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with(&format!("{pid}:")) || name.contains(&format!("-{pid}-")) {
                segments += 1;
                tries(format!("reads {name}"), open(&entry.path(), false).is_err_and(denied));
                tries(format!("writes {name}"), open(&entry.path(), true).is_err_and(denied));
            }
        }
    }
    tries("no segment was found".to_owned(), segments > 0);
    std::fs::write(place.join("result"), got).unwrap();
    std::fs::rename(place.join("result"), place.join("tried")).unwrap();
}

/// Runs `part` while a `stranger` is there, of another user where that can be.
fn beside(stranger: &str, part: &str) {
    let place = std::env::temp_dir().join(format!("{part}-{}", std::process::id()));
    std::fs::create_dir_all(&place).unwrap();
    // SAFETY: no arguments, cannot fail.
    let root = unsafe { libc::geteuid() } == 0;
    if root {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(&place, std::fs::Permissions::from_mode(0o777)).unwrap();
    } else {
        println!("not root: the stranger is of the same user");
    }
    // Copied, since another user may not reach the directory of the program.
    let program = place.join("program");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let mut siege = Command::new(&program);
    siege.env("RANKWAY_TEST_PART", stranger).env(PLACE, &place).current_dir("/");
    if root {
        siege.uid(65534).gid(65534);
    }
    let _ended = KillOnDrop(siege.spawn().unwrap(), place.clone());
    let mut command = play(part);
    command.env(PLACE, &place);
    print!("{}", must_succeed(command));
}

#[test]
fn a_siege_does_not_keep_a_job_from_starting() {
    must_succeed(play("start"));
    beside("stranger", "start");
}

#[test]
fn a_siege_over_the_network() {
    if !has_network() {
        println!("skipped: this machine has no network interface but the loopback");
        return;
    }
    must_succeed(play("start far apart"));
    beside("stranger", "start far apart");
}

#[test]
fn another_user_gets_at_nothing() {
    // SAFETY: no arguments, cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        println!("skipped: needs root, to be another user");
        return;
    }
    beside("spy", "watched");
}

fn windows(boot: Arc<dyn Boot>) -> Result<(), String> {
    let text = |error: &dyn std::error::Error| error.to_string();
    let context = open_ofi(boot, &device::Options::default()).map_err(|e| text(&e))?;
    let world = Communicator::world(&context);
    let mut memory = vec![0u8; 8 * world.size() as usize];
    let mut shared = Window::allocate(&world, 64, 1).map_err(|e| text(&e))?;
    // SAFETY: the memory outlives the window, and is looked at after it.
    let window = unsafe { Window::create(&world, memory.as_mut_ptr(), memory.len(), 8) };
    let mut window = window.map_err(|e| text(&e))?;
    window.fence().map_err(|e| text(&e))?;
    for rank in 0..world.size() {
        window.put(&[world.rank() as u8; 8], rank, world.rank() as usize).map_err(|e| text(&e))?;
    }
    window.fence().map_err(|e| text(&e))?;
    window.free().map_err(|e| text(&e))?;
    shared.free().map_err(|e| text(&e))?;
    let mut found = memory.chunks(8).zip(0u8..);
    match found.all(|(bytes, rank)| bytes.iter().all(|&byte| byte == rank)) {
        true => Ok(()),
        false => Err("wrong bytes".into()),
    }
}

/// A device, a window and puts with 64 descriptors, as without a limit.
fn normal_job() {
    allow_descriptors(64);
    all_succeed(4, |boot| windows(boot).unwrap());
}

/// More ranks than descriptors: they meet, or say what to raise.
fn tight(ranks: u32, descriptors: u64) {
    allow_descriptors(descriptors);
    let outcome = local::run(&Options::new(ranks), |boot| {
        let rank = boot.rank();
        match windows(boot) {
            Ok(()) => 0,
            Err(why) => {
                println!("rank {rank}: {why}");
                2
            }
        }
    });
    println!("{:?}", outcome.unwrap().exits);
}

#[test]
fn a_job_of_normal_size_needs_few_descriptors() {
    must_succeed(play("normal job"));
}

#[test]
fn too_few_descriptors_for_the_job_are_said() {
    let parts = [
        ("40 ranks with 40", ""),
        ("40 ranks with 24", "shm"),
        ("8 ranks with 16", "tcp"),
        // Some have all connections they need, and some wait within the provider.
        ("8 ranks with 28", "tcp"),
        ("8 ranks with 29", "tcp"),
        ("8 ranks with 29", "tcp"),
        ("4 ranks with 10", ""),
    ];
    for (part, providers) in parts {
        let begin = Instant::now();
        let mut command = play(part);
        command.env("RANKWAY_PROVIDER", providers);
        let text = must_succeed(command);
        println!("{part}, {:?}: {text}", begin.elapsed());
        assert!(begin.elapsed() < Duration::from_secs(30), "they waited in silence: {text}");
        let failed = text.lines().any(|line| line.starts_with("rank "));
        assert!(!failed || text.contains("ulimit -n"), "nobody named the remedy: {text}");
    }
}
