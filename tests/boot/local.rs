//! Forked jobs: exchange, death, interruption, leftovers.
#![cfg(all(unix, feature = "device"))]
#![allow(clippy::unwrap_used)]

#[path = "../harness/parts.rs"]
mod parts;

use parts::*;
use rankway::boot::local::{self, Exit, Layout, Options};
use rankway::boot::{self, Boot, BootError, segment_prefix};
use std::io::{BufRead, BufReader};
use std::os::fd::AsRawFd;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

fn no_children_left() {
    // SAFETY: a null status is allowed.
    let child = unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) };
    let error = std::io::Error::last_os_error();
    assert_eq!((child, error.raw_os_error()), (-1, Some(libc::ECHILD)));
}

plays!(part);

fn part(name: &str) {
    match name {
        "exchange" => {
            for ranks in [1, 2, 8, 64] {
                assert!(run(ranks, exchange).success());
                no_children_left();
            }
        }
        "nodes" => nodes(),
        "death in a fence" => death_in_a_fence(),
        "control from outside" => control_from_outside(),
        "exits" => exits(),
        "abort" => abort(),
        "two aborts" => two_aborts(),
        "two at once" => two_at_once(),
        "timeout" => timeout(),
        "sleepers" => sleepers(),
        "pinned" => pinned(),
        "dropped" => dropped(),
        "space" => space(),
        "supervisor" => supervisor_is_killed(),
        "no processes" => no_processes(),
        other => panic!("no part {other}"),
    }
}

/// Values put before a fence are visible after it, round after round: whoever
/// left the fence early would find one missing.
fn exchange(boot: Arc<dyn Boot>) {
    assert_eq!(boot.launcher(), "local");
    assert!(Arc::ptr_eq(&boot, &boot::connect().unwrap()));
    for round in 0..10 {
        let key = format!("round {round}");
        boot.put(&key, &sample(boot.rank(), round)).unwrap();
        assert!(matches!(boot.put(&key, b""), Err(BootError::Twice { .. })));
        boot.fence(&mut || ()).unwrap();
        for peer in 0..boot.size() {
            assert_eq!(boot.get(peer, &key).unwrap(), sample(peer, round));
        }
    }
    assert!(matches!(boot.get(0, "nothing"), Err(BootError::NotPublished { rank: 0, .. })));
    let size = boot.size();
    assert!(matches!(boot.get(size, "x"), Err(BootError::Rank { .. })));
    boot.finalize().unwrap();
    boot.finalize().unwrap();
    assert!(matches!(boot.fence(&mut || ()), Err(BootError::Finalized { .. })));
}

fn nodes() {
    for (layout, expected) in
        [(Layout::Block, [0, 0, 0, 1, 1, 1]), (Layout::RoundRobin, [0, 1, 0, 1, 0, 1])]
    {
        let options = Options::new(6).nodes(2).layout(layout);
        let outcome = local::run(&options, |boot| {
            let nodes: Vec<u32> = (0..6).map(|rank| boot.node_of(rank).unwrap()).collect();
            assert_eq!(nodes, expected);
            let mine = boot.local_ranks().unwrap();
            assert_eq!(mine.len(), 3);
            assert!(mine.contains(&boot.rank()));
            0
        });
        assert!(outcome.unwrap().success());
    }
}

/// The survivors hear who died, soon, and again in every later fence.
fn death_in_a_fence() {
    let outcome = run(4, |boot| {
        boot.fence(&mut || ()).unwrap();
        if boot.rank() == 2 {
            die();
        }
        let start = Instant::now();
        for _ in 0..2 {
            let error = boot.fence(&mut || ()).unwrap_err();
            assert!(matches!(error, BootError::PeerDied { rank: 2, .. }), "{error}");
            assert!(error.to_string().contains("killed by SIGKILL"), "{error}");
        }
        assert!(start.elapsed() < Duration::from_secs(5));
    });
    let zero = Exit::Code(0);
    assert_eq!(outcome.exits, [zero, zero, Exit::Signal(libc::SIGKILL), zero]);
    assert_eq!(outcome.first_failure(), Some((2, Exit::Signal(libc::SIGKILL))));
    assert_eq!(outcome.exit_code(), 128 + libc::SIGKILL);
    no_children_left();
}

