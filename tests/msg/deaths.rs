//! Peers that die or stop amidst messages.

use super::{Opens, pattern, same};
use crate::ensure;
use crate::harness::{Result, clean, pids, signal, text};
use rankway::boot::Boot;
use rankway::datatype::{Basic, Layout};
use rankway::msg::{Active, Any, HandlerStatus, Messenger, MsgError};
use rankway::rma::Communicator;
use std::num::NonZeroU64;
use std::process::Output;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How soon a survivor must know.
const SOON: Duration = Duration::from_secs(5);

fn about<T>(result: std::result::Result<T, MsgError>, peer: u32) -> Result {
    match result {
        Ok(_) => Err(format!("no error about rank {peer}")),
        Err(e) if e.peer() == Some(peer) && e.to_string().contains(&format!("rank {peer}")) => {
            Ok(())
        }
        Err(e) => Err(format!("not about rank {peer}: {e}")),
    }
}

/// Does the same with rank 1 until that has died, whose name the error says.
fn until_dead<E>(
    start: Instant,
    mut act: impl FnMut() -> std::result::Result<E, MsgError>,
) -> Result {
    loop {
        let acted = act();
        if acted.is_err() {
            return about(acted, 1);
        }
        ensure!(start.elapsed() < SOON * 2, "no error");
    }
}

/// What rank 0 does while rank 1 dies.
pub const RECEIVE: u8 = 0;
pub const SEND: u8 = 1;
pub const RENDEZVOUS: u8 = 2;
pub const RTS: u8 = 3;
pub const LAYOUTS: u8 = 4;
pub const POSTS: u8 = 5;

/// Words with gaps, and pages: packed, and copied block by block.
fn layouts() -> Result<[Layout; 2]> {
    let of = |block: u64| {
        let of = Layout::contiguous(block, &Layout::basic(Basic::U8))?;
        Layout::vector((16 << 20) / block, 1, 2, &of)
    };
    Ok([of(8).map_err(text)?, of(16 << 10).map_err(text)?])
}

