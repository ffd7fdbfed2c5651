//! Messages under way when a rank dies.

use super::onesided::base;
use super::pair;
use super::trial::*;
use crate::ensure;
use crate::harness::{Opens, Result, pattern, same, text};
use rankway::datatype::{Basic, Layout};
use rankway::msg::{Active, Call, HandlerStatus, Messenger};
use std::cell::Cell;
use std::rc::Rc;

pub const EAGER: u8 = 0;
pub const RENDEZVOUS: u8 = 1;
pub const PROBE: u8 = 2;
/// Sends that end when they are received.
pub const SSEND: u8 = 3;
/// Receives that are begun before the sends.
pub const IRECV: u8 = 4;
/// Both from and into every second eight bytes.
pub const LAYOUTS: u8 = 5;

/// Rounds in which everybody sends to everybody. Survivors go on with each
/// other until both have heard, which each message says of its sender.
pub fn rounds<N: Opens, const MODE: u8>(run: &Run<'_, N>) -> Result {
    let t = run.t;
    let w = base(run)?;
    let m = Messenger::open(&run.world).map_err(|e| format!("name: before: {e}"))?;
    run.go(30)?;
    for round in 0_u32.. {
        t.going()?;
        let told = t.heard();
        let peers: Vec<u32> = run.others().into_iter().filter(|&p| !told || p == t.other).collect();
        let mut receives = Vec::new();
        for &from in peers.iter().filter(|_| MODE == IRECV) {
            let mut into = vec![0; message::<MODE>(from, t.me, round).len()].into_boxed_slice();
            // SAFETY: kept until the request was waited for, and for ever where
            // that failed.
            let request = unsafe { m.irecv(into.as_mut_ptr(), into.len(), from, round) };
            match t.hear("irecv", request)? {
                Some(request) => receives.push((from, request, into)),
                None => t.watch("irecv", into),
            }
        }
        let mut sends = Vec::new();
        for &to in &peers {
            let mut out = message::<MODE>(t.me, to, round);
            out[0] = u8::from(told);
            let layout = spread(out.len())?;
            let out = if MODE == LAYOUTS { apart(&out) } else { out };
            // SAFETY: kept until the request was waited for, and for ever where
            // that failed.
            let request = unsafe {
                match MODE {
                    SSEND => m.issend(out.as_ptr(), out.len(), to, round),
                    LAYOUTS => m.isend_layout(out.as_ptr(), &layout, to, round),
                    _ => m.isend(out.as_ptr(), out.len(), to, round),
                }
            };
            match t.hear("isend", request)? {
                Some(request) => sends.push((request, out)),
                None => t.watch("isend", out),
            }
        }
        let mut came = Vec::new();
        for (from, request, into) in receives {
            let done = request.wait();
            match done.is_err() {
                true => t.watch("irecv", into),
                false => came.push((from, into)),
            }
            t.hear("irecv", done)?;
        }
        for &from in peers.iter().filter(|_| MODE != IRECV) {
            let len = message::<MODE>(from, t.me, round).len();
            came.extend(received::<N, MODE>(t, &m, len, from, round)?.map(|got| (from, got)));
        }
        let mut both = false;
        for (from, got) in came {
            let want = message::<MODE>(from, t.me, round);
            same(&format!("data: from {from} in round {round}"), &got[1..], &want[1..])?;
            both |= from == t.other && told && got[0] == 1;
        }
        for (request, out) in sends {
            let done = request.wait();
            if done.is_err() {
                t.watch("isend", out);
                t.hear("wait", done)?;
            }
        }
        if both && !t.is_victim() {
            break;
        }
    }
    pair::with_locks(run, &w)
}

fn message<const MODE: u8>(from: u32, to: u32, round: u32) -> Vec<u8> {
    let spread = mix((u64::from(round) << 8) + u64::from(from * 3 + to)) as usize;
    let len = match MODE {
        EAGER => 1 + spread % 3000,
        RENDEZVOUS => 40_000 + spread % 300_000,
        LAYOUTS => 8 + spread % 5000 * 8,
        _ => 1 + spread % 40_000,
    };
    pattern(round * 9 + from * 3 + to, len)
}

