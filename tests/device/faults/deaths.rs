//! Peers that are killed or stopped: survivors hear of it soon, by name, and go
//! on with the others.

use super::{Body, about, well_and_clean};
use crate::ensure;
use crate::harness::{
    Held, Result, Scenario, Watched, clean, content, die, leave_together, pids, signal, text,
};
use crate::limits::full_queues;
use crate::rma::{ALLOCATED, CREATED, Opens, late, make, own, pattern, same, word};
use rankway::boot::Boot;
use rankway::device::Context;
use rankway::netmod::Netmod;
use rankway::rankmap::RankMap;
use rankway::rma::{Access, Assert, Communicator, Error, Window};
use std::process::Output;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How soon a survivor must know.
const SOON: Duration = Duration::from_secs(5);

fn is_there(pid: u32) -> bool {
    // SAFETY: signal 0 only asks.
    unsafe { libc::kill(pid as i32, 0) == 0 }
}

/// What rank 0 says to rank 2 when it begins.
const BEGUN: u32 = 76;

/// Rank 0 has begun, which rank 2 waits for at `flag` of its memory in [`kill_until_told`].
fn begin<N: Netmod>(window: &Window<N>, flag: usize) -> Result {
    window.put(&word(0, 2, BEGUN), 2, flag).and_then(|()| window.flush(2)).map_err(text)
}

/// Kills rank 1 a while after rank 0 has begun, and makes progress until rank 0 says, at `flag`
/// of this rank's memory, that it has done all it was to do.
fn kill_until_told<N: Netmod>(window: &Window<N>, flag: usize, pids: &[u32]) -> Result {
    let (mut begun, mut killed) = (None, false);
    until_told(window, flag, |told| {
        if told == word(0, 2, BEGUN) {
            begun.get_or_insert_with(Instant::now);
        }
        if !killed && begun.is_some_and(|begun| begun.elapsed() > Duration::from_millis(200)) {
            signal(pids[1], libc::SIGKILL);
            killed = true;
        }
    })
}

/// Makes progress, and calls `each_round` as often, until rank 0 says at `flag` that
/// it is done.
fn until_told<N: Netmod>(
    window: &Window<N>,
    flag: usize,
    mut each_round: impl FnMut([u8; 8]),
) -> Result {
    let mut told = [0; 8];
    while told != word(0, 2, 77) {
        window.context().progress().map_err(text)?;
        each_round(told);
        window.read_local(flag, &mut told).map_err(text)?;
        std::thread::yield_now();
    }
    Ok(())
}

/// Answers the probes of rank 0's last flush.
fn answer_last<N: Netmod>(context: &Context<N>, pids: &[u32]) -> Result {
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(300) && is_there(pids[0]) {
        context.progress().map_err(text)?;
    }
    Ok(())
}

/// The survivors make windows of their own, which have no dead member: no failure of another
/// window's is theirs.
fn go_on<N: Netmod>(pair: Option<Communicator<N>>) -> Result {
    let pair = pair.ok_or("a survivor is none of the pair")?;
    let (me, other) = (pair.rank(), 1 - pair.rank());
    for kind in [make::<CREATED, N>, make::<ALLOCATED, N>] {
        let mut window = kind(&pair, 16, 1).map_err(text)?;
        let told = |what: &str, e: Error| format!("{what} of the survivors' window: {e}");
        window.fence().map_err(|e| told("a fence", e))?;
        window.put(&word(me, other, 5), other, 8).map_err(|e| told("a put", e))?;
        window.fence().map_err(|e| told("the fence behind a put", e))?;
        let mut got = [0; 8];
        window.read_local(8, &mut got).map_err(text)?;
        same("the survivors'", &got, &word(other, me, 5))?;
        window.free().map_err(|e| told("the end", e))?;
    }
    Ok(())
}