/// The caller kills one rank of a running job.
fn control_from_outside() {
    let job = local::spawn(&Options::new(3), |boot| {
        if boot.rank() == 1 {
            std::thread::sleep(Duration::from_secs(60));
        }
        match boot.fence(&mut || ()) {
            Err(BootError::PeerDied { rank: 1, .. }) => 0,
            _ => 1,
        }
    })
    .unwrap();
    assert!(job.pid(0).is_some() && job.pid(3).is_none() && job.exit(3).is_none());
    assert_ne!(job.id(), 0);
    job.kill(1, libc::SIGKILL).unwrap();
    assert!(eventually(5, || job.exit(1).is_some()));
    assert_eq!(job.pid(1), None);
    assert!(matches!(job.kill(1, libc::SIGKILL), Err(BootError::PeerDied { rank: 1, .. })));
    assert!(matches!(job.kill(9, libc::SIGKILL), Err(BootError::Rank { rank: 9, .. })));
    let outcome = job.wait().unwrap();
    assert_eq!(outcome.exits, [Exit::Code(0), Exit::Signal(libc::SIGKILL), Exit::Code(0)]);
    no_children_left();
}

fn exits() {
    let outcome = local::run(&Options::new(3), |boot| match boot.rank() {
        0 => match boot.fence(&mut || ()) {
            Err(BootError::PeerDied { rank: 1 | 2, how }) if how.contains("exited with code") => 0,
            _ => 1,
        },
        1 => panic!("this panic is part of the test"),
        _ => 7,
    });
    let outcome = outcome.unwrap();
    assert_eq!(outcome.exits, [Exit::Code(0), Exit::Code(101), Exit::Code(7)]);
    assert_eq!(outcome.exit_code(), 101);
}

fn abort() {
    let outcome = run(4, |boot| {
        if boot.rank() == 3 {
            let (read, closed) = std::os::unix::net::UnixStream::pair().unwrap();
            drop(read);
            // SAFETY: takes integers. (What says why has nobody to say it to.)
            unsafe {
                libc::signal(libc::SIGPIPE, libc::SIG_IGN);
                libc::dup2(closed.as_raw_fd(), libc::STDERR_FILENO);
            }
            boot.abort(5, "this abort is part of the test");
        }
        std::thread::sleep(Duration::from_secs(60));
    });
    assert_eq!(outcome.aborted, Some((3, 5)));
    assert_eq!(outcome.exit_code(), 5);
    assert_eq!(outcome.exits[0], Exit::Signal(libc::SIGTERM));
    no_children_left();
}

fn two_aborts() {
    let outcome = run(2, |boot| {
        if boot.rank() == 0 {
            // (The other ignores SIGTERM by then.)
            boot.fence(&mut || ()).unwrap();
            boot.abort(3, "this abort is part of the test");
        }
        // SAFETY: takes integers.
        unsafe { libc::signal(libc::SIGTERM, libc::SIG_IGN) };
        boot.fence(&mut || ()).unwrap();
        std::thread::sleep(Duration::from_millis(500));
        boot.abort(0, "so is this one");
    });
    assert_eq!((outcome.aborted, outcome.exit_code()), (Some((0, 3)), 3));
    no_children_left();
}

/// Signals go to the ranks of both, and are the caller's own again once both have ended.
fn two_at_once() {
    static CAME: AtomicU32 = AtomicU32::new(0);
    extern "C" fn count(_: i32) {
        CAME.fetch_add(1, Ordering::Relaxed);
    }
    let handler = || {
        // SAFETY: sigaction structs are plain data; it is only asked for.
        unsafe {
            let mut now: libc::sigaction = std::mem::zeroed();
            libc::sigaction(libc::SIGTERM, std::ptr::null(), &mut now);
            now.sa_sigaction
        }
    };
    let sleeping = || {
        local::spawn(&Options::new(1), move |_| {
            std::thread::sleep(Duration::from_secs(60));
            0
        })
        .unwrap()
    };
    let jobs = [sleeping(), sleeping()];
    let own: extern "C" fn(i32) = count;
    // SAFETY: the handler is async-signal-safe.
    unsafe { libc::signal(libc::SIGTERM, own as libc::sighandler_t) };
    let before = handler();
    std::thread::scope(|scope| {
        let waiting = jobs.map(|job| scope.spawn(|| job.wait().unwrap()));
        while handler() == before {
            std::thread::yield_now();
        }
        // (The second may not wait yet.)
        while waiting.iter().any(|job| !job.is_finished()) {
            // SAFETY: takes integers.
            unsafe { libc::kill(libc::getpid(), libc::SIGTERM) };
            std::thread::sleep(Duration::from_millis(50));
        }
        for job in waiting {
            assert_eq!(job.join().unwrap().exits, [Exit::Signal(libc::SIGTERM)]);
        }
    });
    assert_eq!(handler(), before);
    assert_ne!(CAME.load(Ordering::Relaxed), 0);
    no_children_left();
}