/// Rank 1 is killed while rank 0 is amidst something with it; rank 0 hears of
/// it by name and goes on with rank 2.
pub fn killed<N: Opens, const AMIDST: u8>(boot: Arc<dyn Boot>) -> Result {
    const LONG: usize = 32 << 20;
    let context = N::open(boot)?;
    let world = Communicator::world(&context);
    let m = Messenger::open(&world).map_err(text)?;
    let me = world.rank();
    let victim = pids(&world)?[1];
    let mut buf = vec![0; 64];
    match me {
        0 => {
            if AMIDST == RECEIVE {
                m.recv(&mut buf, 1, 1).map_err(text)?;
            }
            // The death is not far.
            m.send(&[], 2, 8).map_err(text)?;
            let start = Instant::now();
            match AMIDST {
                RECEIVE => {
                    // SAFETY: `buf` is not used until the request is gone.
                    let any = unsafe { m.irecv(buf.as_mut_ptr(), 64, Any, 9) };
                    let any = any.map_err(text)?;
                    let mut other = [0; 8];
                    about(m.recv(&mut other, 1, 2), 1)?;
                    // From anybody is still from rank 2.
                    let status = any.wait().map_err(text)?;
                    ensure!(status.source() == 2, "{status:?}");
                }
                SEND => {
                    let out = pattern(1, 900);
                    until_dead(start, || m.send(&out, 1, 1))?;
                    m.recv(&mut buf, 2, 9).map_err(text)?;
                }
                RENDEZVOUS => {
                    let out = pattern(1, LONG);
                    let mut got = vec![0; LONG];
                    until_dead(start, || {
                        m.send(&out, 1, 1)?;
                        m.recv(&mut got, 1, 1)
                    })?;
                    m.recv(&mut buf, 2, 9).map_err(text)?;
                }
                LAYOUTS => {
                    let all = layouts()?;
                    let (out, mut got) = (vec![7; LONG], vec![0; LONG]);
                    until_dead(start, || {
                        all.iter().try_for_each(|layout| {
                            m.send_layout(&out, 0, layout, 1, 1)?;
                            m.recv_layout(&mut got, 0, layout, 1, 1).map(drop)
                        })
                    })?;
                    m.recv(&mut buf, 2, 9).map_err(text)?;
                }
                POSTS => {
                    let active = Active::open(&context).map_err(text)?;
                    let (out, cookie) = (pattern(1, 20_000), NonZeroU64::MIN);
                    until_dead(start, || {
                        // SAFETY: waited for here, and `out` is kept until the test ends.
                        if unsafe { active.post(1, 5, &[], out.as_ptr(), out.len(), cookie)? } {
                            return Ok(());
                        }
                        loop {
                            context.progress_and_check()?;
                            if let Some((_, ended)) = active.next_posted() {
                                return ended.map_err(|e| *e);
                            }
                        }
                    })?;
                    std::mem::forget(out);
                    m.recv(&mut buf, 2, 9).map_err(text)?;
                }
                _ => {
                    about(m.ssend(&pattern(1, 70_000), 1, 77), 1)?;
                    m.recv(&mut buf, 2, 9).map_err(text)?;
                }
            }
            ensure!(start.elapsed() < SOON, "known only after {:?}", start.elapsed());
            // Once more: refused at once; the others are as they were.
            about(m.send(&[1], 1, 1), 1)?;
            about(m.recv(&mut buf, 1, 5), 1)?;
            for i in 0..100 {
                let out = pattern(i, [10, 50_000][i as usize % 2]);
                m.send(&out, 2, 3).map_err(text)?;
                let mut got = vec![0; out.len()];
                m.recv(&mut got, 2, 3).map_err(text)?;
                same("echo", &got, &out)?;
            }
            m.send(&[], 2, 4).map_err(text)
        }
        1 => {
            let mut got = vec![0; LONG];
            let active = Active::open(&context).map_err(text)?;
            match AMIDST {
                POSTS => active.register(5, |_| HandlerStatus::Consumed).map_err(text)?,
                RECEIVE => m.send(&[1], 0, 1).map_err(text)?,
                RENDEZVOUS => loop {
                    m.recv(&mut got, 0, 1).map_err(text)?;
                    m.send(&got, 0, 1).map_err(text)?;
                },
                LAYOUTS => {
                    let all = layouts()?;
                    loop {
                        for layout in &all {
                            m.recv_layout(&mut got, 0, layout, 0, 1).map_err(text)?;
                            m.send_layout(&got, 0, layout, 0, 1).map_err(text)?;
                        }
                    }
                }
                _ => {}
            }
            // Idle in its receive.
            m.recv(&mut got, 2, 1).map(drop).map_err(text)
        }
        _ => {
            m.recv(&mut [], 0, 8).map_err(text)?;
            let start = Instant::now();
            while start.elapsed() < Duration::from_millis(200) {
                context.progress().map_err(text)?;
                std::thread::sleep(Duration::from_millis(1));
            }
            signal(victim, libc::SIGKILL);
            while start.elapsed() < Duration::from_millis(800) {
                context.progress().map_err(text)?;
                std::thread::sleep(Duration::from_millis(1));
            }
            m.send(&[9], 0, 9).map_err(text)?;
            let mut got = vec![0; 50_000];
            for i in 0..100_u32 {
                let len = [10, 50_000][i as usize % 2];
                m.recv(&mut got, 0, 3).map_err(text)?;
                m.send(&got[..len], 0, 3).map_err(text)?;
            }
            m.recv(&mut got, 0, 4).map(drop).map_err(text)
        }
    }
}