/// Rank 0 puts to rank 1, which is killed meanwhile, and goes on with rank 2.
/// `LEN` bytes a put: short ones are injected, long ones tracked. Rank 1 is
/// killed while it carries them out, or, if `IDLE`, while they pile up.
pub fn killed_in_puts<const KIND: u8, const LEN: usize, const IDLE: bool, N: Opens>(
    boot: Arc<dyn Boot>,
) -> Result {
    const FLAG: usize = 0x8000;
    let context = N::open(boot)?;
    let world = Communicator::world(&context);
    let pair = world.create([0, 2]).map_err(text)?;
    let w = make::<KIND, N>(&world, 0x1_0000, 1).map_err(text)?;
    let pids = pids(&world)?;
    let buf = pattern(7, LEN);
    w.fence().map_err(text)?;
    w.lock_all().map_err(text)?;
    match world.rank() {
        0 => {
            w.put(&buf, 2, 0).map_err(text)?;
            w.flush(2).map_err(text)?;
            begin(&w, FLAG)?;
            let mut died = None;
            let error = loop {
                // SAFETY: `buf` outlives the window's epoch.
                let put = (0..64).try_for_each(|_| unsafe { w.put_nb(buf.as_ptr(), LEN, 1, 0) });
                if let Err(e) = put.and_then(|()| w.flush(1)) {
                    break e;
                }
                if !is_there(pids[1]) {
                    let since: &Instant = died.get_or_insert_with(Instant::now);
                    ensure!(
                        since.elapsed() < SOON,
                        "rank 1 has been dead for {:?}",
                        since.elapsed()
                    );
                }
            };
            ensure!(!is_there(pids[1]) || died.is_none(), "an error before the death: {error}");
            about::<()>(Err(error), 1)?;
            same("the buffer of the failed put", &buf, &pattern(7, LEN))?;
            // Whoever still reads it has it: it stays.
            let buf = Vec::leak(buf);
            let watched = Watched::default();
            // Once more: refused at once, and the others are as they were.
            for round in 0..300_u32 {
                let again = watched
                    .reading("put", buf.to_vec(), |b| w.put(b, 1, 0).and_then(|()| w.flush(1)));
                about(again, 1)?;
                w.put(&word(0, 2, round), 2, 64 + round as usize * 8).map_err(text)?;
                w.flush(2).map_err(|e| format!("flush towards the living: {e}"))?;
            }
            let long = pattern(8, 9000);
            w.put(&long, 2, 0x4000).map_err(text)?;
            w.flush(2).map_err(text)?;
            let mut got = vec![0; 9000];
            w.get(&mut got, 2, 0x4000).map_err(text)?;
            same("got from the living", &got, &long)?;
            let idle = &mut || drop(context.progress());
            watched.unwritten(Duration::from_millis(100), idle)?;
            same("the buffer of a failed put", buf, &pattern(7, LEN))?;
            // The dead one's epoch ends too: well, or about it.
            if let Err(e) = w.flush_all() {
                about::<()>(Err(e), 1)?;
            }
            w.put(&word(0, 2, 77), 2, FLAG).map_err(text)?;
            w.flush(2).map_err(text)?;
            go_on(pair)
        }
        1 => {
            let start = Instant::now();
            loop {
                if IDLE && start.elapsed() > Duration::from_millis(100) {
                    std::thread::sleep(Duration::from_millis(10));
                } else {
                    context.progress().map_err(text)?;
                }
            }
        }
        _ => {
            kill_until_told(&w, FLAG, &pids)?;
            let all = own(&w)?;
            for round in 0..300 {
                same("after the death", &all[64 + round * 8..][..8], &word(0, 2, round as u32))?;
            }
            same("long, after the death", &all[0x4000..][..9000], &pattern(8, 9000))?;
            go_on(pair)?;
            answer_last(&context, &pids)
        }
    }
}

