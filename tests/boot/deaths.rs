//! Who waits hears of every death: one rank is killed, another waits for a
//! third that lives and is elsewhere, and must name the dead one soon.
#![cfg(all(unix, feature = "device"))]
#![allow(clippy::unwrap_used)]

#[path = "../harness/parts.rs"]
mod parts;

use parts::*;
use rankway::boot::local::{self, Exit};
use rankway::boot::{Boot, BootError, Control, Liveness, World, segment_prefix};
use rankway::device::open_null;
use rankway::rma::{Communicator, Window};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

plays!(part);

fn part(name: &str) {
    match name {
        "seen and left" => seen_and_left(),
        "some" => some(|boot| boot, &[3, 4, 5, 8]),
        "some far away" => some(|boot| Arc::new(Far(boot)), &[3, 5, 8]),
        "whole" => {
            for ranks in [3, 4, 5, 8] {
                for deed in Deed::ALL {
                    for victim in 0..ranks {
                        for waiter in (0..ranks).filter(|&rank| rank != victim) {
                            abandoned(ranks, deed, victim, waiter, |boot| boot);
                        }
                    }
                }
            }
        }
        "of windows" => {
            for (at, deed) in (0..).zip(["allocate", "free", "fence", "split", "dup"]) {
                calls_of_windows(deed, 3 + at % 3, at % 3);
            }
        }
        "remembered" => remembered(),
        "left well" => left_well(),
        "gave up" => gave_up(),
        other => panic!("no part {other}"),
    }
}

/// A file by which ranks of a job tell each other without the channel. It
/// has the job's prefix, so the supervisor sweeps it.
fn mark(boot: &Arc<dyn Boot>, name: &str) -> PathBuf {
    PathBuf::from(format!("/dev/shm/{}{name}", segment_prefix(boot.job())))
}

fn set(mark: &Path) {
    std::fs::write(mark, b"").unwrap();
}

