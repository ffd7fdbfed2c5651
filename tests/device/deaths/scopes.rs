//! Scopes, whose operations are over when they return, and the mailbox, which other
//! threads read, when a rank dies.

use super::onesided::base;
use super::pair;
use super::trial::*;
use crate::ensure;
use crate::harness::{Opens, Result, pattern, same};
use rankway::msg::{Active, Mailbox, Messenger};
use rankway::netmod::Op;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::time::Duration;

/// Elements of a source's part of a window, and of the part that is read.
const PART: usize = 6000;
const LAST: usize = RANKS * PART;

/// Puts, gets and sums of a window of bytes, each lap in a scope.
pub fn on_windows<N: Opens>(run: &Run<'_, N>) -> Result {
    let before = |e: &dyn std::fmt::Display| format!("name: before: {e}");
    let (t, w) = (run.t, base(run)?);
    let builder = run.world.window::<u8>();
    let typed = match t.common(3, 2) {
        0 => builder.len(LAST + LONG_LEN + RANKS).allocate(),
        _ => builder.create(vec![0; LAST + LONG_LEN + RANKS]),
    };
    let typed = typed.map_err(|e| before(&e))?;
    typed.write_local(LAST, &readable(t.me)).map_err(|e| before(&e))?;
    run.world.barrier().map_err(|e| before(&e))?;
    typed.lock_all().map_err(|e| before(&e))?;
    run.go(30)?;
    while t.going()? {
        for to in run.others() {
            let sums = &board().sums[t.me as usize][to as usize];
            let (done, most) = sums.read();
            sums.begin();
            let (mine, seed) = (t.me as usize * PART, t.random(1 << 20) as u32);
            let (long, short) = (pattern(seed, PART - 8), pattern(seed + 1, 8));
            let (mut got, mut old) = (vec![0; LONG_LEN], vec![0; 1]);
            let ended = typed.scope(|s| {
                s.put(&long, to, mine)?;
                s.put(&short, to, mine + PART - 8)?;
                s.get(&mut got, to, LAST)?;
                s.get_accumulate(&[1], &mut old, Op::Sum, to, LAST + LONG_LEN + t.me as usize)
            });
            if t.hear("a scope", ended)?.is_none() {
                // They are free: nobody has them.
                [long, short, got, old].into_iter().for_each(|buf| t.watch("scope", buf));
                continue;
            }
            same("data: got in a scope", &got, &readable(to))?;
            let above = u64::from(old[0].wrapping_sub(done as u8));
            ensure!(above <= most - done, "data: fetched {}, not {done} to {most}", old[0]);
            sums.done.store(done + above + 1, SeqCst);
            sums.begun.store(done + above + 1, SeqCst);
            let mut back = vec![0; PART];
            let ended = typed.scope(|s| s.get(&mut back, to, mine));
            match t.hear("a scope", ended)? {
                Some(()) => same("data: put in a scope", &back, &[long, short].concat())?,
                None => t.watch("scope", back),
            }
        }
    }
    t.hear("unlock_all", typed.unlock_all())?;
    // (The sums here are of another place than those that are checked.)
    board().sums[t.me as usize].iter().for_each(|sum| sum.done.store(0, SeqCst));
    pair::with_locks(run, &w)
}

