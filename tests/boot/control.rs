//! The set-up channel between forked ranks: collectives over subsets, and
//! what the others hear when one dies.
#![cfg(all(unix, feature = "device"))]
#![allow(clippy::unwrap_used)]

#[path = "../harness/parts.rs"]
mod parts;

use parts::*;
use rankway::boot::local::{self, Exit, Options};
use rankway::boot::{Boot, BootError, ContactInfo, Control, Group, Liveness, Watch, World};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

plays!(part);

fn part(name: &str) {
    match name {
        "collectives" => {
            for ranks in [1, 2, 3, 8] {
                all_succeed(ranks, |boot| collectives(&boot, 5));
            }
        }
        "many ranks" => all_succeed(64, |boot| collectives(&boot, 1)),
        "far apart" => all_succeed(5, |boot| collectives(&(Arc::new(Far(boot)) as _), 3)),
        "two groups" => all_succeed(6, two_groups),
        "large" => all_succeed(3, large),
        "strangers" => all_succeed(3, strangers),
        "strangers far away" => all_succeed(3, |boot| strangers(Arc::new(Far(boot)))),
        "disorder" => all_succeed(2, disorder),
        "idle" => all_succeed(2, idle_gives_up),
        "wrong groups" => all_succeed(2, wrong_groups),
        "left" => all_succeed(4, one_leaves),
        "liveness" => liveness(),
        "death in allgather" => death(8, |boot| boot, Deed::Allgather),
        "death in barrier" => death(5, |boot| boot, Deed::Barrier),
        "death in a vote" => death(6, |boot| boot, Deed::Vote),
        "death in broadcast" => death(7, |boot| boot, Deed::Broadcast),
        "death far away" => death(6, |boot| Arc::new(Far(boot)), Deed::Allgather),
        "death in the middle" => death_in_the_middle(),
        "exit without goodbye" => exit_without_goodbye(),
        "stopped" => stopped(),
        "timeout" => timeout(),
        "patience" => patience(),
        "descriptors" => all_succeed(2, no_descriptors),
        "speed" => speed(),
        other => panic!("no part {other}"),
    }
}

/// The groups every rank tries, in the same order: those it is not in it skips.
fn groups(size: u32) -> Vec<Vec<u32>> {
    vec![
        (0..size).collect(),
        (0..size).rev().collect(),
        (0..size).step_by(2).collect(),
        (1..size).step_by(2).rev().collect(),
        (0..size.div_ceil(2)).collect(),
        vec![size - 1],
    ]
}

fn collectives(boot: &Arc<dyn Boot>, rounds: u32) {
    let control = open(boot);
    let size = boot.size();
    for round in 0..rounds {
        for (number, ranks) in groups(size).into_iter().enumerate() {
            let Some(group) = List::new(ranks.clone(), boot.rank()) else { continue };
            let tag = number as u64;
            let mine = sample(boot.rank(), round);
            let all = control.allgather(&group, tag, &mine, &mut ok).unwrap();
            let expected: Vec<Vec<u8>> = ranks.iter().map(|&r| sample(r, round)).collect();
            assert_eq!(all, expected);
            // Every root in small groups, some in large ones.
            for root in (0..group.len()).step_by(1 + ranks.len() / 9) {
                let value = sample(root, round + 100);
                let given = (root == group.me()).then_some(&value[..]);
                let got = control.broadcast(&group, tag, root, given, &mut ok).unwrap();
                assert_eq!(got, value);
            }
            // All agree, or one of them does not, each in turn.
            for no in (0..group.len()).step_by(1 + ranks.len() / 5).map(Some).chain([None]) {
                let mine = no != Some(group.me());
                assert_eq!(control.unanimous(&group, tag, mine, &mut ok).unwrap(), no.is_none());
            }
            control.barrier(&group, tag, &mut ok).unwrap();
        }
    }
    let bound = 2 * groups(size).len() * (1 + size.ilog2() as usize) * 2;
    assert!(control.connections() <= bound.min(2 * size as usize), "{}", control.connections());
    control.barrier(&World::of(&**boot), 99, &mut ok).unwrap();
}