/// The same with gets, of bytes that are looked at.
pub fn killed_in_gets<const KIND: u8, N: Opens>(boot: Arc<dyn Boot>) -> Result {
    const LEN: usize = 9000;
    let context = N::open(boot)?;
    let world = Communicator::world(&context);
    let (me, pair) = (world.rank(), world.create([0, 2]).map_err(text)?);
    let w = make::<KIND, N>(&world, LEN + 8, 1).map_err(text)?;
    let pids = pids(&world)?;
    w.write_local(0, &pattern(me, LEN)).map_err(text)?;
    w.fence().map_err(text)?;
    w.lock_all().map_err(text)?;
    match me {
        0 => {
            let watched = Watched::default();
            let fetch = |rank: u32, len: usize| -> std::result::Result<Result, Error> {
                let call = |b: &mut [u8]| w.get(b, rank, 0).and_then(|()| w.flush(rank));
                let got = watched.filling("get", len, call)?;
                Ok(same("got", &got, &pattern(rank, LEN)[..len]))
            };
            begin(&w, LEN)?;
            let mut died = None;
            let error = loop {
                match fetch(1, LEN).and_then(|_| fetch(1, 8)) {
                    Ok(same) => same?,
                    Err(e) => break e,
                }
                if !is_there(pids[1]) {
                    let since: &Instant = died.get_or_insert_with(Instant::now);
                    ensure!(since.elapsed() < SOON, "rank 1 has been dead for long");
                }
            };
            about::<()>(Err(error), 1)?;
            about(fetch(1, 8), 1)?;
            for i in 0..100 {
                fetch(2, if i % 2 == 0 { LEN } else { 8 }).map_err(text)??;
            }
            let idle = &mut || drop(context.progress());
            watched.unwritten(Duration::from_millis(300), idle)?;
            w.put(&word(0, 2, 77), 2, LEN).map_err(text)?;
            w.flush(2).map_err(text)?;
            go_on(pair)
        }
        1 => loop {
            context.progress().map_err(text)?;
        },
        _ => {
            kill_until_told(&w, LEN, &pids)?;
            go_on(pair)?;
            answer_last(&context, &pids)
        }
    }
}

/// Ranks 0 and 256 of a map of 257 share a mark: a flush of all asks 256, which is
/// dead, though only 0 was put to. A flush of 0 does not, nor one of all where the
/// put was to a rank that shares with nobody.
pub fn shared_marks<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    const FLAG: usize = 256;
    let context = N::open(boot)?;
    let world = Communicator::world(&context);
    let w = make::<CREATED, N>(&world, 512, 1).map_err(text)?;
    let pids = pids(&world)?;
    let map = RankMap::from_lpids(0, (0..=256).map(|r| if r == 256 { 1 } else { 2 }));
    let state = w.state().map_err(text)?;
    let access = Access::open(&state, &context, &map.map_err(text)?).map_err(text)?;
    w.lock_all().map_err(text)?;
    world.barrier().map_err(text)?;
    match world.rank() {
        0 => {
            access.lock_all().map_err(text)?;
            for rank in [0, 256] {
                access.put(&word(0, 2, 1), rank, 0).map_err(text)?;
                access.flush(rank).map_err(text)?;
            }
            access.flush_all().map_err(text)?;
            signal(pids[1], libc::SIGKILL);
            while is_there(pids[1]) {
                std::thread::yield_now();
            }
            access.put(&word(0, 2, 2), 0, 8).map_err(text)?;
            access.flush(0).map_err(text)?;
            about(access.flush_all(), 1)?;
            for disp in [16, 24] {
                access.put(&word(0, 2, 3), 1, disp).map_err(text)?;
                access.flush_all().map_err(text)?;
            }
            w.put(&word(0, 2, 77), 2, FLAG).map_err(text)?;
            w.flush(2).map_err(text)?;
        }
        1 => loop {
            context.progress().map_err(text)?;
        },
        _ => {
            until_told(&w, FLAG, |_| ())?;
            let want = [1, 2, 3, 3].map(|number| word(0, 2, number)).concat();
            same("what was put", &own(&w)?[..32], &want)?;
            answer_last(&context, &pids)?;
        }
    }
    println!("rank {} done", world.rank());
    Ok(())
}