/// Rounds of messages, each in a scope; survivors go on with each other until both
/// have heard.
pub fn of_messages<N: Opens>(run: &Run<'_, N>) -> Result {
    let (t, w) = (run.t, base(run)?);
    let m = Messenger::open(&run.world).map_err(|e| format!("name: before: {e}"))?;
    let message = |from: u32, to: u32, round: u32| {
        let spread = mix((u64::from(round) << 8) + u64::from(from * 3 + to)) as usize;
        pattern(round * 9 + from * 3 + to, 1 + spread % [3000, 300_000][round as usize % 2])
    };
    run.go(30)?;
    for round in 0_u32.. {
        t.going()?;
        let told = t.heard();
        let peers: Vec<u32> = run.others().into_iter().filter(|&p| !told || p == t.other).collect();
        let mut out: Vec<_> = peers.iter().map(|&to| message(t.me, to, round)).collect();
        out.iter_mut().for_each(|out| out[0] = u8::from(told));
        let mut into: Vec<_> =
            peers.iter().map(|&from| vec![0; message(from, t.me, round).len()]).collect();
        let (mut came, mut failed) = (Vec::new(), Vec::new());
        let ended = m.scope(|s| {
            let mut receives = Vec::new();
            for (&from, into) in peers.iter().zip(&mut into) {
                match s.recv(&mut into[..], from, round) {
                    Ok(receive) => receives.push((from, receive)),
                    Err(e) => failed.push(e),
                }
            }
            for (&to, out) in peers.iter().zip(&out) {
                let sent = match round % 3 {
                    0 => s.ssend(&out[..], to, round),
                    _ => s.send(&out[..], to, round),
                };
                failed.extend(sent.err());
            }
            for (from, receive) in receives {
                match receive.wait() {
                    Ok((_, got)) => came.push((from, got.to_vec())),
                    Err(e) => failed.push(e),
                }
            }
            Ok(())
        });
        let well = failed.is_empty() && ended.is_ok();
        for error in failed {
            t.hear::<(), _>("a message of a scope", Err(error))?;
        }
        t.hear("a scope of messages", ended)?;
        if !well {
            into.into_iter().chain(out).for_each(|buf| t.watch("scope of messages", buf));
        }
        let mut both = false;
        for (from, got) in came {
            let want = message(from, t.me, round);
            same(&format!("data: from {from} in round {round}"), &got[1..], &want[1..])?;
            both |= from == t.other && told && got[0] == 1;
        }
        if both && !t.is_victim() {
            break;
        }
    }
    pair::with_locks(run, &w)
}

/// What the reader of a mailbox saw: the next number of each sender, whose last
/// message came, and that nothing was wrong.
#[derive(Default)]
struct Seen {
    next: [AtomicU32; RANKS],
    last: [AtomicBool; RANKS],
    wrong: AtomicBool,
    stop: AtomicBool,
}

/// Messages to both others, which a thread of theirs reads.
pub fn mailbox<N: Opens>(run: &Run<'_, N>) -> Result {
    const LAST: u8 = 1;
    let before = |e: &dyn std::fmt::Display| format!("name: before: {e}");
    let (t, w) = (run.t, base(run)?);
    let active = Active::open(&run.context).map_err(|e| before(&e))?;
    let mailbox = Mailbox::open(&active, 3, 16).map_err(|e| before(&e))?;
    run.world.barrier().map_err(|e| before(&e))?;
    let seen = Seen::default();
    let read = || {
        loop {
            let stop = seen.stop.load(SeqCst);
            let Some(message) = mailbox.wait(Duration::from_millis(5)) else {
                // The dead one's messages may come behind the other's last.
                if stop {
                    break;
                }
                continue;
            };
            let from = message.from as usize;
            let number = seen.next[from].load(SeqCst);
            let want = pattern(number, number as usize % 3000);
            let right = message.header[..4] == number.to_le_bytes() && message.payload == want;
            let right = right && !seen.last[from].load(SeqCst);
            seen.wrong.fetch_or(!right, SeqCst);
            seen.next[from].store(number + 1, SeqCst);
            seen.last[from].fetch_or(message.header[4] == LAST, SeqCst);
        }
    };
    let mut sent = [0_u32; RANKS];
    let mut send = |to: u32, kind: u8| {
        let number = sent[to as usize];
        let header = [&number.to_le_bytes()[..], &[kind]].concat();
        let done = active.send(to, 3, &header, &pattern(number, number as usize % 3000));
        sent[to as usize] += u32::from(done.is_ok());
        done
    };
    std::thread::scope(|scope| {
        scope.spawn(read);
        let talked = (|| {
            run.go(30)?;
            while t.going()? {
                for to in run.others() {
                    t.hear("send", send(to, 0))?;
                }
            }
            send(t.other, LAST).map_err(|e| format!("pair: a last message: {e}"))?;
            let last = || seen.last[t.other as usize].load(SeqCst);
            t.wait("the other's last message", last, &mut || run.idle())
        })();
        seen.stop.store(true, SeqCst);
        talked
    })?;
    ensure!(!seen.wrong.load(SeqCst), "data: in the mailbox");
    pair::with_locks(run, &w)
}