/// Two overlapping groups at once, from two threads, under two tags.
fn two_groups(boot: Arc<dyn Boot>) {
    let control = open(&boot);
    let world = World::of(&*boot);
    let parity: Vec<u32> = (boot.rank() % 2..boot.size()).step_by(2).collect();
    let half = List::new(parity.clone(), boot.rank()).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..50 {
                let mine = sample(boot.rank(), round);
                let all = control.allgather(&half, 7, &mine, &mut ok).unwrap();
                assert!(all.iter().zip(&parity).all(|(got, &rank)| *got == sample(rank, round)));
            }
        });
        for round in 0..50 {
            let mine = sample(boot.rank(), round + 1000);
            let all = control.allgather(&world, 8, &mine, &mut ok).unwrap();
            assert!(all.iter().zip(0..).all(|(got, rank)| *got == sample(rank, round + 1000)));
        }
    });
}

/// More than sockets buffer, so that both sides must read while they write.
fn large(boot: Arc<dyn Boot>) {
    let control = open(&boot);
    let mine = vec![boot.rank() as u8; 8 << 20];
    let all = control.allgather(&World::of(&*boot), 1, &mine, &mut ok).unwrap();
    for (rank, bytes) in all.iter().enumerate() {
        assert!(bytes.len() == 8 << 20 && bytes.iter().all(|&byte| byte == rank as u8));
    }
}

/// Callers without the secret are cut off, and disturb nobody: over
/// the network, and at the Unix socket of this machine.
fn strangers(boot: Arc<dyn Boot>) {
    let control = open(&boot);
    let world = World::of(&*boot);
    let victim = control.contact_info((boot.rank() + 1) % 3).unwrap();
    let silent = dial(&victim);
    let mut callers = Vec::new();
    for greeting in [
        b"GET / HTTP/1.1\r\nHost: rankway\r\nUser-Agent: a browser\r\n\r\n".to_vec(),
        vec![0xff; 100_000],
        // All is right but the secret.
        [
            &b"rankway\x03"[..],
            &boot.job().to_le_bytes(),
            &boot.rank().to_le_bytes(),
            &((boot.rank() + 1) % 3).to_le_bytes(),
            &[0; 16],
            &[0; 64],
        ]
        .concat(),
    ] {
        let mut stream = dial(&victim);
        // The peer may close while this is still being written.
        let _ = stream.write_all(&greeting);
        callers.push(stream);
    }
    for round in 0..20 {
        let all = control.allgather(&world, 1, &sample(boot.rank(), round), &mut ok).unwrap();
        assert!(all.iter().zip(0..).all(|(got, rank)| *got == sample(rank, round)));
    }
    for mut stream in callers {
        let mut bytes = Vec::new();
        // Closed or reset, without a byte of an answer.
        let _ = stream.read_to_end(&mut bytes);
        assert_eq!(bytes, b"");
    }
    drop(silent);
    control.barrier(&world, 2, &mut ok).unwrap();
}

/// Calls the process of `contact_info` as anybody could.
fn dial(contact_info: &ContactInfo) -> TcpStream {
    let stream = match contact_info.addresses.first() {
        Some(&ip) => TcpStream::connect((ip, contact_info.port)).unwrap(),
        None => {
            let name =
                contact_info.local.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
            let address = SocketAddr::from_abstract_name(format!("rankway-{name}")).unwrap();
            OwnedFd::from(UnixStream::connect_addr(&address).unwrap()).into()
        }
    };
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream
}

/// Different collectives under one tag are noticed, not mixed up.
fn disorder(boot: Arc<dyn Boot>) {
    let control = open(&boot);
    let world = World::of(&*boot);
    let error = match boot.rank() {
        0 => control.barrier(&world, 1, &mut ok).unwrap_err(),
        _ => control.allgather(&world, 1, b"x", &mut ok).unwrap_err(),
    };
    assert!(matches!(error, BootError::Protocol { .. }), "{error}");
    assert_eq!(error.peer(), Some(1 - boot.rank()));
    boot.fence(&mut || ()).unwrap();
}