/// Rank 1 is killed while rank 0 sends synchronously to both others: that to the living one waits
/// for its receive.
pub fn synchronous<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    let context = N::open(boot)?;
    let world = Communicator::world(&context);
    let m = Messenger::open(&world).map_err(text)?;
    let victim = pids(&world)?[1];
    let idle = |time| {
        let start = Instant::now();
        while start.elapsed() < time {
            context.progress().map_err(text)?;
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok::<_, String>(())
    };
    match world.rank() {
        0 => {
            let out = [7; 8];
            // SAFETY: `out` is not changed, and outlives both requests.
            let requests =
                [1, 2].map(|to| unsafe { m.issend(out.as_ptr(), out.len(), to, 1) }.map_err(text));
            let [dead, mut living] = requests;
            about(dead?.wait(), 1)?;
            idle(Duration::from_millis(300))?;
            let living = living.as_mut().map_err(|e| e.clone())?;
            ensure!(living.test().map_err(text)?.is_none(), "done, though nobody receives");
            m.send(&[], 2, 2).map_err(text)?;
            while living.test().map_err(text)?.is_none() {}
            Ok(())
        }
        1 => m.recv(&mut [], 2, 1).map(drop).map_err(text),
        _ => {
            idle(Duration::from_millis(200))?;
            signal(victim, libc::SIGKILL);
            m.recv(&mut [], 0, 2).map_err(text)?;
            let mut got = [0; 8];
            m.recv(&mut got, 0, 1).map_err(text)?;
            same("synchronous", &got, &[7; 8])
        }
    }
}

/// The survivors are content, nothing is left.
pub fn survivors(output: &Output) -> Result {
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(said.contains("outcome: [Code(0), Signal(9), Code(0)]"), "other ends");
    clean(output)
}

/// Of four, rank 1 is killed and rank 3 leaves: rank 0, which waits for anybody, hears of the
/// death, once in each communicator that had both, and goes on with rank 2, until nobody is left.
pub fn awaited_from_any<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    let context = N::open(boot)?;
    let world = Communicator::world(&context);
    let (copy, pair) = (world.dup(), world.create([0, 2]).map_err(text)?);
    let m = Messenger::open(&world).map_err(text)?;
    let (me, pids) = (world.rank(), pids(&world)?);
    if me > 0 {
        let mut word = [0];
        m.send(&[], 0, 9).map_err(text)?;
        loop {
            m.recv(&mut word, 0, 1).map_err(text)?;
            match word[0] {
                0 => return Ok(()),
                1 => std::thread::sleep(Duration::from_millis(1500)),
                _ => {}
            }
            m.send(&[], 0, 10).map_err(text)?;
            if let Some(pair) = &pair {
                Messenger::open(pair).and_then(|m| m.send(&[], 0, 10)).map_err(text)?;
            }
        }
    }
    (1..4).try_for_each(|rank| m.recv(&mut [], rank, 9).map(drop)).map_err(text)?;
    let pair = pair.ok_or("rank 0 has no pair")?;
    let (pair, copy) = (Messenger::open(&pair), Messenger::open(&copy));
    let (pair, copy) = (pair.map_err(text)?, copy.map_err(text)?);
    let posted = || {
        // SAFETY: nothing is received into.
        let post = |m: &Messenger<'_, N>| unsafe { m.irecv(std::ptr::null_mut(), 0, Any, 10) };
        post(&m).and_then(|all| Ok((all, post(&pair)?))).map_err(text)
    };
    let (all, mut two) = posted()?;
    let start = Instant::now();
    signal(pids[1], libc::SIGKILL);
    about(all.wait(), 1)?;
    let waited = start.elapsed();
    ensure!(waited > Duration::from_millis(900) && waited < SOON, "told after {waited:?}");
    about(copy.probe(Any, Any), 1)?;
    ensure!(copy.iprobe(Any, Any).map_err(text)?.is_none(), "told twice, or a message");
    ensure!(two.test().map_err(text)?.is_none(), "rank 2 has said nothing");
    m.send(&[2], 2, 1).map_err(text)?;
    let from = m.recv(&mut [], Any, 10).map_err(text)?.source();
    ensure!(from == 2 && two.wait().map_err(text)?.source() == 1, "from {from}");
    // Rank 3 has done its part; longer than a death is told after.
    m.send(&[0], 3, 1).map_err(text)?;
    m.send(&[1], 2, 1).map_err(text)?;
    let from = m.recv(&mut [], Any, 10).map_err(text)?.source();
    ensure!(from == 2, "from {from}");
    let of_pair = pair.recv(&mut [], Any, 10).map_err(text)?.source();
    ensure!(of_pair == 1, "from {of_pair}");
    let (all, two) = posted()?;
    signal(pids[2], libc::SIGKILL);
    for (left, others) in [(all, 3), (two, 1)] {
        let ended = left.wait();
        let as_said = matches!(&ended, Err(MsgError::NobodyLeft { others: n }) if *n == others);
        ensure!(as_said, "of {others}: {ended:?}");
    }
    Ok(())
}