/// A stopped peer is named as missing, and is not taken for dead.
fn timeout() {
    let job = local::spawn(&Options::new(3), |boot| {
        if boot.rank() == 1 {
            die_for_now();
        }
        match boot.fence(&mut || ()) {
            Err(BootError::TimedOut { missing, .. }) if missing == [1] => 0,
            _ => i32::from(boot.rank() != 1),
        }
    })
    .unwrap();
    assert!(eventually(20, || job.exit(0).is_some() && job.exit(2).is_some()));
    assert_eq!(job.exit(1), None);
    job.kill(1, libc::SIGCONT).unwrap();
    let outcome = job.wait().unwrap();
    assert_eq!(outcome.exits[0], Exit::Code(0));
    assert_eq!(outcome.exits[2], Exit::Code(0));
}

fn die_for_now() {
    // SAFETY: raise takes an integer; SIGCONT lets the process go on.
    unsafe { libc::raise(libc::SIGSTOP) };
}

/// Ranks that leave things behind and sleep; the test outside interrupts.
fn sleepers() {
    let outcome = run(3, |boot| {
        let pid = std::process::id();
        let owner = format!("{}{pid}-left", segment_prefix(boot.job()));
        std::fs::write(format!("/dev/shm/{owner}"), b"x").unwrap();
        std::fs::write(format!("/dev/shm/{pid}:0:0"), b"x").unwrap();
        boot.fence(&mut || ()).unwrap();
        println!("\nsleeper {pid} {:x}", boot.job());
        std::thread::sleep(Duration::from_secs(60));
    });
    assert!(!outcome.success());
}

fn pinned() {
    let outcome = local::run(&Options::new(3).pin(true), |_| {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let cpus = status.lines().find_map(|l| l.strip_prefix("Cpus_allowed_list:")).unwrap();
        i32::from(cpus.trim().parse::<u32>().is_err())
    });
    assert!(outcome.unwrap().success());
}

/// A job that is dropped ends.
fn dropped() {
    let job = local::spawn(&Options::new(2), |_| {
        std::thread::sleep(Duration::from_secs(60));
        0
    })
    .unwrap();
    let pids = [job.pid(0).unwrap(), job.pid(1).unwrap(), job.supervisor()];
    assert!(pids.iter().all(|&pid| alive(pid)));
    drop(job);
    assert!(!pids.iter().any(|&pid| alive(pid)));
    no_children_left();
}

fn space() {
    let options = Options::new(2).space(4096);
    let outcome = local::run(&options, |boot| {
        boot.put("fits", &[1; 4000]).unwrap();
        let error = boot.put("does not", &[1; 4000]).unwrap_err();
        assert!(error.to_string().contains("Options::space"), "{error}");
        boot.fence(&mut || ()).unwrap();
        assert_eq!(boot.get(1 - boot.rank(), "fits").unwrap(), [1; 4000]);
        0
    });
    assert!(outcome.unwrap().success());
}

/// Even without a supervisor ranks end and leftovers go.
fn supervisor_is_killed() {
    let job = local::spawn(&Options::new(3), |boot| {
        let left = format!("/dev/shm/{}left", segment_prefix(boot.job()));
        std::fs::write(left, b"x").unwrap();
        let mine = format!("/dev/shm/{}:0:0", std::process::id());
        std::fs::write(mine, b"x").unwrap();
        boot.put("done", b"").unwrap();
        std::thread::sleep(Duration::from_secs(60));
        0
    })
    .unwrap();
    let pids: Vec<u32> = (0..3).map(|rank| job.pid(rank).unwrap()).collect();
    let prefix = segment_prefix(job.id());
    let ours = |name: &str| {
        name.starts_with(&prefix) || pids.iter().any(|pid| name.starts_with(&format!("{pid}:")))
    };
    assert!(eventually(10, || segments(ours).len() == 4));
    // SAFETY: kill takes two integers; the supervisor is our child.
    unsafe { libc::kill(job.supervisor() as libc::pid_t, libc::SIGKILL) };
    let outcome = job.wait().unwrap();
    assert_eq!(outcome.exits, [Exit::Signal(libc::SIGKILL); 3]);
    assert!(!pids.iter().any(|&pid| alive(pid)));
    assert!(segments(ours).is_empty());
    no_children_left();
}