/// An idle function that gives up ends the wait here and on the others.
fn idle_gives_up(boot: Arc<dyn Boot>) {
    let control = open(&boot);
    let world = World::of(&*boot);
    let mut calls = 0;
    let mut idle = || {
        calls += 1;
        if boot.rank() == 0 && calls == 100 { Err("the network is gone".into()) } else { Ok(false) }
    };
    if boot.rank() == 0 {
        let error = control.broadcast(&world, 1, 1, None, &mut idle).unwrap_err();
        assert!(matches!(&error, BootError::Idle(why) if why == "the network is gone"), "{error}");
        assert_eq!(calls, 100);
    }
    boot.fence(&mut || ()).unwrap();
    let error = match boot.rank() {
        0 => control.barrier(&world, 2, &mut || Err("still gone".into())).unwrap_err(),
        _ => control
            .allgather(&List::new([1, 0], 1).unwrap(), 3, b"", &mut || Err("gone too".into()))
            .unwrap_err(),
    };
    assert!(matches!(error, BootError::Idle(_)), "{error}");
    boot.fence(&mut || ()).unwrap();
}

fn wrong_groups(boot: Arc<dyn Boot>) {
    let control = open(&boot);
    assert!(matches!(Control::open(boot.clone()), Err(BootError::Twice { .. })));
    let rank = boot.rank();
    let refused = |group: List| control.barrier(&group, 1, &mut ok).unwrap_err();
    assert!(matches!(refused(List { ranks: vec![0, 1], me: 2 }), BootError::Rank { .. }));
    assert!(matches!(refused(List { ranks: vec![], me: 0 }), BootError::Rank { .. }));
    assert!(matches!(refused(List { ranks: vec![1 - rank], me: 0 }), BootError::Options(_)));
    assert!(matches!(refused(List { ranks: vec![0, 1, 2], me: rank }), BootError::Options(_)));
    let stranger = List { ranks: vec![rank, 77], me: 0 };
    assert!(matches!(refused(stranger), BootError::Rank { rank: 77, size: 2 }));
    let world = World::of(&*boot);
    let error = control.broadcast(&world, 2, 2, None, &mut ok).unwrap_err();
    assert!(matches!(error, BootError::Rank { rank: 2, size: 2 }));
    boot.fence(&mut || ()).unwrap();
}

/// Closing the channel in good order is told from dying.
fn one_leaves(boot: Arc<dyn Boot>) {
    let control = open(&boot);
    let world = World::of(&*boot);
    control.barrier(&world, 1, &mut ok).unwrap();
    if boot.rank() == 3 {
        drop(control);
        boot.fence(&mut || ()).unwrap();
        return;
    }
    let error = control.barrier(&world, 2, &mut ok).unwrap_err();
    assert!(matches!(error, BootError::PeerDied { rank: 3, .. }), "{error}");
    boot.fence(&mut || ()).unwrap();
}

fn liveness() {
    let outcome = run(3, |boot| {
        let control = open(&boot);
        let liveness = Liveness::new();
        assert_eq!(liveness.dead(), None);
        if boot.rank() == 1 {
            die();
        }
        let survivors = List::new([0, 2], boot.rank()).unwrap();
        assert_ne!(control.watch(&liveness, 1).unwrap(), Watch::Unwatchable);
        assert_eq!(control.watch(&liveness, 2 - boot.rank()).unwrap(), Watch::Watched);
        assert!(eventually(5, || liveness.dead() == Some(1)));
        liveness.forget(1);
        assert_eq!(liveness.dead(), None);
        control.barrier(&survivors, 1, &mut ok).unwrap();
    });
    assert_eq!(outcome.exits, [Exit::Code(0), Exit::Signal(9), Exit::Code(0)]);
}

#[derive(Clone, Copy, PartialEq)]
enum Deed {
    Allgather,
    Barrier,
    Broadcast,
    Vote,
}

/// One rank is killed after it has taken part in a round, while the others
/// are in the next; all of them name it, soon.
fn death(ranks: u32, wrap: impl Fn(Arc<dyn Boot>) -> Arc<dyn Boot>, deed: Deed) {
    // The root's death: nobody can have the value then.
    let victim = if deed == Deed::Broadcast { 0 } else { ranks / 2 };
    let outcome = run(ranks, |boot| {
        let boot = wrap(boot);
        let control = open(&boot);
        let world = World::of(&*boot);
        let act = || match deed {
            Deed::Allgather => {
                control.allgather(&world, 1, &sample(boot.rank(), 1), &mut ok).map(drop)
            }
            Deed::Barrier => control.barrier(&world, 1, &mut ok),
            Deed::Vote => control.unanimous(&world, 1, true, &mut ok).map(drop),
            Deed::Broadcast => {
                let value = (boot.rank() == 0).then_some(&b"value"[..]);
                control.broadcast(&world, 1, 0, value, &mut ok).map(drop)
            }
        };
        act().unwrap();
        // Who is late in the round may hear of the death there.
        boot.fence(&mut || ()).unwrap();
        if boot.rank() == victim {
            std::thread::sleep(Duration::from_millis(50));
            die();
        }
        let start = Instant::now();
        let error = act().unwrap_err();
        let took = start.elapsed();
        eprintln!("rank {} after {took:?}: {error}", boot.rank());
        assert!(took < Duration::from_secs(5));
        assert!(matches!(error, BootError::PeerDied { rank, .. } if rank == victim), "{error}");
    });
    for (rank, exit) in (0..).zip(&outcome.exits) {
        let expected = if rank == victim { Exit::Signal(9) } else { Exit::Code(0) };
        assert_eq!(*exit, expected, "rank {rank}");
    }
}