/// Rank 1 dies, and rank 0 drops a window for it that rank 2, which has not got
/// as far, still puts to: nothing changes there, nothing else between the
/// two suffers, and what fails, fails for the death.
pub fn dropped_for_a_death<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    const LEN: usize = 20_000;
    let context = N::open(boot.clone())?;
    let world = Communicator::world(&context);
    let me = world.rank();
    let w = make::<ALLOCATED, N>(&world, LEN, 1).map_err(text)?;
    let mut memory = vec![0x77_u8; LEN];
    // SAFETY: the memory outlives the window, and is looked at when the window
    // is gone.
    let dropped = unsafe { Window::create(&world, memory.as_mut_ptr(), LEN, 1) }.map_err(text)?;
    let pids = pids(&world)?;
    w.lock_all().map_err(text)?;
    dropped.lock_all().map_err(text)?;
    world.barrier().map_err(text)?;
    leave_together(&*boot, &context)?;
    if me == 1 {
        signal(pids[1], libc::SIGKILL);
    }
    about(world.barrier(), 1)?;
    let two = world.group().incl(&[0, 2]).map_err(text)?;
    let two = Communicator::with_id(&context, two.map().clone(), me / 2, 7);
    let dropped = (me == 2).then_some(dropped);
    if me == 0 {
        memory.fill(0x55);
    }
    two.barrier().map_err(text)?;
    let watched = Watched::default();
    if let Some(dropped) = &dropped {
        // Whether these are told is all the same.
        let told = [
            watched.reading("put", vec![2; 8], |b| dropped.put(b, 0, 8)),
            watched.reading("put", pattern(3, 9000), |b| dropped.put(b, 0, 16)),
            dropped.flush(0),
        ];
        told.into_iter().filter(std::result::Result::is_err).try_for_each(|e| about(e, 1))?;
        w.put(&pattern(4, 9000), 0, 16).map_err(text)?;
        w.flush(0).map_err(text)?;
    }
    two.barrier().map_err(text)?;
    if me == 0 {
        same("below a dropped window", &memory, &vec![0x55; LEN])?;
        same("beside it", &own(&w)?[16..9016], &pattern(4, 9000))?;
    }
    watched.unwritten(Duration::from_millis(100), &mut || drop(context.progress()))?;
    println!("rank {me} done");
    Ok(())
}

/// Rank 0 has dropped a window that rank 2 still asks it for, as after a collective that rank
/// 1's death ended; that death shows to rank 2 a moment after rank 0's answer, and is named.
pub fn killed_behind_a_refusal<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    let context = N::open(boot.clone())?;
    let world = Communicator::world(&context);
    let me = world.rank();
    let w = make::<CREATED, N>(&world, 64, 1).map_err(text)?;
    let pids = pids(&world)?;
    if me == 2 {
        w.lock_all().map_err(text)?;
    }
    world.barrier().map_err(text)?;
    leave_together(&*boot, &context)?;
    let w = (me != 0).then_some(w);
    world.barrier().map_err(text)?;
    match w {
        Some(w) if me == 2 => about(w.custom(1, &[0; 8], &mut [0; 8], 0, 0, 8), 1)?,
        Some(_) => {
            std::thread::sleep(Duration::from_millis(20));
            signal(pids[1], libc::SIGKILL);
        }
        None => answer_last(&context, &pids[2..])?,
    }
    println!("rank {me} done");
    Ok(())
}

/// The survivors are content, nothing is left.
pub fn survivors(output: &Output) -> Result {
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(said.contains("outcome: [Code(0), Signal(9), Code(0)]"), "other ends");
    clean(output)
}

/// Survivors of a collective hear of the death, all of them.
pub fn killed_in_collectives<const KIND: u8, const FENCES: bool, N: Opens>(
    boot: Arc<dyn Boot>,
) -> Result {
    let context = N::open(boot)?;
    let world = Communicator::world(&context);
    let me = world.rank();
    let pids = pids(&world)?;
    if me == 2 {
        let victim = pids[1];
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(150));
            signal(victim, libc::SIGKILL);
        });
    }
    let start = Instant::now();
    let watched = Watched::default();
    let turn = || -> std::result::Result<(), Error> {
        let mut w = make::<KIND, N>(&world, 4096, 8)?;
        w.fence()?;
        if FENCES {
            loop {
                let word = word(me, 0, 1).to_vec();
                watched.reading("put", word, |b| w.put(b, (me + 1) % 3, me as usize))?;
                w.fence()?;
            }
        }
        w.free()
    };
    let error = loop {
        if let Err(e) = turn() {
            break e;
        }
        ensure!(start.elapsed() < SOON * 2, "no error");
    };
    ensure!(start.elapsed() < SOON, "known only after {:?}", start.elapsed());
    // The other survivor may still put to this one: leaving now would be a
    // second end that it could hear of first.
    let heard = Instant::now();
    while FENCES && heard.elapsed() < Duration::from_secs(1) {
        context.progress().map_err(text)?;
        std::thread::yield_now();
    }
    watched.unwritten(Duration::from_millis(100), &mut || drop(context.progress()))?;
    about::<()>(Err(error), 1)
}