fn await_mark(mark: &Path) {
    assert!(eventually(60, || mark.exists()), "{}", mark.display());
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Deed {
    Barrier,
    Allgather,
    Broadcast,
}

impl Deed {
    const ALL: [Deed; 3] = [Deed::Barrier, Deed::Allgather, Deed::Broadcast];

    /// Under `tag`; a broadcast comes from `root`.
    fn run(
        self,
        control: &Control,
        tag: u64,
        root: u32,
        idle: &mut dyn FnMut() -> Result<bool, String>,
    ) -> Result<(), BootError> {
        let world = World::of(&**control.boot());
        let rank = control.boot().rank();
        match self {
            Deed::Barrier => control.barrier(&world, tag, idle),
            Deed::Allgather => control.allgather(&world, tag, &sample(rank, 1), idle).map(drop),
            Deed::Broadcast => {
                let value = (rank == root).then_some(&b"value"[..]);
                control.broadcast(&world, tag, root, value, idle).map(drop)
            }
        }
    }
}

fn must_name(error: &BootError, victim: u32, start: Instant) {
    let took = start.elapsed();
    eprintln!("after {took:?}: {error}");
    assert!(matches!(error, BootError::PeerDied { rank, .. } if *rank == victim), "{error}");
    assert!(took < Duration::from_secs(5), "{took:?}: {error}");
}

fn expect(outcome: &local::Outcome, victim: u32) {
    for (rank, exit) in (0..).zip(&outcome.exits) {
        let expected = if rank == victim { Exit::Signal(9) } else { Exit::Code(0) };
        assert_eq!(*exit, expected, "rank {rank}");
    }
}

/// Rank 1 is killed within a barrier, rank 2 sees it and never comes, rank 0
/// is in the barrier.
fn seen_and_left() {
    let outcome = run(3, |boot| {
        let control = open(&boot);
        let done = mark(&boot, "done");
        Deed::Barrier.run(&control, 1, 0, &mut ok).unwrap();
        boot.fence(&mut || ()).unwrap();
        let start = Instant::now();
        match boot.rank() {
            0 => {
                let error = Deed::Barrier.run(&control, 2, 0, &mut ok).unwrap_err();
                must_name(&error, 1, start);
                set(&done);
            }
            1 => {
                let mut turns = 0;
                let mut idle = || {
                    turns += 1;
                    if turns == 100 { die() } else { Ok(false) }
                };
                let _ = Deed::Barrier.run(&control, 2, 0, &mut idle);
            }
            _ => {
                let liveness = Liveness::new();
                let _ = control.watch(&liveness, 1).unwrap();
                assert!(eventually(5, || liveness.dead() == Some(1)));
                await_mark(&done);
            }
        }
    });
    expect(&outcome, 1);
}

/// Each victim once, with operations and waiters taking turns.
fn some(wrap: impl Fn(Arc<dyn Boot>) -> Arc<dyn Boot> + Copy, sizes: &[u32]) {
    for &ranks in sizes {
        for victim in 0..ranks {
            let deed = Deed::ALL[((ranks + victim) % 3) as usize];
            let waiter = (victim + 1 + victim % (ranks - 1)) % ranks;
            abandoned(ranks, deed, victim, waiter, wrap);
        }
    }
}

/// All have met once; then `victim` is killed, `waiter` is in a collective,
/// and the others never come.
fn abandoned(
    ranks: u32,
    deed: Deed,
    victim: u32,
    waiter: u32,
    wrap: impl Fn(Arc<dyn Boot>) -> Arc<dyn Boot>,
) {
    eprintln!("{deed:?} of {ranks}: rank {victim} dies, rank {waiter} waits");
    let outcome = run(ranks, |boot| {
        let boot = wrap(boot);
        let control = open(&boot);
        let done = mark(&boot, "done");
        let root = (waiter + 1) % ranks;
        Deed::Barrier.run(&control, 1, 0, &mut ok).unwrap();
        boot.fence(&mut || ()).unwrap();
        if boot.rank() == victim {
            die();
        } else if boot.rank() == waiter {
            let start = Instant::now();
            let error = deed.run(&control, 2, root, &mut ok).unwrap_err();
            must_name(&error, victim, start);
            set(&done);
        } else {
            await_mark(&done);
        }
    });
    expect(&outcome, victim);
}

/// The same in what windows and communicators are made of.
fn calls_of_windows(deed: &str, ranks: u32, victim: u32) {
    eprintln!("{deed} of {ranks}: rank {victim} dies");
    let outcome = run(ranks, |boot| {
        let context = open_null(boot.clone()).unwrap();
        let world = Communicator::world(&context);
        let mut window = Window::allocate(&world, 64, 1).unwrap();
        window.fence().unwrap();
        boot.fence(&mut || ()).unwrap();
        let done = mark(&boot, "done");
        if boot.rank() == victim {
            die();
        } else if boot.rank() == (victim + 1) % ranks {
            let start = Instant::now();
            let result = match deed {
                "allocate" => Window::allocate(&world, 64, 1).map(drop),
                "free" => window.free(),
                "fence" => window.fence(),
                "split" => world.split(Some(1), 0).map(drop),
                _ => world.dup().barrier(),
            };
            let error = result.unwrap_err();
            let took = start.elapsed();
            eprintln!("after {took:?}: {error}");
            assert_eq!(error.peer(), Some(victim), "{error}");
            assert!(took < Duration::from_secs(5), "{took:?}: {error}");
            set(&done);
        } else {
            await_mark(&done);
        }
        // Not freed: the others are elsewhere.
        std::mem::forget(window);
    });
    expect(&outcome, victim);
}

/// Collectives called after a death over a group that had the dead one answer
/// with its name, at once; a group without it works.
fn remembered() {
    let outcome = run(5, |boot| {
        let control = open(&boot);
        Deed::Barrier.run(&control, 1, 0, &mut ok).unwrap();
        boot.fence(&mut || ()).unwrap();
        if boot.rank() == 3 {
            die();
        }
        for (tag, deed) in (2..).zip([Deed::Barrier, Deed::Allgather, Deed::Barrier]) {
            let start = Instant::now();
            must_name(&deed.run(&control, tag, 0, &mut ok).unwrap_err(), 3, start);
        }
        let living = List::new([4, 2, 1, 0], boot.rank()).unwrap();
        for round in 0..3 {
            let all = control.allgather(&living, 50, &sample(boot.rank(), round), &mut ok).unwrap();
            assert!(all.iter().zip([4, 2, 1, 0]).all(|(got, rank)| *got == sample(rank, round)));
        }
        control.barrier(&living, 51, &mut ok).unwrap();
    });
    expect(&outcome, 3);
}

/// The root of a broadcast returns early and may leave in good order; those
/// who wait for others on the way are not told of a death.
fn left_well() {
    all_succeed(8, |boot| {
        let control = open(&boot);
        let world = World::of(&*boot);
        Deed::Barrier.run(&control, 1, 0, &mut ok).unwrap();
        // Rank 7 gets the value by way of ranks 4 and 6.
        if boot.rank() == 4 {
            std::thread::sleep(Duration::from_secs(3));
        }
        let value = (boot.rank() == 0).then_some(&b"value"[..]);
        assert_eq!(control.broadcast(&world, 2, 0, value, &mut ok).unwrap(), b"value");
        drop(control);
    });
}

/// A rank that gives up one collective of a group is not waited for in the
/// next of the same group, whatever its tag.
fn gave_up() {
    all_succeed(3, |boot| {
        let control = open(&boot);
        let done = mark(&boot, "done");
        let group = Named { list: List::new(0..3, boot.rank()).unwrap(), name: 77 };
        control.barrier(&group, 1, &mut ok).unwrap();
        boot.fence(&mut || ()).unwrap();
        let start = Instant::now();
        if boot.rank() == 2 {
            let error = control.barrier(&group, 2, &mut || Err("no network".into())).unwrap_err();
            assert!(matches!(error, BootError::Idle(_)), "{error}");
            await_mark(&done);
        } else if boot.rank() == 0 {
            let error = control.barrier(&group, 3, &mut ok).unwrap_err();
            assert!(matches!(error, BootError::GaveUp { rank: 2, .. }), "{error}");
            assert!(error.to_string().contains("no network"), "{error}");
            assert!(start.elapsed() < Duration::from_secs(5));
            set(&done);
        } else {
            await_mark(&done);
        }
        boot.fence(&mut || ()).unwrap();
    });
}

parts! {
    a_death_another_saw "seen and left"
    deaths_while_all_others_are_elsewhere "some"
    deaths_in_calls_of_windows "of windows"
    later_collectives_name_the_dead "remembered"
    leaving_well_is_no_death "left well"
    who_gave_up_is_not_waited_for "gave up"
}

#[test]
fn deaths_over_the_network() {
    if !has_network() {
        println!("skipped: this machine has no network interface but the loopback");
        return;
    }
    must_succeed(play("some far away"));
}

#[test]
#[ignore = "some minutes: every victim, waiter and operation"]
fn every_death() {
    let child = play("whole").spawn().unwrap();
    // Longer than `must_succeed` waits.
    assert!(child.wait_with_output().unwrap().status.success());
}