/// When the system forks no more, nothing of the job is left half-made.
fn no_processes() {
    // A limit on processes binds ordinary users only.
    // SAFETY: setuid and setrlimit take integers and a live struct; this
    // process has one thread and does nothing else afterwards.
    unsafe {
        libc::setuid(54321);
        let limit = libc::rlimit { rlim_cur: 4, rlim_max: 4 };
        libc::setrlimit(libc::RLIMIT_NPROC, &limit);
    }
    // Known beforehand, and only when there are too many: a supervisor and this one count too.
    for (ranks, beforehand) in [(64, true), (3, false)] {
        let error = local::run(&Options::new(ranks), |_| 0).unwrap_err();
        assert!(error.to_string().contains("ulimit -u"), "{error}");
        assert_eq!(matches!(error, BootError::Options(_)), beforehand, "{error}");
        no_children_left();
    }
}

parts! {
    values_are_visible_after_the_fence "exchange"
    ranks_are_dealt_to_nodes "nodes"
    a_fence_names_the_dead "death in a fence"
    a_caller_can_kill_a_rank "control from outside"
    exits_are_reported "exits"
    abort_ends_the_job "abort"
    who_aborts_first_gives_the_code "two aborts"
    two_jobs_are_waited_for_at_once "two at once"
    ranks_are_pinned "pinned"
    a_dropped_job_ends "dropped"
    key_space_is_limited "space"
    a_killed_supervisor_is_survived "supervisor"
}

#[test]
fn a_stopped_rank_is_missing_not_dead() {
    let mut command = play("timeout");
    command.env("RANKWAY_TIMEOUT", "1");
    must_succeed(command);
}

/// Whatever ends the caller, ranks and segments go with it.
#[test]
fn nothing_is_left_when_the_caller_is_killed() {
    for signal in [libc::SIGKILL, libc::SIGINT, libc::SIGTERM] {
        let mut caller = play("sleepers");
        interruptible(&mut caller);
        let mut caller = caller.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(caller.stdout.take().unwrap()).lines();
        let words = lines.map_while(Result::ok).filter_map(|line| {
            let words: Vec<String> = line.split(' ').map(str::to_string).collect();
            (words.len() == 3 && words[0] == "sleeper").then_some(words)
        });
        let ranks: Vec<Vec<String>> = words.take(3).collect();
        assert_eq!(ranks.len(), 3);
        let pids: Vec<u32> = ranks.iter().map(|words| words[1].parse().unwrap()).collect();
        let job = u64::from_str_radix(&ranks[0][2], 16).unwrap();
        let ours = |name: &str| {
            name.starts_with(&segment_prefix(job))
                || pids.iter().any(|pid| name.starts_with(&format!("{pid}:")))
        };
        assert_eq!(segments(ours).len(), 6);
        // SAFETY: kill takes two integers; the caller is our child.
        unsafe { libc::kill(caller.id() as libc::pid_t, signal) };
        let status = caller.wait().unwrap();
        if signal == libc::SIGKILL {
            assert!(eventually(5, || !pids.iter().any(|&pid| alive(pid))), "ranks live on");
            assert!(eventually(5, || segments(ours).is_empty()), "segments are left");
        } else {
            // The caller cleans up first and dies of its signal then.
            use std::os::unix::process::ExitStatusExt;
            assert_eq!(status.signal(), Some(signal));
            assert!(!pids.iter().any(|&pid| alive(pid)), "ranks live on");
            assert!(segments(ours).is_empty(), "segments are left");
        }
    }
}

#[test]
fn a_fork_that_fails_is_undone() {
    // SAFETY: geteuid cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        println!("skipped: only root can become the user without other processes");
        return;
    }
    must_succeed(play("no processes"));
}