/// A fence in words.
fn meet<N: Netmod>(w: &Window<N>) -> std::result::Result<(), Error> {
    w.fence_in_words(Assert::NONE).expect("the members share words")
}

/// A window of all ranks, who have met in it, and their processes.
fn all_met<N: Opens>(boot: Arc<dyn Boot>) -> Result<(Communicator<N>, Held<N>, Vec<u32>)> {
    let context = N::open(boot)?;
    let world = Communicator::world(&context);
    let w = make::<CREATED, N>(&world, 64, 1).map_err(text)?;
    let pids = pids(&world)?;
    meet(&w).map_err(text)?;
    Ok((world, w, pids))
}

/// Rank 1 is killed as it leaves a fence in which the others still are: theirs ends well,
/// the next one names it.
pub fn killed_behind_a_fence<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    let (world, w, pids) = all_met::<N>(boot)?;
    match world.rank() {
        1 => {
            meet(&w).map_err(text)?;
            die()
        }
        2 => {
            // Rank 0 has come, and sees only behind rank 1's end that this one has.
            std::thread::sleep(Duration::from_millis(150));
            signal(pids[0], libc::SIGSTOP);
            std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(600));
                signal(pids[0], libc::SIGCONT);
            });
        }
        _ => {}
    }
    meet(&w).map_err(text)?;
    let start = Instant::now();
    about(meet(&w), 1)?;
    about(meet(&w), 1)?;
    ensure!(start.elapsed() < SOON, "known only after {:?}", start.elapsed());
    Ok(())
}