/// Killed at any moment of a stream of large messages, by the caller.
fn death_in_the_middle() {
    let job = local::spawn(&Options::new(4), |boot| {
        let control = open(&boot);
        let world = World::of(&*boot);
        let mine = vec![boot.rank() as u8; 1 << 20];
        loop {
            match control.allgather(&world, 1, &mine, &mut ok) {
                Ok(all) => assert!(all.iter().zip(0..).all(|(v, r)| *v == vec![r; 1 << 20])),
                Err(BootError::PeerDied { rank: 3, .. }) => return 0,
                Err(error) => panic!("{error}"),
            }
        }
    })
    .unwrap();
    std::thread::sleep(Duration::from_millis(200));
    let start = Instant::now();
    job.kill(3, libc::SIGKILL).unwrap();
    let outcome = job.wait().unwrap();
    assert!(start.elapsed() < Duration::from_secs(5));
    let zero = Exit::Code(0);
    assert_eq!(outcome.exits, [zero, zero, zero, Exit::Signal(libc::SIGKILL)]);
}

/// A process that simply exits is missed as much as one that is killed.
fn exit_without_goodbye() {
    let outcome = local::run(&Options::new(4), |boot| {
        let control = open(&boot);
        if boot.rank() == 0 {
            std::mem::forget(control);
            return 3;
        }
        let error = control.barrier(&World::of(&*boot), 1, &mut ok).unwrap_err();
        assert!(matches!(error, BootError::PeerDied { rank: 0, .. }), "{error}");
        0
    });
    let zero = Exit::Code(0);
    assert_eq!(outcome.unwrap().exits, [Exit::Code(3), zero, zero, zero]);
}

/// A stopped rank is waited for.
fn stopped() {
    let job = local::spawn(&Options::new(4), |boot| {
        let control = open(&boot);
        let world = World::of(&*boot);
        if boot.rank() == 2 {
            // SAFETY: raise takes an integer; the caller sends SIGCONT.
            unsafe { libc::raise(libc::SIGSTOP) };
        }
        control.barrier(&world, 1, &mut ok).unwrap();
        0
    })
    .unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    assert!((0..4).all(|rank| job.exit(rank).is_none()));
    job.kill(2, libc::SIGCONT).unwrap();
    assert!(job.wait().unwrap().success());
}

/// The wait for a live but silent peer ends some day, and says for whom it was.
fn timeout() {
    all_succeed(2, |boot| {
        let control = open(&boot);
        if boot.rank() == 0 {
            let error = control.barrier(&World::of(&*boot), 1, &mut ok).unwrap_err();
            let named = matches!(&error, BootError::TimedOut { missing, .. } if *missing == [1]);
            assert!(named, "{error}");
            assert!(error.to_string().contains("RANKWAY_TIMEOUT"));
            std::fs::write(format!("/dev/shm/{}timeout", stem(&boot)), b"").unwrap();
        } else {
            let mark = format!("/dev/shm/{}timeout", stem(&boot));
            assert!(eventually(30, || std::path::Path::new(&mark).exists()));
        }
    });
}

/// Who is patient waits on.
fn patience() {
    all_succeed(2, |boot| {
        let control = open(&boot);
        control.set_patient();
        if boot.rank() == 1 {
            std::thread::sleep(Duration::from_millis(2500));
        }
        control.barrier(&World::of(&*boot), 1, &mut ok).unwrap();
    });
}

fn stem(boot: &Arc<dyn Boot>) -> String {
    rankway::boot::segment_prefix(boot.job())
}