/// The survivors of that are content, nothing is left.
pub fn first_and_last(output: &Output) -> Result {
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(said.contains("outcome: [Code(0), Signal(9), Signal(9), Code(0)]"), "other ends");
    clean(output)
}

/// The first word to peers that are about to end, each a little longer after it was killed: done, or
/// each is told by its name, though the system takes its files and its memory away before it tells of the end.
pub fn last_moments<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    let context = N::open(boot)?;
    let world = Communicator::world(&context);
    let m = Messenger::open(&world).map_err(text)?;
    let pids = pids(&world);
    // (That may meet the death of another.)
    while world.rank() > 0 {
        std::thread::sleep(Duration::from_secs(1));
    }
    let pids = pids?;
    for peer in 1..world.size() {
        signal(pids[peer as usize], libc::SIGKILL);
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_micros(80) * (peer - 1) {
            std::hint::spin_loop();
        }
        if let Err(e) = m.send(&[7], peer, 1) {
            ensure!(e.to_string().contains("died"), "rank {peer}: {e}");
            about::<()>(Err(e), peer)?;
        }
    }
    Ok(())
}

/// The job of [`last_moments`].
pub fn only_the_first(output: &Output) -> Result {
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(said.contains("outcome: [Code(0), Signal(9), Signal(9)"), "other ends");
    clean(output)
}

/// Several die of whom nobody has heard by then: a receive from anybody ends for each of them.
pub fn unheard<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    let context = N::open(boot)?;
    let world = Communicator::world(&context);
    crate::harness::print_pid();
    let m = Messenger::open(&world).map_err(text)?;
    if world.rank() > 0 {
        std::thread::sleep(Duration::from_millis(300));
        signal(std::process::id(), libc::SIGKILL);
    }
    std::thread::sleep(Duration::from_secs(1));
    for _ in 1..world.size() {
        ensure!(m.recv(&mut [], Any, 1).is_err(), "a message of nobody");
    }
    let last = m.recv(&mut [], Any, 1);
    ensure!(matches!(last, Err(MsgError::NobodyLeft { others: 2 })), "{last:?}");
    Ok(())
}

/// A stopped peer is waited for.
pub fn stopped<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    super::world::<N>(boot, |world, m| {
        let me = world.rank();
        let victim = pids(world)?[1];
        let mut buf = vec![0; 200_000];
        match me {
            0 => {
                for i in 0..50 {
                    m.send(&pattern(i, 100_000), 1, 1).map_err(text)?;
                    m.recv(&mut buf, 1, 2).map_err(text)?;
                }
                m.send(&[], 2, 3).map_err(text)
            }
            1 => {
                for i in 0..50 {
                    m.recv(&mut buf, 0, 1).map_err(text)?;
                    same("stopped", &buf[..100_000], &pattern(i, 100_000))?;
                    if i == 25 {
                        m.send(&[], 2, 4).map_err(text)?;
                        m.recv(&mut buf, 2, 5).map_err(text)?;
                    }
                    m.send(&[], 0, 2).map_err(text)?;
                }
                Ok(())
            }
            _ => {
                m.recv(&mut buf, 1, 4).map_err(text)?;
                signal(victim, libc::SIGSTOP);
                std::thread::sleep(Duration::from_millis(1500));
                signal(victim, libc::SIGCONT);
                m.send(&[], 1, 5).map_err(text)?;
                m.recv(&mut buf, 0, 3).map(drop).map_err(text)
            }
        }
    })
}