/// Rank 1 is killed, and rank 0 leaves a fence for that, and ends: rank 2, which comes
/// then, hears of the first death and not of the end that it led to.
pub fn killed_before_a_fence<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    let (world, w, pids) = all_met::<N>(boot)?;
    match world.rank() {
        0 => return about(meet(&w), 1),
        1 => die(),
        _ => {
            let start = Instant::now();
            while start.elapsed() < SOON && is_there(pids[0]) {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
    about(meet(&w), 1)?;
    about(meet(&w), 1)
}

/// Where rank 1 is no member, its death ends no fence, however long a member takes.
pub fn killed_beside_a_fence<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    let context = N::open(boot)?;
    let world = Communicator::world(&context);
    let pids = pids(&world)?;
    let Some(living) = world.create([2, 0]).map_err(text)? else {
        std::thread::sleep(Duration::from_secs(30));
        return Err("nobody killed this rank".into());
    };
    let w = make::<CREATED, N>(&living, 64, 1).map_err(text)?;
    meet(&w).map_err(text)?;
    if world.rank() == 2 {
        signal(pids[1], libc::SIGKILL);
        std::thread::sleep(Duration::from_millis(2600));
        w.put(&[7; 8], 1, 8).map_err(text)?;
        return meet(&w).map_err(text);
    }
    meet(&w).map_err(text)?;
    same("a put", &own(&w)?[8..16], &[7; 8])
}

/// A stopped peer is waited for.
pub fn stopped_in_puts<const KIND: u8, N: Opens>(boot: Arc<dyn Boot>) -> Result {
    let context = N::open(boot)?;
    let world = Communicator::world(&context);
    let w = make::<KIND, N>(&world, 4096, 8).map_err(text)?;
    let pids = pids(&world)?;
    w.fence().map_err(text)?;
    w.lock_all().map_err(text)?;
    match world.rank() {
        0 => {
            let mut round = 0_u32;
            let mut flag = [0; 8];
            while flag != word(2, 0, 1) {
                round += 1;
                for i in 1..64 {
                    w.put(&word(0, 1, round), 1, i).map_err(text)?;
                }
                w.flush(1).map_err(text)?;
                w.read_local(0, &mut flag).map_err(text)?;
            }
            ensure!(round > 2, "only {round} rounds");
            w.put(&round.to_le_bytes(), 1, 0).map_err(text)?;
        }
        1 => {}
        _ => {
            std::thread::sleep(Duration::from_millis(100));
            signal(pids[1], libc::SIGSTOP);
            // Longer than a wait takes before it asks whether the peer has left.
            let while_asked = Duration::from_millis(if KIND == CREATED { 3500 } else { 1800 });
            std::thread::sleep(while_asked);
            signal(pids[1], libc::SIGCONT);
            w.put(&word(2, 0, 1), 0, 0).map_err(text)?;
        }
    }
    w.unlock_all().map_err(text)?;
    w.fence().map_err(text)?;
    if world.rank() == 1 {
        let all = own(&w)?;
        let round = u32::from_le_bytes([all[0], all[1], all[2], all[3]]);
        for i in 1..64 {
            same("after the pause", &all[i * 8..][..8], &word(0, 1, round))?;
        }
    }
    Ok(())
}

/// Peers that are killed and stopped, over one network.
pub fn deaths<N: Opens>(network: &str, env: &[(&'static str, &str)]) -> Vec<Scenario> {
    let scenario = |what: &str, body: Body, verdict| {
        let s = Scenario::new(format!("{what}/{network}"), 3, body).verdict(verdict);
        env.iter().fold(s, |s, (key, value)| s.env(key, *value))
    };
    let killed: [(&str, Body); 23] = [
        ("killed in gets/created", killed_in_gets::<CREATED, N>),
        ("killed in gets/mapped", killed_in_gets::<ALLOCATED, N>),
        ("killed in puts, idle/created", killed_in_puts::<CREATED, 8, true, N>),
        ("killed in long puts, idle/created", killed_in_puts::<CREATED, 9000, true, N>),
        ("killed in puts, busy/created", killed_in_puts::<CREATED, 8, false, N>),
        ("killed in long puts, busy/created", killed_in_puts::<CREATED, 9000, false, N>),
        ("killed in puts/mapped", killed_in_puts::<ALLOCATED, 8, false, N>),
        ("killed in allocation", killed_in_collectives::<ALLOCATED, false, N>),
        ("killed in creation", killed_in_collectives::<CREATED, false, N>),
        ("killed in fences/created", killed_in_collectives::<CREATED, true, N>),
        ("killed in fences/mapped", killed_in_collectives::<ALLOCATED, true, N>),
        ("killed before a fence", killed_before_a_fence::<N>),
        ("killed behind a fence", killed_behind_a_fence::<N>),
        ("killed beside a fence", killed_beside_a_fence::<N>),
        ("killed beside a get, hopeless", late::writes::<{ late::GET }, false, N>),
        ("killed beside a get", late::writes::<{ late::GET }, true, N>),
        ("killed beside a long get", late::writes::<{ late::LONG_GET }, false, N>),
        ("killed beside a get of blocks", late::writes::<{ late::GET_LAYOUT }, true, N>),
        ("killed beside a put", late::writes::<{ late::PUT }, false, N>),
        ("killed beside a put of blocks", late::writes::<{ late::PUT_LAYOUT }, true, N>),
        ("killed beside a fetch", late::writes::<{ late::FETCH }, false, N>),
        ("killed beside an operator", late::operator::<N>),
        ("killed behind a refusal", killed_behind_a_refusal::<N>),
    ];
    let stopped: [(&str, Body); 2] = [
        ("stopped in puts/created", stopped_in_puts::<CREATED, N>),
        ("stopped in puts/mapped", stopped_in_puts::<ALLOCATED, N>),
    ];
    let killed = killed.into_iter().map(|(what, body)| scenario(what, body, survivors));
    let stopped = stopped.into_iter().map(|(what, body)| scenario(what, body, well_and_clean));
    let mut all: Vec<Scenario> = killed.chain(stopped).collect();
    let mut full = scenario("full queues", full_queues::<N>, content);
    full.ranks = 2;
    all.push(full);
    all
}