fn no_descriptors(boot: Arc<dyn Boot>) {
    let control = open(&boot);
    let mut hoard = Vec::new();
    while let Ok(file) = std::fs::File::open("/dev/null") {
        hoard.push(file);
    }
    if boot.rank() == 0 {
        let error = control.barrier(&World::of(&*boot), 1, &mut ok).unwrap_err();
        assert!(error.to_string().contains("ulimit -n"), "{error}");
    }
    hoard.clear();
    boot.fence(&mut || ()).unwrap();
}

/// Figures for reports; asserts nothing about them.
fn speed() {
    for ranks in [2, 8] {
        all_succeed(ranks, |boot| {
            const ROUNDS: u32 = 2000;
            let control = open(&boot);
            let world = World::of(&*boot);
            let time = |what: &str, f: &mut dyn FnMut()| {
                (0..100).for_each(|_| f());
                let start = Instant::now();
                (0..ROUNDS).for_each(|_| f());
                if boot.rank() == 0 {
                    let each = start.elapsed() / ROUNDS;
                    println!("{ranks} ranks, {what}: {each:?}");
                }
            };
            time("fence", &mut || boot.fence(&mut || ()).unwrap());
            time("barrier", &mut || control.barrier(&world, 1, &mut ok).unwrap());
            time("allgather 64 B", &mut || {
                control.allgather(&world, 1, &[7; 64], &mut ok).unwrap();
            });
            time("allgather 1 KiB", &mut || {
                control.allgather(&world, 1, &[7; 1024], &mut ok).unwrap();
            });
            time("broadcast 64 B", &mut || {
                let value = (boot.rank() == 0).then_some(&[7u8; 64][..]);
                control.broadcast(&world, 1, 0, value, &mut ok).unwrap();
            });
            control.barrier(&world, 2, &mut ok).unwrap();
        });
    }
}

parts! {
    collectives_over_subsets "collectives"
    collectives_of_64_ranks "many ranks"
    overlapping_groups_at_once "two groups"
    large_values "large"
    strangers_are_refused "strangers"
    disorder_is_noticed "disorder"
    idle_may_give_up "idle"
    wrong_groups_are_refused "wrong groups"
    leaving_is_told "left"
    liveness_of_forked_peers "liveness"
    death_in_an_allgather "death in allgather"
    death_in_a_barrier "death in barrier"
    death_in_a_broadcast "death in broadcast"
    death_in_a_vote "death in a vote"
    death_in_the_middle_of_a_stream "death in the middle"
    exit_is_missed "exit without goodbye"
    a_stopped_rank_is_waited_for "stopped"
}

#[test]
fn silence_ends_with_a_name() {
    for name in ["timeout", "patience"] {
        let mut command = play(name);
        command.env("RANKWAY_TIMEOUT", "1");
        must_succeed(command);
    }
}

#[test]
fn over_the_network_addresses() {
    if !has_network() {
        println!("skipped: this machine has no network interface but the loopback");
        return;
    }
    must_succeed(play("far apart"));
    must_succeed(play("strangers far away"));
    must_succeed(play("death far away"));
}

#[test]
fn too_few_descriptors_are_an_error() {
    use std::os::unix::process::CommandExt;
    let mut command = play("descriptors");
    // SAFETY: setrlimit is async-signal-safe and touches only the child.
    unsafe {
        command.pre_exec(|| {
            let limit = libc::rlimit { rlim_cur: 64, rlim_max: 64 };
            libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
            Ok(())
        })
    };
    must_succeed(command);
}

#[test]
#[ignore = "prints figures; run with --ignored --nocapture"]
fn figures() {
    print!("{}", must_succeed(play("speed")));
}

#[test]
fn business_cards_hold_what_peers_need() {
    let boot: Arc<dyn Boot> = Arc::new(rankway::boot::alone::Alone::new().unwrap());
    let control = Control::open(boot.clone()).unwrap();
    let contact_info: ContactInfo = control.contact_info(0).unwrap();
    assert_eq!(contact_info.process.pid, std::process::id());
    control.barrier(&World::of(&*boot), 1, &mut ok).unwrap();
    let all = control.allgather(&World::of(&*boot), 1, b"me", &mut ok).unwrap();
    assert_eq!(all, [b"me"]);
    assert_eq!(control.broadcast(&World::of(&*boot), 1, 0, Some(b"x"), &mut ok).unwrap(), b"x");
}
