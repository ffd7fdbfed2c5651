//! Calls that do not wait, in loops of the caller's own: the death of a peer that was
//! never spoken to is an error of theirs, too. So is that of one whose mapped memory stays.

use super::Body;
use crate::deaths::survivors;
use crate::ensure;
use crate::harness::{Opens, Result, Scenario, clean, pids, signal, text};
use crate::rma::{ALLOCATED, CREATED, make};
use rankway::boot::Boot;
use rankway::datatype::{Basic, Layout};
use rankway::msg::{Any, Messenger};
use rankway::netmod::{Netmod, Op, Type};
use rankway::rma::{Assert, Communicator, Lock, Window};
use std::process::Output;
use std::sync::Arc;
use std::time::{Duration, Instant};

const LOOPS: [&str; 11] = [
    "irecv", "anybody", "iprobe", "rget", "fetch", "window", "get", "rgets", "layouts", "swap",
    "lock",
];

/// How soon the loop must end.
const SOON: Duration = Duration::from_secs(10);

/// Calls until there is an error, which it returns.
fn until_error<T, E: ToString>(
    what: &str,
    mut call: impl FnMut() -> std::result::Result<Option<T>, E>,
) -> std::result::Result<String, String> {
    let start = Instant::now();
    loop {
        match call() {
            Ok(None) if start.elapsed() < SOON => {}
            Ok(None) => return Err(format!("{what}: nothing after {:?}", start.elapsed())),
            Ok(Some(_)) => return Err(format!("{what} was complete")),
            Err(e) => return Ok(e.to_string()),
        }
    }
}

/// A loop of calls about rank 1, or about anybody.
fn in_loop<N: Netmod>(
    which: &str,
    messages: &Messenger<N>,
    w: &Window<N>,
) -> std::result::Result<String, String> {
    // What a failed call may still write stays.
    let buf = Vec::leak(vec![0; 64]);
    let there = buf.as_mut_ptr();
    match which {
        "iprobe" => until_error(which, || messages.iprobe(1, 5)),
        "get" => until_error(which, || w.get(&mut [0; 8], 1, 0).map(|()| None::<()>)),
        "rgets" => until_error(which, || {
            // SAFETY: the memory stays.
            unsafe { w.rget(there, 8, 1, 0)? }.wait().map(|()| None::<()>)
        }),
        "layouts" => {
            let two = Layout::vector(2, 1, 2, &Layout::basic(Basic::U64)).map_err(text)?;
            until_error(which, || {
                w.get_layout(&mut [0; 24], 0, &two, 1, 0, &two).map(|()| None::<()>)
            })
        }
        "swap" => until_error(which, || w.compare_and_swap(1_u64, 2, 1, 0).map(|_| None::<()>)),
        "lock" => until_error(which, || {
            w.lock(Lock::Exclusive, 1, Assert::NONE)?;
            w.unlock(1).map(|()| None::<()>)
        }),
        "window" => {
            w.post(&[1], Assert::default()).map_err(text)?;
            until_error(which, || w.test().map(|done| done.then_some(())))
        }
        "rget" | "fetch" => {
            // SAFETY: the memory stays.
            let begun = unsafe {
                if which == "rget" {
                    w.rget(there, 8, 1, 0)
                } else {
                    w.rget_accumulate(there, there.add(8), 1, Type::U64, Op::Prod, 1, 0)
                }
            };
            let mut pending = begun.map_err(text)?;
            until_error(which, || pending.test().map(|done| done.then_some(())))
        }
        _ => {
            // SAFETY: the memory stays.
            let begun = unsafe {
                if which == "irecv" {
                    messages.irecv(there, 64, 1, 5)
                } else {
                    messages.irecv(there, 64, Any, 5)
                }
            };
            let mut request = begun.map_err(text)?;
            until_error(which, || request.test())
        }
    }
}

/// Rank 1, for a receive from anybody both others, is killed amidst rank 0's loop.
fn told<const LOOP: usize, N: Opens>(boot: Arc<dyn Boot>) -> Result {
    let context = N::open(Arc::clone(&boot))?;
    let world = Communicator::world(&context);
    let messages = Messenger::open(&world).map_err(text)?;
    let by_itself = ["get", "rgets", "layouts", "swap", "lock"].contains(&LOOPS[LOOP]);
    let kind = if by_itself { make::<ALLOCATED, N> } else { make::<CREATED, N> };
    let w = kind(&world, 64, 1).map_err(text)?;
    let pids = pids(&world)?;
    let all = LOOPS[LOOP] == "anybody";
    let mut got = [0];
    if all && world.rank() > 0 {
        messages.send(&[1], 0, 4).map_err(text)?;
    } else if all {
        for rank in 1..3 {
            messages.recv(&mut got, rank, 4).map_err(text)?;
        }
    }
    if !["window", "lock"].contains(&LOOPS[LOOP]) {
        w.lock_all().map_err(text)?;
    }
    world.barrier().map_err(text)?;
    match world.rank() {
        0 => {
            // The others have left the barrier, and carry out nothing any more.
            std::thread::sleep(Duration::from_millis(100));
            let victims = &pids[1..if all { 3 } else { 2 }];
            let error = std::thread::scope(|scope| {
                scope.spawn(|| {
                    std::thread::sleep(Duration::from_millis(600));
                    victims.iter().for_each(|&pid| signal(pid, libc::SIGKILL));
                });
                in_loop(LOOPS[LOOP], &messages, &w)
            })?;
            let named = if all { "all 2 others" } else { "rank 1" };
            ensure!(error.contains(named), "not about {named}: {error}");
            if !all {
                messages.send(&[7], 2, 9).map_err(|e| format!("to the living: {e}"))?;
                messages.recv(&mut got, 2, 9).map_err(|e| format!("from the living: {e}"))?;
            }
            Ok(())
        }
        1 => {
            std::thread::sleep(Duration::from_secs(60));
            Ok(())
        }
        _ => {
            messages.recv(&mut got, 0, 9).map_err(|e| format!("from the living: {e}"))?;
            messages.send(&[7], 0, 9).map_err(|e| format!("to the living: {e}"))?;
            let start = Instant::now();
            while start.elapsed() < Duration::from_millis(300) {
                context.progress().map_err(text)?;
            }
            Ok(())
        }
    }
}

/// Rank 0 is content, nothing is left.
fn last(output: &Output) -> Result {
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(said.contains("outcome: [Code(0), Signal(9), Signal(9)]"), "other ends");
    clean(output)
}

/// Each loop on a node, and between nodes.
pub fn loops<N: Opens>(network: &str, env: &[(&'static str, &str)], nodes: u32) -> Vec<Scenario> {
    let bodies: [Body; 11] = [
        told::<0, N>,
        told::<1, N>,
        told::<2, N>,
        told::<3, N>,
        told::<4, N>,
        told::<5, N>,
        told::<6, N>,
        told::<7, N>,
        told::<8, N>,
        told::<9, N>,
        told::<10, N>,
    ];
    let scenario = |(name, body): (&str, Body)| {
        let s = Scenario::new(format!("told in a loop, {name}/{network}"), 3, body).nodes(nodes);
        let s = s.verdict(if name == "anybody" { last } else { survivors });
        env.iter().fold(s, |s, (key, value)| s.env(key, *value))
    };
    // What is got on a node, or changed there, waits for nobody.
    let alone = |name: &str| nodes == 1 && ["rget", "fetch"].contains(&name);
    let told = LOOPS.into_iter().zip(bodies).filter(|(name, _)| !alone(name));
    told.map(scenario).collect()
}