/// Every second eight bytes.
fn spread(len: usize) -> Result<Layout> {
    Layout::hvector(len as u64 / 8, 8, 16, &Layout::basic(Basic::U8)).map_err(text)
}

/// Bytes as they lie there.
fn apart(dense: &[u8]) -> Vec<u8> {
    dense.chunks_exact(8).flat_map(|b| [b, &[0; 8]].concat()).collect()
}

fn received<N: Opens, const MODE: u8>(
    t: &Trial,
    m: &Messenger<'_, N>,
    len: usize,
    from: u32,
    tag: u32,
) -> Result<Option<Box<[u8]>>> {
    if MODE == PROBE {
        let Some(message) = t.hear("mprobe", m.mprobe(from, tag))? else { return Ok(None) };
        let length = message.status().length as usize;
        ensure!(length == len, "data: {length} bytes were probed, not {len}");
        return t.filling("mrecv", len, |b| message.recv(b));
    }
    if MODE == LAYOUTS {
        let layout = spread(len)?;
        let call = |b: &mut [u8]| m.recv_layout(b, 0, &layout, from, tag);
        let Some(got) = t.filling("recv_layout", 2 * len, call)? else { return Ok(None) };
        let dense: Vec<u8> = got.chunks_exact(16).flat_map(|b| &b[..8]).copied().collect();
        same("data: between the blocks", &apart(&dense), &got)?;
        return Ok(Some(dense.into()));
    }
    t.filling("recv", len, |b| m.recv(b, from, tag))
}

/// Questions to both others, answered from within handlers.
pub fn active<N: Opens>(run: &Run<'_, N>) -> Result {
    let t = run.t;
    let w = base(run)?;
    let active = Active::open(&run.context).map_err(|e| format!("name: before: {e}"))?;
    let answered = Rc::new(Cell::new(0_u64));
    let wrong = Rc::new(Cell::new(false));
    let ask = |call: &mut Call<'_, N>| {
        if let Some(reply) = call.reply() {
            // The one who asked may be dead.
            let _ = reply.send(2, call.header, call.payload);
        }
        HandlerStatus::Consumed
    };
    let (count, seen) = (Rc::clone(&answered), Rc::clone(&wrong));
    let answer = move |call: &mut Call<'_, N>| {
        let seed = call.header.try_into().map_or(0, u32::from_le_bytes);
        seen.set(seen.get() | (call.payload != pattern(seed, seed as usize % 3000)));
        count.set(count.get() + 1);
        HandlerStatus::Consumed
    };
    active.register(1, ask).map_err(|e| format!("name: before: {e}"))?;
    active.register(2, answer).map_err(|e| format!("name: before: {e}"))?;
    run.world.barrier().map_err(|e| format!("name: before: {e}"))?;
    run.go(30)?;
    while t.going()? {
        for to in run.others() {
            let seed = t.random(1 << 20) as u32;
            let payload = pattern(seed, seed as usize % 3000);
            let sent = active.request(to, 1, &seed.to_le_bytes(), &payload);
            if t.hear("request", sent)?.is_some() {
                let before = answered.get();
                let waited = active.wait_until(to, || active.owed(to) == 0);
                let answer = t.hear("wait_until", waited)?.is_none() || answered.get() > before;
                ensure!(answer, "data: no answer of {to}, and no error");
            }
        }
    }
    // The living still answers.
    let before = answered.get();
    let sent = active.request(t.other, 1, &9_u32.to_le_bytes(), &pattern(9, 9));
    sent.and_then(|()| active.wait_until(t.other, || active.owed(t.other) == 0))
        .map_err(|e| format!("pair: an active message: {e}"))?;
    ensure!(answered.get() > before, "pair: no answer");
    ensure!(!wrong.get(), "data: in an answer");
    pair::with_locks(run, &w)
}
